"""Formats are told by content, and every refusal says what to do."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lemurc.errors import LemurcError, UnsupportedModelError, UsageError
from lemurc.frontend.load import load


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def refused(kind: type[LemurcError], code: str, *args: Any, **options: Any) -> LemurcError:
    with pytest.raises(kind) as caught:
        load(*args, **options)
    assert caught.value.code == code
    return caught.value


def answers(program: Any, module: nn.Module) -> None:
    outputs = program.reference["main"](program.examples["main"])
    inputs = torch.from_numpy(program.examples["main"][0])
    np.testing.assert_allclose(outputs[0], module(inputs).detach().numpy(), rtol=1e-6)


def test_torch_export_archive_under_any_name(tmp_path: Path) -> None:
    module, path = Small(), tmp_path / "model.bin"
    with path.open("wb") as file:
        torch.export.save(torch.export.export(module, (X,), strict=False), file)
    answers(load(path), module)


def test_torchscript(tmp_path: Path) -> None:
    module, path = Small(), tmp_path / "model.pt"
    torch.jit.trace(module, X).save(str(path))
    answers(load(path, inputs=["2x4xf32"]), module)
    refused(UsageError, "example-missing", path)


def test_pickled_module_only_when_trusted(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(nn.Linear(4, 3), path)
    error = refused(UsageError, "pickle-refused", path)
    assert "--trust-pickle" in error.hint
    assert load(path, X, trust_pickle=True).functions["main"].outputs[0].shape == (2, 3)


@pytest.mark.parametrize("zipped", [True, False])
def test_state_dict_explains_the_factory(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    torch.save(Small().state_dict(), path, _use_new_zipfile_serialization=zipped)
    assert "file.py:build" in refused(UnsupportedModelError, "weights-only", path).hint


def test_factories(tmp_path: Path) -> None:
    path = tmp_path / "models.py"
    path.write_text(
        "import torch\nfrom torch import nn\n"
        "def plain(): return nn.Linear(4, 3)\n"
        "def full(): return nn.Linear(4, 3), torch.ones(2, 4)\n"
        "def two():\n"
        "    m = nn.Linear(4, 3)\n"
        "    return {'one': (m, torch.ones(1, 4)), 'many': (m, (torch.ones(9, 4),))}\n"
    )
    assert set(load(f"{path}:plain", inputs=["5x4xf32"]).functions) == {"main"}
    assert load(f"{path}:full").name == "models"
    two = load(f"{path}:two")
    assert set(two.functions) == {"one", "many"} and set(two.weights) == {"weight", "bias"}
    refused(UsageError, "factory-missing", f"{path}:nothing")
    assert f"{path}:build" in refused(UsageError, "factory-missing", path).hint


def test_mlir(tmp_path: Path) -> None:
    path = tmp_path / "anything.txt"
    path.write_text(
        "func.func @double(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
        "  %0 = linalg.add ins(%x, %x : tensor<?x4xf32>, tensor<?x4xf32>)"
        " outs(%x : tensor<?x4xf32>) -> tensor<?x4xf32>\n"
        "  return %0 : tensor<?x4xf32>\n}\n"
    )
    program = load(path)
    assert program.level == "linalg" and program.reference is None
    assert program.functions["double"].inputs[0].shape[1] == 4
    path.write_text("func.func @broken(%x: tensor<4xf32>) { retrn }")
    refused(UsageError, "mlir-syntax", path)


def test_hugging_face_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    program = load(tmp_path)
    signature = program.functions["main"]
    assert [spec.name for spec in signature.inputs] == ["input_ids", "attention_mask"]
    assert signature.out_tree["kind"] == "dict"
    assert signature.out_tree["keys"] == ["last_hidden_state", "pooler_output"]
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.bin")
    refused(UsageError, "weights-missing", tmp_path)


def test_hugging_face_code_is_not_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(
        '{"model_type": "nobody-knows", "auto_map": {"AutoConfig": "evil.Config"}}'
    )
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    (tmp_path / "model.safetensors").write_bytes(b"")
    refused(UnsupportedModelError, "remote-code", tmp_path)


def test_a_damaged_archive_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Small(), (X,), strict=False), path)
    whole = path.read_bytes()
    for data in (b"", whole[: len(whole) // 2], whole[:200]):
        path.write_bytes(data)
        assert "again" in refused(UsageError, "damaged-file", path).hint
    at = whole.index(b'"graph_module"')
    path.write_bytes(whole[:at] + bytes(len(b'"graph_module"')) + whole[at + 14 :])
    assert "checksum" in refused(UsageError, "damaged-file", path).message


def test_a_damaged_torchscript_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.jit.trace(Small(), X).save(str(path))
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        code = next(item for item in archive.infolist() if item.filename.endswith(".py"))
    at = code.header_offset + 30 + len(code.filename) + code.compress_size // 2
    path.write_bytes(whole[:at] + bytes(16) + whole[at + 16 :])
    refused(UsageError, "damaged-file", path, inputs=["2x4xf32"])


def test_other_files(tmp_path: Path) -> None:
    missing = refused(UsageError, "model-not-found", tmp_path / "missing.pt")
    assert str(Path.cwd()) in missing.hint
    refused(UsageError, "model-not-found", f"{tmp_path / 'missing.py'}:build")
    refused(UsageError, "not-a-model-folder", tmp_path)
    path = tmp_path / "file"
    path.write_bytes(b"\x00\x01\x02 nothing known")
    refused(UsageError, "unknown-format", path)
    path.write_bytes(b"\x08\x0a\x12\x07pytorch\x1a\x032.1")
    refused(UsageError, "damaged-file", path)
    path.write_bytes((16).to_bytes(8, "little") + b'{"a": {}}       ')
    refused(UnsupportedModelError, "weights-only", path)
