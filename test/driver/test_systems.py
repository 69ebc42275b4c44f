"""From a description and the targets to the sets of devices that are planned for."""

from typing import Any

import pytest

from lemurc.errors import UsageError
from lemurc.system_file import system_from
from lemurc.systems import HOST_MEMORY, Description, System, asked_devices, notes_on, systems
from lemurc.targets.registry import parse_targets

DOCUMENT = {
    "devices": [
        {"name": "cpu:0", "target": "cpu", "flops": {"f32": 1.0}, "launch": 0.0, "slowdown": 3.0},
        {"name": "big", "target": "cuda", "flops": 2.0, "bandwidth": 3.0, "launch": 4.0,
         "memory": 5},
    ],
    "links": [{"src": "cpu:0", "dst": "big", "latency": 6.0, "bandwidth": 7.0}],
}  # fmt: skip


def plan(targets: str, document: Any = DOCUMENT, is_asked: bool = True) -> tuple[System, ...]:
    described = Description(system_from(document, "s"), "s", is_asked)
    return systems(parse_targets(targets), (), described)


def names(system: System) -> list[str]:
    return [device["name"] for device in system["devices"]]


def test_described_devices_come_first_and_give_the_figures_of_every_set() -> None:
    sets = plan("cpu,cuda")
    assert [names(each) for each in sets] == [["cpu:0", "big"], ["cpu", "cuda"], ["cpu"], ["cuda"]]
    for system in sets:
        for device in system["devices"]:
            assert device["flops"] == {"f32": 1.0 if device["target"] == "cpu" else 2.0}
    assert sets[2]["devices"][0]["launch"] == 0.0
    assert sets[2]["devices"][0]["slowdown"] == 3.0
    assert sets[3]["devices"][0]["memory"] == 5
    assert asked_devices(sets, True) == ("big", "cpu:0")


def test_links_follow_their_devices_and_stay_for_a_gpu_alone() -> None:
    sets = plan("cpu,cuda")
    ends = [[(link["src"], link["dst"]) for link in system["links"]] for system in sets]
    assert ends == [[("cpu:0", "big")], [("cpu", "cuda")], [], [(HOST_MEMORY, "cuda")]]
    assert sets[3]["links"][0]["latency"] == 6.0


def test_figures_of_this_machine_name_no_devices() -> None:
    sets = plan("cpu,rocm", is_asked=False)
    assert [names(each) for each in sets] == [["cpu", "rocm"], ["cpu"], ["rocm"]]
    assert sets[0]["devices"][0]["flops"] == {"f32": 1.0}
    assert sets[0]["devices"][1]["flops"]["f32"] > 1e12  # rocm's own


def test_what_the_description_leaves_open_is_said() -> None:
    described = Description(system_from(DOCUMENT, "s"), "s", True)
    (note,) = notes_on(parse_targets("cpu,cuda"), described)
    assert note.startswith("cpu:0: bandwidth, memory as of a typical cpu device")


def test_devices_of_targets_that_are_not_compiled_for() -> None:
    with pytest.raises(UsageError, match="cuda") as caught:
        plan("cpu")
    assert caught.value.where == "s"
    assert caught.value.hint == "compile with --targets cpu,cuda"
