"""One installation and one browser for all tests of pages in a process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.browser.site import Site, open_site


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site() -> AsyncIterator[Site]:
    """Open the installation and the browser; tests that use it run in the loop of the session."""
    async with open_site() as opened:
        yield opened
