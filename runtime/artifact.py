"""Reading a `.lemur` file: verified once, then mapped without a copy.

Opening needs neither a device nor PyTorch nor the compiler.
"""

import json
import mmap
import os
import struct
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 and float8 by name)
import numpy as np

from lemurc.errors import ArtifactError, UsageError
from lemurc.manifest import FORMAT_VERSION, Golden, Manifest, TensorFile, from_json
from lemurc.runtime import integrity
from lemurc.runtime.container import (
    ALIGNMENT,
    COMMENT_LENGTH,
    COMMENT_PREFIX,
    MANIFEST_ENTRY,
    MIMETYPE,
    MIMETYPE_ENTRY,
    WEIGHTS_ENTRY,
    hash_outside,
    write,
)

__all__ = ["Artifact", "write"]


class Artifact:
    """An open artifact: `path`, `manifest`, and views of its entries.

    Views and the arrays made of them stay valid after `close()`, which only drops
    this object's own reference to the map.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        data: memoryview,
        ranges: dict[str, tuple[int, int]],
        beside: dict[str, memoryview],
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._data = data
        self._ranges = ranges
        self._beside = beside

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, check_weights: bool = True) -> "Artifact":
        """Map and verify `path`; every fault of the file is an ArtifactError.

        What is no path at all is a UsageError.

        `check_weights=False` skips the hash of the weights alone, for files too large
        to read at every start.
        """
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise UsageError(
                f"an artifact is opened by the path of its .lemur file, not by {path!r}",
                code="no-artifact-path",
                hint="lemurc.compile(...).path is one",
            )
        path = Path(path)
        data = _map(path)
        ranges, document = _outline(path, data)
        _verify_frame(path, data, ranges, document)
        beside = _map_beside(path, document["files"])
        _verify_entries(path, data, ranges, beside, document["files"], check_weights)
        try:
            manifest = from_json(str(document["text"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _corrupt(path, f"its manifest is not valid ({error})") from error
        return cls(path, manifest, data, ranges, beside)

    @property
    def size(self) -> int:
        return len(self._data)

    def entry(self, name: str) -> memoryview:
        """The bytes of an entry, read-only and without a copy."""
        if name in self._beside:
            return self._beside[name]
        if name not in self._ranges:
            raise _corrupt(self.path, f"it has no entry {name!r}")
        start, stop = self._ranges[name]
        return self._data[start:stop]

    def weight(self, name: str) -> np.ndarray:
        """A weight as a read-only array over the mapped file."""
        weight = self.manifest.weights[name]
        dtype = np.dtype(weight.dtype)
        return np.frombuffer(self.weight_bytes(name), np.uint8).view(dtype).reshape(weight.shape)

    def weight_bytes(self, name: str) -> memoryview:
        weight = self.manifest.weights[name]
        if not weight.length:
            return memoryview(b"")
        return self.entry(WEIGHTS_ENTRY)[weight.offset : weight.offset + weight.length]

    def tensor(self, file: TensorFile) -> np.ndarray:
        """The tensor held by an entry, as a read-only array."""
        raw = np.frombuffer(self.entry(file.file), np.uint8)
        return raw.view(np.dtype(file.dtype)).reshape(file.shape)

    def golden(self, function: str) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
        """Inputs and eager's outputs of one call of `function`, if they were kept."""
        golden: Golden | None = self.manifest.golden.get(function)
        if golden is None:
            return None
        return [self.tensor(t) for t in golden.inputs], [self.tensor(t) for t in golden.outputs]

    def close(self) -> None:
        self._data = memoryview(b"")
        self._ranges = {}
        self._beside = {}

    def __enter__(self) -> "Artifact":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise _foreign(path, "it is empty")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as error:
        raise ArtifactError(
            f"there is no file {path}", code="artifact-not-found", where=str(path),
            hint="check the path, or make the artifact with `lemurc compile`",
        ) from error  # fmt: skip
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror or error}", code="artifact-unreadable",
            where=str(path), hint="check that it is a file and that you may read it",
        ) from error  # fmt: skip


