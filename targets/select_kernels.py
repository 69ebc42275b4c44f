"""Replace composites by calls of the CPU kernel library where it has something better.

    %y = call @gelu_0(%x) {no_inline}   ->   %y = flow.dispatch @gelu_0::@gelu_0(%x)

Applies to composites of static f32 shapes on architectures with bitcode; everything
else keeps its reference lowering, which `lower-to-iree` inlines. Runs on one stage,
before `lower-to-iree`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from lemurc.targets.cpu import library
from lemurc.targets.kernel_call import KernelCall, executable

PREFIX = "kernel_"
"""Of executables' names; keeps them apart from the composites'."""


@dataclass
class SelectKernels:
    """The pass `select-kernels`; `used` counts the calls it made."""

    arch: str
    used: Counter[str] = field(default_factory=Counter)

    def run(self, module: Any) -> None:
        functions = {
            op.attributes["sym_name"].value: op
            for op in _top_level(module)
            if op.name == "func.func"
        }
        executables: dict[tuple[object, ...], str] = {}
        for op in _top_level_of(functions["run"]):
            call = _match(op, functions)
            if call is None:
                continue
            bitcode = library.bitcode(self.arch, call.kernel)
            if bitcode is None:
                continue
            key = call.shape_key()
            if key not in executables:
                executables[key] = f"{PREFIX}{call.kernel}_{len(executables)}"
                _declare(module, executable(executables[key], call, bitcode))
            _replace(op, call, executables[key])
            self.used[call.kernel] += 1


Matcher = Callable[[Any, Mapping[str, Any]], KernelCall | None]


def _match(op: Any, functions: Mapping[str, Any]) -> KernelCall | None:
    if op.name != "func.call":
        return None
    callee = functions.get(op.attributes["callee"].value)
    if callee is None or "lemur.composite" not in callee.attributes:
        return None
    matcher = MATCHERS.get(callee.attributes["lemur.composite"].value)
    if matcher is None or len(op.results) != 1:
        return None
    if not all(_is_static_f32(value.type) for value in (*op.operands, *op.results)):
        return None
    attributes = {
        name.removeprefix("lemur."): _plain(callee.attributes[name])
        for name in callee.attributes
        if name.startswith("lemur.")
    }
    return matcher(op, attributes)


def _gelu(op: Any, attributes: Mapping[str, Any]) -> KernelCall | None:
    if attributes.get("approximate", "none") != "none":
        return None
    count = prod(_shape(op.results[0]))
    share = _share(count, 1, at_least=16384)
    groups = _groups(count, share)
    return KernelCall("gelu", tuple(op.operands), op.results[0].type, (count, share), (groups,))


def _layer_norm(op: Any, attributes: Mapping[str, Any]) -> KernelCall | None:
    roles = attributes.get("operands") or ["input", "weight", "bias"][: len(op.operands)]
    given = dict(zip(roles, op.operands, strict=True))
    shape = _shape(op.results[0])
    rank = attributes.get("normalized_rank", 1)
    n = prod(shape[len(shape) - rank :])
    rows = prod(shape[: len(shape) - rank])
    if "input" not in given or not rows * n:
        return None
    share = _share(rows, n, at_least=16384)
    x = given["input"]
    # An absent weight is passed as the input and not read.
    operands = (x, given.get("weight", x), given.get("bias", x))
    flags = (int("weight" in given), int("bias" in given))
    scalars = (float(attributes["eps"]), rows, n, *flags, share)
    return KernelCall("layer_norm", operands, op.results[0].type, scalars, (_groups(rows, share),))


MATCHERS: dict[str, Matcher] = {"gelu": _gelu, "layer_norm": _layer_norm}


def _share(items: int, size: int, *, at_least: int, groups: int = 32) -> int:
    """How many items of `size` floats each a workgroup does: enough to be worth one."""
    share = max(-(-items // groups), -(-at_least // size), 1)
    return -(-share // 16) * 16 if size == 1 else share


def _groups(items: int, share: int) -> int:
    return max(1, -(-items // share))


def _declare(module: Any, text: str) -> None:
    from iree.compiler import ir

    parsed = ir.Module.parse(f"module {{ {text} }}")
    found = parsed.body.operations[0].operation
    found.detach_from_parent()
    ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]).insert(found)


def _replace(op: Any, call: KernelCall, name: str) -> None:
    from iree.compiler import ir

    operands = call.operands
    dispatch = ir.Operation.create(
        "flow.dispatch",
        results=[call.result_type],
        operands=list(operands),
        attributes={
            "entry_points": ir.Attribute.parse(f"[@{name}::@{name}]"),
            "operandSegmentSizes": ir.Attribute.parse(f"array<i32: 0, {len(operands)}, 0, 0>"),
            "tied_operands": ir.Attribute.parse("[-1 : index]"),
        },
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(dispatch.results[0])
    op.erase()


def _is_static_f32(kind: Any) -> bool:
    from iree.compiler import ir

    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return False
    return isinstance(kind.element_type, ir.F32Type) and prod(kind.shape) > 0


def _shape(value: Any) -> list[int]:
    return list(value.type.shape)


def _plain(attribute: Any) -> Any:
    from iree.compiler import ir

    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(item) for item in attribute]
    return getattr(attribute, "value", None)


def _top_level(module: Any) -> list[Any]:
    return [op.operation for op in module.regions[0].blocks[0].operations]


def _top_level_of(function: Any) -> list[Any]:
    return [op.operation for op in function.regions[0].blocks[0].operations]
