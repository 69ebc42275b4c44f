"""The command line as a whole: statuses, where text goes, and how errors read."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import lemurc
from lemurc import errors
from lemurc.tools import quiet
from lemurc.tools.cli import VERBS

ERRORS = [
    errors.UsageError,
    errors.UnsupportedModelError,
    errors.VerificationError,
    errors.ArtifactError,
    errors.DeviceError,
    errors.BudgetError,
    errors.InputError,
]


def failing(error: BaseException) -> Any:
    def call(*_: Any, **__: Any) -> None:
        raise error

    return call


def test_version(lemurc_cli: Any) -> None:
    ran = lemurc_cli("--version")
    assert (ran.status, ran.out) == (0, f"lemurc {lemurc.__version__}\n")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "opt"])
def test_every_verb_has_help_json_and_an_example_free_of_errors(lemurc_cli: Any, verb: str) -> None:
    ran = lemurc_cli(verb, "--help")
    assert ran.status == 0
    assert "--json" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("opt", "targets")])
def test_every_verb_has_a_python_call(verb: str) -> None:
    assert verb in lemurc.__all__
    assert callable(getattr(lemurc, verb))


@pytest.mark.parametrize("kind", ERRORS)
def test_exit_status_of_each_error(
    lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch, kind: type[errors.LemurcError]
) -> None:
    error = kind("it broke", code="some-code", where="model.py:7", hint="mend it")
    monkeypatch.setitem(vars(lemurc), "inspect", failing(error))
    ran = lemurc_cli("inspect", "x.lemur")
    assert ran.status == kind.exit_status
    assert ran.out == ""
    for part in ("it broke", "at model.py:7", "hint: mend it", "some-code"):
        assert part in ran.err
    assert "Traceback" not in ran.err


def test_exit_statuses_are_those_promised() -> None:
    assert [kind.exit_status for kind in ERRORS] == [2, 3, 4, 5, 6, 7, 8]


def test_error_as_json(lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = errors.DeviceError("no such device", where="cuda:0", hint="plug one in")
    monkeypatch.setitem(vars(lemurc), "inspect", failing(error))
    ran = lemurc_cli("inspect", "x.lemur", "--json")
    assert ran.status == 6
    assert ran.json == {
        "schema": "error.v1",
        "message": "no such device",
        "code": "device",
        "where": "cuda:0",
        "hint": "plug one in",
        "exit_status": 6,
    }


def test_a_bug_is_called_a_bug_and_logged(
    lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(vars(lemurc), "inspect", failing(ZeroDivisionError("oh")))
    ran = lemurc_cli("inspect", "x.lemur")
    assert ran.status == 1
    assert "this is a bug" in ran.err
    assert "Traceback" not in ran.err
    (log,) = tmp_path.iterdir()
    assert str(log) in ran.err
    assert "ZeroDivisionError: oh" in log.read_text()


def test_debug_shows_the_traceback(lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(lemurc), "inspect", failing(errors.InputError("bad")))
    for argv in (("--debug", "inspect", "x"), ("inspect", "x", "--debug")):
        assert "Traceback" in lemurc_cli(*argv).err


def test_interrupt(lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(lemurc), "inspect", failing(KeyboardInterrupt()))
    ran = lemurc_cli("inspect", "x.lemur")
    assert ran.status == 130
    assert "Traceback" not in ran.err


def test_a_missing_compiler_is_not_a_bug(lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModuleNotFoundError("No module named 'torch'", name="torch")
    monkeypatch.setitem(vars(lemurc), "compile", failing(error))
    ran = lemurc_cli("compile", "x.pt2")
    assert ran.status == 2
    assert "lemurc[compile]" in ran.err


@pytest.mark.parametrize(
    ("argv", "suggestion"),
    [
        (["complie", "x"], "Did you mean compile"),
        (["compile", "x", "--target", "cpu"], "--targets"),
        (["run", "x", "--devcie", "cpu"], "--device"),
    ],
)
def test_did_you_mean(lemurc_cli: Any, argv: list[str], suggestion: str) -> None:
    ran = lemurc_cli(*argv)
    assert ran.status == 2
    assert suggestion in ran.err


def test_usage_error_as_json(lemurc_cli: Any) -> None:
    ran = lemurc_cli("compile", "--json")
    assert ran.status == 2
    assert ran.json["code"] == "usage"


def test_starting_imports_neither_torch_nor_a_compiler() -> None:
    code = (
        "import json, sys\n"
        "from lemurc.tools.cli import run, VERBS\n"
        "for verb in VERBS:\n"
        "    if verb != 'opt': run([verb, '--help'])\n"
        "heavy = {'torch', 'torch_mlir', 'iree', 'numpy.f2py', 'rich'} & set(sys.modules)\n"
        "print(json.dumps(sorted(heavy)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stderr) == []


def test_python_m_lemurc_is_the_command_line() -> None:
    argv = [sys.executable, "-P", "-m", "lemurc", "--version"]
    ran = subprocess.run(argv, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"lemurc {lemurc.__version__}\n")


def test_transformers_is_quiet_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "info")
    quiet.before_import()
    assert os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "info"


@pytest.mark.parametrize(("level", "lines"), [("warning", 2), ("error", 0)])
def test_progress_without_a_terminal_is_a_line_a_phase(
    lemurc_cli: Any, monkeypatch: pytest.MonkeyPatch, level: str, lines: int
) -> None:
    def compile(model: str, *, progress: Any, **_: Any) -> None:
        progress("import", 0, 0, "")
        for done in range(3):
            progress("generate code", done, 3, f"s{done}")
        raise errors.InputError("enough")

    monkeypatch.setitem(vars(lemurc), "compile", compile)
    ran = lemurc_cli("--log-level", level, "compile", "model.pt2")
    assert ran.out == ""
    assert ran.err.splitlines()[:-2] == ["import ...", "generate code ..."][:lines]


def test_a_closed_pipe_is_no_error() -> None:
    shell = f"{sys.executable} -P -c 'from lemurc.tools.cli import main; main()' targets --help | :"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert ran.stderr == ""
