"""The format of an executable: what its function takes and gives, then MLIR bytecode.

    b"MLIRJIT\\1"   length of the header, 4 bytes   header, JSON   bytecode of the LLVM dialect

The header has the dtypes of arguments, and dtype and rank of each result.
"""

import json
from dataclasses import dataclass

MAGIC = b"MLIRJIT\1"


@dataclass(frozen=True)
class Executable:
    """`arguments` are NumPy's or ml_dtypes' names; `results` are (dtype, rank)."""

    arguments: tuple[str, ...]
    results: tuple[tuple[str, int], ...]
    bytecode: bytes

    def encode(self) -> bytes:
        header = json.dumps({"arguments": self.arguments, "results": self.results}).encode()
        return MAGIC + len(header).to_bytes(4, "little") + header + self.bytecode

    @classmethod
    def decode(cls, data: memoryview) -> "Executable":
        """Raises ValueError for bytes of another format."""
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError("not an executable of this version of lemurc-mlir-jit")
        start = len(MAGIC) + 4
        stop = start + int.from_bytes(data[len(MAGIC) : start], "little")
        header = json.loads(bytes(data[start:stop]))
        results = tuple((str(dtype), int(rank)) for dtype, rank in header["results"])
        return cls(tuple(header["arguments"]), results, bytes(data[stop:]))
