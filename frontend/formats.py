"""What a model file is, told by its content; names and extensions are not trusted."""

import zipfile
from enum import Enum
from pathlib import Path

from lemurc.errors import UsageError


class Format(Enum):
    FACTORY = "a Python file with a factory"
    HUGGING_FACE = "a Hugging Face folder"
    EXPORTED_PROGRAM = "a torch.export archive"
    TORCHSCRIPT = "a TorchScript archive"
    PICKLE = "a pickled module or state dict"
    SAFETENSORS = "a safetensors file"
    ONNX = "an ONNX model"
    MLIR = "MLIR text or bytecode"


_KNOWN = (
    "torch.export archives, TorchScript, pickled modules (with --trust-pickle), "
    "Hugging Face folders, ONNX, MLIR, and file.py:factory"
)
BUILD_HINT = (
    "write a file with a function build() that makes the module, loads these weights and "
    "returns (module, example arguments), then use --model file.py:build"
)
"""The way out for a file that holds weights alone."""

_MLIR_BYTECODE = b"ML\xefR"
_ZIP = b"PK\x03\x04"
_ONNX_FIELDS = tuple(bytes([tag]) for tag in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42))
"""Tags of what may follow the IR version in an ONNX file: producer, domain, graph, ..."""
_HEAD = 4096


def detect(path: Path, spelled: str) -> Format:
    """`spelled` is what the user wrote, for messages."""
    if not path.exists():
        raise UsageError(
            f"there is no file or folder {spelled!r}",
            code="model-not-found",
            hint=f"paths are relative to {Path.cwd()}; a factory is written file.py:build",
        )
    if path.is_dir():
        if (path / "config.json").is_file():
            return Format.HUGGING_FACE
        raise UsageError(
            f"the folder {spelled!r} has no config.json",
            code="not-a-model-folder",
            hint="a Hugging Face folder holds config.json and *.safetensors",
        )
    if zipfile.is_zipfile(path):
        return _detect_archive(path, spelled)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise damaged(spelled, "it is empty")
    if head.startswith(_ZIP):
        raise damaged(spelled, "it is a zip archive whose end is missing")
    if head.startswith(_MLIR_BYTECODE):
        return Format.MLIR
    if head.startswith(b"\x80"):
        return Format.PICKLE
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32:
        return Format.SAFETENSORS
    if head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] in _ONNX_FIELDS:
        return Format.ONNX
    return _detect_text(path, head, spelled)


def refuse_damaged_archive(path: Path) -> None:
    """UsageError when an entry of a zip archive is not what its checksum says."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except Exception as error:
        raise damaged(str(path), str(error)) from error
    if broken is not None:
        raise damaged(str(path), f"its entry {broken!r} does not match its checksum")


def damaged(spelled: str, why: str) -> UsageError:
    return UsageError(
        f"{spelled!r} is damaged: {why}",
        code="damaged-file",
        hint="copy it again from where it came from, or save it again",
    )


def _detect_archive(path: Path, spelled: str) -> Format:
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2] or name for name in archive.namelist()}
    if "archive_format" in names or "models/model.json" in names:
        return Format.EXPORTED_PROGRAM
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return Format.TORCHSCRIPT
    if "data.pkl" in names:
        return Format.PICKLE
    if "manifest.json" in names:
        raise UsageError(
            f"{spelled!r} is a compiled .lemur artifact, not a model",
            code="already-compiled",
            hint="run it with lemurc run, or load it with lemurc.load",
        )
    raise _unknown(spelled)


def _detect_text(path: Path, head: bytes, spelled: str) -> Format:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # a character may be cut at the end of what was read
        if error.start < len(head) - 4:
            raise _unknown(spelled) from error
        text = head[: error.start].decode()
    if "\x00" not in text and any(word in text for word in ("func.func", "module {", "module @")):
        return Format.MLIR
    if path.suffix == ".py":
        raise UsageError(
            f"{spelled!r} is a Python file; name the function that builds the model",
            code="factory-missing",
            hint=f"--model {spelled}:build, where build() returns (module, example arguments)",
        )
    raise _unknown(spelled)


def _unknown(spelled: str) -> UsageError:
    return UsageError(
        f"{spelled!r} is in no format that lemurc knows",
        code="unknown-format",
        hint=f"lemurc reads {_KNOWN}",
    )
