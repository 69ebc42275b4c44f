"""What every frontend hands to the compiler: the model as data, and how eager runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemurc.manifest import TensorSpec
from lemurc.pytree import Tree

Array = np.ndarray[Any, Any]
Reference = Callable[[list[Array]], list[Array]]


@dataclass(frozen=True)
class Signature:
    """One entry point as its caller sees it; `in_tree` describes `(args, kwargs)`."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    in_tree: Tree
    out_tree: Tree
    argument_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A model read in: functions over one store of weights and one of state.

    `mlir` is bytecode with one public function per entry of `functions`, at level
    `torch` or, for MLIR given by the user, `linalg`; `level` says which. Arguments and
    results carry `lemur.input`, `lemur.param`, `lemur.state`, `lemur.output` and
    `lemur.state_update`. `weights` holds parameters and the initial value of every name
    in `state`, without copies where the source allows. `reference` runs the user's own
    module in eager mode from the initial state, flat inputs to flat outputs; None where
    there is no eager model.
    """

    name: str
    mlir: bytes
    functions: dict[str, Signature]
    weights: dict[str, Array] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    reference: dict[str, Reference] | None = None
    examples: dict[str, list[Array]] = field(default_factory=dict)
    level: str = "torch"
