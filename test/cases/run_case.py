"""Run one acceptance case through lemurc in a process of its own; print its fate as JSON.

    python run_case.py CASE.py FOLDER [TARGETS]   ->   {"step": ..., "kind": ..., "reason": ...}

"passed" or "refused", as the case expects; or the step that failed: export, compile, run,
values, refusal.
"""

import copy
import importlib.util
import json
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import lemurc
from lemurc.errors import LemurcError, UnsupportedModelError


class Failure(Exception):
    def __init__(self, step: str, reason: str) -> None:
        super().__init__(reason)
        self.step = step


def main(case_path: str, folder: str, targets: str = "cpu") -> dict[str, str]:
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location("case", case_path)
    assert spec is not None and spec.loader is not None
    case = importlib.util.module_from_spec(spec)
    sys.modules["case"] = case
    spec.loader.exec_module(case)
    try:
        step, reason = run(case, Path(folder) / "case.lemur", targets), ""
    except Failure as failure:
        step, reason = failure.step, str(failure)
    return {"step": step, "kind": case.KIND, "reason": reason}


def run(case: Any, path: Path, targets: str) -> str:
    """The fate of a case that behaves as expected: "passed" or "refused"."""
    kwargs = case.kwargs() if hasattr(case, "kwargs") else {}
    shapes = case.dynamic_shapes() if hasattr(case, "dynamic_shapes") else None
    try:
        lemurc.compile(
            case.model(),
            case.inputs(),
            kwargs,
            dynamic_shapes=shapes,
            targets=targets,
            output=path,
            tolerance=max(getattr(case, "RTOL", 0.0), 1e-4),
        )
    except UnsupportedModelError as error:
        refusal_is_expected = hasattr(case, "EXPECT_ERROR") and not hasattr(case, "bad_inputs")
        if refusal_is_expected and not hasattr(case, "SCENARIO"):
            words = getattr(case, "EXPECT_WORDS", [])
            check_words(str(error), words if isinstance(words, list) else sum(words.values(), []))
            return "refused"
        step = "export" if error.code == "export-failed" else "compile"
        raise Failure(step, f"{error.code}: {error}") from error
    except LemurcError as error:
        raise Failure("compile", f"{type(error).__name__} {error.code}: {error}") from error
    except Exception as error:
        raise Failure("compile", traceback.format_exc()[-800:]) from error
    session = lemurc.load(path)
    calls = [(case.inputs(), kwargs)]
    for variant in case.variants() if hasattr(case, "variants") else []:
        args, more = variant if is_call(variant) else (variant, kwargs)
        calls.append((args, more))
    eager = case.model()
    for number, (args, more) in enumerate(calls):
        model = eager if getattr(case, "STATEFUL", False) else case.model()
        compare_call(case, session, model, args, more, number)
    if getattr(case, "FRESH_INSTANCE_CHECK", False):
        compare_call(case, lemurc.load(path), case.model(), case.inputs(), kwargs, 0)
    for label, args in case.bad_inputs() if hasattr(case, "bad_inputs") else []:
        refuse(case, session, label, args)
    return "passed"


def is_call(variant: Any) -> bool:
    return (
        isinstance(variant, tuple)
        and len(variant) == 2
        and isinstance(variant[0], tuple)
        and isinstance(variant[1], dict)
    )


def compare_call(case: Any, session: Any, model: Any, args: Any, kwargs: Any, number: int) -> None:
    mine_args, mine_kwargs = copy.deepcopy((args, kwargs))
    with torch.no_grad():
        want = None if hasattr(case, "check_property") else model(*args, **kwargs)
    try:
        got = session(*mine_args, **mine_kwargs)
    except LemurcError as error:
        raise Failure("run", f"call {number}: {error.code}: {error}") from error
    except Exception as error:
        raise Failure("run", f"call {number}: {traceback.format_exc()[-800:]}") from error
    if hasattr(case, "check_property"):
        leaves = pytree.tree_leaves(got)
        if wrong := case.check_property(leaves, number):
            raise Failure("values", f"call {number}: {wrong}")
        return
    compare_trees(case, got, want, f"call {number}")
    leaves, mine = (pytree.tree_leaves(x) for x in ((args, kwargs), (mine_args, mine_kwargs)))
    for index in getattr(case, "MUTATED_INPUTS", []):
        compare_leaf(case, mine[index], leaves[index], f"call {number}: input {index} afterwards")


def compare_trees(case: Any, got: Any, want: Any, where: str) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    if str(plain(got)) != str(plain(want)):
        raise Failure("values", f"{where}: structure {plain(got)} instead of {plain(want)}")
    for index, (y, r) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        compare_leaf(case, y, r, f"{where}: result {index}")


def plain(value: Any) -> Any:
    """The nesting, with tensors as a dot; mappings keep their keys, classes their names."""
    if isinstance(value, torch.Tensor):
        return "."
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (type(value).__name__, {k: plain(v) for k, v in value._asdict().items()})
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return value


def compare_leaf(case: Any, y: Any, r: Any, where: str) -> None:
    if not isinstance(r, torch.Tensor):
        if y != r or type(y) is not type(r):
            raise Failure("values", f"{where}: {y!r} instead of {r!r}")
        return
    r = r.detach().resolve_conj().resolve_neg()
    if not isinstance(y, torch.Tensor):
        raise Failure("values", f"{where}: a {type(y).__name__} instead of a tensor")
    if y.dtype != r.dtype or y.shape != r.shape:
        raise Failure(
            "values", f"{where}: {y.dtype}{list(y.shape)} instead of {r.dtype}{list(r.shape)}"
        )
    try:
        exact = not (r.dtype.is_floating_point or r.dtype.is_complex)
        if r.dtype.is_floating_point and r.element_size() == 1:
            y, r = y.float(), r.float()
        rtol, atol = (0, 0) if exact else (case.RTOL, case.ATOL)
        torch.testing.assert_close(y, r, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Failure("values", f"{where}: {' '.join(str(error).split())[:300]}") from error


def refuse(case: Any, session: Any, label: str, args: Any) -> None:
    try:
        got = session(*args)
    except LemurcError as error:
        words = getattr(case, "EXPECT_WORDS", {})
        check_words(str(error), words.get(label, []) if isinstance(words, dict) else words)
        return
    except Exception as error:
        raise Failure("refusal", f"{label}: {traceback.format_exc()[-500:]}") from error
    raise Failure("refusal", f"{label}: accepted, result {np.asarray(pytree.tree_leaves(got)[0])}")


def check_words(message: str, words: list[str]) -> None:
    for word in words:
        if not re.search(word, message, re.IGNORECASE):
            raise Failure("refusal", f"the message lacks {word!r}: {message}")


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
