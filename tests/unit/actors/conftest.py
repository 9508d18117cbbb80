"""What tests of several folders begin with: a clock, and the corner shop."""

from __future__ import annotations

import pytest

from actors.recommender.recommender import Recommender
from tests.fakes.corner_shop import open_shop
from tests.fakes.request_handler import StillClock


@pytest.fixture
def clock() -> StillClock:
    """A clock that only the test moves."""
    return StillClock()


@pytest.fixture(scope="module")
def shop() -> Recommender:
    """The corner shop, for tests that change nothing in it."""
    return open_shop()
