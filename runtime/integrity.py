"""SHA-256 of the entries of an artifact, computed on every core.

A large entry also has the hashes of its 16 MiB blocks, since one SHA-256 cannot be
split over threads: to verify it, the blocks are enough.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK = 16 << 20


def digest(data: "memoryview | bytes") -> str:
    return hashlib.sha256(data).hexdigest()


def describe(data: memoryview) -> dict[str, Any]:
    """What the manifest says of an entry: size, SHA-256, block hashes if it has several."""
    entry: dict[str, Any] = {"size": len(data)}
    pieces = list(_blocks(data))
    with ThreadPoolExecutor(_workers()) as pool:
        whole = pool.submit(digest, data)
        if len(pieces) > 1:
            entry["blocks"] = list(pool.map(digest, pieces))
        entry["sha256"] = whole.result()
    return entry


def damaged(entries: Iterable[tuple[str, memoryview, dict[str, Any]]]) -> str | None:
    """The name of the first entry whose bytes are not those described, or None."""
    jobs: list[tuple[str, memoryview, str]] = []
    for name, data, described in entries:
        blocks = described.get("blocks")
        if described["size"] != len(data):
            return name
        if blocks is None:
            jobs.append((name, data, described["sha256"]))
            continue
        pieces = list(_blocks(data))
        if len(pieces) != len(blocks):
            return name
        jobs += [(name, piece, block) for piece, block in zip(pieces, blocks, strict=True)]
    if sum(len(data) for _, data, _ in jobs) < BLOCK:
        return next((name for name, data, expected in jobs if digest(data) != expected), None)
    with ThreadPoolExecutor(_workers()) as pool:
        found = pool.map(digest, (data for _, data, _ in jobs))
        wrong = [
            name for (name, _, expected), got in zip(jobs, found, strict=True) if got != expected
        ]
    return wrong[0] if wrong else None


def _blocks(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), BLOCK):
        yield data[start : start + BLOCK]


def _workers() -> int:
    return min(os.cpu_count() or 1, 16)
