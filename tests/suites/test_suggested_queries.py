"""`suggested_queries` from the query log and the question bank: stores, segments, a follower and the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.retrieval.logged_queries import QueryLogFollower
from actors.serving.host import EngineHost
from cluster.artifacts.logs.query_log import COLUMNS, QueryLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.meter import SilentMeter
from cluster.records.apps import AppSettings
from cluster.records.logged_query import UNKNOWN, LoggedQuery, pseudonym
from cluster.records.question import BankQuestion
from cluster.store.stores import Stores
from tests.fakes.asgi import call
from tests.fakes.corner_shop import APP, NOW_MS, furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

USERS = [f"u:{number}" for number in range(6)]


def searched(text: str, user_key: str, salt: bytes, total: int = 3, **more: Any) -> LoggedQuery:
    return LoggedQuery(
        at=NOW_MS,
        kind=more.pop("kind", "search"),
        text=text,
        total=total,
        reader=pseudonym(salt, user_key),
        **more,
    )


async def log(stores: Stores, text: str, user_keys: list[str] = USERS, **more: Any) -> None:
    salt = await stores.queries.salt(APP)
    await stores.queries.append(APP, [searched(text, user_key, salt, **more) for user_key in user_keys])


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    clock = StillClock(NOW_MS)
    stores = memory_stores(clock)
    await furnish(stores)
    await log(stores, "hedge shears", written="Hedge Shears")
    await log(stores, "hedge lamp", total=0)
    await log(stores, "hedge books", USERS[:4])
    await log(stores, "what is a hedge", kind="ask", total=UNKNOWN)
    await stores.question_bank.replace(
        APP,
        [
            BankQuestion(question=text, weight=1)
            for text in ("How high may a hedge be?", "hedge shears", "What is mulch?")
        ],
    )
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    yield await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
    await host.close()


async def completed(corner: Corner, typed: str, path: str = "search/autocomplete", **body: Any) -> list[str]:
    request = {"q": typed, "completion_fields": ["suggested_queries"], **body}
    answer = await call(
        corner.handler, "POST", f"/v1/{path}", body=orjson.dumps(request), headers=corner.headers(APP)
    )
    assert answer.status == 200, answer.body
    return [entry["text"] for entry in answer.json()["data"]["completions"]["suggested_queries"]]


async def test_popular_queries_with_results_precede_questions_of_the_bank(corner: Corner) -> None:
    async def is_followed() -> bool:
        return "Hedge Shears" in await completed(corner, "hed")

    await completed(corner, "hed")
    await until(is_followed)
    assert await completed(corner, "hed") == ["Hedge Shears", "How high may a hedge be?"]
    assert await completed(corner, "hedge", min_query_users=3) == [
        "Hedge Shears", "hedge books", "How high may a hedge be?",
    ]  # fmt: skip
    assert await completed(corner, "mul", rows=1) == ["What is mulch?"]
    assert await completed(corner, "hed", "ask/search_autocomplete") == [
        "Hedge Shears",
        "How high may a hedge be?",
    ]
    assert (
        await completed(corner, "hedge", completion_fields=["suggested_queries", "historical_queries"]) != []
    )
    assert await completed(corner, "zzzz") == []


async def test_start_pages_through_queries_and_questions_where_the_switch_is_on(corner: Corner) -> None:
    async def is_followed() -> bool:
        return len(await completed(corner, "hed", min_query_users=3)) == 3

    await until(is_followed)
    ignored = await completed(corner, "hed", rows=1, start=1)
    assert ignored == await completed(corner, "hed", rows=1)
    await corner.open_app(APP, settings=AppSettings(completion_paging=True))
    pages = [await completed(corner, "hed", min_query_users=3, rows=1, start=start) for start in range(4)]
    assert pages == [["Hedge Shears"], ["hedge books"], ["How high may a hedge be?"], []]


async def test_settled_queries_are_read_once_and_files_of_earlier_releases_too(tmp_path: Path) -> None:
    stores, clock = memory_stores(StillClock(NOW_MS)), StillClock(NOW_MS)
    salt = await stores.queries.salt(APP)
    artifacts = QueryLogStore(ArtifactStore.open(tmp_path), clock)
    settled = [searched("hedge shears", user_key, salt) for user_key in USERS]
    artifacts.append(APP, [*settled, searched("nothing", USERS[0], salt, total=0)], "1-0")

    async def think(step: Any) -> None:
        step()

    follower = QueryLogFollower(APP, stores.queries, artifacts, clock, think)
    await follower.start()
    await log(stores, "hedge books")
    await follower.read()
    popular = follower.queries.popular
    assert [hit.text for hit in popular.look_up("hedge", 5, 6, NOW_MS)] == ["hedge books", "hedge shears"]
    assert len(popular) == 2
    follower.queries.erase(USERS[:1], NOW_MS)
    await log(stores, "hedge books", USERS[:1])
    await follower.read()
    assert popular.look_up("hedge", 5, 6, NOW_MS) == []


def test_a_file_without_the_added_columns_is_read(tmp_path: Path) -> None:
    artifacts = QueryLogStore(ArtifactStore.open(tmp_path), StillClock(NOW_MS))
    old = [name for name in COLUMNS.names if name not in ("origin", "written")]
    kept = pa.table({name: pa.array([getattr(searched("moss", "u:1", b""), name)]) for name in old})
    entry = artifacts._write(APP, "2026-03-02", kept)
    artifacts._commit(APP, artifacts._manifest(APP), [entry], offset="1-0")
    (row,) = artifacts.read(APP, 0).to_pylist()
    assert (row["text"], row["origin"], row["written"]) == ("moss", "", "")
    assert pq.read_schema(next(tmp_path.rglob("*.parquet"))).names == old
    artifacts.append(APP, [searched("moss", "u:2", b"", written="Möss", origin="0123456789abcdef")], "2-0")
    assert sorted(artifacts.read(APP, 0)["written"].to_pylist()) == ["", "Möss"]
    assert artifacts.expire_and_compact(APP, 0) == 0
