"""A call of a library kernel, in the form IREE takes one.

    %y = flow.dispatch @gelu_0::@gelu_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>

`@gelu_0` is a `stream.executable` that carries the kernel's bitcode and whose function
hands the C function a pointer and an offset for each buffer, then the scalars, then the
workgroup's number in each dimension that has more than one:

    void lemurc_gelu(float *x, i64 x_offset, float *y, i64 y_offset, i64 ..., i64 wg)

The bitcode travels inside the module, so compiling it needs no file beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

Scalar = int | float
"""An int becomes an i64 parameter of the C function, a float a double."""

_TARGET = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'


@dataclass(frozen=True)
class KernelCall:
    """`operands` are f32 tensors of static shape; the C name is `lemurc_<kernel>`.

    An operand may be a call itself, which is made first. `workgroups` is one to three
    numbers; the C function gets as many indices.
    """

    kernel: str
    operands: tuple[Any, ...]
    result_type: Any
    scalars: tuple[Scalar, ...]
    workgroups: tuple[int, ...]

    @property
    def type(self) -> Any:
        """As values have one."""
        return self.result_type

    def kernels(self) -> list[str]:
        """All that it needs."""
        inner = [
            k for call in self.operands if isinstance(call, KernelCall) for k in call.kernels()
        ]
        return [*inner, self.kernel]

    def shape_key(self) -> tuple[object, ...]:
        """Calls with equal keys can share one executable."""
        return (self.kernel, *self.sizes(), self.scalars, self.workgroups)

    def sizes(self) -> list[int]:
        """Elements of each buffer: the operands, then the result."""
        types = [*(value.type for value in self.operands), self.result_type]
        return [prod(kind.shape) for kind in types]


def executable(name: str, call: KernelCall, bitcode: bytes) -> str:
    """The text of `stream.executable @name`.

    Its entry point has the same name: IREE links all executables of a module into one.
    """
    sizes = call.sizes()
    return f"""
stream.executable private @{name} attributes {{
    hal.executable.objects = #hal.executable.objects<{{{_TARGET} = [
      #hal.executable.object<{{path = "{call.kernel}.bc",
        data = dense<"0x{bitcode.hex()}"> : vector<{len(bitcode)}xi8>}}>]}}>}} {{
  stream.executable.export public @{name} workgroups() -> (index, index, index) {{
    {_constants("g", [*call.workgroups, 1, 1][:3])}
    stream.return %g0, %g1, %g2 : index, index, index
  }}
  builtin.module {{
    {_declaration(call, len(sizes))}
    {_entry_point(name, call, sizes)}
  }}
}}"""


def _constants(prefix: str, values: Sequence[Scalar]) -> str:
    return "\n".join(
        f"%{prefix}{k} = arith.constant {_literal(value)} : {_scalar_type(value)}"
        for k, value in enumerate(values)
    )


def _literal(value: Scalar) -> str:
    return str(value) if isinstance(value, int) else f"{value:.17e}"


def _scalar_type(value: Scalar) -> str:
    return "index" if isinstance(value, int) else "f64"


def _argument_types(call: KernelCall, buffers: int) -> str:
    types = ["memref<f32>", "index"] * buffers
    types += [_scalar_type(value) for value in call.scalars]
    return ", ".join([*types, *["index"] * len(call.workgroups)])


def _declaration(call: KernelCall, buffers: int) -> str:
    return (
        f"func.func private @lemurc_{call.kernel}({_argument_types(call, buffers)})"
        " attributes {hal.import.static, llvm.bareptr = true}"
    )


def _entry_point(name: str, call: KernelCall, sizes: Sequence[int]) -> str:
    parameters = ", ".join(f"%b{k}: !stream.binding" for k in range(len(sizes)))
    lines = [f"func.func @{name}({parameters}) {{", "%zero = arith.constant 0 : index"]
    lines += [
        f"%w{k} = stream.dispatch.workgroup.id[{k}] : index" for k in range(len(call.workgroups))
    ]
    lines.append(_constants("s", call.scalars))
    for k, size in enumerate(sizes):
        buffer = f"memref<{size}xf32>"
        lines += [
            f"%m{k} = stream.binding.subspan %b{k}[%zero] : !stream.binding -> {buffer}",
            f"%p{k}, %o{k}, %n{k}, %t{k} = iree_codegen.extract_strided_metadata %m{k}"
            f" : {buffer} -> memref<f32>, index, index, index",
        ]
    arguments = [f"%p{k}, %o{k}" for k in range(len(sizes))]
    arguments += [f"%s{k}" for k in range(len(call.scalars))]
    arguments += [f"%w{k}" for k in range(len(call.workgroups))]
    lines.append(
        f"func.call @lemurc_{call.kernel}({', '.join(arguments)})"
        f" : ({_argument_types(call, len(sizes))}) -> ()"
    )
    return "\n".join([*lines, "return", "}"])
