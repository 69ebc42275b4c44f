"""From a model to its plans: what `compile` does, up to code generation.

    frontend -> lowering (a child process) -> plans

No device is opened and no code is generated, so that a plan for any machine costs seconds.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lemurc import assembly, profiling
from lemurc.compiler import Clock, known_systems, load_program, lower, work_folder
from lemurc.exchange import LoweredStage
from lemurc.explanation import ExplainedFunction
from lemurc.manifest import Plan
from lemurc.options import CompileOptions
from lemurc.systems import find_description, notes_on, systems


@dataclass(frozen=True)
class PlannedModel:
    """`plans` best first, as `compile` would store them if all of it can be compiled.

    `illegal` are the targets that cannot run the whole model by themselves, and why.
    """

    name: str
    plans: tuple[Plan, ...]
    stages: dict[str, LoweredStage]
    illegal: dict[str, str]
    notes: tuple[str, ...]
    explanations: tuple[ExplainedFunction, ...] = ()
    """Of the first plan, where they were asked for."""


def plan_model(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    targets: str,
    dynamic_shapes: Any,
    options: CompileOptions,
    explain: tuple[str, ...] = (),
) -> PlannedModel:
    """As for `lemurc.compile`; raises what that raises before it generates code. `explain` are
    modules of the model, as in pins."""
    from lemurc.targets.registry import parse_targets

    chosen = dataclasses.replace(options, verify=False)
    requests = parse_targets(targets)
    planned_for = find_description(chosen.system)
    # before the work: what it refuses
    systems(requests, chosen.pins, planned_for, forbids=chosen.forbids)
    clock = Clock(chosen)
    program = load_program(model, args, kwargs, dynamic_shapes, chosen, clock)
    sets, profiled = known_systems(requests, chosen, planned_for)
    measured = {target: profile.stages for target, profile in profiled.items()}
    with work_folder(chosen) as folder, clock.phase("plan"):
        response = lower(
            program,
            requests,
            sets,
            folder,
            chosen,
            clock,
            measured,
            plan_only=True,
            explain=explain,
        )
    plans = assembly.in_order(response.plans, chosen)
    return PlannedModel(
        name=program.name,
        plans=tuple(plans),
        stages=response.stages,
        illegal=response.illegal,
        notes=(
            *(note for request in requests for note in request.notes),
            *notes_on(requests, planned_for),
            *profiling.notes_on(profiled),
            *response.notes,
        ),
        explanations=response.explanations[response.plans.index(plans[0])] if explain else (),
    )
