"""`expected-error@+1 {{text}}` comments, compared with what was really reported.

As in mlir-opt: `expected-error`, `-warning`, `-remark` or `-note`, an optional
`@+n`, `@-n`, `@above`, `@below` or `@unknown`, and text that the message contains.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_COMMENT = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)"
    r"(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)


@dataclass(frozen=True)
class Diagnostic:
    """`line` 0 means that the place is not known."""

    file: str
    line: int
    column: int
    severity: str
    message: str
    notes: tuple["Diagnostic", ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        return "\n".join([f"{place}{self.severity}: {self.message}", *map(str, self.notes)])


@dataclass(frozen=True)
class Expected:
    line: int
    severity: str
    text: str


def expectations(source: str) -> list[Expected]:
    found = []
    for number, line in enumerate(source.split("\n"), 1):
        for match in _COMMENT.finditer(line):
            where = match["where"] or "+0"
            offset = {"above": -1, "below": 1}.get(where)
            if where == "unknown":
                target = 0
            else:
                target = number + (int(where) if offset is None else offset)
            found.append(Expected(target, match["severity"], match["text"]))
    return found


def mismatches(source: str, name: str, seen: Sequence[Diagnostic]) -> list[str]:
    """A line for each diagnostic that nobody expected and each that did not come."""
    remaining = expectations(source)
    wrong = []
    for diagnostic in _flat(seen):
        for expected in remaining:
            if (
                expected.severity == diagnostic.severity
                and expected.line == diagnostic.line
                and expected.text in diagnostic.message
            ):
                remaining.remove(expected)
                break
        else:
            if diagnostic.severity == "error":
                wrong.append(f"unexpected: {diagnostic}")
    for expected in remaining:
        place = f"{name}:{expected.line}" if expected.line else name
        wrong.append(f"{place}: expected {expected.severity} '{expected.text}' was not reported")
    return wrong


def _flat(seen: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in seen:
        yield diagnostic
        yield from diagnostic.notes
