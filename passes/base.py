"""What a pass is.

A pass is a frozen dataclass whose fields are its options, a name, and `run`, which
changes a module in place. It may assume IR that verifies and must leave IR that
verifies; run twice, it changes nothing the second time.
"""

import dataclasses
import difflib
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch_mlir import ir

from lemurc.errors import InternalError, UsageError


class PassError(InternalError):
    """A pass failed: the fault is lemurc's. `hint` is the command that reproduces it."""

    code = "pass-failed"


@dataclass(frozen=True)
class Pass:
    """Subclass with `name`, option fields with defaults, and `run`."""

    name: ClassVar[str]
    optional: ClassVar[bool] = False
    """Whether programs are right without it: `bisect` leaves such passes out."""

    def run(self, module: ir.Operation) -> None:
        raise NotImplementedError

    @classmethod
    def parse(cls, options: str) -> Self:
        """From the text between braces: `objective=latency time-limit=5`.

        Names are the fields', with dashes or underscores; values are read as the
        field's type.
        """
        kinds = typing.get_type_hints(cls)
        fields = {field.name: kinds[field.name] for field in dataclasses.fields(cls)}
        given: dict[str, Any] = {}
        for item in options.split():
            key, equals, text = item.partition("=")
            field = key.replace("-", "_")
            if field not in fields:
                near = difflib.get_close_matches(field, fields, 1)
                known = ", ".join(fields) or "none"
                raise UsageError(
                    f"pass '{cls.name}' has no option '{key}'",
                    code="unknown-option",
                    hint=f"did you mean '{near[0]}'?" if near else f"its options: {known}",
                )
            given[field] = _value(cls.name, key, fields[field], text if equals else "true")
        return cls(**given)

    def __str__(self) -> str:
        """As in a textual pipeline; options at their defaults are left out."""
        changed = [
            f"{field.name}={_text(getattr(self, field.name))}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return self.name + (f"{{{' '.join(changed)}}}" if changed else "")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(name: str, key: str, kind: type, text: str) -> Any:
    if kind is bool and text in ("true", "false", "1", "0"):
        return text in ("true", "1")
    try:
        if kind is not bool:
            return kind(text)
    except ValueError:
        pass
    raise UsageError(
        f"option '{key}' of pass '{name}' takes a {kind.__name__}, not '{text}'",
        code="bad-option",
    )
