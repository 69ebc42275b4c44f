"""Each verb against a runtime made of stubs: what it prints, and its JSON."""

import dataclasses
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

import lemurc
from lemurc.errors import DeviceError
from lemurc.verification import Verdict

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def load_generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", SCHEMAS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(document: Any) -> Any:
    """`document` if it is what its schema says."""
    import json

    schema = json.loads((SCHEMAS / f"{document['schema']}.json").read_text())
    jsonschema.validate(document, schema)
    return document


def test_schemas_are_those_of_the_dataclasses() -> None:
    import json

    generator = load_generator()
    for name in generator.DOCUMENTS:
        stored = json.loads((SCHEMAS / f"{name}.json").read_text())
        assert stored == generator.schema(name), "run python docs/schema/generate.py"


def test_manifest_schema(world: Any) -> None:
    import json

    from lemurc.manifest import to_json

    schema = json.loads((SCHEMAS / "manifest.v1.json").read_text())
    jsonschema.validate(json.loads(to_json(world.artifact.manifest)), schema)


def test_run_uses_and_checks_golden_inputs(lemurc_cli: Any, world: Any) -> None:
    ran = lemurc_cli("run", "model.lemur")
    assert ran.status == 0
    assert "golden outputs: equal" in ran.out
    assert "placement: cpu:0 3/3 ops" in ran.out
    assert "2x3" in ran.out and "float32" in ran.out


def test_run_fails_when_golden_outputs_differ(lemurc_cli: Any, world: Any) -> None:
    world.session.error = 0.1
    ran = lemurc_cli("run", "model.lemur", "--json")
    assert ran.status == 4
    assert not check(ran.json)["ok"], "one document: the result, not the error too"
    assert "differs from its golden value" in ran.err


def test_run_json(lemurc_cli: Any, world: Any) -> None:
    document = check(lemurc_cli("run", "model.lemur", "--json").json)
    assert document["inputs_from"] == "golden"
    assert document["outputs"][0]["mean"] == 2.0


