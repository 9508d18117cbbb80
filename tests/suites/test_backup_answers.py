"""`kiosk backup verify` compares answers: equal ones for a good restore, other ones for any part that differs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.app_follower import AppFollower
from cluster.admin.schema import ensure_schema
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.creation import BackupJob
from cluster.backup.restoring import RestoreJob, RestorePlan, plan_restore
from cluster.backup.verification import ComparedRecords
from cluster.backup_pace import Pace
from cluster.clock import SystemClock, iso_ms
from cluster.crypto import Signer
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.records.interaction import RecentEvent
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import Follower
from cluster.store.data.intake import RecordPut
from deployments.cli.installation.backup_verification import Verification, compare_answers
from tests.fakes.trained_snapshot import RING, name, publish_ring_snapshot, ring_products
from tests.suites.doing import APP, NOW, put, require
from tests.suites.test_small_stores import an_app

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]

MARK = ("f" * 32,)
MOST = 100
VISITOR = "v1"
"A visitor who is linked to the user r7."
Place = tuple[OpenStores, ArtifactStore]


async def click(stores: OpenStores, user: int | None, product: str, visitor: str = "") -> None:
    """Let a user, a visitor or both look at a product."""
    now_ms = SystemClock().now_ms()
    user_id = "" if user is None else f"r{user}"
    who = {name: value for name, value in (("user_id", user_id), ("anonymous_id", visitor)) if value}
    event = {"type": "click", "product_ids": [product], "timestamp": iso_ms(now_ms), **who}
    packed = RecentEvent("click", (product,), now_ms).pack()
    await stores.interactions.append(APP, orjson.dumps([event]), [(user_id, visitor, packed)])


@dataclass
class Shop:
    """A shop with segments, a change log behind them and a snapshot; and a restored one."""

    source: Place
    restored: Place
    target: ArtifactStore
    plan: RestorePlan

    async def compare(self, source: Place | None = None) -> Verification:
        """Compare the answers of both."""
        verification = Verification(self.plan.backup, [])
        await compare_answers(verification, self.target, self.restored, source or self.source, MOST)
        return verification


@pytest.fixture
async def shop(redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path) -> Shop:
    stores = redis_stores
    source, target, into = (
        ArtifactStore.open(tmp_path / place, signer=Signer(b"k" * 32))
        for place in ("source", "target", "into")
    )
    await ensure_schema(stores, NOW)
    await stores.access.put_app(an_app())
    segments = SegmentStore(source)
    compactor = ChangeLogCompactor(
        stores.changes, segments, SegmentRebuilder(stores, segments, HashingEmbedder(), SystemClock()),
        SystemClock(), SilentMeter(),
    )  # fmt: skip
    records = [
        RecordPut(ring_product["product_id"], orjson.dumps(ring_product), ring_product["type"])
        for ring_product in ring_products()
    ]
    await put(stores, *records[: RING - 5], task_id="compacted")
    for user in range(40):
        await click(stores, user, name(user))
    await stores.interactions.append(APP, b"[]", [("r7", VISITOR, b"")])
    await compactor.run_once([APP], at_once=True)
    await put(stores, *records[RING - 5 :], task_id="in the log")
    for user in range(40):
        await click(stores, user, name(user + 1))
    version = publish_ring_snapshot(SnapshotStore(source), tmp_path / "scratch", APP, seed=6)
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=version, created_at=NOW))
    await stores.engines.put(Engine(app_id=APP, engine_id="plain", created_at=NOW))
    await BackupJob(stores, source, target, MARK, pace=Pace(rest=0)).run()
    plan = plan_restore(target, MARK)
    await RestoreJob(plan, target, easy_stores, into, SystemClock().now_ms()).run()
    return Shop((stores, source), (easy_stores, into), target, plan)


async def test_a_restored_installation_answers_as_the_source_answered_at_the_cut(shop: Shop) -> None:
    verification = await shop.compare()
    assert (
        verification.answered,
        verification.compared,
        verification.different,
        verification.not_compared,
    ) == (100, 100, [], {})
    assert verification.is_good


async def test_what_was_written_after_the_cut_is_no_difference(shop: Shop) -> None:
    stores = shop.source[0]
    for user in range(5):
        await click(stores, user, name(user + 9))
    late = {**ring_products()[3], "title": "another title"}
    await put(stores, RecordPut(name(3), orjson.dumps(late), "bead"), task_id="late")
    verification = await shop.compare()
    assert (verification.compared, verification.different) == (95, [])


async def test_interactions_of_a_visitor_who_moved_to_another_user_are_no_difference(shop: Shop) -> None:
    stores = shop.source[0]
    await click(stores, None, name(20), VISITOR)
    await click(stores, 9, name(21), VISITOR)
    assert await stores.interactions.links(APP, [VISITOR]) == {VISITOR: "r9"}
    verification = await shop.compare()
    assert verification.different == []
    assert verification.is_good


async def test_a_lost_recent_list_shows_whatever_visitors_do(shop: Shop) -> None:
    await lose_a_recent_list(shop)
    await click(shop.source[0], None, name(20), "v2")
    (different,) = (await shop.compare()).different
    assert "user_to_products u:r7 (place 1: restored" in different
    assert "installation _personalization_score" in different


async def lose_a_recent_list(shop: Shop) -> None:
    await shop.restored[0].server.execute_slow("DEL", keys.recent(APP, "u:r7"))


async def lose_the_end_of_a_change_log(shop: Shop) -> None:
    await shop.restored[0].server.execute_slow("DEL", keys.change_log(APP, "product"))


async def change_an_engine(shop: Shop) -> None:
    engine = require(await shop.restored[0].engines.get(APP, "default"))
    await shop.restored[0].engines.put(engine.model_copy(update={"snapshot": ""}))


async def damage_a_snapshot(shop: Shop) -> None:
    into = shop.restored[1]
    path = max(into.entries(APP), key=lambda entry: entry.size * ("/segments/" not in entry.path)).path
    into.write(path, into.read(path)[:-1] + b"\7")


async def lose_the_segments(shop: Shop) -> None:
    for entry in shop.restored[1].entries(f"{APP}/segments"):
        shop.restored[1].remove(entry.path)


@pytest.mark.parametrize(
    "damage",
    [
        lose_a_recent_list,
        lose_the_end_of_a_change_log,
        change_an_engine,
        damage_a_snapshot,
        lose_the_segments,
    ],
)
async def test_a_part_that_differs_changes_answers(
    shop: Shop, damage: Callable[[Shop], Awaitable[None]]
) -> None:
    await damage(shop)
    verification = await shop.compare()
    assert verification.different
    assert not verification.is_good


async def serve_without_snapshots(shop: Shop) -> None:
    """Let no engine have a snapshot, on either side and in the backup."""
    for stores in (shop.source[0], shop.restored[0]):
        for engine in await stores.engines.all(APP):
            await stores.engines.put(engine.model_copy(update={"snapshot": ""}))
    await BackupJob(*shop.source, shop.target, MARK, pace=Pace(rest=0)).run()
    shop.plan = plan_restore(shop.target, MARK)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the apps that were loaded."""
    app_ids: list[str] = []
    start = AppFollower.start

    async def counted(follower: AppFollower) -> None:
        app_ids.append(APP)
        await start(follower)

    monkeypatch.setattr(AppFollower, "start", counted)
    return app_ids


