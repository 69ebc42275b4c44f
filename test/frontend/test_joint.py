"""The joint graph against autograd, before anything is compiled."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lemurc.frontend.joint import differentiate
from lemurc.frontend.node_locations import module_path, python_line
from lemurc.frontend.steps import Objective


class Parts(nn.Module):
    """What is special to training: ties, frozen tensors, statistics, regions without gradient."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.norm = nn.BatchNorm1d(6)
        self.frozen = nn.Linear(6, 6)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("left", torch.ones(6))

    def forward(self, tokens):
        x = self.norm(self.embed(tokens).transpose(1, 2)).transpose(1, 2)
        with torch.no_grad():
            center = x.mean((0, 1))
            self.mean.mul_(0.9).add_(center)
        x = F.relu(self.frozen(x - center) * self.left, inplace=True)
        x, _ = self.lstm(x)
        return self.head(x + self.mean.detach())


def cross_entropy(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


@pytest.fixture(scope="module")
def parts():
    torch.manual_seed(0)
    objective = Objective(Parts(), cross_entropy)
    tokens = torch.randint(0, 7, (4, 5))
    batch = (tokens, tokens.roll(1, 1))
    return objective, batch, differentiate(objective, batch)


def test_gradients_and_statistics_are_those_of_autograd(parts):
    objective, batch, joint = parts
    values = [tensor.detach().clone() for tensor in joint.stored.values()]
    loss, buffers, gradients = joint(values, batch)
    wanted = [objective.get_parameter(name) for name in joint.trained]
    before = {name: buffer.clone() for name, buffer in objective.named_buffers()}
    want = objective(batch)
    torch.testing.assert_close(loss, want.detach())
    for name, gradient in zip(joint.trained, torch.autograd.grad(want, wanted), strict=True):
        torch.testing.assert_close(gradients[name], gradient)
    for name, buffer in buffers.items():
        torch.testing.assert_close(buffer, objective.get_buffer(name))
        assert not torch.equal(buffer, before[name])


def test_what_is_trained(parts):
    _, _, joint = parts
    lstm = [f"model.lstm.{kind}_{of}_l0" for kind in ("weight", "bias") for of in ("ih", "hh")]
    assert set(joint.trained) == {
        "model.embed.weight",
        "model.norm.weight",
        "model.norm.bias",
        *lstm,
    }
    assert set(joint.changed) == {
        "model.mean",
        "model.norm.running_mean",
        "model.norm.running_var",
        "model.norm.num_batches_tracked",
    }


def test_operations_know_their_lines_and_modules(parts):
    _, _, joint = parts
    nodes = [node for node in joint.graph.graph.nodes if node.op == "call_function"]
    backward = [node for node in nodes if node.meta.get("partitioner_tag") == "is_backward"]
    assert len(backward) > 40
    lines = {python_line(node) for node in backward}
    assert any(line.startswith("test_joint.py:") for line in lines)
    assert {"model.norm", "model.lstm", "model.head"} <= {module_path(node) for node in backward}


def test_the_backward_of_dropout_reads_the_mask_of_its_forward():
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1000))

        def forward(self, x):
            return F.dropout(self.weight * x, 0.25)

    joint = differentiate(
        Objective(Dropped(), lambda y, scale: (y * scale).sum()), (torch.ones(1000), torch.ones(()))
    )
    (weight,) = joint.stored.values()
    x = torch.arange(1.0, 1001.0)
    loss, _, gradients = joint([weight.detach()], (x, torch.tensor(2.0)))
    gradient = gradients["model.weight"]
    torch.testing.assert_close(loss, (weight.detach() * gradient).sum())
    kept = gradient != 0
    torch.testing.assert_close(gradient[kept], (2.0 / 0.75 * x)[kept])
    assert 650 < kept.sum() < 850
