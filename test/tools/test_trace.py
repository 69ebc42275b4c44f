"""`lemurc trace`: valid to Perfetto's rules, true to the plan, and not in the way of the call."""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import lemurc
from lemurc.errors import UsageError

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def build():
    return Net().eval(), (torch.randn(512, 1024),)
"""
VALUE = 512 * 1024 * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model cut into two stages, for two CPU devices and for one and Vulkan."""
    pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")
    here = tmp_path_factory.mktemp("trace")
    (here / "net.py").write_text(MODEL)
    for name, targets, second in (("cpus", "cpu", "cpu:1"), ("mixed", "cpu,vulkan", "vulkan")):
        first = "cpu:0" if name == "cpus" else "cpu"
        lemurc.compile(
            f"{here / 'net.py'}:build",
            targets=targets,
            pins=(f"first={first}", f"second={second}"),
            verify=False,
            output=here / f"{name}.lemur",
        )
    return here


def traced(path: Path, folder: Path, **options: Any) -> tuple[Any, Any]:
    output = folder / "trace.json"
    result = lemurc.trace(path, output=output, **options)
    return result, check(json.loads(output.read_text()))


def check(document: Any) -> Any:
    """The rules of Chrome's trace event format, as Perfetto reads it."""
    events = document["traceEvents"]
    slices: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    named: dict[str, set[Any]] = {"process_name": set(), "thread_name": set()}
    flows: dict[int, dict[str, Any]] = defaultdict(dict)
    for event in events:
        assert event["ph"] in {"M", "X", "s", "f"}
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str) and event["name"]
        where = (event["pid"], event["tid"])
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "thread_name", "process_sort_index"}
            if event["name"] in named:
                assert event["args"]["name"]
                named[event["name"]].add(where if event["name"] == "thread_name" else where[0])
            continue
        assert event["ts"] >= 0 and isinstance(event["cat"], str)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[where].append((event["ts"], event["ts"] + event["dur"]))
        else:
            assert event["ph"] not in flows[event["id"]], "an id is of one arrow"
            flows[event["id"]][event["ph"]] = event
    assert slices.keys() <= named["thread_name"]
    assert {pid for pid, _ in slices} <= named["process_name"]
    for spans in slices.values():
        # one thread's slices lie after or inside one another, never across
        for (a, b), (c, d) in itertools.pairwise(sorted(spans, key=lambda s: (s[0], -s[1]))):
            assert c >= b - 1e-3 or d <= b + 1e-3, f"{(a, b)} and {(c, d)} cross"
    for flow in flows.values():
        assert flow.keys() == {"s", "f"} and flow["f"]["bp"] == "e"
        assert flow["s"]["ts"] <= flow["f"]["ts"] + 1e-3
        for event in flow.values():
            spans = slices[event["pid"], event["tid"]]
            assert any(a - 1e-3 <= event["ts"] <= b + 1e-3 for a, b in spans)
    return document


def of_kind(document: Any, kind: str) -> list[Any]:
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] == kind]


def process(document: Any, event: Any) -> str:
    return next(
        str(e["args"]["name"])
        for e in document["traceEvents"]
        if e["name"] == "process_name" and e["pid"] == event["pid"]
    )


def test_every_stage_of_every_call_on_its_device(folder: Path, tmp_path: Path) -> None:
    result, document = traced(folder / "cpus.lemur", tmp_path, calls=3)
    stages = of_kind(document, "stage")
    assert [e["args"]["call"] for e in stages] == [0, 0, 1, 1, 2, 2]
    assert [process(document, e) for e in stages[:2]] == ["cpu:0", "cpu:1"]
    assert stages[0]["dur"] > 100, "a gigaflop takes longer"
    assert [e["name"] for e in stages[:2]] == ["s0 first", "s1 second"]
    assert stages[0]["args"]["flops"] >= 2 * 512 * 1024 * 1024
    assert stages[0]["args"]["predicted_us"] > 0
    calls = of_kind(document, "call")
    assert result.calls == len(calls) == 3
    for call, first, second in zip(calls, stages[::2], stages[1::2], strict=True):
        assert call["ts"] <= first["ts"] < first["ts"] + first["dur"] <= second["ts"] + 1e-3
        assert second["ts"] + second["dur"] <= call["ts"] + call["dur"] + 1e-3
    jsonschema.validate(
        {"schema": "trace.v1", **json.loads(json.dumps(lemurc.tools.report.plain(result)))},
        json.loads((SCHEMAS / "trace.v1.json").read_text()),
    )


def test_arrows_lead_from_what_makes_a_value_to_what_reads_it(folder: Path, tmp_path: Path) -> None:
    _, document = traced(folder / "cpus.lemur", tmp_path, calls=1)
    first, second = of_kind(document, "stage")
    arrows = {(e["id"], e["ph"]): e for e in document["traceEvents"] if e["ph"] in "sf"}
    pairs = [(arrows[n, "s"], arrows[n, "f"]) for n in {n for n, _ in arrows}]
    assert any(s["pid"] == first["pid"] and f["pid"] == second["pid"] for s, f in pairs)


