"""Optimizers in plain torch operators, so that they are captured with the step they end.

Each rule takes a parameter, its gradient, its slots (tensors of the parameter's shape),
the learning rate and the count of this step (from 1; both scalar tensors) and returns
the new parameter and the new slots. The formulas are PyTorch's; Lion's are its paper's.
"""

from dataclasses import dataclass
from typing import Any

Updated = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class SGD:
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

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


@dataclass(frozen=True)
class Adam:
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False  # AdamW: the decay shrinks the parameter, not the gradient

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
        root = square.sqrt() / (1 - self.beta2**power).sqrt() + self.eps
        return value - lr / (1 - self.beta1**power) * mean / root, (mean, square)


@dataclass(frozen=True)
class Lion:
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    @property
    def slots(self) -> tuple[str, ...]:
        return ("exp_avg",)

    def update(self, value: Any, grad: Any, slots: tuple[Any, ...], lr: Any, count: Any) -> Updated:
        direction = (self.beta1 * slots[0] + (1 - self.beta1) * grad).sign()
        mean = self.beta2 * slots[0] + (1 - self.beta2) * grad
        return value - lr * (direction + self.weight_decay * value), (mean,)
