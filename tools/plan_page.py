"""`lemurc plan --html`: one page that shows a plan, and asks nothing of any network.

The page is a template, plan_page.html, with the plan as JSON inside. A module's name may be
anything, so nothing in the JSON can end the element it is in, and the page's script writes
text only, never markup.
"""

import json
from importlib.resources import files
from typing import Any

from lemurc.tools.measured import Measured
from lemurc.tools.plan import PlanResult
from lemurc.tools.report import plain
from lemurc.tools.timeline import memory, predicted

TEMPLATE, DATA = "plan_page.html", "@@DATA@@"
_ESCAPED = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def page(result: PlanResult, measured: Measured | None = None) -> str:
    """The page of the first plan of `result`, with what was measured of it."""
    schedules = {}
    for function in result.plans[0].functions:
        spans = predicted(function)
        schedules[function.name] = {"spans": spans, "memory": memory(function, spans)}
    data = {"plan": result, "schedules": schedules, "measured": measured}
    template = files("lemurc.tools").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return template.replace(DATA, _embedded(data))


def _embedded(data: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(plain(data), ensure_ascii=False)
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text
