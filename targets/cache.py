"""Compiled stages on disk, found by what they were made from.

An entry is named by the hash of everything that decides its bytes and starts with
the hash of its content, so a damaged one is noticed and made again. The least
recently used entries go when the folder outgrows its limit.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DEFAULT_MAX_BYTES = 4 << 30
_DIGEST = hashlib.sha256().digest_size


def default_directory() -> Path:
    """LEMURC_CACHE_DIR, or the platform's folder for caches."""
    if chosen := os.environ.get("LEMURC_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lemurc"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "lemurc" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lemurc"


def own_system_path() -> Path:
    """Where `lemurc probe` keeps the description of this machine."""
    return default_directory() / "system.json"


def cache_key(bytecode: bytes, flags: Iterable[str], compiler: str) -> str:
    """A hash of the three; each part is preceded by its length, so none can pose as another.

    Kernels of the library are part of `bytecode`.
    """
    digest = hashlib.sha256()
    parts = [bytecode, compiler.encode(), *(flag.encode() for flag in flags)]
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True)
class Cache:
    """Safe for several processes at once: entries appear whole, by renaming."""

    directory: Path
    max_bytes: int = DEFAULT_MAX_BYTES

    def get(self, key: str) -> bytes | None:
        """The content stored under `key`, or None when it is absent or damaged."""
        path = self._path(key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        content = stored[_DIGEST:]
        if hashlib.sha256(content).digest() != stored[:_DIGEST]:
            path.unlink(missing_ok=True)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # read-only, or evicted meanwhile: only its age is lost
        return content

    def put(self, key: str, content: bytes) -> None:
        """Stores `content`; a folder that cannot be written to just stores nothing."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(name, path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            return
        self._evict(keep=path)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(size for _, size, _ in self._entries())

    def clear(self) -> int:
        """Removes every entry and returns how many bytes that freed."""
        freed = 0
        for _, size, path in self._entries():
            path.unlink(missing_ok=True)
            freed += size
        return freed

    def _path(self, key: str) -> Path:
        return self.directory / "stages" / key[:2] / key

    def _entries(self) -> list[tuple[float, int, Path]]:
        found = []
        for path in self.directory.glob("stages/??/*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            found.append((status.st_mtime, status.st_size, path))
        return sorted(found)

    def _evict(self, keep: Path) -> None:
        entries = self._entries()
        excess = sum(size for _, size, _ in entries) - self.max_bytes
        for _, size, path in entries:
            if excess <= 0:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                excess -= size
