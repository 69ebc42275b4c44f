"""The `lemur` dialect: what our passes must see and upstream has no operation for.

Computation stays in `linalg`, `tensor`, `arith` and `tm_tensor`; composites and
stages are upstream functions with `lemur.*` attributes, which `verify-lemur`
checks. The operations here are markers on one tensor: each returns its input
unchanged and tells a pass something. All but barriers are gone after `outline-stages`.
"""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext


class Lemur(ext.Dialect, name="lemur"):
    """Namespace of the operations below."""


class TransferOp(ext.Operation, dialect=Lemur, name="transfer", traits=[ext.Pure]):
    """`result = input`, resident on `device`: a crossing asked for by hand.

    `place` puts the operation on `device`, whatever the cost.
    """

    input: ext.Operand[Any]
    device: ir.StringAttr
    result: ext.Result[Any]

    def verify_invariants(self) -> bool:
        return _same_tensor(self) and _names_a_device(self)


class PinOp(ext.Operation, dialect=Lemur, name="pin", traits=[ext.Pure]):
    """`result = input`, and the operation that computes `input` runs on `device`."""

    input: ext.Operand[Any]
    device: ir.StringAttr
    result: ext.Result[Any]

    def verify_invariants(self) -> bool:
        return _same_tensor(self) and _names_a_device(self)


class BarrierOp(ext.Operation, dialect=Lemur, name="barrier"):
    """`result = input`, opaque to CSE, folding and fusion, in stages too.

    What is computed behind a barrier is computed again, not shared with an equal
    value before it: recomputation trades time for live memory. And what makes the
    value is computed where it stands, not where the value is read. Not `Pure`, since
    two barriers on one value must stay two.
    """

    input: ext.Operand[Any]
    result: ext.Result[Any]

    def verify_invariants(self) -> bool:
        return _same_tensor(self)


BARRIER = "lemur.barrier"
MARKERS = frozenset({"lemur.transfer", "lemur.pin", BARRIER})
"""Names of the operations that return their input unchanged."""


def load(context: ir.Context) -> None:
    """Make `lemur` known to `context`; a second call does nothing."""
    with context:
        if not context.is_dialect_loaded("lemur"):
            Lemur.load()


def _same_tensor(op: Any) -> bool:
    if not isinstance(op.input.type, ir.RankedTensorType):
        return _fail(op, f"moves ranked tensors only, not {op.input.type}")
    if op.input.type != op.result.type:
        return _fail(op, f"returns its input, so {op.input.type} cannot become {op.result.type}")
    return True


def _names_a_device(op: Any) -> bool:
    # our verifier runs before IRDL's, so the attribute may be missing or of another kind
    device = op.attributes["device"] if "device" in op.attributes else None
    if isinstance(device, ir.StringAttr) and device.value:
        return True
    return _fail(op, 'needs the name of a device, such as device = "cuda"')


def _fail(op: Any, message: str) -> bool:
    op.location.emit_error(f"'{op.operation.name}' op {message}")
    return False
