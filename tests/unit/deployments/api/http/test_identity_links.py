"""A token or `user_hash` beside an `anonymous_id` links both, on whichever endpoint they come together."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import Unavailable
from cluster.records.apps import AppSettings
from cluster.store.data.append_plan import MOST_VISITORS
from deployments.api.http.identity_links import LINKED_FOR_S
from deployments.edge.access.identity_proof import sign_user_id
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.fakes.tokens import token_of

VIEW = {"type": "product_detail_page_view", "anonymous_id": "a1", "product_ids": ["t08"]}
ENDPOINTS: dict[str, dict[str, Any]] = {
    "ask/questions": {"question": "What is mulch?"},
    "ask/search": {"q": "mulch"},
    "ask/autocomplete": {"q": "mu"},
    "search/search": {"q": "mulch"},
    "search/autocomplete": {"q": "mu"},
    "recommendation/user_to_products": {},
    "recommendation/user_to_trending": {},
    "recommendation/user_to_history": {},
    "recommendation/product_to_products": {"product_ids": ["t08"]},
    "qa/question_answering": {"q": "What is mulch?", "min_probability": 0.1},
}


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    body = {"data": [{"product_id": "t08", "title": "Draw hoe", "type": "product"}]}
    assert (await post(corner, "products", body, secret=True)).status == 200
    await corner.apply()
    assert (await post(corner, "interactions", {"data": [VIEW]}, secret=True)).status == 200
    return corner


async def post(
    corner: Corner, path: str, body: dict[str, Any], *, token: str = "", secret: bool = False
) -> Answer:
    headers = {"X-API-KEY": corner.secret() if secret else corner.publishable(), "User-Agent": BROWSER}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    answer = await call(corner.handler, "POST", f"/v1/{path}", headers=headers, json=body)
    await corner.links.wait_for_writes()
    return answer


def token_for(corner: Corner, user_id: str = "u1", **claims: Any) -> str:
    return token_of({"user_id": user_id, **claims}, corner.secret())


async def history_of(corner: Corner, user_id: str = "u1") -> int:
    return len(await corner.stores.interactions.recent("shop", ["u:" + user_id]))


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("secret", [False, True])
async def test_a_token_and_an_anonymous_id_are_linked(corner: Corner, path: str, secret: bool) -> None:
    body = {**ENDPOINTS[path], "anonymous_id": "a1"}
    answer = await post(corner, path, body, token=token_for(corner), secret=secret)
    assert answer.status == 200, answer.body
    assert await corner.stores.interactions.links("shop", ["a1"]) == {"a1": "u1"}
    assert await history_of(corner) == 1


@pytest.mark.parametrize("path", ["recommendation/user_to_products", "ask/search", "search/search"])
async def test_a_user_proven_by_hash_is_linked(corner: Corner, path: str) -> None:
    proof = sign_user_id(corner.secret().encode(), "u1")
    body = {**ENDPOINTS[path], "user_id": "u1", "anonymous_id": "a1", "user_hash": proof}
    assert (await post(corner, path, body)).status == 200
    assert await history_of(corner) == 1


async def test_bulk_links_too(corner: Corner) -> None:
    inner = {"api_name": "recommendation/user_to_products", "body": {"anonymous_id": "a1"}}
    answer = await post(corner, "bulk", {"requests": [inner]}, token=token_for(corner))
    assert answer.status == 200
    assert await history_of(corner) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"anonymous_id": "a1"},
        {"anonymous_id": "a1", "user_id": "u1"},
        {"anonymous_id": "a1", "user_id": "u1", "user_hash": "0" * 64},
    ],
)
@pytest.mark.parametrize("path", ["recommendation/user_to_products", "ask/search", "qa/question_answering"])
async def test_a_publishable_key_alone_links_nothing(corner: Corner, path: str, body: dict[str, Any]) -> None:
    await post(corner, path, {**ENDPOINTS[path], **body})
    assert await corner.stores.interactions.links("shop", ["a1"]) == {}


@pytest.mark.parametrize("path", ["recommendation/user_to_products", "ask/search"])
async def test_forged_and_foreign_tokens_link_nothing(corner: Corner, path: str) -> None:
    for token in (
        token_of({"user_id": "u1"}, "another secret"),
        token_of({"user_id": "u1"}, corner.secret("other")),
        token_of({"user_id": "u1", "exp": 1}, corner.secret()),
        token_of({"user_type": "free"}, corner.secret()),
    ):
        await post(corner, path, {**ENDPOINTS[path], "anonymous_id": "a1"}, token=token)
    refused = await post(corner, path, {**ENDPOINTS[path], "anonymous_id": "a1"})
    assert refused.status == 200
    assert await corner.stores.interactions.links("shop", ["a1"]) == {}


async def test_under_strict_user_hash_the_visitor_is_proven_too(corner: Corner) -> None:
    await corner.open_app("shop", settings=AppSettings(limits=PLENTY, strict_user_hash=True))
    body = {**ENDPOINTS["ask/search"], "anonymous_id": "a1"}
    assert (await post(corner, "ask/search", body, token=token_for(corner))).status == 200
    assert await history_of(corner) == 0
    claimed = token_for(corner, anonymous_id="a1")
    assert (await post(corner, "ask/search", body, token=claimed)).status == 200
    assert await history_of(corner) == 1


async def test_a_pair_is_written_once_and_again_when_it_may_have_changed(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    links = corner.stores.interactions.links

    async def count(app_id: str, visitors: Any) -> dict[str, str]:
        reads.append(app_id)
        return await links(app_id, visitors)

    monkeypatch.setattr(corner.stores.interactions, "links", count)
    for _ in range(3):
        await post(corner, "search/search", {"q": "x", "anonymous_id": "a1"}, token=token_for(corner))
    assert len(reads) == 1
    corner.clock.pass_ms(int(LINKED_FOR_S * 1000) + 1)
    before = await corner.stores.changes.last("shop", "interaction")
    await post(corner, "search/search", {"q": "x", "anonymous_id": "a1"}, token=token_for(corner))
    assert len(reads) == 2
    assert await corner.stores.changes.last("shop", "interaction") == before, "it was linked already"


async def test_a_flood_of_visitors_with_one_token_stays_bounded(corner: Corner) -> None:
    token = token_for(corner)
    for number in range(MOST_VISITORS + 30):
        body = {"q": "x", "anonymous_id": f"flood-{number}"}
        assert (await post(corner, "search/search", body, token=token)).status == 200
    names = [f"flood-{number}" for number in range(MOST_VISITORS + 30)]
    assert len(await corner.stores.interactions.links("shop", names)) == MOST_VISITORS


async def test_the_reply_neither_waits_for_the_link_nor_fails_by_it(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(app_id: str, visitors: Any) -> dict[str, str]:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(corner.stores.interactions, "links", away)
        body = {"q": "x", "anonymous_id": "a1"}
        assert (await post(corner, "search/search", body, token=token_for(corner))).status == 200
    assert await history_of(corner) == 0
    assert (await post(corner, "search/search", body, token=token_for(corner))).status == 200
    assert await history_of(corner) == 1, "the next request tries again"


async def test_the_playground_links_nobody(corner: Corner) -> None:
    headers = {
        "X-API-KEY": corner.publishable("playground"),
        "User-Agent": BROWSER,
        "Authorization": "Bearer " + token_of({"user_id": "u1"}, corner.secret("playground")),
    }
    await call(
        corner.handler, "POST", "/v1/search/search", headers=headers, json={"q": "x", "anonymous_id": "a1"}
    )
    await corner.links.wait_for_writes()
    assert await corner.stores.interactions.links("playground", ["a1"]) == {}
