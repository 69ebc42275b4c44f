"""Which device a call waits for, when it is given up."""

from lemurc.runtime.attempt import Attempt
from lemurc.runtime.call import Call, Operation
from lemurc.runtime.program import Program


def waited_for(program: Program, attempt: Attempt) -> str:
    """The device of the first operation that is not done, in the order of the plan: what it needs
    is there. All devices of the call, with commas between, where nothing tells."""
    call = attempt.call
    if call is not None:
        flags = [] if program.flags is None else [program.flags]
        for operation in (*program.operations, *program.fetches, *flags):
            if not _done(operation, call):
                return program.device_of(operation)
    issuing = attempt.operation
    return program.where if issuing is None else program.device_of(issuing)


def _done(operation: Operation, call: Call) -> bool:
    """Or not begun, or not known to be under way."""
    for cell in operation.makes:
        pending, point = call.pending.get(cell), call.ready[cell]
        if pending is not None and not pending.done:
            return False
        if point is not None and not point[0].reached(point[1]):
            return False
    return True
