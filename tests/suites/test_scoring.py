"""Batch scoring beside the API in one process: the same ids and the same scores, to the byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow.parquet as pq
import pytest

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Fault, Invalid, NotFound, Refusal, Unavailable
from cluster.meter import SilentMeter
from cluster.records.validation.boost_rules import read_rules
from jobs.scoring import driver
from jobs.scoring.driver import ScoredChunk, ScoringWorker, recommend_in_process
from jobs.scoring.tables import UserKey, count_users, read_users
from jobs.scoring.user_scorer import ScoringSpec, UserScorer, check_snapshot
from tests.fakes.asgi import call
from tests.fakes.corner_shop import NOW_MS
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import RING, name, publish_ring_snapshot, ring_products
from tests.suites.waiting import until

APP = "shop"
USERS = 200


class FrozenClock(SystemClock):
    """A wall clock that stands still; durations pass as ever."""

    def now_ms(self) -> int:
        return NOW_MS


class Shop:
    """One shop behind a door, with a snapshot that serves and another one."""

    def __init__(
        self, corner: Corner, artifacts: ArtifactStore, folder: Path, versions: tuple[str, str]
    ) -> None:
        self.corner, self.artifacts, self.folder, self.versions = corner, artifacts, folder, versions

    async def post(self, path: str, body: Any) -> Any:
        """Send one request with the secret key."""
        answer = await call(self.corner.handler, "POST", path, headers=self.corner.headers(), json=body)
        assert answer.status == 200, answer.body
        return answer.json()

    async def answers(self, user: UserKey, **more: Any) -> list[tuple[str, float]]:
        """What the API recommends."""
        ids = {"user_id": user.user_id, "anonymous_id": user.anonymous_id}
        body = {"rows": 10, **{key: value for key, value in ids.items() if value}, **more}
        reply = await self.post("/v1/recommendation/user_to_products", body)
        return [
            (product["product_id"], product["_personalization_score"])
            for product in reply["data"]["products"]
        ]

    def scorer(self, **fields: Any) -> UserScorer:
        """A recommender of its own."""
        order = ScoringSpec(APP, **fields)
        return UserScorer(order, self.corner.stores, self.artifacts, self.corner.clock)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    clock, artifacts = FrozenClock(), ArtifactStore.open(tmp_path / "shelf")
    stores, segments, snapshots = (
        memory_stores(clock),
        SegmentStore(artifacts, clock),
        SnapshotStore(artifacts),
    )
    models = SnapshotLoader(snapshots)
    host = EngineHost(stores, segments, clock, SilentMeter(), models=models)
    corner = await open_corner(
        stores=stores, clock=clock, client=LocalRecommenderClient(host), artifacts=artifacts
    )
    versions = tuple(
        publish_ring_snapshot(snapshots, tmp_path / str(seed), APP, seed=seed) for seed in (6, 7)
    )
    shop = Shop(corner, artifacts, tmp_path, (versions[0], versions[1]))
    settler = ChangeLogCompactor(
        stores.changes,
        segments,
        SegmentRebuilder(stores, segments, HashingEmbedder(), clock),
        clock,
        SilentMeter(),
    )
    await shop.post("/v1/products", {"data": ring_products()})
    await corner.apply()
    for half in range(2):
        events = [
            {
                "type": "click",
                **({"anonymous_id": f"v{n}"} if n % 7 == 0 else {"user_id": f"u{n}"}),
                "product_ids": [name(n * 7 + step)],
                "timestamp": iso_ms(NOW_MS - 3_600_000 * (n + 1) + step),
            }
            for n in range(half, USERS - 20, 2)
            for step in range(n % 4)
        ]
        await shop.post("/v1/interactions", {"data": events})
        if not half:
            await settler.run_once([APP], at_once=True)
    engine = await stores.engines.get(APP, "default")
    assert engine is not None
    await stores.engines.put(with_snapshot(engine, shop.versions[0]))
    yield shop
    await host.close()
    await corner.close()


def with_snapshot(engine: Any, version: str) -> Any:
    """Let a version serve."""
    return engine.model_copy(update={"snapshot": version})


def everybody() -> list[UserKey]:
    """Users and visitors with and without a history."""
    return [UserKey("", f"v{n}") if n % 7 == 0 else UserKey(f"u{n}") for n in range(USERS)]


async def test_two_hundred_users_get_what_the_api_answers(shop: Shop) -> None:
    scorer = shop.scorer()
    await scorer.start()
    lists = await scorer.score(everybody())
    assert scorer.serving == shop.versions[0]
    await scorer.close()
    levels = set()
    for user, scored in zip(everybody(), lists, strict=True):
        assert scored.user == user
        levels.add(scored.served_by)
        expected = await shop.answers(user)
        assert list(zip(scored.product_ids, scored.scores, strict=True)) == expected
        assert orjson.dumps(scored.scores) == orjson.dumps([score for _, score in expected])
    assert "personal" in levels
    assert len(levels) > 1
    assert len({scored.product_ids for scored in lists}) > 20


async def test_filters_rows_and_stored_rules_are_those_of_the_api(shop: Shop) -> None:
    rules = read_rules([{"name": "first", "boost_fq": "brand:maker-1", "position": [1]}])
    await shop.corner.stores.boost_rules.put(APP, rules)
    scorer = shop.scorer(rows=7, filters=("categories:tray-1 OR categories:tray-2", "-brand:maker-2"))
    await scorer.start()
    some = everybody()[::9]
    lists = await scorer.score(some)
    await scorer.close()
    text = "(categories:tray-1 OR categories:tray-2) AND (-brand:maker-2)"
    for user, scored in zip(some, lists, strict=True):
        expected = await shop.answers(user, rows=7, fq=text)
        assert list(zip(scored.product_ids, scored.scores, strict=True)) == expected
        assert len(scored.product_ids) == 7
        assert {int(product_id.removeprefix("ring-")) % 3 for product_id in scored.product_ids} == {0, 1}
        assert int(scored.product_ids[0].removeprefix("ring-")) % 3 == 1


async def test_pauses_of_the_engine_are_those_of_the_api(shop: Shop) -> None:
    engine = await shop.corner.stores.engines.get(APP, "default")
    assert engine is not None
    some = everybody()[1:60:3]

    async def answer_all() -> list[list[tuple[str, float]]]:
        return [await shop.answers(user, rows=RING) for user in some]

    before = await answer_all()
    await shop.corner.stores.engines.put(engine.model_copy(update={"repeat_after_days": {"click": 1.0}}))
    scorer = shop.scorer(rows=RING)
    await scorer.start()
    lists = await scorer.score(some)
    await scorer.close()

    async def has_pauses() -> bool:
        return await answer_all() != before

    # The API reads changes of engines every few seconds.
    await until(has_pauses)
    assert [
        list(zip(scored.product_ids, scored.scores, strict=True)) for scored in lists
    ] == await answer_all()


async def test_a_snapshot_that_does_not_serve_can_score(shop: Shop) -> None:
    other = shop.scorer(snapshot=shop.versions[1])
    await other.start()
    some = everybody()[:60]
    lists = await other.score(some)
    assert other.serving == shop.versions[1]
    await other.close()
    now = [[product_id for product_id, _ in await shop.answers(user)] for user in some]
    assert now != [list(scored.product_ids) for scored in lists]
    engine = await shop.corner.stores.engines.get(APP, "default")
    await shop.corner.stores.engines.put(with_snapshot(engine, shop.versions[1]))
    again = shop.scorer()
    await again.start()
    assert [scored.product_ids for scored in await again.score(some)] == [
        scored.product_ids for scored in lists
    ]
    await again.close()


async def test_what_does_not_exist_is_refused(shop: Shop) -> None:
    for fields, error in (({"engine_id": "nothing"}, NotFound), ({"snapshot": "nothing"}, Fault)):
        scorer = shop.scorer(**fields)
        with pytest.raises(error):
            await scorer.start()
    with pytest.raises(NotFound, match="there is no snapshot nothing"):
        check_snapshot(shop.artifacts, ScoringSpec(APP, snapshot="nothing"))
    for fields in ({"rows": 0}, {"rows": 1_001}, {"filters": ("price:[1 TO",)}):
        with pytest.raises(Invalid):
            ScoringSpec(APP, **fields).build_query()


async def test_a_worker_holds_back_neither_the_log_nor_an_erasure(shop: Shop) -> None:
    scorer = shop.scorer()
    await scorer.start()
    await scorer.score(everybody()[:3])
    await scorer.close()
    followers = shop.corner.stores.changes._state.apps[APP].followers  # type: ignore[attr-defined]
    assert not [follower for follower in followers if follower.startswith("scoring")]


class Worker(ScoringWorker):
    """A worker in this process, whose first tries find the store away."""

    def __init__(self, scorer: UserScorer, misses: int) -> None:
        self._made, self._misses, self.opened = scorer, misses, 0
        self._scorer = None
        self._opening = asyncio.Lock()

    async def _open(self) -> UserScorer:
        self.opened += 1
        await asyncio.sleep(0.01)
        if self.opened <= self._misses:
            raise Unavailable("the store is away")
        await self._made.start()
        return self._made


async def test_chunks_that_come_at_once_load_the_app_once_and_wait_for_the_store(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "use_idle_priority", lambda: None)
    monkeypatch.setattr(driver, "_PAUSE_S", 0.0)
    scorer = shop.scorer()
    worker = Worker(scorer, 0)
    first, second = await asyncio.gather(worker.score(everybody()[:3]), worker.score(everybody()[3:5]))
    await scorer.close()
    assert worker.opened == 1
    assert isinstance(first, ScoredChunk)
    assert isinstance(second, ScoredChunk)
    assert [len(first.lists), len(second.lists)] == [3, 2]
    again = shop.scorer()
    assert isinstance(await Worker(again, 2).score(everybody()[:3]), ScoredChunk)
    await again.close()
    monkeypatch.setattr(driver, "_TRIES", 2)
    refused = await Worker(shop.scorer(), 3).score(everybody()[:3])
    assert isinstance(refused, Refusal)
    assert refused.message == "the store is away"


async def test_files_hold_one_row_a_product_or_one_a_user(shop: Shop) -> None:
    users = shop.folder / "users.csv"
    users.write_text("user_id,anonymous_id,city\nu1,,Leeds\n,v7,\nnobody,,\n", "utf-8")
    stores, artifacts = shop.corner.stores, shop.artifacts
    order = ScoringSpec(APP, rows=3)
    out = shop.folder / "scores.parquet"
    summary = await recommend_in_process(order, str(users), str(out), stores, artifacts)
    assert (summary["users"], summary["rows"], summary["snapshots"]) == (3, 9, [shop.versions[0]])
    rows = pq.read_table(out).to_pylist()
    assert [(row["user_id"], row["anonymous_id"], row["rank"]) for row in rows[:4]] == [
        ("u1", None, 1), ("u1", None, 2), ("u1", None, 3), (None, "v7", 1),
    ]  # fmt: skip
    assert rows[0]["served_by"] == "personal"
    nested = shop.folder / "lists.jsonl"
    await recommend_in_process(order, str(users), str(nested), stores, artifacts, nested=True)
    lists = [orjson.loads(line) for line in nested.read_bytes().splitlines()]
    assert [product["product_id"] for product in lists[0]["products"]] == [
        row["product_id"] for row in rows[:3]
    ]
    assert "anonymous_id" not in lists[0]
    before = out.read_bytes()
    users.write_text("user_id\nu1\nu2\n" + "u" * 600 + "\n", "utf-8")
    with pytest.raises(Invalid, match="longer than 512"):
        await recommend_in_process(order, str(users), str(out), stores, artifacts)
    assert out.read_bytes() == before


def test_lists_of_users_come_from_files_frames_and_lists(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user_id": ["a", None, "12"], "anonymous_id": [None, "v", "w"]})
    expected = [UserKey("a"), UserKey("", "v"), UserKey("12", "w")]
    frame.write_parquet(tmp_path / "users.parquet")
    frame.write_csv(tmp_path / "users.csv")
    frame.write_ndjson(tmp_path / "users.jsonl")
    for users in (frame, *(str(tmp_path / f"users.{form}") for form in ("parquet", "csv", "jsonl"))):
        assert [user for chunk in read_users(users) for user in chunk] == expected
    (tmp_path / "users.txt").write_text("a\n\n12\r\n", "utf-8")
    assert next(read_users(tmp_path / "users.txt")) == [UserKey("a"), UserKey("12")]
    assert [len(chunk) for chunk in read_users([str(n) for n in range(450)])] == [200, 200, 50]
    pl.DataFrame({"user_id": [15311]}).write_parquet(tmp_path / "numbers.parquet")
    assert next(read_users(tmp_path / "numbers.parquet")) == [UserKey("15311")]
    assert count_users(tmp_path / "users.parquet") == 3


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("x.csv", "id\n1\n", "has no column user_id or anonymous_id; there are: id"),
        ("x.jsonl", '{"user_id": 15311.0}\n', "row 1: user_id is 15311.0; ids are texts"),
        ("x.jsonl", "{}\n", "row 1 names neither"),
        ("x.jsonl", "{\n", "x.jsonl can't be read"),
        ("x.parquet", "no parquet", "x.parquet can't be read"),
        ("x.xlsx", "", "does not say its format"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(tmp_path: Path, file: str, text: str, reason: str) -> None:
    (tmp_path / file).write_text(text, "utf-8")
    with pytest.raises(Invalid, match=reason):
        list(read_users(tmp_path / file))
