"""What eager checks while it runs, kept in the compiled program.

    table[ids]   ids an argument      the Session looks at the argument before the call
    table[f(x)]  anything else        table[clamp(f(x))] and a flag, read after the call

An index that is provably inside its table costs nothing. Whatever happens, no memory
outside a tensor is read: out of range means clamped and flagged, or refused beforehand.
Flags of one entry point are one boolean tensor, an extra result of its function.
"""

from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from lemurc.frontend.graph_edits import Edit, output_node
from lemurc.frontend.node_locations import python_line
from lemurc.frontend.signature import input_positions
from lemurc.frontend.value_ranges import SAME_ELEMENTS, ValueRanges
from lemurc.manifest import InputRange

_aten = torch.ops.aten
_SHIFTS: dict[Any, int] = {
    _aten.add.Tensor: 1,
    _aten.add.Scalar: 1,
    _aten.sub.Tensor: -1,
    _aten.sub.Scalar: -1,
}


class Guards:
    """The guards of one entry point while they are found; then what the manifest says."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.flags: list[Node] = []
        self.result: OutputSpec | None = None
        """Of all flags together; the caller adds it to the signature, after the others."""
        self._messages: list[str] = []
        self._ranges: dict[tuple[int, Any, Any, bool], InputRange] = {}
        self._inputs = input_positions(program)
        self._bounds = ValueRanges(_constants(program))
        self._clamped: dict[tuple[Node, Any, Any], Node] = {}

    @property
    def ranges(self) -> tuple[InputRange, ...]:
        return tuple(self._ranges.values())

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(self._messages)

    def flag(self, failed: Node, message: str, user: Node) -> None:
        """A call in which the boolean `failed` is true ends in `message`."""
        self.flags.append(failed)
        line = python_line(user)
        self._messages.append(f"{message}, at {line}" if line else message)

    def bounded(
        self,
        user: Node,
        value: Node,
        low: Any,
        high: Any,
        reason: str,
        high_at_run_time: Callable[[Edit], int | Node] | None = None,
    ) -> Node:
        """What `user` shall read instead of `value`: entries inside [low, high].

        `high` is a number, or a symbolic expression with a node for its value.
        """
        least, largest = self._bounds.of(value)
        if self.proven(least - low) and self.proven(high - largest):
            return value
        low, high = _number(low), _number(high)
        if self._promised(user, value, low, high, reason):
            return value
        key = (value, low, str(high))
        if key not in self._clamped:
            edit = Edit(user)
            limit = high if high_at_run_time is None else high_at_run_time(edit)
            self._clamped[key] = self._clamp(edit, user, value, low, limit, reason)
        return self._clamped[key]

    def proven(self, expression: Any) -> bool:
        """Whether `expression` of the dynamic sizes is never negative."""
        expression = sympy.sympify(expression)
        if expression.is_number:
            return bool(expression >= 0)
        if expression.has(sympy.oo, -sympy.oo, sympy.nan):
            return False
        from torch.utils._sympy.value_ranges import bound_sympy

        try:
            lower = bound_sympy(sympy.expand(expression), self.program.range_constraints).lower
            return bool(lower >= 0)
        except (TypeError, AttributeError, KeyError, NotImplementedError):
            return False

    def negative(self, value: Node) -> bool:
        """Whether an entry may be negative."""
        return not self.proven(self._bounds.of(value)[0])

    def zero(self, value: Node) -> bool:
        """Whether an entry may be 0."""
        least, largest = self._bounds.of(value)
        return not self.proven(least - 1) and not self.proven(-1 - largest)

    def promise_nonzero(self, user: Node, value: Node, reason: str) -> bool:
        """Have the caller's tensor looked at before the call, if `value` is one."""
        origin, shift = self._origin(value)
        if origin not in self._inputs or shift:
            return False
        self._add(user, self._inputs[origin], None, None, reason, nonzero=True)
        return True

    def _promised(self, user: Node, value: Node, low: Any, high: Any, reason: str) -> bool:
        origin, shift = self._origin(value)
        numbers = all(isinstance(bound, int) or bound is None for bound in (low, high))
        if origin not in self._inputs or not numbers:
            return False
        bounds = [None if bound is None else bound - shift for bound in (low, high)]
        self._add(user, self._inputs[origin], bounds[0], bounds[1], reason)
        return True

    def _add(
        self,
        user: Node,
        position: int,
        low: int | None,
        high: int | None,
        reason: str,
        *,
        nonzero: bool = False,
    ) -> None:
        line = python_line(user)
        told = f"{reason}, at {line}" if line else reason
        made = InputRange(position, low, high, told, nonzero)
        self._ranges.setdefault((position, low, high, nonzero), made)

    def _origin(self, value: Node) -> tuple[str, int]:
        """The placeholder that holds the same numbers, but for a constant added to each."""
        shift = 0
        while value.op == "call_function":
            target: Any = value.target
            source: Any = value.args[0]
            if not isinstance(source, Node):
                break
            if target in _SHIFTS and isinstance(value.args[1], int) and not value.kwargs:
                shift += _SHIFTS[target] * value.args[1]
            elif target in (_aten._to_copy.default, _aten.to.dtype):
                if not _widens(source.meta["val"].dtype, value.meta["val"].dtype):
                    break
            elif target not in SAME_ELEMENTS:
                break
            value = source
        return value.name, shift

    def _clamp(self, edit: Edit, user: Node, value: Node, low: Any, high: Any, reason: str) -> Node:
        outside = []
        if isinstance(low, int):
            outside.append(edit.call(_aten.lt.Scalar, value, low))
        if isinstance(high, Node):
            limit = edit.tensor(high)
            outside.append(edit.call(_aten.gt.Tensor, value, limit))
            bounded = edit.call(_aten.minimum.default, value, limit)
            bounded = edit.call(_aten.clamp.default, bounded, low)
        else:
            if high is not None:
                outside.append(edit.call(_aten.gt.Scalar, value, high))
            bounded = edit.call(_aten.clamp.default, value, low, high)
        failed = outside[0]
        if len(outside) == 2:
            failed = edit.call(_aten.bitwise_or.Tensor, *outside)
        self.flag(any_of(edit, failed), f"{reason}: a value is out of range", user)
        return bounded


