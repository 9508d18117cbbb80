"""Calls of the API from inside its process: the same answers, rights and limits as over a socket."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from cluster.errors import Conflict, NotFound, TooLarge, TooMany, Unavailable, Unprocessable
from cluster.records.apps import AppSettings, Limits
from cluster.records.engine import Engine
from deployments.api.http.local_api import MOST_SENT, LocalApi
from deployments.operations.framework.rest_client import call_api
from tests.fakes.request_handler import Corner, open_corner


async def opened() -> tuple[Corner, LocalApi]:
    corner = await open_corner()
    await corner.stores.engines.put(Engine(app_id="shop", engine_id="default", created_at=0))
    return corner, LocalApi(corner.handler, corner.keyring.secret_of)


async def test_a_call_is_answered_as_the_app() -> None:
    corner, api = await opened()
    status, answer = await api.call("shop", "POST", "/v1/recommendation/user_to_products", {"user_id": "ada"})
    assert (status, answer["data"]["products"][0]["product_id"]) == (200, "hoe-11")
    assert corner.recommender.requests[-1].app_id == "shop"


async def test_a_record_of_any_id_is_read() -> None:
    corner, api = await opened()
    hostile = "a/b?c#<script>%2e"
    await api.call("shop", "POST", "/v1/products", {"data": [{"product_id": hostile}]})
    await corner.apply()
    answer = await call_api(api, "shop", "GET", f"/v1/products/{quote(hostile, safe='')}")
    assert answer["product_id"] == hostile


async def test_refusals_become_errors_with_the_words_of_the_api() -> None:
    _, api = await opened()
    with pytest.raises(NotFound, match="not found"):
        await call_api(api, "shop", "GET", "/v1/products/none")
    with pytest.raises(Unprocessable, match="rows") as caught:
        await call_api(api, "shop", "POST", "/v1/search/search", {"q": "*", "rows": -1})
    assert caught.value.facts["detail"][0]["loc"] == ["body", "rows"]


async def test_the_limits_of_the_app_hold() -> None:
    corner, api = await opened()
    tight = Limits(queries_per_s=1, query_burst=1, writes_per_s=1, write_burst=1)
    await corner.open_app("tight", settings=AppSettings(limits=tight))
    await corner.stores.engines.put(Engine(app_id="tight", engine_id="default", created_at=0))
    statuses = [(await api.call("tight", "POST", "/v1/search/search", {"q": "*"}))[0] for _ in range(3)]
    assert statuses == [200, 429, 429]
    with pytest.raises(TooMany):
        await call_api(api, "tight", "POST", "/v1/search/search", {"q": "*"})


async def test_size_and_time_are_bounded() -> None:
    _, api = await opened()
    with pytest.raises(TooLarge):
        await api.call("shop", "POST", "/v1/search/search", {"q": "x" * MOST_SENT})

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="did not answer"):
        await LocalApi(silent, lambda _: "key", within_s=0.0).call("shop", "GET", "/v1/products/_ids")


async def test_an_app_without_a_key_is_refused() -> None:
    corner, _ = await opened()
    with pytest.raises(Conflict, match="no live secret key"):
        await LocalApi(corner.handler, corner.keyring.secret_of).call("absent", "GET", "/v1/products/_ids")
