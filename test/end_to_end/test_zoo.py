"""Real architectures, small and random: default flags, the CPU, eager as the reference."""

from types import ModuleType
from typing import Any

import pytest
import torch

import lemurc

NAMES = (
    "resnet18",
    "bert",
    "minilm",
    "distilbert",
    "gpt2",
    "llama",
    "llama_decode",
    "qwen2",
    "mixtral",
    "whisper_encoder",
    "whisper_decoder",
    "vit",
    "convnext",
    "resnet50",
    "mobilenet_v2",
    "clip",
    "mamba",
    "t5",
)


def test_every_model_is_accounted_for(zoo: ModuleType) -> None:
    assert set(zoo.ZOO) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_equals_eager(name: str, zoo: ModuleType, check: Any) -> None:
    model, args = zoo.ZOO[name]()
    result, _ = check(model, args)
    assert [verdict.status for verdict in result.verdicts] == ["verified"]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_levels_agree(name: str, zoo: ModuleType, tmp_path: Any) -> None:
    """-O0 and -O3 both equal eager (`compile` sees to it), and so each other."""
    model, args = zoo.ZOO[name]()
    results = []
    for level in (0, 3):
        path = tmp_path / f"{level}.lemur"
        compiled = lemurc.compile(model, args, output=path, opt_level=level)
        assert [verdict.status for verdict in compiled.verdicts] == ["verified"]
        with lemurc.load(path) as session:
            results.append(session(*args))
    low, high = (torch.utils._pytree.tree_leaves(result) for result in results)
    for y, r in zip(low, high, strict=True):
        assert y.dtype == r.dtype
        scale = max(float(r.double().abs().max()), 1e-30) if r.is_floating_point() else 1.0
        torch.testing.assert_close(y / scale, r / scale, rtol=0, atol=1e-4)


class Prefill(torch.nn.Module):
    """The prompt's logits, and its keys and values for the steps that follow."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(input_ids=ids, use_cache=True)
        layers = result.past_key_values.layers
        return (result.logits, *(part for layer in layers for part in (layer.keys, layer.values)))


def test_prefill_and_decode_share_their_weights(zoo: ModuleType, tmp_path: Any) -> None:
    decode, (token, position, *past) = zoo.ZOO["llama_decode"]()
    prefill = Prefill(decode.model).eval()
    prompt = zoo.tokens(1000, 1, 9)
    result = lemurc.compile(
        {"prefill": (prefill, (prompt,)), "decode": (decode, (token, position, *past))},
        output=tmp_path / "llama.lemur",
    )
    parameters = sum(p.numel() * p.element_size() for p in decode.parameters())
    stored = sum(weight.length for weight in result.manifest.weights.values())
    assert stored < 1.6 * parameters, "shared weights are stored once"

    session = lemurc.load(result.path)
    with torch.no_grad():
        want_logits, *want_past = prefill(prompt)
        want_next = decode(token, position, *want_past)[0]
    logits, *cache = session.prefill(prompt)
    torch.testing.assert_close(logits, want_logits, rtol=1e-4, atol=1e-5)
    step = session.decode(token, position, *cache)[0]
    torch.testing.assert_close(step, want_next, rtol=1e-4, atol=1e-5)
