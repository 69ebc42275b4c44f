"""The command line speaks of flags where the library speaks of arguments."""

from typing import Any

import pytest

from lemurc.errors import DeviceError
from lemurc.tools.spelling import in_flags


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "cpu:0 is not among devices=['cuda']; x",
            "cpu:0 is not among --device cuda; x",
        ),
        (
            "without devices=['cuda', 'vulkan:1'] it runs on cpu:0",
            "without --device cuda --device vulkan:1 it runs on cpu:0",
        ),
        ("skip it, or load with devices=['cpu']", "skip it, or run with --device cpu"),
        ("free memory, or leave it out with devices=", None),
        ("make it available, or load without strict", "make it available, or run without --strict"),
        ("nothing to change", "nothing to change"),
    ],
)
def test_arguments_become_flags(said: str, told: str | None) -> None:
    error = DeviceError(said, code="no-device", where="here", hint=said)
    seen = in_flags(error)
    assert (seen.code, seen.where, error.message) == ("no-device", "here", said)
    assert seen.message == seen.hint
    assert seen.message == told if told else "devices=" not in seen.message


def test_what_the_command_line_says(lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import lemurc

    def load(*_: Any, **__: Any) -> None:
        raise DeviceError(
            "cpu:0 is not among devices=['cuda']", hint="without devices=['cuda'] ..."
        )

    monkeypatch.setattr(lemurc, "run", load, raising=False)
    ran = lemurc_cli("run", "model.lemur", "--device", "cuda", "--json")
    assert ran.json["message"] == "cpu:0 is not among --device cuda"
    assert "without --device cuda" in ran.err and "devices=" not in ran.err
