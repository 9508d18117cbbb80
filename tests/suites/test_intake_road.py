"""The road of a record over memory and over a real Redis: applied once, in order, whatever dies on the way."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.intake.applier import MAX_DELIVERIES
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import CONSUMER, IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import Embedder, HashingEmbedder, Vectors
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, Unavailable
from cluster.ids import new_task_id
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.intake import Noun
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.stores import Stores
from tests.fakes.dying_shelf import DyingArtifactStore, Killed
from tests.fakes.dying_stores import Life, mortal
from tests.suites.doing import require
from tests.suites.store_kinds import STORE_KINDS, open_store_kind
from tests.suites.waiting import until

pytestmark = pytest.mark.redis
APP = "shop"


class ManualClock(SystemClock):
    """The machine's clock, moved forward by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.ahead_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@dataclass
class Road:
    """An app, what is sent to it, and the loops that apply and compact it."""

    stores: Stores
    clock: ManualClock
    artifacts: ArtifactStore

    @property
    def segments(self) -> SegmentStore:
        return SegmentStore(self.artifacts)

    def loop(
        self,
        stores: Stores | None = None,
        artifacts: ArtifactStore | None = None,
        embedder: Embedder | None = None,
        owner: str = "one",
        **rules: Any,
    ) -> IntakeLoop:
        return IntakeLoop(
            stores or self.stores,
            SegmentStore(artifacts or self.artifacts, self.clock),
            embedder or HashingEmbedder(),
            self.clock,
            SilentMeter(),
            owner=owner,
            rules=IntakeConfig(apps_every_s=0.0, **rules),
        )

    async def put(self, noun: Noun, records: Sequence[dict[str, Any]], app_id: str = APP) -> str:
        return await self._accept(noun, "put", list(records), app_id)

    async def remove(self, noun: Noun, ids: Sequence[str]) -> str:
        return await self._accept(noun, "remove", list(ids), APP)

    async def _accept(self, noun: Noun, op: Any, items: list[Any], app_id: str) -> str:
        task_id, now_ms = new_task_id(), SystemClock().now_ms()
        await self.stores.intake.accept(
            app_id, noun, op, orjson.dumps(items), task_id=task_id, total=len(items), now_ms=now_ms
        )
        return task_id

    async def append(self, *interactions: dict[str, Any]) -> str:
        return await self.stores.interactions.append(APP, orjson.dumps(list(interactions)), [])

    async def status(self, noun: Noun, task_id: str) -> tuple[str, int, int]:
        task = require(await self.stores.tasks.get(APP, noun, task_id))
        return task.status, task.succeeded, task.failed

    async def changes(self, noun: Noun) -> list[ChangeLogEntry]:
        return await self.stores.changes.read(APP, {noun: "0"}, count=10_000, block_ms=0)


@pytest.fixture(params=STORE_KINDS)
async def road(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Road]:
    clock = ManualClock()
    async with open_store_kind(request, clock) as stores:
        await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        yield Road(stores, clock, ArtifactStore.open(tmp_path / "shelf"))


async def drain(loop: IntakeLoop) -> int:
    ended = 0
    while now := await loop.apply_round():
        ended += now
    return ended


def user(user_id: str, **fields: Any) -> dict[str, Any]:
    return {"user_id": user_id, **fields}


def click(user_id: str, product_id: str, at: str = "2026-03-02T09:15:30.250Z") -> dict[str, Any]:
    return {"type": "click", "user_id": user_id, "product_ids": [product_id], "timestamp": at}


# --- applying -----------------------------------------------------------------------------------------------------


async def test_an_accepted_upload_becomes_records_a_change_and_a_finished_task(road: Road) -> None:
    task = await road.put(
        "product", [{"product_id": "p1", "title": "Trowel", "type": "tool"}, {"product_id": "p2"}]
    )
    assert await drain(road.loop()) == 1

    assert await road.status("product", task) == ("finished", 2, 0)
    records = await road.stores.records.get_many(APP, "product", ["p1", "p2"])
    assert [orjson.loads(record or b"") for record in records] == [
        {"product_id": "p1", "title": "Trowel", "type": "tool"},
        {"product_id": "p2"},
    ]
    assert await road.stores.records.ids(APP, "product", "tool") == ["p1"]
    (logged,) = await road.changes("product")
    assert orjson.loads(logged.payload)[1] == {"product_id": "p2"}
    assert len(logged.vectors) == 2 * 2 * HashingEmbedder.dimensions
    assert logged.embedder == HashingEmbedder.version
    assert await road.stores.engines.get(APP, "default") is not None


