"""The acceptance cases, each in a process of its own: `pytest -m cases`.

They lie beside the repository, in ../shared/cases, or where LEMURC_CASES says.
status.toml lists those known to fail, with the step that fails; one that fails elsewhere
fails this test, and so does one that passes though it is listed.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = Path(os.environ.get("LEMURC_CASES", HERE.parents[2] / "shared" / "cases"))
KNOWN: dict[str, str] = tomllib.loads((HERE / "status.toml").read_text())["fails"]
TIME_LIMIT_S = 300

pytestmark = pytest.mark.cases

found = sorted(CASES.glob("[0-9]*.py"))


@pytest.mark.skipif(not found, reason=f"there are no acceptance cases in {CASES}")
@pytest.mark.parametrize("case", found, ids=lambda path: path.stem)
def test_case(case: Path, tmp_path: Path) -> None:
    fate = run(case, tmp_path)
    known = KNOWN.get(case.stem)
    if known is None:
        assert fate["step"] == "passed", f"{fate['step']}: {fate['reason']}"
    elif fate["step"] == "passed":
        pytest.fail("it passes now: take it out of status.toml")
    elif fate["step"] != known:
        pytest.fail(f"it fails in {fate['step']}, not in {known}: {fate['reason']}")
    else:
        pytest.xfail(f"{known}: {fate['reason']}")


@pytest.mark.skipif(not found, reason=f"there are no acceptance cases in {CASES}")
def test_known_failures_are_cases() -> None:
    assert set(KNOWN) <= {path.stem for path in found}


def run(case: Path, folder: Path) -> dict[str, str]:
    """What run_case.py says; a crash of the process or a hang is a step of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", HERE / "run_case.py", case, folder],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"step": "hang", "reason": f"no result after {TIME_LIMIT_S} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"step": "crash", "reason": f"exit status {done.returncode}: {done.stderr[-800:]}"}
    fate: dict[str, str] = json.loads(lines[-1])
    return fate
