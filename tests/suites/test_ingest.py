"""Ingest of whole files over memory and over a real Redis: everything in once, whatever interrupts it."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.intake.client import Erasures
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Conflict, Forbidden, Invalid, NotFound, ReadOnly, Unavailable
from cluster.ids import new_task_id
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.interaction import RecentEvent
from cluster.records.validation.upload import parse_interactions
from cluster.store.stores import Stores
from jobs.ingest import validation
from jobs.ingest.pipeline import IngestReport, IngestSpec, ingest, run_from_order
from jobs.ingest.progress import IngestProgress
from jobs.ingest.writing import InteractionWriter, StoreRetry
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, mortal
from tests.suites.store_kinds import STORE_KINDS, open_store_kind
from tests.suites.waiting import until

pytestmark = pytest.mark.redis
APP = "shop"


@pytest.fixture(params=STORE_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    async with open_store_kind(request) as stores:
        await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        yield stores


def write(path: Path, rows: list[Any]) -> str:
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in rows))
    return str(path)


async def run(stores: Stores, tmp_path: Path, address: str, noun: Any, **options: Any) -> IngestReport:
    order = {
        name: options.pop(name)
        for name in ("chunk", "mapping", "window", "patience_s", "limit", "keep_going")
        if name in options
    }
    return await ingest(
        IngestSpec(address, noun, APP, **order), stores, state_dir=tmp_path / "state", **options
    )


def clicks(count: int) -> list[dict[str, Any]]:
    return [
        {
            "type": "click",
            "user_id": f"u{n % 7}",
            "product_ids": [f"p{n}"],
            "timestamp": "2026-03-02T09:15:30.250Z",
        }
        for n in range(count)
    ]


async def logged(stores: Stores) -> list[str]:
    changes = await stores.changes.read(APP, {"interaction": "0"}, count=100_000, block_ms=0)
    return [item["product_ids"][0] for change in changes for item in orjson.loads(change.payload)]


async def test_users_and_products_of_a_file_are_stored_and_bad_rows_set_aside(
    stores: Stores, tmp_path: Path
) -> None:
    rows: list[Any] = [{"product_id": f"p{n}", "title": f"Title {n}", "type": "book"} for n in range(57)]
    rows[10] = b"{broken"
    rows[20] = {"product_id": "p20", "unknown": 1}
    report = await run(stores, tmp_path, write(tmp_path / "a.jsonl", rows), "product", chunk=10)
    assert (report.rows, report.accepted, report.refused, report.failed) == (57, 55, 2, 0)
    assert len(await stores.records.ids(APP, "product", "book")) == 55
    assert report.quarantine is not None
    lines = [orjson.loads(line) for line in report.quarantine.read_bytes().splitlines()]
    assert [line["row"] for line in lines] == [10, 20]
    assert "unknown" in lines[1]["reason"]
    (change, *_) = await stores.changes.read(APP, {"product": "0"}, count=1, block_ms=0)
    assert len(change.vectors) == 10 * 2 * HashingEmbedder.dimensions


async def test_csv_with_a_mapping(stores: Stores, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("nr,full name,since,pro\n1,Ann,1700000000,gold\n2,Bob,,\n,Nobody,,\n")
    mapping = (
        "user_id=nr",
        "name=full name",
        "created_at=since",
        "custom_attributes.plan=pro",
        "country:=GB",
    )
    report = await run(stores, tmp_path, str(path), "user", mapping=mapping)
    assert (report.accepted, report.refused) == (2, 1)
    assert orjson.loads(await stores.records.get(APP, "user", "1") or b"") == {
        "user_id": "1", "name": "Ann", "created_at": "2023-11-14T22:13:20.000Z",
        "custom_attributes": {"plan": "gold"}, "country": "GB",
    }  # fmt: skip


async def test_attribute_types_that_clash_cost_only_their_rows(stores: Stores, tmp_path: Path) -> None:
    await run(
        stores,
        tmp_path,
        write(tmp_path / "a.jsonl", [{"user_id": "a", "custom_attributes": {"size": 1}}]),
        "user",
    )
    rows = [
        {"user_id": f"b{n}", "custom_attributes": {"size": "L" if n == 3 else n, "shoe": str(n)}}
        for n in range(6)
    ]
    report = await run(stores, tmp_path, write(tmp_path / "b.jsonl", rows), "user", chunk=4)
    assert (report.accepted, report.refused) == (5, 1)
    assert report.quarantine is not None
    line = orjson.loads(report.quarantine.read_bytes())
    assert (line["row"], "not consistent" in line["reason"]) == (3, True)
    assert await stores.records.attribute_types(APP, "user") == {"size": "number", "shoe": "string"}


async def test_interactions_are_logged_and_fill_recent_lists(stores: Stores, tmp_path: Path) -> None:
    rows = [*clicks(25), {"type": "click", "product_ids": ["p"]}]
    report = await run(stores, tmp_path, write(tmp_path / "a.jsonl", rows), "interaction", chunk=10)
    assert (report.accepted, report.refused) == (25, 1)
    assert await logged(stores) == [f"p{n}" for n in range(25)]
    packed = await stores.interactions.recent(APP, ["u:u3"])
    assert [RecentEvent.unpack(event).product_ids for event in packed] == [
        ("p24",),
        ("p17",),
        ("p10",),
        ("p3",),
    ]


async def test_a_finished_ingest_starts_over_when_repeated(stores: Stores, tmp_path: Path) -> None:
    address = write(tmp_path / "a.jsonl", [{"user_id": "a"}])
    for _ in range(2):
        assert (await run(stores, tmp_path, address, "user")).accepted == 1


async def test_finished_interactions_are_not_ingested_twice_without_restart(
    stores: Stores, tmp_path: Path
) -> None:
    address = write(tmp_path / "a.jsonl", clicks(25))
    assert not (await run(stores, tmp_path, address, "interaction", chunk=10)).already
    again = await run(stores, tmp_path, address, "interaction", chunk=10)
    assert (again.already, again.rows, again.accepted) == (True, 0, 25)
    assert len(await logged(stores)) == 25
    write(tmp_path / "a.jsonl", clicks(30))
    assert (await run(stores, tmp_path, address, "interaction", chunk=10)).accepted == 30
    assert len(await logged(stores)) == 55
    report = await ingest(
        IngestSpec(address, "interaction", APP, chunk=10), stores, state_dir=tmp_path / "state", restart=True
    )
    assert not report.already


async def test_interactions_are_in_once_however_their_file_is_named_and_cut(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = write(tmp_path / "clicks.jsonl", clicks(10))
    await run(stores, tmp_path, address, "interaction", chunk=4)
    monkeypatch.chdir(tmp_path)
    again = await run(stores, tmp_path, "./clicks.jsonl", "interaction", chunk=7)
    assert again.already
    assert len(await logged(stores)) == 10


async def test_the_same_ingest_twice_at_once_is_refused(stores: Stores, tmp_path: Path) -> None:
    address = write(tmp_path / "clicks.jsonl", clicks(10))
    order = IngestSpec(address, "interaction", APP, chunk=4)
    with run_from_order(order, tmp_path / "state").lock(), pytest.raises(Conflict, match="at work"):
        await run(stores, tmp_path, address, "interaction", chunk=4)
    assert await logged(stores) == []


async def test_an_unknown_app_is_refused_before_anything_is_read(stores: Stores, tmp_path: Path) -> None:
    address = write(tmp_path / "a.jsonl", [{"user_id": "a"}])
    with pytest.raises(NotFound):
        await ingest(IngestSpec(address, "user", "nobody"), stores, state_dir=tmp_path)


async def test_a_playground_is_not_written_to(stores: Stores, tmp_path: Path) -> None:
    await stores.access.put_app(App(app_id="sample", environment="playground", created_at=0))
    file = write(tmp_path / "a.jsonl", [{"product_id": "p"}])
    with pytest.raises(ReadOnly, match=r"playground.* --app"):
        await ingest(IngestSpec(file, "product", "sample"), stores, state_dir=tmp_path / "state")
    assert not await stores.records.get("sample", "product", "p")


@pytest.mark.parametrize("noun", ["product", "interaction"])
async def test_an_ingest_without_accepted_rows_stops_with_a_reason(
    stores: Stores, tmp_path: Path, noun: str
) -> None:
    rows = [{"product_id": f"p{n}", "price": "2,55", "type": "zap"} for n in range(3_000)]
    file = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(Invalid, match=r"none of the first 1,000 rows.*for example row 0.*--dry-run"):
        await run(stores, tmp_path, file, noun, chunk=100, window=1)
    with pytest.raises(Invalid, match="none of the first 1,000 rows"):
        await run(stores, tmp_path, file, noun, chunk=100, window=1)
    report = await run(stores, tmp_path, file, noun, chunk=100, keep_going=True)
    assert (report.accepted, report.refused) == (0, 3_000)
    assert report.reasons[0].count == 3_000


async def test_a_limit_bounds_the_rows_of_all_files(stores: Stores, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a", "b"):
        write(folder / f"{name}.jsonl", clicks(30))
    report = await run(stores, tmp_path, str(folder), "interaction", chunk=20, limit=45)
    assert (report.rows, report.accepted) == (45, 45)
    assert len(await logged(stores)) == 45


async def test_an_ingest_of_records_killed_anywhere_ends_complete(stores: Stores, tmp_path: Path) -> None:
    rows: list[Any] = [{"user_id": f"u{n}", "age": n} for n in range(60)]
    rows[33] = b"{broken"
    address = write(tmp_path / "a.jsonl", rows)
    rng = random.Random(5)
    deaths = 0
    while True:
        try:
            # the loop inside catches nothing that kills either, so death is near wherever it strikes
            report = await run(
                mortal(stores, Life(rng.randint(0, 90))), tmp_path, address, "user", chunk=7, window=3
            )
            break
        except Killed:
            deaths += 1
            assert deaths < 300
            await _free(stores)
    assert deaths > 0
    assert (report.accepted, report.refused) == (59, 1)
    user_ids = await stores.records.ids(APP, "user")
    assert user_ids == sorted(f"u{n}" for n in range(60) if n != 33)
    assert report.quarantine is not None
    assert len(report.quarantine.read_bytes().splitlines()) == 1


async def _free(stores: Stores) -> None:
    """Let go of the lease of a dead loop: its owner is nobody's any more."""
    for name in await _owners(stores):
        await stores.leases.release("intake", name)


