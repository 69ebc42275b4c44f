"""Keep the meaning of operations through the lowering: each becomes a call.

    %y = torch.aten.linear %x, %w, %b
      ->
    %y = call @linear_0(%x, %w, %b) {no_inline}
    func.func private @linear_0(%x, %w, %b) attributes {lemur.composite = "linear", no_inline} {
      %y = torch.aten.linear %x, %w, %b
      return %y
    }

torch-mlir's pipelines convert types across the call and lower the body, so that level
`linalg` has calls to choose kernels for, each with its exact reference lowering for
free. `lemur.operands` names the role of each argument; the other attributes are those
of passes/composites.py. Constants are cloned into the body; sizes known only at run
time become `!torch.int` arguments after the tensors.

Norms, softmax and activations of half precision compute in f32 inside, as eager does:
squares and sums of f16 overflow or stall.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.composites import Kind, describe
from lemurc.passes.outline import Arguments, Attributes, Build, Cloned, Outliner, is_composite
from lemurc.passes.reference_bodies import reference_body
from lemurc.passes.torch_constants import dtype, is_tensor
from lemurc.passes.torch_operations import convert, with_dtype

_HALF = ("f16", "bf16")


@dataclass(frozen=True)
class OutlineComposites(Pass):
    """Give every operation in passes/composites.py a private function of its own."""

    name: ClassVar[str] = "outline-composites"

    def run(self, module: ir.Operation) -> None:
        outliner = Outliner(module)
        for function in list(module.regions[0].blocks[0].operations):
            if function.operation.name != "func.func" or is_composite(function.operation):
                continue
            for block in function.operation.regions[0].blocks:
                for operation in list(block.operations):
                    found = describe(operation.operation)
                    if found and _only_first_result_used(operation.operation):
                        _outline(operation.operation, found[0], found[1], outliner)


def _only_first_result_used(operation: ir.Operation) -> bool:
    return all(not list(result.uses) for result in list(operation.results)[1:])


def _outline(
    operation: ir.Operation, kind: Kind, attributes: Attributes, outliner: Outliner
) -> None:
    operands = list(operation.operands)
    # by position, not by value: attention(x, x, x) keeps three arguments
    roles = {role: operands[at] for role, at in kind.operands.items() if is_tensor(operands[at])}
    constants = [value for value in operands if not is_tensor(value)]
    if any(is_tensor(value) and value not in roles.values() for value in operands):
        return
    half = kind.in_f32 and dtype(operation.results[0]) in _HALF
    build = _body(operation, kind, in_f32=half)
    outliner.outline(kind.kind, roles, attributes, operation, constants, build)
    operation.erase()


def _body(operation: ir.Operation, kind: Kind, *, in_f32: bool) -> Build:
    positions = {at: role for role, at in kind.operands.items()}
    written_out = reference_body(operation)

    def build(arguments: Arguments, cloned: Cloned) -> ir.Value:
        operands = [
            arguments[positions[at]] if is_tensor(value) else cloned(value)
            for at, value in enumerate(operation.operands)
        ]
        types = [result.type for result in operation.results]
        if in_f32:
            operands = [convert(v, "f32") if dtype(v) in _HALF else v for v in operands]
            types = [with_dtype(result, "f32") for result in operation.results]
        if written_out is not None:
            value = written_out(operands, types[0])
        else:
            attributes = {name: operation.attributes[name] for name in operation.attributes}
            copy = ir.Operation.create(
                operation.name, results=types, operands=operands, attributes=attributes
            )
            value = copy.results[0]
        return convert(value, dtype(operation.results[0]))

    return build
