"""The whole conformance suite on the sample target and on our own that run here."""

from pathlib import Path

import pytest

import lemurc
from lemurc.tools.conformance import FAIL, PASS, names
from lemurc.tools.conformance_cases import GROUPS


@pytest.mark.slow
def test_the_sample_target_passes_everything(sample: Path) -> None:
    result = lemurc.conformance("mlir_jit")
    assert [case for case in result.cases if case.status != PASS] == []
    assert len(result.cases) == len(names())
    assert result.ok and result.package == "lemurc-mlir-jit 0.1.0"


@pytest.mark.slow
def test_the_cpu_passes_everything() -> None:
    result = lemurc.conformance("cpu:host")
    assert [case for case in result.cases if case.status != PASS] == []
    assert result.ok and result.package == "" and result.device == "cpu:0"


@pytest.mark.long
def test_the_interpreter_passes_all_that_it_offers() -> None:
    result = lemurc.conformance("vmvx")
    assert [case for case in result.cases if case.status == FAIL] == []
    declared = ("type f64", "type f16", "type bf16", "the target lacks dynamic-softmax")
    for case in result.cases:
        assert case.status == PASS or any(said in case.detail for said in declared), case
    assert result.count(PASS) > 80


@pytest.mark.long  # lavapipe loses its device at times where one process loads so many models
@pytest.mark.vulkan
@pytest.mark.parametrize("group", GROUPS)
def test_vulkan_passes_all_that_it_offers(group: str) -> None:
    """Software Vulkan takes minutes for every way to mix two graphs: one graph has to do."""
    cases = f"{group}/*" if group != "mixed" else "mixed/every_assignment"
    result = lemurc.conformance("vulkan", cases=[cases])
    assert [case for case in result.cases if case.status == FAIL] == []
    assert result.ok
