"""What the target's compiler makes."""

from pathlib import Path

from torch import nn

from lemurc.manifest import ModuleFile
from lemurc.runtime.artifact import Artifact
from lemurc.tools.conformance_cases.case import Bench, Scenario, demand, draw


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).eval()


def _modules(path: Path) -> dict[ModuleFile, bytes]:
    with Artifact.open(path) as artifact:
        return {
            module: bytes(artifact.entry(module.file))
            for stage in artifact.manifest.stages.values()
            for module in stage.modules
        }


def _is_the_targets(bench: Bench) -> None:
    modules = _modules(bench.compile(_model(), (draw(2, 8),)))
    demand(modules, "the artifact holds no code")
    kinds = {module.target for module in modules}
    demand(kinds == {bench.kind}, f"the artifact holds code for {kinds}")
    demand(all(modules.values()), "a module is empty")


def _is_reproducible(bench: Bench) -> None:
    x = draw(2, 8)
    model = _model()
    first, second = (bench.compile(model, (x,), cache=False) for _ in range(2))
    demand(_modules(first) == _modules(second), "the same stage compiles to other bytes each time")
    demand(first.read_bytes() == second.read_bytes(), "the same model compiles to other bytes")


SCENARIOS = (
    Scenario("is_the_targets", _is_the_targets),
    Scenario("is_reproducible", _is_reproducible),
)
