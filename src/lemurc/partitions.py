"""One partition of a program for each set of devices: split, placed, in stages.

Where calls may be cut in micro-batches, the program is partitioned whole and for parts of its
batch, and that is kept whose call is predicted to be the quickest:

    seconds of the first part through all devices + (parts - 1) * seconds of the busiest device

and of which requests that follow each other are hardly slower: smaller parts cost more calls.
"""

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lemurc.errors import UnsupportedModelError, UsageError
from lemurc.exchange import Request
from lemurc.explained import Homes
from lemurc.host_stages import with_host
from lemurc.manifest import HOST
from lemurc.stage_sources import chunks_of, splits_of, stage_modules, text

if TYPE_CHECKING:
    from lemurc.passes.manager import Instruments

_COUNTS = (2, 4, 8, 16, 32)
"""Parts to try; more of them are tried while calls get quicker."""

_SLOWER = 1.1
"""How much longer the busiest device may take for a call in parts than for a whole one."""

logger = logging.getLogger("lemurc.lowering")


@dataclass
class _Partition:
    module: Any
    home: Homes
    notes: list[str] = field(default_factory=list)

    @property
    def devices(self) -> set[str]:
        return {text(stage, "lemur.device") for stage in stage_modules(self.module)} - {HOST}


def partitioned(
    optimized: bytes, request: Request, watch: "Instruments", homes: "list[Homes]"
) -> tuple[list[Any], list[str], dict[str, str]]:
    """One placed and outlined module per useful set of devices; notes; illegal targets.

    `homes` collects the stages of operations, which are gone from those modules.

    When the largest set puts everything on one device, smaller sets of several devices
    would too: only the sets of one device are left to look at.
    """
    found: list[Any] = []
    notes: list[str] = []
    illegal: dict[str, str] = {}
    cut = True
    for number, system in enumerate(request.systems):
        if number > 0 and not cut and len(system["devices"]) > 1:
            continue
        try:
            made = _best(optimized, system, request, watch)
        except UnsupportedModelError as error:
            if len(request.systems) == 1:
                raise
            names = ", ".join(device["name"] for device in system["devices"])
            notes.append(f"no plan for {names} alone: {error.message}")
            if len(system["devices"]) == 1:
                illegal[system["devices"][0]["target"]] = error.message
            continue
        except UsageError as error:
            # A pin names a device that this smaller set lacks.
            if number == 0:
                raise
            if error.code in ("does-not-fit", "forbidden-everywhere"):
                names = ", ".join(device["name"] for device in system["devices"])
                notes.append(f"no plan for {names} alone: {error.message}")
            logger.debug("no plan for %s: %s", system["devices"], error.message)
            continue
        if number == 0:
            cut = len(made.devices) > 1
            notes += made.notes
        found.append(made.module)
        homes.append(made.home)
    if not found:
        raise UnsupportedModelError(
            "no set of the targets can run this model:\n" + "\n".join(notes),
            code="no-legal-target",
            hint="add a target that supports it, such as cpu",
        )
    return found, notes, illegal


def _best(
    optimized: bytes, system: dict[str, Any], request: Request, watch: "Instruments"
) -> _Partition:
    """In as many micro-batches as the user wants, or as are quickest."""
    if request.micro_batches is not None:
        best = _partition(optimized, system, request, watch, request.micro_batches)
        best.notes += _said(best.module)
        return best
    try:
        best = _partition(optimized, system, request, watch, 1)
        if len(best.devices) < 2:
            return best
        whole, period = _times(best.module)
        seconds = whole
    except UsageError as error:
        if error.code != "does-not-fit":
            raise
        return _first_that_fits(optimized, system, request, watch, error)
    for count in _COUNTS:
        trial = _partition(optimized, system, request, watch, count)
        if reasons := _whole(trial.module):
            best.notes += reasons if count == _COUNTS[0] else []
            break
        took, busiest = _times(trial.module)
        if took >= seconds or busiest > _SLOWER * period:
            break
        best, seconds = trial, took
    gain = f", predicted to take {seconds:.3g} s instead of {whole:.3g} s in one"
    best.notes += [f"{said}{gain}" for said in _cut(best.module)]
    return best


def _first_that_fits(
    optimized: bytes,
    system: dict[str, Any],
    request: Request,
    watch: "Instruments",
    error: UsageError,
) -> _Partition:
    for count in _COUNTS:
        try:
            trial = _partition(optimized, system, request, watch, count)
        except UsageError as again:
            if again.code != "does-not-fit":
                raise
            continue
        if _whole(trial.module):
            break
        trial.notes += [f"{said}: devices have no memory for more" for said in _cut(trial.module)]
        return trial
    raise error


def _partition(
    optimized: bytes, system: dict[str, Any], request: Request, watch: "Instruments", count: int
) -> _Partition:
    from torch_mlir import ir

    from lemurc.passes import pipelines
    from lemurc.passes.attributes import attribute
    from lemurc.passes.manager import run_pipeline

    steps = pipelines.partition(
        request.objective,
        order=request.order,
        largest=request.largest_stage,
        explain=request.explain,
        splits=request.splits,
        micro_batches=count,
    )
    module = ir.Module.parse(optimized)
    module.operation.attributes["lemur.system"] = attribute(with_host(system, module))
    home = Homes()
    run_pipeline(module, steps, home.watched(watch) if request.explain else watch)
    return _Partition(module, home, [*chunks_of(module), *splits_of(module)])


def _times(module: Any) -> tuple[float, float]:
    """Seconds of one call of each entry point, and those of its busiest device."""
    from lemurc.passes.predict import predict

    predictions = predict(module).values()
    busiest = sum(max(each.seconds_by_device.values(), default=0.0) for each in predictions)
    return sum(each.seconds for each in predictions), busiest


def _said(module: Any) -> list[str]:
    return [*_cut(module), *_whole(module)]


def _cut(module: Any) -> list[str]:
    from lemurc.passes.graph import entries, symbol
    from lemurc.passes.micro_batch import parts_of

    return [
        f"calls of {symbol(entry)} are cut in {parts_of(entry)} micro-batches"
        for entry in entries(module.operation)
        if parts_of(entry) > 1
    ]


def _whole(module: Any) -> list[str]:
    from lemurc.passes.graph import entries, symbol
    from lemurc.passes.micro_batch import WHOLE

    return [
        f"calls of {symbol(entry)} are not cut in micro-batches: {entry.attributes[WHOLE].value}"
        for entry in entries(module.operation)
        if WHOLE in entry.attributes
    ]
