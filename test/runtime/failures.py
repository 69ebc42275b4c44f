"""Breaking devices while they run: IREE's in their queues, those of a package in any step."""

import importlib
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from iree.runtime import HalFence

from lemurc.runtime import plugin_devices
from lemurc.runtime.executor import StageExecutor

LOST = "c/hal/queue.cc:12: INTERNAL; VK_ERROR_DEVICE_LOST"
FULL = "c/hal/allocator.c:7: RESOURCE_EXHAUSTED; failed to allocate 68719476736 bytes"


class Faults:
    """What is broken; `release` ends what hangs."""

    def __init__(self, patch: pytest.MonkeyPatch, device: Any) -> None:
        self._patch = patch
        self._device = device
        self._hanging = threading.Event()
        self._never: list[Any] = []
        self.met = 0

    def raises(self, number: int, step: str, error: Exception, times: int = 1 << 30) -> None:
        """A device of the package raises `error` in a step, the first `times` times."""

        def fail() -> None:
            self.met += 1
            if self.met <= times:
                raise type(error)(*error.args)  # one that is raised again keeps its frames

        self._device.faults[number, step] = fail

    def hangs(self, number: int, step: str) -> None:
        """A device of the package does not come back from a step."""

        def hang() -> None:
            self.met += 1
            self._hanging.wait()

        self._device.faults[number, step] = hang

    def mend(self) -> None:
        self._device.faults.clear()
        self._patch.undo()

    def refuses(self, device: str, stage: str, said: str) -> None:
        """IREE refuses to queue a stage."""

        def refuse(submit: Callable[..., Any], inputs: Any, wait: Any, signal: Any) -> Any:
            raise RuntimeError(said)

        self._replace_submit(device, stage, refuse)

    def loses(self, device: str, stage: str, said: str = LOST, times: int = 1 << 30) -> None:
        """Queued work fails on a device of IREE's, which hands that on to all work behind it."""

        def lose(submit: Callable[..., Any], inputs: Any, wait: Any, signal: Any) -> Any:
            if self.met > times:
                return submit(inputs, wait, signal)
            done = HalFence.create_at(self._semaphore(device), 1)
            results = submit(inputs, wait, done)
            done.wait()
            signal.fail(said)
            return results

        self._replace_submit(device, stage, lose)

    def sticks(self, device: str, stage: str) -> None:
        """Queued work of IREE waits for something that does not come."""

        def stick(submit: Callable[..., Any], inputs: Any, wait: Any, signal: Any) -> Any:
            never = self._semaphore(device)
            self._never.append(never)
            return submit(inputs, HalFence.join([wait, HalFence.create_at(never, 1)]), signal)

        self._replace_submit(device, stage, stick)

    def release(self) -> None:
        self._hanging.set()
        for semaphore in self._never:
            if semaphore.query() == 0:
                semaphore.signal(1)

    def _semaphore(self, device: str) -> Any:
        from lemurc.runtime.devices import open_device

        return open_device(device).hal.create_semaphore(0)

    def _replace_submit(self, device: str, stage: str, replacement: Callable[..., Any]) -> None:
        original = StageExecutor.submit

        def submit(self_: StageExecutor, inputs: Any, wait: Any, signal: Any) -> Any:
            def submitted(*arguments: Any) -> Any:
                return original(self_, *arguments)

            if (self_.device.name, self_.name) != (device, stage):
                return submitted(inputs, wait, signal)
            self.met += 1
            return replacement(submitted, inputs, wait, signal)

        self._patch.setattr(StageExecutor, "submit", submit)


@contextmanager
def installed(folder: Path) -> Iterator[Any]:
    """The package of faulty_device.py, on the path."""
    shutil.copy(Path(__file__).with_name("faulty_device.py"), folder)
    info = folder / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lemurc.devices]\nfaulty = faulty_device:DRIVER\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        yield importlib.import_module("faulty_device")
    sys.modules.pop("faulty_device", None)
    plugin_devices.forget()
