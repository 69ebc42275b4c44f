"""Views of a tensor's bits as another dtype of the same width.

    torch.aten.view.dtype %x : vtensor<[4],f32> -> vtensor<[4],si32>
      ->  linalg.generic { arith.bitcast f32 to i32 }

torch-mlir has no lowering of them. Widths that differ, the frontend puts together from
integers of the same width.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass
from lemurc.passes.inline_template import inlined
from lemurc.passes.torch_constants import dtype, shape
from lemurc.passes.walking import operations

_VIEW = "torch.aten.view.dtype"
_WIDTHS = {
    "f64": 64,
    "si64": 64,
    "f32": 32,
    "si32": 32,
    "f16": 16,
    "bf16": 16,
    "si16": 16,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "si8": 8,
    "ui8": 8,
}


@dataclass(frozen=True)
class BitcastViews(Pass):
    """Lower the views above; another one stays, and is refused later."""

    name: ClassVar[str] = "bitcast-views"

    def run(self, module: ir.Operation) -> None:
        for operation in operations(module, lambda operation: operation.name == _VIEW):
            (result,), source = operation.results, operation.operands[0]
            width = _WIDTHS.get(dtype(source))
            if width is not None and width == _WIDTHS.get(dtype(result)):
                text = _template(source, result)
                result.replace_all_uses_with(inlined(text, [source], operation))
                operation.erase()


def _template(source: ir.Value, result: ir.Value) -> str:
    sizes = shape(source) or []
    spelled = "".join("?x" if size < 0 else f"{size}x" for size in sizes)
    before, after = _signless(dtype(source)), _signless(dtype(result))
    given, made = f"tensor<{spelled}{before}>", f"tensor<{spelled}{after}>"
    dynamic = [at for at, size in enumerate(sizes) if size < 0]
    lengths = "\n".join(
        f"%c{at} = arith.constant {at} : index\n%d{at} = tensor.dim %x, %c{at} : {given}"
        for at in dynamic
    )
    dims = ", ".join(f"d{at}" for at in range(len(sizes)))
    places = f"affine_map<({dims}) -> ({dims})>"
    loops = ", ".join(['"parallel"'] * len(sizes))
    bits = f"arith.bitcast %e : {before} to {after}" if before != after else ""
    return f"""
    func.func @view(%t: {source.type}) -> {result.type} {{
      %x = torch_c.to_builtin_tensor %t : {source.type} -> {given}
      {lengths}
      %o = tensor.empty({", ".join(f"%d{at}" for at in dynamic)}) : {made}
      %y = linalg.generic {{indexing_maps = [{places}, {places}], iterator_types = [{loops}]}}
          ins(%x : {given}) outs(%o : {made}) {{
        ^bb0(%e: {before}, %old: {after}):
          {f"%b = {bits}" if bits else ""}
          linalg.yield {"%b" if bits else "%e"} : {after}
      }} -> {made}
      %r = torch_c.from_builtin_tensor %y : {made} -> {result.type}
      return %r : {result.type}
    }}
    """


def _signless(name: str) -> str:
    return f"i{name[2:]}" if name.startswith(("si", "ui")) else name
