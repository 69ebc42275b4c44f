"""What a sort carries along unread is kept, so that it stays in a buffer.

    %v, %p = tm_tensor.sort ...   ->   %v, %p = tm_tensor.sort ...
    return %p                          util.optimization_barrier %v
                                       return %p

IREE 3.13 puts a result that nothing reads on the stack of its kernel, and refuses what has
a dynamic size or is large there.
"""

from collections.abc import Iterable
from typing import Any


def keep_sorted(operations: Iterable[Any]) -> None:
    from iree.compiler import ir

    for sort in [op for op in operations if op.name == "tm_tensor.sort"]:
        unread = [result for result in sort.results if not list(result.uses)]
        if len(unread) == len(list(sort.results)):
            continue
        following = list(sort.parent.regions[0].blocks[0].operations)
        after = [op.operation for op in following].index(sort) + 1
        for result in unread:
            ir.Operation.create(
                "util.optimization_barrier",
                results=[result.type],
                operands=[result],
                ip=ir.InsertionPoint(following[after]),
                loc=ir.Location.unknown(),
            )
