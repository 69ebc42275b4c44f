"""`lemurc.bisect`: which step of the compiler, and which operator, makes a result wrong.

    the operator    the first whose value differs from eager, when the program ends there
    the step        the first optional pass (or kernels, or tuning flags of iree-compile)
                    without which, and all after it, the value is right
    the stage       the one of the plan that computes the value

Both searches halve: what is wrong at one operator is taken to be wrong at those after it.
Each trial is a whole compilation with its comparison; equal stages come from the cache.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.errors import LemurcError, UsageError, VerificationError
from lemurc.options import CompileOptions
from lemurc.user_modules import import_modules

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

PROGRAM, INPUTS, COMMAND, TEMPORARIES = "program.pt2", "input{}.npy", "command.txt", "ir"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BisectResult:
    """What diverges first; `ok` means nothing does, and all else is empty then.

    `op` is the PyTorch operator and `line` where the model calls it. `step` is empty when
    the value is wrong without any optional step: import, torch-mlir or IREE are left. `isolated`
    says that the operator alone, on eager's inputs, is wrong too. `folder` holds the
    program, its inputs, the IR after each pass and the command that repeats it.
    """

    ok: bool
    function: str
    op: str = ""
    line: str = ""
    step: str = ""
    step_number: int = 0
    stage: str = ""
    device: str = ""
    isolated: bool = False
    detail: str = ""
    folder: str = ""
    command: str = ""
    trials: int = 0


def bisect(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    targets: str = "cpu",
    dynamic_shapes: Any = None,
    function: str = "main",
    output: str | Path = "bisect",
    **options: Any,
) -> BisectResult:
    """Find what makes the compiled `model` differ from eager, and write a reproducer.

    Arguments are those of `compile`; `output` is the folder for the reproducer. Raises
    UsageError where there is no eager program or no such function.
    """
    from lemurc.frontend.truncation import candidates, without_mutation

    chosen = CompileOptions(**options)
    program = without_mutation(_exported(model, args, kwargs, dynamic_shapes, function, chosen))
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    trials = _Trials(targets, chosen, folder, len(candidates(program)).bit_length() + 8)
    if not trials.differs(program, strict=True):
        return BisectResult(True, function, trials=trials.count)
    node, reduced, isolated = _first_operator(program, trials)
    number, step = _first_step(reduced, trials, chosen.opt_level)
    found = BisectResult(
        ok=False,
        function=function,
        op=str(node.target) if node is not None else "",
        line=_line(node),
        step=step,
        step_number=number,
        isolated=isolated,
        command=_write(folder, reduced, targets, chosen, number),
        folder=str(folder),
    )
    trials.differs(reduced, keep_ir=True)
    stage, device = trials.stage_of(reduced)
    return dataclasses.replace(
        found, detail=trials.detail, stage=stage, device=device, trials=trials.count
    )


class _Trials:
    """Compilations of parts of the program; `detail` says how the last wrong one differs."""

    def __init__(self, targets: str, options: CompileOptions, folder: Path, expected: int) -> None:
        self.count = 0
        self.detail = ""
        self._targets, self._folder, self._expected = targets, folder, expected
        self._report = options.report
        # what describes the example call is in the programs now
        self._options = dataclasses.replace(
            options, inputs=(), dynamic=(), model_factory=None, verify=True, progress=None
        )

    def differs(
        self,
        program: "ExportedProgram",
        limit: int | None = None,
        *,
        keep_ir: bool = False,
        strict: bool = False,
    ) -> bool:
        """Whether `program`, with the first `limit` optional steps, is not what eager computes.

        One that cannot be compiled counts as right, unless `strict`.
        """
        self.count += 1
        self._report("bisect", self.count, max(self.count, self._expected))
        temporaries = self._folder / TEMPORARIES if keep_ir else None
        try:
            self._compile(program, pass_limit=limit, save_temps=temporaries)
        except VerificationError as error:
            self.detail = error.message.partition("\n")[2].strip()
            return True
        except LemurcError as error:
            if strict:
                raise
            logger.debug("this part cannot be compiled: %s", error.message)
        return False

    def stage_of(self, program: "ExportedProgram") -> tuple[str, str]:
        """The stage that computes the result, and the device it is planned on."""
        manifest = self._compile(program, verify=False).manifest
        step = manifest.plans[0].steps["main"][-1]
        return step.stage, step.device

    def _compile(self, program: "ExportedProgram", **changes: Any) -> Any:
        import lemurc

        path = self._folder / "trial.lemur"
        options = dataclasses.replace(self._options, **changes)
        given = {item.name: getattr(options, item.name) for item in dataclasses.fields(options)}
        try:
            return lemurc.compile(program, targets=self._targets, output=path, **given)
        finally:
            path.unlink(missing_ok=True)


def _exported(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    function: str,
    options: CompileOptions,
) -> "ExportedProgram":
    from lemurc.frontend.load import load

    import_modules(options.imports)
    program = load(
        model,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        inputs=options.inputs,
        dynamic=options.dynamic,
        trust_pickle=options.trust_pickle,
        model_factory=options.model_factory,
    )
    if not program.exported:
        raise UsageError(
            f"{program.name} did not come from PyTorch: there is no eager to compare with",
            code="no-eager",
            hint="bisect the PyTorch model it was made from",
        )
    if function not in program.exported:
        raise UsageError(
            f"this model has no function {function!r}",
            code="unknown-function",
            hint=f"its functions are {', '.join(program.exported)}",
        )
    found: ExportedProgram = program.exported[function]
    return found


def _first_operator(
    program: "ExportedProgram", trials: _Trials
) -> tuple["Node | None", "ExportedProgram", bool]:
    """The operator, the smallest program that shows it, and whether that is it alone.

    No operator where only the whole is wrong.
    """
    from lemurc.frontend.truncation import alone, candidates, up_to

    names = candidates(program)
    first = _first(len(names) - 1, lambda n: trials.differs(up_to(program, names[n])))
    if first is None:
        return None, program, False
    node = next(node for node in program.graph.nodes if node.name == names[first])
    try:
        single = alone(program, node.name)
    except ValueError as error:
        logger.debug("%s", error)
        return node, up_to(program, node.name), False
    if trials.differs(single):
        return node, single, True
    return node, up_to(program, node.name), False


def _first_step(program: "ExportedProgram", trials: _Trials, opt_level: int) -> tuple[int, str]:
    """The number and name of the optional step that makes `program` wrong; 0 is none."""
    from lemurc.pass_limit import optional_steps

    steps = optional_steps(opt_level)
    number = _first(len(steps), lambda n: trials.differs(program, n)) or 0
    return number, steps[number - 1] if number else ""


def _first(last: int, wrong: Callable[[int], bool]) -> int | None:
    """The least of 0..last that is wrong, where those after a wrong one are; None is none."""
    if last < 0 or not wrong(last):
        return None
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if wrong(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _line(node: "Node | None") -> str:
    from lemurc.frontend.node_locations import python_line

    return python_line(node) if node is not None else ""


def _write(
    folder: Path, program: "ExportedProgram", targets: str, options: CompileOptions, number: int
) -> str:
    """The reproducer but for its IR; returns the command that repeats the difference."""
    import numpy as np
    import torch
    from torch.utils import _pytree as torch_pytree

    from lemurc.frontend.arrays import to_array

    torch.export.save(program, folder / PROGRAM)
    for index, leaf in enumerate(torch_pytree.tree_leaves(program.example_inputs)):
        if isinstance(leaf, torch.Tensor):
            np.save(folder / INPUTS.format(index), to_array(leaf))
    given = [f"--import {name}" for name in options.imports]
    given += ["--allow-host-ops"] if options.allow_host_ops else []
    flags = " ".join(["", *given])
    command = (
        f"lemurc compile {PROGRAM} --targets {targets} -O {options.opt_level}{flags} -o wrong.lemur"
    )
    without = f"{command} --pass-limit {number - 1}" if number else ""
    text = f"{command}\n" + (f"# right: {without}\n" if number else "")
    (folder / COMMAND).write_text(text)
    return command