def _outline(path: Path, data: memoryview) -> tuple[dict[str, tuple[int, int]], dict[str, Any]]:
    """Where each entry lies, and the manifest as plain JSON.

    Nothing is verified yet, so any failure to make sense of the bytes means damage.
    """
    head = data[: ALIGNMENT + len(MIMETYPE)].tobytes()
    content = head[ALIGNMENT:]
    starts_well = head[:4] == b"PK\3\4" and head[30:].startswith(MIMETYPE_ENTRY.encode())
    ends_well = data[-COMMENT_LENGTH:].tobytes().startswith(COMMENT_PREFIX)
    if not ends_well and not (starts_well and MIMETYPE.startswith(content)):
        raise _foreign(path, "it does not look like one")
    if not ends_well:
        raise _corrupt(path, "its end is missing, or something follows it")
    pages: Any = data.obj
    try:
        with zipfile.ZipFile(pages) as archive:
            infos = archive.infolist()
        ranges = {info.filename: _range(data, info) for info in infos}
        start, stop = ranges[MANIFEST_ENTRY]
        text = data[start:stop].tobytes().decode()
        parsed = json.loads(text)
        return ranges, {"text": text, "files": dict(parsed["files"]), "format": parsed["format"]}
    except Exception as error:
        raise _corrupt(path, "its directory or manifest cannot be read") from error


def _range(data: memoryview, info: zipfile.ZipInfo) -> tuple[int, int]:
    name_length, extra_length = struct.unpack_from("<2H", data, info.header_offset + 26)
    start = info.header_offset + 30 + name_length + extra_length
    if start + info.file_size > len(data):
        raise ValueError(f"{info.filename} ends after the file does")
    return start, start + info.file_size


def _verify_frame(
    path: Path, data: memoryview, ranges: dict[str, tuple[int, int]], document: dict[str, Any]
) -> None:
    """Everything but the entries: headers, padding, manifest, directory; then the version."""
    inside = [name for name, entry in document["files"].items() if "external" not in entry]
    missing = sorted(set(inside) - set(ranges))
    if missing:
        raise _corrupt(path, f"entries are missing: {missing}")
    expected = data[-64:].tobytes().decode("ascii", "replace")
    if hash_outside(data[:-64], [ranges[name] for name in inside]) != expected:
        raise _corrupt(path, "its headers or manifest were changed")
    if document["format"] != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has artifact format {document['format']}, this lemurc reads {FORMAT_VERSION}",
            code="artifact-version",
            where=str(path),
            hint="compile the model again with this version, or install the one that made it",
        )


def _map_beside(path: Path, files: dict[str, Any]) -> dict[str, memoryview]:
    """Entries that are files of their own, in the folder of the artifact."""
    beside = {}
    for name, entry in files.items():
        if "external" in entry:
            try:
                beside[name] = _map(path.parent / Path(entry["external"]).name)
            except ArtifactError as error:
                raise ArtifactError(
                    f"{path} keeps its weights in another file: {error.message}",
                    code="weights-not-found",
                    where=str(path),
                    hint=f"put {entry['external']} beside it, as `lemurc compile` did",
                ) from error
    return beside


def _verify_entries(
    path: Path,
    data: memoryview,
    ranges: dict[str, tuple[int, int]],
    beside: dict[str, memoryview],
    files: dict[str, Any],
    check_weights: bool,
) -> None:
    wanted = [name for name in files if check_weights or name != WEIGHTS_ENTRY]
    views = {name: beside[name] if name in beside else data[slice(*ranges[name])] for name in files}
    for name, view in views.items():
        if len(view) != files[name]["size"]:
            raise _corrupt(path, f"its entry {name!r} has another size")
    wrong = integrity.damaged((name, views[name], files[name]) for name in wanted)
    if wrong is not None:
        name = f"weights file {files[wrong]['external']!r}" if wrong in beside else repr(wrong)
        raise _corrupt(path, f"{name} was changed")


def _foreign(path: Path, why: str) -> ArtifactError:
    return ArtifactError(
        f"{path} is not a lemurc artifact: {why}",
        code="not-an-artifact",
        where=str(path),
        hint="pass a .lemur file, as written by `lemurc compile`",
    )


def _corrupt(path: Path, why: str) -> ArtifactError:
    return ArtifactError(
        f"{path} is damaged: {why}",
        code="corrupt-artifact",
        where=str(path),
        hint="copy it again from where it was made, or compile the model again",
    )
