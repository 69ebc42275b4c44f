"""Compile many graphs as one module and compare each result with eager.

One module of some 25 graphs costs little more than one of a single graph: the processes
start once. Statements that the compiler refuses are named by their lines; they and what
needs them are left out, counted, and the rest is compiled again.
"""

import importlib.util
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fuzz_graphs import VARIANTS, Graph, Step, Value
from torch.export import Dim

import lemurc
from lemurc.errors import LemurcError, UnsupportedModelError
from lemurc.frontend.arrays import to_array
from lemurc.verification import compare_all

HEADER = "import torch\nimport torch.nn.functional as F\n\ninf, nan = float('inf'), float('nan')\n"


@dataclass(frozen=True)
class Setting:
    target: str = "cpu:host"
    level: int = 2

    def __str__(self) -> str:
        return f"{self.target} -O{self.level}"


@dataclass(frozen=True)
class Program:
    """Statements of one or of many graphs; `symbols` empty makes every size static.

    `inputs` may be results of statements that were cut away. With `only`, one variant of
    the values is the example and the only call.
    """

    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: dict[str, Value] = field(repr=False)
    symbols: dict[str, tuple[int, ...]]
    only: int | None = None

    @property
    def variants(self) -> tuple[int, ...]:
        return tuple(range(VARIANTS)) if self.only is None else (self.only,)

    @property
    def is_declared(self) -> bool:
        """Is every size that varies over the variants one of the symbols?"""
        return self.only is not None or all(
            len(set(sizes)) == 1 or sizes in self.symbols.values()
            for name in self.inputs
            for sizes in self.values[name].sizes
        )

    def source(self) -> str:
        lines = [HEADER, "", "class Program(torch.nn.Module):"]
        lines += [f"    def forward(self, {', '.join(self.inputs)}):"]
        lines += [f"        {step.name} = {step.expression}" for step in self.steps]
        lines += [f"        return ({', '.join(self.outputs)},)"]
        return "\n".join(lines) + "\n"

    def dynamic_shapes(self) -> dict[str, dict[int, Any]] | None:
        if not self.symbols:
            return None
        dims = {
            name: Dim(name, min=min(sizes), max=max(sizes) + 2)
            for name, sizes in self.symbols.items()
        }
        return {
            name: {
                dim: dims[symbol]
                for dim, own in enumerate(self.values[name].sizes)
                for symbol, sizes in self.symbols.items()
                if own == sizes and _owner(symbol) == _owner(name)
            }
            for name in self.inputs
        }

    def without(self, names: Iterable[str]) -> "Program":
        """Less these statements and whatever uses their results."""
        gone = set(names)
        kept = []
        for step in self.steps:
            if step.name in gone or gone & set(step.operands):
                gone.add(step.name)
            else:
                kept.append(step)
        return self.of(kept, [name for name in self.outputs if name not in gone])

    def of(self, steps: Iterable[Step], outputs: Iterable[str]) -> "Program":
        """These statements; what they use and do not compute are inputs."""
        steps = tuple(steps)
        made = {step.name for step in steps}
        used = {name for step in steps for name in step.operands if name not in made}
        # A result that nothing uses any more is an output, so that it stays compiled.
        needed = {name for step in steps for name in step.operands}
        ends = [step.name for step in steps if step.name not in needed]
        symbols = {
            symbol: sizes
            for symbol, sizes in self.symbols.items()
            if any(sizes in self.values[name].sizes for name in used)
        }
        return Program(
            steps,
            tuple(sorted(used, key=_order)),
            tuple(dict.fromkeys([*(n for n in outputs if n in made), *ends])),
            self.values,
            symbols,
            self.only,
        )


def joined(graphs: list[Graph]) -> Program:
    return Program(
        tuple(step for graph in graphs for step in graph.steps),
        tuple(name for graph in graphs for name in graph.inputs),
        tuple(name for graph in graphs for name in graph.outputs),
        {name: value for graph in graphs for name, value in graph.values.items()},
        {symbol: sizes for graph in graphs for symbol, sizes in graph.symbols.items()},
    )


@dataclass(frozen=True)
class Difference:
    """A result that is not eager's; `output` is empty where the whole program failed."""

    program: Program
    setting: Setting
    output: str
    variant: int
    detail: str


@dataclass
class Findings:
    """`refused` counts statements by kind and the compiler's reason."""

    differences: list[Difference] = field(default_factory=list)
    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)

    def refuse(self, kind: str, reason: str) -> None:
        self.refused[kind, reason] = self.refused.get((kind, reason), 0) + 1


