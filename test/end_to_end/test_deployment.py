"""A compiled model where it is used: other users, folders, machines, threads, and for long."""

import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lemurc
from lemurc.errors import ArtifactError, DeviceError, LemurcError, UsageError
from lemurc.runtime import cpu_features

ARRAY = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
RUN = """
import sys
import numpy as np
import lemurc

x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
with lemurc.load(sys.argv[1]) as session:
    results = session(x)
print(float(results[0].sum()))
"""


class Plain(nn.Module):
    """A computed result, a buffer, and the argument itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("table", torch.arange(1000.0))

    def forward(self, x: Any) -> Any:
        return self.linear(x).tanh(), self.table, x


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.sum.add_(x)
        return self.sum * 1


def plain() -> nn.Module:
    torch.manual_seed(0)
    return Plain().eval()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deployed") / "model.lemur"
    lemurc.compile(plain(), (torch.from_numpy(ARRAY),), output=path)
    return path


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deployed") / "counter.lemur"
    lemurc.compile(Counter(), (torch.ones(4),), output=path)
    return path


def want() -> np.ndarray:
    with torch.no_grad():
        result: np.ndarray = plain()(torch.from_numpy(ARRAY))[0].numpy()
    return result


def python(*argv: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


# Other machines


def test_code_for_another_processor(tmp_path: Path) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86-64"
    path = tmp_path / "foreign.lemur"
    lemurc.compile(plain(), (torch.from_numpy(ARRAY),), targets=f"cpu:{other}", output=path)
    with pytest.raises(DeviceError) as caught:
        lemurc.load(path)
    assert other in str(caught.value), "for what it was made"
    assert cpu_features.supported_archs()[0] in str(caught.value), "what this machine has"


def test_code_for_features_this_processor_lacks(artifact: Path) -> None:
    with cpu_features.override(("sse2-only",)), pytest.raises(DeviceError) as caught:
        lemurc.load(artifact)
    assert "x86-64-v3" in str(caught.value) and "sse2-only" in str(caught.value)


@pytest.mark.parametrize("name", ["cuda:0", "rocm", "metal"])
def test_a_device_that_is_not_here(name: str, artifact: Path) -> None:
    with pytest.raises(LemurcError) as caught:
        lemurc.load(artifact, devices=[name])
    message = str(caught.value)
    assert name.partition(":")[0] in message and "cpu:0" in message, "the devices that are here"
    assert "not installed" in message or "driver" in message, "what the driver lacks"


def test_a_device_whose_name_is_wrong(artifact: Path) -> None:
    with pytest.raises(LemurcError) as caught:
        lemurc.load(artifact, devices=["cud:0"])
    assert "cud" in str(caught.value) and "cpu" in str(caught.value)


# Other folders and users

ODD = [
    "with space",
    'it\'s "quoted"',
    "grüße ßtraße",
    "🦙 lemur",
    "-dash",
    "a" * 200,
    "per%cent#,;$HOME",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_paths(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / f"{name[:100]}.lemur"
    lemurc.compile(nn.ReLU(), (torch.ones(2),), output=path)
    with lemurc.load(path) as session:
        assert session(np.array([-1, 2], np.float32)).tolist() == [0, 2]


def test_odd_paths_on_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "-it's \"ü 🦙 %#,;$HOME"
    folder.mkdir()
    source = folder / "-f ü.py"
    source.write_text("import torch\ndef build():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    program = "from lemurc.tools.cli import main; main()"
    for argv in (
        ["compile", "-o", "-out 🦙.lemur", "--", f"{source.name}:build"],
        ["run", "--", "-out 🦙.lemur"],
    ):
        ran = python("-c", program, *argv, cwd=folder)
        assert ran.returncode == 0, ran.stderr


def test_a_user_without_rights_or_home(artifact: Path) -> None:
    """Loading and running write nothing: no home, nothing writable, another user."""
    folder = artifact.parent
    os.chmod(folder, 0o555)
    options: dict[str, Any] = {"env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    if os.geteuid() == 0:
        if not _may_run_python(65534, options):
            # this Python lies in a folder of root's: keep the user, lose the rights
            return _run_without_capabilities(artifact, options)
        for parent in folder.parents:
            if parent.stat().st_mode & 0o005 != 0o005:
                pytest.skip(f"{parent} is closed to other users")
        options |= {"user": 65534, "group": 65534}
    ran = python("-c", RUN, artifact, cwd="/", **options)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) == pytest.approx(float(want().sum()), rel=1e-4)


def _may_run_python(user: int, options: dict[str, Any]) -> bool:
    try:
        probe = python("-c", "import lemurc", cwd="/", user=user, group=user, **options)
    except OSError:
        return False
    return probe.returncode == 0


def _run_without_capabilities(artifact: Path, options: dict[str, Any]) -> None:
    """Root without the right to override permissions, in a read-only folder."""
    if shutil.which("setpriv") is None:
        pytest.skip("another user cannot run this Python, and there is no setpriv")
    before = sorted(path.name for path in artifact.parent.iterdir())
    ran = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all",
         sys.executable, "-P", "-B", "-c", RUN, str(artifact)],
        cwd=artifact.parent, capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) == pytest.approx(float(want().sum()), rel=1e-4)
    assert sorted(path.name for path in artifact.parent.iterdir()) == before


def test_an_artifact_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        lemurc.load(tmp_path / "absent.lemur")
    assert "absent.lemur" in str(caught.value) and "there is no file" in str(caught.value)


def test_an_artifact_that_may_not_be_read(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.lemur"
    shutil.copy(artifact, path)
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything

        def denied(self: Path, *args: Any, **options: Any) -> Any:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ArtifactError) as caught:
        lemurc.load(path)
    assert caught.value.code == "artifact-unreadable"
    assert "secret.lemur" in str(caught.value) and "denied" in str(caught.value).lower()


FOREIGN = {
    "text": (lambda path: path.write_text("hello"), "not a|no compiled"),
    "folder": (lambda path: path.mkdir(), "folder|directory"),
    "exported program": (
        lambda path: torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(2),)), path),
        "lemurc compile",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_kind(name: str, tmp_path: Path) -> None:
    make, words = FOREIGN[name]
    path = tmp_path / "thing.pt2"
    make(path)
    with pytest.raises(ArtifactError, match=words) as caught:
        lemurc.load(path)
    assert "thing.pt2" in str(caught.value)


def test_the_same_bytes_from_two_folders(tmp_path: Path) -> None:
    program = """
