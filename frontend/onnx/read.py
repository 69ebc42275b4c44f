"""An ONNX file in memory: a graph without data, and the data by name.

Local functions are inlined and `Constant` nodes count as initializers, so one graph of
operators is left. Data in other files is mapped, not copied.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 by name)
import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import external_data_helper, helper, inliner, numpy_helper, version_converter

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.frontend.program import Array

DTYPES: dict[int, str] = {
    getattr(onnx.TensorProto, name): dtype
    for name, dtype in {
        "FLOAT": "float32",
        "DOUBLE": "float64",
        "FLOAT16": "float16",
        "BFLOAT16": "bfloat16",
        "INT8": "int8",
        "INT16": "int16",
        "INT32": "int32",
        "INT64": "int64",
        "UINT8": "uint8",
        "UINT16": "uint16",
        "UINT32": "uint32",
        "UINT64": "uint64",
        "BOOL": "bool",
    }.items()
}
"""Element types of ONNX that are compiled, as NumPy spells them."""

DOMAINS = ("", "ai.onnx")
UPGRADED_OPSET = 13
_EXPANDED = (
    "AffineGrid",
    "CenterCropPad",
    "Attention",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "RotaryEmbedding",
    "SwiGLU",
    "Swish",
)


@dataclass(frozen=True)
class OnnxModel:
    """`proto` has no initializers and one graph; `data` holds them, `inputs` the rest."""

    proto: onnx.ModelProto
    data: dict[str, Array]

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        """What the caller passes: old files list initializers among the inputs too."""
        return [value for value in self.proto.graph.input if value.name not in self.data]

    @property
    def opset(self) -> int:
        return next(item.version for item in self.proto.opset_import if item.domain in DOMAINS)


def read(path: Path) -> OnnxModel:
    """Raises UsageError for a damaged file, UnsupportedModelError for what is left out."""
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    return prepared(proto, path)


def prepared(proto: onnx.ModelProto, path: Path) -> OnnxModel:
    """`proto` as an OnnxModel; `path` is where its external data and messages belong."""
    if not proto.graph.node and not proto.graph.output:
        raise _damaged(path, "it holds no graph")
    if not any(item.domain in DOMAINS for item in proto.opset_import):
        raise _damaged(path, "it names no version of the ONNX operators")
    if proto.graph.sparse_initializer:
        raise UnsupportedModelError(
            f"{str(path)!r} stores weights as sparse tensors",
            code="onnx-type",
            where=", ".join(item.values.name for item in proto.graph.sparse_initializer),
            hint="store them dense",
        )
    data = _take_initializers(proto.graph, path)
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    _take_constants(proto.graph, data, path)
    for number, node in enumerate(proto.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
        node.domain = "" if node.domain in DOMAINS else node.domain
    return OnnxModel(proto, data)


def upgraded(model: OnnxModel) -> OnnxModel:
    """`model` in an opset whose operators take axes and bounds as inputs, where ONNX can."""
    if model.opset >= UPGRADED_OPSET:
        return model
    try:
        converted = version_converter.convert_version(_with_all_inputs(model), UPGRADED_OPSET)
    except (RuntimeError, version_converter.ConvertError):
        return model
    again = prepared(converted, Path(model.proto.graph.name))
    return OnnxModel(again.proto, model.data | again.data)


def expanded(model: OnnxModel) -> OnnxModel:
    """`model` with the operators that torch-mlir lacks replaced by their definitions."""
    used = {node.op_type for node in model.proto.graph.node}
    wanted = [name for name in _EXPANDED if name in used]
    if not wanted:
        return model
    again = by_definition(_with_all_inputs(model), wanted, model.opset)
    return OnnxModel(again.proto, model.data | again.data)


def by_definition(proto: onnx.ModelProto, names: list[str], opset: int) -> OnnxModel:
    """`proto` with the standard's own bodies for the operators of these names."""
    for node in proto.graph.node:
        if node.op_type in names:
            given = {attribute.name for attribute in node.attribute}
            schema = onnx.defs.get_schema(node.op_type, opset, "")
            # the inliner leaves attributes out that are not given
            node.attribute.extend(
                attribute.default_value
                for name, attribute in schema.attributes.items()
                if name not in given and attribute.default_value.type
            )
    wanted = [("", name) for name in names]
    body = inliner.inline_selected_functions(proto, wanted, inline_schema_functions=True)
    return prepared(body, Path(proto.graph.name))


def _with_all_inputs(model: OnnxModel) -> onnx.ModelProto:
    """The initializers as inputs, so that their types are known."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    listed = {value.name for value in proto.graph.input}
    for name, array in model.data.items():
        if name not in listed:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            proto.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    return proto


def _take_initializers(graph: onnx.GraphProto, path: Path) -> dict[str, Array]:
    data = {tensor.name: _array(tensor, path) for tensor in graph.initializer}
    del graph.initializer[:]
    return data


def _take_constants(graph: onnx.GraphProto, data: dict[str, Array], path: Path) -> None:
    kept = []
    for node in graph.node:
        value = _constant(node, path) if node.op_type == "Constant" else None
        if value is None:
            kept.append(node)
        else:
            data[node.output[0]] = value
    del graph.node[:]
    graph.node.extend(kept)


def _constant(node: onnx.NodeProto, path: Path) -> Array | None:
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return _array(value, path, node.output[0])
        if attribute.name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if attribute.name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    return None


def _array(tensor: onnx.TensorProto, path: Path, name: str = "") -> Array:
    name = name or tensor.name
    if tensor.data_type not in DTYPES:
        raise UnsupportedModelError(
            f"{name!r} holds elements of type "
            f"{onnx.TensorProto.DataType.Name(tensor.data_type)}, which are not compiled",
            code="onnx-type",
            where=name,
            hint=f"types: {', '.join(DTYPES.values())}",
        )
    try:
        if external_data_helper.uses_external_data(tensor):
            return _mapped(tensor, path)
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise _damaged(path, f"the data of {name!r}: {error}") from error


def _mapped(tensor: onnx.TensorProto, path: Path) -> Array:
    info = external_data_helper.ExternalDataInfo(tensor)
    folder = path.parent.resolve()
    file = (folder / info.location).resolve()
    if not file.is_relative_to(folder):
        raise UsageError(
            f"{tensor.name!r} of {str(path)!r} points to {info.location!r}, outside its folder",
            code="external-data",
            hint="put the data beside the model: nothing else is read",
        )
    if not file.is_file():
        raise UsageError(
            f"{str(path)!r} keeps {tensor.name!r} in {info.location!r}, which is not there",
            code="external-data",
            where=str(file),
            hint="copy the model together with its data files",
        )
    dtype, shape = np.dtype(DTYPES[tensor.data_type]), tuple(tensor.dims)
    count, offset = int(np.prod(shape, dtype=np.int64)), info.offset or 0
    if offset + count * dtype.itemsize > file.stat().st_size:
        raise _damaged(file, f"it ends before the data of {tensor.name!r} does")
    if not count:
        return np.zeros(shape, dtype)
    raw: Any = np.memmap(file, np.uint8, "r", offset, (count * dtype.itemsize,))
    mapped: Array = np.asarray(raw).view(dtype).reshape(shape)
    return mapped


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"{str(path)!r} is damaged: {reason}",
        code="damaged-file",
        hint="export or copy the model again",
    )
