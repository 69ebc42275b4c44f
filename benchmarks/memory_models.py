"""Models whose order of operations decides how much memory they need, and two where it cannot.

    model, args = MODELS["nas"](1)

Written as people write them: lists of layers applied to lists of values, in the order of the
papers. `scale` multiplies what activations take, 1 is small enough for a test.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups)


def separable(inputs: int, outputs: int, kernel: int) -> nn.Module:
    return nn.Sequential(
        nn.ReLU(), conv(inputs, inputs, kernel, groups=inputs), conv(inputs, outputs, 1)
    )


class Cell(nn.Module):
    """Of NASNet-A (Zoph et al. 2018): five sums of pairs over two inputs."""

    def __init__(self, before: int, now: int, width: int) -> None:
        super().__init__()
        self.squeeze = nn.ModuleList([conv(before, width, 1), conv(now, width, 1)])
        kernels = (5, 3, 5, 3, 3)
        self.branches = nn.ModuleList(separable(width, width, kernel) for kernel in kernels)

    def forward(self, before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
        p, h = self.squeeze[0](before), self.squeeze[1](now)
        left = [branch(x) for branch, x in zip(self.branches, (h, p, p, p, h), strict=True)]
        pool = F.avg_pool2d(p, 3, 1, 1), F.avg_pool2d(h, 3, 1, 1)
        a = left[0] + left[1]
        b = left[2] + left[3]
        c = pool[1] + p
        d = pool[0] + pool[0]
        e = left[4] + h
        return torch.cat([a, b, c, d, e], 1)


class Nas(nn.Module):
    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.stem = conv(3, width)
        self.cells = nn.ModuleList(
            Cell(width if k < 2 else 5 * width, 5 * width if k else width, width)
            for k in range(cells)
        )
        self.head = nn.Linear(5 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = now = self.stem(x)
        for cell in self.cells:
            before, now = now, cell(before, now)
        return self.head(now.mean((2, 3)))


def nas(scale: int) -> Example:
    return Nas(8, 2), (torch.randn(scale, 3, 32, 32),)


class RandWire(nn.Module):
    """Xie et al. 2019: a random graph of `nodes`; an edge goes from the lower to the higher
    number, sources read the input and the sinks are averaged."""

    def __init__(self, nodes: int, degree: int, rewired: float, width: int, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.sources: list[list[int]] = [[] for _ in range(nodes)]
        for node in range(nodes):
            for step in range(1, degree // 2 + 1):
                other = (node + step) % nodes
                if torch.rand((), generator=draw) < rewired:
                    other = int(torch.randint(nodes, (), generator=draw))
                low, high = sorted((node, other))
                if low != high and low not in self.sources[high]:
                    self.sources[high].append(low)
        read = {source for sources in self.sources for source in sources}
        self.sinks = [node for node in range(nodes) if node not in read]
        self.stem = conv(3, width)
        self.nodes = nn.ModuleList(separable(width, width, 3) for _ in range(nodes))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        values: list[torch.Tensor] = []
        for node, sources in zip(self.nodes, self.sources, strict=True):
            total = sum((values[s] for s in sources[1:]), values[sources[0]]) if sources else x
            values.append(node(total))
        mean = sum((values[sink] for sink in self.sinks[1:]), values[self.sinks[0]])
        return self.head((mean / len(self.sinks)).mean((2, 3)))


def randwire(scale: int) -> Example:
    return RandWire(20, 4, 0.75, 8, 1), (torch.randn(scale, 3, 32, 32),)


class Experts(nn.Module):
    """A mixture of experts of which all are computed, then weighted by the router."""

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.ModuleList(nn.Linear(width, hidden) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(hidden, width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = self.router(x).softmax(-1)
        hidden = [F.gelu(up(x)) for up in self.up]
        answers = [down(h) for down, h in zip(self.down, hidden, strict=True)]
        return x + sum(
            share[..., None] * y for share, y in zip(shares.unbind(-1), answers, strict=True)
        )


def experts(scale: int) -> Example:
    return nn.Sequential(Experts(32, 128, 8), Experts(32, 128, 8)), (
        torch.randn(1, 128 * scale, 32),
    )


class Heads(nn.Module):
    """Attention whose heads are modules of their own, computed step by step for all of them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query, self.key, self.value = (
            nn.ModuleList(nn.Linear(width, self.size) for _ in range(heads)) for _ in range(3)
        )
        self.join = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries = [layer(x) for layer in self.query]
        keys = [layer(x) for layer in self.key]
        values = [layer(x) for layer in self.value]
        pairs = zip(queries, keys, strict=True)
        scores = [q @ k.transpose(-1, -2) / self.size**0.5 for q, k in pairs]
        weights = [score.softmax(-1) for score in scores]
        heads = [w @ v for w, v in zip(weights, values, strict=True)]
        return x + self.join(torch.cat(heads, -1))


def heads(scale: int) -> Example:
    return nn.Sequential(Heads(32, 8), Heads(32, 8)), (torch.randn(1, 64 * scale, 32),)


class Inception(nn.Module):
    """Szegedy et al. 2015, branches layer by layer: first all that narrow, then all that widen."""

    def __init__(self, inputs: int, width: int, branches: int) -> None:
        super().__init__()
        self.expand = nn.ModuleList(conv(inputs, 4 * width, 1) for _ in range(branches))
        self.filter = nn.ModuleList(
            conv(4 * width, 4 * width, 3, groups=4 * width) for _ in range(branches)
        )
        self.narrow = nn.ModuleList(conv(4 * width, width, 1) for _ in range(branches))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = [F.relu(layer(x)) for layer in self.expand]
        values = [F.relu(layer(y)) for layer, y in zip(self.filter, values, strict=True)]
        values = [layer(y) for layer, y in zip(self.narrow, values, strict=True)]
        return torch.cat(values, 1)


def inception(scale: int) -> Example:
    model = nn.Sequential(conv(3, 16), Inception(16, 4, 4), Inception(16, 4, 4))
    return model, (torch.randn(scale, 3, 32, 32),)


class UNet(nn.Module):
    """Ronneberger et al. 2015: a chain with values that wait for its second half."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.stem = conv(3, width)
        pairs = list(zip(widths, widths[1:], strict=False))
        self.down = nn.ModuleList(conv(a, b, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(conv(2 * a, a) for a, _ in reversed(pairs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x))
        skips = []
        for down in self.down:
            skips.append(x)
            x = F.relu(down(x))
        for up, join in zip(self.up, self.join, strict=True):
            x = F.relu(join(torch.cat([skips.pop(), up(x)], 1)))
        return x


def unet(scale: int) -> Example:
    return UNet(8, 3), (torch.randn(scale, 3, 32, 32),)


def encoder(scale: int) -> Example:
    """A transformer, which is a chain but for residuals."""
    layer = nn.TransformerEncoderLayer(32, 4, 128, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model, (torch.randn(1, 64 * scale, 32),)


MODELS: dict[str, Callable[[int], Example]] = {
    "nas": nas,
    "randwire": randwire,
    "experts": experts,
    "heads": heads,
    "inception": inception,
    "unet": unet,
    "encoder": encoder,
}
