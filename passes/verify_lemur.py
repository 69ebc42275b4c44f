"""Check what IRDL cannot: attributes of upstream operations, references, stages.

Every finding is an error at the location of the operation it is about.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lemurc.passes.base import Pass, PassError

Finding = tuple[ir.Location, str]


@dataclass(frozen=True)
class VerifyLemur(Pass):
    name: ClassVar[str] = "verify-lemur"

    def run(self, module: ir.Operation) -> None:
        findings = list(find(module))
        for location, message in findings:
            location.emit_error(message)
        if findings:
            lines = "\n".join(f"{location}: {message}" for location, message in findings)
            raise PassError(f"the module breaks {len(findings)} rules of lemur IR\n{lines}")


def find(module: ir.Operation) -> Iterator[Finding]:
    yield from ()
