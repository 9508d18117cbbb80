"""Each way into the interface as a fixture."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cluster.secrecy import mint_key
from deployments.api.http.hot import HotLayer
from deployments.api.http.routes import build_application
from tests.contract.ways import URL, InProcess, Live, Way
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
        app = HotLayer(app, lambda: corner.handler)
    yield InProcess(corner, app)


@pytest.fixture
def unknown_key() -> str:
    """A well-formed key that nobody has."""
    return mint_key("secret", "development")
