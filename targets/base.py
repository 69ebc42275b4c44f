"""What a target is: data about a kind of hardware, and how a compiler is asked for code.

A new target is one `Target` value. Third parties publish theirs under the entry
point group `lemurc.targets`; `docs/adding-a-target.md` says how, and `lemurc conformance`
whether it is right.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lemurc.targets.memory_effects import MemoryEffects

COMMON_FLAGS = (
    "--iree-input-type=tm_tensor",
    "--iree-execution-model=async-external",
    # Below O2 IREE 3.13 rejects small matmuls with constant results.
    "--iree-opt-level=O2",
    # One dispatch after the other in the order of the program: where they may run side by
    # side, IREE 3.13 sometimes copies a value after the update in place it was copied for.
    "--iree-stream-partitioning-favor=debug",
    # IREE demotes f64 to f32 without a word by default.
    "--iree-input-demote-f64-to-f32=false",
    "--iree-vm-bytecode-module-strip-debug-ops",
    "--iree-vm-bytecode-module-strip-source-map",
)

CAREFUL_FLAGS = (
    # O2 fuses scatters with their sources and softmax with dynamic sizes into dispatches
    # that IREE 3.13 cannot compile for CPUs.
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
)
"""Instead of tuning, for a stage that IREE refuses to compile."""


@dataclass(frozen=True)
class StageTraits:
    """What the choice of flags may depend on, read off one stage by `lower_to_iree`.

    `composites` counts the composite kinds left to IREE's own code generation;
    `wide_resources` says that a bf16 or complex constant is stored as a resource,
    `dynamic` that some size is known only at run time, and `dynamic_batches` that some
    product of batches of matrices has such a size. `memory` says what its code may
    write into.
    """

    composites: dict[str, int] = field(default_factory=dict)
    wide_resources: bool = False
    dynamic: bool = False
    dynamic_batches: bool = False
    memory: MemoryEffects = MemoryEffects((), ())


@dataclass(frozen=True)
class Architecture:
    """One thing `target:arch` may name; `flags` tell IREE to generate code for it."""

    name: str
    flags: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    illegal_types: tuple[str, ...] | None = None
    """Where it differs from the target's."""


@dataclass(frozen=True)
class DeviceModel:
    """Numbers for a typical device: operations and bytes per second, seconds, bytes.

    `launch` is one kernel's, `call` one stage's; `tile` the rows and columns of a product
    that its code works on at a time.
    """

    flops: Mapping[str, float]
    bandwidth: float
    launch: float
    memory: int
    call: float = 5.0e-5
    tile: tuple[int, int] = (64, 64)


Select = Callable[[Any], None]
"""Replaces composites of a stage (level S, in place) by calls of kernels."""


def _no_kernels(arch: str) -> Select | None:
    return None


def _nothing_to_check(module: bytes, arch: str) -> str:
    return ""


def _no_tuning(arch: str, traits: StageTraits) -> tuple[str, ...]:
    return ()


LACKS = ("dynamic-softmax", "empty-tensors", "f64-functions")
"""What a target may say it lacks, beside element types and kinds: softmax over tensors of sizes
known at the call only, tensors without elements at run time, exp and its like of f64."""


@dataclass(frozen=True)
class Compiler:
    """A compiler of a plug-in's own, where IREE makes no code for a target.

    `python -m module stage.mlirbc FLAGS -o stage.out` reads one stage, as
    `targets/lower_to_portable.py` describes it, and writes an executable of whatever format the
    plug-in's device loads. It runs in a process and a folder of its own. Exit status 0 means
    that the file is written, any other that the stage is refused: the first line with
    "error: " on stdout or stderr, else the last line, is told to the user.

    `version` is part of what decides the executable: it must change when the compiler does,
    since executables are cached. One stage may take `time_limit` seconds.
    """

    module: str
    version: str
    time_limit: float = 600.0


