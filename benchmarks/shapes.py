"""One operator of shapes.toml as a model, its inputs, and what it asks of a machine."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

F32 = 4
Shape = dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """`flops` are two per multiplication and addition; `bytes` are read or written once."""

    kind: str
    name: str
    model: nn.Module
    args: tuple[torch.Tensor, ...]
    flops: float
    bytes: float


def read_kernels(kinds: list[str] | None = None) -> list[Kernel]:
    """Those of shapes.toml, or of some kinds; weights and inputs are random with one seed."""
    listed = tomllib.loads(Path(__file__).with_name("shapes.toml").read_text())
    found = []
    for kind, shapes in listed.items():
        for shape in shapes if not kinds or kind in kinds else ():
            torch.manual_seed(0)
            model, args, flops = _MAKE[kind](shape)
            with torch.inference_mode():
                result = model.eval()(*args)
            tensors = [*model.parameters(), *args, result]
            size = sum(tensor.numel() * F32 for tensor in tensors)
            found.append(Kernel(kind, _name(shape), model, args, float(flops), float(size)))
    return found


def _name(shape: Shape) -> str:
    return " ".join(f"{key}{value}" for key, value in shape.items() if key != "from")


def _gemm(s: Shape) -> tuple[nn.Module, tuple[torch.Tensor, ...], int]:
    return nn.Linear(s["k"], s["n"]), (torch.randn(s["m"], s["k"]),), 2 * s["m"] * s["k"] * s["n"]


def _gemv(s: Shape) -> tuple[nn.Module, tuple[torch.Tensor, ...], int]:
    return nn.Linear(s["k"], s["n"], bias=False), (torch.randn(1, s["k"]),), 2 * s["k"] * s["n"]


def _conv(s: Shape) -> tuple[nn.Module, tuple[torch.Tensor, ...], int]:
    kernel, stride, padding = s.get("kernel", 3), s.get("stride", 1), s.get("padding", 1)
    groups = s.get("groups", 1)
    model = nn.Conv2d(s["c"], s["f"], kernel, stride, padding, groups=groups)
    out = (s["h"] + 2 * padding - kernel) // stride + 1
    flops = 2 * s["n"] * s["f"] * out * out * s["c"] // groups * kernel * kernel
    return model, (torch.randn(s["n"], s["c"], s["h"], s["h"]),), flops


class Attention(nn.Module):
    def __init__(self, causal: bool, grouped: bool) -> None:
        super().__init__()
        self.causal, self.grouped = causal, grouped

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, enable_gqa=self.grouped
        )


def _attention(s: Shape) -> tuple[nn.Module, tuple[torch.Tensor, ...], int]:
    """A causal mask halves the work that is asked for."""
    q = torch.randn(s["b"], s["heads"], s["q"], s["d"])
    k, v = (torch.randn(s["b"], s["kv_heads"], s["k"], s["d"]) for _ in range(2))
    flops = 4 * s["b"] * s["heads"] * s["q"] * s["k"] * s["d"]
    model = Attention(s["causal"], s["heads"] != s["kv_heads"])
    return model, (q, k, v), flops // 2 if s["causal"] else flops


def _rows(make: Callable[[int], nn.Module], flops: int) -> Callable[[Shape], Any]:
    def made(s: Shape) -> tuple[nn.Module, tuple[torch.Tensor, ...], int]:
        x = torch.randn(s["rows"], s["columns"])
        return make(s["columns"]), (x,), flops * x.numel()

    return made


_MAKE: dict[str, Callable[[Shape], Any]] = {
    "gemm": _gemm,
    "conv3x3": _conv,
    "conv": _conv,
    "attention": _attention,
    "softmax": _rows(lambda _: nn.Softmax(-1), 5),
    "layer_norm": _rows(nn.LayerNorm, 8),
    "rms_norm": _rows(nn.RMSNorm, 5),
    "gelu": _rows(lambda _: nn.GELU(), 10),
    "gemv": _gemv,
}