async def test_batches_of_an_app_are_applied_in_the_order_they_were_accepted(road: Road) -> None:
    for version in range(80):
        await road.put("user", [user("ann", age=version), user(f"u{version}")])
        if version % 10 == 9:
            await road.remove("user", [f"u{version}", "ann"] if version < 79 else [f"u{version}"])
    await drain(road.loop())
    assert orjson.loads(await road.stores.records.get(APP, "user", "ann") or b"") == user("ann", age=79)
    assert set(await road.stores.records.ids(APP, "user")) == {
        "ann",
        *(f"u{n}" for n in range(80) if n % 10 != 9),
    }
    ages = [
        orjson.loads(change.payload)[0]["age"] for change in await road.changes("user") if change.op == "put"
    ]
    assert ages == list(range(80))


async def test_a_new_app_is_discovered_without_a_restart(road: Road) -> None:
    loop = road.loop()
    assert await drain(loop) == 0
    await road.stores.access.put_app(App(app_id="late", environment="production", created_at=1))
    await road.put("user", [user("ann")], "late")
    assert await drain(loop) == 1
    assert await road.stores.records.get("late", "user", "ann") is not None


# --- poison -------------------------------------------------------------------------------------------------------


class Fussy(HashingEmbedder):
    def embed(self, texts: Sequence[str]) -> Vectors:
        if any("crash" in text for text in texts):
            raise RuntimeError("poison")
        return super().embed(texts)


async def test_a_poison_record_is_set_aside_and_its_batch_finishes(road: Road) -> None:
    records = [{"product_id": "good"}, {"product_id": "bad", "title": "crash"}, {"product_id": "fine"}]
    task = await road.put("product", records)
    await drain(road.loop(embedder=Fussy()))
    assert await road.status("product", task) == ("finished", 2, 1)
    assert await road.stores.records.ids(APP, "product") == ["fine", "good"]
    task_state = require(await road.stores.tasks.get(APP, "product", task))
    assert task_state.errors[-1].startswith("data.1 is invalid.")
    assert await _quarantined(road) == [records[1]]


async def _quarantined(road: Road) -> list[Any]:
    if isinstance(road.stores, OpenStores):
        entries = await road.stores.server.execute_slow("XRANGE", "{shop}:quarantine", "-", "+")
        return [
            orjson.loads(dict(zip(flat[::2], flat[1::2], strict=True))[b"payload"]) for _, flat in entries
        ]
    intake: Any = road.stores.intake
    return [orjson.loads(entry["payload"]) for entry in intake._state.apps[APP].quarantine]


async def test_a_batch_that_fails_every_time_is_given_up_and_the_rest_goes_on(road: Road) -> None:
    before = await road.put("user", [user("a")])
    poison = await road.put("user", [user("poison")])
    after = [await road.put("user", [user(f"b{n}")]) for n in range(10)]
    tried: Counter[str] = Counter()
    apply_put = road.stores.intake.apply_put

    async def fails(batch: Any, *args: Any, **kwargs: Any) -> bool:
        tried[batch.task_id] += 1
        if batch.task_id == poison:
            raise Fault("the script refused it")
        return await apply_put(batch, *args, **kwargs)

    road.stores.intake.apply_put = fails  # type: ignore[method-assign]
    loop = road.loop()
    for _ in range(40):
        await loop.apply_round()
        road.clock.ahead_s += 3.0

    assert await road.status("user", poison) == ("failed", 0, 1)
    assert tried[poison] == MAX_DELIVERIES
    for task in (before, *after):
        assert await road.status("user", task) == ("finished", 1, 0)
        assert tried[task] == 1
    assert loop.state().given_up == 1
    assert await road.stores.records.get(APP, "user", "poison") is None


async def test_a_payload_that_is_no_json_ends_as_failed(road: Road) -> None:
    task = new_task_id()
    await road.stores.intake.accept(
        APP, "user", "put", b"{broken", task_id=task, total=1, now_ms=road.clock.now_ms()
    )
    loop = road.loop()
    for _ in range(10):
        await loop.apply_round()
        road.clock.ahead_s += 3.0
    assert await road.status("user", task) == ("failed", 0, 1)
    assert await road.stores.intake.depth(APP) == 0


