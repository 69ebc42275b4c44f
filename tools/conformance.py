"""`lemurc.conformance`: does a target, with a device of it, do all that lemurc asks of one?

For our own targets and for those of other packages. What a target declares that it lacks
(element types, kinds of operation, and of `lacks`) is listed as not offered, and is no pass.
"""

import contextlib
import fnmatch
import importlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemurc.errors import DeviceError, LemurcError, UsageError

if TYPE_CHECKING:
    from lemurc.runtime.session import Session
    from lemurc.tools.conformance_cases.case import Bench, Expression, Scenario

PASS, FAIL, NOT_OFFERED = "pass", "fail", "not offered"
NOT_LEGAL = "no-legal-device"
"""The code of the compiler's error when the target's declarations forbid an operation."""

Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class CaseResult:
    """`name` is "group/case"; `detail` is what went wrong, or what is not offered."""

    name: str
    status: str
    detail: str
    seconds: float


@dataclass(frozen=True)
class ConformanceResult:
    """`ok`: nothing failed and something passed. `package` adds the target; "" if it is ours."""

    ok: bool
    target: str
    device: str
    description: str
    package: str
    cases: tuple[CaseResult, ...]

    def count(self, status: str) -> int:
        return sum(case.status == status for case in self.cases)


def conformance(
    target: str,
    *,
    device: str | None = None,
    cases: Sequence[str] = (),
    report: Report | None = None,
) -> ConformanceResult:
    """Run the cases on `target`, as `--targets` spells it, and on `device`, its first if None.

    `cases` are patterns of names, "products/*"; all cases when there are none. `report` is
    called as the `progress` of `compile`. Raises DeviceError when there is no such device, since
    nothing would be shown, and UsageError when no case fits a pattern.
    """
    from lemurc.targets.registry import package_of, parse_targets

    (request,) = parse_targets(target)[:1]
    name = device or f"{request.target.name}:0"
    description = _description(name, request.target.name)
    chosen = _chosen(cases)
    folder = Path(tempfile.mkdtemp(prefix="lemurc-conformance-"))
    try:
        lacks = frozenset(request.target.lacks)
        results = list(_results(target, name, folder, chosen, lacks, report or _silent))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ConformanceResult(
        ok=all(case.status != FAIL for case in results)
        and any(case.status == PASS for case in results),
        target=target,
        device=name,
        description=description,
        package=package_of(request.target.name),
        cases=tuple(results),
    )


def names() -> list[str]:
    """Every case, in order."""
    return [name for name, _ in _all()]


def _all() -> list[tuple[str, "Expression | Scenario"]]:
    from lemurc.tools.conformance_cases import GROUPS

    found = []
    for group in GROUPS:
        module = importlib.import_module(f"lemurc.tools.conformance_cases.{group}")
        for case in (*getattr(module, "EXPRESSIONS", ()), *getattr(module, "SCENARIOS", ())):
            found.append((f"{group}/{case.name}", case))
    return found


def _chosen(patterns: Sequence[str]) -> list[tuple[str, "Expression | Scenario"]]:
    everything = _all()
    if not patterns:
        return everything
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name, _ in everything):
            groups = dict.fromkeys(name.partition("/")[0] for name, _ in everything)
            raise UsageError(
                f"no case of the conformance suite is called {pattern!r}",
                code="unknown-case",
                where="--case",
                hint=f"cases are GROUP/NAME; groups: {', '.join(groups)}",
            )
    return [
        (name, case)
        for name, case in everything
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _description(device: str, target: str) -> str:
    from lemurc.runtime.devices import discover, open_device

    if device.partition(":")[0] != target:
        raise DeviceError(
            f"{device} is no device of the target {target}",
            code="unknown-device",
            where="--device",
            hint=f"devices of it are called {target}:0",
        )
    found = discover((target,))
    if not found.names.get(target):
        raise DeviceError(
            f"there is no {target} device here, so nothing can be shown: "
            f"{found.why_not.get(target, 'none found')}",
            code="no-device",
            where=device,
            hint="`lemurc devices` lists what is here",
        )
    return open_device(device).description


def _results(
    target: str,
    device: str,
    folder: Path,
    chosen: Sequence[tuple[str, "Expression | Scenario"]],
    lacks: frozenset[str],
    report: Report,
) -> Iterator[CaseResult]:
    from lemurc.tools.conformance_cases.case import Bench, Expression

    bench = Bench(target, device, folder)
    groups: dict[str, list[tuple[str, Any]]] = {}
    for name, case in chosen:
        groups.setdefault(name.partition("/")[0], []).append((name, case))
    done = 0
    for group, cases in groups.items():
        offered = [case for _, case in cases if not lacks.intersection(case.needs)]
        expressions = [case for case in offered if isinstance(case, Expression)]
        report("conformance", done, len(chosen), group)
        with contextlib.ExitStack() as held:
            together = _loaded_together(bench, expressions)
            if together is not None:
                held.enter_context(together)
            for name, case in cases:
                report("conformance", done, len(chosen), name)
                if missing := sorted(lacks.intersection(case.needs)):
                    lack = f"the target lacks {', '.join(missing)}"
                    yield CaseResult(name, NOT_OFFERED, lack, 0.0)
                else:
                    yield _result(bench, name, case, together)
                done += 1
    report("conformance", done, len(chosen), "")


def _loaded_together(bench: "Bench", expressions: Sequence["Expression"]) -> "Session | None":
    """One artifact for all: None when it cannot be, and each has to be compiled by itself."""
    if len(expressions) < 2:
        return None
    from lemurc.tools.conformance_cases.case import Function

    entries = {case.name: (Function(case.function), case.calls[0]) for case in expressions}
    shapes = {case.name: case.dynamic for case in expressions if case.dynamic is not None}
    try:
        return bench.load(bench.compile(entries, dynamic_shapes=shapes))
    except LemurcError:
        return None


def _result(
    bench: "Bench", name: str, case: "Expression | Scenario", together: "Session | None"
) -> CaseResult:
    from lemurc.tools.conformance_cases.case import Expression, Failed

    start = time.monotonic()
    status, detail = PASS, ""
    try:
        if isinstance(case, Expression):
            _evaluate(bench, case, together)
        else:
            case.run(bench)
    except Failed as error:
        status, detail = FAIL, str(error)
    except LemurcError as error:
        status = NOT_OFFERED if error.code == NOT_LEGAL else FAIL
        detail = error.message
    except Exception as error:
        status, detail = FAIL, f"{type(error).__name__}: {error}"
    return CaseResult(name, status, detail, time.monotonic() - start)


def _evaluate(bench: "Bench", case: "Expression", together: "Session | None") -> None:
    from lemurc.tools.conformance_cases.case import Function

    if together is not None:
        _compare(together, case)
        return
    entries = {case.name: (Function(case.function), case.calls[0])}
    shapes = {} if case.dynamic is None else {case.name: case.dynamic}
    with bench.load(bench.compile(entries, dynamic_shapes=shapes)) as session:
        _compare(session, case)


def _compare(session: "Session", case: "Expression") -> None:
    from lemurc.tools.conformance_cases.case import eager, expect

    for number, args in enumerate(case.calls):
        got = getattr(session, case.name)(*args)
        expect(got, eager(case.function, args), f"call {number}", bits=case.bits)


def _silent(phase: str, done: int, total: int, detail: str) -> None:
    return None
