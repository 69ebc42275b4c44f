"""Placement by OR-tools' CP-SAT: exact on small programs, an improvement on large ones.

One Boolean per node and device it may use; one per value and device that it could cross to,
for each source from where that takes another time, forced up when a reader sits where the
producer does not. What is best by the objective is then made as quick as possible without
getting worse. One worker and deterministic time: the same program gives the same plan on every
machine.
"""

import itertools
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from lemurc.passes.placement import Assignment, Problem, Tensor, evaluate, gap

_NANO = 1e9
_MOST_TICKS = 2.0**52
"""Over all of a problem: sums of what takes weeks are counted more coarsely."""
_KIB = 1024
_TIES = 0.25
"""The share of the time that goes into speed where that is not the objective."""
_SMALL = 64
_SLACK = 1 / 200
"""With more nodes than `_SMALL`, what is given up of the objective for a quicker call."""


def improve(
    problem: Problem, incumbent: Assignment | None, time_limit: float
) -> tuple[Assignment | None, str]:
    """The best assignment found and how sure we are; never worse than `incumbent`."""
    model = _Model(problem)
    share = 1.0 if problem.objective == "latency" else 1.0 - _TIES
    found = model.solve(model.objective, incumbent, share * time_limit)
    if found is None:
        if incumbent is None:
            return None, "heuristic"
        return incumbent, f"heuristic, within {gap(problem, incumbent):.1%} of the optimum"
    best = _better(problem, incumbent, found.assignment)
    if problem.objective != "latency":
        slack = _SLACK if len(problem.allowed) > _SMALL else 0.0
        model.at_most(int(found.value * (1 + slack)))
        quicker = model.solve(model.seconds, best, _TIES * time_limit)
        others = [incumbent, None if quicker is None else quicker.assignment]
        best = _quickest(problem, best, others, slack)
    return best, _verdict(problem, best, found)


@dataclass(frozen=True)
class _Solution:
    """`bound` is what no assignment gets below, in units of the model as `value` is."""

    assignment: Assignment
    value: int
    bound: float
    optimal: bool


def _verdict(problem: Problem, best: Assignment, found: _Solution) -> str:
    unit = _KIB if problem.objective == "memory" else 1 / _ticks(problem)
    if found.optimal and _key(problem, best)[0] <= _key(problem, found.assignment)[0]:
        return "optimal"
    return f"best found in time, within {gap(problem, best, found.bound * unit):.1%} of the optimum"


def _better(problem: Problem, first: Assignment | None, second: Assignment) -> Assignment:
    if first is None or _key(problem, second) < _key(problem, first):
        return second
    return first


def _quickest(
    problem: Problem, best: Assignment, others: list[Assignment | None], slack: float
) -> Assignment:
    """Of `best` and those that are as good, but for `slack`, the one of the quickest call."""
    most = (1 + slack) * _key(problem, best)[0]
    good = [best, *(o for o in others if o is not None and _key(problem, o)[0] <= most)]
    return min(good, key=lambda assignment: _key(problem, assignment)[1])


def _key(problem: Problem, assignment: Assignment) -> tuple[float, float]:
    return evaluate(problem, assignment).objective(problem.objective)


def _ticks(problem: Problem) -> float:
    """How many to the second."""
    pairs = list(itertools.permutations(problem.devices, 2))
    largest = max((tensor.size for tensor in problem.tensors), default=0)
    slowest = max((problem.transfer(largest, *pair) for pair in pairs), default=0.0)
    worst = sum(max(seconds) for seconds in problem.seconds)
    worst += len(problem.tensors) * len(problem.devices) * slowest
    return min(_NANO, _MOST_TICKS / worst) if worst else _NANO


