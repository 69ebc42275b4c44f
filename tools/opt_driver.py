"""The MLIR side of `lemurc opt`; apart from it so that `--help` imports no MLIR."""

import argparse
import re
import sys
from typing import Any

from torch_mlir import ir

from lemurc.dialects.context import new_context
from lemurc.errors import LemurcError
from lemurc.passes import textual
from lemurc.passes.base import PassError
from lemurc.passes.manager import Instruments, run_pipeline
from lemurc.passes.textual import Step
from lemurc.passes.verify_lemur import InvalidModule, VerifyLemur
from lemurc.tools import iree_steps
from lemurc.tools.expected import Diagnostic, mismatches
from lemurc.tools.opt import split


class Driver:
    """Runs the pipeline over every chunk of an input called `name`."""

    def __init__(self, options: argparse.Namespace, name: str) -> None:
        self._options = options
        self._name = name
        self._iree: list[str] = []
        self._seen: list[Diagnostic] = []

    def run(self, source: bytes) -> tuple[str, int]:
        """What to print, and the exit status."""
        pipeline, self._iree = iree_steps.split(textual.parse(self._options.pipeline))
        if not self._options.no_verify and not self._iree:  # a lone stage has rules of its own
            pipeline.append(VerifyLemur())
        instruments = Instruments(
            verify_each=self._options.verify_each,
            after_each=_print_after if self._options.print_ir_after_all else None,
        )
        context = new_context()
        context.enable_multithreading(False)
        context.attach_diagnostic_handler(self._record)
        outputs, status = [], 0
        with context, ir.Location.unknown():
            for chunk in split(source, self._options.split_input_file):
                self._seen.clear()
                text = self._run_chunk(chunk, pipeline, instruments)
                status = max(status, self._report(chunk, failed=text is None))
                if text is not None:
                    outputs.append(text)
        if self._options.timing:
            _print_timing(instruments)
        if self._options.verify_diagnostics:
            return "", status
        return "// -----\n".join(outputs), status

    def _run_chunk(
        self, chunk: str | bytes, pipeline: list[Step], instruments: Instruments
    ) -> str | None:
        try:
            module = ir.Module.parse(chunk)
        except ir.MLIRError as error:
            self._seen += [self._diagnostic(item) for item in error.error_diagnostics]
            return None
        try:
            run_pipeline(module, pipeline, instruments)
        except LemurcError as error:
            self._record_failure(error)
            return None
        if self._iree:
            return iree_steps.run(module.operation.get_asm(print_generic_op_form=True), self._iree)
        asm: str = module.operation.get_asm(enable_debug_info=self._options.print_locations)
        return asm if asm.endswith("\n") else asm + "\n"

    def _record(self, diagnostic: Any) -> bool:
        self._seen.append(self._diagnostic(diagnostic))
        return True

    def _record_failure(self, error: LemurcError) -> None:
        """What MLIR has not said already; a plain error in the user's terms always."""
        cause = error.__cause__
        if isinstance(cause, ir.MLIRError):
            self._seen += [self._diagnostic(item) for item in cause.error_diagnostics]
        elif isinstance(cause, InvalidModule):
            self._seen += [self._finding(*found) for found in cause.findings]
        told = any(item.severity == "error" for item in self._seen)
        if told and isinstance(error, PassError):
            if not self._options.verify_diagnostics:
                summary = error.message.partition("\n")[0]
                self._seen.append(Diagnostic("", 0, 0, "note", f"{summary}\n{error.hint}"))
            return
        self._seen.append(Diagnostic("", 0, 0, "error", str(error)))

    def _diagnostic(self, item: Any) -> Diagnostic:
        severity = str(item.severity).rpartition(".")[2].lower()
        notes = tuple(self._diagnostic(note) for note in item.notes)
        return Diagnostic(*self._place(item.location), severity, item.message, notes)

    def _finding(self, location: ir.Location, message: str) -> Diagnostic:
        return Diagnostic(*self._place(location), "error", message)

    def _place(self, location: ir.Location) -> tuple[str, int, int]:
        """MLIR calls what it parses from memory "-"; we know its name."""
        found = re.search(r'"([^"]*)":(\d+):(\d+)', str(location))
        if not found:
            return "", 0, 0
        return (self._name if found[1] == "-" else found[1]), int(found[2]), int(found[3])

    def _report(self, chunk: str | bytes, failed: bool) -> int:
        if self._options.verify_diagnostics and isinstance(chunk, str):
            wrong = mismatches(chunk, self._name, self._seen)
            for line in wrong:
                print(line, file=sys.stderr)
            return 1 if wrong else 0
        for diagnostic in self._seen:
            print(diagnostic, file=sys.stderr)
        return 1 if failed else 0


def _print_after(step: Step, operation: ir.Operation) -> None:
    print(f"// -----// IR Dump After {step} //----- //\n{operation}", file=sys.stderr)


def _print_timing(instruments: Instruments) -> None:
    total = sum(seconds for _, seconds in instruments.seconds)
    for name, seconds in instruments.seconds:
        print(f"{seconds * 1e3:9.2f} ms  {name}", file=sys.stderr)
    print(f"{total * 1e3:9.2f} ms  total", file=sys.stderr)
