"""ONNX's own tests of its operators: one small model each, with stored results.

nodes.toml lists those taken, by kind. `pytest test/onnx` runs every seventh of them,
`pytest test/onnx -m long` the rest. status.toml lists those known to fail with the step
that does, which for a refusal is its code; one that fails elsewhere fails here, and so
does one that passes though it is listed.

The standard's models take shapes, axes and the like as inputs. Models of users have
constants there, and so have these.
"""

import importlib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import lemurc
from lemurc.errors import LemurcError

HERE = Path(__file__).parent
CASES = "onnx.backend.test.case.node"
KINDS: dict[str, dict[str, list[str]]] = tomllib.loads((HERE / "nodes.toml").read_text())
KNOWN: dict[str, str] = tomllib.loads((HERE / "status.toml").read_text())["fails"]
NAMES = [
    (module, name)
    for modules in KINDS.values()
    for module, names in modules.items()
    for name in names
]
EVERY = 7
ATOL = 1e-6

CONSTANT_INPUTS = {
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEMURC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def marked() -> list[Any]:
    rest = [pytest.mark.long]
    return [
        pytest.param(module, name, id=name, marks=rest if at % EVERY else [])
        for at, (module, name) in enumerate(NAMES)
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("module", "name"), marked())
def test_node(module: str, name: str, tmp_path: Path) -> None:
    step, reason = fate(case_of(module, name), tmp_path)
    known = KNOWN.get(name)
    if known is None:
        assert step == "passed", f"{step}: {reason}"
    elif step == "passed":
        pytest.fail("it passes now: take it out of status.toml")
    elif step != known:
        pytest.fail(f"it fails in {step}, not in {known}: {reason}")
    else:
        pytest.xfail(f"{known}: {reason}")


def test_known_failures_are_cases() -> None:
    names = [name for _, name in NAMES]
    assert set(KNOWN) <= set(names)
    assert len(names) == len(set(names))


def case_of(module: str, name: str) -> Any:
    """Importing the module of an operator makes its tests; all of them take a minute."""
    importlib.import_module(f"{CASES}.{module}")
    made = importlib.import_module(CASES)._NodeTestCases
    return next(case for case in made if case.name == name)


def fate(case: Any, folder: Path) -> tuple[str, str]:
    """The step that fails, or "passed", and why."""
    given, expected = ([_array(value) for value in values] for values in case.data_sets[0])
    model, inputs = _with_constants(case.model, given)
    path = folder / "model.onnx"
    onnx.save(model, path)
    try:
        result = lemurc.compile(
            path, tuple(inputs), output=folder / "model.lemur", verify=False, golden="none"
        )
        got = lemurc.load(result.path)(*inputs)
    except LemurcError as error:
        return error.code, str(error)
    results = got if isinstance(got, tuple) else (got,)
    for y, r in zip(results, expected, strict=True):
        if y.dtype != r.dtype or y.shape != r.shape:
            return "values", f"{y.dtype}{list(y.shape)} instead of {r.dtype}{list(r.shape)}"
        if r.dtype.name in ("bfloat16", "float16"):
            y, r = y.astype(np.float32), r.astype(np.float32)
        try:
            np.testing.assert_allclose(y, r, case.rtol, max(case.atol, ATOL))
        except AssertionError as error:
            return "values", " ".join(str(error).split())[:300]
    return "passed", ""


def _array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _with_constants(
    given: onnx.ModelProto, arrays: list[np.ndarray]
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    model = onnx.ModelProto()
    model.CopyFrom(given)
    constants = {
        node.input[at]
        for node in model.graph.node
        for at in _constant_inputs(node.op_type)
        if at < len(node.input)
    }
    pairs = list(zip(model.graph.input, arrays, strict=True))
    kept = [(value, array) for value, array in pairs if value.name not in constants]
    model.graph.initializer.extend(
        numpy_helper.from_array(array, value.name)
        for value, array in pairs
        if value.name in constants
    )
    inputs = [value for value, _ in kept]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model, [array for _, array in kept]


def _constant_inputs(kind: str) -> tuple[int, ...]:
    return (1,) if kind.startswith("Reduce") else CONSTANT_INPUTS.get(kind, ())
