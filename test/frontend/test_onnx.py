"""ONNX files become programs with the graph's own signature; every refusal says what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lemurc.errors import LemurcError, UnsupportedModelError, UsageError
from lemurc.frontend.load import load
from lemurc.frontend.onnx.broadcasts import refuse_unproven
from lemurc.frontend.onnx.sizes import Analysis, Tensor
from lemurc.frontend.program import Program
from lemurc.manifest import InputRange, SymbolicDim

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
W = np.arange(12, dtype=np.float32).reshape(4, 3)


def value(name: str, shape: list[Any], elements: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elements, shape)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    **options: Any,
) -> Path:
    """`path`, which then holds a model of these nodes."""
    initializers = [numpy_helper.from_array(w, name) for name, w in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path, **options)
    return path


def product(path: Path, batch: Any = 2, **options: Any) -> Path:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    return save(
        path, [node], [value("x", [batch, 4])], [value("y", [batch, 3])], {"w": W}, **options
    )


def refused(kind: type[LemurcError], code: str, path: Path, **options: Any) -> LemurcError:
    with pytest.raises(kind) as caught:
        load(path, **options)
    assert caught.value.code == code
    return caught.value


def answer(program: Program, *inputs: np.ndarray) -> list[np.ndarray]:
    assert program.reference is not None
    return program.reference["main"](list(inputs))


def test_signature_and_weights(tmp_path: Path) -> None:
    program = load(product(tmp_path / "under any name"))
    main = program.functions["main"]
    assert [(spec.name, spec.dtype, spec.shape) for spec in main.inputs] == [
        ("x", "float32", (2, 4))
    ]
    assert [(spec.name, spec.shape) for spec in main.outputs] == [("y", (2, 3))]
    assert main.argument_names == ("x",)
    np.testing.assert_array_equal(program.weights["w"], W)
    assert W.tobytes() not in program.mlir
    assert b"lemur.param" in program.mlir
    assert program.producer["onnx"].startswith("opset 18")
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(answer(program, x)[0], x @ W)


def test_constant_nodes_are_weights_too(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = save(tmp_path / "m.onnx", [constant, node], [value("x", [2, 4])], [value("y", [2, 3])])
    assert list(load(path).weights) == ["w"]


def test_external_data(tmp_path: Path) -> None:
    path = product(
        tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    program = load(path)
    np.testing.assert_array_equal(program.weights["w"], W)
    assert not program.weights["w"].flags.owndata, "mapped, not copied"
    (tmp_path / "m.data").write_bytes(b"short")
    refused(UsageError, "damaged-file", path)
    (tmp_path / "m.data").unlink()
    assert "m.data" in refused(UsageError, "external-data", path).message


def test_external_data_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    path = product(
        tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../secret"
    path.write_bytes(model.SerializeToString())
    refused(UsageError, "external-data", path)


def test_damaged_files(tmp_path: Path) -> None:
    path = product(tmp_path / "m.onnx")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(UsageError, "damaged-file", path)
    path.write_bytes(content[:2] + b"\x3a\xff\xff\xff\x7f")
    refused(UsageError, "damaged-file", path)


def test_dynamic_sizes(tmp_path: Path) -> None:
    path = product(tmp_path / "m.onnx", "batch")
    main = load(path).functions["main"]
    assert main.inputs[0].shape == (SymbolicDim("batch", 1), 4)
    assert main.outputs[0].shape == (SymbolicDim("batch", 1), 3)
    for argument in ("x", "0"):
        main = load(path, dynamic=[f"{argument}.0=n:2..8"]).functions["main"]
        assert main.outputs[0].shape == (SymbolicDim("n", 2, 8), 3)
    assert load(path, dynamic=["x.0=n:5..5"]).functions["main"].outputs[0].shape == (5, 3)
    refused(UsageError, "bad-dynamic-spec", path, dynamic=["x.1=n:2..8"])
    refused(UsageError, "bad-dynamic-spec", path, dynamic=["z.0=n"])
    refused(UsageError, "bad-dynamic-spec", path, dynamic_shapes={"x": {0: "n"}})
    refused(UsageError, "bad-dynamic-spec", path, dynamic=["x.0=n:8..2"])
    refused(UsageError, "example-mismatch", path, dynamic=["x.0=n:2..8"], inputs=["9x4xf32"])


def test_sizes_of_results_are_expressions_of_the_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["twice"], axis=0),
        helper.make_node("Concat", ["twice", "w"], ["y"], axis=0),
    ]
    weights = {"w": np.zeros((3, 4), np.float32)}
    inputs, outputs = [value("x", ["n", 4])], [value("y", ["m", 4])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, weights)
    assert load(path).functions["main"].outputs[0].shape == (SymbolicDim("2*n + 3", 5), 4)


def test_sizes_that_the_model_does_not_suit(tmp_path: Path) -> None:
    """A table of 16 positions, cut to the length of the call."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=0, end=1),
        helper.make_node("Slice", ["table", "zero", "length"], ["part"]),
        helper.make_node("Add", ["x", "part"], ["y"], "add"),
    ]
    weights = {"table": np.zeros((16, 4), np.float32), "zero": np.zeros(1, np.int64)}
    inputs, outputs = [value("x", ["n", 4])], [value("y", ["n", 4])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, weights)
    error = refused(UnsupportedModelError, "onnx-sizes", path)
    assert "add" in error.where and "--dynamic" in error.hint
    load(path, dynamic=["x.0=n:1..16"])
    refused(UnsupportedModelError, "onnx-sizes", path, dynamic=["x.0=n:1..17"])


