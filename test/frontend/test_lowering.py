"""Level `linalg` against eager, and what must not get there."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lemurc.dialects.locations import module_path
from lemurc.errors import UnsupportedModelError
from lemurc.frontend.load import load

LAYERS = 3
EXPECTED = {
    "resnet18": {"conv": 20, "batch_norm": 20, "pool": 2, "linear": 1},
    "bert": {"embedding": 3, "layer_norm": 7, "linear": 19, "attention": 3, "gelu": 3},
    "gpt2": {
        "embedding": 2,
        "layer_norm": 7,
        "matmul": 12,
        "attention": 3,
        "gelu": 3,
        "linear": 1,
    },
    "llama": {
        "embedding": 1,
        "rms_norm": 7,
        "rope": 6,
        "linear": 22,
        "attention": 3,
        "silu": 3,
    },
    "minilm": {"embedding": 3, "layer_norm": 13, "linear": 36, "attention": 6, "gelu": 6},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_composites_and_values_of_the_zoo(
    level_l: ModuleType, name: str, zoo: ModuleType, tmp_path: Path
) -> None:
    program = load(*zoo.ZOO[name]())
    assert level_l.composites(level_l.lower(program)) == EXPECTED[name]
    assert program.reference is not None
    expected = program.reference["main"](program.examples["main"])
    level_l.assert_close(
        level_l.LoweredFunction(program, tmp_path)(program.examples["main"]), expected
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "distilbert",
        "llama_decode",
        "qwen2",
        "mixtral",
        "whisper_encoder",
        "whisper_decoder",
        "vit",
        "convnext",
        "mobilenet_v2",
        "clip",
        "mamba",
        "t5",
    ],
)
def test_values_of_the_larger_zoo(
    level_l: ModuleType, name: str, zoo: ModuleType, tmp_path: Path
) -> None:
    program = load(*zoo.ZOO[name]())
    assert program.reference is not None
    expected = program.reference["main"](program.examples["main"])
    level_l.assert_close(
        level_l.LoweredFunction(program, tmp_path)(program.examples["main"]), expected
    )


def test_module_paths_reach_level_l(level_l: ModuleType, zoo: ModuleType) -> None:
    module = level_l.lower(load(*zoo.ZOO["bert"]()))
    attention = [
        op
        for op in module.body.operations
        if "lemur.composite" in op.attributes
        and op.attributes["lemur.composite"].value == "attention"
    ]
    paths = [op.attributes["lemur.module_path"].value for op in attention]
    assert paths == [f"model.encoder.layer.{layer}.attention.self" for layer in range(LAYERS)]
    assert [module_path(op.location) for op in attention] == paths
    main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    calls = [op for op in main.regions[0].blocks[0].operations if op.operation.name == "func.call"]
    assert all("no_inline" in call.attributes for call in calls)
    assert "encoder.layer.1" in {module_path(c.operation.location)[6:21] for c in calls}


def test_no_f64_that_the_model_did_not_ask_for(level_l: ModuleType, zoo: ModuleType) -> None:
    for name in ("bert", "llama", "gpt2", "resnet18"):
        text = str(level_l.lower(load(*zoo.ZOO[name]())))
        plain = re.sub(r"(lemur\.\w+|scale) = [-\d.e+]+ : f64", "", text, flags=re.IGNORECASE)
        assert "f64" not in plain, name


def test_state_carries_over(level_l: ModuleType, tmp_path: Path) -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))
            self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache.index_copy_(0, self.at, x)
            self.at += 1
            return self.cache.sum(0)

    module = Cache()
    compiled = level_l.LoweredFunction(load(module, torch.ones(1, 3)), tmp_path)
    for step in range(3):
        x = torch.full((1, 3), float(step + 1))
        level_l.assert_close(compiled([x.numpy()]), [module(x).numpy()])


class Projected(nn.Module):
    """Views that merge and split two dynamic sizes, around attention."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(32, 96), nn.Linear(32, 32), causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.qkv(x).split(32, -1)
        q, k, v = (part.view(b, t, 4, 8).transpose(1, 2) for part in parts)
        mask = None if self.causal else torch.ones(t, t, dtype=torch.bool).triu()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b * t, c)).view(b, t, c)


@pytest.mark.parametrize("causal", [True, False])
def test_two_dynamic_sizes(level_l: ModuleType, causal: bool, tmp_path: Path) -> None:
    sizes = {0: torch.export.Dim("b", min=1, max=64), 1: torch.export.Dim("t", min=1, max=64)}
    module = Projected(causal=causal).eval()
    program = load(module, torch.randn(3, 7, 32), dynamic_shapes=(sizes,))
    compiled = level_l.LoweredFunction(program, tmp_path)
    assert program.reference is not None
    for b, t in ((3, 7), (1, 1), (2, 1), (1, 9), (5, 16)):
        x = np.random.default_rng(b).standard_normal((b, t, 32), dtype=np.float32)
        level_l.assert_close(compiled([x]), program.reference["main"]([x]))


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rms, self.norm, self.linear = nn.RMSNorm(64), nn.LayerNorm(64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> Any:
        squares = self.rms(x * 400)  # in f16 the squares overflow
        return squares, self.norm(x), F.softmax(self.linear(x), -1), F.silu(x), F.gelu(x)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-2), (torch.bfloat16, 2e-2)])
def test_half_precision(
    level_l: ModuleType, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    module = Halves().to(dtype).eval()
    program = load(module, torch.randn(3, 64).to(dtype))
    assert program.reference is not None
    expected = program.reference["main"](program.examples["main"])
    if dtype is torch.bfloat16:
        level_l.lower(program)  # the runtime's NumPy calls take no bfloat16
    else:
        actual = level_l.LoweredFunction(program, tmp_path)(program.examples["main"])
        level_l.assert_close(actual, expected, tolerance)


def test_all_unsupported_operations_at_once(level_l: ModuleType) -> None:
    class Unsupported(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = torch.linalg.eigvalsh(x)
            z = torch.geqrf(x)[1] + torch.linalg.eigvalsh(x + 1)
            return y + z, torch.relu(x)

    with pytest.raises(UnsupportedModelError) as caught:
        level_l.lower(load(Unsupported(), torch.ones(3, 3)))
    assert caught.value.code == "unsupported-ops"
    text = str(caught.value)
    assert "aten._linalg_eigh x2" in text and "aten.geqrf x1" in text and "relu" not in text
    assert text.count("test_lowering.py:") >= 3 and caught.value.hint


def test_scatter_along_a_negative_dimension(level_l: ModuleType, tmp_path: Path) -> None:
    class Scatter(nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.zeros(2, 5).scatter_add(-1, index, x)

    index = torch.tensor([[0, 1, 1], [4, 4, 0]])
    program = load(Scatter(), (torch.ones(2, 3), index))
    assert program.reference is not None
    expected = program.reference["main"](program.examples["main"])
    level_l.assert_close(
        level_l.LoweredFunction(program, tmp_path)(program.examples["main"]), expected
    )


class CommonLogarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.log10(x), torch.log10(x.double()), torch.log10(x.half())


def test_log10(level_l: ModuleType, tmp_path: Path) -> None:
    x = torch.tensor([1.0, 10.0, 1000.0, 0.1, 2.0, 3e4, 0.0, -1.0, float("inf")])
    program = load(CommonLogarithm(), (x,))
    actual = level_l.LoweredFunction(program, tmp_path)([x.numpy()])
    assert actual[0][:3].tolist() == [0.0, 1.0, 3.0]
    for got, want in zip(actual, CommonLogarithm()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got.copy()), want, equal_nan=True)
