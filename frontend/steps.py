"""What a training artifact computes, as modules whose buffers are the state of training.

    step(batch, lr)      forward, backward and update              one function, or, where
    accumulate(batch)    forward, backward, the gradients kept     gradients are accumulated,
    update(lr)           the update by the mean of those kept      these two
    evaluate(batch)      loss and output, in the mode `eval`

State variables are `model.<name>`, `optimizer.<slot>.<name>`, `optimizer.count` and
`gradient.<name>`, where <name> is PyTorch's. Each call ends by writing their new values.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from lemurc.frontend.joint import Joint
from lemurc.frontend.optimizers import Optimizer

Loss = Callable[..., Any] | None


class Objective(torch.nn.Module):
    """A model and its loss as a function of a batch, that is of
    `(inputs, targets)` where there is a loss, else of the model's inputs.

    Inputs and targets are a tensor, a tuple of arguments or a dict of keywords; without a
    loss the model returns it: a scalar, or `.loss` or `["loss"]` of what it returns.
    """

    def __init__(self, model: torch.nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Any) -> Any:
        return self.both(batch)[0]

    def both(self, batch: Any) -> tuple[Any, Any]:
        """The loss, and what else the model returns: without a loss of its own, all."""
        if self.loss is None:
            return _own_loss(_called(self.model, batch))
        inputs, targets = batch
        output = _called(self.model, inputs)
        if isinstance(targets, Mapping):
            return self.loss(output, **targets), output
        return self.loss(output, *_several(targets)), output


class Evaluation(torch.nn.Module):
    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.model = objective.model
        self.objective = [objective]  # a list: its parameters have one name, that in `model`

    def forward(self, batch: Any) -> dict[str, Any]:
        loss, output = self.objective[0].both(batch)
        return {"loss": loss, "output": output}


COUNT = "optimizer.count"


def slot_name(slot: str, parameter: str) -> str:
    return f"optimizer.{slot}.{parameter.removeprefix('model.')}"


def gradient_name(parameter: str) -> str:
    return f"gradient.{parameter.removeprefix('model.')}"


def variables(joint: Joint, rule: Optimizer, accumulates: bool) -> dict[str, torch.Tensor]:
    """Every tensor that the functions of one artifact share, by name; slots are zeros."""
    held = {name: tensor.detach() for name, tensor in joint.stored.items()}
    for name in joint.trained:
        for slot in rule.slots:
            held[slot_name(slot, name)] = torch.zeros_like(held[name])
        if accumulates:
            held[gradient_name(name)] = torch.zeros_like(held[name])
    held[COUNT] = torch.zeros((), dtype=torch.int64)
    return held


class _Function(torch.nn.Module):
    """Reads and writes the tensors of `held`, which it has as buffers of their names."""

    def __init__(self, held: dict[str, torch.Tensor], joint: Joint) -> None:
        super().__init__()
        for name, tensor in held.items():
            _hold(self, name, tensor)
        self.joint = [joint]  # a list: its graph is no module of this one

    def gradients(self, batch: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Loss, new buffers and gradients, by name."""
        joint = self.joint[0]
        return joint([self.get_buffer(name) for name in joint.stored], batch)

    def write(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.get_buffer(name).copy_(value)


class _Updating(_Function):
    def __init__(
        self,
        held: dict[str, torch.Tensor],
        joint: Joint,
        rule: Optimizer,
        clip_norm: float | None,
        count: int = 1,
    ) -> None:
        super().__init__(held, joint)
        self.rule = rule
        self.clip_norm = clip_norm
        self.count = count

    def updated(self, gradients: dict[str, Any], lr: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """New parameters and slots, by name, and what there is to say of the gradients."""
        metrics = {}
        if self.clip_norm is not None:
            gradients, metrics["gradient_norm"] = clipped(gradients, self.clip_norm)
        count = self.get_buffer(COUNT) + 1
        values: dict[str, Any] = {COUNT: count}
        for name, gradient in gradients.items():
            names = [slot_name(slot, name) for slot in self.rule.slots]
            slots = tuple(self.get_buffer(slot) for slot in names)
            old = self.get_buffer(name)
            values[name], new = self.rule.update(old, gradient, slots, lr, count)
            values.update(zip(names, new, strict=True))
        return values, metrics


class Step(_Updating):
    def forward(self, batch: Any, lr: Any) -> dict[str, Any]:
        loss, buffers, gradients = self.gradients(batch)
        values, metrics = self.updated(gradients, lr)
        self.write(buffers | values)
        return {"loss": loss, **metrics}


class Accumulate(_Function):
    def forward(self, batch: Any) -> dict[str, Any]:
        loss, buffers, gradients = self.gradients(batch)
        kept = {gradient_name(name): value for name, value in gradients.items()}
        sums = {name: self.get_buffer(name) + value for name, value in kept.items()}
        self.write(buffers | sums)
        return {"loss": loss}


class Update(_Updating):
    """By the mean of `count` gradients that were kept, with zeros in their place."""

    def forward(self, lr: Any) -> dict[str, Any]:
        trained = self.joint[0].trained
        kept = {name: self.get_buffer(gradient_name(name)) for name in trained}
        values, metrics = self.updated({name: kept[name] / self.count for name in kept}, lr)
        zeros = {gradient_name(name): torch.zeros_like(value) for name, value in kept.items()}
        self.write(values | zeros)
        return metrics


def clipped(gradients: dict[str, Any], limit: float) -> tuple[dict[str, Any], Any]:
    """As torch.nn.utils.clip_grad_norm_; the norm is that before."""
    wide = [g if g.dtype is torch.float64 else g.float() for g in gradients.values()]
    squares = [gradient.square().sum() for gradient in wide]
    norm = torch.stack(squares).sum().sqrt()
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    return {name: gradient * scale for name, gradient in gradients.items()}, norm


def _called(model: torch.nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*_several(inputs))


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _own_loss(output: Any) -> tuple[Any, Any]:
    if isinstance(output, torch.Tensor):
        return output, {}
    if isinstance(output, Mapping):
        named = {key: x for key, x in output.items() if isinstance(x, torch.Tensor)}
        return named.pop("loss"), named
    if isinstance(output, (tuple, list)):
        return output[0], [x for x in output[1:] if isinstance(x, torch.Tensor)]
    return output.loss, {}


def _hold(root: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    *path, last = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, torch.nn.Module())
        root = root._modules[part]  # type: ignore[assignment]
    root.register_buffer(last, tensor)