async def _owners(stores: Stores) -> list[str]:
    if hasattr(stores, "server"):
        owner = await stores.server.execute_slow("GET", "kiosk:lease:intake")
        return [owner.decode()] if owner else []
    leases: Any = stores.leases
    return [owner for owner, _ in leases._holders.values()]


async def test_interactions_killed_anywhere_are_in_exactly_once(stores: Stores, tmp_path: Path) -> None:
    address = write(tmp_path / "a.jsonl", clicks(60))
    rng = random.Random(9)
    deaths = 0
    while True:
        try:
            await run(mortal(stores, Life(rng.randint(0, 15))), tmp_path, address, "interaction", chunk=4)
            break
        except Killed:
            deaths += 1
            assert deaths < 300
    assert deaths >= 5
    assert await logged(stores) == [f"p{n}" for n in range(60)]


async def test_interactions_killed_between_being_in_and_being_noted_are_in_exactly_once(
    stores: Stores, tmp_path: Path
) -> None:
    """Equal chunks too: each is looked for behind the place of the one before."""
    path = tmp_path / "a.parquet"
    rows = [*clicks(12)] * 3
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    left = [0]

    def watch(progress: IngestProgress) -> None:
        left[0] -= 1
        if not left[0]:
            raise Killed

    for chunks in (1, 1, 2, 1, 3, 0):
        left[0] = chunks
        try:
            await run(stores, tmp_path, str(path), "interaction", chunk=4, watch=watch)
        except Killed:
            continue
    assert await logged(stores) == [row["product_ids"][0] for row in rows]
    packed = await stores.interactions.recent(APP, ["u:u3"])
    assert [RecentEvent.unpack(event).product_ids[0] for event in packed] == ["p10", "p3"] * 3


