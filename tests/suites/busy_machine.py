"""A machine that others keep busy: for tests of what must hold there too, and of times that others must not change."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

BURN = "while True: pass"
WRITE = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb", buffering=0) as file:
        for _ in range(64):
            file.write(block)
        os.fsync(file.fileno())
"""


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Keep so many processes running that only compute."""
    with ExitStack() as stack:
        for _ in range(processes):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", BURN]))
            stack.callback(burner.kill)
        yield


@contextmanager
def busy_disk(folder: Path, processes: int = 2) -> Iterator[None]:
    """Keep so many processes running that write 64 MB below a folder and sync them, again and again."""
    with ExitStack() as stack:
        for number in range(processes):
            command = [sys.executable, "-S", "-c", WRITE, str(folder / f"busy-{number}")]
            writer = stack.enter_context(subprocess.Popen(command))
            stack.callback(writer.kill)
        yield


class QuietStopwatch:
    """Measures how long something would have taken on a machine without other work."""

    def __init__(self) -> None:
        self._begin_s, self._busy_s, self._commands_s = time.monotonic(), _busy_s(), _commands_s()

    def elapsed_s(self, processes: Iterable[psutil.Process]) -> float:
        """Return the seconds since the begin, less those that others had the processors.

        `processes` were started since the begin, and are part of what is measured, as commands that ended are.
        """
        part_s = _commands_s() - self._commands_s
        for process in processes:
            with suppress(psutil.Error):
                part_s += sum(process.cpu_times()[:4])
        others_s = _busy_s() - self._busy_s - part_s
        return time.monotonic() - self._begin_s - max(others_s, 0.0) / (os.cpu_count() or 1)


def _busy_s() -> float:
    """Return the processor seconds of all processes of the machine since its start."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _commands_s() -> float:
    """Return the processor seconds of commands of this process that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
