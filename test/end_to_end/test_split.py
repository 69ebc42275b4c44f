"""Weights that no device can hold are split over several, and the answer is eager's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import UsageError
from lemurc.system_file import DeviceDescription, SystemDescription, write_system

VOCABULARY, WIDTH = 2048, 128
TABLE = 4 * VOCABULARY * WIDTH
KIB = 1024


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.table, self.block = nn.Embedding(VOCABULARY, WIDTH), Block()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=not tied)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.block(self.table(tokens)))
        return logits


def system(*memory: int | None) -> SystemDescription:
    """Devices of unequal speed with so many KiB."""
    devices = (
        DeviceDescription(
            f"cpu:{k}", "cpu", threads=1, slowdown=1.0 + k / 2, memory=kib and kib * KIB
        )
        for k, kib in enumerate(memory)
    )
    return SystemDescription(tuple(devices))


def compiled(
    model: nn.Module, args: Any, described: SystemDescription, tmp_path: Path, **options: Any
) -> Any:
    write_system(tmp_path / "system.json", described)
    return lemurc.compile(
        model.eval(), args, system=tmp_path / "system.json", output=tmp_path / "model.lemur",
        verify=False, golden="none", **options,
    )  # fmt: skip


def check(result: Any, model: nn.Module, args: Any, described: SystemDescription) -> Any:
    """The answer is eager's, and bit by bit that of one device; peaks keep to limits and plan."""
    with torch.no_grad():
        want = model(*args)
    with lemurc.load(result.path, simulate=described, strict=True) as session:
        got = session(*args)
        scale = want.abs().max()
        torch.testing.assert_close(got / scale, want / scale, rtol=0, atol=1e-5)
        predicted = session.plan.predicted["main"].memory
        for device in session.simulated:
            if device.memory is not None:
                assert device.peak_bytes <= device.memory
            if device.device in predicted:
                assert device.peak_bytes <= 1.05 * predicted[device.device].peak
    with lemurc.load(result.path, devices=["cpu:0"]) as whole:
        assert torch.equal(whole(*args), got)


def splits(result: Any) -> list[str]:
    return [note.partition(" is split")[0] for note in result.notes if "is split" in note]


DEVICES = {
    3: (1070, 1050, 1060),
    4: (700, 1000, 850, 900),
    8: (480, 400, 520, 440, 480, 300, 560, 420),
}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("count", DEVICES)
def test_a_vocabulary_that_fits_no_device(count: int, tied: bool, tmp_path: Path) -> None:
    assert TABLE > max(DEVICES[count]) * KIB / 1.05
    torch.manual_seed(0)
    model = LanguageModel(tied)
    args = (torch.randint(0, VOCABULARY, (1, 2)),)
    described = system(*DEVICES[count])
    result = compiled(model, args, described, tmp_path)
    assert splits(result) == ["table", "head"]
    assert len({step.device for step in result.manifest.plans[0].steps["main"]}) == count
    check(result, model, args, described)


def test_two_devices_share_a_layer(tmp_path: Path) -> None:
    """Parts are as large as the memories of the devices."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, VOCABULARY), nn.ReLU())
    args, described = (torch.randn(2, 64),), system(1000, 400)
    result = compiled(model, args, described, tmp_path)
    assert splits(result) == ["2"]
    assert any("1456 + 592 columns" in note for note in result.notes)
    check(result, model, args, described)


def test_filters_of_a_convolution(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    args, described = (torch.randn(1, 64, 4, 4),), system(500, 500)
    result = compiled(model, args, described, tmp_path)
    assert splits(result) == ["0"]
    check(result, model, args, described)


def test_a_dynamic_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, VOCABULARY), nn.GELU()).requires_grad_(False)
    batch = torch.export.Dim("batch", min=1, max=4)
    args = (torch.randn(3, WIDTH),)
    result = compiled(model, args, system(980, 900), tmp_path, dynamic_shapes=({0: batch},))
    assert splits(result) == ["0"]
    with lemurc.load(result.path, devices=["cpu:0", "cpu:1"], strict=True) as session:
        for size in (1, 2, 4):
            x = torch.randn(size, WIDTH)
            torch.testing.assert_close(session(x), model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_element_types_without_kernels(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(512, 64), nn.Linear(64, 512)).to(dtype)
    args, described = (torch.randint(0, 512, (1, 2)),), system(None)
    result = compiled(model, args, described, tmp_path, splits=("*=3",))
    assert splits(result) == ["0", "1"]
    with torch.no_grad(), lemurc.load(result.path) as session:
        want, got = model.eval()(*args), session(*args)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-2 if dtype is torch.float16 else 1e-9)


def test_ranges_of_rows_are_stored_once(tmp_path: Path) -> None:
    """The first plan reads parts of the weight, the plan of one device reads all of it."""
    model, args = nn.Linear(64, 512, dtype=torch.float64), (torch.randn(1, 64).double(),)
    result = compiled(model, args, system(200, 200), tmp_path)
    assert len(result.manifest.plans) == 2
    weights = result.manifest.weights
    parts = sorted(name for name in weights if name.startswith("weight["))
    assert len(parts) == 2
    for part in parts:
        start = int(part.partition("[")[2].partition("..")[0])
        assert weights[part].offset == weights["weight"].offset + 64 * 8 * start
    assert result.sizes["weights"] < 1.5 * 64 * 512 * 8


def test_never_where_the_user_says_so(tmp_path: Path) -> None:
    model, args = nn.Sequential(nn.Linear(WIDTH, VOCABULARY)), (torch.randn(1, WIDTH),)
    with pytest.raises(UsageError, match="no placement fits") as raised:
        compiled(model, args, system(700, 600), tmp_path, splits=("0=1",))
    assert raised.value.code == "does-not-fit"


@pytest.mark.parametrize("spelling", ["0", "0=", "0=none", "0=0", "=2"])
def test_what_is_no_split(spelling: str) -> None:
    with pytest.raises(UsageError) as raised:
        lemurc.compile(nn.Linear(2, 2), (torch.ones(1, 2),), splits=(spelling,))
    assert raised.value.code == "bad-option"
