from __future__ import annotations

from typing import Any

import pytest

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.apps import AppSettings
from cluster.records.logged_query import LONGEST, UNKNOWN, LoggedQuery, pseudonym
from cluster.store.stores import Stores
from deployments.api.http.query_log_writer import QueryLogWriter
from deployments.edge.batch_writer import MOST_WAITING
from deployments.edge.http.credentials import UserToken
from deployments.edge.http.request import ApiRequest
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.request_handler import NOW_MS, PLENTY, Corner, StillClock, open_corner


@pytest.fixture
def book(corner: Corner) -> QueryLogWriter:
    return QueryLogWriter(corner.stores.queries, corner.clock)


def request_of(
    corner: Corner, payload: Any = None, *, app: str = "shop", token: UserToken | None = None
) -> ApiRequest:
    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    scope = {
        "method": "POST",
        "headers": [(b"user-agent", b"Browser")],
        "client": ("198.51.100.7", 1),
    }
    request = ApiRequest(scope, receive, corner.clock)
    credential = corner.keyring.find(corner.secret(app))
    assert credential is not None
    request.credential, request.token, request.payload = credential, token, payload
    return request


async def logged(stores: Stores, app: str = "shop") -> list[LoggedQuery]:
    return [query for batch in await stores.queries.read(app, "0", count=1_000) for query in batch.rows]


async def test_a_log_entry_has_the_query_and_its_results(corner: Corner, book: QueryLogWriter) -> None:
    request = request_of(corner, {"user_id": "gina-7"})
    corner.clock.pass_ms(4)
    book.record(
        request, "search", "  Café\u0000  AU lait ", total=3, language="fr", served_by="search", engine_id="e"
    )
    await book.write()
    [query] = await logged(corner.stores)
    salt = await corner.stores.queries.salt("shop")
    assert (query.at, query.kind, query.text, query.total) == (NOW_MS + 4, "search", "cafe au lait", 3)
    assert (query.language, query.served_by, query.engine_id) == ("fr", "search", "e")
    assert query.took_ms == pytest.approx(4, abs=0.01)
    assert query.reader == pseudonym(salt, "u:gina-7")


@pytest.mark.parametrize(
    ("payload", "token", "user_key"),
    [
        ({"user_id": "gina-7", "anonymous_id": "anon-51"}, None, "u:gina-7"),
        ({"anonymous_id": "anon-51"}, None, "a:anon-51"),
        ({"anonymous_id": "anon-51"}, UserToken(user_id="mara"), "u:mara"),
        ({"user_id": 7}, None, ""),
        ({}, None, ""),
        ([1], None, ""),
        (None, None, ""),
    ],
)
async def test_log_entries_have_pseudonyms_of_identified_users_only(
    corner: Corner, book: QueryLogWriter, payload: Any, token: UserToken | None, user_key: str
) -> None:
    book.record(request_of(corner, payload, token=token), "search", "hoe", total=1)
    await book.write()
    [query] = await logged(corner.stores)
    salt = await corner.stores.queries.salt("shop")
    assert query.reader == (pseudonym(salt, user_key) if user_key else "")
    written = str(query.to_dict())
    for secret in ("gina-7", "anon-51", "mara", "198.51.100.7", "Browser"):
        assert secret not in written


async def test_an_app_may_log_without_readers_or_not_at_all(corner: Corner, book: QueryLogWriter) -> None:
    for rule in ("anonymous", "off"):
        await corner.open_app("shop", settings=AppSettings(limits=PLENTY, query_log=rule))
        book.record(request_of(corner, {"user_id": "gina-7"}), "search", rule, total=1)
    await book.write()
    [query] = await logged(corner.stores)
    assert (query.text, query.reader) == ("anonymous", "")


async def test_empty_queries_are_not_logged_and_long_ones_are_truncated(
    corner: Corner, book: QueryLogWriter
) -> None:
    for text in ("", "   ", "x" * 10_000):
        book.record(request_of(corner), "autocomplete", text, total=0)
    await book.write()
    assert [query.text for query in await logged(corner.stores)] == ["x" * LONGEST]


