"""ONNX's own evaluator in NumPy, the answer a compiled ONNX model must give."""

import numpy as np
from onnx.reference import ReferenceEvaluator

from lemurc.errors import UsageError
from lemurc.frontend.onnx.read import DTYPES, OnnxModel
from lemurc.frontend.program import Array, Reference


def onnx_reference(model: OnnxModel) -> Reference:
    """Flat arrays in, flat arrays out, over the graph as it was read."""
    names = [value.name for value in model.inputs]
    outputs = [value.type.tensor_type.elem_type for value in model.proto.graph.output]
    evaluator: list[ReferenceEvaluator] = []

    def run(inputs: list[Array]) -> list[Array]:
        if not evaluator:
            evaluator.append(ReferenceEvaluator(model.proto))
        feeds = model.data | dict(zip(names, inputs, strict=True))
        try:
            with np.errstate(all="ignore"):
                results = evaluator[0].run(None, feeds)
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
