"""`lemurc plan`: the plans that `compile` makes, before anything is compiled."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import lemurc
from lemurc.errors import UsageError
from lemurc.system_file import DeviceDescription, SystemDescription, write_system

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = torch.nn.Linear(8, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.down = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.down(self.norm(torch.relu(self.up(x))))

def build():
    return Net().eval(), (torch.randn(2, 8),)
"""
PINS = ("up=cpu", "norm=vulkan", "down=cpu")
F32 = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")
    path = tmp_path_factory.mktemp("plan") / "net.py"
    path.write_text(MODEL)
    return f"{path}:build"


@pytest.fixture(scope="module")
def cut(model: str) -> Any:
    return lemurc.plan(model, targets="cpu,vulkan", pins=PINS)


def test_an_artifact_has_the_plans_that_were_shown(model: str, cut: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.lemur"
    lemurc.compile(model, targets="cpu,vulkan", pins=PINS, verify=False, output=path)
    stored = lemurc.plan(path)
    assert stored.made_from == "artifact" and cut.made_from == "model"
    assert stored.plans == cut.plans
    assert len(cut.plans) > 1


def test_what_crosses_and_what_memory_holds(cut: Any) -> None:
    function = cut.plans[0].functions[0]
    assert [step.device for step in function.steps] == ["cpu", "vulkan", "cpu"]
    hidden, result = 2 * 32 * F32, 2 * 4 * F32
    assert [(t.source, t.target, t.bytes, t.before) for t in function.transfers] == [
        ("cpu", "vulkan", hidden, 1),
        ("vulkan", "cpu", hidden, 2),
    ]
    assert function.transfer_bytes == 2 * hidden and function.crossings == 2
    linear = (8 * 36 + 32) * F32, (32 * 16 + 4) * F32  # in whole tiles of rows
    assert [step.weights for step in function.steps] == [linear[0], 2 * 32 * F32, linear[1]]
    cpu, vulkan = function.memory["cpu"], function.memory["vulkan"]
    assert cpu.weights == sum(linear) and vulkan.weights == 2 * 32 * F32
    # the first stage has the input and its result, the last what comes back and the result
    assert cpu.activations >= max(2 * 8 * F32 + hidden, hidden + result)
    assert vulkan.activations >= 2 * hidden
    assert cpu.peak == cpu.weights + cpu.activations


def test_seconds_add_up(cut: Any) -> None:
    for plan in cut.plans:
        for function in plan.functions:
            computing = sum(step.seconds for step in function.steps)
            moving = sum(transfer.seconds for transfer in function.transfers)
            assert function.seconds == pytest.approx(computing + moving)
            assert function.transfer_seconds == pytest.approx(moving)


def test_the_objective_decides(model: str, tmp_path: Path) -> None:
    """One device is fast and one roomy: latency wants all on the first, memory spreads."""
    figures = {"flops": 1e12, "bandwidth": 1e11, "launch": 1e-6, "call": 1e-6}
    described = {
        "schema": "system.v1",
        "devices": [
            {"name": "cpu:0", "target": "cpu", **figures},
            {"name": "cpu:1", "target": "cpu", **figures, "slowdown": 20.0},
        ],
    }
    system = tmp_path / "system.json"
    system.write_text(json.dumps(described))

    def used(objective: str) -> set[str]:
        result = lemurc.plan(model, system=system, objective=objective)
        return {step.device for step in result.plans[0].functions[0].steps}

    assert used("latency") == {"cpu:0"}
    assert used("memory") == {"cpu:0", "cpu:1"}


def explained(model: str, *pins: str, glob: str = "norm") -> Any:
    result = lemurc.plan(model, targets="cpu,vulkan", pins=pins, explain=glob)
    return result.explanations[0]


def test_what_a_move_would_cost_is_what_the_plan_with_that_pin_costs(model: str) -> None:
    there = explained(model, *PINS)
    back = explained(model, "up=cpu", "norm=cpu", "down=cpu")
    [module] = there.modules
    assert (module.operations, module.devices) == (1, {"vulkan": 1})
    [other] = module.alternatives
    assert other.device == "cpu" and other.fits and not other.why_not
    assert other.call_seconds == pytest.approx(back.call_seconds)
    assert back.modules[0].alternatives[0].call_seconds == pytest.approx(there.call_seconds)
    [operation] = there.operations
    assert operation.why == "pinned" and operation.pins == ("norm=vulkan",)
    assert (operation.kind, operation.device, operation.stage) == ("layer_norm", "vulkan", "s1")
    assert other.seconds == pytest.approx(back.operations[0].seconds)


def test_why_it_is_not_fused(model: str) -> None:
    operation = explained(model, *PINS).operations[0]
    found = {(n.role, n.kind, n.path): n.why for n in operation.apart}
    assert found["reader", "linear", "down"] == "layer_norm is not elementwise"
    # relu, which is in the group of `up`
    assert found["input", "elementwise", ""] == "layer_norm is not elementwise"


def test_what_decides_without_pins(model: str) -> None:
    """Everything is covered by `*`, and staying is cheapest where the solver is sure."""
    whole = explained(model, glob="*")
    assert whole.solver == "optimal"
    assert {path for o in whole.operations for path in o.paths} >= {"up", "norm", "down"}
    for operation in whole.operations:
        assert operation.why == "cheapest"
        for other in operation.alternatives:
            assert other.call_seconds is None or other.call_seconds >= whole.call_seconds


def test_explaining_changes_no_plan(model: str, cut: Any) -> None:
    assert lemurc.plan(model, targets="cpu,vulkan", pins=PINS, explain="*").plans == cut.plans


def test_a_module_that_is_not_there(model: str) -> None:
    with pytest.raises(UsageError, match="'nrom' matches no module") as error:
        lemurc.plan(model, explain="nrom")
    assert error.value.code == "explain-unmatched" and "norm" in error.value.hint


def test_the_text_of_an_explanation(lemurc_cli: Any, model: str) -> None:
    pins = [part for pin in PINS for part in ("--pin", pin)]
    ran = lemurc_cli("plan", model, "--targets", "cpu,vulkan", *pins, "--explain", "norm")
    assert ran.status == 0, ran.err
    assert "norm: 1 operation, 1 on vulkan" in ran.out
    assert "on vulkan in s1: pinned by norm=vulkan" in ran.out
    assert "not fused with linear (down), which reads it: layer_norm is not elem" in ran.out


def test_the_text(lemurc_cli: Any, model: str) -> None:
    pins = [part for pin in PINS for part in ("--pin", pin)]
    ran = lemurc_cli("plan", model, "--targets", "cpu,vulkan", *pins)
    assert ran.status == 0, ran.err
    assert "2 transfers, 512 B:" in ran.out
    assert "memory of vulkan:" in ran.out and "other plans:" in ran.out
    assert "s1     vulkan" in ran.out


def test_the_document(lemurc_cli: Any, model: str) -> None:
    document = lemurc_cli("plan", model, "--json").json
    jsonschema.validate(document, json.loads((SCHEMAS / "plan.v1.json").read_text()))
    assert document["schema"] == "plan.v1"
    assert document["plans"][0]["devices"] == ["cpu"]


def test_plans_of_an_artifact_are_what_they_are(lemurc_cli: Any, world: Any) -> None:
    """Its own manifest decides; one of an earlier version says less."""
    ran = lemurc_cli("plan", "model.lemur")
    assert ran.status == 0, ran.err
    assert "stage0" in ran.out and "110 us" in ran.out
    refused = lemurc_cli("plan", "model.lemur", "--pin", "a=cpu")
    assert refused.status == 2
    assert "pins cannot change them" in refused.err


def test_unknown_options_are_refused(model: str) -> None:
    with pytest.raises(UsageError, match=r"plan\(\) has no option 'pin'"):
        lemurc.plan(model, pin=("a=cpu",))


def test_the_model_of_the_comparison_is_cut_by_memory() -> None:
    """docs/comparison.md: the head does not fit the GPU beside the layers."""
    pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")
    examples = Path(__file__).parents[2] / "examples" / "splits"
    system = examples / "small_gpu.json"
    result = lemurc.plan(f"{examples / 'model.py'}:large", targets="cpu,vulkan", system=system)
    (function,) = result.plans[0].functions
    assert [step.device for step in function.steps] == ["cpu", "gpu", "cpu"]
    assert function.memory["gpu"].peak <= 128e6
    assert all(
        "vulkan" != step.device for plan in result.plans[2:] for step in plan.functions[0].steps
    )
    assert any("no plan for vulkan alone" in note for note in result.notes)


def where(model: str, **options: Any) -> dict[str, str]:
    """The device of each module, with CPU and Vulkan."""
    [explained] = lemurc.plan(model, targets="cpu,vulkan", explain="*", **options).explanations
    return {path: o.device for o in explained.operations for path in o.paths}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"pins": ("kind:linear=vulkan",)}, {"up": "vulkan", "down": "vulkan"}),
        ({"pins": ("re:u.|d.*=vulkan",)}, {"up": "vulkan", "down": "vulkan"}),
        ({"pins": ("*=vulkan", "kind:layer_*=cpu")}, {"up": "vulkan", "norm": "cpu"}),
        ({"forbids": ("kind:layer_norm=cpu",)}, {"norm": "vulkan"}),
        ({"forbids": ("up=cpu", "re:.*rm=vulkan")}, {"up": "vulkan", "norm": "cpu"}),
        ({"forbids": ("down=cpu",), "pins": ("up=cpu",)}, {"down": "vulkan", "up": "cpu"}),
    ],
)
def test_pins_and_what_is_forbidden(model: str, options: Any, found: dict[str, str]) -> None:
    assert where(model, **options).items() >= found.items()


