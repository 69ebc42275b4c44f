"""The options of `compile`, in one place for Python and the command line."""

import dataclasses
import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from lemurc.errors import UsageError

Objective = Literal["latency", "throughput", "memory"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

Order = Literal["memory", "program"]
ORDERS: tuple[Order, ...] = get_args(Order)

Progress = Callable[[str, int, int, str], None]
"""`progress(phase, done, total, detail)`; `total` is 0 while it is not known."""


@dataclass(frozen=True)
class CompileOptions:
    """Every field has a default that gives a good answer.

    `inputs`, `dynamic`, `pins` and `forbids` are in the spelling of the command line:
    `1x3x224x224xf32` or `@file.npy`, `0.1=seq:1..512`, `encoder.layer.0.*=vulkan`,
    `kind:softmax=vulkan`.
    `objective` is what plans over several devices are best at: the time of one call, requests per
    second when calls follow each other (`session.stream`), or the memory of the fullest device.
    `order` is that of operations: one that needs little memory, or the program's own.
    `splits` are modules whose weights are split, such as `lm_head=3`, over devices that have room;
    what fits no device otherwise is split anyway, in 1 part never.
    `micro_batches` is in how many parts a call is cut, so that several devices work on it at once;
    "auto" takes what is quickest where the objective is throughput, and 1 elsewhere.
    `pass_limit` is how many optional steps may run (see pass_limit.py), for bisecting.
    `largest_stage` is the most operations a stage may hold: a model in small pieces can be
    measured piece by piece. `profile` does that, and predicts times by what it finds.
    `external_weights` names a file for the weights, beside the artifact, that artifacts of the
    same weights may share.
    With `allow_host_ops` PyTorch runs, on the CPU, the operators that nothing compiles;
    `imports` names the Python modules that define the user's own ones.
    `max_rss` is in bytes, `budget_s` in seconds of wall time for the whole compilation.
    """

    inputs: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    system: str | Path | None = None
    objective: Objective = "latency"
    order: Order = "memory"
    splits: tuple[str, ...] = ()
    micro_batches: int | Literal["auto"] = "auto"
    opt_level: int = 2
    trust_pickle: bool = False
    model_factory: str | None = None
    verify: bool = True
    tolerance: float | None = None
    external_weights: str | None = None
    golden: Literal["random", "example", "none"] = "random"
    jobs: int | None = None
    budget_s: float | None = None
    max_rss: int | None = None
    cache: bool = True
    pass_limit: int | None = None
    largest_stage: int | None = None
    profile: bool = False
    save_temps: str | Path | None = None
    strict: bool = False
    allow_host_ops: bool = False
    imports: tuple[str, ...] = ()
    progress: Progress | None = None

    def workers(self) -> int:
        return self.jobs or len(os.sched_getaffinity(0))

    def report(self, phase: str, done: int, total: int, detail: str = "") -> None:
        if self.progress is not None:
            self.progress(phase, done, total, detail)


Options = TypeVar("Options", bound=CompileOptions)


def chosen_options(given: dict[str, Any], verb: str, kind: type[Options]) -> Options:
    """`given` as options of a `kind`, checked."""
    known = [item.name for item in dataclasses.fields(kind)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise UsageError(
                f"{verb}() has no option {name!r}",
                code="unknown-option",
                hint=f"did you mean {near[0]!r}?" if near else f"its options: {', '.join(known)}",
            )
    options = kind(**given)
    for name, known_values in (("objective", OBJECTIVES), ("order", ORDERS)):
        value = getattr(options, name)
        if value not in known_values:
            raise UsageError(
                f"unknown {name} {value!r}",
                code="bad-option",
                where=f"--{name}",
                hint=f"one of {', '.join(known_values)}",
            )
    wanted = options.micro_batches
    if wanted != "auto" and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise UsageError(
            f"a call is cut in 'auto' or a number of micro-batches above 0, not {wanted!r}",
            code="bad-option",
            where="--micro-batches",
            hint="give a number that divides the batch, or leave it out",
        )
    return options
