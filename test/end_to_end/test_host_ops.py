"""Operators that nothing compiles, left to PyTorch on the CPU when the user allows it."""

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lemurc
from lemurc import manifest as mf
from lemurc.compiler import CompileResult
from lemurc.errors import (
    ArtifactError,
    DeviceError,
    LemurcError,
    UnsupportedModelError,
    UsageError,
    VerificationError,
)
from lemurc.runtime.artifact import Artifact, write
from lemurc.runtime.session import Session
from lemurc.user_modules import import_modules

Check = Callable[..., tuple[CompileResult, Session]]

OPERATORS = """
import torch
from torch import Tensor

def op(schema, fake=None, **options):
    def define(function):
        made = torch.library.custom_op(f"lemurc_test::{function.__name__}", function,
                                       schema=schema, mutates_args=options.get("mutates", ()))
        made.register_fake(fake or (lambda x, *rest, **named: torch.empty_like(x)))
        return function
    return define

@op("(Tensor x, float by, SymInt plus=1, *, str mode='add', int[]? dims=None) -> Tensor")
def scale(x, by, plus=1, *, mode="add", dims=None):
    assert mode == "add" and dims in (None, [0, 1])
    return x * by + plus

@op("(Tensor x) -> Tensor")
def same(x):
    return x.clone()

def _two(x, y):
    return torch.empty_like(x), x.new_empty(x.shape[:1], dtype=torch.int64)

@op("(Tensor x, Tensor? y) -> (Tensor, Tensor)", _two)
def two(x, y):
    return x.flip(0) + (0 if y is None else y), x.argmax(1)

def _some(x):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(),))

@op("(Tensor x) -> Tensor", _some)
def positive(x):
    return x[x > 0].clone()

@op("(Tensor x) -> Tensor")
def liar(x):
    return x.double()

@op("(Tensor x) -> Tensor")
def picky(x):
    if x.shape[0] > 4:
        raise ValueError("too long")
    return x + 1

@op("(Tensor x) -> Tensor[]", lambda x: [torch.empty_like(x), torch.empty_like(x)])
def parts(x):
    return [x + 1, x * 2]

@op("(Tensor(a!) x) -> Tensor", mutates=("x",))
def bump(x):
    x += 1
    return x.clone()
"""


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that defines the operators `torch.ops.lemurc_test.*`; here it is imported."""
    path = tmp_path_factory.mktemp("library") / "lemurc_test_operators.py"
    path.write_text(OPERATORS)
    import_modules([str(path)])
    return path


@pytest.fixture(scope="module")
def ops(library: Path) -> Any:
    return torch.ops.lemurc_test


class Middle(nn.Module):
    """Compiled work before, between and after, a weight as an operand, two in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        ops = torch.ops.lemurc_test
        y = ops.scale(self.linear(x), 2.5, x.shape[0], dims=[0, 1])
        weight = ops.same(self.linear.weight)
        y = ops.same(ops.scale(torch.relu(y) @ weight, float("inf")).clamp(max=9.0))
        first, places = ops.two(y, None)
        return torch.tanh(first), places


@pytest.fixture(scope="module")
def middle(tmp_path_factory: pytest.TempPathFactory, library: Path) -> CompileResult:
    batch = torch.export.Dim("batch", min=2, max=16)
    return lemurc.compile(
        Middle(),
        (torch.randn(4, 8),),
        dynamic_shapes={"x": {0: batch}},
        output=tmp_path_factory.mktemp("middle") / "middle.lemur",
        targets="cpu:host",
        allow_host_ops=True,
        imports=(str(library),),
    )


def test_custom_operators_between_stages(middle: CompileResult) -> None:
    assert [verdict.status for verdict in middle.verdicts] == ["verified"]
    assert "; host (PyTorch): lemurc_test::same x2, lemurc_test::scale x2" in middle.placement
    with lemurc.load(middle.path, devices=["cpu"]) as session:
        assert session.devices == ("cpu:0", "host")
        torch.manual_seed(0)
        for size in (2, 7, 16):
            x = torch.randn(size, 8)
            got = session(x)
            assert got[0].shape == (size, 8) and got[1].shape == (size,)
        kept = session(x, outputs="device")
        np.testing.assert_array_equal(np.asarray(kept[1]), got[1])


