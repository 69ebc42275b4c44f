"""lemurc: compile a PyTorch model ahead of time for the devices you have.

    artifact = lemurc.compile(model, (x,), targets="cpu,vulkan")
    session = lemurc.load(artifact.path)          # needs no PyTorch
    y = session(x)

    artifact = lemurc.compile_training(model, loss, "adamw:lr=3e-4", (inputs, targets))
    trainer = lemurc.load(artifact.path)
    trainer.fit(loader, steps=1000)

Every verb of the command line is a call of the same name: `lemurc.plan`, `lemurc.run`,
`lemurc.verify`, `lemurc.bisect`, `lemurc.bench`, `lemurc.trace`, `lemurc.inspect`,
`lemurc.devices`, `lemurc.probe`, `lemurc.conformance`, `lemurc.doctor`. Only the list of targets is
`lemurc.tools.targets.targets()`, since `lemurc.targets` is the package of them.
"""

from typing import TYPE_CHECKING, Any

from lemurc.errors import LemurcError

if TYPE_CHECKING:
    from lemurc.compiler import compile
    from lemurc.runtime.session import load
    from lemurc.tools.bench import bench
    from lemurc.tools.bisect import bisect
    from lemurc.tools.conformance import conformance
    from lemurc.tools.devices import devices
    from lemurc.tools.doctor import doctor
    from lemurc.tools.inspect import inspect
    from lemurc.tools.plan import plan
    from lemurc.tools.probe import probe
    from lemurc.tools.run import run
    from lemurc.tools.trace import trace
    from lemurc.tools.verify import verify
    from lemurc.training import compile_training

__version__ = "0.1.0"
__all__ = [
    "LemurcError",
    "__version__",
    "bench",
    "bisect",
    "compile",
    "compile_training",
    "conformance",
    "devices",
    "doctor",
    "inspect",
    "load",
    "plan",
    "probe",
    "run",
    "trace",
    "verify",
]

_LAZY = {
    "bench": "lemurc.tools.bench",
    "bisect": "lemurc.tools.bisect",
    "compile": "lemurc.compiler",
    "compile_training": "lemurc.training",
    "conformance": "lemurc.tools.conformance",
    "devices": "lemurc.tools.devices",
    "doctor": "lemurc.tools.doctor",
    "inspect": "lemurc.tools.inspect",
    "load": "lemurc.runtime.session",
    "plan": "lemurc.tools.plan",
    "probe": "lemurc.tools.probe",
    "run": "lemurc.tools.run",
    "trace": "lemurc.tools.trace",
    "verify": "lemurc.tools.verify",
}


def __getattr__(name: str) -> Any:
    """`compile` needs the compiler and `load` the runtime: import what is asked for."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'lemurc' has no attribute {name!r}")