def test_the_call_is_as_asynchronous_as_ever(folder: Path, tmp_path: Path) -> None:
    """The second stage is queued while the first, of a gigaflop, runs: in some call at least,
    since the system may keep the thread that queues from running."""
    _, document = traced(folder / "cpus.lemur", tmp_path, calls=3)
    queued = [e for e in of_kind(document, "queue") if e["name"] == "queue s1"]
    first = [e for e in of_kind(document, "stage") if e["args"]["stage"] == "s0"]
    assert len(queued) == 3
    assert any(
        queue["ts"] + queue["dur"] < stage["ts"] + stage["dur"]
        for queue, stage in zip(queued, first, strict=True)
    )


@pytest.mark.vulkan
def test_transfers_have_bytes(folder: Path, tmp_path: Path) -> None:
    result, document = traced(folder / "mixed.lemur", tmp_path, calls=1, warmup=1)
    there, back = (
        [e for e in of_kind(document, "transfer") if e["args"]["value"] == value]
        for value in ("v0.0", "v1")
    )
    assert {process(document, e) for e in there} == {"cpu:0", "vulkan:0"}
    assert [e["args"]["bytes"] for e in there] == [VALUE, VALUE]
    assert [e["args"]["bytes"] for e in back] == [VALUE]
    assert result.tracks[-1].device == "vulkan:0" and result.tracks[-1].bytes == 2 * VALUE


DESCRIBED = {
    "schema": "system.v1",
    "devices": [{"name": f"cpu:{n}", "target": "cpu", "threads": 1} for n in (0, 1)],
    "links": [
        {"src": f"cpu:{n}", "dst": f"cpu:{1 - n}", "latency": 5e-3, "bandwidth": 1e9}
        for n in (0, 1)
    ],
}
LINK_US = (5e-3 + VALUE / 1e9) * 1e6


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(DESCRIBED))
    return path


def test_simulated_devices_and_links(folder: Path, tmp_path: Path, described: Path) -> None:
    result, document = traced(folder / "cpus.lemur", tmp_path, calls=2, simulate=described)
    assert result.late_p90 == 0.0, "they take their own times"
    stages = of_kind(document, "stage")
    assert [process(document, e) for e in stages] == ["cpu:0", "cpu:1"] * 2
    moved = [e for e in of_kind(document, "transfer") if "->" in process(document, e)]
    assert [process(document, e) for e in moved] == ["cpu:0 -> cpu:1", "cpu:1 -> cpu:0"] * 2
    assert [e["args"]["value"] for e in moved[:2]] == ["v0", "v1"]
    for event in moved:
        assert event["args"]["bytes"] == VALUE
        assert event["dur"] >= 0.99 * LINK_US
    there, second = moved[0], stages[1]
    assert stages[0]["ts"] + stages[0]["dur"] <= there["ts"] + 1
    assert there["ts"] + there["dur"] <= second["ts"] + 1


def test_a_stream_of_calls(folder: Path, tmp_path: Path, described: Path) -> None:
    """A device begins the next request before the other device is done with this one."""
    _, document = traced(folder / "cpus.lemur", tmp_path, calls=6, simulate=described, stream=True)
    calls, stages = of_kind(document, "call"), of_kind(document, "stage")
    assert len(calls) == 6 and len(stages) == 12
    first = {e["args"]["call"]: e for e in stages if e["args"]["stage"] == "s0"}
    second = {e["args"]["call"]: e for e in stages if e["args"]["stage"] == "s1"}
    overlapped = [n for n in range(5) if first[n + 1]["ts"] < second[n]["ts"] + second[n]["dur"]]
    assert len(overlapped) >= 3
    assert len({e["tid"] for e in calls}) > 1, "calls in flight lie beside each other"


def test_a_run_can_be_traced(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    plain = lemurc.run(folder / "cpus.lemur")
    ran = lemurc.run(folder / "cpus.lemur", trace=output)
    assert ran.ok and ran.outputs == plain.outputs
    document = check(json.loads(output.read_text()))
    assert len(of_kind(document, "call")) == 1 and len(of_kind(document, "stage")) == 2


def test_after_the_recording_calls_are_plain(folder: Path) -> None:
    x = np.ones((512, 1024), np.float32)
    with lemurc.load(folder / "cpus.lemur") as session:
        with session.recorded() as recorder:
            inside = session(x)
        count = len(recorder.work)
        assert np.array_equal(session(x), inside)
        assert len(recorder.work) == count > 0


def test_where_it_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        lemurc.trace(folder / "cpus.lemur", output=tmp_path / "nowhere" / "trace.json")
    assert error.value.code == "unwritable-output"


def test_the_text(lemurc_cli: Any, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    ran = lemurc_cli("trace", str(folder / "cpus.lemur"), "-o", str(output), "--calls", "2")
    assert ran.status == 0, ran.err
    assert "2 calls of" in ran.out and "times are late by" in ran.out
    assert "cpu:1" in ran.out and f"wrote {output}" in ran.out
