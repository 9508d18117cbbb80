from __future__ import annotations

import asyncio
from typing import Any

import pytest

from deployments.api.hot import HotPath
from deployments.api.routes import ordinary_way
from tests.fakes.asgi import call
from tests.fakes.door import Corner, open_corner


class Inside:
    """What stands behind the layer: remembers requests and answers like Serve, with a second request id."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.waiting = asyncio.Event()
        self.waiting.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.waiting.wait()
        headers = [(b"X-Request-ID", b"serve"), (b"content-type", b"text/plain"), (b"x-request-id", b"app")]
        await send({"type": "http.response.start", "status": 218, "headers": headers})
        await send({"type": "http.response.body", "body": b"inside"})


@pytest.fixture
async def corner() -> Corner:
    return await open_corner()


async def test_hot_endpoints_are_answered_in_front_and_the_rest_inside(corner: Corner) -> None:
    inside = Inside()
    layer = HotPath(inside, lambda: corner.door)
    for method, path, status in (
        ("GET", "/v1/users/x", 404), ("POST", "/v1/interactions", 400),
        ("POST", "/v1/recommendation/user_to_products", 400), ("POST", "/v1/users", 218),
        ("GET", "/v1/users/_ids", 218), ("GET", "/docs", 218), ("GET", "/-/healthz", 218), ("PUT", "/v1/users/x", 218),
    ):  # fmt: skip
        assert (await call(layer, method, path, headers=corner.headers())).status == status, path
    assert len(inside.scopes) == 5


async def test_one_request_id_goes_in_and_one_comes_out(corner: Corner) -> None:
    inside = Inside()
    layer = HotPath(inside, lambda: corner.door)
    answer = await call(layer, "GET", "/docs", headers={"X-Request-Id": "mine"})
    assert [name.lower() for name in answer.names].count("x-request-id") == 1
    assert answer.headers["x-request-id"] == "mine"
    assert dict(inside.scopes[0]["headers"])[b"x-request-id"] == b"mine"
    forged = await call(layer, "GET", "/docs", headers={"X-Request-Id": "a b"})
    assert forged.headers["x-request-id"] != "a b"


async def test_without_a_door_everything_goes_inside_and_the_search_ends(corner: Corner) -> None:
    asked = []

    def find() -> None:
        asked.append(1)

    inside = Inside()
    layer = HotPath(inside, find)
    for _ in range(150):
        await call(layer, "GET", "/v1/users/x")
    assert len(inside.scopes) == 150
    assert len(asked) == 100


async def test_other_scopes_pass_untouched(corner: Corner) -> None:
    seen = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    layer = HotPath(inside, lambda: corner.door)
    await layer({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]


async def test_hot_requests_over_the_bound_are_refused(corner: Corner) -> None:
    corner.door.most_in_flight = 2
    gate = asyncio.Event()

    async def slow(*_: Any) -> None:
        await gate.wait()

    corner.stores.records.get = slow  # type: ignore[method-assign, assignment]
    layer = HotPath(Inside(), lambda: corner.door)
    held = [
        asyncio.ensure_future(call(layer, "GET", "/v1/products/x", headers=corner.headers()))
        for _ in range(2)
    ]
    await asyncio.sleep(0.01)
    refused = await call(layer, "GET", "/v1/products/x", headers=corner.headers())
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.headers["access-control-allow-origin"] == "*"
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*held)] == [404, 404]
    assert (await call(layer, "GET", "/v1/products/x", headers=corner.headers())).status == 404


async def test_requests_inside_have_a_bound_too_but_health_is_always_asked(corner: Corner) -> None:
    inside = Inside()
    inside.waiting.clear()
    layer = HotPath(inside, lambda: corner.door, most_inside=1)
    held = asyncio.ensure_future(call(layer, "POST", "/v1/users", headers=corner.headers()))
    await asyncio.sleep(0.01)
    assert (await call(layer, "POST", "/v1/users", headers=corner.headers())).status == 503
    health = asyncio.ensure_future(call(layer, "GET", "/-/healthz"))
    await asyncio.sleep(0.01)
    assert len(inside.scopes) == 2
    inside.waiting.set()
    assert [(await held).status, (await health).status] == [218, 218]


async def test_both_ways_in_answer_the_same_bytes(corner: Corner) -> None:
    ways = (corner.door, ordinary_way(corner.door, version="0"), HotPath(Inside(), lambda: corner.door))
    for method, path in (
        ("GET", "/v1/users/a%2Fb"), ("GET", "/v1/products/x"), ("GET", "/v1/users/%FF"), ("GET", "/v1/users/a%20b"),
    ):  # fmt: skip
        answers = [
            await call(way, method, path, headers={**corner.headers(), "X-Request-Id": "same"})
            for way in ways
        ]
        assert (
            len({(answer.status, answer.body, tuple(sorted(answer.headers.items()))) for answer in answers})
            == 1
        )
