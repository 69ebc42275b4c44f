"""What of an ONNX model cannot be compiled, all of it at once and before any work."""

from collections import defaultdict

import onnx

from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.read import DTYPES, OnnxModel

_NODES_SHOWN = 5
_KINDS = {
    "If": "control flow",
    "Loop": "control flow",
    "Scan": "control flow",
    "SequenceMap": "control flow",
    "NonZero": "its result is as long as the values say",
    "Unique": "its result is as long as the values say",
    "Compress": "its result is as long as the values say",
    "NonMaxSuppression": "its result is as long as the values say",
    "RandomNormal": "random numbers",
    "RandomNormalLike": "random numbers",
    "RandomUniform": "random numbers",
    "RandomUniformLike": "random numbers",
    "Multinomial": "random numbers",
    "Bernoulli": "random numbers",
    "NegativeLogLikelihoodLoss": "a loss of training",
    "SoftmaxCrossEntropyLoss": "a loss of training",
    "GridSample": "torch-mlir's code reads outside the image",
    "ReverseSequence": "its lengths are not checked",
    "MaxUnpool": "its indices are not checked",
    "RoiAlign": "its indices are not checked",
    "DeformConv": "its indices are not checked",
    "TensorScatter": "its indices are not checked",
    "StringNormalizer": "text",
    "StringConcat": "text",
    "StringSplit": "text",
    "RegexFullMatch": "text",
    "TfIdfVectorizer": "text",
    "ImageDecoder": "files",
}


def refuse_unsupported(model: OnnxModel) -> None:
    """Raise UnsupportedModelError that lists operators and types with their nodes."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in model.proto.graph.node:
        reason = _reason(node, model.opset)
        if reason:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            found[f"{name} ({reason})"].append(node.name)
    if found:
        listed = [f"{what} x{len(nodes)} at {_shown(nodes)}" for what, nodes in found.items()]
        raise UnsupportedModelError(
            "the model uses operators that cannot be compiled:\n  " + "\n  ".join(sorted(listed)),
            code="unsupported-ops",
            hint="export it again with standard operators; control flow over constants goes "
            "away with an optimiser such as onnxsim; cut off what prepares text or picks boxes",
        )
    _refuse_types(model)


def _reason(node: onnx.NodeProto, opset: int) -> str:
    if node.domain:
        return "not a standard operator"
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return f"unknown in opset {opset}"
    if schema.deprecated:
        return f"gone since opset {schema.since_version}"
    if node.op_type in _KINDS:
        return _KINDS[node.op_type]
    if node.op_type == "Pad" and any(item.s == b"wrap" for item in node.attribute):
        return "mode wrap"
    if node.op_type.startswith(("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")):
        return "a sequence or optional value"
    return ""


def _refuse_types(model: OnnxModel) -> None:
    wrong = []
    for value in (*model.inputs, *model.proto.graph.output):
        kind = value.type.WhichOneof("value")
        tensor = value.type.tensor_type
        if kind != "tensor_type":
            wrong.append(f"{value.name}: {kind or 'no type'}")
        elif tensor.elem_type not in DTYPES:
            spelled = onnx.TensorProto.DataType.Name(tensor.elem_type)
            wrong.append(f"{value.name}: elements of type {spelled}")
        elif not tensor.HasField("shape") and value in model.inputs:
            wrong.append(f"{value.name}: no number of dimensions")
    if wrong:
        raise UnsupportedModelError(
            f"inputs or results of the model are no tensors that lemurc takes: {'; '.join(wrong)}",
            code="onnx-type",
            hint=f"it takes tensors of known rank and of {', '.join(DTYPES.values())}",
        )


def _shown(nodes: list[str]) -> str:
    more = len(nodes) - _NODES_SHOWN
    return ", ".join(nodes[:_NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")
