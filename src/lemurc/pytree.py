"""Nested Python containers as a flat list of leaves and a JSON description.

A frontend describes the arguments and results of a model once; the runtime, which
has no PyTorch, takes a call apart and puts a result together by that description:

    {"kind": "leaf"}                                     the next tensor
    {"kind": "number"}                                   the next tensor, as a Python number
    {"kind": "const", "value": 3}                        None, bool, int, float, str
    {"kind": "list" | "tuple", "items": [...]}
    {"kind": "dict", "keys": [...], "items": [...]}      any key order at a call
    {"kind": "record", "type": "module:Class", "keys": [...], "items": [...],
     "base": "namedtuple" | "structseq" | "dataclass" | "mapping"}

A structseq is what `torch.max(x, 0)` returns: CPython's named tuple written in C.
"""

import collections
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from lemurc.errors import InputError

Tree = dict[str, Any]
LEAF: Tree = {"kind": "leaf"}
NUMBER: Tree = {"kind": "number"}
CONSTANTS = (type(None), bool, int, float, str)


def describe(value: Any, is_leaf: Any, *, is_number: Any = None) -> tuple[list[Any], Tree]:
    """The leaves of `value`, left to right, and its description.

    `is_leaf(x)` says what a tensor is, `is_number(x)` which of them the caller sees as a
    Python number. Raises TypeError for anything else that is
    neither a container above nor a constant.
    """
    leaves: list[Any] = []

    def walk(node: Any) -> Tree:
        if is_leaf(node):
            leaves.append(node)
            return NUMBER if is_number is not None and is_number(node) else LEAF
        if isinstance(node, CONSTANTS):
            return {"kind": "const", "value": node}
        name = f"{type(node).__module__}:{type(node).__qualname__}"
        if (record := _as_record(node)) is not None:
            base, fields = record
            if not all(isinstance(key, (str, int)) for key in fields):
                raise TypeError(f"a key of {name} is neither str nor int: {list(fields)}")
            tree: Tree = {"keys": list(fields), "items": [walk(item) for item in fields.values()]}
            if type(node) is dict:
                return {"kind": "dict", **tree}
            return {"kind": "record", "base": base, "type": name, **tree}
        if isinstance(node, (list, tuple)):
            base = "list" if isinstance(node, list) else "tuple"
            return {"kind": base, "items": [walk(item) for item in node]}
        raise TypeError(f"{name} is not a tensor, a number, a string or a container of those")

    return leaves, walk(value)


def flatten(tree: Tree, value: Any, where: str = "argument") -> list[Any]:
    """The leaves of `value`, which must have the shape of `tree`; else InputError."""
    kind = tree["kind"]
    if kind in ("leaf", "number"):
        return [value]
    if kind == "const":
        expected = tree["value"]
        if type(value) is not type(expected) or (value != expected and value == value):
            got = repr(value) if isinstance(value, CONSTANTS) else f"a {type(value).__name__}"
            raise InputError(
                f"{where} is {got}, but the model was compiled for {expected!r}",
                code="constant-argument",
                hint="compile again with this value as the example argument",
            )
        return []
    children = _children(tree, value, where)
    return [leaf for item, child, at in children for leaf in flatten(item, child, at)]


def unflatten(tree: Tree, leaves: list[Any]) -> Any:
    """The inverse of `flatten`; records whose class is not loaded become a look-alike."""
    return _build(tree, iter(leaves))


def count_leaves(tree: Tree) -> int:
    if tree["kind"] in ("leaf", "number"):
        return 1
    return sum(count_leaves(item) for item in tree.get("items", ()))


def _build(tree: Tree, rest: Iterator[Any]) -> Any:
    # Not a closure: one that calls itself is a reference cycle and would keep results alive.
    kind = tree["kind"]
    if kind == "leaf":
        return next(rest)
    if kind == "number":
        return next(rest).item()
    if kind == "const":
        return tree["value"]
    items = [_build(item, rest) for item in tree["items"]]
    if kind == "list":
        return items
    if kind == "tuple":
        return tuple(items)
    fields = dict(zip(tree["keys"], items, strict=True))
    return fields if kind == "dict" else _record(tree, fields)


def _children(tree: Tree, value: Any, where: str) -> list[tuple[Tree, Any, str]]:
    kind, items = tree["kind"], tree["items"]
    if kind in ("list", "tuple"):
        if not isinstance(value, (list, tuple)) or len(value) != len(items):
            got = (
                f"{len(value)} items" if isinstance(value, (list, tuple)) else type(value).__name__
            )
            raise InputError(
                f"{where} must be a {kind} of {len(items)} items, got {got}",
                code="argument-structure",
            )
        return [(t, v, f"{where}[{i}]") for i, (t, v) in enumerate(zip(items, value, strict=True))]
    keys = tree["keys"]
    record = _as_record(value)
    if record is None:
        raise InputError(
            f"{where} must be a mapping with the keys {keys}, got {type(value).__name__}",
            code="argument-structure",
        )
    fields = record[1]
    if set(fields) != set(keys):
        missing, extra = sorted(set(keys) - set(fields)), sorted(set(fields) - set(keys))
        raise InputError(
            f"{where} has other keys than the model was compiled for: "
            f"missing {missing}, unexpected {extra}",
            code="argument-structure",
        )
    return [(t, fields[key], f"{where}[{key!r}]") for key, t in zip(keys, items, strict=True)]


def _as_record(value: Any) -> tuple[str, dict[Any, Any]] | None:
    """The kind of a container with named items, and those; None for anything else."""
    kind: Any = type(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return "namedtuple", dict(zip(kind._fields, value, strict=True))
    if isinstance(value, tuple) and hasattr(kind, "n_sequence_fields"):
        return "structseq", dict(zip(kind.__match_args__, value, strict=True))
    if isinstance(value, Mapping):
        return "mapping", dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return "dataclass", {name: getattr(value, name) for name in names}
    return None


def _record(node: Tree, fields: dict[str, Any]) -> Any:
    module, _, qualname = node["type"].partition(":")
    cls: Any = sys.modules.get(module)
    for part in qualname.split("."):
        cls = getattr(cls, part, None)
    if cls is None:
        if node["base"] == "mapping":
            return dict(fields)
        cls = _named_tuple(qualname.rsplit(".", 1)[-1], list(fields))
    elif node["base"] == "structseq":
        return cls(tuple(fields.values()))
    return cls(**fields)


def _named_tuple(name: str, keys: list[str]) -> Any:
    make: Any = collections.namedtuple
    return make(name, keys)
