"""Textual pipelines: `simplify,func.func(canonicalize,cse),place{objective=latency}`.

    pipeline := step (',' step)*
    step     := name ['{' options '}'] ['(' pipeline ')']

Steps that name one of our passes become `Pass` objects; all else stays text, which
MLIR's own pass manager reads.
"""

from lemurc.errors import UsageError
from lemurc.passes import registry
from lemurc.passes.base import Pass

Step = Pass | str


def parse(text: str) -> list[Step]:
    """A `builtin.module(...)` around the whole pipeline is allowed and dropped."""
    text = text.strip()
    if text.startswith("builtin.module(") and text.endswith(")"):
        text = text[len("builtin.module(") : -1]
    return [_step(item) for item in _split(text)]


def _step(text: str) -> Step:
    for index, char in enumerate(text):
        if char == "(":
            _refuse_ours_inside(text[:index], text[index + 1 : -1])
            return text
        if char == "{":
            return _named(text[:index].strip(), text[index + 1 : -1]) or text
    return _named(text, "") or text


def _named(name: str, options: str) -> Step | None:
    found = registry.find(name)
    return found.parse(options) if found else None


def _refuse_ours_inside(anchor: str, inner: str) -> None:
    for item in _split(inner):
        if isinstance(_step(item), Pass):
            raise UsageError(
                f"'{item}' works on a whole module and cannot be nested in '{anchor}'",
                code="bad-pipeline",
                hint=f"write it beside '{anchor}(...)', not inside",
            )


def _split(text: str) -> list[str]:
    """Cut at the commas that are outside every bracket."""
    items, closers, start = [], [], 0
    for index, char in enumerate(text):
        if char in "({":
            closers.append(")" if char == "(" else "}")
        elif char in ")}":
            if not closers or closers.pop() != char:
                raise UsageError(f"unmatched '{char}' in pipeline '{text}'", code="bad-pipeline")
        elif char == "," and not closers:
            items.append(text[start:index].strip())
            start = index + 1
    if closers:
        raise UsageError(f"missing '{closers[-1]}' in pipeline '{text}'", code="bad-pipeline")
    items.append(text[start:].strip())
    if "" in items and len(items) > 1:
        raise UsageError(f"an empty step in pipeline '{text}'", code="bad-pipeline")
    return [item for item in items if item]
