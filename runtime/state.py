"""Session state: values that live from call to call, on the devices that use them."""

from typing import Any

import numpy as np

from lemurc.errors import DeviceError, InputError
from lemurc.manifest import RANDOM_STATE, Weight
from lemurc.runtime.artifact import Artifact
from lemurc.runtime.devices import OpenDevice
from lemurc.runtime.iree_errors import FAILURES
from lemurc.runtime.transport import fetch_now


class Resident:
    """One value of one state variable.

    It never changes, so sessions may share it; one that is not `shared` may give its memory
    away to the call that replaces it, and is no value any more.
    """

    def __init__(self, dtype: np.dtype, host: np.ndarray | None = None) -> None:
        self.dtype = dtype
        self.host = host
        self.views: dict[str, tuple[OpenDevice, Any]] = {}
        self.shared = False
        self._lost = ""

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def give_away(self) -> None:
        self.host, self.views, self._lost = None, {}, "in a call that failed or was given up"

    def lose(self, device: str) -> None:
        """What `device` has of it is gone."""
        if self.views.pop(device, None) is not None and self.host is None and not self.views:
            self._lost = f"with {device}"

    def array(self) -> np.ndarray:
        """The value in host memory; not to be written to."""
        if self._lost:
            raise _lost(self._lost)
        if self.host is None:
            device, view = next(iter(self.views.values()))
            try:
                self.host = fetch_now(view, device, self.dtype)
            except DeviceError as error:
                if error.code not in FAILURES or error.code == "out-of-memory":
                    raise
                raise _lost(f"with {device.name}") from error
        return self.host


def _lost(how: str) -> DeviceError:
    return DeviceError(
        f"the state of this session was lost {how}",
        code="state-lost",
        hint="continue with session.reset() or session.load_state(...)",
    )


class State:
    """The state variables of one session by name."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._specs: dict[str, Weight] = {
            name: artifact.manifest.weights[name] for name in artifact.manifest.state
        }
        self.residents: dict[str, Resident] = {}
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Initial values; with a `seed`, which counts modulo 2**64, the generator at it."""
        self.residents = {
            name: Resident(np.dtype(spec.dtype), self._artifact.weight(name))
            for name, spec in self._specs.items()
        }
        if seed is not None:
            position = np.array(seed % (1 << 64), np.uint64).view(np.int64)
            self.residents[RANDOM_STATE] = Resident(position.dtype, position)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: resident.array().copy() for name, resident in self.residents.items()}

    def load(self, values: dict[str, np.ndarray]) -> None:
        """Replace all variables, or none when a value does not fit."""
        if set(values) != set(self._specs):
            missing = sorted(set(self._specs) - set(values))
            extra = sorted(set(values) - set(self._specs))
            raise InputError(
                f"other state than the model's: missing {missing}, unexpected {extra}",
                code="state-mismatch",
                hint="pass what session.state() returned",
            )
        loaded = {}
        for name, spec in self._specs.items():
            array = np.asarray(values[name])
            if str(array.dtype) != spec.dtype or array.shape != spec.shape:
                raise InputError(
                    f"state {name!r} is {array.dtype}{list(array.shape)}, "
                    f"expected {spec.dtype}{list(spec.shape)}",
                    code="state-mismatch",
                    hint="pass what session.state() of the same model returned",
                )
            loaded[name] = Resident(array.dtype, np.array(array, order="C"))
        self.residents = loaded

    @property
    def lost(self) -> bool:
        """Whether a call needs `reset` or `load` first."""
        return any(resident.lost for resident in self.residents.values())

    def lose(self, device: str) -> None:
        """`device` is gone with what it has."""
        for resident in self.residents.values():
            resident.lose(device)

    def copy(self, artifact: Artifact) -> "State":
        """The same values for another session, with its own hold on the artifact."""
        twin = State.__new__(State)
        twin._artifact, twin._specs = artifact, self._specs
        twin.residents = dict(self.residents)
        for resident in twin.residents.values():
            resident.shared = True
        return twin
