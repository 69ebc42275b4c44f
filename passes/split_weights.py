"""Split operations whose weight no device can hold, so that their parts fit.

    %y = call @linear_0(%x, %w)   ->   parts with rows of %w each, tensor.concat (split_parts.py)

Nothing is done while a placement within the devices' memory is found. Then weights that are too
large for any device they may go to are split, over as few devices as possible; where that is not
enough, over all, and other weights with them, the largest first. Parts are as large as the
memory of the devices is: the solver that places them next has a fit for each.

Products are split by columns of their result, which are rows of a linear layer's weight;
embeddings by columns of the table; convolutions by filters.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.errors import UsageError
from lemurc.passes import graph as graphs
from lemurc.passes import system as systems
from lemurc.passes import workloads
from lemurc.passes.annotate_cost import AnnotateCost
from lemurc.passes.attributes import attribute
from lemurc.passes.base import Pass
from lemurc.passes.graph import Graph
from lemurc.passes.legality import Legality, matches, near, path_of, paths_of
from lemurc.passes.placement_problem import build
from lemurc.passes.sizes import Sizes
from lemurc.passes.slicing import Slicer
from lemurc.passes.solve_placement import fits
from lemurc.passes.split_parts import Chain, chain_from, erase_unused_free, split
from lemurc.passes.unfuse import unfuse, unfuse_conflicts
from lemurc.passes.unused import erase_unused_composites, erase_unused_weights
from lemurc.units import size as printed

SPLITS = "lemur.splits"
"""On an entry: of each operation that was split the values it was, and what to say of it."""

_ALONE = "because no device that may run it has room for its weight"
_OTHERS = "because not all weights find room otherwise"
_ASKED = "as asked for"

_TRIAL = 0.25
"""The share of the time limit for seeing whether cuts are enough."""

_TILES = (16, 8, 4, 2)
"""Parts are whole tiles of rows, as kernels pack them, where that leaves them the size they are
meant to have."""


@dataclass(frozen=True)
class Cut:
    """A weight that one node reads, the shares of its parts, and why it is to be split."""

    node: int
    weight: str
    shares: tuple[float, ...]
    why: str


@dataclass(frozen=True)
class SplitWeights(Pass):
    """`splits`: what is split whatever the memory, `GLOB=PARTS` between commas; in 1 part: never.
    `objective` and `time_limit`: those of `place`, to see whether it would find a placement."""

    name: ClassVar[str] = "split-weights"

    splits: str = ""
    objective: str = "latency"
    time_limit: float = 2.0

    def run(self, module: ir.Operation) -> None:
        system = systems.read(module)
        functions = graphs.bodies(module)
        asked = parse_splits(self.splits)
        _check(asked, module)
        unfuse_conflicts(module, functions, Legality(system, functions))
        kept = [glob for glob, parts in asked if parts == 1]
        for number, function in enumerate(graphs.entries(module)):
            if SPLITS not in function.attributes:
                _apply(module, number, self._problem(module, number).asked(asked), system)
                problem = self._problem(module, number)
                if problem.has_choice and not fits(problem.problem, self.time_limit):
                    _apply(module, number, self._enough(module, number, problem, kept), system)

    def _problem(self, module: ir.Operation, number: int) -> "_Entry":
        return _Entry(module, number, self.objective)

    def _enough(
        self, module: ir.Operation, number: int, problem: "_Entry", kept: Sequence[str]
    ) -> list[Cut]:
        """The first cuts after which a placement is found; none where no cuts help."""
        for cuts in problem.attempts(kept):
            trial = module.clone().operation
            _apply(trial, number, cuts, problem.system)
            if fits(self._problem(trial, number).problem, _TRIAL * self.time_limit):
                return cuts
        return []


def parse_splits(text: str) -> list[tuple[str, int]]:
    """`head=3,layers.*.up=2` as pairs; UsageError for anything else."""
    found = []
    for item in filter(None, text.split(",")):
        glob, _, parts = item.rpartition("=")
        if not glob or not parts.isdecimal() or int(parts) < 1:
            raise UsageError(
                f"cannot split '{item}'",
                code="bad-option",
                where="--split",
                hint="give a module and in how many parts: 'lm_head=3'; in 1: never",
            )
        found.append((glob, int(parts)))
    return found


def _check(asked: Sequence[tuple[str, int]], module: ir.Operation) -> None:
    functions = graphs.bodies(module)
    paths = {
        path
        for entry in graphs.entries(module)
        for op in entry.regions[0].blocks[0].operations
        for path in paths_of(op.operation, functions)
    }
    for glob, _ in asked:
        if not any(matches(glob, path) for path in paths):
            raise UsageError(
                f"split '{glob}' matches no module of the model",
                code="split-unmatched",
                where="--split",
                hint=near(glob, sorted(filter(None, paths))),
            )


class _Entry:
    """One entry point of a module, with its placement problem."""

    def __init__(self, module: ir.Operation, number: int, objective: str) -> None:
        self.system = systems.read(module)
        self.functions = graphs.bodies(module)
        self.graph = Graph(graphs.entries(module)[number])
        legality = Legality(self.system, self.functions)
        nodes = [self.graph.nodes[index] for index in self.graph.placeable]
        self.paths = [paths_of(op, self.functions) for op in nodes]
        allowed = [legality.devices(op) for op in nodes]
        self.problem = build(self.graph, self.system, self.functions, allowed, objective)

    @property
    def has_choice(self) -> bool:
        return any(len(devices) > 1 for devices in self.problem.allowed)

    def asked(self, splits: Sequence[tuple[str, int]]) -> list[Cut]:
        """What the user wants split; of several globs that match, the last holds."""
        cuts = []
        for place, paths in enumerate(self.paths):
            parts = [n for glob, n in splits if any(matches(glob, path) for path in paths)]
            if parts and parts[-1] > 1:
                shares = self._shares(place, parts[-1]) or (1.0,) * parts[-1]
                cuts += self._cuts(place, shares, _ASKED)
        return cuts

    def attempts(self, kept: Sequence[str]) -> Iterator[list[Cut]]:
        """Cuts to try, the fewest first. `kept` are modules not to split."""
        sizes: dict[int, int] = {}
        for weight in self.problem.weights:
            for place in weight.readers:
                if not any(matches(glob, path) for glob in kept for path in self.paths[place]):
                    sizes[place] = max(weight.size, sizes.get(place, 0))
        largest = {place: max(self._memories(place)) for place in sizes}
        big = {place for place, size in sizes.items() if self._needs(place, size) > largest[place]}
        most = max((len(devices) for devices in self.problem.allowed), default=0)
        for count in range(2, most + 1) if big else ():
            yield self._even(big, count, big)
        others = [place for place in sizes if place not in big and largest[place] < _UNLIMITED]
        others.sort(key=lambda place: -sizes[place])
        taken = 1
        while others and taken < 2 * len(others):
            yield self._even({*big, *others[:taken]}, most, big)
            taken *= 2

    def _needs(self, place: int, weight: int) -> int:
        return weight + self.problem.live[place]

    def _even(self, places: set[int], count: int, big: set[int]) -> list[Cut]:
        """Each of `places` over the `count` largest devices that it may go to, or all."""
        return [
            cut
            for place in sorted(places)
            for cut in self._cuts(
                place,
                self._shares(place, min(count, len(self.problem.allowed[place]))),
                _ALONE if place in big else _OTHERS,
            )
        ]

    def _cuts(self, place: int, shares: tuple[float, ...], why: str) -> list[Cut]:
        """One for each weight with more than one dimension that a node reads."""
        index = self.graph.placeable[place]
        return [
            Cut(index, self.graph.reference(value), shares, why)
            for value in self.graph.needs[index]
            if len(shares) > 1
            and self.graph.is_weight(value)
            and isinstance(value.type, ir.RankedTensorType)
            and value.type.rank > 1
        ]

    def _memories(self, place: int) -> list[float]:
        limits = (self.problem.memory[device] for device in self.problem.allowed[place])
        return [_UNLIMITED if limit is None else float(limit) for limit in limits]

    def _shares(self, place: int, count: int) -> tuple[float, ...]:
        """The memory of the `count` largest devices, in their order; () where it has no limit, or
        there is none."""
        memories = self._memories(place)
        by_size = sorted(range(len(memories)), key=lambda at: -memories[at])[:count]
        shares = tuple(memories[at] for at in sorted(by_size))
        useless = len(shares) < count or _UNLIMITED in shares or not any(shares)
        return () if useless else shares


_UNLIMITED = float("inf")


def why_split(entry: ir.Operation, value: str) -> str:
    """What is to be said of the split that `value` is a part or the result of; "" for others."""
    for values, said in entry.attributes[SPLITS] if SPLITS in entry.attributes else ():
        if value.partition("[")[0] in [each.value for each in values]:
            return str(said.value)
    return ""


def _apply(module: ir.Operation, number: int, cuts: Sequence[Cut], system: systems.System) -> None:
    """Split what can be; what cannot stays in one."""
    if not cuts:
        return
    function = graphs.entries(module)[number]
    functions, nodes = graphs.bodies(module), Graph(function).nodes
    members = {
        index: _opened(nodes[index], functions, Sizes(function))
        for index in dict.fromkeys(cut.node for cut in cuts)
    }
    slicer, legality = Slicer(module), Legality(system, functions)
    said = []
    for cut, chain in _chains(Graph(function), cuts, members, slicer, legality):
        sizes = _sizes(chain.size, cut.shares)
        if len(sizes) > 1:
            said.append(_said(Graph(function), cut, chain, sizes, functions))
            split(Graph(function), chain, sizes, slicer)
    if said:
        function.attributes[SPLITS] = attribute(said)
    erase_unused_free(function)
    erase_unused_weights(function)
    erase_unused_composites(module)
    AnnotateCost().run(module)


def _opened(
    op: ir.Operation, functions: dict[str, ir.Operation], sizes: Sizes
) -> list[ir.Operation]:
    """What stands for a fused group once it is taken apart; any other operation itself."""
    body = functions.get(graphs.callee(op))
    if body is None or body.attributes["lemur.composite"].value != "fused":
        return [op]
    return unfuse(op, body, functions, sizes)


def _chains(
    graph: Graph,
    cuts: Sequence[Cut],
    members: Mapping[int, Sequence[ir.Operation]],
    slicer: Slicer,
    legality: Legality,
) -> list[tuple[Cut, Chain]]:
    weights = {name: value for value, name in graph.arguments.items()}
    sizes = Sizes(graph.function)
    taken: set[ir.Operation] = set()
    found = []
    for cut in cuts:
        for op in members[cut.node]:
            if weights[cut.weight] in list(op.operands) and op not in taken:
                chain = chain_from(op, weights[cut.weight], slicer, legality, sizes)
                if chain is not None and not taken.intersection(chain.ops):
                    taken.update(chain.ops)
                    found.append((cut, chain))
    return found


def _sizes(size: int, shares: Sequence[float]) -> list[int]:
    """`size` in parts like `shares`."""
    tile = next((tile for tile in _TILES if size >= 4 * tile * len(shares)), 1)
    ends, total = [0], 0.0
    for share in shares:
        total += share
        ends.append(round(size * total / sum(shares) / tile) * tile)
    ends[-1] = size
    return [stop - start for start, stop in itertools.pairwise(ends) if stop > start]


def _said(
    graph: Graph,
    cut: Cut,
    chain: Chain,
    sizes: Sequence[int],
    functions: dict[str, ir.Operation],
) -> list[object]:
    """The values that were split, and what to tell the user."""
    op = chain.ops[0]
    weight = next(value for value, name in graph.arguments.items() if name == cut.weight)
    held = printed(Sizes(graph.function).bytes(weight))
    name = cut.weight.removeprefix("param:")
    where = path_of(op, functions) or workloads.kind(op, functions)
    text = (
        f"{where} is split in {len(sizes)} parts of {' + '.join(map(str, sizes))} columns, "
        f"{cut.why} ({name}: {held})"
    )
    return [[graph.reference(each.results[0]) for each in chain.ops], text]