async def test_a_file_that_ends_in_damage_is_gone_on_with_behind_what_is_in(
    stores: Stores, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(clicks(20)), path, row_group_size=5)
    whole = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(2)
    first = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    end = first + group.total_byte_size
    changed = path.stat()
    path.write_bytes(whole[:first] + b"\xff" * (end - first) + whole[end:])
    os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    with pytest.raises(Invalid):
        await run(stores, tmp_path, str(path), "interaction", chunk=5)
    assert len(await logged(stores)) == 10
    segments = SegmentStore(ArtifactStore.open(tmp_path / "shelf"))
    await _settle(stores, segments)  # without the segments nobody could say any more what is in
    path.write_bytes(whole)
    os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    report = await run(stores, tmp_path, str(path), "interaction", chunk=5)
    assert (report.rows, report.accepted) == (10, 20)
    assert await logged(stores) == [f"p{n}" for n in range(10, 20)]


async def test_a_chunk_settled_and_trimmed_before_going_on_is_not_repeated(
    stores: Stores, tmp_path: Path
) -> None:
    address = write(tmp_path / "a.jsonl", clicks(12))
    segments = SegmentStore(ArtifactStore.open(tmp_path / "shelf"))
    for life in range(60):
        with_death = mortal(stores, Life(life))
        try:
            await run(with_death, tmp_path, address, "interaction", chunk=4, segments=segments)
            break
        except Killed:
            await _settle(stores, segments)
    await _settle(stores, segments)
    assert await logged(stores) == []
    ids = segments.load(APP).interactions["product_ids"].to_pylist()
    assert Counter(product_id for row in ids for product_id in row) == {f"p{n}": 1 for n in range(12)}


