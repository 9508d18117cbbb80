"""One installation for the folder, as `kiosk up` starts it; the last file ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.benchmarks.stack import Stack
from tests.drills.engines import installed


@pytest.fixture(scope="session")
def ending() -> Iterator[ExitStack]:
    """Ends the installation when it is closed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def installation(ending: ExitStack) -> Stack:
    return ending.enter_context(installed())
