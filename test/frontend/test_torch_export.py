"""From an nn.Module to level `torch`: signature, weights, state, reference."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_mlir import ir

from lemurc import pytree
from lemurc.dialects.context import new_context
from lemurc.dialects.locations import module_path, python_line
from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.load import load
from lemurc.frontend.program import Program
from lemurc.manifest import SymbolicDim, TensorSpec


class Tied(nn.Module):
    """One matrix under two names, a parameter nobody uses, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(4, 4))
        self.second = self.first
        self.unused = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.first) @ self.second + torch.tensor([1.0, 2.0, 3.0, 4.0])


class Counting(nn.Module):
    """A persistent and a passing buffer, both changed by a call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.sum += x
        return self.sum * self.steps


_alive: list[ir.Module] = []
"""An operation does not keep its module alive."""


def function(program: Program, name: str = "main") -> Any:
    module = ir.Module.parse(program.mlir, new_context())
    _alive.append(module)
    named = (op for op in module.body.operations if op.attributes["sym_name"].value == name)
    return next(named)


def marks(function: Any, which: str) -> list[tuple[str, Any]]:
    entries = [ir.DictAttr(entry) for entry in function.attributes[which]]
    return [(named.name, named.attr.value) for entry in entries for named in entry]


def test_tied_weights_are_one_argument_and_stored_once() -> None:
    program = load(Tied(), torch.randn(2, 4))
    assert set(program.weights) == {"first", "lifted_tensor_0"}
    arguments = marks(function(program), "arg_attrs")
    assert sorted(arguments) == [
        ("lemur.input", 0),
        ("lemur.param", "first"),
        ("lemur.param", "lifted_tensor_0"),
    ]


def test_weights_share_memory_with_the_module() -> None:
    module = nn.Linear(3, 4)
    program = load(module, torch.randn(2, 3))
    assert program.weights["weight"].ctypes.data == module.weight.data_ptr()


def test_changed_buffers_are_state() -> None:
    module = Counting()
    program = load(module, torch.ones(3))
    assert program.state == ("steps", "sum")
    arguments = marks(function(program), "arg_attrs")
    results = marks(function(program), "res_attrs")
    assert ("lemur.state", "sum") in arguments and ("lemur.state", "steps") in arguments
    assert results[:2] == [("lemur.state_update", "steps"), ("lemur.state_update", "sum")]
    assert results[2:] == [("lemur.output", 0)]


def test_reference_starts_from_the_initial_state_and_leaves_the_module_alone() -> None:
    module = Counting()
    program = load(module, torch.ones(3))
    assert program.reference is not None
    first = program.reference["main"]([np.full(3, 2.0, np.float32)])
    second = program.reference["main"]([np.full(3, 2.0, np.float32)])
    np.testing.assert_array_equal(first[0], second[0])
    assert int(module.steps) == 0
    module(torch.ones(3))  # what the user does later does not change the program
    np.testing.assert_array_equal(program.weights["sum"], np.zeros(3, np.float32))


def test_state_that_shares_memory_is_refused() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = torch.zeros(4)
            self.register_buffer("whole", whole)
            self.register_buffer("part", whole[:2])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.part += x
            return self.whole + 1

    with pytest.raises(UnsupportedModelError) as caught:
        load(Shared(), torch.ones(2))
    assert caught.value.code in ("aliased-state", "decomposition-failed")
    assert ".clone()" in caught.value.hint


def test_nested_arguments_and_results() -> None:
    class Nested(nn.Module):
        def forward(self, x: Any, *, scale: Any, flag: bool = True) -> Any:
            y = x["a"] * scale[0]
            return {"y": y, "same": x["a"], "nothing": None, "three": 3, "pair": (y + 1, [x["b"]])}

    example = {"a": torch.ones(2), "b": torch.zeros(3)}
    kwargs = {"scale": (torch.tensor(2.0),), "flag": False}
    program = load(Nested(), (example,), kwargs)
    signature = program.functions["main"]
    assert [spec.name for spec in signature.outputs] == ["y", "same", "pair.0", "pair.1.0"]
    assert signature.argument_names == ("x",)
    leaves = pytree.flatten(signature.in_tree, ((example,), kwargs))
    assert [tuple(leaf.shape) for leaf in leaves] == [(2,), (3,), ()]
    assert program.reference is not None
    outputs = program.reference["main"](program.examples["main"])
    rebuilt = pytree.unflatten(signature.out_tree, outputs)
    assert rebuilt["nothing"] is None and rebuilt["three"] == 3
    np.testing.assert_array_equal(rebuilt["same"], np.ones(2, np.float32))
    with pytest.raises(Exception, match="compiled for False"):
        pytree.flatten(signature.in_tree, ((example,), kwargs | {"flag": True}))


@dataclasses.dataclass
class Batch:
    values: torch.Tensor
    weight: torch.Tensor


def test_dataclass_argument() -> None:
    class Weighted(nn.Module):
        def forward(self, batch: Batch) -> torch.Tensor:
            return batch.values * batch.weight

    program = load(Weighted(), (Batch(torch.ones(3), torch.tensor(2.0)),))
    record = program.functions["main"].in_tree["items"][0]["items"][0]
    assert record["base"] == "dataclass" and record["keys"] == ["values", "weight"]


def test_entry_points_share_weights_and_state() -> None:
    shared = Counting()

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = shared

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.inner.sum

    x = torch.ones(3)
    program = load({"write": (shared, x), "read": (Reading(), (x,))})
    assert set(program.functions) == {"write", "read"}
    assert set(program.weights) == {"steps", "sum"}
    assert ("lemur.state", "sum") in marks(function(program, "read"), "arg_attrs")


def test_same_names_of_different_tensors_are_kept_apart() -> None:
    x = torch.ones(2, 3)
    program = load({"a": (nn.Linear(3, 3), x), "b": (nn.Linear(3, 3), x)})
    assert set(program.weights) == {"weight", "bias", "b.weight", "b.bias"}


def test_dynamic_sizes_keep_the_users_names_and_ranges() -> None:
    batch = torch.export.Dim("batch", min=2, max=9)
    shapes = {"input": {0: batch}}
    program = load(nn.Linear(3, 4), torch.randn(5, 3), dynamic_shapes=shapes)
    signature = program.functions["main"]
    size = SymbolicDim("batch", 2, 9)
    assert signature.inputs == (TensorSpec("input", "float32", (size, 3)),)
    assert signature.outputs == (TensorSpec("output0", "float32", (size, 4)),)


def test_sizes_in_multiples() -> None:
    quarter = torch.export.Dim("quarter", min=1, max=8)

    class Folded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1, 4).sum(1)

    program = load(Folded(), torch.ones(12), dynamic_shapes={"x": {0: 4 * quarter}})
    assert program.functions["main"].inputs[0].shape == (SymbolicDim("4*quarter", 4, 32, 4),)


def test_half_precision_weights() -> None:
    program = load(nn.Linear(3, 4).to(torch.bfloat16), torch.randn(2, 3, dtype=torch.bfloat16))
    assert program.weights["weight"].dtype.name == "bfloat16"
    assert program.functions["main"].inputs[0].dtype == "bfloat16"
    assert program.reference is not None
    assert program.reference["main"](program.examples["main"])[0].dtype.name == "bfloat16"


def test_locations_name_the_module_and_the_users_line() -> None:
    program = load(Outer(), torch.ones(2, 3))
    main = function(program)
    inside = (op.operation for op in main.regions[0].blocks[0].operations)
    linear = next(op for op in inside if op.name == "torch.aten.linear")
    assert module_path(linear.location) == "blocks.1"
    assert python_line(linear.location).startswith("test_torch_export.py:")


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.ReLU(), nn.Linear(3, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[1](self.blocks[0](x))


def test_exported_program_is_taken_as_it_is() -> None:
    module = nn.Linear(3, 4)
    x = torch.randn(2, 3)
    program = load(torch.export.export(module, (x,), strict=False))
    assert program.reference is not None
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(program.reference["main"](program.examples["main"])[0], expected)


@pytest.mark.parametrize(
    ("model", "code"), [(len, "not-a-module"), (nn.Linear(3, 4), "example-missing")]
)
def test_what_cannot_be_exported(model: Any, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(model)
    assert caught.value.code == code


def test_a_failing_export_says_why() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(UnsupportedModelError) as caught:
        load(Branching(), torch.ones(2))
    assert caught.value.code == "export-failed"


class Mismatched(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def test_a_shape_error_is_one_message(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnsupportedModelError, match="same reduction dim") as caught:
        load(Mismatched(), (torch.ones(3, 4), torch.ones(5, 4)))
    assert "test_torch_export.py" in str(caught.value)
    assert [r for r in caplog.records if r.levelname == "ERROR"] == []


class Defaults(nn.Module):
    def forward(
        self, x: torch.Tensor, bias: torch.Tensor | None = None, scale: float = 2.0, *, n: int = 3
    ) -> torch.Tensor:
        return x * scale + n if bias is None else x + bias


def test_defaults_of_arguments_are_known() -> None:
    defaults = load(Defaults(), (torch.ones(2),)).functions["main"].argument_defaults
    assert defaults == {"bias": None, "scale": 2.0, "n": 3}


class WritesAtANumber(nn.Module):
    def forward(self, x: Any, at: Any) -> Any:
        x[:, at] = 1.0
        return x * 1


def test_pytorch_prints_no_graph_beside_the_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsupportedModelError, match="data-dependent"):
        load(WritesAtANumber(), (torch.zeros(3, 4), torch.tensor(1)))
    said = capfd.readouterr()
    assert "def forward" not in said.out + said.err


@pytest.mark.filterwarnings("error")
def test_no_warnings_about_pytorch_itself() -> None:
    load(nn.LSTM(4, 4), (torch.randn(3, 1, 4),))


def test_the_reference_is_the_attention_that_is_exported() -> None:
    """PyTorch's shortcut without gradients has zeros at padding, and NaN in the first row."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [False] * 3 + [True] * 2])
    program = load(model, (x,), kwargs={"src_key_padding_mask": padding})
    (mine,) = program.reference["main"](program.examples["main"])
    want = model(x, src_key_padding_mask=padding)
    np.testing.assert_allclose(mine, want.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert np.isfinite(mine).all()
