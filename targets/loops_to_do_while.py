"""Loops that carry their condition compute it before it is tested.

    scf.while (%c = %c0, %x = %x0) {          scf.if %c0 {
      scf.condition(%c) %x                      scf.while (%x = %x0) {
    } do {                             ->         %y = ...; %d = ...
      %y = ...; %d = ...                          scf.condition(%d) %y
      scf.yield %d, %y                          } do { scf.yield %y }
    }                                         } else { %x0 }

torch-mlir makes the left form of torch.while_loop. IREE 3.13 takes the condition for a tensor
where it converts such a loop, when what the loop carries and what it returns differ in number.
"""

from collections.abc import Iterable, Sequence
from typing import Any


def loops_to_do_while(operations: Iterable[Any]) -> None:
    for operation in list(operations):
        if operation.name == "scf.while" and _carries_condition(operation):
            _rewrite(operation)


def _carries_condition(loop: Any) -> bool:
    test = loop.regions[0].blocks[0]
    return len(test.operations) == 1 and test.operations[0].operands[0] in list(test.arguments)


def _rewrite(loop: Any) -> None:
    from iree.compiler import ir

    test, body = (region.blocks[0] for region in loop.regions)
    condition, *passed = test.operations[0].operands
    carried = list(test.arguments)
    end = body.operations[len(body.operations) - 1].operation

    def chosen(values: Sequence[Any]) -> list[Any]:
        """What the loop passes on, where it carries `values`."""
        return [values[carried.index(one)] if one in carried else one for one in passed]

    begin, kinds = list(loop.operands), [result.type for result in loop.results]
    with ir.InsertionPoint(loop), ir.Location.unknown():
        branch = ir.Operation.create(
            "scf.if", results=kinds, operands=[begin[carried.index(condition)]], regions=2
        )
        then, otherwise = (region.blocks.append() for region in branch.regions)
        with ir.InsertionPoint(then):
            turned = ir.Operation.create(
                "scf.while", results=kinds, operands=chosen(begin), regions=2
            )
            _yield(turned.results)
        with ir.InsertionPoint(otherwise):
            _yield(chosen(begin))
        body.append_to(turned.regions[0])
        following = list(end.operands)
        with ir.InsertionPoint(end):
            ir.Operation.create(
                "scf.condition",
                operands=[following[carried.index(condition)], *chosen(following)],
            )
        end.erase()
        again = turned.regions[1].blocks.append(*kinds)
        with ir.InsertionPoint(again):
            _yield(again.arguments)
    for old, new in zip(loop.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
    loop.erase()


def _yield(values: Iterable[Any]) -> None:
    from iree.compiler import ir

    ir.Operation.create("scf.yield", operands=list(values))
