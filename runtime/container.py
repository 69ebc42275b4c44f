"""Writing a `.lemur` file: a zip whose entries are stored, aligned and reproducible.

    mimetype            tells `file` and us what this is
    weights.irpa        written in place by IREE, so no second copy of the weights exists
    golden/..., modules/...   by name
    manifest.json       last, as it holds the hashes of all others
    central directory, and a comment: SHA-256 of every byte that is in no hashed entry

The data of each entry starts at a multiple of 4096, reached by a padding extra field.
docs/artifact.md is the description for others.
"""

import contextlib
import dataclasses
import hashlib
import mmap
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lemurc.errors import UsageError
from lemurc.manifest import Manifest, Weight, to_json
from lemurc.runtime import integrity
from lemurc.units import size as printed

ALIGNMENT = 4096
MIMETYPE_ENTRY = "mimetype"
MIMETYPE = b"application/vnd.lemurc"
MANIFEST_ENTRY = "manifest.json"
WEIGHTS_ENTRY = "weights.irpa"
COMMENT_PREFIX = b"lemurc sha256="
COMMENT_LENGTH = len(COMMENT_PREFIX) + 64

_BUFFER_ALIGNMENT = 64
_PADDING_FIELD = 0xD935
_EPOCH = 0x21
_LIMIT32 = 0xFFFFFFFF


def write(
    path: str | os.PathLike[str],
    manifest: Manifest,
    entries: Mapping[str, bytes | Path],
    weights: Mapping[str, np.ndarray],
    *,
    external_weights: str | None = None,
) -> Manifest:
    """Write the artifact and return its manifest, with `files` and `weights` filled in.

    The file appears under its name only when it is complete. With `external_weights`,
    a file name, the weights go to a file of that name beside it, referenced by hash.
    """
    target = Path(path)
    with _finished_or_absent(target) as temporary:
        if not external_weights or not weights:
            return _Writer(temporary).write(manifest, entries, weights, {})
        if Path(external_weights).name != external_weights:
            raise UsageError(
                f"{external_weights!r} is not a plain file name",
                code="external-weights",
                hint="weights lie beside the artifact: give a name without a folder",
            )
        with _finished_or_absent(target.parent / external_weights) as beside:
            placed, described = _write_beside(beside, weights)
            described["external"] = external_weights
            manifest = dataclasses.replace(manifest, weights=placed)
            return _Writer(temporary).write(manifest, entries, {}, {WEIGHTS_ENTRY: described})


@contextlib.contextmanager
def _finished_or_absent(target: Path) -> Iterator[Path]:
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror or error}",
            code="unwritable-output",
            where=str(target),
            hint="choose another --output, or make room and check the folder's permissions",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class _Record:
    """One line of the central directory."""

    name: bytes
    offset: int
    start: int
    size: int
    crc: int


class _Writer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[_Record] = []
        self.end = 0

    def write(
        self,
        manifest: Manifest,
        entries: Mapping[str, bytes | Path],
        weights: Mapping[str, np.ndarray],
        beside: dict[str, dict[str, Any]],
    ) -> Manifest:
        """`beside` describes entries that are files of their own, `manifest` their tensors."""
        _create(self.path)
        # The archive comes before any other byte: IREE empties the file.
        archive = _data_offset(_data_offset(0, MIMETYPE_ENTRY) + len(MIMETYPE), WEIGHTS_ENTRY)
        placed = _write_weights(self.path, archive, weights) if weights else {}
        with self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            self._add(file, MIMETYPE_ENTRY, MIMETYPE)
            files = dict(beside)
            hashed = set(entries)
            if weights:
                hashed.add(WEIGHTS_ENTRY)
                files[WEIGHTS_ENTRY] = self._adopt(file, WEIGHTS_ENTRY, size - archive)
            for name in sorted(entries):
                files[name] = self._add(file, name, entries[name])
            placed = manifest.weights if beside else placed
            manifest = dataclasses.replace(manifest, files=files, weights=placed)
            self._add(file, MANIFEST_ENTRY, to_json(manifest).encode())
            self._finish(file, hashed)
        return manifest

    def _add(self, file: BinaryIO, name: str, content: bytes | Path) -> dict[str, Any]:
        start = _data_offset(self.end, name)
        file.seek(start)
        if isinstance(content, Path):
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        else:
            file.write(content)
        return self._adopt(file, name, file.tell() - start)

    def _adopt(self, file: BinaryIO, name: str, size: int) -> dict[str, Any]:
        """Give the `size` bytes already at the next data offset a header and a record."""
        start = _data_offset(self.end, name)
        file.flush()
        with _mapped(file, start, size) as data:
            described = integrity.describe(data)
            crc = 0
            for at in range(0, size, 1 << 20):
                crc = zlib.crc32(data[at : at + (1 << 20)], crc)
        record = _Record(name.encode(), self.end, start, size, crc)
        file.seek(self.end)
        file.write(_local_header(record))
        self.records.append(record)
        self.end = start + size
        return described

    def _finish(self, file: BinaryIO, hashed: set[str]) -> None:
        directory = b"".join(_directory_line(record) for record in self.records)
        file.seek(self.end)
        file.write(directory + _end_of_directory(len(self.records), self.end, len(directory)))
        file.write(struct.pack("<H", COMMENT_LENGTH) + COMMENT_PREFIX)
        file.flush()
        size = file.tell()
        covered = [(r.start, r.start + r.size) for r in self.records if r.name.decode() in hashed]
        with _mapped(file, 0, size) as data:
            rest = hash_outside(data, covered)
        file.write(rest.encode())


