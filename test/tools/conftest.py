"""A command line to call in-process, and an artifact and a session that need no compiler."""

import importlib
import json
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lemurc
from lemurc import manifest as mf
from lemurc.tools.cli import run


@dataclass
class Ran:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def lemurc_cli(capfd: pytest.CaptureFixture[str]) -> Any:
    """`lemurc_cli("run", "x.lemur")` runs the command line and returns what it left."""

    def invoke(*argv: str) -> Ran:
        status = run(list(argv))
        out, err = capfd.readouterr()
        return Ran(status, out, err)

    return invoke


@dataclass
class FakeArtifact:
    manifest: mf.Manifest
    recorded: dict[str, Any]
    path: Path = Path("model.lemur")

    def golden(self, name: str) -> Any:
        return self.recorded.get(name)

    def __enter__(self) -> "FakeArtifact":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class FakeSession:
    """Doubles its input, plus `error`."""

    artifact: FakeArtifact
    error: float = 0.0
    loads: list[Any] = field(default_factory=list)
    simulated: tuple[Any, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def manifest(self) -> mf.Manifest:
        return self.artifact.manifest

    def __call__(self, x: Any) -> Any:
        return x * 2 + np.float32(self.error)

    def call(self, function: str, args: Any, kwargs: Any, outputs: Any) -> Any:
        return self(*args, **kwargs)

    def placement_line(self, function: str) -> str:
        return "cpu:0 3/3 ops"

    @property
    def plan(self) -> mf.Plan:
        return self.manifest.plans[0]

    def step_times(self, function: str, arrays: Any, **_: Any) -> list[Any]:
        """Every step takes 100 us, or 120 with waiting."""
        return [
            types.SimpleNamespace(
                step=step, device=step.device, minimum=1e-4, wall=(1.2e-4, 1.2e-4)
            )
            for step in self.plan.steps[function]
        ]

    def __enter__(self) -> "FakeSession":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class World:
    """The artifact and session that every verb will meet; tests change it at will."""

    artifact: FakeArtifact
    session: FakeSession
    load_error: Exception | None = None
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)


def example_manifest() -> mf.Manifest:
    spec = mf.TensorSpec("x", "float32", (mf.SymbolicDim("n", 1, 8), 3))
    leaf = {"kind": "leaf"}
    function = mf.Function(
        inputs=(spec,),
        outputs=(mf.TensorSpec("y", "float32", spec.shape),),
        results=("v1",),
        in_tree={
            "kind": "tuple",
            "items": [
                {"kind": "tuple", "items": [leaf]},
                {"kind": "dict", "keys": [], "items": []},
            ],
        },
        out_tree=leaf,
        argument_names=("x",),
    )
    modules = tuple(
        mf.ModuleFile(target, arch, f"{target}.vmfb")
        for target, arch in (("cpu", "x86-64-v3"), ("cuda", "sm_80"))
    )
    stage = mf.Stage(("input:0",), ("v1",), mf.Cost(300, 24, 24), {"linear": 3}, modules)
    plan = mf.Plan(
        (mf.Device("cpu:0", "cpu"),),
        {"main": (mf.Step("stage0", "cpu:0"),)},
        {"main": mf.Prediction(1e-4, 0, 0, seconds_by_step=(1.1e-4,))},
    )
    return mf.Manifest(
        model="net",
        functions={"main": function},
        stages={"stage0": stage},
        plans=(plan,),
        producer={"lemurc": "0.1.0"},
        tolerance={"float32": 1e-4},
        files={"cpu.vmfb": {"size": 2048, "sha256": "0" * 64}},
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Replace the runtime: `Artifact.open`, `lemurc.load` and the devices."""
    x = np.ones((2, 3), np.float32)
    artifact = FakeArtifact(example_manifest(), {"main": ([x], [x * 2])})
    here = World(artifact, FakeSession(artifact), devices={"cpu": ("cpu:0",), "vulkan": ()})

    def load(path: Any, *, devices: Any = None, strict: bool = False, **_: Any) -> FakeSession:
        if here.load_error is not None:
            raise here.load_error
        here.session.loads.append(devices)
        return here.session

    importlib.import_module("lemurc.runtime.placement")  # with the real modules behind it
    artifacts = types.ModuleType("lemurc.runtime.artifact")
    artifacts.Artifact = types.SimpleNamespace(open=lambda path, **_: here.artifact)  # type: ignore[attr-defined]
    inventory = types.ModuleType("lemurc.runtime.devices")
    inventory.discover = lambda: types.SimpleNamespace(  # type: ignore[attr-defined]
        names=here.devices, descriptions={"cpu:0": "a CPU"}, why_not={"vulkan": "no driver"}
    )
    monkeypatch.setitem(sys.modules, artifacts.__name__, artifacts)
    monkeypatch.setitem(sys.modules, inventory.__name__, inventory)
    monkeypatch.setitem(vars(lemurc), "load", load)
    return here
