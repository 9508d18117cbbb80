"""What tests of several folders begin with: a clock, an API replica, and the administration of the corner shop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.request_handler import Corner, StillClock, open_corner


@pytest.fixture
def clock() -> StillClock:
    """A clock that only the test moves."""
    return StillClock()


@pytest.fixture
async def corner() -> Corner:
    """An API replica over stores in memory, whose recommender answers from a script."""
    return await open_corner()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    """The administration of the furnished corner shop."""
    async with open_admin_shop(tmp_path) as opened:
        yield opened