async def test_a_chunk_that_is_trimmed_while_it_is_looked_for_is_not_repeated(
    stores: Stores, tmp_path: Path
) -> None:
    """The compaction comes between two questions to the store: the chunk is in the log, and then only compacted."""
    segments = SegmentStore(ArtifactStore.open(tmp_path / "shelf"))
    patience = StoreRetry(1.0, SystemClock(), random.Random())
    writer = InteractionWriter(stores, APP, segments, patience)
    accepted = parse_interactions(clicks(3), now_ms=SystemClock().now_ms())
    after = await writer.read_log_end()
    await writer.append(accepted, after)
    read = stores.changes.read

    async def read_late(*args: Any, **options: Any) -> Any:
        stores.changes.read = read  # type: ignore[method-assign]
        await _settle(stores, segments)
        return await read(*args, **options)

    stores.changes.read = read_late  # type: ignore[method-assign]
    assert await writer.is_appended(accepted, after)


@pytest.mark.parametrize("timestamp", ["2026-03-02T09:15:30.250Z", "2999-01-01T00:00:00Z"])
async def test_compacted_events_of_another_time_are_not_the_chunk(
    stores: Stores, tmp_path: Path, timestamp: str
) -> None:
    segments = SegmentStore(ArtifactStore.open(tmp_path / "shelf"))
    writer = InteractionWriter(stores, APP, segments, StoreRetry(1.0, SystemClock(), random.Random()))
    now_ms = SystemClock().now_ms()
    accepted = parse_interactions([row | {"timestamp": timestamp} for row in clicks(2)], now_ms=now_ms)
    others = parse_interactions(
        [row | {"timestamp": "2026-03-02T09:15:31Z"} for row in clicks(2)], now_ms=now_ms
    )
    after = await writer.read_log_end()
    await writer.append(others, after)
    await _settle(stores, segments)
    assert not await writer.is_appended(accepted, after)
    # A time ahead of the write is stored as the time of the write.
    await writer.append(accepted, after)
    await _settle(stores, segments)
    assert await writer.is_appended(accepted, after)


ERASED_USER = "u3"
_USERS = ("u1", "u2", "u3", "u1", *["u3"] * 4, "u2", "u3", "u1", "u2")
"Chunks of four: one with a person who is erased, one of this person alone, and one more."


