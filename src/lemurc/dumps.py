"""The IR after each pass as numbered text files, for `--save-temps`.

    000-import.mlir  001-raise-patterns.mlir  ...  017-s0-cpu-x86-64-v3.mlir

Each can be read back by `lemurc opt`, so a pass that goes wrong is repeated from the
file before it.
"""

import itertools
import re
from pathlib import Path
from typing import Any


class Dumps:
    """Writes into `folder`, in place of what is there; nowhere when that is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        for old in folder.glob("[0-9][0-9][0-9]-*.mlir") if folder is not None else ():
            old.unlink()  # an earlier compilation may have had more steps

    def after(self, step: Any, operation: Any) -> None:
        """The module as `step` (a pass, or the text of one) left it."""
        if self._folder is not None:
            self._write(getattr(step, "name", str(step)), operation)

    def iree_input(self, name: str, bytecode: bytes) -> None:
        """One stage as iree-compile gets it."""
        if self._folder is None:
            return
        from iree.compiler import ir

        with ir.Context() as context:
            context.allow_unregistered_dialects = True
            self._write(name, ir.Module.parse(bytecode).operation)

    def _write(self, name: str, operation: Any) -> None:
        assert self._folder is not None
        self._folder.mkdir(exist_ok=True)
        slug = re.sub(r"[^\w.-]+", "-", name).strip("-")
        path = self._folder / f"{next(self._numbers):03}-{slug}.mlir"
        path.write_text(f"{operation.get_asm()}\n", encoding="utf-8")