@pytest.mark.vulkan
def test_between_stages_on_vulkan(check: Check, ops: Any) -> None:
    class Crossing(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = ops.scale(torch.relu(x @ x.mT), 2.0)
            return torch.tanh(y), ops.same(y)

    options = {"targets": "vulkan:host", "devices": ["vulkan"], "allow_host_ops": True}
    result, session = check(Crossing(), (torch.randn(4, 4),), **options)
    assert [verdict.status for verdict in result.verdicts] == ["verified"]
    assert {row.device for row in session.placement["main"].devices} == {"vulkan:0", "host"}


def test_an_aten_operator_without_a_lowering(check: Check) -> None:
    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x @ x.mT).relu()

    result, _ = check(Spectrum(), (torch.randn(3, 4, 4),), targets="cpu:host", allow_host_ops=True)
    assert "host (PyTorch): aten::_linalg_eigh" in result.placement


def test_types_pass_unchanged(check: Check, ops: Any) -> None:
    dtypes = (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8)
    dtypes += (torch.uint8, torch.bool)

    class Same(nn.Module):
        def forward(self, *xs: torch.Tensor) -> Any:
            return [ops.same(x.flip(0)) for x in xs]

    values = torch.tensor([0.0, 1.0, 127.0, 200.0])
    check(
        Same(), tuple(values.to(dtype) for dtype in dtypes), targets="cpu:host", allow_host_ops=True
    )


def test_bfloat16(tmp_path: Path, ops: Any) -> None:
    class Same(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return ops.same(x + 1)

    x = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    result = lemurc.compile(Same(), (x,), output=tmp_path / "b.lemur", allow_host_ops=True)
    assert torch.equal(lemurc.load(result.path)(x), x + 1)


def test_a_size_known_when_it_ran_only(check: Check, ops: Any) -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.positive(x * 2) + 1

    _, session = check(Positive(), (torch.randn(9),), allow_host_ops=True)
    for count in (0, 5, 9):
        x = -torch.ones(9)
        x[:count] = 3
        assert torch.equal(session(x), torch.full((count,), 7.0))


def test_state_through_an_operator(check: Check, ops: Any) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.copy_(ops.two(self.total, x)[0])
            return self.total.clone()

    x = torch.arange(6.0).reshape(2, 3)
    result = lemurc.compile(Counter(), (x,), allow_host_ops=True)
    with lemurc.load(result.path) as session:
        want = torch.zeros(2, 3)
        for _ in range(3):
            want = want.flip(0) + x
            assert torch.equal(session(x), want)


def test_only_a_host_stage(check: Check, ops: Any) -> None:
    class Alone(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.same(x)

    result, session = check(Alone(), (torch.randn(3),), allow_host_ops=True)
    assert [(v.target, v.status) for v in result.verdicts] == [("cpu", "verified")]
    x = np.ones(3, np.float32)
    got = session(x)
    assert not np.shares_memory(got, x)


def refused(model: nn.Module, *args: torch.Tensor, **options: Any) -> LemurcError:
    with pytest.raises(LemurcError) as caught:
        lemurc.compile(model, args, **options)
    return caught.value


def test_nothing_falls_back_unasked() -> None:
    error = refused(Middle(), torch.randn(4, 8))
    assert isinstance(error, UnsupportedModelError) and error.code == "unsupported-ops"
    assert "lemurc_test.scale x2 at test_host_ops.py:" in error.message
    assert "--allow-host-ops" in error.hint


def test_strict_refuses() -> None:
    error = refused(Middle(), torch.randn(4, 8), allow_host_ops=True, strict=True)
    assert error.code == "unsupported-ops" and "without --strict" in error.hint


def test_an_operator_that_changes_its_argument_is_refused(ops: Any) -> None:
    class Bump(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.bump(x * 2)

    error = refused(Bump(), torch.randn(3), allow_host_ops=True)
    assert "lemurc_test::bump changes its arguments x1 at test_host_ops.py:" in error.message
    assert "mutates_args=()" in error.hint


def test_random_operators_are_refused() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.poisson(x)

    error = refused(Noise(), torch.ones(3), allow_host_ops=True)
    assert "aten.poisson x1" in error.message
    assert "not on the host either: it draws random numbers" in error.message


def test_another_result_than_the_meta_function_says(ops: Any) -> None:
    class Liar(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.liar(x) + 1

    error = refused(Liar(), torch.ones(3), allow_host_ops=True)
    assert isinstance(error, VerificationError)
    assert "result 0 of lemurc_test::liar is float64[3]" in error.message
    assert "float32[3]" in error.message


def test_a_list_of_results(check: Check, ops: Any) -> None:
    class Parts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = ops.parts(x.exp())
            head, tail = first.split(2)
            return head * tail + second.sum()

    check(Parts(), (torch.ones(4),), targets="cpu:host", allow_host_ops=True)


def test_an_exception_of_the_operator(tmp_path: Path, ops: Any) -> None:
    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.picky(x)

    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}
    path = tmp_path / "picky.lemur"
    lemurc.compile(
        Picky(), (torch.ones(3),), dynamic_shapes=shapes, output=path, allow_host_ops=True
    )
    with lemurc.load(path) as session:
        with pytest.raises(DeviceError, match="lemurc_test::picky: ValueError: too long") as caught:
            session(np.ones(5, np.float32))
        assert caught.value.code == "host-op-failed"
        np.testing.assert_array_equal(session(np.ones(2, np.float32)), [2, 2])


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": ({"tensor": 7},)},
        {"arguments": ({"code": "os.system"},)},
        {"inputs": ()},
        {"results": ()},
        {"inputs": ("float33",)},
        {"op": "same"},
    ],
    ids=str,
)
def test_a_damaged_description(
    changes: dict[str, Any], middle: CompileResult, tmp_path: Path
) -> None:
    """Rewritten with hashes that fit, as no accident does."""
    with Artifact.open(middle.path) as artifact:
        manifest = artifact.manifest
        name, stage = next(
            (n, s) for n, s in manifest.stages.items() if s.host and s.host.op.endswith("scale")
        )
        assert stage.host is not None
        broken = dataclasses.replace(stage, host=dataclasses.replace(stage.host, **changes))
        entries = {n: bytes(artifact.entry(n)) for n in manifest.files if n != "weights.irpa"}
        weights = {n: artifact.weight(n) for n in manifest.weights}
        stages = manifest.stages | {name: broken}
        path = tmp_path / "broken.lemur"
        write(path, dataclasses.replace(manifest, stages=stages, files={}), entries, weights)
    with pytest.raises(ArtifactError) as caught:
        lemurc.load(path)
    assert caught.value.code == "corrupt-artifact"


def test_the_description_survives_json(middle: CompileResult, tmp_path: Path) -> None:
    with Artifact.open(middle.path) as artifact:
        call = next(s.host for s in artifact.manifest.stages.values() if s.host)
        assert isinstance(call, mf.HostCall) and artifact.manifest.imports
        text = mf.to_json(artifact.manifest)
    assert mf.from_json(text) == artifact.manifest


def child(script: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *argv], capture_output=True, text=True
    )


