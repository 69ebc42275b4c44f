"""What a `.lemur` file says about itself: plain data, JSON in and out.

Names of values ("references") are the same in every plan of one function:

    "input:0"        a flat input of the call
    "state:cache"    session state (a buffer the model changes)
    "param:w"        a weight
    "v12"            a value some stage computes
"""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any

FORMAT_VERSION = 1
"""Raised when a reader of the old version would misread a file of the new one."""

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}
"""MLIR's element types by NumPy's or ml_dtypes' names."""

HOST = "host"
"""The target, and the name of the device, of stages that PyTorch runs: see HostCall."""

RANDOM_STATE = "random_state"
"""The state variable that says where the random number generator stands: one int64."""


@dataclass(frozen=True)
class SymbolicDim:
    """A dimension known at the call, `min <= n <= max`.

    `symbol` is a name, which means one number everywhere in a call, or an expression of
    such names: "4*t + 1".
    """

    symbol: str
    min: int
    max: int | None = None
    multiple_of: int = 1


@dataclass(frozen=True)
class TensorSpec:
    """`dtype` is NumPy's or ml_dtypes' name: float32, bfloat16, int64, bool, ..."""

    name: str
    dtype: str
    shape: tuple[int | SymbolicDim, ...]


@dataclass(frozen=True)
class Cost:
    """Counts of one execution; bytes are those of distinct tensors touched."""

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    live_bytes: int = 0