@pytest.mark.parametrize(
    ("x", "y", "fits"),
    [
        (Tensor(FLOAT, (None,), ((5,), (1,)), None), Tensor(FLOAT, (None,), ((5,), (1,)), None), 1),
        (Tensor(FLOAT, (None,), ((5,), (9,)), None), Tensor(FLOAT, (1,), ((1,), (1,)), None), 1),
        (Tensor(FLOAT, (None,), ((5,), (9,)), None), Tensor(FLOAT, (None,), ((5,), (1,)), None), 0),
    ],
)
def test_sizes_that_may_be_broadcast_are_refused(x: Tensor, y: Tensor, fits: int) -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"], "add")
    analysis = Analysis({}, ({}, {}), {"x": x, "y": y})
    if fits:
        refuse_unproven([node], analysis)
        return
    with pytest.raises(UnsupportedModelError) as caught:
        refuse_unproven([node], analysis)
    assert caught.value.code == "dynamic-broadcast" and "add" in caught.value.where


def test_shapes_computed_from_shapes_are_constants(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    weights = {"zero": np.zeros(1, np.int64), "rest": np.asarray([2, 2])}
    path = save(tmp_path / "m.onnx", nodes, [value("x", [3, 4])], [value("y", [3, 2, 2])], weights)
    program = load(path)
    assert program.functions["main"].outputs[0].shape == (3, 2, 2)
    assert b"onnx.Shape" not in program.mlir and not program.weights


def test_several_results_and_examples_by_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Mul", ["a", "b"], ["p"])]
    inputs = [value("a", [2]), value("b", [2])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [value("s", [2]), value("p", [2])])
    a, b = np.asarray([1, 2], np.float32), np.asarray([3, 4], np.float32)
    for given in ({"args": (a,), "kwargs": {"b": b}}, {"args": (a, b)}):
        program = load(path, **given)
        np.testing.assert_array_equal(program.examples["main"][1], b)
    assert program.functions["main"].out_tree["kind"] == "tuple"
    refused(UsageError, "example-mismatch", path, args=(a,))
    refused(UsageError, "example-mismatch", path, args=(a, b.astype(np.float64)))


def test_unsupported_operators_are_listed_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], "find"),
        helper.make_node("Fancy", ["x"], ["fancy"], "own_one", domain="com.example"),
        helper.make_node("Fancy", ["x"], ["y"], "own_two", domain="com.example"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [3, 4])], [value("y", [3, 4])])
    message = refused(UnsupportedModelError, "unsupported-ops", path).message
    assert "com.example.Fancy" in message and "x2 at own_one, own_two" in message
    assert "NonZero" in message and "find" in message


