"""Decide which device runs which operation.

    %1 = func.call @linear_0(...)   ->   %1 = func.call @linear_0(...) {lemur.device = "cuda"}

Predicted time is compute (the roofline of each device, and one launch per operation)
plus transfers (each value once to each device that needs it), within the memory,
legality and pins of `lemur.system`. With one device there is nothing to decide.
Otherwise a heuristic gives a valid answer, and OR-tools, where installed, improves it
or proves it best, deterministically. `lemur.placement` on the function says why.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.errors import UsageError
from lemurc.options import OBJECTIVES
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes.base import Pass
from lemurc.passes.chunk import NO_CHUNKS
from lemurc.passes.legality import Legality, check_selectors
from lemurc.passes.placement import Assignment, Evaluation, Problem, evaluate
from lemurc.passes.placement_problem import build
from lemurc.passes.solve_placement import is_too_much, solve
from lemurc.passes.unfuse import unfuse_conflicts
from lemurc.units import size


@dataclass(frozen=True)
class Place(Pass):
    """`objective`: latency, throughput or memory. `time_limit`: seconds of search, counted
    in the solver's own deterministic time, so that equal programs get equal plans.
    `explain`: write `lemur.apart` on operations that were fused and could not stay so."""

    name: ClassVar[str] = "place"

    objective: str = "latency"
    time_limit: float = 2.0
    explain: bool = False

    def run(self, module: ir.Operation) -> None:
        if self.objective not in OBJECTIVES:
            raise UsageError(
                f"unknown objective '{self.objective}'",
                code="bad-option",
                hint=f"one of {', '.join(OBJECTIVES)}",
            )
        system = systems.read(module)
        functions = graphs.bodies(module)
        legality = Legality(system, functions)
        unfuse_conflicts(module, functions, legality, self.explain)
        placed = [graphs.Graph(entry) for entry in graphs.entries(module)]
        nodes = [op for graph in placed for op in graph.nodes]
        check_selectors(system, nodes, functions)
        for graph in placed:
            allowed = [legality.devices(graph.nodes[index]) for index in graph.placeable]
            problem = build(graph, system, functions, allowed, self.objective)
            assignment, solver = solve(problem, self.time_limit)
            if assignment is None or is_too_much(problem, assignment, system):
                raise _does_not_fit(problem, system, graph.function)
            for index, device in zip(graph.placeable, assignment, strict=True):
                name = system.devices[device].name
                graph.nodes[index].attributes["lemur.device"] = ir.StringAttr.get(name)
            graph.function.attributes["lemur.placement"] = _explanation(
                graph, system, legality, allowed, assignment, evaluate(problem, assignment), solver
            )


def _does_not_fit(problem: Problem, system: systems.System, entry: ir.Operation) -> UsageError:
    limits = ", ".join(
        f"{d.name}: {'no limit' if d.memory is None else size(d.memory)}" for d in system.devices
    )
    weights = sum(weight.size for weight in problem.weights)
    return UsageError(
        f"no placement fits the devices' memory: {size(weights)} of packed weights "
        f"and up to {size(max(problem.live, default=0))} live at once, against {limits}"
        + (f"; {entry.attributes[NO_CHUNKS].value}" if NO_CHUNKS in entry.attributes else ""),
        code="does-not-fit",
        hint="add a device, a smaller batch, or a lower precision",
    )


def _explanation(
    graph: graphs.Graph,
    system: systems.System,
    legality: Legality,
    allowed: list[list[str]],
    assignment: Assignment,
    evaluation: Evaluation,
    solver: str,
) -> ir.DictAttr:
    devices = {}
    for number, device in enumerate(system.devices):
        mine = [place for place, chosen in enumerate(assignment) if chosen == number]
        if not mine:
            continue
        reasons: Counter[str] = Counter()
        for place in mine:
            op = graph.nodes[graph.placeable[place]]
            if legality.pin(op):
                reasons["pinned"] += 1
            elif len(allowed[place]) == 1 and len(system.devices) > 1:
                reasons["not legal elsewhere"] += 1
            else:
                reasons["cheapest"] += 1
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        devices[device.name] = ir.DictAttr.get(
            {
                "ops": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(mine)),
                "seconds": _number(evaluation.seconds_by_device[number]),
                "why": ir.StringAttr.get(why),
            }
        )
    return ir.DictAttr.get(
        {
            "devices": ir.DictAttr.get(devices),
            "seconds": _number(evaluation.seconds),
            "solver": ir.StringAttr.get(solver),
        }
    )


def _number(value: float) -> ir.FloatAttr:
    return ir.FloatAttr.get(ir.F64Type.get(), float(f"{value:.4g}"))
