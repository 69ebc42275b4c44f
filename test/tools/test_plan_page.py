"""The page of `lemurc plan --html`, in a real browser where there is one."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lemurc
from lemurc.errors import UsageError
from lemurc.explanation import Alternative, ExplainedFunction, ExplainedOperation, Neighbour
from lemurc.manifest import Transfer
from lemurc.tools.measured import read_measured
from lemurc.tools.plan import (
    PlannedDevices,
    PlannedFunction,
    PlannedMemory,
    PlannedStep,
    PlanResult,
)
from lemurc.tools.plan_page import page
from lemurc.tools.timeline import memory, predicted

EVIL = "</script><script>document.title='broken'</script><img src=x onerror=document.title=1>&amp;"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def step(stage: str, device: str, reads: tuple[str, ...], makes: str, **more: Any) -> PlannedStep:
    known: dict[str, Any] = {
        "paths": (f"layer.{stage}",),
        "ops": {"linear": 2},
        "flops": 10,
        "bytes": 64,
        "seconds": 1.0,
        "weights": 100,
        "memory": 60,
        "held": 40,
    }
    return PlannedStep(stage=stage, device=device, reads=reads, makes=(makes,), **(known | more))


def operation(value: str, stage: str, device: str, path: str) -> ExplainedOperation:
    return ExplainedOperation(
        value=value,
        values=(value,),
        needs=("input:0",),
        kind="gelu+linear",
        members=("linear", "gelu"),
        paths=(path,),
        line="net.py:12",
        device=device,
        why="pinned",
        flops=10,
        bytes=64,
        seconds=1.0,
        alternatives=(
            Alternative("gpu", "type f64"),
            Alternative("cpu", "", seconds=2.0, call_seconds=4.5),
        ),
        apart=(Neighbour("reader", "softmax", path, "softmax is not elementwise"),),
        pins=(f"{path}={device}",),
        stage=stage,
    )


def result(path: str = "encoder.0") -> PlanResult:
    """Two stages that need nothing of each other, and one that needs both."""
    function = PlannedFunction(
        name="main",
        seconds=4.0,
        seconds_by_device={"cpu": 2.0, "gpu": 1.0},
        transfer_seconds=1.0,
        transfer_bytes=32,
        crossings=2,
        transfers=(
            Transfer("input:0", "cpu", "gpu", 16, 0.5, 1),
            Transfer("v1", "gpu", "cpu", 16, 0.5, 2),
        ),
        memory={"cpu": PlannedMemory(200, 60, 260), "gpu": PlannedMemory(100, 60, 160)},
        steps=(
            step("s0", "cpu", ("input:0",), "v0", paths=(path,)),
            step("s1", "gpu", ("input:0",), "v1"),
            step("s2", "cpu", ("v0", "v1"), "v2"),
        ),
    )
    explained = ExplainedFunction(
        "main", 4.0, "optimal", "latency", (), (operation("v0", "s0", "cpu", path),)
    )
    plans = (PlannedDevices(("cpu", "gpu"), (function,)),)
    return PlanResult(f"net {path}", "model", plans, {}, (f"a note on {path}",), (explained,))


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of the browsers {', '.join(BROWSERS)} is here: see `make chromium`")
    return found


def dom(browser: str, text: str, folder: Path, fragment: str = "") -> str:
    """The page as the browser has it when its script has run."""
    (folder / "plan.html").write_text(text, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    ran = subprocess.run(
        [browser, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         f"file://{folder / 'plan.html'}{fragment}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def body(text: str) -> str:
    """Without the data and the script, whose words are no proof of what is shown."""
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_what_overlaps_is_told_apart() -> None:
    spans = {span.name: span for span in predicted(result().plans[0].functions[0])}
    assert (spans["s0"].begin, spans["s0"].end) == (0.0, 1.0)
    assert (spans["input:0"].begin, spans["input:0"].end) == (0.0, 0.5)
    assert (spans["s1"].begin, spans["s1"].end) == (0.5, 1.5), "beside s0, after its input"
    assert spans["v1"].lane == "gpu -> cpu" and spans["v1"].end == 2.0
    assert (spans["s2"].begin, spans["s2"].end) == (2.0, 3.0)


def test_memory_over_time() -> None:
    function = result().plans[0].functions[0]
    levels = memory(function, predicted(function))
    # s0 runs with 60 and leaves 40; v1 arrives; s2 runs with 60 and leaves 40
    assert levels["cpu"] == [
        [0.0, 0.0],
        [0.0, 60.0],
        [1.0, 40.0],
        [2.0, 56.0],
        [2.0, 60.0],
        [3.0, 40.0],
    ]
    assert levels["gpu"] == [[0.0, 0.0], [0.5, 16.0], [0.5, 60.0], [1.5, 40.0]]


def test_a_plan_without_predictions_has_no_timeline() -> None:
    function = result().plans[0].functions[0]
    bare = tuple(dataclasses.replace(step, seconds=None) for step in function.steps)
    assert predicted(dataclasses.replace(function, steps=bare)) == ()


def test_the_page_asks_nothing_of_the_network() -> None:
    text = page(result())
    assert not re.findall(r"(?:src|href)\s*=", text)
    assert set(re.findall(r"https?://[^\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_page_shows_stages_operations_times_and_memory(browser: str, tmp_path: Path) -> None:
    shown = body(dom(browser, page(result()), tmp_path))
    assert 'data-ready="main"' in shown, "the script ran to its end"
    assert re.findall(r'data-stage="(\w+)"', shown) == ["s0", "s1", "s2"]
    assert re.findall(r'class="op"[^>]*data-value="(\w+)"', shown) == ["v0"]
    spans = re.findall(r'class="span"[^>]*data-name="([\w:]+)"', shown)
    assert sorted(spans) == ["input:0", "s0", "s1", "s2", "v1"]
    for words in ("4 s", "3 s", "with what overlaps", "200 B of weights", "net encoder.0"):
        assert words in shown, words


def test_an_operation_explains_itself(browser: str, tmp_path: Path) -> None:
    shown = html.unescape(body(dom(browser, page(result()), tmp_path, "#v0")))
    tip = shown[shown.index('id="tip"') :]
    for words in (
        "v0 gelu+linear",
        "on cpu in s0: pinned by encoder.0=cpu",
        "not on gpu: type f64",
        "the call 500 ms more",
        "not fused with softmax (encoder.0), which reads it: softmax is not elementwise",
    ):
        assert words in tip, words


def test_no_name_breaks_out_of_the_data(browser: str, tmp_path: Path) -> None:
    text = page(result(EVIL))
    assert text.count("</script>") == 2, "that of the data and that of the script"
    shown = dom(browser, text, tmp_path, "#v0")
    assert 'data-ready="main"' in shown
    assert "<title>broken</title>" not in shown and "<title>1</title>" not in shown
    assert "<img" not in body(shown)
    assert EVIL in html.unescape(body(shown)), "it is shown as it is called"


def trace_of(stages: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Two calls, the second one shorter; times in microseconds."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "cpu:0"}}
    ]
    for number, (start, length) in enumerate([(0.0, 9.0), (10.0, 5.0), (20.0, 7.0)]):
        call = {"ph": "X", "pid": 1, "tid": 1, "name": "call", "cat": "call", "args": {}}
        events.append(call | {"ts": start, "dur": length})
        for name, (begin, took) in stages.items():
            args = {"call": number, "stage": name}
            slice_ = {"ph": "X", "pid": 1, "tid": 2, "name": name, "cat": "stage", "args": args}
            events.append(slice_ | {"ts": start + begin, "dur": took * (number + 1)})
    return {"traceEvents": events, "otherData": {"function": "main"}}


def test_measured_times_of_a_trace(browser: str, tmp_path: Path) -> None:
    planned = result()
    functions = {f.name: f for f in planned.plans[0].functions}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace_of({"s0": (0, 1), "s1": (1, 1), "s2": (2, 1)})))
    measured = read_measured(path, functions)
    assert measured.seconds == pytest.approx(7e-6), "the call of median length"
    assert [span.end - span.begin for span in measured.spans] == pytest.approx([3e-6] * 3)
    shown = body(dom(browser, page(planned, measured), tmp_path))
    assert "measured: 7 us" in shown and "cpu:0" in shown
    assert shown.count('data-name="s1"') == 2, "predicted and measured"


def test_measured_times_of_a_bench(tmp_path: Path) -> None:
    functions = {f.name: f for f in result().plans[0].functions}
    steps = [{"stage": name, "measured": 2.0} for name in ("s0", "s1", "s2")]
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"function": "main", "timings": [{"steps": steps, "median": 6.0}]}))
    measured = read_measured(path, functions)
    stages = [span for span in measured.spans if span.kind == "stage"]
    assert [(s.name, s.begin, s.end) for s in stages] == [
        ("s0", 0.0, 2.0), ("s1", 0.5, 2.5), ("s2", 3.0, 5.0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "holds no times"),
        ("[]", "holds no times"),
        ('{"schema": "plan.v1"}', "holds no times"),
        (json.dumps(trace_of({"s0": (0, 1), "s7": (1, 1)})), "the stages s0, s7"),
    ],
)
def test_times_of_something_else(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "times.json"
    path.write_text(text)
    functions = {f.name: f for f in result().plans[0].functions}
    with pytest.raises(UsageError, match=words) as error:
        read_measured(path, functions)
    assert error.value.code == "bad-measured"


def test_the_flag(lemurc_cli: Any, world: Any, tmp_path: Path) -> None:
    output = tmp_path / "plan.html"
    ran = lemurc_cli("plan", "model.lemur", "--html", str(output))
    assert ran.status == 0, ran.err
    assert f"wrote {output}" in ran.out
    assert '"model": "net"' in output.read_text()
    assert lemurc_cli("plan", "model.lemur", "--measured", "t.json").status == 2
    nowhere = lemurc_cli("plan", "model.lemur", "--html", str(tmp_path / "no" / "plan.html"))
    assert nowhere.status == 2 and "cannot write" in nowhere.err


def test_the_page_of_a_model_explains_every_operation(tmp_path: Path, browser: str) -> None:
    pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")
    model = tmp_path / "net.py"
    model.write_text(
        "import torch\n"
        "def build():\n"
        "    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))\n"
        "    return net.eval(), (torch.randn(2, 8),)\n"
    )
    output = tmp_path / "model.html"
    plan = lemurc.plan(f"{model}:build", targets="cpu,vulkan", pins=("0=vulkan",), html=output)
    assert plan.explanations == (), "not asked for in the result itself"
    shown = body(dom(browser, output.read_text(), tmp_path))
    assert len(re.findall(r'class="op"', shown)) == 2
