from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.clock import SystemClock
from cluster.records.apps import AppSettings, Limits
from deployments.api.resources import bulk_queries
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner

PRODUCTS = "recommendation/user_to_products"


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    await _open_engine(corner)
    return corner


async def _open_engine(corner: Corner) -> None:
    body = {"data": [{"product_id": "hoe-11", "title": "Draw hoe"}]}
    answer = await corner.send("POST", "/v1/products", json=body)
    assert answer.status == 200
    await corner.apply()


async def ask(corner: Corner, *requests: dict[str, Any]) -> Answer:
    return await corner.send("POST", "/v1/bulk", json={"requests": list(requests)})


def test_bulk_accepts_every_query_of_the_table_and_no_write(corner: Corner) -> None:
    names = bulk_queries.BulkResource(corner.handler.endpoints)._table
    for endpoint in corner.handler.endpoints:
        name = endpoint.path.removeprefix("/v1/")
        if endpoint.method == "POST" and name.startswith(("search/", "recommendation/")):
            assert name in names
        if endpoint.rules.writes and not name.startswith("ask/"):
            assert name not in names
    assert not any(name.count("/") != 1 or "{" in name for name in names)


async def test_an_answer_in_bulk_is_the_answer_alone(corner: Corner) -> None:
    body = {"rows": 3, "user_id": "gina-7"}
    alone = await corner.send("POST", f"/v1/{PRODUCTS}", json=body)
    inner = (await ask(corner, {"api_name": PRODUCTS, "body": body})).json()["data"][0]["body"]
    assert inner["data"]["products"] == alone.json()["data"]["products"]
    first, second = corner.recommender.requests[-2:]
    assert first == second


async def test_answers_keep_the_order_of_their_requests_whichever_is_ready_first() -> None:
    class Slow:
        running = most = 0

        async def answer(self, query: UserQuery) -> RecommendationResult:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.002 if query.rows % 2 else 0)
            self.running -= 1
            return RecommendationResult(products=[{"product_id": str(query.rows)}])

    slow = Slow()
    corner = await open_corner(client=slow)
    answer = await ask(corner, *({"api_name": PRODUCTS, "body": {"rows": at}} for at in range(100)))
    product_ids = [entry["body"]["data"]["products"][0]["product_id"] for entry in answer.json()["data"]]
    assert product_ids == [str(at) for at in range(100)]
    assert 1 < slow.most <= bulk_queries.AT_ONCE


async def test_a_request_that_never_ends_leaves_the_others_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        async def answer(self, query: UserQuery) -> RecommendationResult:
            if query.rows == 1:
                await asyncio.Event().wait()
            return RecommendationResult(products=[])

    monkeypatch.setattr(bulk_queries, "DEADLINE_S", 0.05)
    corner = await open_corner(client=Stuck())
    answer = await ask(
        corner,
        {"api_name": PRODUCTS, "body": {"rows": 2}},
        {"api_name": PRODUCTS, "body": {"rows": 1}},
        {"api_name": PRODUCTS, "body": {"rows": 3}},
    )
    assert [entry["status_code"] for entry in answer.json()["data"]] == [200, 503, 200]


async def test_a_fault_in_one_request_fails_no_other(corner: Corner) -> None:
    corner.recommender.wrong = RuntimeError("secret thing")
    answer = await ask(corner, {"api_name": PRODUCTS}, {"api_name": "recommendation/nothing"})
    assert [entry["status_code"] for entry in answer.json()["data"]] == [500, 404]
    assert b"secret thing" not in answer.body


async def test_a_bulk_call_costs_what_its_requests_cost(corner: Corner) -> None:
    few = Limits(queries_per_s=0.001, query_burst=3, writes_per_s=1e6, write_burst=1_000)
    await corner.open_app("shop", settings=AppSettings(limits=few))
    answer = await ask(corner, *({"api_name": PRODUCTS} for _ in range(5)))
    assert sorted(entry["status_code"] for entry in answer.json()["data"]) == [200, 200, 200, 429, 429]
    assert PLENTY.query_burst > 100


@pytest.mark.parametrize(("count", "status"), [(1, 200), (100, 200), (101, 422)])
async def test_a_bulk_call_holds_up_to_a_hundred_requests(corner: Corner, count: int, status: int) -> None:
    answer = await ask(corner, *({"api_name": "recommendation/nothing"} for _ in range(count)))
    assert answer.status == status


async def test_a_browsers_request_is_no_larger_in_bulk_than_alone(corner: Corner) -> None:
    body = {"question": "How deep?", "pad": "x" * (128 << 10)}
    given: dict[str, Any] = {
        "requests": [{"api_name": "ask/questions", "body": body}, {"api_name": PRODUCTS}]
    }
    by_browser = {"X-API-KEY": corner.publishable(), "User-Agent": BROWSER}
    alone = await corner.send("POST", "/v1/ask/questions", json=body, headers=by_browser)
    assert alone.json() == {"message": "The request body is larger than 128 kB."}
    answer = await corner.send("POST", "/v1/bulk", json=given, headers=by_browser)
    first, second = answer.json()["data"]
    assert (first["status_code"], first["body"], second["status_code"]) == (413, alone.json(), 200)
    by_server = await ask(corner, *given["requests"])
    assert [entry["status_code"] for entry in by_server.json()["data"]] == [200, 200]


async def test_a_refused_entry_has_a_retry_delay(corner: Corner) -> None:
    few = Limits(queries_per_s=0.1, query_burst=1, writes_per_s=1e6, write_burst=1_000)
    await corner.open_app("shop", settings=AppSettings(limits=few))
    first, second = (await ask(corner, {"api_name": PRODUCTS}, {"api_name": PRODUCTS})).json()["data"]
    assert (first["status_code"], "retry_after_s" in first) == (200, False)
    alone = await corner.send("POST", f"/v1/{PRODUCTS}", json={})
    assert (second["status_code"], second["body"]) == (429, alone.json())
    assert second["retry_after_s"] == int(alone.headers["retry-after"]) == 10


async def test_calls_of_a_hundred_fit_into_the_default_rate() -> None:
    """The bucket holds a hundred tokens: the second call right behind the first one waits for its share."""
    clock = SystemClock()
    corner = await open_corner(clock=clock)
    await _open_engine(corner)
    limits = Limits().model_copy(update={"queries_per_s": 500.0})
    await corner.open_app("shop", settings=AppSettings(limits=limits))
    hundred = [{"api_name": PRODUCTS}] * 100
    for _ in range(3):
        answer = await ask(corner, *hundred)
        assert answer.json()["errors"] is False
        await asyncio.sleep(0.05)  # the call itself needs a token too, and does not wait for it


async def test_only_so_many_calls_wait_for_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_queries, "MOST_WAITING", 1)
    corner = await open_corner(clock=SystemClock())
    await _open_engine(corner)
    few = Limits(queries_per_s=20.0, query_burst=5, writes_per_s=1e6, write_burst=1_000)
    await corner.open_app("shop", settings=AppSettings(limits=few))
    ten = [{"api_name": PRODUCTS}] * 10
    first, second = await asyncio.gather(ask(corner, *ten), ask(corner, *ten))
    failed = [sum(entry["error"] for entry in answer.json()["data"]) for answer in (first, second)]
    assert sorted(failed)[0] == 0 < sorted(failed)[1]
