"""From a difference to the smallest program that still has it.

The statements before the wrong result are added again one layer at a time, what lies
further back coming in as an input with eager's values, until the difference is back; then
each statement is left out in turn. Sizes are fixed first, for a fixed program says more.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fuzz_compare import HEADER, Difference, Program, compare
from fuzz_graphs import Step, Value

from lemurc.errors import LemurcError

LARGEST_LITERAL = 400


def reduce(found: Difference) -> Difference:
    """A smaller program with this difference, or `found` when no part of it has it."""
    program = found.program
    by_name = {step.name: step for step in program.steps}
    ends = [found.output] if found.output else list(program.outputs)
    fixed = replace(program, symbols={}, only=found.variant)
    for whole in (fixed, program):
        chosen: list[str] = [name for name in ends if name in by_name]
        while True:
            smaller = _difference(_part(whole, chosen, ends), found)
            if smaller is not None:
                return _less(smaller, found)
            layer = {o for name in chosen for o in by_name[name].operands if o in by_name}
            if layer <= set(chosen):
                break
            chosen += sorted(layer - set(chosen))
    return found


def _part(program: Program, chosen: Sequence[str], ends: Sequence[str]) -> Program:
    part = program.of([step for step in program.steps if step.name in chosen], ends)
    return part


def _less(best: Difference, found: Difference) -> Difference:
    for step in best.program.steps:
        rest = [other for other in best.program.steps if other is not step]
        if not rest or step.name == best.output:
            continue
        smaller = _difference(best.program.of(rest, best.program.outputs[:1]), found)
        if smaller is not None:
            return _less(smaller, found)
    return best


def _difference(program: Program, found: Difference) -> Difference | None:
    if not program.is_declared:
        return None
    with tempfile.TemporaryDirectory(prefix="lemurc-fuzz-") as folder:
        try:
            differences = compare(program, found.setting, Path(folder))
        except LemurcError as error:
            if found.output:
                return None
            detail = f"{type(error).__name__}: {error}"
            return replace(found, program=program, detail=detail)
    same = [item for item in differences if not found.output or item.output == found.output]
    return same[0] if same and found.output else None


def script(found: Difference) -> str:
    """Python source that compiles the program and prints eager's answer and the compiled one."""
    program, setting = found.program, found.setting
    lines = [f"# {setting}: {found.output} {' '.join(found.detail.split())[:300]}", HEADER]
    lines += ["import lemurc", "", ""]
    lines += program.source().split(HEADER)[1].strip().splitlines()
    lines += ["", ""]
    example = program.variants[0]
    for name in program.inputs:
        lines.append(f"{name} = {_literal(program.values[name], example)}")
    names = ", ".join(program.inputs)
    shapes = program.dynamic_shapes()
    more = f", dynamic_shapes={shapes!r}" if shapes else ""
    more += f", targets={setting.target!r}, opt_level={setting.level}, verify=False"
    lines.append(f"result = lemurc.compile(Program(), ({names},), output='program.lemur'{more})")
    if found.variant != example:
        for name in program.inputs:
            lines.append(f"{name} = {_literal(program.values[name], found.variant)}")
    device = setting.target.split(":")[0]
    lines.append(f"print(lemurc.load(result.path, devices=['{device}:0'])({names}))")
    lines.append(f"print(Program()({names}))")
    return "\n".join(lines) + "\n"


def kinds(found: Difference) -> list[str]:
    return [step.kind for step in found.program.steps]


def step_of(found: Difference) -> Step | None:
    return next((step for step in found.program.steps if step.name == found.output), None)


def _literal(value: Value, variant: int) -> str:
    tensor = value.tensors[variant]
    if tensor.numel() > LARGEST_LITERAL:
        return f"torch.tensor({tensor.flatten().tolist()}, dtype={tensor.dtype})" + (
            f".reshape({list(tensor.shape)})"
        )
    return f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"
