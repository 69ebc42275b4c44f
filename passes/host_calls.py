"""Calls of operators that PyTorch runs: marked `lemur.host`, on the device of target `host`.

    %y = call @host_0(%x) {lemur.host = {op = "my::scale", arguments = [{tensor = 0 : i64}],
                                         inputs = ["float32"], results = ["float32"]}}

See passes/outline_host_ops.py, which makes them. They stand in an entry itself, have no body,
and may go nowhere but to the host; nothing else may go there.
"""

from torch_mlir import ir

ATTRIBUTE = "lemur.host"


def is_host_call(op: ir.Operation) -> bool:
    return op.name == "func.call" and ATTRIBUTE in op.attributes


def host_operator(op: ir.Operation) -> str:
    """`my::scale`, of a call that is one."""
    return str(op.attributes[ATTRIBUTE]["op"].value)