async def test_a_batch_that_kills_the_process_is_given_up_and_its_neighbours_are_not(road: Road) -> None:
    neighbours = [await road.put("user", [user(f"a{n}")]) for n in range(5)]
    deadly = await road.put("user", [user("deadly")])
    neighbours += [await road.put("user", [user(f"b{n}")]) for n in range(5)]
    apply_put = road.stores.intake.apply_put

    async def kills(batch: Any, *args: Any, **kwargs: Any) -> bool:
        if batch.task_id == deadly:
            raise Killed
        return await apply_put(batch, *args, **kwargs)

    road.stores.intake.apply_put = kills  # type: ignore[method-assign]
    deaths = 0
    for _ in range(20):
        try:
            await drain(road.loop())
            break
        except Killed:
            deaths += 1
    assert deaths == MAX_DELIVERIES
    assert await road.status("user", deadly) == ("failed", 0, 1)
    for task in neighbours:
        assert await road.status("user", task) == ("finished", 1, 0)


async def test_an_absent_store_never_counts_against_a_batch(road: Road) -> None:
    tasks = [await road.put("user", [user(f"a{n}")]) for n in range(6)]
    away = [30]

    def trouble(method: str) -> None:
        if method in ("apply_put", "claim") and away[0]:
            away[0] -= 1
            raise Unavailable("away", retry_after_s=1)

    loop = road.loop(mortal(road.stores, Life(), trouble))
    for _ in range(100):
        try:
            await loop.apply_round()
        except Unavailable:
            road.clock.ahead_s += 1.0
    assert away == [0]
    for task in tasks:
        assert await road.status("user", task) == ("finished", 1, 0)


async def test_a_store_that_refuses_writes_for_long_costs_no_batch(road: Road) -> None:
    tasks = [await road.put("user", [user(f"a{n}")]) for n in range(3)]
    refusals = [4 * MAX_DELIVERIES]

    def trouble(method: str) -> None:
        if method == "apply_put" and refusals[0]:
            refusals[0] -= 1
            raise Unavailable("out of memory", retry_after_s=5)

    loop = road.loop(mortal(road.stores, Life(), trouble))
    for _ in range(60):
        with contextlib.suppress(Unavailable):
            await loop.apply_round()
    assert refusals == [0]
    for task in tasks:
        assert await road.status("user", task) == ("finished", 1, 0)


async def test_the_failures_of_one_batch_are_not_counted_against_the_next(road: Road) -> None:
    tasks = [await road.put("user", [user(f"a{n}")]) for n in range(4)]
    left = dict.fromkeys(tasks, MAX_DELIVERIES - 1)
    apply_put = road.stores.intake.apply_put

    async def fails_at_first(batch: Any, *args: Any, **kwargs: Any) -> bool:
        if left[batch.task_id]:
            left[batch.task_id] -= 1
            raise Fault("not yet")
        return await apply_put(batch, *args, **kwargs)

    road.stores.intake.apply_put = fails_at_first  # type: ignore[method-assign]
    loop = road.loop()
    for _ in range(60):
        await loop.apply_round()
        road.clock.ahead_s += 3.0
    for task in tasks:
        assert await road.status("user", task) == ("finished", 1, 0)


async def test_one_apps_trouble_does_not_hold_up_another(road: Road) -> None:
    await road.stores.access.put_app(App(app_id="calm", environment="production", created_at=1))
    poison = new_task_id()
    await road.stores.intake.accept(
        APP, "user", "put", b"{broken", task_id=poison, total=1, now_ms=road.clock.now_ms()
    )
    await road.put("user", [user("ann")], "calm")
    loop = road.loop()
    await loop.apply_round()
    await loop.apply_round()
    assert await road.stores.records.get("calm", "user", "ann") is not None
    assert await road.status("user", poison) != ("failed", 0, 1)


# --- being killed ---------------------------------------------------------------------------------------------------