def hash_outside(data: memoryview, covered: list[tuple[int, int]]) -> str:
    """SHA-256 of the bytes of `data` in none of the `covered` ranges."""
    rest = hashlib.sha256()
    position = 0
    for start, stop in sorted(covered):
        rest.update(data[position:start])
        position = stop
    rest.update(data[position:])
    return rest.hexdigest()


def _create(path: Path) -> None:
    """Make an empty file with the permissions the user's umask gives."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
    os.close(os.open(path, flags, 0o666))


def _write_beside(
    path: Path, weights: Mapping[str, np.ndarray]
) -> tuple[dict[str, Weight], dict[str, Any]]:
    """The weights as a file of their own, and what `manifest.files` says of it."""
    _create(path)
    placed = _write_weights(path, 0, weights)
    with path.open("rb") as file, _mapped(file, 0, path.stat().st_size) as data:
        return placed, integrity.describe(data)


def _write_weights(path: Path, offset: int, weights: Mapping[str, np.ndarray]) -> dict[str, Weight]:
    """An IRPA archive at `offset` of a new file; what lies in memory of another tensor is stored
    with it."""
    from iree.runtime import ParameterIndex

    flat = {
        name: np.asarray(weights[name], order="C").reshape(-1).view(np.uint8)
        for name in sorted(weights)
    }
    within = _within(flat)
    index = ParameterIndex()
    for name, (owner, _) in within.items():
        if name == owner:
            index.add_buffer(name, flat[name])
    needed = sum(flat[name].nbytes for name, (owner, _) in within.items() if name == owner)
    if shutil.disk_usage(path.parent).free < needed:
        # IREE writes through a memory map, where a full disk would be a bus error.
        raise OSError(28, f"No space left on device ({printed(needed)} of weights)")
    archive = index.create_archive_file(str(path), offset, ParameterIndex())
    offsets = {key: entry.file_storage[1] for key, entry in archive.items()}
    return {
        name: Weight(
            dtype=str(weights[name].dtype),
            shape=tuple(weights[name].shape),
            offset=offsets[owner] + distance if flat[name].nbytes else 0,
            length=flat[name].nbytes,
        )
        for name, (owner, distance) in within.items()
    }


def _within(flat: Mapping[str, np.ndarray]) -> dict[str, tuple[str, int]]:
    """Of each tensor the one whose bytes hold its own, at which distance; itself where none does.

    Distances are multiples of what devices want buffers aligned to.
    """
    start = {name: bytes_.__array_interface__["data"][0] for name, bytes_ in flat.items()}
    found: dict[str, tuple[str, int]] = {}
    owner = ""
    for name in sorted(flat, key=lambda name: (start[name], -flat[name].nbytes, name)):
        inside = (
            bool(owner) and start[name] + flat[name].nbytes <= start[owner] + flat[owner].nbytes
        )
        distance = start[name] - start[owner] if inside else 0
        if not flat[name].nbytes or not inside or distance % _BUFFER_ALIGNMENT:
            found[name] = (name, 0)
            owner = name if flat[name].nbytes and not inside else owner
        else:
            found[name] = (owner, distance)
    return {name: found[name] for name in sorted(found)}


def _data_offset(header: int, name: str) -> int:
    """Where the data of an entry starts whose local header is at `header`.

    Room for the ZIP64 field is always left, so that this needs no size.
    """
    unpadded = header + 30 + len(name.encode()) + 20 + 6
    return -(-unpadded // ALIGNMENT) * ALIGNMENT


def _local_header(record: _Record) -> bytes:
    extra = struct.pack("<HHQQ", 1, 16, record.size, record.size)
    padding = record.start - record.offset - 30 - len(record.name) - len(extra) - 6
    extra += struct.pack("<HHH", _PADDING_FIELD, 2 + padding, ALIGNMENT) + bytes(padding)
    fixed = struct.pack(
        "<4s5H3L2H", b"PK\3\4", 45, _flags(record), 0, 0, _EPOCH, record.crc,
        _LIMIT32, _LIMIT32, len(record.name), len(extra),
    )  # fmt: skip
    return fixed + record.name + extra


def _directory_line(record: _Record) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, record.size, record.size, record.offset)
    fixed = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 45, 45, _flags(record), 0, 0, _EPOCH, record.crc,
        _LIMIT32, _LIMIT32, len(record.name), len(extra), 0, 0, 0, 0, _LIMIT32,
    )  # fmt: skip
    return fixed + record.name + extra


def _end_of_directory(count: int, start: int, size: int) -> bytes:
    """The ZIP64 end record, its locator and the classic end record up to the comment."""
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)
    classic = struct.pack(
        "<4s4H2L", b"PK\5\6", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), _LIMIT32, _LIMIT32
    )
    return wide + locator + classic


def _flags(record: _Record) -> int:
    return 0 if record.name.isascii() else 0x800


@contextlib.contextmanager
def _mapped(file: BinaryIO, start: int, size: int) -> Iterator[memoryview]:
    """A view of `size` bytes of the file from `start`, a multiple of the page size."""
    if not size:
        yield memoryview(b"")
        return
    with (
        contextlib.closing(
            mmap.mmap(file.fileno(), size, offset=start, access=mmap.ACCESS_READ)
        ) as pages,
        memoryview(pages) as view,
    ):
        yield view
