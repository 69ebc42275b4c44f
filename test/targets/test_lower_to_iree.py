import pytest

from lemurc.targets.lower_to_iree import lower_to_iree

iree_ir = pytest.importorskip("iree.compiler.ir")


def text_of(bytecode: bytes) -> str:
    with iree_ir.Context():
        return str(iree_ir.Module.parse(bytecode))


def test_weights_become_parameters_and_composites_are_inlined(linear_stage):
    stage = lower_to_iree(linear_stage)
    assert stage.parameters == ("enc.w", "enc.b")
    assert stage.traits.composites == {"linear": 1}
    text = text_of(stage.bytecode)
    assert '@p0 = #flow.parameter.named<"model"::"p0"> : tensor<16x8xf32>' in text
    assert "func.func @run(%arg0: tensor<4x8xf32>) -> tensor<4x16xf32>" in text
    assert "lemur" not in text and "call" not in text and "module @stage " in text


def test_equal_layers_give_equal_bytes(linear_stage):
    other = linear_stage
    for old, new in (("enc.", "decoder.7."), ("stage0", "stage9"), ("linear_0", "linear_41")):
        other = other.replace(old, new)
    other = other.replace('"input:0"', '"v3"').replace('"v7"', '"v9"')
    assert lower_to_iree(other).bytecode == lower_to_iree(linear_stage).bytecode


def test_a_module_around_the_stage_is_seen_through(linear_stage):
    wrapped = lower_to_iree(linear_stage.replace("module @", "module { module @") + "}")
    assert wrapped.bytecode == lower_to_iree(linear_stage).bytecode


def test_a_weight_between_inputs_and_an_unused_composite():
    stage = lower_to_iree("""
    module @stage3 {
      func.func @run(%x: tensor<2xf32>, %w: tensor<2xf32> {lemur.param = "w"}, %y: tensor<2xf32>)
          -> tensor<2xf32> {
        %0 = arith.mulf %x, %w : tensor<2xf32>
        %1 = arith.subf %0, %y : tensor<2xf32>
        return %1 : tensor<2xf32>
      }
      func.func private @gelu_0(%x: tensor<2xf32>) -> tensor<2xf32>
          attributes {lemur.composite = "gelu", no_inline} {
        return %x : tensor<2xf32>
      }
    }""")
    assert stage.parameters == ("w",)
    text = text_of(stage.bytecode)
    assert "func.func @run(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>)" in text
    assert "gelu" not in text


def test_a_composite_that_cannot_be_inlined_stays_under_a_name_of_its_position():
    source = """
    module @stage0 {
      func.func @run(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = "func.call"(%x) <{callee = @NAME, no_inline}> : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func private @NAME(%x: tensor<4xf32>) -> tensor<4xf32>
          attributes {lemur.composite = "fused", no_inline} {
        %0 = tm_tensor.sort dimension(0) outs(%x : tensor<4xf32>) {
        ^bb0(%a: f32, %b: f32):
          %1 = arith.cmpf oge, %a, %b : f32
          tm_tensor.yield %1 : i1
        } -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }"""
    first = lower_to_iree(source.replace("NAME", "sort_3"))
    assert "call @c0" in text_of(first.bytecode)
    assert lower_to_iree(source.replace("NAME", "other")).bytecode == first.bytecode


@pytest.mark.parametrize(("element", "wide"), [("bf16", True), ("f16", False)])
def test_constants_iree_cannot_inline_are_noticed(element, wide):
    stage = lower_to_iree(
        """
        module @stage0 {
          func.func @run() -> tensor<2xTYPE> {
            %0 = arith.constant dense_resource<r> : tensor<2xTYPE>
            return %0 : tensor<2xTYPE>
          }
        }
        {-# dialect_resources: { builtin: { r: "0x02000000803f803f" } } #-}
        """.replace("TYPE", element)
    )
    assert stage.traits.wide_resources is wide


def test_what_a_sort_carries_along_stays_in_a_buffer():
    stage = lower_to_iree("""
    module @stage0 {
      func.func @run(%x: tensor<?xf32>, %p: tensor<?xi64>) -> tensor<?xi64> {
        %0:2 = "tm_tensor.sort"(%x, %p)
          <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 2>}> ({
        ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
          %1 = arith.cmpf ole, %a, %b : f32
          "tm_tensor.yield"(%1) : (i1) -> ()
        }) : (tensor<?xf32>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xi64>)
        return %0#1 : tensor<?xi64>
      }
    }""")
    assert "util.optimization_barrier" in text_of(stage.bytecode)


@pytest.mark.parametrize(
    ("slice_", "is_copied"),
    [
        ("[0, 0, 2] [6, 3, 1] [1, 1, 1]", True),
        ("[0, 0, 0] [3, 3, 1] [2, 1, 1]", True),
        ("[4, 0, 0] [1, 3, 3] [1, 1, 1]", False),
    ],
)
def test_a_strided_slice_is_copied_for_lookups(slice_: str, is_copied: bool):
    sizes = slice_.split("] [")[1].replace(", ", "x")
    offsets, lengths, strides = (f"array<i64: {part}>" for part in slice_[1:-1].split("] ["))
    stage = lower_to_iree(f"""
    module @stage0 {{
      func.func @run(%x: tensor<6x3x3xf32>, %i: tensor<2xindex>) -> tensor<2xf32> {{
        %s = "tensor.extract_slice"(%x) <{{operandSegmentSizes = array<i32: 1, 0, 0, 0>,
          static_offsets = {offsets}, static_sizes = {lengths}, static_strides = {strides}}}>
          : (tensor<6x3x3xf32>) -> tensor<{sizes}xf32>
        %c = arith.constant 0 : index
        %e = tensor.empty() : tensor<2xf32>
        %0 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]}} ins(%i : tensor<2xindex>) outs(%e : tensor<2xf32>) {{
        ^bb0(%k: index, %out: f32):
          %v = tensor.extract %s[%c, %k, %c] : tensor<{sizes}xf32>
          linalg.yield %v : f32
        }} -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }}
    }}""")
    assert ("util.optimization_barrier" in text_of(stage.bytecode)) is is_copied
