"""Models exported to ONNX and compiled from the file, against the PyTorch they came from."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import lemurc
from lemurc.errors import InputError, VerificationError
from lemurc.verification import compare_all

pytest.importorskip("onnxscript", reason="torch.onnx.export needs the package onnxscript")
pytestmark = pytest.mark.filterwarnings("ignore")


def export(model: torch.nn.Module, args: tuple[Any, ...], path: Path, **options: Any) -> Path:
    program = torch.onnx.export(model, args, dynamo=True, verbose=False, **options)
    assert program is not None
    program.save(str(path), **({"external_data": True} if path.stem == "external" else {}))
    return path


def equals_eager(session: Any, model: torch.nn.Module, args: tuple[Any, ...]) -> None:
    with torch.no_grad():
        want = model(*args)
    got = session(*args)
    want, got = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (want, got))
    names = [f"output {i}" for i in range(len(want))]
    for item in compare_all(names, [y.numpy() for y in got], [r.numpy() for r in want]):
        assert item.ok, item


@pytest.mark.parametrize("name", ["resnet18", "bert", "gpt2", "vit", "llama"])
def test_zoo(name: str, zoo: ModuleType, tmp_path: Path) -> None:
    model, args = zoo.ZOO[name]()
    path = export(model, args, tmp_path / "model.onnx")
    result = lemurc.compile(path, output=tmp_path / "model.lemur")
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    assert result.manifest.producer["onnx"].startswith("opset")
    weights = sum(p.numel() for p in model.parameters())
    stored = sum(int(np.prod(w.shape)) for w in result.manifest.weights.values())
    assert stored > 0.5 * weights, "the artifact holds the weights, not the code"
    equals_eager(lemurc.load(result.path), model, args)


def test_composites_are_found(zoo: ModuleType, tmp_path: Path) -> None:
    path = export(*zoo.ZOO["bert"](), tmp_path / "model.onnx")
    result = lemurc.compile(path, output=tmp_path / "model.lemur")
    kinds = {kind for stage in result.manifest.stages.values() for kind in stage.ops}
    assert {"matmul", "layer_norm", "gelu", "softmax"} <= kinds


class Encoder(torch.nn.Module):
    """Two inputs that share their sizes, two results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 8)
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.linear(self.table(ids) + x)
        return hidden.softmax(-1), hidden.sum(1)


def call(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(length)
    ids = torch.randint(0, 50, (batch, length), generator=draw)
    return ids, torch.randn(batch, length, 8, generator=draw)


def test_dynamic_sizes_names_and_external_data(tmp_path: Path) -> None:
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq")}
    model = Encoder().eval()
    path = export(model, call(2, 7), tmp_path / "external.onnx", dynamic_shapes=(sizes, sizes))
    assert list(tmp_path.glob("*.data")), "the weights are in a file of their own"
    result = lemurc.compile(path, output=tmp_path / "m.lemur", dynamic=("ids.1=seq:1..40",))
    session = lemurc.load(result.path)
    for batch, length in ((1, 1), (2, 7), (5, 40), (3, 16)):
        equals_eager(session, model, call(batch, length))
    ids, x = call(2, 7)
    by_name = session(x=x.numpy(), ids=ids.numpy())
    assert isinstance(by_name, tuple) and isinstance(by_name[0], np.ndarray)
    np.testing.assert_allclose(by_name[0], model(ids, x)[0].detach().numpy(), rtol=1e-4, atol=1e-6)
    for wrong, code in (
        ((ids + 50, x), "input-range"),
        ((ids - 60, x), "input-range"),
        ((ids[:, :3], x), "input-shape"),
        (call(1, 41), "input-shape"),
    ):
        with pytest.raises(InputError) as caught:
            session(*wrong)
        assert caught.value.code == code


def save(
    path: Path, nodes: list[onnx.NodeProto], inputs: Any, outputs: Any, **weights: Any
) -> Path:
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in group.items()]
        for group in (inputs, outputs)
    ]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", *values, stored)
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def test_computed_indices_are_checked_while_it_runs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["ids", "two"], ["twice"]),
        helper.make_node("Gather", ["table", "twice"], ["y"], "look_up"),
    ]
    int64, table = TensorProto.INT64, np.arange(12, dtype=np.float32).reshape(6, 2)
    inputs, outputs = {"ids": (int64, [3])}, {"y": (TensorProto.FLOAT, [3, 2])}
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, two=2, table=table)
    result = lemurc.compile(path, (np.asarray([0, 1, 2]),), output=tmp_path / "m.lemur")
    session = lemurc.load(result.path)
    np.testing.assert_array_equal(session(np.asarray([0, 2, -3])), table[[0, 4, 0]])
    for index in (3, -4, 2**40):
        with pytest.raises(InputError) as caught:
            session(np.asarray([0, index, 1]))
        assert caught.value.code == "check-failed" and "look_up" in caught.value.message


def test_integer_division(tmp_path: Path) -> None:
    """By zero and of the least integer by -1 the processor would end the process."""
    nodes = [
        helper.make_node("Abs", ["b"], ["size"]),
        helper.make_node("Div", ["a", "size"], ["q"], "computed"),
        helper.make_node("Div", ["a", "b"], ["r"], "given"),
    ]
    kind = (TensorProto.INT32, [3])
    inputs, outputs = {"a": kind, "b": kind}, {"q": kind, "r": kind}
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs)
    a, b = np.asarray([-7, 7, -(2**31)], np.int32), np.asarray([2, -2, -1], np.int32)
    result = lemurc.compile(path, (a, b), output=tmp_path / "m.lemur", verify=False)
    session = lemurc.load(result.path)
    quotients, others = session(a, b)
    np.testing.assert_array_equal(quotients[:2], [-3, 3])
    np.testing.assert_array_equal(others[:2], [-3, -3])
    with pytest.raises(InputError):
        session(a, np.asarray([1, 0, 1], np.int32))


def test_a_wrong_answer_is_no_artifact(tmp_path: Path, monkeypatch: Any) -> None:
    from lemurc.frontend.onnx import load

    node = helper.make_node("Relu", ["x"], ["y"])
    kind = (TensorProto.FLOAT, [3])
    path = save(tmp_path / "m.onnx", [node], {"x": kind}, {"y": kind})
    monkeypatch.setattr(load, "onnx_reference", lambda model: lambda inputs: [inputs[0]])
    with pytest.raises(VerificationError, match="ONNX's reference evaluator"):
        lemurc.compile(path, output=tmp_path / "m.lemur")
    assert not (tmp_path / "m.lemur").exists()


def test_result_that_is_an_input(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    kind = (TensorProto.FLOAT, [3])
    path = save(tmp_path / "m.onnx", [node], {"x": kind, "z": kind}, {"y": kind})
    result = lemurc.compile(path, output=tmp_path / "m.lemur")
    x = np.asarray([1, 2, 3], np.float32)
    np.testing.assert_array_equal(lemurc.load(result.path)(x, x + 1), x)
