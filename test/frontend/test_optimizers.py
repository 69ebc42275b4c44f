"""Each optimizer against torch.optim, in float64, over steps with a changing rate."""

import pytest
import torch

from lemurc.frontend.optimizers import SGD, Adam, Lion

RATES = (1e-2, 3e-3, 2e-2, 1e-3, 5e-3)


def _run(rule, value, gradients):
    slots = tuple(torch.zeros_like(value) for _ in rule.slots)
    for count, (rate, gradient) in enumerate(zip(RATES, gradients, strict=True), 1):
        lr = torch.tensor(rate, dtype=value.dtype)
        value, slots = rule.update(value, gradient, slots, lr, torch.tensor(count))
    return value


def _drawn():
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(1 + len(RATES), 4, 5, generator=generator, dtype=torch.float64)
    return drawn[0], drawn[1:]


@pytest.mark.parametrize(
    ("rule", "theirs", "options"),
    [
        (SGD(), torch.optim.SGD, {}),
        (SGD(0.9, 0.1, 0.2), torch.optim.SGD, dict(momentum=0.9, dampening=0.1, weight_decay=0.2)),
        (SGD(0.9, nesterov=True), torch.optim.SGD, dict(momentum=0.9, nesterov=True)),
        (Adam(), torch.optim.Adam, {}),
        (Adam(weight_decay=0.1), torch.optim.Adam, dict(weight_decay=0.1)),
        (Adam(weight_decay=0.1, decoupled=True), torch.optim.AdamW, dict(weight_decay=0.1)),
    ],
)
def test_equals_torch(rule, theirs, options):
    start, gradients = _drawn()
    parameter = torch.nn.Parameter(start.clone())
    optimizer = theirs([parameter], lr=1.0, **options)
    for rate, gradient in zip(RATES, gradients, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = gradient.clone()
        optimizer.step()
    torch.testing.assert_close(
        _run(rule, start, gradients), parameter.detach(), rtol=1e-12, atol=1e-14
    )


def test_lion_equals_its_paper():
    start, gradients = _drawn()
    value, mean = start.numpy().copy(), 0 * start.numpy()
    for rate, gradient in zip(RATES, gradients.numpy(), strict=True):
        blend = 0.9 * mean + 0.1 * gradient
        value = value - rate * ((blend > 0) * 1.0 - (blend < 0) * 1.0 + 0.3 * value)
        mean = 0.99 * mean + 0.01 * gradient
    ours = _run(Lion(weight_decay=0.3), start, gradients)
    torch.testing.assert_close(ours, torch.from_numpy(value), rtol=1e-12, atol=1e-14)
