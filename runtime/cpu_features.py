"""Which CPU architectures, by the names modules carry, this machine can run."""

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64-v4", _V4),
    ("x86-64-v3", _V3),
    ("x86-64-v2", _V2),
    ("x86-64", frozenset()),
)

_override: tuple[str, ...] | None = None


def supported_archs() -> tuple[str, ...]:
    """Best first: ("x86-64-v3", "x86-64-v2", "x86-64")."""
    if _override is not None:
        return _override
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return ("aarch64",)
    if machine in ("x86_64", "amd64"):
        flags = _cpu_flags()
        return tuple(name for name, needed in _LEVELS if needed <= flags)
    return ()


@contextlib.contextmanager
def override(archs: tuple[str, ...]) -> Iterator[None]:
    """Let tests act as another CPU."""
    global _override
    before, _override = _override, archs
    try:
        yield
    finally:
        _override = before


def _cpu_flags() -> frozenset[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()
