"""Functions of linalg ops written as text: einsum letters in place of affine maps.

Parsing text is how this package makes operations with regions: IREE's bindings build
them only one block argument at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lemurc.targets.memory_effects import BARRIER


@dataclass(frozen=True)
class Tensor:
    """`axes` is one letter per dimension, `sizes` their extents, None where dynamic."""

    name: str
    axes: str
    sizes: tuple[int | None, ...]
    element: str

    @classmethod
    def of(cls, name: str, axes: str, value: Any) -> "Tensor":
        """The operand `value`, under a name of its own."""
        kind = value.type
        sizes = tuple(
            None if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis)
            for axis in range(kind.rank)
        )
        return cls(name, axes, sizes, str(kind.element_type))

    def type(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.sizes)
        return f"tensor<{'x'.join([*sizes, self.element])}>"


class Body:
    """The body of a function as it grows, in SSA names; dynamic sizes are read up front."""

    def __init__(self, operands: Sequence[Tensor], wide: str) -> None:
        self.operands = operands
        self.tensors = {x.name: x for x in operands}
        self.lines: list[str] = []
        self.sizes: dict[str, int | None] = {}
        self.wide = wide
        for operand in operands:
            for axis, size in zip(operand.axes, operand.sizes, strict=True):
                if axis in self.sizes:
                    continue
                self.sizes[axis] = size
                if size is None:
                    index = operand.axes.index(axis)
                    self.lines += [
                        f"%i{axis} = arith.constant {index} : index",
                        f"%n{axis} = tensor.dim {operand.name}, %i{axis} : {operand.type()}",
                    ]

    def generic(
        self,
        inputs: Sequence[str],
        result: str,
        loops: str,
        body: Sequence[str],
        element: str = "",
        start: str = "",
    ) -> str:
        """One linalg.generic, whose name it returns.

        `result` and `loops` are letters. `body` makes %t, of the wide type, from %x and
        %y, the inputs' entries, and %acc; it is narrowed to `element`. `start` fills the
        result beforehand.
        """
        number = len(self.tensors)
        made = self._made(f"%v{number}", result, element or self.wide)
        dynamic = ", ".join(f"%n{axis}" for axis in result if self.sizes[axis] is None)
        out = f"%e{number}"
        self.lines.append(f"{out} = tensor.empty({dynamic}) : {made.type()}")
        if start:
            fill = f"linalg.fill ins({start} : {made.element}) outs({out} : {made.type()})"
            out = f"%f{number}"
            self.lines.append(f"{out} = {fill} -> {made.type()}")
        given = [self.tensors[name] for name in inputs]
        maps = ", ".join(_map(loops, x.axes) for x in [*given, made])
        kinds = ", ".join('"parallel"' if axis in result else '"reduction"' for axis in loops)
        entries = zip(("%x", "%y"), given, strict=False)
        scalars = ", ".join(f"{name}: {x.element}" for name, x in entries)
        narrow = made.element != self.wide
        self.lines += [
            f"{made.name} = linalg.generic",
            f"{{indexing_maps = [{maps}], iterator_types = [{kinds}]}}",
            f"ins({', '.join(inputs)} : {', '.join(x.type() for x in given)})"
            f" outs({out} : {made.type()}) {{",
            f"^bb0({scalars}, %acc: {made.element}):",
            *body,
            *([f"%narrow = arith.truncf %t : {self.wide} to {made.element}"] if narrow else []),
            f"linalg.yield {'%narrow' if narrow else '%t'} : {made.element}",
            f"}} -> {made.type()}",
        ]
        return made.name

    def contract(self, left: str, right: str, result: str, loops: str) -> str:
        """A product of matrices, summed in the wide type."""
        body, factors = [], ["%x", "%y"]
        if (element := self.tensors[left].element) != self.wide:
            body = [f"{x}_wide = arith.extf {x} : {element} to {self.wide}" for x in factors]
            factors = [f"{x}_wide" for x in factors]
        body += [
            f"%product = arith.mulf {', '.join(factors)} : {self.wide}",
            f"%t = arith.addf %acc, %product : {self.wide}",
        ]
        return self.generic([left, right], result, loops, body, start="%zero")

    def barrier(self, name: str) -> str:
        """`name` itself, as a tensor that IREE computes on its own.

        One of dynamic size is not held back: IREE loses track of its dimensions.
        """
        if None in self.tensors[name].sizes:
            return name
        made = replace(self.tensors[name], name=f"%v{len(self.tensors)}")
        self.tensors[made.name] = made
        kind = made.type()
        self.lines.append(f"{made.name} = {BARRIER} {name} : {kind} -> {kind}")
        return made.name

    def function(self, name: str, result: str, constants: Sequence[str]) -> str:
        """The whole as a private function that returns `result`."""
        arguments = ", ".join(f"{x.name}: {x.type()}" for x in self.operands)
        kind = self.tensors[result].type()
        return "\n".join(
            [
                f"func.func private @{name}({arguments}) -> {kind} {{",
                *constants,
                *self.lines,
                f"return {result} : {kind}",
                "}",
            ]
        )

    def _made(self, name: str, axes: str, element: str) -> Tensor:
        made = Tensor(name, axes, tuple(self.sizes[axis] for axis in axes), element)
        self.tensors[name] = made
        return made


def _map(loops: str, axes: str) -> str:
    names = {axis: f"d{i}" for i, axis in enumerate(loops)}
    wanted = ", ".join(names[axis] for axis in axes)
    return f"affine_map<({', '.join(names.values())}) -> ({wanted})>"


def declare(module: Any, text: str) -> None:
    """Put the one operation that `text` is at the front of `module`."""
    from iree.compiler import ir

    parsed = ir.Module.parse(f"module {{ {text} }}")
    found = parsed.body.operations[0].operation
    found.detach_from_parent()
    ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]).insert(found)


def call(name: str, operands: Sequence[Any], kind: Any, location: Any) -> Any:
    """The value of a new call of `name`, at the insertion point."""
    from iree.compiler import ir

    callee = ir.FlatSymbolRefAttr.get(name)
    made = ir.Operation.create(
        "func.call", results=[kind], operands=operands, attributes={"callee": callee}, loc=location
    )
    return made.result


def operations(op: Any, name: str) -> Iterator[Any]:
    """Every operation called `name` inside `op`."""
    for region in op.regions:
        for block in region.blocks:
            for child in block.operations:
                if child.operation.name == name:
                    yield child.operation
                yield from operations(child.operation, name)
