"""From lowered stages to code: the target's compiler on each; IREE's plainly where tuning fails."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lemurc import code_failures, pass_limit
from lemurc.errors import UnsupportedModelError
from lemurc.exchange import IreeInput, LoweredStage
from lemurc.options import CompileOptions

if TYPE_CHECKING:
    from lemurc.targets.base import Target
    from lemurc.targets.compile import CompileFailure

Modules = dict[tuple[str, str, str], "bytes | CompileFailure"]
"""By stage, target and architecture."""


def generate(
    inputs: Sequence[tuple[str, IreeInput]],
    stages: Mapping[str, LoweredStage],
    wanted: Sequence[tuple[str, str]],
    folder: Path,
    options: CompileOptions,
    remaining: Callable[[], float | None],
    notes: list[str],
) -> Modules:
    """Compile every stage; one that IREE refuses is tried once more with plain flags.

    Under `strict` such a step down is an error, for the targets and architectures `wanted`:
    what is compiled for verification alone may be slow.
    """
    from lemurc.targets.compile import CompileFailure
    from lemurc.targets.registry import get

    tuned = pass_limit.allows(options.pass_limit, pass_limit.TUNING, options.opt_level)
    modules = compile_once(inputs, folder, options, remaining, careful=not tuned)
    failures = {
        key: result for key, result in modules.items() if isinstance(result, CompileFailure)
    }
    stepped_down: list[str] = []
    again = [
        (name, ir)
        for name, ir in inputs
        if (name, ir.target, ir.arch) in failures and get(ir.target).compiler is None
    ]
    for key, result in compile_once(again, folder, options, remaining, careful=True).items():
        if isinstance(result, bytes):
            modules[key] = result
            if key[1:] in wanted:
                said = code_failures.compiled_plainly(failures[key], stages[key[0]])
                stepped_down.append(said)
    if stepped_down and options.strict:
        raise UnsupportedModelError(
            "\n".join(stepped_down),
            code="stepped-down",
            hint="compile without --strict to accept that",
        )
    notes += stepped_down
    return modules


def compile_once(
    inputs: Sequence[tuple[str, IreeInput]],
    folder: Path,
    options: CompileOptions,
    remaining: Callable[[], float | None],
    *,
    careful: bool,
) -> Modules:
    from lemurc.targets.cache import Cache, default_directory
    from lemurc.targets.compile import CompileJob, compile_jobs
    from lemurc.targets.plugin_compiler import compiler_of
    from lemurc.targets.registry import get

    if not inputs:
        return {}
    jobs = []
    for name, ir in inputs:
        target = get(ir.target)
        flags = target.flags(ir.arch, ir.traits, tuned=not careful)
        flags += target.retry if careful else ()
        bytecode = (folder / ir.file).read_bytes()
        check = functools.partial(_check, target, ir.arch)
        tool = compiler_of(target)
        jobs.append(CompileJob(name, ir.target, ir.arch, bytecode, flags, check, tool))
    results = compile_jobs(
        jobs,
        cache=Cache(default_directory()) if options.cache else None,
        workers=options.workers(),
        time_limit=remaining(),
        budget=options.budget_s,
        max_rss_bytes=options.max_rss,
        progress=lambda done, total, name: options.report("generate code", done, total, name),
    )
    return {
        (job.name, job.target, job.arch): result for job, result in zip(jobs, results, strict=True)
    }


def _check(target: "Target", arch: str, module: bytes) -> str:
    return target.check(module, arch)
