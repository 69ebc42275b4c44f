"""What the operating system says of the machine."""

import contextlib
import os
import platform
import threading
from dataclasses import dataclass
from pathlib import Path


def processor_name() -> str:
    """The model name the operating system gives the first CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def available_cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def physical_cores() -> int:
    """Those of `available_cores` that are not two threads of one core."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = set()
    for number in affinity(0) if affinity else ():
        path = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        with contextlib.suppress(OSError):
            cores.add(path.read_text().strip())
    return len(cores) or available_cores()


def worker_threads() -> int:
    """IREE's CPU workers in this process, by their names; 0 where /proc is not."""
    count = 0
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread may end while we look
            count += task.read_text().startswith("iree-worker")
    return count


@dataclass(frozen=True)
class ThreadTimes:
    """Seconds that each thread of this process has computed, and stood ready without a
    processor, so far; empty where the system does not say."""

    computed: dict[str, float]
    waited: dict[str, float]

    @staticmethod
    def now() -> "ThreadTimes":
        computed, waited = {}, {}
        for path in Path("/proc/self/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):  # a thread may end while we look
                running, ready, _ = path.read_text().split()
                computed[path.parent.name] = int(running) / 1e9
                waited[path.parent.name] = int(ready) / 1e9
        return ThreadTimes(computed, waited)

    def lost_since(self, before: "ThreadTimes", elapsed: float) -> float:
        """How much of `elapsed` seconds went by because others had the processors.

        The caller waits for workers, so its delay adds to that of the slowest of them. What
        one thread computed is never lost.
        """
        caller = str(threading.get_native_id())
        waits = {name: total - before.waited.get(name, 0.0) for name, total in self.waited.items()}
        lost = waits.pop(caller, 0.0) + max(waits.values(), default=0.0)
        busiest = max(
            (total - before.computed.get(name, 0.0) for name, total in self.computed.items()),
            default=0.0,
        )
        return max(0.0, min(lost, elapsed - busiest))
