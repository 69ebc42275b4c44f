"""A model, its loss and an optimizer as the program of a training artifact."""

import copy
import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lemurc.errors import UsageError
from lemurc.frontend import steps
from lemurc.frontend.arrays import to_array
from lemurc.frontend.derivatives import check_derivatives
from lemurc.frontend.eager_training import EagerTraining
from lemurc.frontend.examples import example_call
from lemurc.frontend.joint import Joint, differentiate
from lemurc.frontend.optimizers import Optimizer
from lemurc.frontend.program import Array, Program
from lemurc.frontend.quiet import quiet_torch
from lemurc.frontend.torch_export import EntryPoint, program_from_torch
from lemurc.manifest import Training

_EXAMPLE_RATE = 1e-3


@dataclass(frozen=True)
class TrainingModel:
    """The program to compile, and how eager trains; `notes` must be shown to the user."""

    program: Program
    eager: EagerTraining
    notes: tuple[str, ...]

    def slots(self, parameter: str) -> list[str]:
        """The state variables that the optimizer keeps for a parameter."""
        return [steps.slot_name(slot, parameter) for slot in self.eager.rule.slots]


def training_model(
    model: torch.nn.Module,
    loss: steps.Loss,
    rule: Optimizer,
    batch: Any,
    *,
    clip_norm: float | None = None,
    accumulate: int = 1,
) -> TrainingModel:
    """`batch` as steps.Objective takes it. The model is neither changed nor copied."""
    _check(model, loss, batch)
    ((batch,), _) = example_call(model, (batch,), {})
    objective = steps.Objective(_sharing(model), loss)
    with quiet_torch():
        check_derivatives(_sharing(objective, copy_buffers=True), batch)
        joint = differentiate(objective, batch)
    held = steps.variables(joint, rule, accumulate > 1)
    entry_points = _functions(joint, held, rule, batch, clip_norm, accumulate)
    evaluated = steps.Objective(_sharing(model).eval(), loss)
    entry_points["evaluate"] = EntryPoint(steps.Evaluation(evaluated).eval(), (batch,))
    program = program_from_torch(entry_points, type(model).__name__)
    weights = dict(program.weights)
    training = Training(
        tensors=_tensors(model, joint, program, weights),
        optimizer=str(rule),
        count=steps.COUNT,
        accumulate=accumulate,
        identity=_identity(model, rule, held, program),
        lr=rule.lr,
    )
    _share_zeros(weights, joint)
    return TrainingModel(
        dataclasses.replace(program, weights=weights, training=training),
        EagerTraining(objective, rule, batch, joint.trained, clip_norm),
        _notes(model, joint),
    )


def _check(model: Any, loss: Any, batch: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"the model is of type {type(model).__name__}, not an nn.Module",
            code="not-a-module",
            hint="training needs the PyTorch module itself",
        )
    if loss is not None and not callable(loss):
        raise UsageError(
            f"the loss is a {type(loss).__name__}, which cannot be called",
            code="bad-loss",
            hint="pass a function of (output, *targets), or None if the model returns its loss",
        )
    if loss is not None and not (isinstance(batch, (tuple, list)) and len(batch) == 2):
        raise UsageError(
            "with a loss, a batch is a pair (inputs, targets)",
            code="bad-batch",
            hint="inputs and targets are a tensor, a tuple of arguments or a dict of keywords",
        )


def _functions(
    joint: Joint,
    held: dict[str, torch.Tensor],
    rule: Optimizer,
    batch: Any,
    clip_norm: float | None,
    accumulate: int,
) -> dict[str, EntryPoint]:
    lr = torch.tensor(_EXAMPLE_RATE if rule.lr is None else rule.lr, dtype=torch.float32)
    if accumulate == 1:
        return {"step": EntryPoint(steps.Step(held, joint, rule, clip_norm), (batch, lr))}
    update = steps.Update(held, joint, rule, clip_norm, accumulate)
    return {
        "accumulate": EntryPoint(steps.Accumulate(held, joint), (batch,)),
        "update": EntryPoint(update, (lr,)),
    }


def _sharing(module: Any, *, copy_buffers: bool = False) -> Any:
    """A copy with modes and buffers of its own, over the same parameters (and buffers)."""
    shared: list[torch.Tensor] = list(module.parameters())
    if not copy_buffers:
        shared += module.buffers()
    return copy.deepcopy(module, {id(tensor): tensor for tensor in shared})


def _tensors(
    model: torch.nn.Module, joint: Joint, program: Program, weights: dict[str, Array]
) -> dict[str, str]:
    """Where the artifact has the tensors of `model.state_dict()`; `weights` gets what no
    function of it uses."""
    names = {id(tensor): name for name, tensor in joint.stored.items()}
    found = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        own = names.setdefault(id(tensor), f"model.{name}")
        if own not in weights:
            weights[own] = to_array(tensor)
        found[name] = f"state:{own}" if own in program.state else f"param:{own}"
    return found


def _share_zeros(weights: dict[str, Array], joint: Joint) -> None:
    """Slots start at zero: one run of zeros in the file serves all of a size."""
    zeros: dict[tuple[Any, ...], Array] = {}
    for name, array in weights.items():
        if name not in joint.stored and name.startswith(("optimizer.", "gradient.")):
            weights[name] = zeros.setdefault((array.shape, array.dtype), array)


def _identity(
    model: torch.nn.Module, rule: Optimizer, held: Mapping[str, torch.Tensor], program: Program
) -> str:
    described = [re.sub(r" at 0x[0-9a-f]+", "", repr(model))]
    described.append(str(dataclasses.replace(rule, lr=None)))
    described += [
        f"{name} {held[name].dtype} {tuple(held[name].shape)}"
        for name in sorted(program.state)
        if name in held
    ]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()


def _notes(model: torch.nn.Module, joint: Joint) -> tuple[str, ...]:
    notes = []
    modal = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    if not model.training and any(isinstance(module, modal) for module in model.modules()):
        notes.append(
            "the model is in the mode `eval`, and is trained so: call model.train() first, for "
            "dropout and batch norm to do what they do in training"
        )
    unused = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and f"model.{name}" not in joint.trained
    ]
    if unused:
        listed = ", ".join(unused[:3]) + (", ..." if len(unused) > 3 else "")
        notes.append(f"the loss does not depend on {listed}: not trained")
    return tuple(notes)
