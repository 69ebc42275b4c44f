"""Group the nodes of a placed graph into stages: plain data in, stage numbers out.

A stage holds nodes of one device and is convex: no path leaves it and comes back.
Then stages depend on each other without cycles, and each can run as one function.
"""

from collections.abc import Sequence


def group(devices: Sequence[str], predecessors: Sequence[set[int]]) -> list[int]:
    """The stage of each node; numbers are a topological order. Nodes are in such an order.

    A node's level counts the device changes on the longest path to it; nodes of one
    device and level never depend on each other through another device. Stages of one
    device are then merged as long as that closes no cycle.
    """
    levels: list[int] = []
    for node, device in enumerate(devices):
        before = (levels[p] + (devices[p] != device) for p in predecessors[node])
        levels.append(max(before, default=0))
    keys = list(zip(levels, devices, strict=True))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(sorted(keys)))}
    stage = [numbers[key] for key in keys]
    while (pair := _mergeable(stage, devices, predecessors)) is not None:
        stage = [pair[0] if number == pair[1] else number for number in stage]
    return _renumbered(stage, predecessors)


def split(stages: Sequence[int], views: Sequence[bool], largest: int) -> list[int]:
    """Stages in pieces of `largest` nodes, in program order; views count as nothing.

    What leaves a stage never comes back, and inside it edges go forward only, so that
    pieces depend on each other without cycles too.
    """
    counted: dict[int, int] = {}
    pieces: list[tuple[int, int]] = []
    for stage, view in zip(stages, views, strict=True):
        counted[stage] = counted.get(stage, 0) + (not view)
        pieces.append((stage, max(0, counted[stage] - 1) // largest))
    order = {piece: number for number, piece in enumerate(sorted(set(pieces)))}
    return [order[piece] for piece in pieces]


def stage_edges(stage: Sequence[int], predecessors: Sequence[set[int]]) -> dict[int, set[int]]:
    """Stage -> the other stages that use something it makes."""
    edges: dict[int, set[int]] = {number: set() for number in stage}
    for node, before in enumerate(predecessors):
        for earlier in before:
            if stage[earlier] != stage[node]:
                edges[stage[earlier]].add(stage[node])
    return edges


def has_cycle(edges: dict[int, set[int]]) -> bool:
    return len(topological(edges)) < len(edges)


def topological(edges: dict[int, set[int]]) -> list[int]:
    """An order of the stages, smallest number first among the ready; shorter if cyclic."""
    waiting = {number: 0 for number in edges}
    for users in edges.values():
        for user in users:
            waiting[user] += 1
    order: list[int] = []
    ready = sorted(number for number, count in waiting.items() if count == 0)
    while ready:
        number = ready.pop(0)
        order.append(number)
        for user in edges[number]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
        ready.sort()
    return order


def _mergeable(
    stage: Sequence[int], devices: Sequence[str], predecessors: Sequence[set[int]]
) -> tuple[int, int] | None:
    """Two stages of one device with no path between them through a third."""
    edges = stage_edges(stage, predecessors)
    reach = _reachable(edges)
    device = dict(zip(stage, devices, strict=True))
    numbers = sorted(edges)
    for first in numbers:
        for second in numbers:
            if second <= first or device[first] != device[second]:
                continue
            detours = [
                middle
                for a, b in ((first, second), (second, first))
                for middle in edges[a] - {b}
                if b in reach[middle]
            ]
            if not detours:
                return first, second
    return None


def _reachable(edges: dict[int, set[int]]) -> dict[int, set[int]]:
    reach: dict[int, set[int]] = {}
    for number in reversed(topological(edges)):
        reach[number] = set(edges[number]).union(*(reach[user] for user in edges[number]))
    return reach


def _renumbered(stage: Sequence[int], predecessors: Sequence[set[int]]) -> list[int]:
    """Numbers 0.. in topological order, earlier first nodes first where that leaves a choice."""
    by_first_node = {number: place for place, number in enumerate(dict.fromkeys(stage))}
    stage = [by_first_node[number] for number in stage]
    order = topological(stage_edges(stage, predecessors))
    final = {number: place for place, number in enumerate(order)}
    return [final[number] for number in stage]
