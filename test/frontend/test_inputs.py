"""The command line's spelling of example calls and dynamic sizes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lemurc.errors import UsageError
from lemurc.frontend.inputs import parse_dynamic, parse_inputs
from lemurc.frontend.load import load
from lemurc.manifest import SymbolicDim


def test_shapes_types_and_names() -> None:
    args, kwargs = parse_inputs(["1x3x8xf32", "f16", "mask=2xbool", "ids=4xi64"])
    assert [(tuple(value.shape), value.dtype) for value in args] == [
        ((1, 3, 8), torch.float32),
        ((), torch.float16),
    ]
    assert kwargs["mask"].dtype == torch.bool
    assert int(kwargs["ids"].max()) < 8


def test_the_same_texts_give_the_same_values() -> None:
    assert torch.equal(parse_inputs(["5xf32"])[0][0], parse_inputs(["5xf32"])[0][0])


def test_arrays_from_files(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    (value,), _ = parse_inputs([f"@{path}"])
    assert value.dtype == torch.int32 and value.shape == (2, 3)


@pytest.mark.parametrize(
    ("text", "code"),
    [("1x2xq7", "bad-input-spec"), ("x3xf32", "bad-input-spec"), ("@no.npy", "input-not-found")],
)
def test_refusals(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_inputs([text])
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["0=seq", "0.1=9..2", "0.1=seq:9..2", "seq"])
def test_dynamic_refusals(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dynamic([text])
    assert caught.value.code == "bad-dynamic-spec"
    assert caught.value.hint


def test_several_dynamic_sizes_between_commas() -> None:
    assert parse_dynamic(["0.0=n, 0.1=seq:1..512"]) == parse_dynamic(["0.0=n", "0.1=seq:1..512"])


def test_numpy_arrays_are_example_inputs() -> None:
    x = np.ones((5, 4), np.float32)
    program = load(nn.Linear(4, 3), (x,), dynamic=["0.0=rows:1..64"])
    assert program.functions["main"].inputs[0].shape == (SymbolicDim("rows", 1, 64), 4)
    program = load({"a": (nn.Linear(4, 3), (), {"input": x})})
    assert program.functions["a"].inputs[0].dtype == "float32"
    with pytest.raises(UsageError) as caught:
        load(nn.Linear(4, 3), (np.array(["text"]),))
    assert caught.value.code == "example-dtype"


def test_dynamic_by_position_and_by_name() -> None:
    program = load(nn.Linear(4, 3), inputs=["5x4xf32"], dynamic=["0.0=rows:1..64"])
    assert program.functions["main"].inputs[0].shape == (SymbolicDim("rows", 1, 64), 4)
    program = load(nn.Linear(4, 3), inputs=["input=5x4xf32"], dynamic=["input.0=rows:1..64"])
    assert program.functions["main"].inputs[0].shape == (SymbolicDim("rows", 1, 64), 4)
    with pytest.raises(UsageError) as caught:
        load(nn.Linear(4, 3), inputs=["5x4xf32"], dynamic=["1.0=rows"])
    assert caught.value.code == "bad-dynamic-spec"