@dataclass(frozen=True)
class Workload:
    """`count` operations that the cost model cannot tell apart; figures are those of one.

    `kind` names what is computed ("linear", "add+gelu+linear"), `dtype` is MLIR's name.
    `shape` is (rows, columns, depth) where it multiplies matrices, else empty.
    """

    kind: str
    dtype: str
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    shape: tuple[int, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class ModuleFile:
    """One compiled stage for one architecture of one target; `file` is an entry's name.

    Inside the module weight k is parameter `"model"::"p<k>"`, k counting `parameters`, so
    equal layers of a model share one file. A kernel may want a weight in a layout of its own.
    """

    target: str
    arch: str
    file: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostResult:
    """Result number `position` of an operator; a size of -1 is known at the call only."""

    position: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class HostCall:
    """A stage that PyTorch runs in eager mode on the CPU: one operator that nothing compiles.

    `op` is its name with the overload, "aten::index.Tensor", "my_library::scale". `arguments`
    are in the order of its schema: null, booleans, numbers, strings and lists are constants,
    {"tensor": k} is input k of the stage and {"number": k} the one number in it, {"device": ..}
    a device and {"float": "inf"} a number that JSON lacks. `inputs` are the dtypes of the
    stage's inputs, of which weights are "param:..." references; `results` are its outputs.
    """

    op: str
    arguments: tuple[Any, ...]
    inputs: tuple[str, ...]
    results: tuple[HostResult, ...]


@dataclass(frozen=True)
class Stage:
    """A pure function: references in, value names out.

    The entry point of its modules is `@run(inputs..., wait fence, signal fence)`; `ops`
    counts operations by kind. `written` are positions of inputs whose memory the modules
    may write into: it must be of no use to anybody else. `owned` are outputs whose memory
    is that of no input but those, nor of another output. A stage with `host` has no modules.
    `work` is what the cost model predicts its time from, `content` a hash of what it computes,
    whatever it is called. `paths` are the modules of the model it comes from, outer ones where
    there are many.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost: Cost
    ops: dict[str, int]
    modules: tuple[ModuleFile, ...]
    written: tuple[int, ...] = ()
    owned: tuple[int, ...] = ()
    host: HostCall | None = None
    work: tuple[Workload, ...] = ()
    content: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputRange:
    """Values an integer input must have, else the model would index outside a table.

    Looked at before the call. None is no bound; `nonzero` forbids 0 (a divisor); `reason`
    says what the bounds come from: "index into a table of size 10, model.py:12".
    """

    input: int
    min: int | None
    max: int | None
    reason: str
    nonzero: bool = False


@dataclass(frozen=True)
class Function:
    """One entry point. `results` and `state_updates` name where each comes from.

    `argument_names` are the positional parameters of the model's `forward`, so that a
    call may pass any of them by keyword; `argument_defaults` are the constants of those
    that have one, so that a call may spell it out. `in_tree` describes `(args, kwargs)`.
    `input_updates` maps inputs the model changes in place, "2", to their new value.
    `check_flags` is the value with one boolean per message of `checks`, true where what
    the message says has happened: the call has no result then.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    results: tuple[str, ...]
    in_tree: dict[str, Any]
    out_tree: dict[str, Any]
    argument_names: tuple[str, ...] = ()
    argument_defaults: dict[str, Any] = field(default_factory=dict)
    state_updates: dict[str, str] = field(default_factory=dict)
    input_updates: dict[str, str] = field(default_factory=dict)
    input_ranges: tuple[InputRange, ...] = ()
    checks: tuple[str, ...] = ()
    check_flags: str = ""


@dataclass(frozen=True)
class Device:
    """A device as a plan sees it: `name` is unique ("cpu:1"), `target` is its kind.

    `asked` says that the user named it, by a pin or a description of the system: it is
    used even where it is software.
    """

    name: str
    target: str
    asked: bool = False


@dataclass(frozen=True)
class Step:
    stage: str
    device: str


@dataclass(frozen=True)
class Transfer:
    """A value that crosses from device `source` to `target`; one end may be "host memory".

    `before` is the number of the first step that waits for it; that of the steps where it is
    a result, or state that the next call reads.
    """

    value: str
    source: str
    target: str
    bytes: int
    seconds: float
    before: int


@dataclass(frozen=True)
class StepMemory:
    """Bytes on the device of a step: the `weights` it reads, the values `held` there once it
    has run, and the most of values and temporaries at once while it runs, `peak`."""

    weights: int
    held: int
    peak: int


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes on one device: distinct weights, and the most of values and temporaries at once."""

    weights: int
    activations: int

    @property
    def peak(self) -> int:
        return self.weights + self.activations


@dataclass(frozen=True)
class OrderMemory:
    """Live bytes of values, on all devices together: the most in the order of the plan (`peak`)
    and in the program's own (`program`), and what no order gets below (`bound`)."""

    peak: int
    program: int
    bound: int


@dataclass(frozen=True)
class Prediction:
    """What the cost model expects of one call: seconds, bytes moved, cuts crossed, memory.

    `seconds_by_step` are those of the plan's steps, in order, without transfers, and
    `memory_by_step` what is in memory then: those and `transfers` are of one part of a call that
    is cut in micro-batches.
    """

    seconds: float
    transfer_bytes: int
    crossings: int
    seconds_by_device: dict[str, float] = field(default_factory=dict)
    seconds_by_step: tuple[float, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    memory: dict[str, DeviceMemory] = field(default_factory=dict)
    memory_by_step: tuple[StepMemory, ...] = ()
    order: OrderMemory | None = None


@dataclass(frozen=True)
class MicroBatches:
    """In how many equal parts a call is cut, along which dimension of each input and output; -1
    is an input that every part gets whole."""

    count: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """How to run every function on one set of devices; steps are in execution order.

    Those of a function with `micro_batches` compute one part of a call.
    """

    devices: tuple[Device, ...]
    steps: dict[str, tuple[Step, ...]]
    predicted: dict[str, Prediction]
    micro_batches: dict[str, MicroBatches] = field(default_factory=dict)


@dataclass(frozen=True)
class Weight:
    """A tensor in `weights.irpa`: `offset` from the start of that entry, in bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True)
class TensorFile:
    """An entry that holds one tensor: raw, little-endian, row-major."""

    file: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Golden:
    """Inputs of one call from the initial state and what eager answered."""

    inputs: tuple[TensorFile, ...]
    outputs: tuple[TensorFile, ...]


@dataclass(frozen=True)
class Training:
    """What makes an artifact one that trains: `lemurc.load` gives a Trainer for it.

    `tensors` says where each tensor of PyTorch's `model.state_dict()` is: "state:..." of what
    training changes, else "param:...". `count` is the state variable that counts steps. A step
    is one call of `step`, or, where `accumulate` is above 1, that many of `accumulate` and one
    of `update`. `lr` is the rate of steps that are given none. `identity` is a hash of the
    model's modules, the names and shapes of the state and the optimizer: who shares it can
    share checkpoints.
    """

    tensors: dict[str, str]
    optimizer: str
    count: str
    accumulate: int
    identity: str
    lr: float | None = None


@dataclass(frozen=True)
class Manifest:
    """`plans` is in order of preference; `files` holds SHA-256 and size of each entry.

    `imports` names the Python modules that define the operators of host stages, as the one who
    compiled called them. Nothing imports them but on the word of the one who loads.
    """

    model: str
    functions: dict[str, Function]
    stages: dict[str, Stage]
    plans: tuple[Plan, ...]
    weights: dict[str, Weight] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    training: Training | None = None
    golden: dict[str, Golden] = field(default_factory=dict)
    tolerance: dict[str, float] = field(default_factory=dict)
    producer: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT_VERSION


def to_json(manifest: Manifest) -> str:
    """Deterministic: sorted keys, one trailing newline."""
    return json.dumps(dataclasses.asdict(manifest), sort_keys=True, indent=1) + "\n"


def from_json(text: str) -> Manifest:
    """Raises KeyError, TypeError or ValueError when `text` is not a manifest."""
    manifest = build(Manifest, json.loads(text))
    assert isinstance(manifest, Manifest)
    return manifest


def build(kind: Any, value: Any) -> Any:
    """The dataclass `kind` from JSON data, checking every field's type on the way."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {kind}, got {type(value).__name__}")
        hints = typing.get_type_hints(kind)
        unknown = set(value) - set(hints)
        if unknown:
            raise ValueError(f"unknown fields {sorted(unknown)}")
        return kind(**{name: build(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if origin is tuple:
        return tuple(build(args[0], item) for item in value)
    if origin is dict:
        return {key: build(args[1], item) for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        if value is None or (isinstance(value, int) and int in args):
            return value
        return build(SymbolicDim if SymbolicDim in args else args[0], value)
    if kind is Any:
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value