def test_types_that_are_not_compiled(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    text = TensorProto.STRING
    path = save(tmp_path / "m.onnx", [node], [value("x", [3], text)], [value("y", [3], text)])
    assert "STRING" in refused(UnsupportedModelError, "onnx-type", path).message


def lookup(path: Path, *before: onnx.NodeProto, indices: str = "ids") -> Path:
    nodes = [*before, helper.make_node("Gather", ["table", indices], ["y"], "look_up")]
    inputs, outputs = [value("ids", [5], INT64)], [value("y", [5, 3])]
    return save(path, nodes, inputs, outputs, {"table": W, "two": np.asarray(2)})


def test_indices_are_guarded(tmp_path: Path) -> None:
    main = load(lookup(tmp_path / "a.onnx")).functions["main"]
    reason = "index into a table of size 4, at look_up"
    assert main.input_ranges == (InputRange(0, -4, 3, reason),) and not main.checks
    computed = helper.make_node("Mul", ["ids", "two"], ["twice"])
    path = lookup(tmp_path / "b.onnx", computed, indices="twice")
    main = load(path, args=(np.zeros(5, np.int64),)).functions["main"]
    assert not main.input_ranges and "look_up" in main.checks[0]
    found = helper.make_node("ArgMax", ["table"], ["best"], axis=0, keepdims=0)
    main = load(lookup(tmp_path / "c.onnx", found, indices="best")).functions["main"]
    assert not main.input_ranges and not main.checks


def test_constant_indices_outside_their_table(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "ids"], ["y"], "look_up")
    weights = {"ids": np.asarray([1, 9])}
    path = save(tmp_path / "m.onnx", [node], [value("x", [4, 3])], [value("y", [2, 3])], weights)
    assert "look_up" in refused(UnsupportedModelError, "onnx-index", path).where


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = helper.make_function(
        "com.example",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )
    node = helper.make_node("Twice", ["x"], ["y"], domain="com.example")
    path = save(tmp_path / "m.onnx", [node], [value("x", [2])], [value("y", [2])])
    model = onnx.load(path)
    model.functions.append(body)
    onnx.save(model, path)
    x = np.asarray([1, 2], np.float32)
    np.testing.assert_array_equal(answer(load(path), x)[0], x + x)


def test_old_opsets_are_upgraded(tmp_path: Path) -> None:
    """Their squeezes have axes as attributes, and their clips have bounds."""
    nodes = [
        helper.make_node("Clip", ["x"], ["low"], min=0.0, max=6.0),
        helper.make_node("Squeeze", ["low"], ["y"], axes=[1]),
    ]
    inputs, outputs = [value("x", [3, 1])], [value("y", [3])]
    program = load(save(tmp_path / "m.onnx", nodes, inputs, outputs, opset=9))
    assert program.producer["onnx"].startswith("opset 9")
    assert program.functions["main"].outputs[0].shape == (3,)
    x = np.asarray([[-1], [2], [9]], np.float32)
    np.testing.assert_array_equal(answer(program, x)[0], [0, 2, 6])


def test_code_that_would_read_outside_its_table_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], "sample")
    inputs = [value("x", [1, 1, 4, 4]), value("grid", [1, 2, 2, 2])]
    path = save(tmp_path / "m.onnx", [node], inputs, [value("y", [1, 1, 2, 2])])
    assert "sample" in refused(UnsupportedModelError, "unsupported-ops", path).message
