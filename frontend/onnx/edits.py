"""Adding typed nodes to a concrete ONNX graph."""

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lemurc.frontend.program import Array

Sizes = tuple[int | None, ...]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of `node` that are given, as Python values."""
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


class Edits:
    """Nodes and constants made so far; what is made carries its type like all else, and the
    name `place` of the node it is made for."""

    def __init__(self, proto: onnx.ModelProto, weights: dict[str, Array]) -> None:
        self.graph = proto.graph
        self.opset = next(item.version for item in proto.opset_import if not item.domain)
        self.makers = {name: node for node in self.graph.node for name in node.output}
        self._types: dict[str, tuple[np.dtype[Any], Sizes]] = {}
        self._values: dict[str, Array] = dict(weights)
        self._new: list[onnx.NodeProto] = []
        self._made = 0
        self.place = ""
        for value in (*self.graph.input, *self.graph.value_info, *self.graph.output):
            kind = value.type.tensor_type
            sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)
            self._types[value.name] = helper.tensor_dtype_to_np_dtype(kind.elem_type), sizes
        for tensor in self.graph.initializer:
            self._keep(tensor.name, numpy_helper.to_array(tensor))

    def dtype(self, name: str) -> np.dtype[Any]:
        return self._types[name][0]

    def shape(self, name: str) -> Sizes:
        return self._types[name][1]

    def value(self, name: str) -> Array | None:
        """A constant or a weight; None for what a call computes."""
        return self._values.get(name)

    def depends(self, name: str, inputs: Collection[str]) -> bool:
        """Whether some of `inputs` take part in computing `name`."""
        pending, seen = [name], set[str]()
        while pending:
            current = pending.pop()
            if current in inputs:
                return True
            if current in self.makers and current not in seen:
                seen.add(current)
                pending += self.makers[current].input
        return False

    def taken(self) -> list[onnx.NodeProto]:
        """The nodes made since the last time."""
        taken, self._new = self._new, []
        return taken

    def constant(self, value: Array, like: str = "", dtype: Any = None) -> str:
        """Of the type of the tensor `like`, or of `dtype`."""
        array = value.astype(self.dtype(like) if like else dtype)
        name = self._fresh("constant")
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        numbers = array.reshape(-1).tolist()
        self.graph.initializer.append(helper.make_tensor(name, kind, array.shape, numbers))
        self._keep(name, array)
        return name

    def add(self, kind: str, inputs: list[str], dtype: Any, sizes: Sizes, **attributes: Any) -> str:
        name = self._fresh(kind.lower())
        node = helper.make_node(kind, inputs, [name], self.place, **attributes)
        self._new.append(node)
        self.makers[name] = node
        self._types[name] = np.dtype(dtype), sizes
        elements = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.graph.value_info.append(helper.make_tensor_value_info(name, elements, sizes))
        return name

    def cast_to(self, name: str, dtype: Any) -> str:
        dtype = np.dtype(dtype)
        if self.dtype(name) == dtype:
            return name
        to = int(helper.np_dtype_to_tensor_dtype(dtype))
        return self.add("Cast", [name], dtype, self.shape(name), to=to)

    def _keep(self, name: str, array: Array) -> None:
        self._values[name] = array
        self._types[name] = array.dtype, array.shape

    def _fresh(self, kind: str) -> str:
        self._made += 1
        return f"lemur.{kind}.{self._made}"
