"""What the library says of its arguments, in the spelling of the command line.

devices=['cuda', 'cpu:0']   ->   --device cuda --device cpu:0
load without strict         ->   run without --strict
"""

import ast
import copy
import re
from typing import Any

from lemurc.errors import LemurcError

_PHRASES = (
    ("leave it out with devices=", "leave it out: --device names the others"),
    ("leave the device out with devices=", "leave the device out: --device names the others"),
    ("load without strict", "run without --strict"),
    ("load with devices=['cpu']", "run with --device cpu"),
)
_DEVICES = re.compile(r"devices=(\[[^\]]*\])")


def in_flags(error: LemurcError) -> LemurcError:
    """A copy of `error` that speaks of flags."""
    told = copy.copy(error)
    told.message, told.hint = _in_flags(error.message), _in_flags(error.hint)
    return told


def _in_flags(text: str) -> str:
    for phrase, flags in _PHRASES:
        text = text.replace(phrase, flags)
    return _DEVICES.sub(lambda found: _flags(ast.literal_eval(found[1])), text)


def _flags(devices: list[Any]) -> str:
    return " ".join(f"--device {device}" for device in devices)
