"""Weights are stored once, whatever the architectures of the cpu target want of them."""

from pathlib import Path
from types import ModuleType

import pytest
import torch

import lemurc
from lemurc.runtime import cpu_features
from lemurc.targets.cpu import host_architecture, library

ARCHS = ("x86-64-v3", "x86-64")


@pytest.mark.skipif(
    host_architecture() not in ("x86-64-v3", "x86-64-v4"), reason="runs code for AVX2"
)
@pytest.mark.skipif(
    library.bitcode("x86-64-v3", "linear") is None, reason="installed without the kernel library"
)
@pytest.mark.parametrize("name", ["bert", "resnet18"])
def test_both_variants_read_one_copy(name: str, zoo: ModuleType, tmp_path: Path) -> None:
    model, args = zoo.ZOO[name]()
    result = lemurc.compile(
        model, args, targets="cpu:x86-64-v3+x86-64", output=tmp_path / "x.lemur"
    )
    used = [p.numel() * p.element_size() for p in model.parameters()]
    stored = sum(weight.length for weight in result.manifest.weights.values())
    assert stored <= 1.05 * sum(used)
    with torch.no_grad():
        want = model(*args)
    for arch in ARCHS:
        with cpu_features.override((arch,)), lemurc.load(result.path) as session:
            torch.testing.assert_close(session(*args), want, rtol=1e-4, atol=1e-4)
