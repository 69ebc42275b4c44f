"""Loading the dialect: twice, in two contexts, and back in the first."""

from torch_mlir import ir

from lemurc.dialects import lemur
from lemurc.dialects.context import new_context

_TEXT = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "lemur.transfer"(%x) {device = "gpu"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def _transfer(context: ir.Context) -> object:
    with context:
        module = ir.Module.parse(_TEXT)
        return module.body.operations[0].body.blocks[0].operations[0]


def test_load_is_idempotent_in_every_context() -> None:
    first, second = new_context(), new_context()
    lemur.load(first)
    lemur.load(second)
    for context in (first, second, first):
        assert isinstance(_transfer(context), lemur.TransferOp)


def test_operations_are_built_from_python() -> None:
    with new_context() as context, ir.Location.unknown():
        module = ir.Module.parse(_TEXT)
        function = module.body.operations[0]
        block = function.body.blocks[0]
        with ir.InsertionPoint(block.operations[1]):
            pinned = lemur.PinOp(
                block.arguments[0], ir.StringAttr.get("cpu"), block.arguments[0].type
            )
        assert pinned.device.value == "cpu"
        assert pinned.operation.verify()
        assert context.is_dialect_loaded("lemur")


def test_bytecode_keeps_the_dialect(tmp_path) -> None:
    with new_context():
        module = ir.Module.parse(_TEXT)
        path = tmp_path / "m.mlirbc"
        with path.open("wb") as file:
            module.operation.write_bytecode(file)
        text = str(module)
    with new_context():
        assert str(ir.Module.parse(path.read_bytes())) == text