async def test_killed_a_hundred_times_every_batch_is_applied_exactly_once(road: Road) -> None:
    """The intake dies at a random half-step, again and again, while uploads and deletes come in."""
    rng = random.Random(6)
    expected: dict[str, dict[str, Any]] = {}
    tasks: list[str] = []
    deaths = 0
    number = 0
    while deaths < 100:
        for _ in range(rng.randint(1, 4)):
            number += 1
            if rng.random() < 0.25 and expected:
                gone = rng.sample(sorted(expected), 1)
                tasks.append(await road.remove("user", gone))
                expected.pop(gone[0])
            else:
                records = [user(f"u{rng.randint(0, 40)}", batch=number) for _ in range(rng.randint(1, 5))]
                tasks.append(await road.put("user", records))
                expected.update((record["user_id"], record) for record in records)
        life = Life(rng.randint(0, 14))
        try:
            await drain(road.loop(mortal(road.stores, life), owner=f"life {deaths}"))
        except Killed:
            deaths += 1
    await drain(road.loop(owner="last"))

    outcomes = Counter([(await road.status("user", task))[0] for task in tasks])
    assert outcomes == {"finished": len(tasks)}
    assert await road.stores.intake.depth(APP) == 0
    logged = await road.changes("user")
    assert len(logged) == len(tasks), "a batch was logged twice or never"
    user_ids = await road.stores.records.ids(APP, "user")
    assert user_ids == sorted(expected)
    for user_id, record in expected.items():
        assert orjson.loads(await road.stores.records.get(APP, "user", user_id) or b"") == record
    print(f"R6: killed {deaths} times over {len(tasks)} batches, each applied exactly once")


async def test_a_batch_of_a_dead_consumer_is_terminal_within_30_seconds(road: Road) -> None:
    task = await road.put("user", [user("ann")])
    batches = await road.stores.intake.claim(CONSUMER, [APP], count=10, block_ms=0)
    assert [batch.task_id for batch in batches] == [task]
    loop = road.loop(owner="two", lease_ms=600)
    assert await road.stores.leases.hold("intake", "dead", 600)
    running = asyncio.create_task(loop.run())

    async def is_terminal() -> bool:
        return (await road.status("user", task))[0] == "finished"

    assert await until(is_terminal) < 30
    loop.stop()
    await running


async def test_a_task_whose_batch_vanished_is_ended(road: Road) -> None:
    kept = await road.put("user", [user("kept")])
    lost = await road.put("user", [user("lost")])
    await _lose(road, lost)
    loop = road.loop()
    assert await loop.sweep_round() == 0, "young tasks are left alone"
    road.clock.ahead_s += 20.0
    assert await loop.sweep_round() == 1
    assert await road.status("user", lost) == ("failed", 0, 1)
    assert (await road.status("user", kept))[0] == "running"
    await drain(loop)
    assert (await road.status("user", kept))[0] == "finished"


async def _lose(road: Road, task_id: str) -> None:
    """Take a batch out of the intake behind everybody's back."""
    for batch in await road.stores.intake.claim(CONSUMER, [APP], count=100, block_ms=0):
        if batch.task_id != task_id:
            continue
        if isinstance(road.stores, OpenStores):
            await road.stores.server.execute_slow("XDEL", "{shop}:intake", batch.entry_id)
        else:
            state: Any = road.stores.intake
            state._take_out(batch)


# --- settling -------------------------------------------------------------------------------------------------------

EAGER = CompactionConfig(every_s=0.0, page=7)


async def test_settled_changes_are_on_the_shelf_and_off_the_log(road: Road) -> None:
    loop = road.loop(compaction=EAGER)
    await road.put("product", [{"product_id": "p1", "title": "Trowel"}, {"product_id": "p2"}])
    await road.put("user", [user("ann")])
    await drain(loop)
    await road.remove("product", ["p2"])
    await drain(loop)
    last = await road.append(click("ann", "p1"), click("bob", "p1"))

    assert await loop.compact_round() > 0

    state = road.segments.load(APP)
    assert [product.json for product in state.products] == [b'{"product_id":"p1","title":"Trowel"}']
    assert state.products.embedder == HashingEmbedder.version
    assert next(iter(state.products)).vector is not None
    assert state.interactions["reader"].to_pylist() == ["u:ann", "u:bob"]
    assert state.offsets["interaction"] == last
    assert road.segments.records(APP, "user") == [b'{"user_id":"ann"}']
    for noun in ("product", "user", "interaction"):
        assert await road.changes(noun) == []
    assert await road.stores.changes.compacted_offsets(APP) == state.offsets
    assert await loop.compact_round() == 0


