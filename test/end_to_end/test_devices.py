"""One program over several devices gives the answer of one device, whatever the cut."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lemurc

WIDTH = 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def transformer() -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 8)).eval(), (torch.randn(2, 6, WIDTH),)


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(x + self.conv2(nn.functional.relu(self.norm(self.conv1(x)))))


def resnet() -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, stride=2, padding=1),
        Residual(WIDTH),
        Residual(WIDTH),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, 5),
    )
    return model.eval(), (torch.randn(1, 3, 12, 12),)


MODELS = {"transformer": transformer, "resnet": resnet}


def devices_of(result: Any) -> set[str]:
    return {step.device for step in result.manifest.plans[0].steps["main"]}


@pytest.mark.vulkan
@pytest.mark.parametrize("name", MODELS)
def test_pinned_to_cpu_and_vulkan(name: str, check: Any) -> None:
    model, args = MODELS[name]()
    result, session = check(
        model, args, targets="cpu,vulkan:host", pins=("1.*=vulkan",), devices=["cpu", "vulkan"]
    )
    assert devices_of(result) == {"cpu", "vulkan"}
    assert {row.device for row in session.placement["main"].devices} == {"cpu:0", "vulkan:0"}
    assert {v.target: v.status for v in result.verdicts} == {
        "cpu": "verified",
        "vulkan": "verified",
    }


class Masked(nn.Module):
    """Attention that IREE does not compile for Vulkan as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q = self.project(x).view(2, -1, 4, WIDTH // 4).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask[:, None, None])
        return y.transpose(1, 2).reshape(2, -1, WIDTH)


@pytest.mark.vulkan
def test_masked_attention_on_vulkan(check: Any) -> None:
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    torch.manual_seed(0)
    args = (torch.randn(2, 6, WIDTH), mask)
    result, _ = check(Masked().eval(), args, targets="vulkan:host", devices=["vulkan"])
    assert [verdict.status for verdict in result.verdicts] == ["verified"]


@pytest.mark.vulkan
@pytest.mark.parametrize("name", MODELS)
def test_placed_on_cpu_and_vulkan_by_memory(name: str, check: Any, tmp_path: Path) -> None:
    """A GPU far faster, but too small for the whole model: the solver must cut it."""
    model, args = MODELS[name]()
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    system = {
        "devices": [
            {
                "name": "cpu",
                "target": "cpu",
                "flops": {"f32": 1e8},
                "bandwidth": 1e8,
                "launch": 1e-6,
                "memory": 1 << 30,
            },
            {
                "name": "vulkan",
                "target": "vulkan",
                "flops": {"f32": 1e12},
                "bandwidth": 1e12,
                "launch": 1e-6,
                "memory": weights * 2 // 3,
            },
        ],
        "links": [
            {"src": "cpu", "dst": "vulkan", "bandwidth": 1e10, "latency": 1e-6},
            {"src": "vulkan", "dst": "cpu", "bandwidth": 1e10, "latency": 1e-6},
        ],
    }
    (tmp_path / "system.json").write_text(json.dumps(system))
    result, _ = check(
        model,
        args,
        targets="cpu,vulkan:host",
        system=tmp_path / "system.json",
        devices=["cpu", "vulkan"],
    )
    assert devices_of(result) == {"cpu", "vulkan"}


@pytest.mark.parametrize("name", MODELS)
def test_four_logical_cpus(name: str, check: Any) -> None:
    model, args = MODELS[name]()
    pins = [f"{i}*=cpu:{i % 4}" for i, _ in enumerate(model.children())]
    result, session = check(model, args, targets="cpu", pins=tuple(pins))
    wanted = {
        f"cpu:{i % 4}" for i, child in enumerate(model.children()) if list(child.parameters())
    }
    assert wanted <= devices_of(result)
    assert len(session.placement["main"].devices) >= len(wanted)


class Group(nn.Module):
    """One node of a test graph: a layer over the sum of what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        total = inputs[0]
        for other in inputs[1:]:
            total = total + other
        return torch.tanh(self.layer(total))


CHAIN = {i: [i - 1] if i else [] for i in range(8)}
DIAMOND = {0: [], 1: [0], 2: [0], 3: [1], 4: [2], 5: [3, 4], 6: [5], 7: [6]}
RESIDUAL = {0: [], 1: [0], 2: [1, 0], 3: [2], 4: [3, 2], 5: [4], 6: [5, 4], 7: [6]}
GRAPHS = {"chain": CHAIN, "diamond": DIAMOND, "residual": RESIDUAL}


class Graph(nn.Module):
    def __init__(self, edges: dict[int, list[int]]) -> None:
        super().__init__()
        self.edges = edges
        self.groups = nn.ModuleList(Group() for _ in edges)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values: dict[int, torch.Tensor] = {}
        for node, sources in self.edges.items():
            values[node] = self.groups[node](*([values[i] for i in sources] or [x]))
        return values[max(self.edges)]


def convex_cuts(edges: dict[int, list[int]]) -> list[set[int]]:
    """Every proper set of nodes that is closed under predecessors: what runs first."""
    nodes = list(edges)
    sets = (
        set(chosen)
        for size in range(1, len(nodes))
        for chosen in itertools.combinations(nodes, size)
    )
    return [chosen for chosen in sets if all(set(edges[node]) <= chosen for node in chosen)]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_every_convex_cut_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Graph(GRAPHS[name]).eval(), torch.randn(2, 8)
    cuts = convex_cuts(GRAPHS[name])
    assert len(cuts) >= 7
    with torch.no_grad():
        want = model(x)
    for cut in cuts:
        pins = tuple(f"groups.{i}*=cpu:{0 if i in cut else 1}" for i in range(8))
        result = lemurc.compile(
            model, (x,), pins=pins, verify=False, golden="none", output=tmp_path / "cut.lemur"
        )
        plan = result.manifest.plans[0]
        assert [step.device for step in plan.steps["main"]] == ["cpu:0", "cpu:1"], cut
        with lemurc.load(result.path) as session:
            torch.testing.assert_close(session(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.vulkan
def test_many_threads_on_one_vulkan_device(tmp_path: Path) -> None:
    class Outer(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, None] * x[None, :]

    path = tmp_path / "outer.lemur"
    lemurc.compile(Outer(), (torch.randn(1500),), targets="vulkan:host", output=path)
    with lemurc.load(path, devices=["vulkan"], strict=True) as one, one.copy() as other:

        def call(seed: int) -> bool:
            x = np.random.default_rng(seed).standard_normal(1500, np.float32)
            return np.array_equal((one, other)[seed % 2](x), x[:, None] * x[None, :])

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(call, range(48)))