async def test_equal_data_without_snapshots_is_loaded_once(shop: Shop, loads: list[str]) -> None:
    await serve_without_snapshots(shop)
    verification = await shop.compare()
    assert (verification.compared, verification.different, verification.is_good) == (100, [], True)
    assert len(loads) == 1


async def damage_a_segment(shop: Shop) -> None:
    into = shop.restored[1]
    path = next(entry.path for entry in into.entries(f"{APP}/segments") if "/product-" in entry.path)
    into.write(path, into.read(path)[:-1] + b"\7")


@pytest.mark.parametrize(
    ("damage", "expected_loads"),
    [
        (lose_a_recent_list, 1),
        (lose_the_end_of_a_change_log, 2),
        (damage_a_segment, 2),
        (lose_the_segments, 2),
    ],
)
async def test_a_part_that_differs_changes_answers_without_snapshots_too(
    shop: Shop, loads: list[str], damage: Callable[[Shop], Awaitable[None]], expected_loads: int
) -> None:
    await serve_without_snapshots(shop)
    await damage(shop)
    verification = await shop.compare()
    assert verification.different
    assert len(loads) == expected_loads


async def test_an_app_that_changed_too_much_since_is_named_and_not_compared(shop: Shop) -> None:
    stores = shop.source[0]
    engine = require(await stores.engines.get(APP, "default"))
    await stores.engines.put(engine.model_copy(update={"snapshot": ""}))
    verification = await shop.compare()
    assert (verification.compared, verification.answered) == (0, 100)
    assert verification.not_compared == {APP: "its engines or boost rules were changed since"}
    assert verification.is_good


async def compact_all(shop: Shop) -> None:
    """Compact what is in the log of the source."""
    stores, artifacts = shop.source
    segments = SegmentStore(artifacts)
    rebuilder = SegmentRebuilder(stores, segments, HashingEmbedder(), SystemClock())
    await put(stores, RecordPut(name(2), orjson.dumps(ring_products()[2]), "bead"), task_id="after the cut")
    compactor = ChangeLogCompactor(stores.changes, segments, rebuilder, SystemClock(), SilentMeter())
    await compactor.run_once([APP], at_once=True)


async def test_an_app_whose_changes_were_compacted_since_is_compared_while_its_log_has_them(
    shop: Shop,
) -> None:
    stores, now_ms = shop.source[0], SystemClock().now_ms()
    offsets = await stores.changes.compacted_offsets(APP)
    await stores.changes.record_follower(APP, Follower("a slow replica", now_ms, offsets))
    before = {entry.path for entry in shop.source[1].entries(f"{APP}/segments")}
    await compact_all(shop)
    assert {entry.path for entry in shop.source[1].entries(f"{APP}/segments")} != before
    verified = await shop.compare()
    assert (verified.compared, verified.different, verified.not_compared) == (100, [], {})
    await lose_a_recent_list(shop)
    assert (await shop.compare()).different


async def test_an_app_whose_log_was_trimmed_since_fails_only_where_answers_are_required(shop: Shop) -> None:
    await compact_all(shop)
    verified = await shop.compare()
    assert verified.not_compared == {APP: "its changes were compacted since"}
    assert (verified.apps, verified.compared, verified.answered) == (1, 0, 100)
    assert "0 answers of 0 of 1 app compared" in verified.summary
    verified.records = ComparedRecords(0, ())
    assert verified.is_good
    verified.require_answers = True
    assert not verified.is_good