def check(program: Program, setting: Setting, findings: Findings) -> None:
    """Compile and compare, leaving out what is refused and halving what fails."""
    while program.steps:
        with tempfile.TemporaryDirectory(prefix="lemurc-fuzz-") as folder:
            try:
                findings.differences += compare(program, setting, Path(folder))
                findings.compared |= {step.name for step in program.steps}
                return
            except LemurcError as error:
                named = _named(program, error, Path(folder))
                reason = _reason(error)
                groups = _halves(program)
                apart = len({_owner(step.name) for step in named}) < 2 or len(groups) < 2
                if isinstance(error, UnsupportedModelError) and named and apart:
                    for step in named:
                        findings.refuse(step.kind, reason)
                    program = program.without(step.name for step in named)
                    continue
                if len(groups) > 1:
                    for group in groups:
                        check(group, setting, findings)
                    return
                if isinstance(error, UnsupportedModelError):
                    findings.refuse("(a whole graph)", reason)
                else:
                    findings.differences.append(
                        Difference(program, setting, "", 0, f"{type(error).__name__}: {error}")
                    )
                return


def compare(program: Program, setting: Setting, folder: Path) -> list[Difference]:
    """Every output that differs from eager, once, at its first variant."""
    module = _module(program, folder)
    example = program.variants[0]
    arguments = {
        variant: tuple(program.values[name].tensors[variant].clone() for name in program.inputs)
        for variant in program.variants
    }
    result = lemurc.compile(
        module,
        arguments[example],
        targets=setting.target,
        dynamic_shapes=program.dynamic_shapes(),
        output=folder / "program.lemur",
        opt_level=setting.level,
        verify=False,
        golden="none",
        cache=False,
    )
    found: dict[str, Difference] = {}
    device = setting.target.split(":")[0]
    with lemurc.load(result.path, devices=[f"{device}:0"]) as session:
        for variant in program.variants:
            got = [to_array(torch.as_tensor(y)) for y in session(*arguments[variant])]
            values = [program.values[name] for name in program.outputs]
            want = [to_array(value.tensors[variant]) for value in values]
            exact = [to_array(value.shadows[variant]) for value in values]
            compared = compare_all(program.outputs, got, want, exact=lambda exact=exact: exact)
            for item in compared:
                if not item.ok and item.name not in found:
                    detail = item.detail or f"error {item.error:.1e}, allowed {item.allowed:.1e}"
                    found[item.name] = Difference(program, setting, item.name, variant, detail)
    return list(found.values())


def _module(program: Program, folder: Path) -> torch.nn.Module:
    path = folder / "program.py"
    path.write_text(program.source())
    spec = importlib.util.spec_from_file_location("lemurc_fuzz_program", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    module: torch.nn.Module = loaded.Program()
    return module


def _named(program: Program, error: LemurcError, folder: Path) -> list[Step]:
    """The statements whose lines the error names."""
    first = program.source().splitlines().index("class Program(torch.nn.Module):") + 3
    text = f"{error} {error.where or ''}"
    lines = {int(line) for line in re.findall(r"program\.py:(\d+)", text)}
    return [step for at, step in enumerate(program.steps, first) if at in lines]


def _reason(error: LemurcError) -> str:
    """Its code, and the operations it names or what IREE said."""
    names = sorted(set(re.findall(r"(?:aten|prims|torchvision)\.[\w.]+", str(error))))
    if log := re.search(r"reproducer: (\S+)", str(error)):
        said = re.search(r"error: .*", (Path(log[1]) / "log.txt").read_text())
        names = [said[0][:200]] if said else names
    return f"{error.code} {' '.join(names[:4])}".strip()


def _halves(program: Program) -> list[Program]:
    """By graph, since graphs share nothing; one graph is not cut."""
    owners = list(dict.fromkeys(_owner(step.name) for step in program.steps))
    if len(owners) < 2:
        return [program]
    parts = (owners[: len(owners) // 2], owners[len(owners) // 2 :])
    return [
        program.of([step for step in program.steps if _owner(step.name) in part], program.outputs)
        for part in parts
    ]


def _owner(name: str) -> str:
    return name.split("_")[0]


def _order(name: str) -> tuple[str, str, int]:
    owner, own = name.split("_")
    return owner, own[0], int(own[1:])
