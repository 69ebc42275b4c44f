"""Plain text for results: aligned columns, and numbers in units people read."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Rows as lines with aligned columns; every row has the same length."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return [(indent + "  ".join(row)).rstrip() for row in padded]


def duration(seconds: float) -> str:
    """Three digits: `12.3 us`, `4.56 ms`, `78.9 s`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def counted(count: int, word: str) -> str:
    """`1 stage`, `3 stages`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def number(count: float) -> str:
    """Counts with a metric suffix: `950`, `12.3k`, `4.56M`, `7.89G`."""
    for suffix in ("", "k", "M", "G", "T"):
        if count < 1000 or suffix == "T":
            return f"{count:.3g}{suffix}"
        count /= 1000
    raise AssertionError
