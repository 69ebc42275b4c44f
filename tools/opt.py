"""`lemurc opt`: read a module, run a textual pipeline over it, print the result.

What mlir-opt is for MLIR, with our passes in the pipeline beside upstream's.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lemurc.errors import LemurcError, UsageError

SEPARATOR = re.compile(r"^[ \t]*// -----.*$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 when the module or a pass fails, 2 for a usage error."""
    options = _arguments().parse_args(argv)
    try:
        name, source = _read(options.file)
        from lemurc.tools.opt_driver import Driver

        text, status = Driver(options, name).run(source)
    except LemurcError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    if options.output == "-":
        sys.stdout.write(text)
    elif status == 0:
        Path(options.output).write_text(text)
    return status


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lemurc opt", description=__doc__)
    add = parser.add_argument
    add("file", nargs="?", default="-", help="MLIR text or bytecode; stdin when '-' or absent")
    add("-p", "--pipeline", default="", help="e.g. 'simplify,func.func(cse),place{time_limit=5}'")
    add("-o", "--output", default="-", metavar="FILE", help="where to write; stdout when '-'")
    add("--split-input-file", action="store_true", help="a module per '// -----' line")
    add("--verify-diagnostics", action="store_true", help="match 'expected-error {{...}}'")
    add("--verify-each", action="store_true", help="run verify-lemur after every pass")
    add("--no-verify", action="store_true", help="leave verify-lemur out at the end")
    add("--print-ir-after-all", action="store_true", help="print the module after every pass")
    add("--print-locations", action="store_true", help="print locations with the module")
    add("--timing", action="store_true", help="print the time of every pass")
    add("--list-passes", action=_ListPasses, nargs=0, help="print the names of our passes")
    return parser


class _ListPasses(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from lemurc.passes.registry import PASSES

        print("\n".join(PASSES))
        parser.exit()


def _read(file: str) -> tuple[str, bytes]:
    if file == "-":
        return "-", sys.stdin.buffer.read()
    try:
        return file, Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read '{file}': {error.strerror}", code="no-such-file") from error


def split(source: bytes, at_separators: bool) -> Iterator[str | bytes]:
    """Chunks of the input; each keeps its line numbers by starting with empty lines."""
    if source.startswith(b"ML\xefR"):
        yield source
        return
    text = source.decode()
    start = 0
    for match in SEPARATOR.finditer(text) if at_separators else ():
        yield "\n" * text.count("\n", 0, start) + text[start : match.start()]
        start = match.end()
    yield "\n" * text.count("\n", 0, start) + text[start:]


if __name__ == "__main__":
    sys.exit(main())
