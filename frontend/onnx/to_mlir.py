"""A concrete ONNX graph as `torch.operator "onnx.*"` operations, marked for the passes.

    func.func @main(%x {lemur.input = 0 : i64}, %w {lemur.param = "w"})
        -> (tensor {lemur.output = 0 : i64})

The pass `convert-onnx` makes operations of PyTorch of them, in the lowering process.
"""

from io import BytesIO
from typing import Any

from torch_mlir import ir
from torch_mlir.extras import onnx_importer

from lemurc.dialects.context import new_context
from lemurc.errors import UnsupportedModelError
from lemurc.frontend.onnx.graph import ConcreteGraph
from lemurc.frontend.onnx.sizes import Analysis


def to_mlir(graph: ConcreteGraph, analysis: Analysis, inputs: int, checks: bool) -> bytes:
    """Bytecode; the first `inputs` arguments are the caller's. With `checks` the last
    result holds the flags of the model's guards."""
    context = new_context()
    info = onnx_importer.ModelInfo(graph.proto)
    module = info.create_module(context)
    try:
        importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
        importer.import_all()
    except (onnx_importer.OnnxImportError, ir.MLIRError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"torch-mlir cannot import the model: {str(error).splitlines()[0]}",
            code="import-failed",
            hint="operators with attributes that are graphs, types or sparse tensors are the "
            "usual cause",
        ) from error
    function = importer._p
    with context:
        arguments = [
            _input(index, graph.proto.graph.input[index].name, analysis) for index in range(inputs)
        ]
        arguments += [{"lemur.param": ir.StringAttr.get(name)} for name in graph.weights]
        outputs = len(graph.proto.graph.output) - checks
        results: list[dict[str, Any]] = [{"lemur.output": _i64(i)} for i in range(outputs)]
        results += [{"lemur.checks": _i64(0)}] * checks
        function.attributes["arg_attrs"] = _attributes(arguments)
        function.attributes["res_attrs"] = _attributes(results)
        # sizes of one tensor and another are the same or proven not to meet
        function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
    buffer = BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _input(index: int, name: str, analysis: Analysis) -> dict[str, Any]:
    shape = analysis.symbolic(name)
    mark = {"lemur.input": _i64(index)}
    if not all(isinstance(dim, int) for dim in shape):
        sizes = [dim if isinstance(dim, int) else dim.max for dim in shape]
        largest = [_i64(-1 if size is None else size) for size in sizes]
        mark["lemur.dim_max"] = ir.ArrayAttr.get(largest)
    return mark


def _attributes(marks: list[dict[str, Any]]) -> Any:
    return ir.ArrayAttr.get([ir.DictAttr.get(mark) for mark in marks])


def _i64(value: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
