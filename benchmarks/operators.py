"""Time single operators side by side: `python benchmarks/operators.py [kind...] [--threads N]`.

The shapes are those of shapes.toml. Peers take turns as in run.py, and every answer is compared
with eager's first. Ratios are of times, peer to lemurc, so above 1 lemurc is faster; by kind and
over all they are geometric means. The roofline is the time that the operator's flops or bytes
need at the best rates that PyTorch's own matrix product and copy reach here.
"""

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from peers import DEFAULT_THREADS, PEERS, Run, share_threads
from run import TOLERANCE, cpu_name, interleave, versions
from shapes import Kernel, read_kernels

PYTORCH = ("eager", "inductor")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--threads", type=int, default=DEFAULT_THREADS)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # PyTorch's exporter about itself
    share_threads(chosen.threads)
    torch.set_num_threads(chosen.threads)
    flops, rate = peaks()
    print(
        f"{chosen.threads} threads, {cpu_name()}; {flops / 1e9:.0f} Gflop/s, {rate / 1e9:.1f} GB/s"
    )
    rows = []
    for kernel in read_kernels(chosen.kinds):
        row = run_kernel(kernel, chosen.peers.split(","), chosen.threads, chosen.turns)
        row["roofline_us"] = max(kernel.flops / flops, kernel.bytes / rate) * 1e6
        rows.append(row)
        print(line(row), flush=True)
    means = summary(rows)
    print(table(means))
    if chosen.json:
        report = {"cpu": cpu_name(), "threads": chosen.threads, "versions": versions()}
        with open(chosen.json, "w") as file:
            json.dump(report | {"kernels": rows, "means": means}, file, indent=1)


def run_kernel(kernel: Kernel, peers: list[str], threads: int, turns: int) -> dict[str, Any]:
    arrays = [arg.numpy() for arg in kernel.args]
    with torch.inference_mode():
        expected = kernel.model(*kernel.args).numpy()
    runs: dict[str, Run] = {}
    for peer in peers:
        try:
            run = PEERS[peer](kernel.model, kernel.args, threads)
        except ImportError as error:
            print(f"{peer} skipped, not installed ({error.name})", file=sys.stderr)
            continue
        wrong = float(np.abs(np.asarray(run(*arrays)) - expected).max() / np.abs(expected).max())
        if not wrong < TOLERANCE:
            raise SystemExit(f"{kernel.kind} {kernel.name}: {peer} is wrong by {wrong:.1e}")
        runs[peer] = run
    times = interleave(runs, arrays, turns)
    medians = {peer: [statistics.median(turn) for turn in times[peer]] for peer in runs}
    return {
        "kind": kernel.kind,
        "shape": kernel.name,
        "us": {peer: statistics.median(turn) * 1e6 for peer, turn in medians.items()},
        "ratios": {
            peer: statistics.median(a / b for a, b in zip(turn, medians["lemurc"], strict=True))
            for peer, turn in medians.items()
            if peer != "lemurc"
        },
    }


def line(row: dict[str, Any]) -> str:
    ours = row["us"]["lemurc"]
    ratios = "  ".join(f"{peer} {ratio:.2f}x" for peer, ratio in row["ratios"].items())
    share = row["roofline_us"] / ours
    return f"{row['kind']:10} {row['shape']:48} {ours:9.1f} us  {share:4.0%} of roofline  {ratios}"


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By kind and over all: against the better of PyTorch's two, and the best of all peers."""
    groups = {kind: [r for r in rows if r["kind"] == kind] for kind in {r["kind"] for r in rows}}
    means = {}
    for name, members in {**groups, "all": rows}.items():
        pytorch = [
            min((r["ratios"][p] for p in PYTORCH if p in r["ratios"]), default=0) for r in members
        ]
        best = [min(r["ratios"].values(), default=0) for r in members]
        means[name] = {
            "pytorch": geometric(pytorch),
            "best_peer": geometric(best),
            "worst": min(best),
        }
    return means


def table(means: dict[str, dict[str, float]]) -> str:
    lines = [f"\n{'':12}{'better of PyTorch':>18}{'best peer':>12}{'worst shape':>13}"]
    for name, row in sorted(means.items(), key=lambda item: (item[0] == "all", item[0])):
        lines.append(
            f"{name:12}{row['pytorch']:17.2f}x{row['best_peer']:11.2f}x{row['worst']:12.2f}x"
        )
    return "\n".join(lines)


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values)) if min(values) > 0 else 0.0


def peaks() -> tuple[float, float]:
    """Flops per second of a matrix product, bytes per second of a copy, the best of several."""
    a, b = torch.randn(1536, 1536), torch.randn(1536, 1536)
    big = torch.randn(1 << 25)
    out = torch.empty_like(big)
    product = best(lambda: torch.mm(a, b))
    copied = best(lambda: out.copy_(big))
    return 2 * 1536**3 / product, 2 * big.numel() * 4 / copied


def best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    main()
