"""`adamw:lr=3e-4,weight_decay=0.1`: an optimizer in the spelling of the command line."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any, get_args

from lemurc.errors import UsageError
from lemurc.frontend.optimizers import SGD, Adam, Lion, Optimizer


def _adamw(**options: Any) -> Adam:
    return Adam(decoupled=True, **{"weight_decay": 1e-2, **options})


_KNOWN: dict[str, tuple[Callable[..., Optimizer], type]] = {
    "sgd": (SGD, SGD),
    "adam": (Adam, Adam),
    "adamw": (_adamw, Adam),
    "lion": (Lion, Lion),
}
_EXAMPLE = "write NAME or NAME:OPTION=VALUE,..., such as adamw:lr=3e-4,weight_decay=0.1"


def parse_optimizer(spec: Any) -> Optimizer:
    """An optimizer of optimizers.py as it is, or the one that a spec describes."""
    if isinstance(spec, get_args(Optimizer)):
        return _checked(spec)
    if not isinstance(spec, str):
        raise _bad(f"an optimizer is a spec or one of lemurc's, not a {type(spec).__name__}")
    name, _, rest = spec.partition(":")
    if name not in _KNOWN:
        raise _bad(f"there is no optimizer {name!r}", _suggestion(name, list(_KNOWN)))
    make, kind = _KNOWN[name]
    fields = {item.name: item.type for item in dataclasses.fields(kind) if item.name != "decoupled"}
    options: dict[str, Any] = {}
    for part in rest.split(",") if rest else ():
        key, equals, text = part.partition("=")
        if key in fields and not equals:
            raise _bad(f"{key} has no value")
        if key not in fields:
            raise _bad(f"{name} has no option {part!r}", _suggestion(key, list(fields)))
        options[key] = _value(key, text, fields[key] is bool)
    return _checked(make(**options))


def _value(key: str, text: str, is_flag: bool) -> float | bool:
    if is_flag:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise _bad(f"{key} is true or false, not {text!r}")
    try:
        return float(text)
    except ValueError:
        raise _bad(f"{key} is a number, not {text!r}") from None


def _checked(optimizer: Optimizer) -> Optimizer:
    """The ranges that PyTorch's optimizers demand."""
    for item in dataclasses.fields(optimizer):
        value = getattr(optimizer, item.name)
        if value is None or isinstance(value, bool):
            continue
        below_one = item.name.startswith("beta")
        if not (0 <= value < 1 if below_one else 0 <= value < float("inf")):
            bound = "from 0 to below 1" if below_one else "a number from 0 on"
            raise _bad(f"{item.name} is {bound}, not {value:g}")
    if isinstance(optimizer, SGD) and optimizer.nesterov:
        if not optimizer.momentum or optimizer.dampening:
            raise _bad("nesterov needs a momentum and no dampening")
    return optimizer


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


def _bad(message: str, hint: str = _EXAMPLE) -> UsageError:
    return UsageError(message, code="bad-optimizer", where="--optimizer", hint=hint)
