"""Peak memory of activations: the order that lemurc chooses against the order of the program.

    python benchmarks/peak_memory.py [MODEL...] [--scale 4] [--json FILE]

Both are compiled with the same flags and run on one simulated CPU (`lemurc.load(simulate=...)`),
whose own allocator counts what is live; weights and the caller's inputs are not in it. Results
are compared with eager's. `bound` is what no order of the operations gets below, of values alone:
what code needs inside one operation, such as padded images, comes on top of it, and what it fuses
away does not count.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from memory_models import MODELS

TOLERANCE = 1e-4
"""Of the largest output."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--scale", type=int, default=4, help="how large activations are")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    print(f"{'model':10}{'program':>12}{'memory':>12}{'less':>7}{'planned':>12}{'bound':>12}")
    for name in options.models:
        row = compared(name, options.scale)
        rows.append(row)
        reached = "  reached" if row["planned"] == row["bound"] else ""
        sizes = [f"{row[key] / 1024:8.1f} KiB" for key in ("program", "memory")]
        plan = [f"{row[key] / 1024:8.1f} KiB" for key in ("planned", "bound")]
        print(f"{name:10}{''.join(sizes)}{row['less']:7.1%}{''.join(plan)}{reached}", flush=True)
    print(f"median: {statistics.median(row['less'] for row in rows):.1%} less")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


def compared(name: str, scale: int) -> dict[str, Any]:
    """Bytes: `program` and `memory` as measured, `planned` and `bound` as the plan has them."""
    program, _ = measured(name, scale, "program")
    memory, order = measured(name, scale, "memory")
    return {
        "model": name,
        "program": program,
        "memory": memory,
        "less": 1 - memory / program,
        "planned": order.peak,
        "bound": order.bound,
    }


def measured(name: str, scale: int, order: str) -> tuple[int, Any]:
    """The most bytes of activations that the allocator counted, and what the plan says of them."""
    import lemurc
    from lemurc.system_file import DeviceDescription, SystemDescription

    torch.manual_seed(0)
    model, args = MODELS[name](scale)
    model.eval()
    machine = SystemDescription((DeviceDescription("cpu", "cpu", threads=1),))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "model.lemur")
        lemurc.compile(model, args, order=order, output=output, verify=False, golden="none")
        with lemurc.load(output, simulate=machine) as session:
            result = session(*args)
            with torch.no_grad():
                expected = model(*args)
            scaled = (result - expected).abs().max() / expected.abs().max()
            assert scaled <= TOLERANCE, f"{name} is off by {scaled:.1e} of its largest output"
            [device] = session.simulated
            return (
                device.peak_bytes - device.weight_bytes,
                session.plan.predicted["main"].order,
            )


if __name__ == "__main__":
    main()
