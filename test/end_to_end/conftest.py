"""Compile once, compare with eager: what every end-to-end test does."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import lemurc
from lemurc.compiler import CompileResult
from lemurc.runtime.session import Session
from lemurc.verification import compare_all


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Equal stages of different tests compile once."""
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        patch.setenv("LEMURC_CACHE_DIR", str(shared / "lemurc-cache"))
        yield


@pytest.fixture(scope="session")
def zoo() -> ModuleType:
    """test/zoo.py, which is no package."""
    path = Path(__file__).parents[1] / "zoo.py"
    spec = importlib.util.spec_from_file_location("lemurc_zoo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lemurc_zoo"] = module
    spec.loader.exec_module(module)
    return module


Check = Callable[..., tuple[CompileResult, Session]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check(model, args, devices=..., **options)` compiles, runs and compares with eager."""

    def run(
        model: torch.nn.Module,
        args: tuple[Any, ...],
        *,
        devices: list[str] | None = None,
        **options: Any,
    ) -> tuple[CompileResult, Session]:
        result = lemurc.compile(model, args, output=tmp_path / "model.lemur", **options)
        session = lemurc.load(result.path, devices=devices)
        compare(session(*args), model, args)
        return result, session

    return run


def compare(got: Any, model: torch.nn.Module, args: tuple[Any, ...]) -> None:
    with torch.no_grad():
        want = model(*args)
    want, got = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (want, got))
    names = [f"output {i}" for i in range(len(want))]
    for item in compare_all(names, [y.numpy() for y in got], [r.numpy() for r in want]):
        assert item.ok, item
