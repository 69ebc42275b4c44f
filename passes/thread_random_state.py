"""The random number generator's position as a value instead of a global.

    func.func @main(%s {lemur.state = "random_state"})
        -> (tensor<i64> {lemur.state_update = "random_state"}) {
      %0 = ml_program.global_load @global_seed
      %1 = f(%0)                                     (torch-mlir's step to the next seed)
      ml_program.global_store @global_seed = %1
      return %s

    ->  %1 = f(%s)
        return %1

Stages share no globals; state they share through the session, which can seed it.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.errors import UnsupportedModelError
from lemurc.manifest import RANDOM_STATE
from lemurc.passes.base import Pass
from lemurc.passes.walking import operations

_LOAD, _STORE, _GLOBAL = (f"ml_program.global{suffix}" for suffix in ("_load", "_store", ""))


@dataclass(frozen=True)
class ThreadRandomState(Pass):
    name: ClassVar[str] = "thread-random-state"

    def run(self, module: ir.Operation) -> None:
        body = module.regions[0].blocks[0]
        for operation in list(body.operations):
            if operation.operation.name == "func.func" and _accesses(operation.operation):
                _thread(operation.operation)
        for operation in list(body.operations):
            if operation.operation.name == _GLOBAL:
                operation.operation.erase()


def _accesses(function: ir.Operation) -> list[ir.Operation]:
    return operations(function, lambda op: op.name in (_LOAD, _STORE))


def _thread(function: ir.Operation) -> None:
    entry = function.regions[0].blocks[0]
    accesses = _accesses(function)
    if any(access.block != entry for access in accesses):
        raise UnsupportedModelError(
            "random numbers are drawn inside a loop or a branch",
            code="random-in-control-flow",
            hint="draw them before it, and pass the tensor in",
        )
    position = entry.arguments[_marked(function, "arg_attrs", "lemur.state")]
    for access in accesses:
        if access.name == _LOAD:
            access.results[0].replace_all_uses_with(position)
        else:
            position = access.operands[0]
        access.erase()
    result = _marked(function, "res_attrs", "lemur.state_update")
    entry.operations[len(entry.operations) - 1].operation.operands[result] = position


def _marked(function: ir.Operation, attributes: str, mark: str) -> int:
    """The index of the argument or result that is the generator's state."""
    for index, marks in enumerate(function.attributes[attributes]):
        if mark in marks and marks[mark].value == RANDOM_STATE:
            return index
    name = function.attributes["sym_name"].value
    raise UnsupportedModelError(
        f"@{name} draws random numbers and has no state for the generator",
        code="random-without-state",
        hint=f'give it an argument {{lemur.state = "{RANDOM_STATE}"}} and its update',
    )
