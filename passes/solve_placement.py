"""The answer to a placement problem, by a solver where there is one."""

from lemurc.passes.placement import Assignment, Problem, evaluate, gap
from lemurc.passes.placement_search import first_assignment, simple_answers
from lemurc.passes.system import System


def solve(problem: Problem, time_limit: float) -> tuple[Assignment | None, str]:
    """The best assignment found in so many seconds of the solver's own time, and how sure we
    are of it; None where none is found that fits."""
    if all(len(devices) == 1 for devices in problem.allowed):
        return [devices[0] for devices in problem.allowed], "no choice"
    incumbent = first_assignment(problem)
    try:
        from lemurc.passes.placement_solver import improve
    except ImportError:
        if incumbent is None:
            return None, "heuristic"
        return incumbent, f"heuristic, within {gap(problem, incumbent):.1%} of the optimum"
    return improve(problem, incumbent, time_limit)


def is_too_much(problem: Problem, assignment: Assignment, system: System) -> bool:
    """Whether a device is known to have less memory than is put there, as pins may."""
    held = evaluate(problem, assignment).bytes_by_device
    return any(
        device.memory_known and limit is not None and size > limit
        for device, limit, size in zip(system.devices, problem.memory, held, strict=True)
    )


def may_fit(problem: Problem) -> bool:
    """False where memory is short whatever goes where: over all devices together, or of each
    device that one node may go to."""
    limits = [problem.memory[device] for device in problem.devices]
    if None not in limits:
        weights = sum(weight.size for weight in problem.weights)
        if weights > sum(limit for limit in limits if limit is not None):
            return False
    needed = list(problem.live)
    for weight in problem.weights:
        for reader in weight.readers:
            needed[reader] += weight.size
    return all(
        any((limit := limits[device]) is None or need <= limit for device in devices)
        for need, devices in zip(needed, problem.allowed, strict=True)
    )


def fits(problem: Problem, time_limit: float) -> bool:
    """Whether an assignment within the devices' memory is found."""
    if not may_fit(problem):
        return False
    if any(evaluate(problem, answer).fits for answer in simple_answers(problem)):
        return True
    return solve(problem, time_limit)[0] is not None
