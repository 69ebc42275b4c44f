"""One way to make an MLIR context: every dialect a lemurc module may hold is loaded."""

import importlib.util

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager


def new_context() -> ir.Context:
    """A context that reads both levels of the IR: `torch` and `linalg` with `lemur`.

    `torch_c` and `tm_tensor` have no Python registration; a pass that depends on them
    loads them, so one runs over an empty module.
    """
    context = ir.Context()
    torch_dialect.register_dialect(context)
    with context, ir.Location.unknown():
        loads = "func.func(convert-torch-to-tmtensor),torch-func-backend-type-conversion"
        PassManager.parse(f"builtin.module({loads})").run(ir.Module.create().operation)
    if importlib.util.find_spec("lemurc.dialects.lemur") is not None:
        importlib.import_module("lemurc.dialects.lemur").load(context)
    return context
