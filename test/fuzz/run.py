"""Draw graphs, compile them, compare them with eager, and reduce what differs.

    python test/fuzz/run.py --graphs 2000 --targets cpu,vulkan --levels 0,3 --seed 1 --json out.json

Prints what was covered, what was refused, and each difference with a program that shows it.
The exit status is 1 when there is a difference.
"""

import argparse
import collections
import json
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fuzz_elementwise
import fuzz_structure
import torch
from fuzz_compare import Findings, Setting, check, joined
from fuzz_graphs import Graph, draw_graph
from fuzz_reduce import kinds, reduce, script

KINDS = fuzz_elementwise.KINDS | fuzz_structure.KINDS
PER_MODULE = 25


def fuzz(
    seed: int, graphs: Iterable[int], settings: Iterable[Setting], per_module: int = PER_MODULE
) -> tuple[list[Graph], Findings]:
    """Draw these graphs of a seed and compile them, `per_module` at a time, in each setting."""
    numbers, findings, drawn = list(graphs), Findings(), []
    for start in range(0, len(numbers), per_module):
        batch = [draw_graph(seed, n, KINDS) for n in numbers[start : start + per_module]]
        drawn += batch
        for setting in settings:
            begin = time.monotonic()
            check(joined(batch), setting, findings)
            seconds = time.monotonic() - begin
            print(
                f"graphs {numbers[start]}..{numbers[start] + len(batch) - 1} {setting}: "
                f"{seconds:.0f} s, {len(findings.differences)} differences so far",
                file=sys.stderr,
                flush=True,
            )
    return drawn, findings


def coverage(graphs: list[Graph], findings: Findings) -> dict[str, dict[str, int]]:
    """Statements compared with eager by kind, dtype and rank of result, and dynamic sizes."""
    table: dict[str, collections.Counter[str]] = {
        name: collections.Counter() for name in ("dtype", "rank", "sizes", "kind")
    }
    for graph in graphs:
        for step in graph.steps:
            if step.name in findings.compared:
                value = graph.values[step.name]
                table["dtype"][value.dtype] += 1
                table["rank"][str(value.rank)] += 1
                table["sizes"]["dynamic" if graph.symbols else "static"] += 1
                table["kind"][step.kind] += 1
    return {name: dict(sorted(counts.items())) for name, counts in table.items()}


def report(graphs: list[Graph], findings: Findings, *, reduced: bool) -> dict[str, Any]:
    covered = coverage(graphs, findings)
    differences = []
    for found in findings.differences:
        smaller = reduce(found) if reduced else found
        differences.append(
            {
                "setting": str(found.setting),
                "output": found.output,
                "detail": smaller.detail,
                "kinds": kinds(smaller),
                "program": script(smaller),
            }
        )
    return {
        "graphs": len(graphs),
        "covered": covered,
        "missing": [kind for kind in KINDS if kind not in covered["kind"]],
        "refused": [
            {"kind": kind, "reason": reason, "count": count}
            for (kind, reason), count in sorted(findings.refused.items())
        ],
        "differences": differences,
    }


def text(found: dict[str, Any]) -> str:
    lines = [f"{found['graphs']} graphs"]
    for name, counts in found["covered"].items():
        cells = ", ".join(f"{key} {count}" for key, count in counts.items())
        lines.append(f"{name} ({len(counts)}): {cells}")
    lines.append(f"not drawn or not compiled: {', '.join(found['missing']) or 'none'}")
    for item in found["refused"]:
        lines.append(f"refused: {item['kind']} x{item['count']}: {item['reason']}")
    for item in found["differences"]:
        lines += ["", f"DIFFERENCE {item['setting']}: {item['detail']}", item["program"]]
    lines.append(f"{len(found['differences'])} differences")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default="cpu", help="cpu, vulkan, or both")
    parser.add_argument("--levels", default="0,3")
    parser.add_argument("--per-module", type=int, default=PER_MODULE)
    parser.add_argument("--no-reduce", action="store_true", help="whole programs, sooner")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = {"cpu": "cpu:host", "vulkan": "vulkan:llvmpipe"}
    settings = [
        Setting(names.get(target, target), int(level))
        for target in options.targets.split(",")
        for level in options.levels.split(",")
    ]
    numbers = range(options.first, options.first + options.graphs)
    graphs, findings = fuzz(options.seed, numbers, settings, options.per_module)
    found = report(graphs, findings, reduced=not options.no_reduce)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(text(found))
    return 1 if findings.differences else 0


if __name__ == "__main__":
    sys.exit(main())