import sys, torch, lemurc
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv1d(4, 4, 3), torch.nn.ReLU())
lemurc.compile(model.eval(), (torch.ones(1, 4, 9),), output=sys.argv[1], jobs=int(sys.argv[2]))
"""
    made = []
    for folder, seed in (("one", "1"), ("quite another", "2")):
        (tmp_path / folder).mkdir()
        env = os.environ | {
            "PYTHONHASHSEED": seed,
            "LEMURC_CACHE_DIR": str(tmp_path / f"cache{seed}"),
        }
        path = tmp_path / folder / "model.lemur"
        ran = python("-c", program, path, seed, cwd=tmp_path / folder, env=env)
        assert ran.returncode == 0, ran.stderr
        made.append(path.read_bytes())
    assert made[0] == made[1]


# Threads and processes


def test_threads_with_sessions_of_their_own(counter: Path) -> None:
    """Each session has its own state, also those made by copy()."""
    base = lemurc.load(counter)
    sessions = [base.copy() for _ in range(4)] + [lemurc.load(counter) for _ in range(4)]
    failed: list[str] = []

    def work(session: Any, number: int) -> None:
        step = np.full(4, number + 1, np.float32)
        for call in range(50):
            if session(step)[0] != (call + 1) * (number + 1):
                failed.append(f"session {number} call {call}")

    _in_threads([(work, session, number) for number, session in enumerate(sessions)])
    assert not failed
    assert base.state()["sum"].tolist() == [0] * 4


def test_threads_that_share_a_session_with_state(counter: Path) -> None:
    """Calls follow one another: none is lost, none sees half of another."""
    session = lemurc.load(counter)
    seen: list[float] = []

    def work() -> None:
        for _ in range(50):
            result = session(np.ones(4, np.float32))
            assert (result == result[0]).all()
            seen.append(float(result[0]))

    _in_threads([(work,)] * 8)
    assert sorted(seen) == [float(n + 1) for n in range(400)]


def _in_threads(jobs: list[Any]) -> None:
    threads = [threading.Thread(target=job[0], args=job[1:]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_one_core_and_few_threads(artifact: Path) -> None:
    program = f"""
