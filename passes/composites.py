"""Which operations become composites, and what of them a kernel needs to know.

Each entry reads one operation of the `torch` dialect: the kind, the tensor operands by
role (in the order of the composite's arguments), and the attributes. Weight layouts are
PyTorch's: `linear` takes [out, in], `matmul` takes [in, out].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from lemurc.passes.outline import Attributes
from lemurc.passes.torch_constants import UNKNOWN, constant, shape


@dataclass(frozen=True)
class Kind:
    """`operands` and `attributes` name positions of the torch operation's operands.

    `attributes` must be constants, else there is no composite. `required` maps positions
    to the constant that a reference lowering is right for. `derive` computes more
    attributes, or refuses by None. `in_f32`: half precision is widened inside.
    """

    kind: str
    operands: dict[str, int]
    attributes: dict[str, int] = field(default_factory=dict)
    required: dict[int, Any] = field(default_factory=dict)
    fixed: Attributes = field(default_factory=dict)
    derive: Callable[[ir.Operation], Attributes | None] | None = None
    in_f32: bool = False


def describe(operation: ir.Operation) -> tuple[Kind, Attributes] | None:
    """The kind of composite that `operation` is, with its attributes."""
    kind = KINDS.get(operation.name)
    if kind is None:
        return None
    operands = operation.operands
    if any(constant(operands[at]) != value for at, value in kind.required.items()):
        return None
    attributes = {name: constant(operands[at]) for name, at in kind.attributes.items()}
    if any(value is UNKNOWN for value in attributes.values()):
        return None
    derived = kind.derive(operation) if kind.derive else {}
    if derived is None:
        return None
    present = {name: value for name, value in attributes.items() if value is not None}
    return kind, kind.fixed | present | derived


def _normalized_rank(operation: ir.Operation) -> Attributes | None:
    normalized = constant(operation.operands[1])
    return None if normalized is UNKNOWN else {"normalized_rank": len(normalized)}


def _dimension(operation: ir.Operation) -> Attributes | None:
    """The dimension of a softmax counted from the front."""
    dim, sizes = constant(operation.operands[1]), shape(operation.operands[0])
    if dim is UNKNOWN or sizes is None:
        return None
    return {"dim": dim % max(len(sizes), 1)}


_NORM = {"input": 0, "weight": 2, "bias": 3}
_BATCH_NORM = {"input": 0, "weight": 1, "bias": 2, "mean": 3, "variance": 4}
_POOL = {"kernel": 1, "stride": 2, "padding": 3}

KINDS: dict[str, Kind] = {
    "torch.aten.linear": Kind("linear", {"input": 0, "weight": 1, "bias": 2}),
    "torch.aten.matmul": Kind("matmul", {"a": 0, "b": 1}),
    "torch.aten.mm": Kind("matmul", {"a": 0, "b": 1}),
    "torch.aten.bmm": Kind("matmul", {"a": 0, "b": 1}),
    "torch.aten.addmm": Kind("matmul", {"a": 1, "b": 2, "bias": 0}, required={3: 1, 4: 1}),
    "torch.aten.baddbmm": Kind("matmul", {"a": 1, "b": 2, "bias": 0}, required={3: 1, 4: 1}),
    "torch.aten.convolution": Kind(
        "conv",
        {"input": 0, "weight": 1, "bias": 2},
        {
            "stride": 3,
            "padding": 4,
            "dilation": 5,
            "transposed": 6,
            "output_padding": 7,
            "groups": 8,
        },
    ),
    "torch.aten.scaled_dot_product_attention": Kind(
        "attention",
        {"query": 0, "key": 1, "value": 2, "mask": 3},
        {"causal": 5, "scale": 6, "grouped": 7},
        required={4: 0.0},
    ),
    "torch.aten.layer_norm": Kind(
        "layer_norm", _NORM, {"eps": 4}, derive=_normalized_rank, in_f32=True
    ),
    "torch.aten.native_layer_norm": Kind(
        "layer_norm", _NORM, {"eps": 4}, derive=_normalized_rank, in_f32=True
    ),
    "torch.aten.rms_norm": Kind(
        "rms_norm",
        {"input": 0, "weight": 2},
        {"eps": 3},
        derive=_normalized_rank,
        in_f32=True,
    ),
    "torch.aten.batch_norm": Kind(
        "batch_norm", _BATCH_NORM, {"eps": 7}, required={5: False}, in_f32=True
    ),
    "torch.aten.group_norm": Kind("group_norm", _NORM, {"groups": 1, "eps": 4}, in_f32=True),
    "torch.aten.gelu": Kind("gelu", {"input": 0}, {"approximate": 1}, in_f32=True),
    "torch.aten.silu": Kind("silu", {"input": 0}, in_f32=True),
    "torch.aten.softmax.int": Kind("softmax", {"input": 0}, derive=_dimension, in_f32=True),
    "torch.aten._softmax": Kind(
        "softmax", {"input": 0}, required={2: False}, derive=_dimension, in_f32=True
    ),
    "torch.aten.embedding": Kind("embedding", {"weight": 0, "indices": 1}),
    "torch.aten.max_pool1d": Kind(
        "pool", {"input": 0}, _POOL | {"dilation": 4, "ceil": 5}, fixed={"mode": "max"}
    ),
    "torch.aten.max_pool2d": Kind(
        "pool", {"input": 0}, _POOL | {"dilation": 4, "ceil": 5}, fixed={"mode": "max"}
    ),
    "torch.aten.max_pool3d": Kind(
        "pool", {"input": 0}, _POOL | {"dilation": 4, "ceil": 5}, fixed={"mode": "max"}
    ),
    "torch.aten.avg_pool1d": Kind(
        "pool",
        {"input": 0},
        _POOL | {"ceil": 4, "count_padding": 5},
        fixed={"mode": "average"},
        in_f32=True,
    ),
    "torch.aten.avg_pool2d": Kind(
        "pool",
        {"input": 0},
        _POOL | {"ceil": 4, "count_padding": 5, "divisor": 6},
        fixed={"mode": "average"},
        in_f32=True,
    ),
    "torch.aten.adaptive_avg_pool1d": Kind(
        "pool", {"input": 0}, {"output": 1}, fixed={"mode": "adaptive_average"}, in_f32=True
    ),
    "torch.aten.adaptive_avg_pool2d": Kind(
        "pool", {"input": 0}, {"output": 1}, fixed={"mode": "adaptive_average"}, in_f32=True
    ),
}
