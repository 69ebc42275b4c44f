# ruff: noqa: E501 (MLIR text)
"""Every cut of small graphs into devices gives stages that compose to the same program."""

import itertools
import random

import pytest
from torch_mlir import ir

from lemurc.manifest import DeviceMemory, StepMemory
from lemurc.passes import graph as graphs
from lemurc.passes.manager import run_pipeline
from lemurc.passes.module_paths import few
from lemurc.passes.predict import predict
from lemurc.passes.stage_groups import group, has_cycle, stage_edges
from lemurc.passes.textual import parse as pipeline

SIZE = 8
SHAPES = {
    "chain": [set() if n == 0 else {n - 1} for n in range(SIZE)],
    "diamond": [set(), {0}, {0}, {1, 2}, {3}, {3}, {4, 5}, {6}],
    "residual": [set(), {0}, {0, 1}, {2}, {2, 3}, {4}, {4, 5}, {6}],
    "wide": [set(), set(), {0}, {1}, {0, 1}, {2, 3}, {4}, {5, 6}],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_assignment_gives_stages_without_cycles(shape: str) -> None:
    before = SHAPES[shape]
    for devices in itertools.product("ab", repeat=SIZE):
        stage = group(devices, before)
        edges = stage_edges(stage, before)
        assert not has_cycle(edges)
        assert all(a < b for a, users in edges.items() for b in users)
        assert all(len({devices[n] for n in range(SIZE) if stage[n] == s}) == 1 for s in edges)
        assert sorted(set(stage)) == list(range(len(edges)))
        if len(set(devices)) == 1:
            assert len(edges) == 1


def test_random_graphs_of_three_devices() -> None:
    draw = random.Random(5)
    for _ in range(100):
        before = [{p for p in range(n) if draw.random() < 0.25} for n in range(14)]
        devices = [draw.choice("abc") for _ in range(14)]
        stage = group(devices, before)
        assert not has_cycle(stage_edges(stage, before))


def _module(shape: str, devices: tuple[str, ...]) -> str:
    """One operation per node, so that every node is distinct; dead ends are returned."""
    unary = ("exp", "tanh", "abs", "log", "negf", "sqrt", "ceil", "floor")
    lines = ["%e = tensor.empty() : tensor<4xf32>"]
    kind = "tensor<4xf32>"
    read = set().union(*SHAPES[shape])
    for node, before in enumerate(SHAPES[shape]):
        operands = [f"%v{p}" for p in sorted(before)] or ["%x"]
        attributes = f'{{lemur.device = "{devices[node]}"}}'
        name = f"linalg.{unary[node]}" if len(operands) == 1 else "linalg.sub"
        types = ", ".join([kind] * len(operands))
        lines.append(
            f"%v{node} = {name} {attributes} ins({', '.join(operands)} : {types}) "
            f"outs(%e : {kind}) -> {kind}"
        )
    ends = [f"%v{n}" for n in range(SIZE) if n not in read]
    types = ", ".join([kind] * len(ends))
    body = "\n  ".join(lines)
    return f"""
module attributes {{lemur.system = {{devices = [{{name = "a", target = "cpu"}}, {{name = "b", target = "vulkan"}}]}}}} {{
func.func @main(%x: {kind} {{lemur.input = 0 : i64}}) -> ({types}) {{
  {body}
  return {", ".join(ends)} : {types}
}}
}}"""


STEPS = "annotate-cost,form-stages,schedule,outline-stages,verify-lemur"


@pytest.mark.parametrize("shape", SHAPES)
def test_stages_compose_to_the_program(shape: str, parse, meaning) -> None:
    original = meaning(parse(_module(shape, ("a",) * SIZE)))
    for devices in itertools.product("ab", repeat=SIZE):
        module = parse(_module(shape, devices))
        run_pipeline(module, pipeline(STEPS))
        assert meaning(module) == original
        assert predict(module)["main"].seconds > 0


LAYERS = """
func.func private @linear_0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32>
    attributes {{lemur.composite = "linear", lemur.module_path = "block.{number}.fc", no_inline}} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}}"""


def _blocks(count: int, pins: str) -> str:
    """Linear, tanh and residual, `count` times."""
    functions = "".join(
        LAYERS.format(number=n).replace("linear_0", f"linear_{n}") for n in range(count)
    )
    weights = "".join(f', %w{n}: tensor<8x8xf32> {{lemur.param = "w{n}"}}' for n in range(count))
    lines, last = [], "%x"
    for n in range(count):
        lines.append(
            f"%l{n} = call @linear_{n}({last}, %w{n}) {{no_inline}} "
            ": (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>"
        )
        lines.append(f"%e{n} = tensor.empty() : tensor<4x8xf32>")
        lines.append(
            f"%t{n} = linalg.tanh ins(%l{n} : tensor<4x8xf32>) "
            f'outs(%e{n} : tensor<4x8xf32>) -> tensor<4x8xf32> loc("block.{n}.act")'
        )
        lines.append(
            f"%y{n} = linalg.add ins(%t{n}, {last} : tensor<4x8xf32>, tensor<4x8xf32>) "
            f'outs(%e{n} : tensor<4x8xf32>) -> tensor<4x8xf32> loc("block.{n}")'
        )
        last = f"%y{n}"
    body = "\n  ".join(lines)
    return f"""
module attributes {{lemur.system = {{devices = [{{name = "a", target = "cpu"}}, {{name = "b", target = "cuda"}}], pins = [{pins}]}}}} {{
{functions}
func.func @main(%x: tensor<4x8xf32> {{lemur.input = 0 : i64}}{weights}) -> tensor<4x8xf32> {{
  {body}
  return {last} : tensor<4x8xf32>
}}
}}"""


PATHS = [f"block.{n}{part}" for n in range(3) for part in ("", ".fc", ".act")]
FULL = "simplify,fuse,annotate-cost,place,form-stages,schedule,outline-stages,verify-lemur"
LATE = FULL.replace("fuse,", "")


@pytest.mark.parametrize("steps", [FULL, LATE], ids=["fused", "not fused"])
def test_pins_never_change_the_meaning(steps: str, parse, meaning) -> None:
    original = meaning(parse(_blocks(3, "")))
    draw = random.Random(11)
    for _ in range(40):
        chosen = draw.sample(PATHS, draw.randrange(1, 5))
        pins = ", ".join(f'["{path}", "{draw.choice("ab")}"]' for path in chosen)
        module = parse(_blocks(3, pins))
        run_pipeline(module, pipeline(steps))
        assert meaning(module) == original


def test_pins_set_after_fusion_open_the_groups_they_split(parse, meaning) -> None:
    module = parse(_blocks(3, ""))
    original = meaning(module)
    run_pipeline(module, pipeline("simplify,fuse,annotate-cost"))
    assert len(graphs.composites(module.operation)) == 6
    system = parse(_blocks(3, '["block.1.fc", "b"]')).operation.attributes["lemur.system"]
    module.operation.attributes["lemur.system"] = ir.Attribute.parse(str(system))
    run_pipeline(module, pipeline("place,form-stages,schedule,outline-stages,verify-lemur"))
    assert meaning(module) == original


@pytest.mark.parametrize("steps", [FULL, LATE], ids=["fused", "not fused"])
def test_every_pass_is_idempotent(steps: str, parse) -> None:
    module = parse(_blocks(3, '["block.1", "b"]'))
    for step in pipeline(steps):
        run_pipeline(module, [step])
        once = str(module)
        run_pipeline(module, [step])
        assert str(module) == once, step


def test_another_program_has_another_meaning(parse, meaning) -> None:
    text = _module("residual", ("a",) * SIZE)
    assert meaning(parse(text)) != meaning(parse(text.replace("ins(%v0, %v1", "ins(%v1, %v0")))


ALONE = """
module attributes {{lemur.system = {{
    devices = [{{name = "gpu", target = "vulkan", call = 1.0e-3, launch = 0.0}}],
    links = [{{src = "host memory", dst = "gpu", latency = 2.0e-2,
              bandwidth = {{"1" = 8.0, "16" = 16.0}}}}]}}}} {{
func.func @main(%x: tensor<{n}xf32> {{lemur.input = 0 : i64}}) -> tensor<{n}xf32> {{
  %e = tensor.empty() : tensor<{n}xf32>
  %0 = linalg.exp {{lemur.device = "gpu"}} ins(%x : tensor<{n}xf32>) outs(%e : tensor<{n}xf32>) -> tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}
}}"""


@pytest.mark.parametrize(("n", "transfer"), [(2, 2e-2 + 8 / 8), (8, 2e-2 + 32 / 16)])
def test_a_gpu_alone_pays_for_inputs_and_results(n: int, transfer: float, parse) -> None:
    module = parse(ALONE.format(n=n))
    run_pipeline(module, pipeline(STEPS))
    found = predict(module)["main"]
    assert (found.crossings, found.transfer_bytes) == (2, 2 * 4 * n)
    assert found.seconds_by_step == pytest.approx((1e-3,), rel=1e-2)
    assert found.seconds == pytest.approx(1e-3 + 2 * transfer, rel=1e-3)


CHAINED = """
module attributes {lemur.system = {devices = [
    {name = "a", target = "cpu"}, {name = "b", target = "vulkan"}]}} {
func.func @main(%x: tensor<8xf32> {lemur.input = 0 : i64},
                %w: tensor<2xf32> {lemur.param = "w"}) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.exp {lemur.device = "a"} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.tanh {lemur.device = "a"} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %2 = tensor.insert_slice %w into %1[0][2][1] {lemur.device = "b"} : tensor<2xf32> into tensor<8xf32>
  return %2 : tensor<8xf32>
}
}"""


def test_memory_is_that_of_values_until_their_last_use_and_of_temporaries(parse) -> None:
    module = parse(CHAINED)
    run_pipeline(module, pipeline(STEPS))
    found = predict(module)["main"]
    vector, weight = 8 * 4, 2 * 4
    # a: with the input and the result of tanh there is a temporary, that of exp
    assert found.memory["a"] == DeviceMemory(0, 3 * vector)
    assert found.memory["b"] == DeviceMemory(weight, 2 * vector)
    assert found.memory_by_step == (
        StepMemory(0, vector, 3 * vector),
        StepMemory(weight, vector, 2 * vector),
    )
    assert [(t.value, t.source, t.target, t.bytes, t.before) for t in found.transfers] == [
        ("v1", "a", "b", vector, 1),
        ("v2", "b", "a", vector, 2),
    ]


def test_a_stage_that_was_measured_is_predicted_to_take_that(parse) -> None:
    module = parse(ALONE.format(n=2))
    run_pipeline(module, pipeline(STEPS))
    found = predict(module, lambda stage: 7.0)["main"]
    assert found.seconds_by_step == (7.0,)
    assert found.seconds_by_device == {"gpu": 7.0}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], ()),
        (["a.b", "a", "a.c", "d"], ("a.b", "a.c", "d")),
        ([f"layer.{n}.{p}" for n in range(3) for p in "xyz"], ("layer.0", "layer.1", "layer.2")),
        ([f"layer.{n}.x" for n in range(9)] + ["head"], ("layer", "head")),
        ([f"m{n}" for n in range(9)], ("m0", "m1", "m2", "...")),
        (["layer.1", "layer.10.x", "layer.10.y"], ("layer.1", "layer.10.x", "layer.10.y")),
        (
            [f"e.tables.{n}" for n in range(4)] + [f"e.layer.{n}.{p}" for n in "01" for p in "ab"],
            ("e.tables", "e.layer.0", "e.layer.1"),
        ),
    ],
)
def test_few_paths(paths: list[str], expected: tuple[str, ...]) -> None:
    assert few(paths) == expected
