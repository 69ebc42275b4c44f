"""Weights in a file beside the artifact, by `--external-weights`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import ArtifactError, UsageError, VerificationError


def compiled(folder: Path, name: str = "a", **options: Any) -> Path:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    options = {"targets": "cpu:host", "external_weights": "shared.irpa", **options}
    result = lemurc.compile(model, (torch.ones(2, 64),), output=folder / f"{name}.lemur", **options)
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    return result.path


def test_two_artifacts_share_a_file(tmp_path: Path) -> None:
    first, second = compiled(tmp_path, "a"), compiled(tmp_path, "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.lemur", "b.lemur", "shared.irpa"]
    whole = compiled(tmp_path, "whole", external_weights=None)
    assert first.stat().st_size + 64 * 64 * 4 < whole.stat().st_size
    x = torch.randn(2, 64)
    answers = [lemurc.load(path)(x) for path in (first, second, whole)]
    assert torch.equal(answers[0], answers[2]) and torch.equal(answers[1], answers[2])


def test_it_is_verified_when_loaded(tmp_path: Path) -> None:
    path = compiled(tmp_path)
    weights = tmp_path / "shared.irpa"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ArtifactError, match="weights file 'shared.irpa' was changed"):
        lemurc.load(path)
    weights.unlink()
    with pytest.raises(ArtifactError) as caught:
        lemurc.load(path)
    assert caught.value.code == "weights-not-found" and "shared.irpa" in caught.value.hint


def test_what_fails_verification_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compiled(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(VerificationError):
        lemurc.compile(
            nn.Sequential(nn.Linear(64, 64), nn.Tanh()),
            (torch.randn(2, 64),),
            output=path,
            targets="cpu:host",
            external_weights="shared.irpa",
            tolerance=0.0,
        )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["folder/w.irpa", "../w.irpa", "a.lemur"])
def test_names_that_cannot_be_meant(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compiled(tmp_path, external_weights=name)
    assert caught.value.code == "external-weights" and not list(tmp_path.iterdir())


def test_it_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no --output"):
        lemurc.compile(nn.Linear(2, 2), (torch.ones(1, 2),), external_weights="w.irpa")


def test_a_model_without_weights_says_so(tmp_path: Path) -> None:
    result = lemurc.compile(
        nn.Tanh(), (torch.ones(2),), output=tmp_path / "t.lemur", external_weights="w.irpa"
    )
    assert result.notes == ["w.irpa was not written: the model has no weights"]
    assert [file.name for file in tmp_path.iterdir()] == ["t.lemur"]
