"""Numbers of bytes in units people read."""


def size(count: float) -> str:
    """`812 B`, `4.6 KiB`, `86.7 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
