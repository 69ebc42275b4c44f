"""ONNX's own evaluator in NumPy, the answer a compiled ONNX model must give."""

from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from lemurc.errors import UsageError
from lemurc.frontend.onnx.read import DTYPES, OnnxModel
from lemurc.frontend.program import Array, Reference


class GatherElements(OpRun):
    """The evaluator's own refuses indices of another shape than the data's."""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        axis %= data.ndim
        part = tuple(
            slice(None) if at == axis else slice(size) for at, size in enumerate(indices.shape)
        )
        return (np.take_along_axis(data[part], indices.astype(np.int64), axis),)


def evaluator(proto: onnx.ModelProto) -> Any:
    return ReferenceEvaluator(proto, new_ops=[GatherElements])


def onnx_reference(model: OnnxModel) -> Reference:
    """Flat arrays in, flat arrays out, over the graph as it was read."""
    names = [value.name for value in model.inputs]
    outputs = [value.type.tensor_type.elem_type for value in model.proto.graph.output]
    made: list[Any] = []

    def run(inputs: list[Array]) -> list[Array]:
        if not made:
            made.append(evaluator(model.proto))
        feeds = model.data | dict(zip(names, inputs, strict=True))
        try:
            with np.errstate(all="ignore"):
                results = made[0].run(None, feeds)
        except Exception as error:
            raise UsageError(
                f"ONNX's reference evaluator refuses the example call: {error}",
                code="example-refused",
                hint="give inputs that suit the model: --input NAME=1x16xi64 or "
                "--input NAME=@file.npy; --no-verify does without",
            ) from error
        # NumPy computes some operators in more bits than the graph says
        return [
            np.asarray(result).astype(DTYPES[elements], copy=False)
            for result, elements in zip(results, outputs, strict=True)
        ]

    return run
