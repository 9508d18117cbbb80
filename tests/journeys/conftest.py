"""One installation without Ray, for the journeys that train."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journeys.workshop import Workshop


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    """Stores and a shelf, still empty; its replicas are closed behind the test."""
    made = Workshop(tmp_path)
    yield made
    await made.close()