import os, sys, threading
os.sched_setaffinity(0, {{sorted(os.sched_getaffinity(0))[0]}})
from lemurc.runtime.devices import set_cpu_threads
set_cpu_threads(1)
{RUN}
print(len(os.listdir("/proc/self/task")))
"""
    ran = python("-c", program, artifact)
    assert ran.returncode == 0, ran.stderr
    total, threads = ran.stdout.split()
    assert float(total) == pytest.approx(float(want().sum()), rel=1e-4)
    assert int(threads) <= 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork(artifact: Path) -> None:
    """A child's own session works; the parent's says what is wrong instead of hanging."""
    program = """
import os, signal, sys
import numpy as np
import lemurc
x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
session = lemurc.load(sys.argv[1])
session(x)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        session(x)
    except lemurc.LemurcError as error:
        print(error.code, flush=True)
    print(float(lemurc.load(sys.argv[1])(x)[0].sum()), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(float(session(x)[0].sum()))
"""
    ran = python("-c", program, artifact)
    assert ran.returncode == 0, ran.stderr
    code, in_child, in_parent = ran.stdout.split()
    assert code == "session-forked"
    assert float(in_child) == float(in_parent) == pytest.approx(float(want().sum()), rel=1e-4)


# Memory


def test_results_outlive_later_calls_and_the_session(artifact: Path) -> None:
    session = lemurc.load(artifact)
    results = session(ARRAY.copy())
    copies = [result.copy() for result in results]
    for scale in range(20):
        session(ARRAY * scale)
    session.close()
    del session
    for result, before in zip(results, copies, strict=True):
        np.testing.assert_array_equal(result, before)
        result += 1  # they are the caller's own
    with lemurc.load(artifact) as again:
        np.testing.assert_array_equal(again(ARRAY)[1], copies[1])


def test_the_callers_buffers(artifact: Path) -> None:
    x = ARRAY.copy()
    with lemurc.load(artifact) as session:
        results = session(x)
    np.testing.assert_array_equal(x, ARRAY)
    assert not any(np.shares_memory(result, x) for result in results)


def test_memory_stays_level_over_many_calls(artifact: Path, counter: Path) -> None:
    with lemurc.load(artifact) as session, lemurc.load(counter) as stateful:
        step = np.ones(4, np.float32)
        for _ in range(300):
            session(ARRAY), stateful(step)
        before = _resident_bytes()
        for _ in range(3000):
            session(ARRAY), stateful(step)
        assert _resident_bytes() - before < 8 << 20


def test_memory_stays_level_over_many_loads(artifact: Path) -> None:
    def load() -> None:
        with lemurc.load(artifact) as session:
            session(ARRAY)

    for _ in range(20):
        load()
    before = _resident_bytes()
    for _ in range(100):
        load()
    assert _resident_bytes() - before < 16 << 20
    assert len(os.listdir("/proc/self/fd")) < resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_closed_session_says_so(artifact: Path) -> None:
    session = lemurc.load(artifact)
    session.close()
    session.close()
    with pytest.raises(UsageError) as caught:
        session(ARRAY)
    assert caught.value.code == "session-closed"
