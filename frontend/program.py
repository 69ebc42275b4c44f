"""What every frontend hands to the compiler: the model as data, and how eager runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemurc.manifest import InputRange, TensorSpec, Training
from lemurc.pytree import Tree

Array = np.ndarray[Any, Any]
Reference = Callable[[list[Array]], list[Array]]


@dataclass(frozen=True)
class Signature:
    """One entry point as its caller sees it; `in_tree` describes `(args, kwargs)`.

    `input_updates` are the inputs the model changes in place, in order; `input_ranges` and
    `checks` are those of manifest.Function.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    in_tree: Tree
    out_tree: Tree
    argument_names: tuple[str, ...] = ()
    argument_defaults: dict[str, Any] = field(default_factory=dict)
    input_updates: tuple[int, ...] = ()
    input_ranges: tuple[InputRange, ...] = ()
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A model read in: functions over one store of weights and one of state.

    `mlir` is bytecode with one public function per entry of `functions`, at level
    `torch`, `onnx` or, for MLIR given by the user, `linalg`; `level` says which. Arguments and
    results carry `lemur.input`, `lemur.param`, `lemur.state` and `lemur.output`,
    `lemur.state_update`, `lemur.input_update`, `lemur.checks`. `weights` holds parameters
    and the initial value of every name in `state`, without copies where the source allows.
    `reference` runs the user's own module in eager mode from the initial state, flat inputs
    to flat outputs followed by the inputs of `input_updates` as they are afterwards; None
    where there is no eager model. `exported` has the torch.export programs, where there
    are any. `random` has the functions that draw random numbers, with the positions, among
    what `reference` returns, of what depends on them.
    `reference_name` is what messages call the reference; `producer` says what the model was
    made by. `training` is there where the functions are those of a training step.
    """

    name: str
    mlir: bytes
    functions: dict[str, Signature]
    weights: dict[str, Array] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    reference: dict[str, Reference] | None = None
    examples: dict[str, list[Array]] = field(default_factory=dict)
    level: str = "torch"
    exported: dict[str, Any] = field(default_factory=dict)
    random: dict[str, tuple[int, ...]] = field(default_factory=dict)
    reference_name: str = "PyTorch eager"
    producer: dict[str, str] = field(default_factory=dict)
    training: Training | None = None
