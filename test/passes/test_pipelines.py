"""Options of passes, textual pipelines, and what a failing pass says."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from lemurc.errors import UsageError
from lemurc.passes import pipelines, registry
from lemurc.passes.base import Pass, PassError
from lemurc.passes.manager import Instruments, run_pipeline
from lemurc.passes.textual import parse as pipeline


@dataclass(frozen=True)
class Sample(Pass):
    name: ClassVar[str] = "sample"

    count: int = 3
    ratio: float = 0.5
    deep: bool = False
    mode: str = "fast"


def test_options_are_read_as_the_fields_types() -> None:
    given = Sample.parse("count=7 ratio=1e-3 deep mode=slow")
    assert given == Sample(7, 1e-3, True, "slow")
    assert Sample.parse(str(given).removeprefix("sample{").removesuffix("}")) == given
    assert str(Sample()) == "sample"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuont=7", "no option 'cuont'\n  hint: did you mean 'count'?"),
        ("count=many", "takes a int, not 'many'"),
        ("deep=perhaps", "takes a bool, not 'perhaps'"),
    ],
)
def test_bad_options_are_the_users_fault(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Sample.parse(text)
    assert message in str(caught.value)


def test_pipelines_mix_ours_and_upstream() -> None:
    steps = pipeline("builtin.module(place{objective=memory time-limit=3},func.func(cse,sccp),cse)")
    assert [str(step) for step in steps] == [
        "place{objective=memory time_limit=3.0}",
        "func.func(cse,sccp)",
        "cse",
    ]


@pytest.mark.parametrize("text", ["a,,b", "f(a", "f(a}", "a)"])
def test_malformed_pipelines_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        pipeline(text)


def test_every_registered_pass_is_there_under_its_name() -> None:
    for name in registry.PASSES:
        found = registry.find(name)
        assert found is not None and found.name == name
        assert registry.find(str(found())) is found


def test_the_levels_are_pipelines() -> None:
    for level in (0, 1, 2, 3):
        names = [str(step) for step in pipelines.optimize(level)]
        assert names[-1] == "annotate-cost"
    assert [str(step) for step in pipelines.partition()][-1] == "outline-stages"


@dataclass(frozen=True)
class Broken(Pass):
    name: ClassVar[str] = "broken"

    def run(self, module) -> None:
        raise KeyError("oops")


def test_a_failing_pass_names_itself_and_how_to_see_it_again(parse) -> None:
    module = parse("func.func @f() { return }")
    instruments = Instruments(verify_each=True)
    with pytest.raises(PassError) as caught:
        run_pipeline(module, ["cse", Broken(), "canonicalize"], instruments)
    text = str(caught.value)
    assert "pass 'broken' failed (passes before it: cse)" in text
    assert "KeyError: 'oops'" in text
    assert "lemurc opt -p 'cse,broken' " in text
    assert [name for name, _ in instruments.seconds] == ["cse"]


def test_an_unknown_name_is_a_usage_error(parse) -> None:
    with pytest.raises(UsageError, match="no pass is called 'canonicalise'"):
        run_pipeline(parse("func.func @f() { return }"), ["canonicalise"])