def test_run_with_inputs_writes_outputs(lemurc_cli: Any, world: Any, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out.npz"
    argv = ("--input", f"x=@{tmp_path / 'x.npy'}", "--output", str(out), "--device", "cpu:0")
    ran = lemurc_cli("run", "model.lemur", *argv)
    assert ran.status == 0, ran.err
    assert "golden" not in ran.out
    assert world.session.loads == [("cpu:0",)]
    assert np.array_equal(np.load(out)["y"], x * 2)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_run_draws_inputs_when_there_are_none(lemurc_cli: Any, world: Any) -> None:
    world.artifact.recorded.clear()
    ran = lemurc_cli("run", "model.lemur")
    assert ran.status == 0
    assert "drawn" in ran.err
    assert "1x3" in ran.out, "a symbolic dimension gets its smallest size"


@pytest.mark.parametrize(
    ("inputs", "status", "words"),
    [
        (["z=2x3xf32"], 8, "no input z"),
        (["2x3xf32", "2x3xf32"], 8, "2 unnamed"),
        (["2x3xfloat99"], 2, "not a dtype"),
        (["@nowhere.npy"], 2, "no file"),
        (["2by3"], 2, "SHAPExDTYPE"),
    ],
)
def test_bad_inputs_say_what_is_wrong(
    lemurc_cli: Any, world: Any, inputs: list[str], status: int, words: str
) -> None:
    flags = [part for value in inputs for part in ("--input", value)]
    ran = lemurc_cli("run", "model.lemur", *flags)
    assert ran.status == status
    assert words in ran.err


def test_unknown_function(lemurc_cli: Any, world: Any) -> None:
    ran = lemurc_cli("bench", "model.lemur", "--function", "decode")
    # the only function is taken when none is named, never when another one is
    assert ran.status == 2
    assert "it has main" in ran.err


def test_verify(lemurc_cli: Any, world: Any) -> None:
    ran = lemurc_cli("verify", "model.lemur", "--json")
    assert ran.status == 0
    document = check(ran.json)
    statuses = {row["device"]: row["status"] for row in document["checks"]}
    assert statuses == {"cpu:0": "verified", "cuda": "not run"}


def test_verify_several_devices_together_first(lemurc_cli: Any, world: Any) -> None:
    world.devices["cuda"] = ("cuda:0",)
    assert lemurc_cli("verify", "model.lemur").status == 0
    assert world.session.loads == [["cpu:0", "cuda:0"], ["cpu:0"], ["cuda:0"]]


def test_verify_fails_on_a_wrong_device(lemurc_cli: Any, world: Any) -> None:
    world.session.error = 0.1
    ran = lemurc_cli("verify", "model.lemur")
    assert ran.status == 4
    assert "wrong on cpu:0" in ran.err


def test_verify_that_ran_nothing_is_not_a_success(lemurc_cli: Any, world: Any) -> None:
    world.load_error = DeviceError("out of memory")
    ran = lemurc_cli("verify", "model.lemur")
    assert ran.status == 6
    assert "nothing was verified" in ran.err


def test_verify_without_golden_outputs(lemurc_cli: Any, world: Any) -> None:
    world.artifact.recorded.clear()
    assert lemurc_cli("verify", "model.lemur").status == 5


def test_bench(lemurc_cli: Any, world: Any) -> None:
    argv = ("bench", "model.lemur", "--iterations", "7", "--warmup", "1", "--per-device")
    document = check(lemurc_cli(*argv, "--json").json)
    assert [timing["calls"] for timing in document["timings"]] == [7, 7]
    assert document["timings"][0]["predicted"] == 1e-4
    (step,) = document["timings"][0]["steps"]
    assert (step["predicted"], step["measured"]) == (1.1e-4, 1e-4)
    assert document["timings"][0]["mean_error"] == pytest.approx(0.1)
    text = lemurc_cli(*argv).out
    assert "median" in text and "cores" in text
    assert "110 us" in text and "+10%" in text and "mean error 10.0% over 1 stages" in text


def test_bench_of_an_artifact_without_predictions(lemurc_cli: Any, world: Any) -> None:
    plan = dataclasses.replace(world.artifact.manifest.plans[0], predicted={})
    world.artifact.manifest = dataclasses.replace(world.artifact.manifest, plans=(plan,))
    document = check(lemurc_cli("bench", "model.lemur", "--iterations", "2", "--json").json)
    assert document["timings"][0]["mean_error"] is None
    assert document["timings"][0]["steps"][0]["predicted"] is None
    assert "mean error" not in lemurc_cli("bench", "model.lemur", "--iterations", "2").out


def test_inspect(lemurc_cli: Any, world: Any) -> None:
    document = check(lemurc_cli("inspect", "model.lemur", "--json").json)
    assert document["targets"] == {"cpu": ["x86-64-v3"], "cuda": ["sm_80"]}
    text = lemurc_cli("inspect", "model.lemur").out
    assert "n:1..8x3" in text and "linear x3" in text and "stage0@cpu:0" in text


def test_devices(lemurc_cli: Any, world: Any) -> None:
    document = check(lemurc_cli("devices", "--json").json)
    assert document["devices"][0]["name"] == "cpu:0"
    assert "none: no driver" in lemurc_cli("devices").out


def test_targets(lemurc_cli: Any) -> None:
    pytest.importorskip("lemurc.targets.registry", reason="the targets are a part of their own")
    names = [row["name"] for row in check(lemurc_cli("targets", "--json").json)["targets"]]
    assert {"cpu", "cuda", "rocm", "vulkan"} <= set(names)
    out = lemurc_cli("targets").out
    assert "sm_80*" in out
    assert "host*, baseline" in out
    assert "cuda: sm_90, sm_90a, h100, h200, hopper" in out
    assert "GPU here" in " ".join(lemurc_cli("compile", "--help").out.split())


def test_doctor(lemurc_cli: Any, world: Any) -> None:
    ran = lemurc_cli("doctor", "--json")
    document = check(ran.json)
    assert document["can_run"] and ran.status == 0
    names = {item["name"] for item in document["items"]}
    assert {"python", "devices"} <= names
    assert {"numpy", "torch"} <= names or "lemurc" in names, "the pins, or why there are none"


def test_doctor_without_a_device(lemurc_cli: Any, world: Any) -> None:
    world.devices.clear()
    ran = lemurc_cli("doctor")
    assert ran.status == 6
    assert "run artifacts: NO" in ran.out


def compiled(world: Any, seen: dict[str, Any]) -> Any:
    def fake(model: str, **choices: Any) -> Any:
        seen.update(choices, model=model)
        choices["progress"]("compile", 1, 2, "cpu")
        return SimpleNamespace(
            path=choices["output"],
            manifest=world.artifact.manifest,
            placement="cpu:0 3/3 ops",
            verdicts=[
                Verdict("cpu", "verified", 3e-7),
                Verdict("cuda", "not run", detail="no device; program verified on cpu"),
            ],
            sizes={"code": 2048},
            seconds={"frontend": 1.5},
            notes=["sm_90 is compiled as sm_89"],
        )

    return fake


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the compile side were installed."""
    monkeypatch.setattr("lemurc.tools.commands.compile.require_compiler", lambda: None)


@pytest.mark.usefixtures("compiler")
def test_compile(lemurc_cli: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setitem(vars(lemurc), "compile", compiled(world, seen))
    argv = "compile net.py:build --targets cpu,cuda --input 2x3xf32 --budget 10m --max-rss 8G -O3"
    ran = lemurc_cli(*argv.split(), "--pin", "a.*=cpu", "--no-golden", "--no-verify")
    assert ran.status == 0, ran.err
    assert seen["budget_s"] == 600 and seen["max_rss"] == 8 * 2**30 and seen["opt_level"] == 3
    assert seen["golden"] == "none" and seen["pins"] == ("a.*=cpu",) and not seen["verify"]
    assert seen["output"] == "net.lemur"
    assert "cuda:  not run" in ran.out
    assert ran.out.splitlines()[-1] == "next: lemurc run net.lemur"


@pytest.mark.usefixtures("compiler")
def test_compile_flags_are_the_options(
    lemurc_cli: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from lemurc.options import CompileOptions

    seen: dict[str, Any] = {}
    monkeypatch.setitem(vars(lemurc), "compile", compiled(world, seen))
    check(lemurc_cli("compile", "net.pt2", "--json").json)
    fields = {field.name: field.default for field in dataclasses.fields(CompileOptions)}
    given = {name: seen[name] for name in seen if name not in ("model", "targets", "output")}
    assert set(given) == set(fields)
    del given["progress"], fields["progress"]
    assert given == fields, "a flag's default is the option's default"
