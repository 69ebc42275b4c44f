"""Put stages, and the operations inside each, in an order that needs little memory.

A stage has what it reads and what it returns from its start to its end, so its order decides
about its temporaries alone, and the order of stages about what waits between them. Both are
found by `memory_order.py`. Groups that `fuse` made are taken apart where that helps. A stage
keeps its order unless another saves a hundredth of the program's peak.

`lemur.schedule` on the function says, in bytes, the peak reached, that of the program's own
order, and a bound below which no order gets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes import graph as graphs
from lemurc.passes.annotate_cost import counts
from lemurc.passes.base import Pass
from lemurc.passes.graph import Graph
from lemurc.passes.liveness import Buffers, held_inside
from lemurc.passes.memory_order import Found, OrderProblem, least_memory
from lemurc.passes.sizes import Sizes
from lemurc.passes.split_groups import pieces, split
from lemurc.passes.unused import erase_unused_composites

Functions = dict[str, ir.Operation]

_WORTH = 0.01
"""The share of the peak that another order must save."""


@dataclass(frozen=True)
class Schedule(Pass):
    """`order`: "memory", or "program" for the order that is there."""

    name: ClassVar[str] = "schedule"

    order: str = "memory"

    def run(self, module: ir.Operation) -> None:
        functions = graphs.bodies(module)
        for entry in graphs.entries(module):
            graph = Graph(entry)
            if graph.placeable:
                _schedule(module, graph, functions, self.order == "memory")
        erase_unused_composites(module)


@dataclass(frozen=True)
class Unit:
    """What is ordered: node `index`, or of the group that it calls the piece with that number."""

    index: int
    stage: int
    reads: Sequence[ir.Value]
    makes: Sequence[ir.Value]
    inside: int
    piece: int | None = None


class Units:
    """The nodes of `graph`, or the pieces of its groups, and the buffers that they touch."""

    def __init__(self, graph: Graph, functions: Functions, apart: bool) -> None:
        self._graph, self._functions = graph, functions
        self.sizes = Sizes(graph.function)
        buffers = Buffers(graph, self.sizes)
        self.bytes, self._of = list(buffers.bytes), dict(buffers.of)
        self.arguments, self.returned = buffers.arguments, buffers.returned
        self.pieces: dict[int, list[list[int]]] = {}
        self.all: list[Unit] = []
        for index in graph.placeable:
            found = pieces(graph, graph.nodes[index], functions) if apart else []
            if found:
                self.pieces[index] = found
                self._add_pieces(index, found)
            else:
                self.all.append(self._whole(index))

    def touched(self, units: Iterable[Unit]) -> set[int]:
        return {
            self._of[value]
            for unit in units
            for value in (*unit.reads, *unit.makes)
            if value in self._of
        }

    def _whole(self, index: int) -> Unit:
        op = self._graph.nodes[index]
        inside = held_inside(op, self.sizes, self._functions)
        return Unit(index, _stage_of(op), self._graph.needs[index], list(op.results), inside)

    def _add_pieces(self, index: int, found: list[list[int]]) -> None:
        op = self._graph.nodes[index]
        body = Graph(self._functions[graphs.callee(op)])
        sizes = Sizes(body.function, self.sizes.shapes(op.operands))
        held = Buffers(body, sizes)
        known = dict(zip(body.arguments, op.operands, strict=True))
        known.update(zip(body.terminator.operands, op.results, strict=True))
        for number, piece in enumerate(found):
            inside = set(piece)
            makes = []
            for inner in piece:
                for result in body.nodes[inner].results:
                    if result in body.returned or not inside.issuperset(body.users[result]):
                        makes.append(known.setdefault(result, result))
                        if makes[-1] not in self._of:
                            self._of[makes[-1]] = len(self.bytes)
                            self.bytes.append(sizes.bytes(result))
            needs = (value for inner in piece for value in body.needs[inner])
            reads = [known[value] for value in dict.fromkeys(needs) if value in known]
            seen = {held.of[v] for v in known if v in held.of}
            temporary = max(held.live_of(piece, set(range(len(held.bytes))) - seen), default=0)
            self.all.append(Unit(index, _stage_of(op), reads, makes, temporary, number))


@dataclass(frozen=True)
class Arrangement:
    """Units in order, by stage; `peak` and `bound` in bytes."""

    stages: Mapping[int, Sequence[Unit]]
    peak: int
    bound: int

    def steps(self) -> list[Unit]:
        """All units in order; of pieces that follow each other, and are all of a group, one."""
        units = [unit for units in self.stages.values() for unit in units]
        found: list[Unit] = []
        for index, run in groupby(units, lambda unit: unit.index):
            taken = list(run)
            whole = len(taken) == sum(unit.index == index for unit in units)
            found += [replace(taken[0], piece=None)] if whole else taken
        return found


def _schedule(module: ir.Operation, graph: Graph, functions: Functions, search: bool) -> None:
    units = Units(graph, functions, apart=False)
    given = _arrange(units)
    chosen, worth = given, _WORTH * given.peak
    if search:
        chosen = _arrange(units, worth)
        apart = Units(graph, functions, apart=True)
        if apart.pieces:
            other = _arrange(apart, worth)
            if other.peak <= chosen.peak - worth:
                chosen, units = other, apart
    steps = chosen.steps()
    parts = {  # sizes anew: values of what was taken apart may be found again where they were
        index: split(
            module, graph.nodes[index], units.pieces[index], functions, Sizes(graph.function)
        )
        for index in {unit.index for unit in steps if unit.piece is not None}
    }
    ordered = [
        graph.nodes[unit.index] if unit.piece is None else parts[unit.index][unit.piece]
        for unit in steps
    ]
    now = Graph(graph.function)
    places = {op: index for index, op in enumerate(now.nodes)}
    order = [places[op] for op in ordered]
    graphs.reorder(now, order)
    _renumber(now, order)
    now.function.attributes["lemur.schedule"] = counts(
        bound_bytes=chosen.bound, peak_bytes=chosen.peak, program_bytes=given.peak
    )


def _stage_of(op: ir.Operation) -> int:
    number: int = op.attributes["lemur.stage"].value
    return number


def _arrange(units: Units, worth: float | None = None) -> Arrangement:
    """In the order given, or where `worth` is not None in one that saves as many bytes."""
    by_stage: dict[int, list[Unit]] = {}
    for unit in units.all:
        by_stage.setdefault(unit.stage, []).append(unit)
    numbers = sorted(by_stage)
    touched = {n: units.touched(by_stage[n]) for n in numbers}
    times = Counter(buffer for n in numbers for buffer in touched[n])
    outside = {buffer for buffer, count in times.items() if count > 1}
    outside |= {*units.arguments, *units.returned}
    found = {n: _inside(units, by_stage[n], outside, worth) for n in numbers}
    makers = {value: unit.stage for unit in units.all for value in unit.makes}
    across = OrderProblem(
        sizes=units.bytes,
        touched=[sorted(touched[n] & outside) for n in numbers],
        before=[
            {numbers.index(makers[v]) for u in by_stage[n] for v in u.reads if v in makers}
            - {place}
            for place, n in enumerate(numbers)
        ],
        inside=[found[n].peak for n in numbers],
        early=frozenset(units.arguments),
        late=frozenset(units.returned),
    )
    best = _best(across, across.topological(), worth)
    return Arrangement(
        {
            numbers[k]: [by_stage[numbers[k]][u] for u in found[numbers[k]].order]
            for k in best.order
        },
        best.peak,
        min(best.peak, replace(across, inside=[found[n].bound for n in numbers]).bound()),
    )


def _inside(units: Units, members: Sequence[Unit], outside: set[int], worth: float | None) -> Found:
    """The order of one stage's members, for little besides what is `outside`."""
    makers = {value: place for place, unit in enumerate(members) for value in unit.makes}
    problem = OrderProblem(
        sizes=[0 if b in outside else size for b, size in enumerate(units.bytes)],
        touched=[sorted(units.touched([unit]) - outside) for unit in members],
        before=[
            {makers[value] for value in unit.reads if value in makers} - {place}
            for place, unit in enumerate(members)
        ],
        inside=[unit.inside for unit in members],
    )
    return _best(problem, range(len(members)), worth)


def _best(problem: OrderProblem, given: Sequence[int], worth: float | None) -> Found:
    peak = problem.peak(given)
    kept = Found(list(given), peak, min(peak, problem.bound()))
    if worth is None:
        return kept
    found = least_memory(problem, given)
    return found if found.peak <= peak - worth else replace(kept, bound=found.bound)


def _renumber(graph: Graph, order: Sequence[int]) -> None:
    """Stages count up in the order in which they now stand."""
    i64 = ir.IntegerType.get_signless(64)
    numbers: dict[int, int] = {}
    for index in order:
        op = graph.nodes[index]
        number = numbers.setdefault(op.attributes["lemur.stage"].value, len(numbers))
        op.attributes["lemur.stage"] = ir.IntegerAttr.get(i64, number)
