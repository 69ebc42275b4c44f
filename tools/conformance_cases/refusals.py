"""What must be refused, before it reaches the device, and with the session in order after."""

import torch

from lemurc.errors import ArtifactError, InputError
from lemurc.tools.conformance_cases.case import (
    Bench,
    Function,
    Scenario,
    demand,
    draw,
    eager,
    expect,
    refused,
)


def _arguments(bench: Bench) -> None:
    model, x = Function(lambda x: x * 2), draw(3, 4)
    with bench.compiled(model, (x,)) as session:
        refused(lambda: session(draw(3, 5)), InputError, "a wrong size")
        refused(lambda: session(draw(4)), InputError, "a wrong rank")
        refused(lambda: session(x.to(torch.int32)), InputError, "a wrong type")
        refused(lambda: session(x, x), InputError, "an argument too many")
        expect(session(x), eager(model, (x,)), "a call after refused ones")


def _out_of_range(bench: Bench) -> None:
    rows = torch.export.Dim("rows", min=1, max=8)
    model, x = Function(lambda x: x * 2), draw(3, 4)
    path = bench.compile(model, (x,), dynamic_shapes=(({0: rows},),))
    with bench.load(path) as session:
        refused(lambda: session(draw(9, 4)), InputError, "a size above the declared maximum")
        expect(session(draw(8, 4)), eager(model, (draw(8, 4),)), "the largest size")


def _values_out_of_range(bench: Bench) -> None:
    """Places outside of a table are found before the call."""
    table, at = draw(5, 3), torch.tensor([4, 0])
    model = Function(lambda table, at: table[at])
    with bench.compiled(model, (table, at)) as session:
        refused(lambda: session(table, torch.tensor([5, 0])), InputError, "a place outside a table")
        expect(session(table, at), eager(model, (table, at)), "a call after a refused one")


def _damaged_code(bench: Bench) -> None:
    """Every byte of code is hashed before any of it reaches the device."""
    path = bench.compile(Function(lambda x: x * 2), (draw(3, 4),))
    with bench.load(path) as session:
        [stage] = session.manifest.stages.values()
        code = bytes(session.artifact.entry(stage.modules[0].file))
    content = bytearray(path.read_bytes())
    content[content.index(code) + len(code) // 2] ^= 1
    damaged = bench.path()
    damaged.write_bytes(content)
    error = refused(lambda: bench.load(damaged), ArtifactError, "an artifact with damaged code")
    demand("damaged" in str(error), f"an artifact with damaged code: {error}")


SCENARIOS = (
    Scenario("arguments", _arguments),
    Scenario("sizes_out_of_range", _out_of_range),
    Scenario("values_out_of_range", _values_out_of_range),
    Scenario("damaged_code", _damaged_code),
)
