"""Calls and results are taken apart and put together as eager has them."""

import collections
import dataclasses
import gc
import json
import time
import weakref
from typing import Any

import numpy as np
import pytest

from lemurc import pytree
from lemurc.errors import InputError

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Out:
    logits: Any
    hidden: Any = None


def is_leaf(value: Any) -> bool:
    return isinstance(value, np.ndarray)


A, B = np.ones(2), np.zeros(3)


@pytest.mark.parametrize(
    "value",
    [
        A,
        None,
        3,
        [A, (B, None)],
        {"b": A, "a": [B, 1.5, "x", True]},
        Pair(A, B),
        Out(A),
        time.gmtime(0),
        collections.OrderedDict(z=A, y=B),
        {},
        (),
    ],
    ids=lambda value: type(value).__name__,
)
def test_round_trip(value: Any) -> None:
    leaves, tree = pytree.describe(value, is_leaf)
    tree = json.loads(json.dumps(tree))
    assert pytree.count_leaves(tree) == len(leaves)
    found = pytree.flatten(tree, value)
    assert all(leaf is x for leaf, x in zip(found, leaves, strict=True))
    again = pytree.unflatten(tree, leaves)
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_a_result_goes_with_its_last_user() -> None:
    """Without the garbage collector, which may not look for many large results."""
    _, tree = pytree.describe((A, {"b": B}), is_leaf)
    leaf = np.ones(2)
    alive = weakref.ref(leaf)
    gc.disable()
    try:
        built = pytree.unflatten(tree, [leaf, B])
        del built, leaf
        assert alive() is None
    finally:
        gc.enable()


def test_keys_in_another_order() -> None:
    _, tree = pytree.describe({"x": A, "y": B}, is_leaf)
    assert pytree.flatten(tree, {"y": B, "x": A})[0] is A


def test_a_record_whose_class_is_absent_is_a_look_alike() -> None:
    _, tree = pytree.describe(Pair(A, B), is_leaf)
    tree["type"] = "nowhere:Pair"
    again = pytree.unflatten(tree, [A, B])
    assert again.left is A and again._fields == ("left", "right")


@pytest.mark.parametrize(
    ("value", "word"),
    [({"x": A}, "missing"), ({"x": A, "y": B, "z": A}, "unexpected"), ([A, B], "mapping")],
)
def test_another_structure_is_refused(value: Any, word: str) -> None:
    _, tree = pytree.describe({"x": A, "y": B}, is_leaf)
    with pytest.raises(InputError, match=word):
        pytree.flatten(tree, value)


def test_another_constant_is_refused() -> None:
    _, tree = pytree.describe([A, 2, True], is_leaf)
    for wrong in ([A, 3, True], [A, 2, 1], [A, 2.0, True]):
        with pytest.raises(InputError) as caught:
            pytree.flatten(tree, wrong)
        assert caught.value.code == "constant-argument"