class _Model:
    """The problem in CP-SAT's terms: ticks, which are nanoseconds if they can be, and KiB."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._ticks = _ticks(problem)
        self._model = cp_model.CpModel()
        self._on = [
            {device: self._model.new_bool_var("") for device in allowed}
            for allowed in problem.allowed
        ]
        for choices in self._on:
            self._model.add_exactly_one(choices.values())
        self._busy: list[list[Any]] = [[] for _ in problem.devices]
        for node, choices in enumerate(self._on):
            for device, chosen in choices.items():
                self._busy[device].append(
                    round(problem.seconds[node][device] * self._ticks) * chosen
                )
        for tensor in problem.tensors:
            self._add_crossings(tensor)
        used = self._add_memory()
        self.seconds = sum(sum(terms) for terms in self._busy)
        self.objective = self.seconds
        if problem.objective != "latency":
            memory = problem.objective == "memory"
            self.objective = self._model.new_int_var(0, 2**60, "largest")
            for terms in used if memory else [sum(terms) for terms in self._busy]:
                self._model.add(self.objective >= terms)

    def solve(
        self, objective: Any, start: Assignment | None, time_limit: float
    ) -> _Solution | None:
        self._model.minimize(objective)
        self._model.clear_hints()
        for choices, hinted in zip(self._on, start or (), strict=start is not None):
            for device, chosen in choices.items():
                self._model.add_hint(chosen, device == hinted)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        # Its own handler of ^C gives way to the default one, which kills the process, afterwards.
        solver.parameters.catch_sigint_signal = False
        solver.parameters.max_deterministic_time = time_limit
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        found: Assignment = [
            next(device for device, chosen in choices.items() if solver.boolean_value(chosen))
            for choices in self._on
        ]
        return _Solution(
            found,
            round(solver.objective_value),
            solver.best_objective_bound,
            status == cp_model.OPTIMAL,
        )

    def at_most(self, largest: int) -> None:
        self._model.add(self.objective <= largest)

    def _add_crossings(self, tensor: Tensor) -> None:
        sources: dict[int, Any]
        if tensor.producer is not None:
            sources = dict(self._on[tensor.producer])
        elif tensor.home is not None:
            sources = {tensor.home: True}
        else:
            return
        readers = [self._on[reader] for reader in tensor.readers]
        if tensor.read_by_host is not None:
            readers.append({tensor.read_by_host: True})
        for device in sorted({device for reader in readers for device in reader}):
            here = [reader[device] for reader in readers if device in reader]
            for took, origins in self._by_time(tensor, sources, device).items():
                crosses = self._model.new_bool_var("")
                self._busy[device].append(took * crosses)
                if len(origins) == len(sources.keys() - {device}):
                    # From anywhere else it takes this time.
                    elsewhere = [sources[device]] if device in sources else []
                    for reads in here:
                        self._model.add_bool_or([crosses, *elsewhere, _not(reads)])
                    continue
                for source in origins:
                    for reads in here:
                        self._model.add_bool_or([crosses, _not(sources[source]), _not(reads)])

    def _by_time(
        self, tensor: Tensor, sources: dict[int, Any], device: int
    ) -> dict[int, list[int]]:
        """The devices that the value may come from, by the time it takes."""
        times: dict[int, list[int]] = {}
        for source in sources:
            if source != device:
                seconds = self._problem.transfer(tensor.size, source, device)
                times.setdefault(round(seconds * self._ticks), []).append(source)
        return times

    def _add_memory(self) -> list[Any]:
        """Per device: its KiB of weights plus the most live at one of its nodes."""
        problem = self._problem
        top = sum(weight.size for weight in problem.weights) + max(problem.live, default=0)
        binding = any(limit is not None and limit < top for limit in problem.memory)
        if problem.objective != "memory" and not binding:
            return []
        used = []
        for device in problem.devices:
            peak = self._model.new_int_var(0, top // _KIB + 1, "live")
            terms: list[Any] = [peak]
            for weight in problem.weights:
                held = self._model.new_bool_var("")
                for reader in weight.readers:
                    if device in self._on[reader]:
                        self._model.add_implication(self._on[reader][device], held)
                terms.append(-(-weight.size // _KIB) * held)
            for node, live in enumerate(problem.live):
                if device in self._on[node]:
                    self._model.add(peak >= -(-live // _KIB) * self._on[node][device])
            limit = problem.memory[device] if problem.memory else None
            if limit is not None:
                self._model.add(sum(terms) <= limit // _KIB)
            used.append(sum(terms))
        return used


def _not(literal: Any) -> Any:
    return False if literal is True else ~literal
