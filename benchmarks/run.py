"""Time models side by side: `python benchmarks/run.py [workload...] [--peers a,b] [--threads N]`.

All peers live in one process and take turns; each turn a peer answers several calls after
one warm-up call, and turns alternate in direction. Reported is the median over all calls and
its ratio to ONNX Runtime's, turn by turn. Every answer is compared with eager's first.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from peers import DEFAULT_THREADS, PEERS, Run, share_threads
from workloads import WORKLOADS

BASELINE = "onnxruntime"
TOLERANCE = 1e-3
PACKAGES = ("torch", "torch-mlir", "iree-base-compiler", "onnxruntime", "openvino", "lemurc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--threads", type=int, default=DEFAULT_THREADS)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    share_threads(options.threads)
    report = {
        "cpu": cpu_name(),
        "threads": options.threads,
        "versions": versions(),
        "workloads": {
            name: run_workload(name, options.peers.split(","), options.threads, options.turns)
            for name in options.workloads
        },
    }
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


def run_workload(name: str, peers: list[str], threads: int, turns: int) -> dict[str, Any]:
    model, args = WORKLOADS[name]()
    arrays = [arg.numpy() for arg in args]
    with torch.inference_mode():
        expected = model(*args).numpy()
    runs: dict[str, Run] = {}
    for peer in peers:
        try:
            run = PEERS[peer](model, args, threads)
        except ImportError as error:
            print(f"{name}: {peer} skipped, not installed ({error.name})", file=sys.stderr)
            continue
        error = float(np.abs(np.asarray(run(*arrays)) - expected).max() / np.abs(expected).max())
        if not error < TOLERANCE:
            raise SystemExit(f"{name}: {peer} is wrong by {error:.1e} of the largest output")
        runs[peer] = run
    times = interleave(runs, arrays, turns)
    result = {peer: summarise(times, peer) for peer in runs}
    print(f"\n{name}, {threads} threads, {cpu_name()}")
    print(f"{'':14}{'median ms':>10}{'min ms':>9}{'vs ' + BASELINE:>16}")
    for peer, row in result.items():
        ratio = f"{row['ratio']:.2f}x" if "ratio" in row else ""
        print(f"{peer:14}{row['median_ms']:10.2f}{row['min_ms']:9.2f}{ratio:>16}")
    return result


def interleave(runs: dict[str, Run], arrays: list[Any], turns: int) -> dict[str, list[list[float]]]:
    """Seconds per call, by peer and turn. A pause lets other peers' threads stop spinning."""
    calls = {peer: calls_per_turn(run, arrays) for peer, run in runs.items()}
    times: dict[str, list[list[float]]] = {peer: [] for peer in runs}
    for turn in range(turns):
        order = list(runs) if turn % 2 == 0 else list(runs)[::-1]
        for peer in order:
            time.sleep(0.05)
            runs[peer](*arrays)
            times[peer].append([timed(runs[peer], arrays) for _ in range(calls[peer])])
    return times


def calls_per_turn(run: Run, arrays: list[Any], seconds: float = 0.3) -> int:
    run(*arrays)
    return max(1, min(200, round(seconds / timed(run, arrays))))


def timed(run: Run, arrays: list[Any]) -> float:
    start = time.perf_counter()
    run(*arrays)
    return time.perf_counter() - start


def summarise(times: dict[str, list[list[float]]], peer: str) -> dict[str, float]:
    flat = [seconds for turn in times[peer] for seconds in turn]
    row = {"median_ms": statistics.median(flat) * 1e3, "min_ms": min(flat) * 1e3}
    if BASELINE in times:
        pairs = zip(times[peer], times[BASELINE], strict=True)
        row["ratio"] = statistics.median(
            statistics.median(mine) / statistics.median(base) for mine, base in pairs
        )
    return row


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
