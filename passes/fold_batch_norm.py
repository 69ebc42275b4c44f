"""Make a convolution do the work of the batch norm that follows it.

    batch_norm(conv(x, w, b), gamma, beta, mean, var)
      ->  conv(x, w * s, beta + (b - mean) * s)     s = gamma / sqrt(var + eps), per channel

Only where the norm is the convolution's only reader, everything but `x` is a weight,
and the convolution is not transposed. The new weights are computed by operations on
weights, in f32, which `hoist-parameters` moves to compile time.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.base import Pass
from lemurc.passes.channel_arithmetic import per_channel
from lemurc.passes.graph import Graph
from lemurc.passes.unused import erase_unused_composites

_TYPES = ("f32", "f16", "bf16")
_ROLES = ("weight", "bias", "mean", "variance")


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    name: ClassVar[str] = "fold-batch-norm"
    optional: ClassVar[bool] = True

    def run(self, module: ir.Operation) -> None:
        functions = graphs.composites(module)
        for entry in graphs.entries(module):
            graph = Graph(entry)
            for op in graph.nodes:
                if _kind(op, functions) == "batch_norm":
                    _fold(op, graph, functions)
        erase_unused_composites(module)


def _fold(norm: ir.Operation, graph: Graph, functions: dict[str, ir.Operation]) -> None:
    parts = _roles(norm, functions[graphs.callee(norm)])
    source = parts.get("input")
    if source is None or isinstance(source.owner, ir.Block):
        return
    conv = source.owner.operation
    if _kind(conv, functions) != "conv" or len(list(source.uses)) != 1:
        return
    function = functions[graphs.callee(conv)]
    conv_parts = _roles(conv, function)
    weights = [conv_parts.get("weight"), conv_parts.get("bias")]
    statistics = [parts.get(role) for role in _ROLES]
    if not _is_safe(norm, function, weights, statistics, graph):
        return
    eps = functions[graphs.callee(norm)].attributes["lemur.eps"].value
    with ir.InsertionPoint(conv), norm.location:
        new_weight, new_bias = _folded_weights(weights, statistics, eps)
        name = _with_bias(function, functions)
        operands = {**conv_parts, "weight": new_weight, "bias": new_bias}
        roles = [item.value for item in functions[name].attributes["lemur.operands"]]
        call = ir.Operation.create(
            "func.call",
            results=[norm.results[0].type],
            operands=[operands[role] for role in roles],
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(name),
                "no_inline": ir.UnitAttr.get(),
            },
            loc=conv.location,
        )
    norm.results[0].replace_all_uses_with(call.results[0])
    norm.erase()
    conv.erase()


def _is_safe(
    norm: ir.Operation,
    conv: ir.Operation,
    weights: list[ir.Value | None],
    statistics: list[ir.Value | None],
    graph: Graph,
) -> bool:
    given = [value for value in (*weights, *statistics) if value is not None]
    element = str(norm.results[0].type.element_type)
    arguments = len(conv.attributes["function_type"].value.inputs)
    return (
        weights[0] is not None
        and arguments == len(conv.attributes["lemur.operands"])  # no dynamic sizes beside
        and statistics[2] is not None
        and statistics[3] is not None
        and all(graph.is_weight(value) for value in given)
        and all(str(value.type.element_type) in _TYPES for value in given)
        and element in _TYPES
        and norm.results[0].type == norm.operands[0].type
        and not conv.attributes["lemur.transposed"].value
    )


def _folded_weights(
    weights: list[ir.Value | None], statistics: list[ir.Value | None], eps: float
) -> tuple[ir.Value, ir.Value]:
    """`w * s` and `beta + (b - mean) * s`; an absent gamma is 1, an absent bias is 0."""
    weight, bias = weights
    gamma, beta, mean, variance = statistics
    assert weight is not None and mean is not None and variance is not None

    def scale(math: Any, named: dict[str, ir.Value]) -> ir.Value:
        root = math.rsqrt(math.add(named["variance"], math.constant(eps)))
        return math.multiply(root, named["gamma"]) if "gamma" in named else root

    def new_weight(math: Any, named: dict[str, ir.Value]) -> ir.Value:
        return math.multiply(named["self"], scale(math, named))

    def new_bias(math: Any, named: dict[str, ir.Value]) -> ir.Value:
        centred = math.negate(named["mean"])
        if "bias" in named:
            centred = math.subtract(named["bias"], named["mean"])
        scaled = math.multiply(centred, scale(math, named))
        return math.add(scaled, named["beta"]) if "beta" in named else scaled

    by_name = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance, "bias": bias}
    present = {name: value for name, value in by_name.items() if value is not None}
    vector = ir.RankedTensorType.get([weight.type.shape[0]], weight.type.element_type)
    return (
        per_channel(weight, weight.type, {**_only(present, "gamma", "variance")}, 0, new_weight),
        per_channel(None, vector, present, 0, new_bias),
    )


def _only(values: dict[str, ir.Value], *names: str) -> dict[str, ir.Value]:
    return {name: values[name] for name in names if name in values}


def _with_bias(function: ir.Operation, functions: dict[str, ir.Operation]) -> str:
    """The composite with a bias argument; a new one, made from `function`, if it has none."""
    roles = [item.value for item in function.attributes["lemur.operands"]]
    if "bias" in roles:
        return graphs.symbol(function)
    name = f"{graphs.symbol(function)}_bias"
    if name in functions:
        return name
    new = function.clone(ir.InsertionPoint(function)).operation
    new.attributes["sym_name"] = ir.StringAttr.get(name)
    roles.append("bias")
    new.attributes["lemur.operands"] = ir.ArrayAttr.get([ir.StringAttr.get(r) for r in roles])
    block = new.regions[0].blocks[0]
    terminator = list(block.operations)[-1].operation
    result = terminator.operands[0]
    channels = block.arguments[1].type.shape[0]
    vector = ir.RankedTensorType.get([channels], result.type.element_type)
    bias = block.add_argument(vector, function.location)
    with ir.InsertionPoint(terminator), function.location:
        terminator.operands[0] = per_channel(
            result,
            result.type,
            {"bias": bias},
            1,
            lambda math, named: math.add(named["self"], named["bias"]),
        )
    kind = ir.FunctionType.get([value.type for value in block.arguments], [result.type])
    new.attributes["function_type"] = ir.TypeAttr.get(kind)
    functions[name] = new
    return name


def _kind(op: ir.Operation, functions: dict[str, ir.Operation]) -> str:
    function = functions.get(graphs.callee(op))
    return "" if function is None else str(function.attributes["lemur.composite"].value)


def _roles(call: ir.Operation, function: ir.Operation) -> dict[str, ir.Value]:
    """The call's tensors by what they are to the composite."""
    if "lemur.operands" not in function.attributes:
        return {}
    names = [item.value for item in function.attributes["lemur.operands"]]
    return dict(zip(names, call.operands, strict=False))
