"""What is updated in place was computed for that alone, unless it was read from memory.

    %i = 0, 1, 2, ...                           %i = 0, 1, 2, ...
    %v, %p = tm_tensor.sort outs(%x, %i)   ->   %j = select(%true, %i, %zero)
                                                %v, %p = tm_tensor.sort outs(%x, %j)

where IREE knows neither %true nor %zero. IREE 3.13 updates in place. Where a destination that
is computed from no tensor has other readers, it copies it by computing it again, and shares the
two equal computations afterwards: the other readers see what was written, or memory that never
was. With scalars of their own they are not equal. `linalg.fill` is safe.

A slice is copied likewise: IREE would read it within the kernel that updates it, and update it on
that kernel's stack, which has no room for a dynamic size or for much.
"""

from collections.abc import Iterable
from typing import Any

_INSERTS = ("tensor.insert", "tensor.insert_slice")
"""(value, destination, ...)"""
_VIEWS = (
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
)


def own_destinations(operations: Iterable[Any]) -> None:
    operations = list(operations)
    calls: dict[str, list[Any]] = {}
    for operation in operations:
        if operation.name == "func.call":
            calls.setdefault(operation.attributes["callee"].value, []).append(operation)
    for operation in operations:
        for place in _destinations(operation):
            value = operation.operands[place]
            if _is_read_in_place(operation, value) or _may_be_computed_again(value, calls):
                operation.operands[place] = _own(value, operation)


def _destinations(operation: Any) -> list[int]:
    if operation.name in _INSERTS:
        return [1]
    first = len(operation.operands) - len(operation.results)
    places = range(first, len(operation.operands))
    if operation.name.startswith("tm_tensor."):
        return list(places)
    if operation.name.startswith("linalg.") and len(operation.regions):
        arguments = operation.regions[0].blocks[0].arguments
        return [place for place in places if list(arguments[place].uses)]
    return []


def _is_read_in_place(operation: Any, value: Any) -> bool:
    from iree.compiler import ir

    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        if value.owner.name == "tensor.extract_slice":
            return bool(operation.name.startswith("tm_tensor."))
        value = value.owner.operands[0]
    return False


def _may_be_computed_again(value: Any, calls: dict[str, list[Any]]) -> bool:
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block):
        function = owner.owner.operation
        if function.name != "func.func":
            return False
        callers = calls.get(function.attributes["sym_name"].value, [])
        place = ir.BlockArgument(value).arg_number
        return any(_may_be_computed_again(call.operands[place], calls) for call in callers)
    if owner.name in _VIEWS:
        return _may_be_computed_again(owner.operands[0], calls)
    is_computed: bool = owner.name.startswith("linalg.") and owner.name != "linalg.fill"
    return is_computed and _reads_nothing(value)


def _reads_nothing(value: Any) -> bool:
    from iree.compiler import ir

    owner = value.owner
    if not isinstance(value.type, ir.RankedTensorType):
        return True  # a scalar of the computation
    if isinstance(owner, ir.Block):
        return False
    if owner.name == "arith.constant":
        known = owner.attributes["value"]
        return isinstance(known, ir.DenseElementsAttr) and bool(known.is_splat)
    if owner.name in _VIEWS or owner.name.startswith("linalg."):
        return all(_reads_nothing(operand) for operand in owner.operands)
    return bool(owner.name == "tensor.empty")


def _own(value: Any, reader: Any) -> Any:
    from iree.compiler import ir

    kind = ir.RankedTensorType(value.type)
    element = kind.element_type
    boolean = ir.IntegerType.get_signless(1)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    with ir.InsertionPoint(reader), ir.Location.unknown():
        chosen = _opaque(ir.IntegerAttr.get(boolean, 1))
        is_float = isinstance(element, ir.FloatType)
        zero = _opaque((ir.FloatAttr if is_float else ir.IntegerAttr).get(element, 0))
        sizes = [_size(value, dim) for dim in range(kind.rank) if kind.is_dynamic_dim(dim)]
        empty = ir.Operation.create("tensor.empty", results=[kind], operands=sizes).results[0]
        copy = ir.Operation.create(
            "linalg.generic",
            results=[kind],
            operands=[value, empty],
            attributes={
                "indexing_maps": ir.ArrayAttr.get([identity, identity]),
                "iterator_types": ir.ArrayAttr.get([parallel] * kind.rank),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
            },
            regions=1,
        )
        block = ir.Block.create_at_start(copy.regions[0], [element, element])
        with ir.InsertionPoint(block):
            own = ir.Operation.create(
                "arith.select", results=[element], operands=[chosen, block.arguments[0], zero]
            )
            ir.Operation.create("linalg.yield", operands=[own.results[0]])
    return copy.results[0]


def _opaque(number: Any) -> Any:
    from iree.compiler import ir

    known = _constant(number)
    return ir.Operation.create(
        "util.optimization_barrier", results=[known.type], operands=[known]
    ).results[0]


def _size(value: Any, dim: int) -> Any:
    from iree.compiler import ir

    index = ir.IndexType.get()
    place = _constant(ir.IntegerAttr.get(index, dim))
    return ir.Operation.create("tensor.dim", results=[index], operands=[value, place]).results[0]


def _constant(number: Any) -> Any:
    from iree.compiler import ir

    return ir.Operation.create(
        "arith.constant", results=[number.type], attributes={"value": number}
    ).results[0]
