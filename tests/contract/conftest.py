"""Each way into the interface as a fixture."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cluster.crypto import mint_key
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.archive.services import build_archive_routes
from tests.contract.ways import URL, InProcess, Live, Way
from tests.fakes.archive import ArchiveCorner, open_archive_corner
from tests.fakes.request_handler import open_corner


@pytest.fixture(params=["framework", "front", *(["live"] if URL else [])])
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    """Each way in after another."""
    if request.param == "live":
        keys = json.loads(os.environ["KIOSK_CONTRACT_KEYS"])
        async with httpx.AsyncClient(base_url=URL, timeout=30) as client:
            yield Live(client, keys)
        return
    corner = await open_corner()
    app: Any = build_application(corner.handler, version="0")
    if request.param == "front":
        app = HotPathMiddleware(app, lambda: corner.handler)
    yield InProcess(corner, app)


@pytest.fixture(params=["alone", "in the replica"])
async def corner(request: pytest.FixtureRequest) -> ArchiveCorner:
    """A small archive: its routes alone, and behind everything a replica has in front of them."""
    corner = await open_archive_corner()
    if request.param == "in the replica":
        rest = await open_corner()
        ordinary = build_application(rest.handler, version="0", more=build_archive_routes(corner.services))
        corner.app = HotPathMiddleware(ordinary, lambda: rest.handler)
    return corner


@pytest.fixture
def unknown_key() -> str:
    """A well-formed key that nobody has."""
    return mint_key("secret", "development")
