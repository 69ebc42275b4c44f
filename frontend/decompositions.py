"""Which operators PyTorch takes apart before import, and which reach our passes whole.

An operator is kept whole when torch-mlir can lower it itself and a device may have a
better way for it (a composite, see passes/outline_composites.py), or when PyTorch's
decomposition costs accuracy or speed: that of layer norm computes in float64, that of
attention materialises the scores.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as torch_pytree

from lemurc.frontend.operators.unsigned import with_wide_bytes
from lemurc.frontend.own_decompositions import own_decompositions

_WHOLE = (
    "_native_batch_norm_legit_no_training",
    "_softmax",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "addmm",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "baddbmm",
    "batch_norm",
    "bmm",
    "convolution",
    "embedding",
    "gelu",
    "group_norm",
    "layer_norm",
    "linear",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mm",
    "native_group_norm",
    "native_layer_norm",
    "reshape",
    "rms_norm",
    "scaled_dot_product_attention",
    "silu",
    "softmax",
    "var_mean",
    "view",
)


def decomposition_table(program: ExportedProgram) -> dict[Any, Callable[..., Any]]:
    """What run_decompositions takes for `program`; a fresh dict."""
    table = _library_table() | own_decompositions()
    return with_wide_bytes(table) if _holds_unsigned_bytes(program) else table


def _holds_unsigned_bytes(program: ExportedProgram) -> bool:
    """Looking at every operator for them takes a quarter of the time of all decomposition."""
    graphs = [getattr(module, "graph", None) for module in program.graph_module.modules()]
    return any(
        isinstance(value, torch.Tensor) and value.dtype is torch.uint8
        for graph in graphs
        if graph is not None
        for node in graph.nodes
        for value in torch_pytree.tree_leaves(node.meta.get("val"))
    )


@cache
def _library_table() -> dict[Any, Callable[..., Any]]:
    """torch-mlir's table without the operators that stay whole."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    whole = {getattr(torch.ops.aten, name) for name in _WHOLE}
    return {
        overload: decompose
        for overload, decompose in get_decomposition_table().items()
        if overload._overloadpacket not in whole
    }
