"""Helpers beside the tests, loaded by path: `test` is not a package."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"lemurc_test_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def zoo() -> ModuleType:
    pytest.importorskip("transformers")
    return _load("zoo")


@pytest.fixture(scope="session")
def level_l() -> ModuleType:
    return _load("level_l")
