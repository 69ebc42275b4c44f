"""Replace composites by calls of the CPU kernel library where it has something better.

    %y = call @gelu_0(%x) {no_inline}   ->   %y = flow.dispatch @gelu_0::@gelu_0(%x)

Applies to composites of static f32 shapes on architectures with bitcode; everything
else keeps its reference lowering, which `lower-to-iree` inlines. An activation whose
operand only it reads joins the linear layer that makes it. Runs on one stage, before
`lower-to-iree`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lemurc.targets import conv_kernels, kernels
from lemurc.targets.composite import Composite, composite
from lemurc.targets.cpu import library
from lemurc.targets.kernel_call import KernelCall, executable
from lemurc.targets.linalg_text import declare

PREFIX = "kernel_"
"""Of executables' names; keeps them apart from the composites'."""


@dataclass
class SelectKernels:
    """The pass `select-kernels`; `used` counts the calls it made."""

    arch: str
    used: Counter[str] = field(default_factory=Counter)

    def run(self, module: Any) -> None:
        _open_fused_groups(module)
        executables: dict[tuple[object, ...], str] = {}
        for match in (self._fused_activation, self._single):
            for found in list(_composites(module)):
                if (replaced := match(found)) is not None:
                    self._replace(module, found, replaced, executables)

    def _fused_activation(self, found: Composite) -> "_Replacement | None":
        producer = found.producer()
        if producer is None or producer.kind not in ("linear", "matmul"):
            return None
        if not (activation := kernels.activation(found)) or not self._has("linear"):
            return None
        call = kernels.linear(producer, activation)
        return None if call is None else (call, producer)

    def _single(self, found: Composite) -> "_Replacement | None":
        kernel, build = _BUILDERS.get(found.kind, ("", None))
        if build is None or not self._has(kernel):
            return None
        if found.kind != "attention" and not found.is_static_f32():
            return None
        call = build(found)
        return None if call is None else (call, None)

    def _has(self, kernel: str) -> bool:
        return library.bitcode(self.arch, kernel) is not None

    def _replace(
        self,
        module: Any,
        found: Composite,
        replacement: "_Replacement",
        executables: dict[tuple[object, ...], str],
    ) -> None:
        call, swallowed = replacement
        op = found.call
        op.results[0].replace_all_uses_with(self._dispatch(module, op, call, executables))
        op.erase()
        if swallowed is not None:
            swallowed.call.erase()
        self.used[call.kernel] += 1

    def _dispatch(
        self, module: Any, op: Any, call: KernelCall, executables: dict[tuple[object, ...], str]
    ) -> Any:
        """The result of `call`, made in front of `op`."""
        from iree.compiler import ir

        operands = [
            self._dispatch(module, op, operand, executables)
            if isinstance(operand, KernelCall)
            else operand
            for operand in call.operands
        ]
        name = self._executable(module, call, executables)
        return ir.Operation.create(
            "flow.dispatch",
            results=[call.result_type],
            operands=operands,
            attributes={
                "entry_points": ir.Attribute.parse(f"[@{name}::@{name}]"),
                "operandSegmentSizes": ir.Attribute.parse(f"array<i32: 0, {len(operands)}, 0, 0>"),
                "tied_operands": ir.Attribute.parse("[-1 : index]"),
            },
            loc=op.location,
            ip=ir.InsertionPoint(op),
        ).results[0]

    def _executable(
        self, module: Any, call: KernelCall, executables: dict[tuple[object, ...], str]
    ) -> str:
        key = call.shape_key()
        if key not in executables:
            executables[key] = f"{PREFIX}{call.kernel}_{len(executables)}"
            bitcode = library.bitcode(self.arch, call.kernel)
            assert bitcode is not None
            declare(module, executable(executables[key], call, bitcode))
        return executables[key]


_Replacement = tuple[KernelCall, Composite | None]
"""A kernel call and the composite that it makes needless besides the one it replaces."""

_BUILDERS: dict[str, tuple[str, Callable[[Composite], KernelCall | None]]] = {
    "attention": ("attention", kernels.attention),
    "conv": ("conv", conv_kernels.conv),
    "gelu": ("gelu", kernels.gelu),
    "layer_norm": ("layer_norm", kernels.layer_norm),
    "linear": ("linear", kernels.linear),
    "matmul": ("linear", kernels.linear),
    "rms_norm": ("rms_norm", kernels.rms_norm),
    "silu": ("silu", kernels.silu),
    "softmax": ("softmax", kernels.softmax),
}
"""Composite kind -> the kernel it needs, and how to call it."""


def _composites(module: Any) -> Iterator[Composite]:
    functions = _functions(module)
    for op in functions["run"].regions[0].blocks[0].operations:
        if (found := composite(op.operation, functions)) is not None:
            yield found


def _functions(module: Any) -> Mapping[str, Any]:
    operations = [op.operation for op in module.regions[0].blocks[0].operations]
    return {op.attributes["sym_name"].value: op for op in operations if op.name == "func.func"}


def _open_fused_groups(module: Any) -> None:
    """Inlines groups, so that the composites inside stand where kernels are looked for."""
    from iree.compiler.passmanager import PassManager

    functions = _functions(module)
    groups = [f for f in functions.values() if _is_fused_group(f)]
    for function in groups:
        del function.attributes["no_inline"]
    names = {function.attributes["sym_name"].value for function in groups}
    for function in functions.values():
        for op in function.regions[0].blocks[0].operations:
            call = op.operation
            if call.name == "func.call" and call.attributes["callee"].value in names:
                if "no_inline" in call.attributes:
                    del call.attributes["no_inline"]
    if groups:
        PassManager.parse("builtin.module(inline)").run(module)


def _is_fused_group(function: Any) -> bool:
    attributes = function.attributes
    fused = "lemur.composite" in attributes and attributes["lemur.composite"].value == "fused"
    return fused and "no_inline" in attributes
