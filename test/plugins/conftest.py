"""Packages installed for the length of a test: the sample target, and made-up ones."""

import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lemurc.runtime import plugin_devices

SAMPLE = Path(__file__).parents[2] / "examples" / "mlir_jit"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What compilers made that are under test is not for the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEMURC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def show(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put what is installed in `folder` on the path, of child processes too."""
    patch.syspath_prepend(str(folder))
    inherited = os.environ.get("PYTHONPATH", "")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), inherited])))


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample package as pip installs it, in a folder of its own."""
    work = tmp_path_factory.mktemp("sample")
    sources = work / "sources"  # pip builds in the folder it is given
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(SAMPLE, sources, ignore=ignored)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += ["--no-deps", "--disable-pip-version-check", "--target", str(work / "site")]
    ran = subprocess.run([*command, str(sources)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return work / "site"


@pytest.fixture
def sample(sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    show(monkeypatch, sample_folder)
    yield sample_folder
    plugin_devices.forget()


Install = Callable[..., Path]

TARGET = """
from lemurc.targets.base import Architecture, Compiler, DeviceModel, Target

TARGET = Target(
    name={name!r},
    backend="",
    driver="",
    architectures=(Architecture("one", ()),),
    default=("one",),
    model=DeviceModel({{"f32": 1e9, "f64": 1e9, "i8": 1e9}}, 1e9, 1e-6, 1 << 30),
    compiler=Compiler("{name}_compiler", {version!r}, time_limit={time_limit}),
    illegal_types={illegal_types!r},
)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(name, compiler=..., device=...)`: a package of that name, of sources of modules
    `<name>_compiler` and `<name>_device`, the latter with a DRIVER.

    `target` is the source of `<name>_target`, with a TARGET; other arguments are for the usual
    one.
    """
    modules: set[str] = set()

    def make(
        name: str, *, compiler: str = "", device: str = "", target: str = "", **fields: object
    ) -> Path:
        usual = {"version": "1", "time_limit": 60.0, "illegal_types": (), **fields}
        sources = {
            f"{name}_target": target or TARGET.format(name=name, **usual),
            f"{name}_compiler": compiler,
            f"{name}_device": device,
        }
        folder = tmp_path / f"site-{name}"
        info = folder / f"{name}_package-1.0.dist-info"
        info.mkdir(parents=True)
        for module, source in sources.items():
            (folder / f"{module}.py").write_text(textwrap.dedent(source))
        modules.update(sources)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n"
        )
        points = ["[lemurc.targets]", f"{name} = {name}_target:TARGET"]
        if device:
            points += ["[lemurc.devices]", f"{name} = {name}_device:DRIVER"]
        (info / "entry_points.txt").write_text("\n".join(points) + "\n")
        show(monkeypatch, folder)
        importlib.invalidate_caches()
        return folder

    yield make
    for module in modules:
        sys.modules.pop(module, None)
    plugin_devices.forget()