def test_no_plan_has_what_is_forbidden(model: str) -> None:
    result = lemurc.plan(model, targets="cpu,vulkan", forbids=("norm=cpu",))
    assert all(
        {"vulkan"} <= {step.device for step in plan.functions[0].steps} for plan in result.plans
    )
    assert any("forbidden by norm=cpu" in note for note in result.notes)
    options = {"forbids": ("norm=cpu",), "pins": ("up=cpu",), "explain": "norm"}
    [explained] = lemurc.plan(model, targets="cpu,vulkan", **options).explanations
    [alternative] = explained.operations[0].alternatives
    assert alternative.why_not == "forbidden by norm=cpu"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"forbids": ("kind:*=cpu", "norm=vulkan")}, "forbidden-everywhere", "norm=vulkan"),
        ({"forbids": ("norm=cpu",), "pins": ("norm=cpu",)}, "pin-illegal", "forbidden by norm=cpu"),
        ({"forbids": ("norm=gpu",)}, "pin-unknown-device", "norm=gpu"),
        ({"forbids": ("norn=cpu",)}, "pin-unmatched", "forbid 'norn' matches nothing"),
        ({"forbids": ("norm",)}, "bad-pin", "forbid 'norm'"),
        ({"pins": ("kind:liner=cpu",)}, "pin-unmatched", "pin 'kind:liner' matches nothing"),
        ({"pins": ("re:no[=cpu",)}, "bad-pin", "no regular expression"),
    ],
)
def test_what_cannot_be_pinned_or_forbidden(model: str, options: Any, code: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        lemurc.plan(model, targets="cpu,vulkan", **options)
    assert caught.value.code == code and said in caught.value.message and caught.value.hint


def test_pins_do_not_overfill_a_device() -> None:
    pytest.importorskip("torch_mlir", reason="needs lemurc[compile]")
    examples = Path(__file__).parents[2] / "examples" / "splits"
    with pytest.raises(UsageError, match="no placement fits") as caught:
        lemurc.plan(
            f"{examples / 'model.py'}:large",
            targets="cpu,vulkan",
            system=examples / "small_gpu.json",
            pins=("*=gpu",),
        )
    assert caught.value.code == "does-not-fit"
    assert "gpu: 122.1 MiB" in caught.value.message


def test_devices_without_memory_to_speak_of(model: str, tmp_path: Path) -> None:
    devices = tuple(DeviceDescription(f"cpu:{k}", "cpu", memory=1) for k in range(2))
    write_system(path := tmp_path / "system.json", SystemDescription(devices))
    with pytest.raises(UsageError, match="no placement fits .* cpu:0: 1 B, cpu:1: 1 B") as caught:
        lemurc.plan(model, system=path)
    assert caught.value.code == "does-not-fit"
