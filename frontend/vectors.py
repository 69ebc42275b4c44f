"""Products of vectors with batches of matrices, which torch-mlir refuses.

matmul(x[b, m, k], y[k])   ->   squeeze(matmul(x, unsqueeze(y, -1)), -1)
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lemurc.frontend.graph_edits import Edit, replace

_aten = torch.ops.aten


def widen_vectors(program: ExportedProgram) -> None:
    for node in list(program.graph.nodes):
        if node.target is not _aten.matmul.default:
            continue
        left, right = node.args
        assert isinstance(left, Node) and isinstance(right, Node)
        ranks = left.meta["val"].dim(), right.meta["val"].dim()
        edit = Edit(node)
        if ranks[0] > 2 and ranks[1] == 1:
            axis, right = -1, edit.call(_aten.unsqueeze.default, right, -1)
        elif ranks[0] == 1 and ranks[1] > 2:
            axis, left = -2, edit.call(_aten.unsqueeze.default, left, 0)
        else:
            continue
        product = edit.call(_aten.matmul.default, left, right)
        replace(program, node, edit.call(_aten.squeeze.dim, product, axis))
