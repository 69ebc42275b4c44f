"""JSON Schemas of everything lemurc prints or stores as JSON, from the dataclasses.

`python docs/schema/generate.py` rewrites the files beside this one; a test compares. A
change that an old reader cannot live with needs a new version: another file name, and the
`schema` field of the document with it. Added fields do not.
"""

import dataclasses
import inspect
import json
import types
import typing
from pathlib import Path
from typing import Any

from lemurc.manifest import Manifest
from lemurc.system_file import SystemDescription
from lemurc.tools.bench import BenchResult
from lemurc.tools.bisect import BisectResult
from lemurc.tools.commands.compile import CompileSummary
from lemurc.tools.conformance import ConformanceResult
from lemurc.tools.devices import DevicesResult
from lemurc.tools.doctor import DoctorResult
from lemurc.tools.inspect import InspectResult
from lemurc.tools.plan import PlanResult
from lemurc.tools.probe import ProbeResult
from lemurc.tools.report import ErrorReport
from lemurc.tools.run import RunResult
from lemurc.tools.targets import TargetsResult
from lemurc.tools.trace import TraceResult
from lemurc.tools.verify import VerifyResult

DOCUMENTS: dict[str, type] = {
    "bench.v1": BenchResult,
    "bisect.v1": BisectResult,
    "compile.v1": CompileSummary,
    "conformance.v1": ConformanceResult,
    "devices.v1": DevicesResult,
    "doctor.v1": DoctorResult,
    "error.v1": ErrorReport,
    "inspect.v1": InspectResult,
    "manifest.v1": Manifest,
    "plan.v1": PlanResult,
    "probe.v1": ProbeResult,
    "run.v1": RunResult,
    "system.v1": SystemDescription,
    "targets.v1": TargetsResult,
    "trace.v1": TraceResult,
    "verify.v1": VerifyResult,
}
READ = {SystemDescription}
"""Documents that people write: what has a default may be left out, nothing may be added."""

SIMPLE = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def schema(name: str) -> dict[str, Any]:
    """The schema of document `name`; documents but the manifest name it in `schema`."""
    definitions: dict[str, Any] = {}
    kind = DOCUMENTS[name]
    _of(kind, definitions)
    if kind in READ:
        for definition in definitions.values():
            definition["additionalProperties"] = False
            for item in definition["properties"].values():
                if item.get("additionalProperties", {}).get("type") == ["number", "null"]:
                    item["type"] = ["object", "number"]  # one rate for everything
    top = definitions.pop(kind.__name__)
    if kind is not Manifest:
        top["properties"]["schema"] = {"const": name}
        top["required"] = top["required"] if kind in READ else ["schema", *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **top,
        "$defs": definitions,
    }


def _of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        _define(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is tuple:
        return {"type": "array", "items": _of(args[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(args[1], definitions)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(arg, definitions) for arg in args]}
    if kind is float:
        return {"type": ["number", "null"], "description": "null when not finite"}
    return {} if kind is Any else {"type": SIMPLE[kind]}


def _define(kind: Any, definitions: dict[str, Any]) -> None:
    if kind.__name__ in definitions:
        return
    definitions[kind.__name__] = {}
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    written = not kind.__doc__.startswith(kind.__name__ + "(")  # dataclass makes one up
    definitions[kind.__name__] = {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__) if written else "",
        "properties": {name: _of(hints[name], definitions) for name in names},
        "required": [field.name for field in dataclasses.fields(kind) if _is_required(field)]
        if kind.__module__ == SystemDescription.__module__
        else names,
    }


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


if __name__ == "__main__":
    for document in DOCUMENTS:
        text = json.dumps(schema(document), indent=1, sort_keys=True) + "\n"
        Path(__file__).with_name(f"{document}.json").write_text(text, encoding="utf-8")
