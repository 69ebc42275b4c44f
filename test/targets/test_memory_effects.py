"""What a stage may write into, and whose memory its results are."""

import pytest

from lemurc.targets.lower_to_iree import lower_to_iree
from lemurc.targets.memory_effects import MemoryEffects

STAGE = """
#id = affine_map<(d0) -> (d0)>
module @stage {{
  func.func @run(%x: tensor<8xf32>, %y: tensor<8xf32>, %at: tensor<1x1xi32>, %n: index)
      -> ({results}) {{
    %k = arith.constant dense<1.0> : tensor<1xf32>
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8xf32>
    {body}
  }}
}}
"""
SCATTER = """tm_tensor.scatter {{dimension_map = array<i64: 0>}} unique_indices(false)
      ins(%k, %at : tensor<1xf32>, tensor<1x1xi32>) outs({0} : {1}) {{
    ^bb0(%new: f32, %old: f32):
      tm_tensor.yield %new : f32
    }} -> {1}"""
EIGHT, MATRIX = "tensor<8xf32>", "tensor<2x4xf32>"
CASES = {
    "a scatter": (f"%r = {SCATTER.format('%x', EIGHT)}\nreturn %r : {EIGHT}", (0,), (0,)),
    "into fresh memory": (
        f"%f = linalg.fill ins(%zero : f32) outs(%empty : {EIGHT}) -> {EIGHT}\n"
        f"%r = {SCATTER.format('%f', EIGHT)}\nreturn %r : {EIGHT}",
        (),
        (0,),
    ),
    "through views": (
        f"%v = tensor.expand_shape %y [[0, 1]] output_shape [2, 4] : {EIGHT} into {MATRIX}\n"
        f"%w = tensor.collapse_shape %v [[0, 1]] : {MATRIX} into {EIGHT}\n"
        f"%r = {SCATTER.format('%w', EIGHT)}\nreturn %r : {EIGHT}",
        (1,),
        (0,),
    ),
    "a slice": (
        f"%r = tensor.insert_slice %k into %x[%n] [1] [1] : tensor<1xf32> into {EIGHT}\n"
        f"return %r : {EIGHT}",
        (0,),
        (0,),
    ),
    "a copy, which is folded": (
        '%c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}\n'
        f"  ins(%x : {EIGHT}) outs(%empty : {EIGHT}) {{\n"
        f"^bb0(%a: f32, %b: f32):\n linalg.yield %a : f32 }} -> {EIGHT}\n"
        f"%r = {SCATTER.format('%c', EIGHT)}\nreturn %r : {EIGHT}",
        (0,),
        (0,),
    ),
    "only read": (
        f"%r = linalg.map {{ math.absf }} ins(%x : {EIGHT}) outs(%empty : {EIGHT})\n"
        f"return %r : {EIGHT}",
        (),
        (0,),
    ),
    "handed through": (f"return %x : {EIGHT}", (), ()),
    "one of two": (
        f"%r = {SCATTER.format('%x', EIGHT)}\n"
        "%i = arith.constant 0 : index\n%c = arith.cmpi eq, %n, %i : index\n"
        f"%b = scf.if %c -> ({EIGHT}) {{ scf.yield %y : {EIGHT} }} "
        f"else {{ scf.yield %empty : {EIGHT} }}\n"
        f"%s = {SCATTER.format('%b', EIGHT)}\nreturn %s : {EIGHT}",
        (1,),
        (0,),
    ),
    "a later turn of a loop": (
        "%i = arith.constant 0 : index\n%j = arith.constant 1 : index\n"
        f"%f = linalg.fill ins(%zero : f32) outs(%empty : {EIGHT}) -> {EIGHT}\n"
        f"%p:2 = scf.for %k2 = %i to %n step %j iter_args(%m = %f, %l = %empty)\n"
        f"    -> ({EIGHT}, {EIGHT}) {{\n"
        f"%s = {SCATTER.format('%m', EIGHT)}\n"
        f"scf.yield %y, %s : {EIGHT}, {EIGHT} }}\n"
        f"return %p#1 : {EIGHT}",
        (1,),
        (0,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_effects(name: str) -> None:
    body, written, owned = CASES[name]
    found = lower_to_iree(STAGE.format(body=body, results=EIGHT)).traits.memory
    assert found == MemoryEffects(written, owned)


def test_results_in_one_memory_are_not_owned() -> None:
    body = (
        f"%r = {SCATTER.format('%x', EIGHT)}\n"
        f"%v = tensor.expand_shape %r [[0, 1]] output_shape [2, 4] : {EIGHT} into {MATRIX}\n"
        f"return %r, %v : {EIGHT}, {MATRIX}"
    )
    found = lower_to_iree(STAGE.format(body=body, results=f"{EIGHT}, {MATRIX}")).traits.memory
    assert found == MemoryEffects((0,), ())
