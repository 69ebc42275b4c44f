"""Placement by OR-tools' CP-SAT: exact on small programs, an improvement on large ones.

One Boolean per node and device it may use; one per value and pair of devices it could
cross between, forced up when a reader sits where the producer does not. One worker and
deterministic time: the same program gives the same plan on every machine.
"""

from typing import Any

from ortools.sat.python import cp_model

from lemurc.passes.placement import Assignment, Problem, Tensor, evaluate

_NANO = 1e9
_KIB = 1024


def improve(
    problem: Problem, incumbent: Assignment | None, time_limit: float
) -> tuple[Assignment | None, str]:
    """The best assignment found and how sure we are; never worse than `incumbent`."""
    model = cp_model.CpModel()
    on = [
        {device: model.new_bool_var(f"n{node}d{device}") for device in allowed}
        for node, allowed in enumerate(problem.allowed)
    ]
    for choices in on:
        model.add_exactly_one(choices.values())
    busy: list[list[Any]] = [[] for _ in problem.devices]
    for node, choices in enumerate(on):
        for device, chosen in choices.items():
            busy[device].append(round(problem.seconds[node][device] * _NANO) * chosen)
    for number, tensor in enumerate(problem.tensors):
        _add_crossings(model, problem, on, busy, number, tensor)
    used = _add_memory(model, problem, on)
    _minimise(model, problem, busy, used)
    if incumbent is not None:
        for node, choices in enumerate(on):
            for device, chosen in choices.items():
                model.add_hint(chosen, device == incumbent[node])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    # Its own handler of ^C gives way to the default one, which kills the process, afterwards.
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_deterministic_time = time_limit
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return incumbent, "heuristic"
    found = [
        next(device for device, chosen in choices.items() if solver.boolean_value(chosen))
        for choices in on
    ]
    if incumbent is not None and _key(problem, incumbent) <= _key(problem, found):
        found = incumbent
    return found, "optimal" if status == cp_model.OPTIMAL else "best found in time"


def _key(problem: Problem, assignment: Assignment) -> tuple[float, float]:
    return evaluate(problem, assignment).objective(problem.objective)


def _add_crossings(
    model: Any,
    problem: Problem,
    on: list[dict[int, Any]],
    busy: list[list[Any]],
    number: int,
    tensor: Tensor,
) -> None:
    if tensor.producer is not None:
        sources: dict[int, Any] = dict(on[tensor.producer])
    elif tensor.home is not None:
        sources = {tensor.home: 1}
    else:
        return
    readers = [on[reader] for reader in tensor.readers]
    if tensor.read_by_host is not None:
        readers.append({tensor.read_by_host: 1})
    for device in sorted({device for reader in readers for device in reader}):
        here = sources.get(device, 0)
        crossings = []
        for source, made in sources.items():
            if source != device:
                crossing = model.new_bool_var(f"t{number}s{source}d{device}")
                model.add(crossing <= made)
                seconds = problem.transfer(tensor.size, source, device)
                busy[device].append(round(seconds * _NANO) * crossing)
                crossings.append(crossing)
        for reader in readers:
            if device in reader and crossings:
                model.add(sum(crossings) >= reader[device] - here)


def _add_memory(model: Any, problem: Problem, on: list[dict[int, Any]]) -> list[Any]:
    """Per device: its KiB of weights plus the most live at one of its nodes."""
    top = sum(weight.size for weight in problem.weights) + max(problem.live, default=0)
    binding = any(limit is not None and limit < top for limit in problem.memory)
    if problem.objective != "memory" and not binding:
        return []
    used = []
    for device in problem.devices:
        peak = model.new_int_var(0, top // _KIB + 1, f"live{device}")
        terms: list[Any] = [peak]
        for number, weight in enumerate(problem.weights):
            held = model.new_bool_var(f"w{number}d{device}")
            for reader in weight.readers:
                if device in on[reader]:
                    model.add(held >= on[reader][device])
            terms.append(-(-weight.size // _KIB) * held)
        for node, live in enumerate(problem.live):
            if device in on[node]:
                model.add(peak >= -(-live // _KIB) * on[node][device])
        limit = problem.memory[device] if problem.memory else None
        if limit is not None:
            model.add(sum(terms) <= limit // _KIB)
        used.append(sum(terms))
    return used


def _minimise(model: Any, problem: Problem, busy: list[list[Any]], used: list[Any]) -> None:
    total = sum(sum(terms) for terms in busy)
    if problem.objective == "latency":
        model.minimize(total)
        return
    largest = model.new_int_var(0, 2**60, "largest")
    for terms in used if problem.objective == "memory" else [sum(terms) for terms in busy]:
        model.add(largest >= terms)
    model.minimize(largest)
