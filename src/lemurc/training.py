"""`lemurc.compile_training`: a training step as one artifact, checked against eager.

frontend/training.py: step, evaluate -> as `compile` -> gradients and losses compared
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lemurc.compiler import Clock, CompileResult, compile_program
from lemurc.errors import UsageError
from lemurc.options import CompileOptions, chosen_options
from lemurc.training_checks import training_check
from lemurc.user_modules import import_modules
from lemurc.verification import Comparison

if TYPE_CHECKING:
    from lemurc.frontend.program import Program
    from lemurc.frontend.training import TrainingModel
    from lemurc.runtime.session import Session

NOT_FOR_TRAINING = ("inputs", "dynamic", "model_factory", "micro_batches", "trust_pickle")


@dataclass(frozen=True)
class TrainingOptions(CompileOptions):
    """`clip_norm` bounds the norm of all gradients together, as clip_grad_norm_ does.

    With `accumulate` above 1 a step takes that many batches, and updates by their mean gradient.
    `verify_steps` also compares the losses of that many steps with eager's.
    """

    clip_norm: float | None = None
    accumulate: int = 1
    verify_steps: int = 0


def compile_training(
    model: Any,
    loss: Any,
    optimizer: Any,
    batch: Any,
    *,
    targets: str = "cpu",
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> CompileResult:
    """Compile one training step of `model` for any non-empty subset of `targets`.

    `model` is an nn.Module in the mode it is to train in; parameters without `requires_grad` are
    frozen. `loss` is a function of (output, *targets), and `batch` a pair (inputs, targets);
    with loss=None the model returns its loss, and `batch` is its inputs. Each of inputs and
    targets is a tensor, a tuple of arguments or a dict of keywords. `optimizer` is a spec,
    "adamw:lr=3e-4,weight_decay=0.1", or one of `lemurc.frontend.optimizers`. `options` are the
    fields of `TrainingOptions`. `lemurc.load` gives a `Trainer` for the artifact.
    Raises a LemurcError for whatever is the user's to mend.
    """
    from lemurc.frontend.optimizer_specs import parse_optimizer

    chosen = chosen_options(options, "compile_training", TrainingOptions)
    _check(chosen)
    rule = parse_optimizer(optimizer)
    made: list[TrainingModel] = []

    def read(clock: Clock) -> "Program":
        from lemurc.frontend.training import training_model

        with clock.phase("import"):
            import_modules(chosen.imports)
            made.append(
                training_model(
                    model,
                    loss,
                    rule,
                    batch,
                    clip_norm=chosen.clip_norm,
                    accumulate=chosen.accumulate,
                )
            )
        return made[0].program

    def check(session: "Session") -> tuple[list[Comparison], str]:
        return training_check(made[0], chosen, session)

    result = compile_program(read, targets, output, chosen, check)
    result.notes[:0] = made[0].notes
    return result


def _check(options: TrainingOptions) -> None:
    for name in NOT_FOR_TRAINING:
        if getattr(options, name) != getattr(CompileOptions, name):
            raise _bad_option(name, f"compile_training() takes no {name}")
    if options.clip_norm is not None and not 0 < options.clip_norm < float("inf"):
        raise _bad_option("clip_norm", f"a norm is a number above 0, not {options.clip_norm}")
    if options.accumulate < 1:
        raise _bad_option("accumulate", f"a step takes 1 batch or more, not {options.accumulate}")
    if options.verify_steps < 0:
        raise _bad_option("verify_steps", f"there are no {options.verify_steps} steps")


def _bad_option(name: str, message: str) -> UsageError:
    return UsageError(
        message,
        code="bad-option",
        where=f"--{name.replace('_', '-')}",
        hint="sizes and arguments are those of the batch; see help(lemurc.compile_training)",
    )