def add_guards(program: ExportedProgram) -> Guards:
    """Guard every lookup, division and assertion of a decomposed program."""
    from lemurc.frontend.assertions import guard_assertions
    from lemurc.frontend.divisions import guard_divisions
    from lemurc.frontend.lookups import guard_lookups

    guards = Guards(program)
    guard_lookups(program, guards)
    guard_divisions(program, guards)
    guard_assertions(program, guards)
    if guards.flags:
        _return_flags(program, guards)
    program.graph.eliminate_dead_code()
    return guards


def _return_flags(program: ExportedProgram, guards: Guards) -> None:
    """The flags as one boolean tensor, the last result."""
    output = output_node(program)
    edit = Edit(output)
    rows = [edit.call(_aten.reshape.default, flag, [1]) for flag in guards.flags]
    flags = rows[0] if len(rows) == 1 else edit.call(_aten.cat.default, rows)
    results: Any = output.args[0]
    output.args = ((*results, flags),)
    guards.result = OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=flags.name), None)


def any_of(edit: Edit, values: Node) -> Node:
    return edit.call(_aten.any.default, values) if values.meta["val"].dim() else values


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Weights that no call changes, by placeholder."""
    changed = {
        spec.target
        for spec in program.graph_signature.output_specs
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
    }
    found: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT or spec.target in changed or spec.target is None:
            continue
        value: Any = program.state_dict.get(spec.target)
        value = program.constants.get(spec.target) if value is None else value
        if isinstance(value, torch.Tensor):
            found[spec.arg.name] = value
    return found


def _number(bound: Any) -> Any:
    """A Python int, None where there is no bound, or the expression it is."""
    bound = sympy.sympify(bound)
    if bound.is_Integer:
        return int(bound)
    return bound if bound.free_symbols else None


def _widens(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether every integer keeps its value."""
    integers = not source.is_floating_point and not target.is_floating_point
    return integers and source is not torch.bool and source.itemsize <= target.itemsize