def test_without_pytorch(middle: CompileResult) -> None:
    done = child(
        """
        import sys
        sys.modules["torch"] = None
        from lemurc.tools.cli import run
        raise SystemExit(run(["run", sys.argv[1]]))
        """,
        str(middle.path),
    )
    assert done.returncode == DeviceError.exit_status, done.stderr
    assert "host-needs-torch" in done.stderr and "pip install torch==" in done.stderr
    assert "lemurc_test::scale" in done.stderr and "Traceback" not in done.stderr


def test_no_code_runs_that_was_not_named(middle: CompileResult, library: Path) -> None:
    script = """
        import sys
        from lemurc.tools.cli import run
        artifact, library = sys.argv[1:]
        print(run(["run", artifact]), "lemurc_test_operators" in sys.modules)
        print(run(["run", artifact, "--import", "no_such_module"]))
        print(run(["verify", artifact, "--import", library]))
        print(run(["bench", artifact, "--iterations", "2"]))
        """
    done = child(script, str(middle.path), str(library))
    assert f"{UsageError.exit_status} False\n" in done.stdout
    assert done.stdout.count("0\n") >= 2, done.stdout + done.stderr
    for said in ("host-op-unknown", f"--import {library}", "import-not-found", "no_such_module"):
        assert said in done.stderr
    assert "verified" in done.stdout and "host (PyTorch): lemurc_test::same" in done.stdout


def test_inspect_names_them(middle: CompileResult, library: Path) -> None:
    shown = lemurc.inspect(middle.path)
    assert [s.host for s in shown.stages if s.host].count("lemurc_test::scale") == 2
    assert shown.imports == (str(library),)


def test_bisect_leaves_them_to_pytorch(tmp_path: Path, ops: Any) -> None:
    class Small(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.same(x.exp()) + 1

    found = lemurc.bisect(Small(), (torch.ones(3),), output=tmp_path, allow_host_ops=True)
    assert found.ok and found.trials == 1