@dataclass(frozen=True)
class Target:
    """A kind of hardware.

    `backend` is IREE's name of the code generator and `driver` that of the runtime
    driver; both are empty where `compiler` makes the code and a plug-in's device runs it.
    `tuning` adds flags that make a stage faster. `illegal_types` and
    `illegal_kinds` are element types and composite kinds that no stage for this
    target may hold. `same_as` maps an architecture IREE does not know to the one
    whose code runs there.
    """

    name: str
    backend: str
    driver: str
    architectures: tuple[Architecture, ...]
    default: tuple[str, ...]
    model: DeviceModel
    aliases: tuple[str, ...] = ()
    illegal_types: tuple[str, ...] = ()
    illegal_kinds: tuple[str, ...] = ()
    same_as: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    """Flags of every stage on every architecture."""
    tuning: Callable[[str, StageTraits], tuple[str, ...]] = _no_tuning
    kernels: Callable[[str], Select | None] = _no_kernels
    """The pass that puts this target's own kernels to use on an architecture."""
    check: Callable[[bytes, str], str] = _nothing_to_check
    """What is wrong with a module for an architecture; "" when nothing is."""
    fused_attention: bool = True
    """Whether IREE's own attention serves; where not, it is taken to pieces."""
    fused_reductions: bool = True
    """Whether IREE may fuse what it likes with reductions, and with what reads their results."""
    fused_products: bool = True
    """Whether IREE may fuse products with sums over several dimensions that a factor lacks."""
    exact_scalars: bool = True
    """Whether IREE compares, rounds and casts numbers right; where not, it is spelt out."""
    retry: tuple[str, ...] = ()
    """Flags to try again with, for stages that crash IREE without them."""
    resolve: Callable[[str], str] | None = None
    """Turns a name that depends on the machine ("host") into an architecture."""
    compiler: Compiler | None = None
    """Makes the code instead of IREE."""
    lacks: tuple[str, ...] = ()
    """Of LACKS: what `lemurc conformance` asks of no device of this target."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.lacks) - set(LACKS)):
            raise ValueError(f"{self.name} lacks {', '.join(unknown)}; known: {', '.join(LACKS)}")

    def architecture(self, name: str) -> Architecture | None:
        """The architecture called `name`, if this target has one."""
        for arch in self.architectures:
            if name == arch.name or name in arch.aliases:
                return arch
        return None

    def flags(
        self, arch: str, traits: StageTraits | None = None, *, tuned: bool = True
    ) -> tuple[str, ...]:
        """All of the compiler's flags, in a fixed order.

        `tuned=False` leaves out what only makes code faster, for a stage that IREE
        refuses to compile with it.
        """
        traits = traits or StageTraits()
        known = self.architecture(arch)
        if known is None:
            raise KeyError(f"{self.name} has no architecture {arch!r}")
        if self.compiler is not None:
            return (*known.flags, *self.required)
        constants: tuple[str, ...] = ()
        if traits.wide_resources:
            # Inlining such a constant into a dispatch fails to verify in IREE 3.13.
            constants = ("--iree-flow-inline-constants-max-byte-length=0",)
        return (
            *COMMON_FLAGS,
            f"--iree-hal-target-backends={self.backend}",
            *known.flags,
            *self.required,
            *constants,
            *(self.tuning(known.name, traits) if tuned else CAREFUL_FLAGS),
        )

    def illegal_types_of(self, archs: Iterable[str]) -> tuple[str, ...]:
        """Element types that code for at least one of `archs` cannot hold."""
        found: dict[str, None] = {}
        for name in archs:
            arch = self.architecture(name)
            own = arch.illegal_types if arch is not None else None
            found.update(dict.fromkeys(self.illegal_types if own is None else own))
        return tuple(found)

    def system_device(self, name: str, archs: Iterable[str]) -> dict[str, object]:
        """The default entry of `lemur.system` for a device called `name`."""
        return {
            "name": name,
            "target": self.name,
            "flops": dict(self.model.flops),
            "bandwidth": self.model.bandwidth,
            "launch": self.model.launch,
            "call": self.model.call,
            "tile": list(self.model.tile),
            "memory": self.model.memory,
            "memory_known": False,
            "illegal_types": list(self.illegal_types_of(archs)),
            "illegal_kinds": list(self.illegal_kinds),
        }
