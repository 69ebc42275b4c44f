"""Each optimizer against torch.optim, in float64, over steps with a changing rate."""

import pytest
import torch

from lemurc.errors import UsageError
from lemurc.frontend.optimizer_specs import parse_optimizer
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


@pytest.mark.parametrize(
    ("spec", "optimizer"),
    [
        ("sgd", SGD()),
        ("sgd:lr=0.1,momentum=0.9,nesterov=true", SGD(0.9, nesterov=True, lr=0.1)),
        ("adam:beta1=0.8,eps=1e-6", Adam(beta1=0.8, eps=1e-6)),
        ("adamw", Adam(weight_decay=0.01, decoupled=True)),
        ("adamw:lr=3e-4,weight_decay=0.1", Adam(weight_decay=0.1, decoupled=True, lr=3e-4)),
        ("lion:weight_decay=1", Lion(weight_decay=1.0)),
    ],
)
def test_specs(spec, optimizer):
    assert parse_optimizer(spec) == optimizer
    assert parse_optimizer(optimizer) is optimizer


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("adan", "no optimizer 'adan'"),
        ("adamw:lr", "lr has no value"),
        ("adamw:lr=fast", "lr is a number, not 'fast'"),
        ("adamw:lr=-1", "lr is a number from 0 on, not -1"),
        ("adamw:decoupled=false", "no option 'decoupled=false'"),
        ("adam:beta1=1", "beta1 is from 0 to below 1, not 1"),
        ("sgd:nesterov=maybe", "nesterov is true or false"),
        ("sgd:nesterov=true", "nesterov needs a momentum"),
        (torch.optim.SGD, "not a type"),
    ],
)
def test_specs_that_cannot_be_meant(spec, message):
    with pytest.raises(UsageError, match=message) as raised:
        parse_optimizer(spec)
    assert raised.value.code == "bad-optimizer"


@pytest.mark.parametrize(
    "rule", [SGD(weight_decay=0.3), SGD(0.9, weight_decay=0.3), Adam(), Lion(weight_decay=0.2)]
)
def test_the_first_gradient_is_found_again(rule):
    start, gradients = _drawn()
    slots = tuple(torch.zeros_like(start) for _ in rule.slots)
    lr = torch.tensor(2.0, dtype=start.dtype)
    after, slots = rule.update(start, gradients[0], slots, lr, torch.tensor(1))
    found = rule.first_gradient(start.numpy(), after.numpy(), tuple(s.numpy() for s in slots), 2.0)
    want = gradients[0] + rule.decays_gradient * start
    torch.testing.assert_close(torch.from_numpy(found), want)
