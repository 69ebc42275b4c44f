"""What the operating system says of the machine."""

import contextlib
import os
import platform
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


def worker_threads() -> int:
    """IREE's CPU workers in this process, by their names; 0 where /proc is not."""
    count = 0
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread may end while we look
            count += task.read_text().startswith("iree-worker")
    return count
