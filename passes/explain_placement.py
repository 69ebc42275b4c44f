"""Say of operations of some modules why they are where `place` put them, and at what cost.

    func.func @main(...) attributes {lemur.explanation = {call_seconds = 1.2e-3, ...}}

The problem is built again as `place` built it, and evaluated again with the operation, or all
of the module, on each other device: figures are of the procedure that decided. Reasons for not
fusing are those that `fuse` and `place` left as `lemur.apart`, under `explain`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.dialects.locations import python_line
from lemurc.errors import UsageError
from lemurc.manifest import HOST
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes import workloads
from lemurc.passes.apart import APART
from lemurc.passes.attributes import attribute, plain
from lemurc.passes.base import Pass
from lemurc.passes.form_stages import device_of
from lemurc.passes.graph import Graph
from lemurc.passes.legality import Legality, matches, near, paths_of
from lemurc.passes.placement import Assignment, Problem, evaluate
from lemurc.passes.placement_problem import build
from lemurc.passes.split_weights import why_split

EVERYTHING = "*"
"""The glob that also covers what belongs to no module."""

EXPLANATION = "lemur.explanation"
Described = dict[str, object]


@dataclass(frozen=True)
class ExplainPlacement(Pass):
    """`globs`: modules of the model, as in pins, between commas. `objective`: that of `place`."""

    name: ClassVar[str] = "explain-placement"

    globs: str = EVERYTHING
    objective: str = "latency"

    def run(self, module: ir.Operation) -> None:
        system, functions = systems.read(module), graphs.bodies(module)
        globs = self.globs.split(",")
        entries = [Graph(entry) for entry in graphs.entries(module)]
        paths = [
            path for graph in entries for i in graph.placeable
            for path in paths_of(graph.nodes[i], functions)
        ]  # fmt: skip
        for glob in globs:
            if glob != EVERYTHING and not any(matches(glob, path) for path in paths):
                raise UsageError(
                    f"'{glob}' matches no module of the model",
                    code="explain-unmatched",
                    hint=near(glob, sorted({path for path in paths if path})),
                )
        for graph in entries:
            explained = _Explained(graph, system, functions, self.objective)
            graph.function.attributes[EXPLANATION] = attribute(explained.describe(globs))


class _Explained:
    """One placed entry, ready to have operations moved."""

    def __init__(
        self,
        graph: Graph,
        system: systems.System,
        functions: Mapping[str, ir.Operation],
        objective: str,
    ) -> None:
        self._graph = graph
        self._system = system
        self._functions = functions
        self._ops = [graph.nodes[index] for index in graph.placeable]
        self._legality = Legality(system, functions)
        self._allowed = [self._legality.devices(op) for op in self._ops]
        self._problem: Problem = build(graph, system, functions, self._allowed, objective)
        self._names = system.names()
        self._assignment: Assignment = [self._names.index(device_of(op)) for op in self._ops]
        self._cost = evaluate(self._problem, self._assignment)

    def describe(self, globs: Sequence[str]) -> Described:
        chosen = {glob: self._matching(glob) for glob in globs}
        wanted = sorted({place for places in chosen.values() for place in places})
        solver = self._graph.function.attributes["lemur.placement"]["solver"].value
        return {
            "call_seconds": self._cost.seconds,
            "solver": str(solver),
            "objective": self._problem.objective,
            "modules": [self._module(glob, places) for glob, places in chosen.items() if places],
            "operations": [self._operation(place) for place in wanted if self._ops[place].results],
        }

    def _matching(self, glob: str) -> list[int]:
        return [
            place
            for place, op in enumerate(self._ops)
            if glob == EVERYTHING or any(matches(glob, p) for p in paths_of(op, self._functions))
        ]

    def _module(self, glob: str, places: Sequence[int]) -> Described:
        where = Counter(self._names[self._assignment[place]] for place in places)
        return {
            "glob": glob,
            "operations": len(places),
            "devices": dict(where),
            "alternatives": self._alternatives(places),
        }

    def _operation(self, place: int) -> Described:
        op = self._ops[place]
        cost = workloads.costs(op)
        device = self._assignment[place]
        body = self._functions.get(graphs.callee(op))
        fused = body is not None and body.attributes["lemur.composite"].value == "fused"
        members = list(body.regions[0].blocks[0].operations)[:-1] if fused and body else []
        return {
            "value": self._graph.reference(op.results[0]),
            "values": [self._graph.reference(result) for result in op.results],
            "needs": [
                self._graph.reference(value)
                for value in self._graph.needs[self._graph.placeable[place]]
                if not self._graph.is_weight(value)
            ],
            "kind": workloads.kind(op, self._functions),
            "members": [
                workloads.kind(member.operation, self._functions)
                for member in members
                if not graphs.is_free(member.operation)
            ],
            "paths": [path for path in paths_of(op, self._functions) if path],
            "line": python_line(op.location),
            "device": self._names[device],
            "why": self._why(place),
            "split": why_split(self._graph.function, self._graph.reference(op.results[0])),
            "flops": cost["flops"],
            "bytes": cost["bytes_read"] + cost["bytes_written"],
            "seconds": self._problem.seconds[place][device],
            "alternatives": self._alternatives([place]),
            "apart": [
                dict(zip(("role", "kind", "path", "why"), reason, strict=True))
                for reason in (plain(op.attributes[APART]) if APART in op.attributes else [])
            ],
            "pins": [f"{selector}={name}" for selector, name in self._legality.pins(op)],
        }

    def _why(self, place: int) -> str:
        if self._legality.pin(self._ops[place]):
            return "pinned"
        alone = len(self._allowed[place]) == 1 and len(self._names) > 1
        return "not legal elsewhere" if alone else "cheapest"

    def _alternatives(self, places: Sequence[int]) -> list[Described]:
        """All of `places` on each device that some of them is not on; pins are left aside."""
        return [
            self._moved(places, device)
            for device in self._problem.devices
            if self._system.devices[device].target != HOST
            and any(self._assignment[place] != device for place in places)
        ]

    def _moved(self, places: Sequence[int], device: int) -> Described:
        found: Described = {"device": self._names[device], "why_not": ""}
        there = self._system.devices[device]
        reasons = (self._legality.why_not(self._ops[place], there) for place in places)
        wrong = Counter(reason for reason in reasons if reason)
        if wrong:
            counted = ", ".join(
                reason if len(places) == 1 else f"{reason} (of {count})"
                for reason, count in wrong.most_common()
            )
            return found | {"why_not": counted}
        moved = list(self._assignment)
        for place in places:
            moved[place] = device
        cost = evaluate(self._problem, moved)
        return found | {
            "seconds": sum(self._problem.seconds[place][device] for place in places),
            "call_seconds": cost.seconds,
            "fits": cost.fits,
        }
