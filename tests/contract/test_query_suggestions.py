"""Popular queries among the completions of ask: a user gets those that lead to an article that the user may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from cluster.records.logged_query import LoggedQuery, pseudonym
from tests.contract.test_ask import Desk
from tests.contract.test_ask_access import ABSENT, LOCKED, open_interface, token_with
from tests.fakes.corner_shop import happen, upload, view
from tests.suites.waiting import until

OPEN_QUERIES = ("camera of the south", "Camaraderie")
LOCKED_QUERIES = {
    "zeppelin rivets": {"gold", "subscriber"},
    "bridge brigade": {"subscriber"},
    "camaraman of the east": {"subscriber"},
    "ardle countries": {"subscriber"},
}
"Query -> tiers of articles with its words. Open articles have a bridge and a brigade, but not both."
PREFIXES = ("cam", "camera", "zep", "ardl", "bri", "brigade")
SOURCES = ("suggested_queries", "historical_queries")
USERS = range(6)


async def send_queries(client: Desk, *, has_locked: bool) -> None:
    """Log queries and searches among interactions, those about locked articles only if there are such."""
    stores = client.corner.stores
    now_ms = client.corner.clock.now_ms()
    salt = await stores.queries.salt("shop")
    totals = {**dict.fromkeys(OPEN_QUERIES, 3), **dict.fromkeys(LOCKED_QUERIES, 3 if has_locked else 0)}
    logged = [
        LoggedQuery(at=now_ms, kind="ask", text=text, total=total, reader=pseudonym(salt, f"u:{number}"))
        for text, total in totals.items()
        for number in USERS
    ]
    await stores.queries.append("shop", logged)
    searches = [
        view(f"person-{number}", "", kind="search", search={"keywords": text})
        for text in ("tenda of the south", *(("the zeppelin", "tenda of the east") if has_locked else ()))
        for number in USERS
    ]
    await happen(stores, searches, app_id="shop")


async def suggested(
    client: Desk, typed: str, tiers: Sequence[str] | None = None, rows: int = 20
) -> dict[str, list[str]]:
    body = {"q": typed, "completion_fields": list(SOURCES), "rows": rows}
    token = None if tiers is None else token_with(client, tiers=list(tiers))
    answer = await client.post("search_autocomplete", body, browser=True, token=token)
    assert answer.status == 200, answer.body
    completions = answer.json()["data"]["completions"]
    return {name: [entry["text"] for entry in entries] for name, entries in completions.items()}


async def everything_suggested(client: Desk) -> list[tuple[str, str, Any]]:
    """Return all that the endpoints complete for a user without a token."""
    shown = []
    for typed in PREFIXES:
        for path, more in (
            ("search_autocomplete", {"completion_fields": [*SOURCES, "title"]}),
            ("autocomplete", {}),
            ("query_suggestion", {}),
        ):
            answer = await client.post(path, {"q": typed, "rows": 20, **more}, browser=True)
            data = answer.json()["data"]
            shown.append((typed, path, {name: data[name] for name in data.keys() - {"took", "service_id"}}))
    return shown


async def wait_for_queries(client: Desk) -> None:
    async def is_followed() -> bool:
        return OPEN_QUERIES[0] in (await suggested(client, "camera"))["suggested_queries"]

    await suggested(client, "camera")
    await until(is_followed)


async def test_queries_that_find_locked_articles_alone_are_suggested_to_nobody_else() -> None:
    shown = []
    for articles in (LOCKED, ABSENT):
        async with open_interface(articles) as client:
            await send_queries(client, has_locked=articles is LOCKED)
            await wait_for_queries(client)
            shown.append(await everything_suggested(client))
            if articles is LOCKED:
                await check_tiers(client)
    with_locks, without = shown
    assert orjson.dumps(with_locks) == orjson.dumps(without)
    text = repr(with_locks)
    assert all(query in text for query in OPEN_QUERIES)
    assert not [query for query in LOCKED_QUERIES if query in text]


async def check_tiers(client: Desk) -> None:
    """Check that each query is suggested to the users alone whose tiers open its articles."""
    for tiers in (None, (), ("gold",), ("subscriber",), ("gold", "subscriber")):
        for query, opening in LOCKED_QUERIES.items():
            texts = (await suggested(client, query[:5], tiers))["suggested_queries"]
            assert (query in texts) is not opening.isdisjoint(tiers or ()), (query, tiers)
    assert (await suggested(client, "tend"))["historical_queries"] == ["tenda of the south"]
    gold = (await suggested(client, "tend", ("gold",)))["historical_queries"]
    assert sorted(gold) == ["tenda of the east", "tenda of the south"]
    assert len((await suggested(client, "tend", ("gold",), rows=1))["historical_queries"]) == 1


async def test_a_query_is_suggested_until_the_articles_with_its_words_are_locked() -> None:
    article = {"product_id": "camera-of-the-north", "type": "article", "title": "Camera of the north"}
    async with open_interface([*ABSENT, article]) as client:
        salt = await client.corner.stores.queries.salt("shop")
        now_ms = client.corner.clock.now_ms()
        logged = [
            LoggedQuery(at=now_ms, kind="search", text=text, total=1, reader=pseudonym(salt, name))
            for text in (OPEN_QUERIES[0], "camera of the north")
            for name in map(str, USERS)
        ]
        await client.corner.stores.queries.append("shop", logged)
        await wait_for_queries(client)
        assert "camera of the north" in (await suggested(client, "camera"))["suggested_queries"]
        await upload(client.corner.stores, [{**article, "access": "gold"}], app_id="shop")

        async def is_gone() -> bool:
            return (await suggested(client, "camera"))["suggested_queries"] == [OPEN_QUERIES[0]]

        await until(is_gone)
