"""Replacing operations while others still hold on to them."""

from torch_mlir import ir

from lemurc.passes.outline import Outliner
from lemurc.passes.torch_constants import defining, is_constant_operation
from lemurc.passes.torch_match import CONVERSION


class Rewriter:
    """What patterns change a module with.

    A replaced operation lets go of its operands at once, so that counts of uses are
    true, but is erased only by `finish`: a list of operations made before stays valid.
    """

    def __init__(self, module: ir.Operation) -> None:
        self.outliner = Outliner(module)
        self._dead: dict[ir.Operation, None] = {}
        self._nothing: ir.Operation | None = None

    def is_dead(self, operation: ir.Operation) -> bool:
        return operation in self._dead

    def replace(self, operation: ir.Operation, value: ir.Value) -> None:
        operation.results[0].replace_all_uses_with(value)
        self.bury(operation)

    def bury(self, operation: ir.Operation) -> None:
        """Give up an unused operation, and those that only it used."""
        if any(list(result.uses) for result in operation.results) or self.is_dead(operation):
            return
        if not _is_pure(operation):
            return
        producers = [defining(operand) for operand in operation.operands]
        self._dead[operation] = None
        for index in range(len(producers)):
            operation.operands[index] = self._placeholder(operation)
        for producer in producers:
            if producer is not None:
                self.bury(producer)

    def finish(self) -> None:
        for operation in self._dead:
            operation.erase()
        self._dead.clear()
        if self._nothing is not None:
            self._nothing.erase()
            self._nothing = None

    def _placeholder(self, near: ir.Operation) -> ir.Value:
        if self._nothing is None:
            with ir.InsertionPoint(near), near.location:
                none = ir.Type.parse("!torch.none")
                self._nothing = ir.Operation.create("torch.constant.none", results=[none])
        return self._nothing.results[0]


def _is_pure(operation: ir.Operation) -> bool:
    name = operation.name
    if name.startswith("torch.aten."):
        # aten.add_ and aten._assert_async act; all else only computes
        return not name.split(".")[2].endswith("_") and "_assert" not in name
    return name in (CONVERSION, "torch.operator") or is_constant_operation(operation)
