"""What an app with bounds answers: writes beyond a bound are refused whole, reads go on."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.apps import AppSettings
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import PLENTY, Corner, open_corner

PRODUCTS, USERS, INTERACTIONS = "/v1/products", "/v1/users", "/v1/interactions"
CLICK = {"type": "click", "user_id": "u1", "product_ids": ["p1"]}


@pytest.fixture
async def corner() -> Corner:
    return await open_corner()


async def _send(corner: Corner, path: str, *records: Any) -> Answer:
    return await call(corner.handler, "POST", path, headers=corner.headers(), json={"data": records})


async def test_an_upload_beyond_the_bound_on_records_is_refused_whole(corner: Corner) -> None:
    await corner.open_app("shop", settings=AppSettings(limits=PLENTY, max_records=2))
    assert (await _send(corner, PRODUCTS, {"product_id": "p1"})).status == 200
    await corner.apply()
    refused = await _send(corner, USERS, {"user_id": "u1"}, {"user_id": "u2"})
    assert refused.status == 403
    assert refused.json()["message"] == (
        "the app holds 1 of at most 2 records, and 2 more do not fit; delete some or ask the administrator"
    )
    assert await corner.apply() == 0
    dry = await _send(corner, USERS + "?dry_run=1", {"user_id": "u1"}, {"user_id": "u2"})
    assert dry.status == 403
    assert (await _send(corner, USERS, {"user_id": "u1"})).status == 200
    await corner.apply()
    assert (await _send(corner, PRODUCTS, {"product_id": "p1", "title": "new"})).status == 200


async def test_above_the_bound_on_storage_writes_are_refused_and_reads_are_not(corner: Corner) -> None:
    await corner.open_app("shop", settings=AppSettings(limits=PLENTY, max_storage_mb=1))
    await corner.stores.usage.set_stored_bytes("shop", 1 << 20)
    for path, record in ((PRODUCTS, {"product_id": "p1"}), (USERS, {"user_id": "u1"}), (INTERACTIONS, CLICK)):
        refused = await _send(corner, path, record)
        assert (refused.status, refused.json()["message"]) == (
            403,
            "the app stores 1 of at most 1 MB; delete some data or ask the administrator",
        )
    read = await call(corner.handler, "GET", "/v1/products/p1", headers=corner.headers())
    assert read.status == 404
    gone = await call(corner.handler, "DELETE", "/v1/products/p1", headers=corner.headers())
    assert gone.status == 200
