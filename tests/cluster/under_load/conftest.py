"""One installation for the folder, as `kiosk up` starts it; it ends after the last test of the folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.stack import Stack
from tests.drills.engines import NO_DASHBOARD, installed

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 2 << 30


@pytest.fixture(scope="package")
def installation() -> Iterator[Stack]:
    """Run on a disk in memory where there is one.

    Redis writes to its file before it replies. On a disk that others keep busy one write took 144 ms here; longer ones
    are answered 503. That is no fault of what these tests ask about.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED_BYTES
    with installed(below=MEMORY if has_room else None, **NO_DASHBOARD) as running:
        yield running
