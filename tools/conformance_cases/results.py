"""What leaves a stage: several results, arguments as results, one value twice, constants."""

import torch

from lemurc.tools.conformance_cases.case import (
    Bench,
    Expression,
    Function,
    Scenario,
    draw,
    eager,
    expect,
)


def _nested(x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
    return {"sum": x + y, "pair": (x - y, [x * y]), "first": x}


def _constants(x: torch.Tensor) -> list[torch.Tensor]:
    return [x + 1, torch.full((2, 2), 3.5), torch.arange(5, dtype=torch.int32)]


def _stay_on_the_device(bench: Bench) -> None:
    model, x = Function(lambda x: x * 2 + 1), draw(5, 7)
    with bench.compiled(model, (x,)) as session:
        first = session(x, outputs="device")
        second = session(first, outputs="device")
        expect(session(second), eager(lambda x: 8 * x + 7, (x,)), "three calls on the device")
        expect(second, eager(lambda x: 4 * x + 3, (x,)), "a result that stayed on the device")
        expect(first, eager(model, (x,)), "a result whose successor was computed")


def _change_arguments(bench: Bench) -> None:
    """What a model does to its arguments is done to the caller's, and to nobody else's."""

    def work(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(y)
        return x.sum(-1)

    given = (draw(4, 6), draw(4, 6, seed=1))
    with bench.compiled(Function(work), given) as session:
        for _ in range(2):
            ours, theirs = ([a.clone() for a in given] for _ in range(2))
            expect(session(*theirs), work(*ours))
            expect(theirs, ours, "the arguments after the call", bits=True)


def _results_are_the_callers(bench: Bench) -> None:
    """What one call returned must not change with the next."""
    model, x = Function(lambda x: [x + 1, x]), draw(300, 300)
    other = draw(300, 300, seed=1)
    with bench.compiled(model, (x,)) as session:
        kept = session(x)
        want = eager(model, (x,))
        session(other)
        expect(kept, want, "a result after another call")
        given = x.clone()
        kept = session(given)
        given.zero_()
        expect(kept, want, "a result after its argument was overwritten")
        for result in session(x):
            result.zero_()
        expect(session(x), want, "a call after results of another were overwritten")


EXPRESSIONS = (
    Expression("nested", _nested, ((draw(3, 4), draw(3, 4, seed=1)),)),
    Expression("arguments_as_results", lambda x, y: (y, x), ((draw(3, 4), draw(5, seed=1)),)),
    Expression("one_value_twice", lambda x: [y := x.exp(), y, y + 0], ((draw(3, 4),),)),
    Expression("views_of_one_value", lambda x: [x.reshape(-1), x[1:], x.T], ((draw(3, 4),),)),
    Expression("constants", _constants, ((draw(3),),)),
    Expression("many", lambda x: [x + k for k in range(20)], ((draw(2, 3),),)),
    Expression(
        "one_argument_twice",
        lambda x, y: [x - y, x @ y.T],
        ((draw(4, 4), draw(4, 4, seed=1)), (draw(4, 4, seed=2),) * 2),
    ),
)
SCENARIOS = (
    Scenario("stay_on_the_device", _stay_on_the_device),
    Scenario("are_the_callers", _results_are_the_callers),
    Scenario("change_arguments", _change_arguments),
)
