"""What the compiler and its lowering process tell each other, as files of one folder.

    program.mlirbc, request.json   ->   response.json, one file per stage and architecture
                                        or error.json

The same folder is what `--save-temps` keeps.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lemurc.errors import LemurcError
from lemurc.explanation import ExplainedFunction
from lemurc.manifest import Cost, HostCall, Plan, TensorSpec, Workload, build
from lemurc.targets.base import StageTraits

PROGRAM, REQUEST, RESPONSE, ERROR = "program.mlirbc", "request.json", "response.json", "error.json"
PASSES = "passes"


@dataclass(frozen=True)
class TargetArch:
    """One architecture to compile for. `always` asks for every stage, whatever the plans
    say: stages for absent devices are verified on the CPU. `stored` code goes into the
    artifact."""

    target: str
    arch: str
    always: bool = False
    stored: bool = True


@dataclass(frozen=True)
class Request:
    """`systems` are contents of the attribute `lemur.system`, in order of preference.

    `level` is "torch" or "onnx" for a fresh import, "linalg" for MLIR the user wrote.
    """

    systems: tuple[dict[str, Any], ...]
    archs: tuple[TargetArch, ...]
    opt_level: int = 2
    level: str = "torch"
    asked: tuple[str, ...] = ()
    """Devices that the user named, by pins or a description of the system."""
    strict: bool = False
    host_ops: bool = False
    """Whether PyTorch may run what nothing lowers."""
    pass_limit: int | None = None
    """How many optional passes may run, see pass_limit.py; None is no limit."""
    kernels: bool = True
    """Whether composites may become calls of our own kernels."""
    objective: str = "latency"
    """What plans are best at: latency, throughput or memory."""
    order: str = "memory"
    """Which order operations are put in: memory (little of it is needed) or program."""
    splits: tuple[str, ...] = ()
    """Modules whose weights are split over devices, as `GLOB=PARTS`."""
    micro_batches: int | None = 1
    """In how many parts calls are cut; None is what is best for the throughput of one call."""
    largest_stage: int | None = None
    """The most operations a stage may hold; None is no limit."""
    measured: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds that stages took where they were profiled, by target and content."""
    keep_ir: bool = False
    """Whether to write the IR after each pass into the folder `passes`."""
    plan_only: bool = False
    """Whether to stop at plans, before stages become IREE's input."""
    explain: tuple[str, ...] = ()
    """Modules of the model, as in pins, whose placement is explained."""


@dataclass(frozen=True)
class IreeInput:
    """One stage for one architecture: a file of the folder, and what its flags depend on."""

    target: str
    arch: str
    file: str
    parameters: tuple[str, ...]
    traits: StageTraits


@dataclass(frozen=True)
class LoweredStage:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost: Cost
    ops: dict[str, int]
    ir: tuple[IreeInput, ...]
    work: tuple[Workload, ...] = ()
    content: str = ""
    lines: dict[str, str] = field(default_factory=dict)
    """The user's Python line of the first operation of each name and element type, such as
    `math.erf f64`."""
    host: HostCall | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoldedParameters:
    """A module to run once: `inputs` are weights, `outputs` the weights computed of them."""

    ir: str
    inputs: tuple[str, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class FunctionFlow:
    """Where the results of one entry point come from, in manifest references."""

    results: tuple[str, ...]
    state_updates: dict[str, str]
    input_updates: dict[str, str]
    check_flags: str = ""


@dataclass(frozen=True)
class Response:
    functions: dict[str, FunctionFlow]
    stages: dict[str, LoweredStage]
    plans: tuple[Plan, ...]
    parameters: FoldedParameters | None
    notes: tuple[str, ...] = ()
    illegal: dict[str, str] = field(default_factory=dict)
    """Targets that cannot run the whole model by themselves, and why."""
    explanations: tuple[tuple[ExplainedFunction, ...], ...] = ()
    """Of each plan, one per entry point, where the request asks for them."""


def write_request(folder: Path, program: bytes, request: Request) -> None:
    (folder / PROGRAM).write_bytes(program)
    (folder / REQUEST).write_text(json.dumps(dataclasses.asdict(request)))


def read_request(folder: Path) -> Request:
    raw = json.loads((folder / REQUEST).read_text())
    raw["archs"] = tuple(TargetArch(**arch) for arch in raw["archs"])
    raw["systems"] = tuple(raw["systems"])
    raw["asked"] = tuple(raw["asked"])
    raw["explain"] = tuple(raw["explain"])
    raw["splits"] = tuple(raw["splits"])
    return Request(**raw)


def write_response(folder: Path, response: Response) -> None:
    (folder / RESPONSE).write_text(json.dumps(dataclasses.asdict(response)))


def read_response(folder: Path) -> Response:
    response = build(Response, json.loads((folder / RESPONSE).read_text()))
    assert isinstance(response, Response)
    return response


def describe_error(error: LemurcError) -> dict[str, str]:
    return {
        "type": type(error).__name__,
        "message": error.message,
        "code": error.code,
        "where": error.where,
        "hint": error.hint,
    }