async def test_a_log_settled_but_not_trimmed_before_a_crash_is_trimmed_after_it(road: Road) -> None:
    await road.append(click("ann", "p1"))

    def dies(method: str) -> None:
        if method == "compact":
            raise Killed

    with pytest.raises(Killed):
        await road.loop(mortal(road.stores, Life(), dies), compaction=EAGER).compact_round()
    assert len(await road.changes("interaction")) == 1
    assert await road.loop(compaction=EAGER).compact_round() == 0
    assert await road.changes("interaction") == []
    assert road.segments.load(APP).interactions.num_rows == 1


async def test_changes_wait_until_they_are_old_or_many(road: Road) -> None:
    loop = road.loop(compaction=CompactionConfig(entries=5, entry_bytes=0))
    await road.append(click("ann", "p1"))
    assert await loop.compact_round() == 0
    road.clock.ahead_s += 31.0
    assert await loop.compact_round() == 1
    for _ in range(4):
        await road.append(click("ann", "p1"))
    assert await loop.compact_round() == 0
    await road.append(click("ann", "p1"))
    assert await loop.compact_round() == 5


async def test_what_somebody_waits_for_settles_at_once_and_nothing_after_it(road: Road) -> None:
    loop = road.loop()
    await road.append(click("ann", "p1"))
    assert await loop.compact_round() == 0
    await road.stores.changes.request_compaction(
        APP, {"interaction": await road.stores.changes.last(APP, "interaction")}
    )
    assert await loop.compact_round() == 1
    await road.append(click("ann", "p2"))
    assert await loop.compact_round() == 0


async def test_an_erased_person_is_gone_from_the_shelf_at_once(road: Road) -> None:
    loop = road.loop(compaction=EAGER)
    await road.append(click("ann", "p1"), click("bob", "p1"))
    await road.put("user", [user("ann"), user("bob")])
    await drain(loop)
    await loop.compact_round()
    patient = road.loop()
    await road.append(click("ann", "p2"))
    await road.stores.interactions.erase(APP, ["ann"])
    await road.remove("user", ["ann"])
    await drain(patient)
    await road.append(click("ann", "p3"))

    await patient.compact_round()

    state = road.segments.load(APP)
    assert list(
        zip(
            state.interactions["reader"].to_pylist(),
            state.interactions["product_ids"].to_pylist(),
            strict=True,
        )
    ) == [
        ("u:bob", ["p1"]),
        ("u:ann", ["p3"]),
    ]
    assert road.segments.records(APP, "user") == [b'{"user_id":"bob"}']
    assert await road.changes("user") == []


