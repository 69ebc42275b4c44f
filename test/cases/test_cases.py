"""The acceptance cases, each in a process of its own: `pytest -m cases`.

They lie beside the repository, in ../shared/cases, or where LEMURC_CASES says.
status.toml lists those known to fail, with the step that fails; one that fails elsewhere
fails this test, and so does one that passes though it is listed.
"""

import importlib.util
import os
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = Path(os.environ.get("LEMURC_CASES", HERE.parents[2] / "shared" / "cases"))
KNOWN: dict[str, str] = tomllib.loads((HERE / "status.toml").read_text())["fails"]

spec = importlib.util.spec_from_file_location("lemurc_cases_table", HERE / "table.py")
assert spec is not None and spec.loader is not None
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

pytestmark = pytest.mark.cases

found = sorted(CASES.glob("[0-9]*.py"))


@pytest.mark.skipif(not found, reason=f"there are no acceptance cases in {CASES}")
@pytest.mark.parametrize("case", found, ids=lambda path: path.stem)
def test_case(case: Path, tmp_path: Path) -> None:
    fate = table.run_apart(case, tmp_path)
    known = KNOWN.get(case.stem)
    if known is None:
        assert fate["step"] in table.FINE, f"{fate['step']}: {fate['reason']}"
    elif fate["step"] in table.FINE:
        pytest.fail("it passes now: take it out of status.toml")
    elif fate["step"] != known:
        pytest.fail(f"it fails in {fate['step']}, not in {known}: {fate['reason']}")
    else:
        pytest.xfail(f"{known}: {fate['reason']}")


@pytest.mark.skipif(not found, reason=f"there are no acceptance cases in {CASES}")
def test_known_failures_are_cases() -> None:
    assert set(KNOWN) <= {path.stem for path in found}
