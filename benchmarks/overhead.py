"""What coordination costs: two stages against one, and a call of a program that computes nothing.

    python benchmarks/overhead.py [--threads 2] [--pairs 60] [--json FILE]

ResNet-18 and the 6-layer GPT-2 are compiled whole, and cut in the middle over two CPU devices
that share the same cores; calls of the two take turns, and the median of the ratios of
neighbouring calls is reported. What our layer takes of a call is bounded from above by the time
of one whose stages add two vectors of four numbers each.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import torch
from run import cpu_name
from torch import nn
from workloads import WORKLOADS

CUTS = {
    "resnet18": {f"model.resnet.encoder.stages.{k}": k // 2 for k in range(4)},
    "gpt2": {f"model.transformer.h.{k}": k // 3 for k in range(6)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    peers.share_threads(chosen.threads)
    print(f"{chosen.threads} threads, {cpu_name()}")
    with tempfile.TemporaryDirectory() as folder:
        report = {
            "splits": {name: split(name, chosen.pairs, Path(folder)) for name in CUTS},
            "calls": {stages: call(stages, Path(folder)) for stages in (1, 2)},
        }
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report, indent=1) + "\n")


def split(name: str, pairs: int, folder: Path) -> dict[str, Any]:
    """One module, two modules, and one again: what two equal ones differ by is noise."""
    model, args = WORKLOADS[name]()
    pins = tuple(
        f"{path}{below}=cpu:{device}" for path, device in CUTS[name].items() for below in ("", ".*")
    )
    runs = {
        "two": compiled(model, args, folder / f"{name}-two.lemur", pins),
        "one": compiled(model, args, folder / f"{name}-one.lemur"),
        "one again": compiled(model, args, folder / f"{name}-one.lemur"),
    }
    times: dict[str, list[float]] = {key: [] for key in runs}
    for run in runs.values():
        run()
    for number in range(pairs):
        for key in list(runs)[:: 1 if number % 2 else -1]:
            times[key].append(seconds(runs[key]))
    ratios = {
        key: statistics.median(a / b for a, b in zip(times[key], times["one"], strict=True))
        for key in ("two", "one again")
    }
    ms = statistics.median(times["one"]) * 1e3
    print(
        f"{name:9} one module {ms:6.2f} ms; two {ratios['two']:.3f}x, "
        f"one again {ratios['one again']:.3f}x; {pairs} pairs"
    )
    return {"one_ms": ms, "two": ratios["two"], "one_again": ratios["one again"], "pairs": pairs}


def call(stages: int, folder: Path) -> dict[str, float]:
    model = nn.Sequential(*(Add() for _ in range(stages))).eval()
    pins = tuple(f"{k}=cpu:{k}" for k in range(stages))
    run = compiled(model, (torch.zeros(4),), folder / f"add{stages}.lemur", pins)
    for _ in range(200):
        run()
    us = [seconds(run) * 1e6 for _ in range(3000)]
    row = {"median_us": statistics.median(us), "tenth_us": statistics.quantiles(us, n=10)[0]}
    print(f"a call of {stages} stages that do nothing: {row['median_us']:.1f} us")
    return row


class Add(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def compiled(
    model: nn.Module, args: tuple[Any, ...], path: Path, pins: tuple[str, ...] = ()
) -> Callable[[], Any]:
    import lemurc

    lemurc.compile(model, args, targets="cpu:host", pins=pins, golden="none", output=path)
    session = lemurc.load(path)
    wanted = len({pin.rpartition("=")[2] for pin in pins}) or 1
    if len(session.devices) != wanted:
        raise SystemExit(f"{path.stem}: {session.placement_line()}, wanted {wanted} devices")
    arrays = [arg.numpy() for arg in args]
    return lambda: session(*arrays)


def seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
