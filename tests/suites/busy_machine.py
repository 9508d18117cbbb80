"""A machine that others keep busy, for tests of what must hold there too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

BURN = "while True: pass"


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Keep so many processes running that only compute."""
    with ExitStack() as stack:
        for _ in range(processes):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", BURN]))
            stack.callback(burner.kill)
        yield