async def _erase(stores: Stores, segments: SegmentStore, state_dir: Path, app_id: str) -> None:
    """Erase a person by an order, which a running intake carries out."""
    rules = IntakeConfig(
        apps_every_s=0.0,
        compaction_pause_s=0.02,
        erase_pause_s=0.02,
        block_ms=10,
        compaction=CompactionConfig(every_s=0.0),
    )
    loop = IntakeLoop(
        stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(),
        owner="eraser", rules=rules, files=LocalPersonFiles(state_dir),
    )  # fmt: skip
    working = asyncio.create_task(loop.run())
    erasures = Erasures(stores, SystemClock())
    ordered = await erasures.order(app_id, user_id=ERASED_USER, request_id="r", by="command")
    receipt = await erasures.wait(ordered)
    loop.stop()
    await working
    assert receipt.left == 0


@pytest.mark.parametrize("parts", ["one part", "parts", "parts of a chunk with a bad row"])
@pytest.mark.parametrize("deed", ["order", "delete", "delete at once"])
async def test_an_erasure_between_two_lives_of_an_ingest_repeats_nothing_and_brings_nobody_back(
    stores: Stores, tmp_path: Path, deed: str, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ingest is killed at each of its steps, the person is erased, and the ingest goes on."""
    if parts != "one part":
        monkeypatch.setattr(validation, "CHUNK_BYTES", 250)  # two rows
    rows: list[dict[str, Any]] = [
        {"type": "click", "user_id": user_id, "product_ids": [f"p{n}"], "timestamp": "2026-03-02T09:15:30Z"}
        for n, user_id in enumerate(_USERS)
    ]
    expected = Counter(row["product_ids"][0] for row in rows if row["user_id"] != ERASED_USER)
    if parts == "parts of a chunk with a bad row":
        rows[3:3] = [{"type": "click"}]
    address = write(tmp_path / "a.jsonl", rows)
    segments = SegmentStore(ArtifactStore.open(tmp_path / "shelf"))
    for step in range(100):
        app_id = f"shop{step}"
        await stores.access.put_app(App(app_id=app_id, environment="development", created_at=0))
        order = IngestSpec(address, "interaction", app_id, chunk=4 if parts == "one part" else 6)
        state = tmp_path / "state"
        is_killed = False
        try:
            await ingest(order, mortal(stores, Life(step)), state_dir=state, segments=segments)
        except Killed:
            is_killed = True
        has_begun = run_from_order(order, state)._read() is not None
        if deed != "delete at once":
            await _settle(stores, segments)
        if deed == "order":
            await _erase(stores, segments, tmp_path, app_id)
        else:
            await stores.interactions.erase(app_id, [ERASED_USER])
        await _settle(stores, segments)
        if is_killed:
            await ingest(order, stores, state_dir=state, segments=segments)
        await _settle(stores, segments)
        compacted = segments.load(app_id).interactions.to_pylist()
        counted = Counter(
            product_id
            for row in compacted
            if row["reader"] != f"u:{ERASED_USER}"
            for product_id in row["product_ids"]
        )
        assert counted == expected, step
        if has_begun:
            assert segments.read_rows_of_ids(app_id, "interaction", [f"u:{ERASED_USER}"]) == [], step
        if deed == "order" and has_begun:
            assert await stores.changes.read(app_id, {"interaction": "0"}, count=9, block_ms=0) == []
            assert await stores.interactions.recent(app_id, [f"u:{ERASED_USER}"]) == []
        if not is_killed:
            return
    raise AssertionError("the ingest never ended")


async def test_users_who_come_back_after_a_delete_are_ingested_by_a_new_run(
    stores: Stores, tmp_path: Path
) -> None:
    """Only runs that began before the delete leave the user out, with visitors that were linked."""
    rows = [
        {"type": "click", "user_id": "u1", "anonymous_id": "a1", "product_ids": ["p1"]},
        {"type": "click", "anonymous_id": "a1", "product_ids": ["p2"]},
        {"type": "click", "user_id": "u2", "product_ids": ["p3"]},
    ]
    await run(stores, tmp_path, write(tmp_path / "a.jsonl", rows), "interaction")
    begun_ms = SystemClock().now_ms()
    await stores.interactions.erase(APP, ["u1"])
    deleted = await stores.interactions.deleted_since(APP, begun_ms)
    assert [deleted.has_any_of(row) for row in rows] == [True, True, False]
    await asyncio.sleep(0.002)
    assert not await stores.interactions.deleted_since(APP, SystemClock().now_ms())
    report = await run(stores, tmp_path, write(tmp_path / "b.jsonl", rows), "interaction")
    assert (report.accepted, report.refused) == (3, 0)


@pytest.mark.parametrize("noun", ["user", "product"])
async def test_records_deleted_between_two_lives_of_an_ingest_do_not_come_back(
    stores: Stores, tmp_path: Path, noun: Any
) -> None:
    """One that was uploaded again keeps this version; a new run takes all of them."""
    rows = [{f"{noun}_id": f"r{n:02}", "custom_attributes": {"of": "file"}} for n in range(12)]
    address = write(tmp_path / "a.jsonl", rows)
    seen = 0

    def die(progress: IngestProgress) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise Killed

    async def submit(op: Any, records: list[Any]) -> None:
        await stores.intake.accept(
            APP,
            noun,
            op,
            orjson.dumps(records),
            task_id=new_task_id(),
            total=1,
            now_ms=SystemClock().now_ms(),
        )

    await submit("remove", ["r11"])
    with pytest.raises(Killed):
        await run(stores, tmp_path, address, noun, chunk=2, window=2, watch=die)
    await _free(stores)
    await submit("remove", ["r01", "r05", "r07", "r10"])
    await submit("put", [rows[10] | {"custom_attributes": {"of": "call"}}])
    report = await run(stores, tmp_path, address, noun, chunk=2, window=2)
    assert await stores.records.ids(APP, noun) == [f"r{n:02}" for n in range(12) if n not in (1, 5, 7)]
    assert b"call" in (await stores.records.get(APP, noun, "r10") or b"")
    assert (report.accepted, report.refused) == (9, 3)
    assert report.quarantine is not None
    lines = [orjson.loads(line) for line in report.quarantine.read_bytes().splitlines()]
    assert [(line["row"], line["reason"], line["text"]) for line in lines] == [
        (row, validation.DELETED, "") for row in (5, 7, 10)
    ]
    assert (await run(stores, tmp_path, address, noun, restart=True)).accepted == 12
    assert len(await stores.records.ids(APP, noun)) == 12


async def _settle(stores: Stores, segments: SegmentStore) -> None:
    rules = IntakeConfig(apps_every_s=0.0, compaction=CompactionConfig(every_s=0.0))
    loop = IntakeLoop(
        stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="s", rules=rules
    )
    await loop.compact_round()


async def test_lost_answers_of_the_store_repeat_nothing(stores: Stores, tmp_path: Path) -> None:
    """The store does what it was asked for and its answer never arrives."""
    rng = random.Random(3)
    append = stores.interactions.append

    async def forgetful(*args: Any) -> str:
        offset = await append(*args)
        if rng.random() < 0.4:
            raise Unavailable("the answer was lost", retry_after_s=1)
        return offset

    stores.interactions.append = forgetful  # type: ignore[method-assign]
    await run(stores, tmp_path, write(tmp_path / "a.jsonl", clicks(40)), "interaction", chunk=4)
    assert await logged(stores) == [f"p{n}" for n in range(40)]


async def test_a_store_that_stays_away_ends_the_ingest_and_it_goes_on_later(
    stores: Stores, tmp_path: Path
) -> None:
    address = write(tmp_path / "a.jsonl", clicks(20))
    calls = [0]

    def trouble(method: str) -> None:
        calls[0] += method == "append"
        if method == "append" and calls[0] > 2:
            raise Unavailable("away", retry_after_s=1)

    away = mortal(stores, Life(), trouble)
    with pytest.raises(Unavailable):
        await run(away, tmp_path, address, "interaction", chunk=5, patience_s=2.0)
    seen: list[IngestProgress] = []
    report = await run(stores, tmp_path, address, "interaction", chunk=5, watch=seen.append)
    assert report.rows == 10
    assert await logged(stores) == [f"p{n}" for n in range(20)]
    assert seen[-1].finished
    assert [progress.row for progress in seen] == [15, 20, 20]


async def test_a_changed_file_is_not_gone_on_with(stores: Stores, tmp_path: Path) -> None:
    address = write(tmp_path / "a.jsonl", clicks(20))
    with pytest.raises(Killed):
        await run(mortal(stores, Life(9)), tmp_path, address, "interaction", chunk=5)
    write(tmp_path / "a.jsonl", clicks(21))
    with pytest.raises(Conflict):
        await run(stores, tmp_path, address, "interaction", chunk=5)
    assert (await run(stores, tmp_path, address, "interaction", chunk=5, restart=True)).accepted == 21


async def test_while_an_intake_is_at_work_the_ingest_leaves_applying_to_it(
    stores: Stores, tmp_path: Path
) -> None:
    loop = IntakeLoop(
        stores,
        None,
        HashingEmbedder(),
        SystemClock(),
        SilentMeter(),
        owner="actor",
        rules=IntakeConfig(block_ms=50),
    )
    working = asyncio.create_task(loop.run())
    await until(lambda: loop.state().working)
    rows = [{"user_id": f"u{n}"} for n in range(30)]
    await run(stores, tmp_path, write(tmp_path / "a.jsonl", rows), "user", chunk=5)
    assert loop.state().applied == 6
    loop.stop()
    await working


# --- bounds -------------------------------------------------------------------------------------------------------


async def test_an_ingest_stops_at_the_bounds_of_its_app(stores: Stores, tmp_path: Path) -> None:
    people = write(tmp_path / "people.jsonl", [{"user_id": f"u{n}"} for n in range(30)])
    bounded = App(app_id=APP, environment="development", settings=AppSettings(max_records=20), created_at=0)
    await stores.access.put_app(bounded)
    with pytest.raises(Forbidden, match="at most 20 records"):
        await run(stores, tmp_path, people, "user", chunk=10, window=1)
    assert await stores.records.count(APP, "user") == 20
    full = bounded.model_copy(update={"settings": AppSettings(max_storage_mb=1)})
    await stores.access.put_app(full)
    await stores.usage.set_stored_bytes(APP, 1 << 20)
    with pytest.raises(Forbidden, match="at most 1 MB"):
        await run(stores, tmp_path, write(tmp_path / "clicks.jsonl", clicks(3)), "interaction")
    assert await logged(stores) == []


@pytest.mark.parametrize("after", [1, 3, 5])
async def test_a_killed_ingest_of_order_lines_continues_with_the_same_baskets(
    stores: Stores, tmp_path: Path, after: int
) -> None:
    rows = [
        {"order": f"o{at % 60}", "user": f"u{at % 60 % 7}", "item": f"p{at}", "ts": 1_600_000_000 + at % 60}
        for at in range(300)
    ]
    address = write(tmp_path / "lines.jsonl", rows)
    mapping = ("type:=checkout", "order_id=order", "user_id=user", "product_ids=item", "timestamp=ts")
    seen = 0

    def die(progress: IngestProgress) -> None:
        nonlocal seen
        seen += 1
        if seen == after:
            raise Killed

    with pytest.raises(Killed):
        await run(stores, tmp_path, address, "interaction", mapping=mapping, chunk=10, watch=die)
    report = await run(stores, tmp_path, address, "interaction", mapping=mapping, chunk=10)
    assert (report.accepted, report.refused) == (60, 0)
    changes = await stores.changes.read(APP, {"interaction": "0"}, count=100_000, block_ms=0)
    baskets = [item["product_ids"] for change in changes for item in orjson.loads(change.payload)]
    assert sorted(map(sorted, baskets)) == sorted(
        sorted(f"p{at}" for at in range(first, 300, 60)) for first in range(60)
    )
