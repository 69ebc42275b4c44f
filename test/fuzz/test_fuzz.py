"""A fixed budget of random graphs equals eager; `run.py` takes any other budget."""

from collections.abc import Iterator

import pytest
import run
import torch
from fuzz_compare import Setting
from fuzz_graphs import DTYPES, draw_graph
from fuzz_reduce import reduce, script


@pytest.mark.parametrize(("level", "first"), [(0, 0), (3, 8)])
def test_random_graphs_equal_eager(level: int, first: int) -> None:
    graphs, findings = run.fuzz(0, range(first, first + 8), [Setting("cpu:host", level)], 8)
    assert not findings.differences, run.text(run.report(graphs, findings, reduced=True))
    counts = run.coverage(graphs, findings)
    assert len(counts["kind"]) > 50, "refused: " + str(findings.refused)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For this test alone: what eager rounds depends on its threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_drawing_is_repeatable_and_varied() -> None:
    graphs = [draw_graph(3, number, run.KINDS) for number in range(40)]
    again = draw_graph(3, 7, run.KINDS)
    assert again.steps == graphs[7].steps
    name = again.inputs[0]
    for mine, other in zip(again.values[name].tensors, graphs[7].values[name].tensors, strict=True):
        assert torch.equal(mine.nan_to_num(), other.nan_to_num())
    values = [graph.values[step.name] for graph in graphs for step in graph.steps]
    assert {value.dtype for value in values} == set(DTYPES)
    assert {value.rank for value in values} >= {0, 1, 2, 3, 4}
    assert 5 < sum(bool(graph.symbols) for graph in graphs) < 25
    assert len({step.kind for graph in graphs for step in graph.steps}) > 200


def test_a_wrong_result_is_found_and_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from lemurc.frontend.operators import hyperbolic

    monkeypatch.setitem(hyperbolic.TABLE, torch.ops.aten.cosh.default, lambda x: torch.exp(x))
    only = {kind: run.KINDS[kind] for kind in ("cosh", "add", "flip", "cumsum")}
    monkeypatch.setattr(run, "KINDS", only)
    _, findings = run.fuzz(1, range(1), [Setting("cpu:host", 0)])
    wrong = [found for found in findings.differences if found.output]
    assert wrong
    smallest = reduce(wrong[0])
    assert [step.kind for step in smallest.program.steps] == ["cosh"]
    compile(script(smallest), "program.py", "exec")
