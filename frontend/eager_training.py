"""How eager PyTorch trains the user's model: the answer a compiled step must give."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as torch_pytree

from lemurc.frontend.arrays import to_array
from lemurc.frontend.optimizers import Optimizer
from lemurc.frontend.program import Array
from lemurc.frontend.steps import Objective, clipped


@dataclass(frozen=True)
class EagerTraining:
    """Autograd on copies of `objective`; `trained` are names of its parameters."""

    objective: Objective
    rule: Optimizer
    batch: Any
    trained: tuple[str, ...]
    clip_norm: float | None

    def gradients(self, *, exact: bool, share: float = 1.0) -> tuple[float, dict[str, Array]]:
        """Loss for the batch, and `share` of its gradients as the rule sees them.

        That is clipped, and with its decay in them. `exact`: computed in float64.
        """
        objective, batch = self._own(exact)
        loss, gradients = self._backward(objective, batch)
        seen = self._clipped({name: share * value for name, value in gradients.items()})
        for name, gradient in seen.items():
            decay = self.rule.decays_gradient * objective.get_parameter(name).detach()
            seen[name] = gradient + decay
        return float(loss), {name: to_array(value) for name, value in seen.items()}

    def losses(self, steps: int, lr: float, *, exact: bool) -> list[float]:
        """The loss of each of `steps` steps on the batch."""
        objective, batch = self._own(exact)
        slots: dict[str, tuple[Any, ...]] = {
            name: tuple(torch.zeros_like(objective.get_parameter(name)) for _ in self.rule.slots)
            for name in self.trained
        }
        found = []
        for count in range(1, steps + 1):
            loss, gradients = self._backward(objective, batch)
            found.append(float(loss))
            for name, gradient in self._clipped(gradients).items():
                parameter = objective.get_parameter(name)
                rate = torch.tensor(lr, dtype=torch.float32)
                with torch.no_grad():
                    value, slots[name] = self.rule.update(
                        parameter, gradient, slots[name], rate, torch.tensor(count)
                    )
                    parameter.copy_(value)
        return found

    def expected(self, gradient: Array, before: Array, lr: float) -> Array:
        """A parameter after a first step with this gradient, clipped already, in float64."""
        value = torch.from_numpy(before.astype(np.float64))
        slots = tuple(torch.zeros_like(value) for _ in self.rule.slots)
        given = torch.from_numpy(gradient.astype(np.float64)) - self.rule.decays_gradient * value
        rate = torch.tensor(float(np.float32(lr)), dtype=torch.float64)
        after, _ = self.rule.update(value, given, slots, rate, torch.tensor(1))
        return to_array(after)

    def _own(self, exact: bool) -> tuple[Objective, Any]:
        objective = copy.deepcopy(self.objective)
        if not exact:
            return objective, self.batch

        def widened(leaf: Any) -> Any:
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return leaf.double() if is_float else leaf

        return objective.double(), torch_pytree.tree_map(widened, self.batch)

    def _backward(self, objective: Objective, batch: Any) -> tuple[Any, dict[str, Any]]:
        with torch.enable_grad():
            loss = objective(batch)
            parameters = [objective.get_parameter(name) for name in self.trained]
            found = torch.autograd.grad(loss, parameters)
        return loss.detach(), dict(zip(self.trained, found, strict=True))

    def _clipped(self, gradients: dict[str, Any]) -> dict[str, Any]:
        if self.clip_norm is None:
            return gradients
        return clipped(gradients, self.clip_norm)[0]
