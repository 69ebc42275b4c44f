"""The distribution: sdist, wheel made from it, and a fresh environment with the wheel alone.

Marked `packaging`: it builds the kernels and installs the runtime's dependencies.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("dialects", "frontend", "passes", "runtime", "targets", "tools")
RUNTIME_CLOSURE = {
    *("click", "iree-base-runtime", "lemurc", "ml-dtypes", "numpy", "pip", "rich"),
    *("markdown-it-py", "mdurl", "pygments", "safetensors", "setuptools"),
}


def call(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`sdist` and `wheel`; the wheel is built from the sdist, as an installer would."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module")
def fresh(dist: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment's Python that has the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("fresh")
    call(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    pins = ROOT / "constraints.txt"
    call(python, "-m", "pip", "install", "-q", "-c", pins, dist["wheel"], cwd=folder)
    return python


@pytest.mark.packaging
def test_sdist_holds_each_file_once(dist: dict[str, Path]) -> None:
    with tarfile.open(dist["sdist"]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        links = [member.name for member in archive.getmembers() if member.issym()]
    assert "src/lemurc/tools/cli.py" in names
    assert not [name for name in names if name.partition("/")[0] in PARTS]
    assert not links


@pytest.mark.packaging
def test_wheel_holds_the_package_and_nothing_beside(dist: dict[str, Path]) -> None:
    assert dist["wheel"].name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(dist["wheel"]) as wheel:
        names = set(wheel.namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"lemurc"}
    assert {f"lemurc/{part}/__init__.py" for part in PARTS} | {"lemurc/py.typed"} <= names
    assert "lemurc/tools/plan_page.html" in names
    assert [name for name in names if name.endswith("/licenses/LICENSE")]
    sources = list((ROOT / "targets" / "cpu" / "kernels").glob("*.c"))
    kernels = [name for name in names if re.match(r"lemurc/targets/cpu/kernels/.*\.bc$", name)]
    assert bool(kernels) == bool(sources), "the kernels are built whenever there are any"
    assert not [name for name in names if name.endswith((".c", ".h"))]


@pytest.mark.packaging
def test_fresh_environment_runs_without_torch_or_compiler(fresh: Path, tmp_path: Path) -> None:
    lemurc = fresh.with_name("lemurc")
    assert call(lemurc, "--version", cwd=tmp_path).startswith("lemurc ")
    installed = json.loads(call(fresh, "-m", "pip", "list", "--format=json", cwd=tmp_path))
    names = {re.sub(r"[-_.]+", "-", row["name"].lower()) for row in installed}
    assert names <= RUNTIME_CLOSURE
    code = "import lemurc, sys; lemurc.load; lemurc.run; print('torch' in sys.modules)"
    assert call(fresh, "-c", code, cwd=tmp_path).strip() == "False"
    doctor = json.loads(call(lemurc, "doctor", "--json", cwd=tmp_path))
    assert doctor["can_run"] and not doctor["can_compile"]


@pytest.mark.packaging
def test_compiling_there_says_what_to_install(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\n")
    command = [str(fresh.with_name("lemurc")), "compile", "net.py:build"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 2, ran.stderr
    assert "pip install 'lemurc[compile]'" in ran.stderr


def test_no_stray_importable_names() -> None:
    """Neither the wheel nor an editable install makes `runtime` or `tools` importable."""
    owned = importlib.metadata.packages_distributions()
    names = {name for name, dists in owned.items() if "lemurc" in dists}
    assert names <= {"lemurc", "_editable_skbc_lemurc"}


def test_links_lead_to_the_folders() -> None:
    for part in PARTS:
        link = ROOT / "src" / "lemurc" / part
        assert link.is_symlink() and link.readlink() == Path("../..") / part


def test_constraints_pin_every_requirement() -> None:
    """Every name in pyproject.toml has one exact, portable pin that its range admits."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert not [pin for pin in pins.values() if "+" in pin], "local builds are not portable"
    pinned = {re.sub(r"[-_.]+", "-", name.lower()): version for name, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [requirement for extra in extras for requirement in extra]
    for requirement in wanted:
        name, specifier = re.fullmatch(
            r"([\w.-]+?)(?:\[.*\])?((?:[=<>!~].*)?)", requirement.partition(";")[0]
        ).groups()  # type: ignore[union-attr]
        if name != "lemurc":
            pin = pinned[re.sub(r"[-_.]+", "-", name.lower())]
            assert specifier.partition("==")[2] in ("", pin), requirement


def test_licence_is_the_one_declared() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "LLVM Exceptions to the Apache 2.0 License" in text
    assert "BSD" not in text
