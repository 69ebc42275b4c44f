"""Optimizers in plain torch operators, so that they are captured with the step they end.

Each rule takes a parameter, its gradient, its slots (tensors of the parameter's shape),
the learning rate and the count of this step (from 1; both scalar tensors) and returns
the new parameter and the new slots. The formulas are PyTorch's; Lion's are its paper's.
The field `lr` is the rate of steps that are given none.

`first_gradient` is what a first step from empty slots tells of its gradient, decay included
where the rule adds it to the gradient. It takes the parameter before and after, the new
slots and the rate, all NumPy.
"""

import math
from dataclasses import dataclass
from typing import Any

Updated = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class SGD:
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    lr: float | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def update(self, value: Any, grad: Any, slots: tuple[Any, ...], lr: Any, count: Any) -> Updated:
        if self.weight_decay:
            grad = grad + self.weight_decay * value
        if not self.momentum:
            return value - lr * grad, ()
        # The first step takes the gradient whole: dampening begins with the second.
        scale = 1.0 - self.dampening * (count > 1).to(grad.dtype)
        buffer = self.momentum * slots[0] + scale * grad
        direction = grad + self.momentum * buffer if self.nesterov else buffer
        return value - lr * direction, (buffer,)

    def first_gradient(self, before: Any, after: Any, slots: tuple[Any, ...], lr: float) -> Any:
        return slots[0] if self.momentum else (before - after) / lr

    @property
    def decays_gradient(self) -> float:
        """The part of the parameter that is added to its gradient."""
        return self.weight_decay


@dataclass(frozen=True)
class Adam:
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False  # AdamW: the decay shrinks the parameter, not the gradient
    lr: float | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def update(self, value: Any, grad: Any, slots: tuple[Any, ...], lr: Any, count: Any) -> Updated:
        if self.decoupled:
            value = value * (1 - lr * self.weight_decay)
        elif self.weight_decay:
            grad = grad + self.weight_decay * value
        mean = self.beta1 * slots[0] + (1 - self.beta1) * grad
        square = self.beta2 * slots[1] + (1 - self.beta2) * grad * grad
        power = count.to(value.dtype)
        # 1 - beta**count without the rounding of beta, which float32 would show
        weight1 = -(power * math.log(self.beta1)).expm1() if self.beta1 else 1.0
        weight2 = -(power * math.log(self.beta2)).expm1() if self.beta2 else 1.0
        root = (square / weight2).sqrt() + self.eps
        return value - lr / weight1 * mean / root, (mean, square)

    def first_gradient(self, before: Any, after: Any, slots: tuple[Any, ...], lr: float) -> Any:
        return slots[0] / (1 - self.beta1)

    @property
    def decays_gradient(self) -> float:
        """The part of the parameter that is added to its gradient."""
        return 0.0 if self.decoupled else self.weight_decay


@dataclass(frozen=True)
class Lion:
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    lr: float | None = None

    @property
    def slots(self) -> tuple[str, ...]:
        return ("exp_avg",)

    def update(self, value: Any, grad: Any, slots: tuple[Any, ...], lr: Any, count: Any) -> Updated:
        direction = (self.beta1 * slots[0] + (1 - self.beta1) * grad).sign()
        mean = self.beta2 * slots[0] + (1 - self.beta2) * grad
        return value - lr * (direction + self.weight_decay * value), (mean,)

    def first_gradient(self, before: Any, after: Any, slots: tuple[Any, ...], lr: float) -> Any:
        return slots[0] / (1 - self.beta2)

    @property
    def decays_gradient(self) -> float:
        """The part of the parameter that is added to its gradient."""
        return 0.0


Optimizer = SGD | Adam | Lion
