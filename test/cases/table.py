"""All acceptance cases and how they fared, by kind.

    python test/cases/table.py [--targets cpu] [--jobs 2] [--json FILE] [CASES]

CASES is the folder, by default ../shared/cases beside the repository. Exit status 1 when
one failed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
CASES = HERE.parents[2] / "shared" / "cases"
TIME_LIMIT_S = 300
FINE = ("passed", "refused")


def run_apart(case: Path, folder: Path, targets: str = "cpu") -> dict[str, str]:
    """What run_case.py says; a crash of the process or a hang is a step of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", HERE / "run_case.py", case, folder, targets],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"step": "hang", "kind": "", "reason": f"no result after {TIME_LIMIT_S} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        reason = f"exit status {done.returncode}: {done.stderr[-800:]}"
        return {"step": "crash", "kind": "", "reason": reason}
    fate: dict[str, str] = json.loads(lines[-1])
    return fate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES)
    parser.add_argument("--targets", default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = sorted(args.cases.glob("[0-9]*.py"))

    def one(case: Path) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            return {"case": case.stem, **run_apart(case, Path(folder), args.targets)}

    with ThreadPoolExecutor(args.jobs) as pool:
        fates = list(pool.map(one, found))
    if args.json is not None:
        args.json.write_text(json.dumps(fates, indent=1))
    _print(fates, args.targets)
    return int(any(fate["step"] not in FINE for fate in fates))


def _print(fates: list[dict[str, str]], targets: str) -> None:
    counts = Counter((fate["kind"], _column(fate)) for fate in fates)
    columns = ("passed", "refused", "failed")
    table = Table(title=f"acceptance cases, {targets}")
    for name in ("kind", *columns):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind in sorted({fate["kind"] for fate in fates}):
        table.add_row(kind, *(str(counts[kind, column]) for column in columns))
    totals = [sum(_column(fate) == column for fate in fates) for column in columns]
    table.add_row("all", *(str(total) for total in totals), style="bold")
    console = Console(width=100)
    console.print(table)
    for fate in fates:
        if fate["step"] not in FINE:
            console.print(f"{fate['case']}: {fate['step']}: {fate['reason']}", markup=False)


def _column(fate: dict[str, str]) -> str:
    return fate["step"] if fate["step"] in FINE else "failed"


if __name__ == "__main__":
    sys.exit(main())