async def _history(road: Road, rng: random.Random) -> None:
    """Some writes of every kind."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.4:
            products = [
                {"product_id": f"p{rng.randint(0, 8)}", "v": rng.random()} for _ in range(rng.randint(1, 3))
            ]
            await road.put("product", products)
        elif kind < 0.5:
            await road.remove("product", [f"p{rng.randint(0, 8)}"])
        elif kind < 0.9:
            await road.append(*(click(f"r{rng.randint(0, 5)}", f"p{n}") for n in range(rng.randint(1, 3))))
        else:
            await road.stores.interactions.erase(APP, [f"r{rng.randint(0, 5)}"])


async def test_killed_while_settling_the_shelf_and_the_rest_of_the_log_are_complete(road: Road) -> None:
    """What stands in the artifact store plus the log after it always equals what a never-killed settler has."""
    rng = random.Random(13)
    deaths = 0
    expected: list[tuple[str, list[str]]] = []
    read = {"interaction": "0"}
    while deaths < 40:
        await _history(road, rng)
        await drain(road.loop())
        expected = await _follow(road, read, expected)
        life = Life(rng.randint(0, 10))
        dying = DyingArtifactStore(road.artifacts)
        dying.life = rng.randint(0, 12)
        try:
            await road.loop(mortal(road.stores, life), dying, compaction=EAGER).compact_round()
        except Killed:
            deaths += 1
        assert await _complete(road) == (await _catalog(road), sorted(expected))
    print(f"settling killed {deaths} times, shelf and log complete every time")


async def _follow(
    road: Road, read: dict[str, str], rows: list[tuple[str, list[str]]]
) -> list[tuple[str, list[str]]]:
    changes = await road.stores.changes.read(
        APP, {"interaction": read["interaction"]}, count=10_000, block_ms=0
    )
    for change in changes:
        rows = _apply(rows, change)
        read["interaction"] = change.offset
    return rows


def _apply(rows: list[tuple[str, list[str]]], change: ChangeLogEntry) -> list[tuple[str, list[str]]]:
    items = orjson.loads(change.payload)
    if change.op == "erase":
        return [row for row in rows if row[0] not in items]
    return [*rows, *(("u:" + item["user_id"], item["product_ids"]) for item in items)]


async def _catalog(road: Road) -> list[bytes]:
    ids = await road.stores.records.ids(APP, "product")
    return sorted(record for record in await road.stores.records.get_many(APP, "product", ids) if record)


async def _complete(road: Road) -> tuple[list[bytes], list[tuple[str, list[str]]]]:
    """Rebuild the app from shelf and log, as a restarting host does."""
    state = road.segments.load(APP)
    catalog = {orjson.loads(product.json)["product_id"]: product.json for product in state.products}
    after: dict[Noun, str] = {noun: state.offsets.get(noun, "0") for noun in ("product", "interaction")}
    user_keys, products = (state.interactions[name].to_pylist() for name in ("reader", "product_ids"))
    rows = list(zip(user_keys, products, strict=True))
    for change in await road.stores.changes.read(APP, after, count=10_000, block_ms=0):
        if change.noun == "interaction":
            rows = _apply(rows, change)
        elif change.op == "put":
            catalog.update(
                (record["product_id"], orjson.dumps(record)) for record in orjson.loads(change.payload)
            )
        else:
            for product_id in orjson.loads(change.payload):
                catalog.pop(product_id, None)
    return sorted(catalog.values()), sorted(rows)


async def test_damaged_segments_stop_settling_of_that_app_only_and_lose_nothing(
    road: Road, tmp_path: Path
) -> None:
    await road.stores.access.put_app(App(app_id="calm", environment="production", created_at=1))
    loop = road.loop(compaction=EAGER)
    await road.append(click("ann", "p1"))
    await loop.compact_round()
    (damaged,) = (tmp_path / "shelf" / APP / "segments").glob("manifest-*.json")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    again = road.loop(compaction=EAGER)
    await road.append(click("ann", "p2"))
    await road.stores.interactions.append("calm", orjson.dumps([click("bob", "p1")]), [])

    assert await again.compact_round() == 1
    assert again.state().troubled == [APP]
    assert len(await road.changes("interaction")) == 1
    damaged.write_bytes(whole)
    road.clock.ahead_s += 31.0
    assert await again.compact_round() == 1
    assert again.state().troubled == []
    assert road.segments.load(APP).interactions.num_rows == 2


@pytest.mark.parametrize("loss", ["damaged", "gone"])
async def test_lost_product_segments_are_written_anew_from_the_records(
    road: Road, tmp_path: Path, loss: str
) -> None:
    loop = road.loop(compaction=EAGER)
    await road.put("product", [{"product_id": f"p{n}", "title": f"Title {n}"} for n in range(5)])
    await drain(loop)
    await road.append(click("ann", "p1"))
    await loop.compact_round()
    await road.remove("product", ["p4"])
    await drain(loop)
    before = {
        product.json: (b"" if product.vector is None else product.vector.tobytes())
        for product in road.segments.load(APP).products
    }
    folder = tmp_path / "shelf" / APP / "segments"
    for path in folder.iterdir() if loss == "gone" else folder.glob("product-*.parquet"):
        path.unlink() if loss == "gone" else path.write_bytes(b"PAR1")

    again = road.loop(compaction=EAGER)
    await again.compact_round()

    state = road.segments.load(APP)
    segments_read = {
        product.json: (b"" if product.vector is None else product.vector.tobytes())
        for product in state.products
    }
    assert segments_read == {json: vector for json, vector in before.items() if b"p4" not in json}
    assert state.products.embedder == HashingEmbedder.version
    assert await road.changes("product") == []
    assert state.interactions.num_rows == (1 if loss == "damaged" else 0)


async def test_a_shelf_that_stays_full_does_not_fill_memory_instead(road: Road, tmp_path: Path) -> None:
    full = ArtifactStore.open(tmp_path / "shelf", reserve_bytes=1 << 60)
    rules = CompactionConfig(every_s=0.0, page=1, full_bytes=300)
    loop = road.loop(artifacts=full, compaction=rules)
    for n in range(20):
        await road.append(click("ann", f"p{n}"))
    for _ in range(30):
        with pytest.raises(Unavailable):
            await loop.compact_round()
    assert loop._compactor is not None
    assert loop._compactor._waiting[APP]["interaction"].size < 600
    full._reserve_bytes = 0
    assert await loop.compact_round() == 20


async def test_a_full_disk_only_delays_settling(road: Road, tmp_path: Path) -> None:
    full = ArtifactStore.open(tmp_path / "shelf", reserve_bytes=1 << 60)
    loop = road.loop(artifacts=full, compaction=EAGER)
    await road.append(click("ann", "p1"))
    with pytest.raises(Unavailable, match="no space left"):
        await loop.compact_round()
    full._reserve_bytes = 0
    assert await loop.compact_round() == 1


# --- the loop's life --------------------------------------------------------------------------------------------------


async def test_only_the_holder_of_the_lease_works(road: Road) -> None:
    first = road.loop(owner="first", lease_ms=900)
    second = road.loop(owner="second", lease_ms=900)
    running = asyncio.create_task(first.run())
    await until(lambda: first.state().working)
    waiting = asyncio.create_task(second.run())
    task = await road.put("user", [user("ann")])
    await _finished(road, task)
    assert (first.state().applied, second.state().applied) == (1, 0)
    assert not second.state().working

    first.stop()
    await running
    await until(lambda: second.state().working)
    await _finished(road, await road.put("user", [user("bob")]))
    assert second.state().applied == 1
    second.stop()
    await waiting


async def test_the_loop_outlives_a_store_that_goes_away(road: Road) -> None:
    away = [False]

    def trouble(method: str) -> None:
        if away[0]:
            raise Unavailable("away", retry_after_s=1)

    loop = road.loop(mortal(road.stores, Life(), trouble), lease_ms=900, block_ms=20, watch_every_s=0.05)
    running = asyncio.create_task(loop.run())
    await until(lambda: loop.state().working)
    away[0] = True
    await until(lambda: loop.state().away > 0)
    task = await road.put("user", [user("ann")])
    away[0] = False
    await _finished(road, task)
    assert not running.done()
    loop.stop()
    await running


async def _finished(road: Road, task_id: str) -> None:
    async def is_finished() -> bool:
        return (await road.status("user", task_id))[0] == "finished"

    await until(is_finished)


# --- bounds -------------------------------------------------------------------------------------------------------


async def test_the_size_of_an_app_with_a_bound_is_measured_after_a_compaction(road: Road) -> None:
    async def bound(most_mb: int) -> None:
        settings = AppSettings(max_storage_mb=most_mb)
        await road.stores.access.put_app(
            App(app_id=APP, environment="development", settings=settings, created_at=0)
        )

    await bound(0)
    loop = road.loop()
    await road.put("user", [user("u1")])
    await drain(loop)
    await loop.compact_round(at_once=True)
    assert await road.stores.usage.stored_bytes(APP) == 0  # no bound, no measurement
    await bound(1)
    road.artifacts.write(f"snapshots/{APP}/default/v1/model.bin", b"x" * 5_000)
    road.artifacts.write("snapshots/other/default/v1/model.bin", b"x" * 7_000)
    await loop.compact_round()
    first = await road.stores.usage.stored_bytes(APP)
    assert first == 5_000 + sum(entry.size for entry in road.artifacts.entries(APP)) > 5_000
    road.artifacts.write(f"snapshots/{APP}/default/v2/model.bin", b"x" * 1_000)
    await loop.compact_round()
    assert await road.stores.usage.stored_bytes(APP) == first  # nothing was compacted
    road.clock.ahead_s += 61
    await loop.compact_round()
    assert await road.stores.usage.stored_bytes(APP) == first + 1_000
    # far below its bound an app is measured every five minutes only, also after a compaction
    await bound(AppSettings().max_storage_mb)
    road.artifacts.write(f"snapshots/{APP}/default/v3/model.bin", b"x" * 1_000)
    for later_s, expected in ((61, first + 1_000), (301, first + 2_000)):
        road.clock.ahead_s += later_s
        await loop.compact_round(at_once=True)
        assert await road.stores.usage.stored_bytes(APP) == expected
    assert await road.stores.records.count(APP, "user") == 1
    assert await road.stores.records.count(APP, "product") == 0
