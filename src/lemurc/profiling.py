"""`lemurc compile --profile`: time a model's stages, and its operations one by one.

Operations are timed in artifacts of their own, whose every stage holds one of them or a few;
they are compiled for the devices that are here, measured and thrown away. The cost model scales
what it learns to other sizes (docs/cost-model.md), and plans made later use it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lemurc import profiles
from lemurc.cost_model import Figures, seconds
from lemurc.draws import random_inputs
from lemurc.manifest import Stage, SymbolicDim, Workload
from lemurc.profiles import DeviceKey, Profile
from lemurc.together import Group

if TYPE_CHECKING:
    from lemurc.frontend.program import Program
    from lemurc.runtime.profile import StepTimes
    from lemurc.runtime.session import Session
    from lemurc.targets.registry import TargetRequest

SEED = 21

PIECES = (1, 3)
"""Operations to a stage, of the artifacts whose stages are timed."""

_SHORTEST = 1e-6


@dataclass(frozen=True)
class Here:
    """A device of this machine to measure on, and the one architecture to compile for."""

    device: str
    request: "TargetRequest"
    key: DeviceKey


def measurable(requests: Sequence["TargetRequest"]) -> tuple[list[Here], list[str]]:
    """One device of each target that is here, and what to say of the others."""
    from lemurc.runtime.cpu_features import supported_archs
    from lemurc.runtime.devices import discover, is_software

    found = discover(tuple(request.target.name for request in requests))
    here, notes = [], []
    for request in requests:
        name = request.target.name
        devices = found.names.get(name, ())
        archs = request.archs
        if name == "cpu":
            archs = tuple(arch for arch in supported_archs() if arch in archs)[:1]
        description = found.descriptions.get(devices[0], "") if devices else ""
        why = found.why_not.get(name, "") if not devices else ""
        why = why or ("" if archs else "this processor runs none of its architectures")
        if is_software(description):
            why = f"{description} is software"
        if why or not devices:
            notes.append(f"{name}: not profiled: {why or 'no device'}")
            continue
        here.append(Here(devices[0], replace(request, archs=archs), key_of(name, description)))
    return here, notes


def key_of(target: str, description: str) -> DeviceKey:
    """Whose times are measured on a device that the driver describes so."""
    from lemurc.runtime.machine import processor_name

    return DeviceKey(target, processor_name() if target == "cpu" else description, threads(target))


def threads(target: str) -> int:
    """CPU threads that stages run on: what the runtime started or, before that, will start."""
    from lemurc.runtime.devices import cpu_threads

    return cpu_threads() if target == "cpu" else 0


def known(requests: Sequence["TargetRequest"]) -> dict[str, Profile]:
    """What is known of the devices here, by target; drivers are asked only if there is a
    profile of their kind at all."""
    from lemurc.runtime.devices import discover
    from lemurc.targets.cache import default_directory

    folder = default_directory() / "profiles"
    names = [request.target.name for request in requests]
    kinds = tuple(name for name in names if any(folder.glob(f"{name}-*.json")))
    found = discover(kinds)
    profiled: dict[str, Profile] = {}
    for kind in kinds:
        for device in found.names[kind]:
            key = key_of(kind, found.descriptions[device])
            profile = profiles.read(key.target, key.description, key.threads)
            if profile is not None:
                profiled.setdefault(kind, profile)
    return profiled


def why_not(program: "Program") -> str:
    """What keeps a model from being profiled; "" when nothing does."""
    specs = [spec for function in program.functions.values() for spec in function.inputs]
    if any(isinstance(dim, SymbolicDim) for spec in specs for dim in spec.shape):
        return "not profiled: its sizes vary, and work is counted at the largest"
    if not all(name in program.examples for name in program.functions):
        return "not profiled: there is no example call"
    return ""


def notes_on(profiled: dict[str, Profile]) -> list[str]:
    """That predictions rest on measurements."""
    return [
        f"{target}: times predicted from {len(profile.samples)} operations and "
        f"{len(profile.stages)} stages measured on this machine"
        for target, profile in profiled.items()
    ]


def measure_operations(here: Here, path: Path, program: "Program") -> int:
    """Time the artifact at `path`, of one operation to a stage; how many differ."""
    times = [(stage, measured.minimum) for stage, measured in _times([here.device], path, program)]
    call = min((taken for _, taken in times), default=None)
    alone: dict[Workload, float] = {}
    for stage, taken in times:
        if call is not None and sum(work.count for work in stage.work) == 1:
            work = stage.work[0]
            alone[work] = max(_SHORTEST, min(taken - call, alone.get(work, taken)))
    profiles.add(here.key, samples=alone, call=call)
    return len(alone)


def measure_stages(devices: Sequence[Here], path: Path, program: "Program") -> None:
    """Time the stages of the artifact at `path`, and what operations take in company."""
    times = _times([here.request.target.name for here in devices], path, program)
    for here in devices:
        target = here.request.target.name
        mine = {
            stage.content: (stage, measured.minimum)
            for stage, measured in times
            if measured.device.partition(":")[0] == target and stage.content
        }
        profile = profiles.read(target, here.key.description, here.key.threads)
        groups = {} if profile is None else _groups(profile, mine)
        profiles.add(
            here.key, stages={content: taken for content, (_, taken) in mine.items()}, groups=groups
        )


def _groups(profile: Profile, times: Mapping[str, tuple[Stage, float]]) -> dict[str, Group]:
    """The stages of several operations, by content."""
    known = Figures(samples=profile.samples, call=profile.call or 0.0)
    found = {}
    for content, (stage, taken) in times.items():
        count = sum(work.count for work in stage.work)
        if count > 1:
            alone: defaultdict[str, float] = defaultdict(float)
            for work in stage.work:
                alone[work.kind] += work.count * seconds(work, known)
            found[content] = Group(max(taken - known.call, _SHORTEST), count, dict(alone))
    return found


def _times(devices: list[str], path: Path, program: "Program") -> list[tuple[Stage, "StepTimes"]]:
    """Every compiled step of every entry point, on some of `devices`."""
    from lemurc.runtime.session import load

    found: list[tuple[Stage, StepTimes]] = []
    with load(path, devices=devices, check_weights=False) as session:
        for name in program.functions:
            arrays = _inputs(session, name, program)
            for measured in session.step_times(name, arrays):
                stage = session.manifest.stages[measured.step.stage]
                if stage.host is None:
                    found.append((stage, measured))
    return found


def _inputs(session: "Session", name: str, program: "Program") -> list[np.ndarray]:
    golden = session.artifact.golden(name)
    return golden[0] if golden is not None else random_inputs(program.examples[name], SEED)
