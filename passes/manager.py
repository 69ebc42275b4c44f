"""Run a pipeline of our passes and upstream's over one module.

Steps run one at a time, so that a failure names the step, the steps before it and
a command that reproduces it from the module as it was at the start.
"""

import hashlib
import io
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from lemurc.errors import InternalError, LemurcError
from lemurc.passes import registry
from lemurc.passes.base import Pass, PassError
from lemurc.passes.textual import Step

logger = logging.getLogger(__name__)


@dataclass
class Instruments:
    """What to do around each step; `seconds` collects their times, in order."""

    verify_each: bool = False
    after_each: Callable[[Step, ir.Operation], None] | None = None
    seconds: list[tuple[str, float]] = field(default_factory=list)


def run_pipeline(
    module: Any, pipeline: Sequence[Step], instruments: Instruments | None = None
) -> None:
    """Change `module` in place; PassError when a step fails, the user's errors as they are."""
    operation = module.operation
    instruments = instruments or Instruments()
    before = _bytecode(operation)
    for index, step in enumerate(pipeline):
        start = time.perf_counter()
        logger.debug("running %s", step)
        try:
            _run_step(operation, step)
            if instruments.verify_each:
                _run_step(operation, _lemur_verifier())
        except LemurcError as error:
            if not isinstance(error, InternalError):
                raise
            raise _failure(before, pipeline, index, error.message) from error
        except ir.MLIRError as error:
            if _is_unknown_pass(step, error):
                raise registry.unknown(str(step)) from error
            raise _failure(before, pipeline, index, str(error)) from error
        except Exception as error:
            raise _failure(before, pipeline, index, f"{type(error).__name__}: {error}") from error
        instruments.seconds.append((str(step), time.perf_counter() - start))
        if instruments.after_each:
            instruments.after_each(step, operation)


def _run_step(operation: ir.Operation, step: Step) -> None:
    with operation.context, ir.Location.unknown():
        if isinstance(step, Pass):
            step.run(operation)
            operation.verify()
        else:
            try:
                manager = PassManager.parse(f"builtin.module({step})")
            except ValueError as error:
                raise registry.unknown(step) from error
            manager.run(operation)


def _lemur_verifier() -> Pass:
    from lemurc.passes.verify_lemur import VerifyLemur

    return VerifyLemur()


def _is_unknown_pass(step: Step, error: ir.MLIRError) -> bool:
    return isinstance(step, str) and "does not refer to a registered pass" in str(error)


def _failure(before: bytes, pipeline: Sequence[Step], index: int, reason: str) -> PassError:
    saved = Path(tempfile.gettempdir()) / f"lemurc-{hashlib.sha256(before).hexdigest()[:12]}.mlirbc"
    saved.write_bytes(before)
    steps = [str(step) for step in pipeline]
    earlier = ", ".join(steps[:index]) or "none"
    return PassError(
        f"pass '{steps[index]}' failed (passes before it: {earlier})\n{reason.rstrip()}",
        hint=f"reproduce with: lemurc opt -p '{','.join(steps[: index + 1])}' {saved}",
    )


def _bytecode(operation: ir.Operation) -> bytes:
    buffer = io.BytesIO()
    operation.write_bytecode(buffer)
    return buffer.getvalue()