async def test_each_app_has_a_separate_log(corner: Corner, book: QueryLogWriter) -> None:
    for app in ("shop", "other", "shop"):
        book.record(request_of(corner, app=app), "search", app, total=1)
    await book.write()
    assert [query.text for query in await logged(corner.stores)] == ["shop", "shop"]
    assert [query.text for query in await logged(corner.stores, "other")] == ["other"]


class Away:
    """A store that is away for a while."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.away = True

    async def salt(self, app_id: str) -> bytes:
        return await self.stores.queries.salt(app_id)

    async def append(self, app_id: str, queries: Any) -> bool:
        if self.away:
            raise Unavailable("away")
        return await self.stores.queries.append(app_id, queries)


async def test_an_absent_store_costs_the_oldest_queries_and_no_memory(corner: Corner) -> None:
    away: Any = Away(corner.stores)
    clock: Clock = StillClock()
    meter = CountingMeter()
    book = QueryLogWriter(away, clock, meter)
    request = request_of(corner)
    for at in range(MOST_WAITING + 50):
        book.record(request, "search", f"q{at}", total=1)
    await book.write()
    for at in range(10):
        book.record(request, "search", f"late{at}", total=1)
    await book.write()
    away.away = False
    await book.write()
    texts = [query.text for query in await logged(corner.stores)]
    assert len(texts) == MOST_WAITING
    assert texts[-1] == "late9"
    assert texts[0] == "q60"
    assert meter.counts == {"kiosk_queries_lost": 60}


async def test_completions_are_noted_by_their_endpoint(corner: Corner, book: QueryLogWriter) -> None:
    replica = await open_corner(query_log=book)
    body = {"data": [{"product_id": "hoe-11", "title": "Draw hoe"}]}
    await replica.send("POST", "/v1/products", json=body)
    await replica.apply()
    await replica.send("POST", "/v1/search/autocomplete", json={"q": "dra ", "language": "de"})
    await book.write()
    [query] = await logged(corner.stores)
    assert (query.kind, query.text, query.total, query.language) == ("autocomplete", "dra", 0, "de")
    assert (query.served_by, query.engine_id) == ("", "default")


async def test_questions_are_logged_with_their_source(corner: Corner, book: QueryLogWriter) -> None:
    replica = await open_corner(query_log=book)
    body = {"question": " What is  mulch? ", "anonymous_id": "x", "language": "de"}
    answer = await replica.send("POST", "/v1/ask/questions", json=body)
    assert answer.status == 200, answer.body
    await replica.close()
    await book.write()
    [query] = await logged(corner.stores)
    assert (query.kind, query.text, query.total, query.language) == ("ask", "what is mulch?", UNKNOWN, "de")
    assert query.served_by == "ask_questions"


@pytest.mark.parametrize(
    ("kind", "key", "payload", "has_origin"),
    [
        ("search", "secret", {"anonymous_id": "a-1"}, False),
        ("search", "publishable", {"anonymous_id": "a-1"}, True),
        ("search", "publishable", {"anonymous_id": "a-1", "user_hash": "checked before"}, False),
        ("search", "publishable", {}, False),
        ("autocomplete", "publishable", {"anonymous_id": "a-1"}, False),
    ],
)
async def test_readers_without_proof_are_noted_with_an_origin(
    corner: Corner, book: QueryLogWriter, kind: Any, key: str, payload: Any, has_origin: bool
) -> None:
    request = request_of(corner, payload)
    credential = corner.keyring.find(corner.keys["shop", key])
    assert credential is not None
    request.credential, request.token = credential, None
    book.record(request, kind, "Crème  brûlée", total=3)
    await book.write()
    [query] = await logged(corner.stores)
    assert bool(query.origin) is has_origin
    assert query.text == "creme brulee"
    assert query.written == ("" if kind == "autocomplete" else "Crème brûlée")
