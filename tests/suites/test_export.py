"""Data out over memory and over a real Redis: what went in comes out once, and goes in again the same."""

from __future__ import annotations

import csv
import hashlib
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.intake.daily_log_compaction import DailyLogCompactor
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.compaction import MergeRules
from cluster.artifacts.logs.call_log import CallLogStore
from cluster.artifacts.logs.day_files import name_day
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_commits import SegmentCommits
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.table_files import choose_format
from cluster.clock import SystemClock
from cluster.errors import Fault, Invalid, NotFound
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.interaction import INTERACTION_MODELS
from cluster.records.logged_query import LoggedQuery
from cluster.records.product import Product
from cluster.records.served_list import ServedAnswer
from cluster.records.user import User
from cluster.store.stores import Stores
from jobs.export import file_export
from jobs.export.columns import NOUN_OF, SCHEMAS
from jobs.export.export_source import open_source
from jobs.export.file_export import ExportSpec, ExportSummary, export_to_file, read_tables
from jobs.ingest.pipeline import IngestSpec, ingest
from tests.fakes.request_handler import StillClock
from tests.suites.store_kinds import STORE_KINDS, open_store_kind

pytestmark = pytest.mark.redis
APP, COPY = "shop", "copy"

PRODUCTS: list[dict[str, Any]] = [
    {
        "product_id": "=SUM(A1)", "product_group_id": "g", "parent_id": "p", "related_ids": ["a", "b"], "type": "book",
        "title": "Ä \"quoted\", line\nbreak", "subtitle": "s", "description": "d", "short_description": "sd",
        "html": "<p>x</p>", "headers": ["h"], "paragraphs": ["one", "two"], "anchors": ["x"],
        "children": [{"id": "c1", "title": "Chapter", "custom_attributes": {"n": 1}}], "language": "en",
        "created_at": "2026-01-02", "published_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05.5Z",
        "categories": [["Garden", "Tools"], ["New"]], "tags": ["steel"], "authors": ["A"], "publishers": ["P"],
        "collections": ["C"], "url": "https://shop.example/1", "cover_image": "https://shop.example/1.png",
        "images": ["https://shop.example/2.png", {"url": "x", "w": 3}], "price": 2, "original_price": 2.5,
        "sale_price": 1.99, "margin": -0.5, "size": "L", "color": "red", "material": "steel", "brand": "@Alder",
        "condition": "NEW", "availability": "IN_STOCK", "rating": 4.5, "location": [{"lat": 1.5, "lon": -2}],
        "enable_question_answering": True, "custom_attributes": {"grip": "green", "n": 2, "list": ["x"], "none": None},
        "i18n_fr": {"title": "Bêche", "custom_attributes": {"grip": "vert"}},
    },
    *({"product_id": f"p{n}", "title": f"Product {n}", "price": n} for n in range(40)),
]  # fmt: skip
USERS: list[dict[str, Any]] = [
    {
        "user_id": "ada", "created_at": "2026-01-02", "updated_at": "2026-01-02T03:04:05Z", "name": "Ada", "age": 36,
        "profile_image": "https://shop.example/a.png", "gender": "f", "city": "Leeds", "state": "s", "country": "UK",
        "group_id": "g", "description": "d", "custom_attributes": {"vip": True},
    },
    *({"user_id": f"u{n}"} for n in range(10)),
]  # fmt: skip


def interactions() -> Iterator[dict[str, Any]]:
    at = "2026-03-{:02d}T09:15:30.250Z"
    context = {
        "locale": "en",
        "page": {"url": "https://shop.example", "title": "t"},
        "custom_context": {"a": [1]},
    }
    yield {"type": "click", "user_id": "ada", "anonymous_id": "v1", "product_ids": ["p1", "p2"],
           "product_group_ids": ["g"], "timestamp": at.format(1), "context": context,
           "service_id": "568db94c-905e-42b5-a061-daefdc50143f"}  # fmt: skip
    yield {
        "type": "add_to_cart",
        "user_id": "u1",
        "product_ids": ["p1"],
        "quantities": 3,
        "timestamp": at.format(2),
    }
    yield {"type": "checkout", "anonymous_id": "v2", "product_ids": ["p1", "p2"], "quantities": [1, 2.5],
           "revenue": 12.5, "timestamp": at.format(3)}  # fmt: skip
    yield {"type": "rate", "user_id": "u1", "product_ids": ["p3"], "rating": 4, "timestamp": at.format(4)}
    yield {
        "type": "read",
        "user_id": "u2",
        "product_ids": ["p3"],
        "duration": 7.25,
        "timestamp": at.format(5),
    }
    yield {"type": "custom", "user_id": "u2", "custom_action_name": "=x", "timestamp": at.format(6)}
    yield {"type": "search", "user_id": "u2", "timestamp": at.format(7),
           "search": {"keywords": "hoe", "filters": {"brand": ["Alder"]}}}  # fmt: skip
    yield {"type": "feedback", "user_id": "u2", "question_id": "q", "result_type": "answer", "value": "up",
           "timestamp": at.format(8)}  # fmt: skip
    yield {"type": "category_page_view", "user_id": "u2", "category": ["Garden"], "timestamp": at.format(9)}


ROWS: dict[str, list[dict[str, Any]]] = {
    "products": PRODUCTS, "users": USERS, "interactions": list(interactions()),
}  # fmt: skip
KEYS = {"products": "product_id", "users": "user_id", "interactions": "timestamp"}


@pytest.fixture(params=STORE_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    async with open_store_kind(request) as stores:
        await _open_apps(stores)
        yield stores


async def _open_apps(stores: Stores) -> None:
    for app_id in (APP, COPY):
        await stores.access.put_app(App(app_id=app_id, environment="development", created_at=0))


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.open(tmp_path / "shelf")


class World:
    """An app whose change log settles when asked to."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore, folder: Path) -> None:
        self.stores, self.artifacts, self.folder = stores, artifacts, folder
        self.segments = SegmentStore(artifacts, rules=MergeRules(runs=3, piece_bytes=2_000))
        clock = SystemClock()
        rebuilder = SegmentRebuilder(stores, self.segments, HashingEmbedder(), clock)
        self._settler = ChangeLogCompactor(stores.changes, self.segments, rebuilder, clock, SilentMeter())

    async def ingest(self, rows: list[dict[str, Any]], subject: str, app_id: str = APP) -> None:
        """Bring rows in as `kiosk ingest` does."""
        path = self.folder / "rows.jsonl"
        path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
        await self.ingest_file(path, subject, app_id)

    async def ingest_file(self, path: Path, subject: str, app_id: str = APP) -> None:
        """Bring a file in."""
        order = IngestSpec(str(path), NOUN_OF[subject], app_id)
        report = await ingest(order, self.stores, state_dir=self.folder / "state", restart=True)
        assert report.accepted == report.rows, report.reasons

    async def settle(self) -> None:
        """Move the change log into segments."""
        await self._settler.run_once([APP, COPY], at_once=True)

    async def export(self, subject: Any, out: str = "out.jsonl", **options: Any) -> ExportSummary:
        """Export into the folder."""
        path = str(self.folder / out)
        order = ExportSpec(options.pop("app_id", APP), subject, path, choose_format(path), **options)
        return await export_to_file(order, self.stores, self.artifacts)

    async def rows(self, subject: Any, **options: Any) -> list[dict[str, Any]]:
        """Export as JSON Lines and read them, sorted."""
        summary = await self.export(subject, **options)
        lines = (self.folder / "out.jsonl").read_bytes().splitlines()
        assert summary.rows == len(lines)
        return sorted(
            (orjson.loads(line) for line in lines), key=lambda row: row.get(KEYS.get(subject, "at"), "")
        )


@pytest.fixture
def world(stores: Stores, artifacts: ArtifactStore, tmp_path: Path) -> World:
    return World(stores, artifacts, tmp_path)


def by_key(subject: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row[KEYS[subject]])


# --- the columns ------------------------------------------------------------------------------------------------


def test_every_field_of_a_record_has_a_column() -> None:
    assert set(SCHEMAS["products"].names) == {*Product.model_fields, "translations", "written_at"}
    assert set(SCHEMAS["users"].names) == {*User.model_fields, "written_at"}
    fields = {name for model in INTERACTION_MODELS[:10] for name in model.model_fields}
    assert set(SCHEMAS["interactions"].names) == {*fields, "written_at"}


def test_every_column_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "data-out.md").read_text("utf-8")
    for subject, schema in SCHEMAS.items():
        paragraph = page.split(f"**{subject}**: ")[1].split("\n\n")[0]
        assert {name for name in schema.names if f"`{name}`" not in paragraph} == set()


# --- whole, once, and the same again ------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["products", "users", "interactions"])
async def test_json_lines_are_ingested_again_with_all_fields_equal(world: World, subject: str) -> None:
    half = len(ROWS[subject]) // 2
    await world.ingest(ROWS[subject][:half], subject)
    await world.settle()
    await world.ingest(ROWS[subject][half:], subject)  # still in the change log alone
    assert await world.rows(subject) == by_key(subject, ROWS[subject])
    await world.ingest_file(world.folder / "out.jsonl", subject, COPY)
    for _ in range(2):
        assert await world.rows(subject, app_id=COPY) == by_key(subject, ROWS[subject])
        await world.settle()


@pytest.mark.parametrize("subject", ["products", "users", "interactions"])
async def test_parquet_and_csv_hold_the_same(world: World, subject: str) -> None:
    await world.ingest(ROWS[subject], subject)
    await world.export(subject, "out.parquet")
    await world.export(subject, "out.csv", keep_formulas=True)
    table = pq.read_table(world.folder / "out.parquet")
    assert table.schema.equals(SCHEMAS[subject])
    with (world.folder / "out.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == table.num_rows == len(ROWS[subject])
    key = KEYS[subject]
    if subject != "interactions":
        assert {line[key] for line in lines} == {row[key] for row in ROWS[subject]}
    for row, line in zip(table.to_pylist(), lines, strict=True):
        for name, value in row.items():
            if isinstance(value, list):
                assert orjson.loads(line[name]) == value
            elif isinstance(value, str):
                assert line[name] == value
            elif value is None:
                assert line[name] == ""
    frame = pl.read_parquet(world.folder / "out.parquet")
    if subject == "products":
        first = frame.filter(pl.col("product_id") == "=SUM(A1)").to_dicts()[0]
        assert first["categories"] == [["Garden", "Tools"], ["New"]]
        assert orjson.loads(first["custom_attributes"]) == PRODUCTS[0]["custom_attributes"]
        assert orjson.loads(first["translations"]) == {"i18n_fr": PRODUCTS[0]["i18n_fr"]}
    if subject == "interactions":
        assert frame["quantities"].to_list()[1:3] == [[3.0], [1.0, 2.5]]
        assert frame["timestamp"][0].isoformat() == "2026-03-01T09:15:30.250000+00:00"


async def test_cells_that_a_spreadsheet_would_run_are_escaped(world: World) -> None:
    await world.ingest(PRODUCTS[:1], "products")
    await world.export("products", "out.csv")
    text = (world.folder / "out.csv").read_text("utf-8")
    assert "'=SUM(A1)" in text
    assert "'@Alder" in text
    assert ",-0.5," in text  # a number stays one


async def test_deletions_and_erasures_are_applied_wherever_the_rows_stand(world: World) -> None:
    for settle_first in (True, False):
        await world.ingest(PRODUCTS, "products")
        await world.ingest(USERS, "users")
        await world.ingest(ROWS["interactions"], "interactions")
        if settle_first:
            await world.settle()
        for noun, record_id in (("product", "p3"), ("user", "u1")):
            batch = orjson.dumps([record_id])
            await world.stores.intake.accept(
                APP, noun, "remove", batch, task_id=f"t-{noun}-{settle_first}", total=1, now_ms=1
            )
            (claimed,) = await world.stores.intake.claim("test", [APP], count=1, block_ms=0)
            await world.stores.intake.apply_remove(claimed, [record_id], now_ms=1)
        await world.stores.interactions.erase(APP, ["u2"])
        again = {
            "type": "click",
            "user_id": "u2",
            "product_ids": ["p9"],
            "timestamp": "2026-03-20T00:00:00.000Z",
        }
        await world.ingest([again, {"type": "click", "anonymous_id": "v9", "timestamp": again["timestamp"]}],
                           "interactions")  # fmt: skip
        for _ in range(2):
            assert "p3" not in {row["product_id"] for row in await world.rows("products")}
            people = {row["user_id"] for row in await world.rows("users")}
            assert people == {row["user_id"] for row in USERS} - {"u1"}
            rows = [row for row in await world.rows("interactions") if row.get("user_id") == "u2"]
            assert rows == [again]
            await world.settle()
        await world.stores.interactions.erase(APP, ["u2", "u1", "ada"])
        await world.settle()


async def test_of_a_record_only_the_newest_is_there(world: World) -> None:
    for price in range(6):
        await world.ingest([{"product_id": "p1", "price": price}, {"product_id": f"n{price}"}], "products")
        if price % 2:
            await world.settle()
    rows = await world.rows("products")
    assert [row for row in rows if row["product_id"] == "p1"] == [{"product_id": "p1", "price": 5}]
    assert len(rows) == 7


async def test_since_takes_what_happened_or_was_written_later(world: World) -> None:
    await world.ingest(ROWS["interactions"], "interactions")
    await world.ingest(USERS, "users")
    day = 1_772_668_800_000  # 2026-03-05
    rows = await world.rows("interactions", since_ms=day)
    assert [row["timestamp"][8:10] for row in rows] == ["05", "06", "07", "08", "09"]
    now_ms = SystemClock().now_ms()
    assert await world.rows("users", since_ms=now_ms + 60_000) == []
    assert len(await world.rows("users", since_ms=now_ms - 60_000)) == len(USERS)


async def test_queries_come_from_the_shelf_and_from_the_queue(world: World) -> None:
    artifacts, clock = QueryLogStore(world.artifacts), SystemClock()
    settler = DailyLogCompactor(world.stores.queries, artifacts, clock, SilentMeter())
    day, now_ms = 86_400_000, clock.now_ms()

    def query(at: int, text: str, user_key: str = "") -> LoggedQuery:
        return LoggedQuery(at, "search", text, 3, "en", "", "default", 1.5, user_key)

    await world.stores.queries.append(
        APP, [query(now_ms - 2 * day, "hoe", "aa"), query(now_ms - day, "rake", "bb")]
    )
    await settler.run_once([APP], at_once=True)
    await world.stores.queries.append(APP, [query(now_ms - 5, "fork", "bb")])
    rows = await world.rows("queries")
    assert [row["text"] for row in rows] == ["hoe", "rake", "fork"]
    assert rows[0]["at"].endswith("Z")
    artifacts.delete(APP, ["bb"])
    assert [row["text"] for row in await world.rows("queries")] == ["hoe"]
    assert await world.rows("queries", since_ms=now_ms - day) == []


async def test_served_answers_come_from_files_and_from_the_queue(world: World) -> None:
    log, clock = ServedLogStore(world.artifacts), SystemClock()
    compactor = DailyLogCompactor(world.stores.served, log, clock, SilentMeter())
    day, now_ms = 86_400_000, clock.now_ms()

    def answer(service_id: str, at: int, user: str = "") -> ServedAnswer:
        return ServedAnswer(
            service_id, at, "search", "default", user=user, products=("p1", "p2"), scores=(2.0, 1.0),
            origins=(0, 2), propensities=(None, 0.125),
        )  # fmt: skip

    await world.stores.served.append(
        APP, [answer("s1", now_ms - 2 * day, "anna"), answer("s2", now_ms - 600_000, "bert")]
    )
    assert await compactor.run_once([APP], at_once=True) == 2
    await world.stores.served.append(APP, [answer("s3", now_ms - 5, "bert")])
    rows = await world.rows("served")
    assert [row["service_id"] for row in rows] == ["s1", "s2", "s3"]
    assert rows[0]["at"].endswith("Z")
    assert (rows[0]["products"], rows[0]["propensities"]) == (["p1", "p2"], [None, 0.125])
    assert rows[1]["session"] == rows[2]["session"] != rows[0]["session"]
    await world.export("served", "out.csv")
    await world.export("served", "out.parquet")
    assert pl.read_parquet(world.folder / "out.parquet")["service_id"].to_list() == ["s1", "s2", "s3"]
    log.delete(APP, ["bert"])
    assert [row["service_id"] for row in await world.rows("served")] == ["s1"]
    assert await world.rows("served", since_ms=now_ms - day) == []


async def test_outcomes_are_exported_without_erased_people(world: World) -> None:
    outcomes, now_ms = OutcomeStore(world.artifacts), SystemClock().now_ms()
    row = {
        **dict.fromkeys(outcomes.schema.names, ""), "type": "click", "value": 0.0, "answered_at": now_ms - 9,
        "places": [2], "origins": [0], "rules": [], "experiments": [],
    }  # fmt: skip
    for user, at in (("anna", now_ms - 2 * 86_400_000), ("bert", now_ms - 5)):
        table = pa.Table.from_pylist([{**row, "at": at, "user": user, "product": user[0]}], outcomes.schema)
        outcomes.replace_days(APP, {name_day(at // 86_400_000): table}, {})
    rows = await world.rows("outcomes")
    assert [row["product"] for row in rows] == ["a", "b"]
    assert (rows[0]["places"], rows[0]["at"][-1]) == ([2], "Z")
    assert len(await world.rows("outcomes", since_ms=now_ms - 60_000)) == 1
    await world.export("outcomes", "outcomes.csv")
    outcomes.delete(APP, ["bert"])
    assert [row["product"] for row in await world.rows("outcomes")] == ["a"]


# --- beside others who write --------------------------------------------------------------------------------------


async def test_a_compaction_while_rows_are_read_loses_and_repeats_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(0, 40, 8):
        await world.ingest(PRODUCTS[1 + part : 9 + part], "products")
        rows = [{"type": "click", "user_id": f"u{n}", "product_ids": ["p1"], "timestamp": f"2026-03-01T00:00:{n:02d}Z"}
                for n in range(part, part + 8)]  # fmt: skip
        await world.ingest(rows, "interactions")
        await world.settle()
    read_table, merges = SegmentCommits.table, list[str]()

    def read_then_merge(self: SegmentCommits, app_id: str, entry: Any, *more: Any) -> Any:
        given = read_table(self, app_id, entry, *more)
        noun = entry.facts["noun"]
        if noun not in merges:
            merges.append(noun)
            assert world.segments.compact(APP, noun, whole=True)
        return given

    monkeypatch.setattr(SegmentCommits, "table", read_then_merge)
    for subject in ("products", "interactions"):
        assert len(await world.rows(subject)) == 40
    assert merges == ["product", "interaction"]


async def test_who_is_erased_meanwhile_is_in_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.ingest(ROWS["interactions"], "interactions")
    await world.settle()
    batch_table = file_export.ingest_record_from_stored
    erased: list[int] = []

    def erasing(stored: bytes) -> bytes:
        if not erased:
            erased.append(world.segments.erase(APP, "interaction", ["u:u2"]))
        return batch_table(stored)

    monkeypatch.setattr(file_export, "ingest_record_from_stored", erasing)
    rows = await world.rows("interactions")
    assert erased == [5]
    assert "u2" not in {row.get("user_id") for row in rows}
    assert len(rows) == 4


async def test_a_log_that_is_compacted_at_every_read_is_exported_without_gaps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = world.stores.queries
    compactor = DailyLogCompactor(stream, QueryLogStore(world.artifacts), SystemClock(), SilentMeter())
    read, now_ms = stream.read, SystemClock().now_ms()
    written, reads = list[str](), list[int]()

    async def append() -> None:
        for _ in range(3):
            written.append(f"s{len(written):03d}")
            at = now_ms - 500 + len(written)
            await stream.append(
                APP, [LoggedQuery(at, "search", written[-1], 3, "en", "", "default", 1.5, "")]
            )

    async def compact() -> None:
        monkeypatch.setattr(stream, "read", read)
        await compactor.run_once([APP], at_once=True)
        monkeypatch.setattr(stream, "read", read_two)

    async def read_two(app_id: str, after: str, *, count: int) -> Any:
        """Read two of three batches, then have the intake compact all; each third read sees an empty queue."""
        batches = await read(app_id, after, count=2)
        step = len(reads) % 3
        reads.append(len(batches))
        if step < 2:
            await compact()
        if step != 1:
            await append()
        return batches

    await append()
    monkeypatch.setattr(stream, "read", read_two)
    rows = [row["text"] for row in await world.rows("queries")]
    monkeypatch.setattr(stream, "read", read)
    assert reads[:3] == [2, 2, 0]
    assert rows == written[: len(rows)]
    assert len(rows) >= 3


async def test_answers_that_are_compacted_before_they_are_written_are_exported(world: World) -> None:
    stream, now_ms = world.stores.served, SystemClock().now_ms()
    compactor = DailyLogCompactor(stream, ServedLogStore(world.artifacts), SystemClock(), SilentMeter())
    await stream.append(APP, [ServedAnswer("s1", now_ms, "search", "default")])
    source = await open_source(world.stores, world.artifacts, APP, "served", 0, world.folder)
    await compactor.run_once([APP], at_once=True)
    tables = read_tables("served", source)
    assert tables is not None
    assert [row["service_id"] for table in tables for row in table.to_pylist()] == ["s1"]


async def test_who_is_erased_twice_during_an_export_is_in_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, now_ms = ServedLogStore(world.artifacts), SystemClock().now_ms()
    log.append(APP, [ServedAnswer("s1", now_ms, "search", "default", user="anna")], "1-0")
    log.delete(APP, ["anna"])
    log.append(APP, [ServedAnswer("s2", now_ms + 60_000, "search", "default", user="anna")], "2-0")
    table_from_log, erased = file_export.table_from_log, list[int]()

    def erasing(subject: Any, batch: Any) -> Any:
        if not erased:
            erased.append(log.delete(APP, ["anna"]))
        return table_from_log(subject, batch)

    monkeypatch.setattr(file_export, "table_from_log", erasing)
    await world.export("served", "out.csv")
    assert erased == [1]
    assert pl.read_csv(world.folder / "out.csv").is_empty()


@pytest.mark.parametrize("hours", [0, 2])
async def test_an_erasure_is_noticed_however_long_the_export_lasts(world: World, hours: int) -> None:
    """The log no longer lists an erasure of two hours ago."""
    clock = StillClock()
    log = ServedLogStore(world.artifacts, clock)
    now_ms = clock.now_ms()
    log.append(APP, [ServedAnswer("s1", now_ms, "search", "default", user="anna")], "1-0")
    source = await open_source(world.stores, world.artifacts, APP, "served", 0, world.folder)
    batches = source.tables()
    assert [row["user"] for batch in batches for row in batch.to_pylist()] == ["anna"]
    log.delete(APP, ["anna"])
    clock.pass_ms(hours * 3_600_000)
    log.append(APP, [ServedAnswer("s2", clock.now_ms(), "search", "default", user="bert")], "2-0")
    assert ("anna" in log.commit(APP).facts["forgotten"]) == (not hours)
    assert not source.is_current()
    await world.export("served", "out.csv")
    assert pl.read_csv(world.folder / "out.csv")["service_id"].to_list() == ["s2"]


async def test_who_is_erased_before_a_compaction_is_in_no_file(world: World) -> None:
    """The rows are in the log alone, and the compaction after the erasure never stores them."""
    await world.ingest(ROWS["interactions"], "interactions")
    source = await open_source(world.stores, world.artifacts, APP, "interactions", 0, world.folder)
    assert source.rows == len(ROWS["interactions"])
    await world.stores.interactions.erase(APP, ["u2"])
    await world.settle()
    assert read_tables("interactions", source) is None
    rows = await world.rows("interactions")
    assert "u2" not in {row.get("user_id") for row in rows}
    assert len(rows) == 4


async def test_the_file_is_private_whole_and_named_by_its_digest(world: World) -> None:
    await world.ingest(USERS, "users")
    (world.folder / "out.jsonl").write_text("old")
    summary = await world.export("users")
    path = world.folder / "out.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert summary.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert summary.to_dict()["digest"] == f"sha256:{summary.sha256}"
    parquet = await world.export("users", "out.parquet")
    assert parquet.sha256 == hashlib.sha256((world.folder / "out.parquet").read_bytes()).hexdigest()
    assert [file.name for file in world.folder.iterdir() if file.name.startswith(".")] == []


async def test_a_damaged_segment_leaves_the_old_file(world: World) -> None:
    await world.ingest(USERS, "users")
    await world.settle()
    path = world.folder / "out.jsonl"
    path.write_text("old")
    (segment,) = (world.folder / "shelf" / APP / "segments").glob("user-*.parquet")
    segment.write_bytes(segment.read_bytes()[:-9] + b"x" * 9)
    with pytest.raises(Fault, match="damaged"):
        await world.export("users")
    assert path.read_text() == "old"
    assert [file.name for file in world.folder.iterdir() if file.name.startswith(".")] == []


async def test_addresses_of_visitors_stay_inside(world: World) -> None:
    click = b'"type":"click","anonymous_id":"v1","timestamp":"2026-03-01T00:00:00.000Z"'
    stored = b"[{" + click + b',"_origin":"0123456789abcdef"}]'
    await world.stores.interactions.append(APP, stored, [])
    assert [sorted(row) for row in await world.rows("interactions")] == [
        ["anonymous_id", "timestamp", "type"]
    ]


async def test_what_makes_no_sense_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="there are: copy, shop"):
        await world.export("users", app_id="nowhere")
    with pytest.raises(Invalid, match="there is no folder"):
        await world.export("users", "nowhere/out.csv")
    for out, form in (("x.txt", ""), ("-", "parquet"), ("-", ""), ("x.csv", "xlsx")):
        with pytest.raises(Invalid):
            choose_format(out, form)


async def test_archive_calls_come_from_files_and_from_the_queue(world: World) -> None:
    log, clock = CallLogStore(world.artifacts), SystemClock()
    compactor = DailyLogCompactor(world.stores.archive_calls, log, clock, SilentMeter())
    day, now_ms = 86_400_000, clock.now_ms()

    def call(call_id: str, at: int, **more: Any) -> ArchiveCall:
        return ArchiveCall(at, "ask_archive", "c-1", "Agent", question="Who?", call_id=call_id, **more)

    await world.stores.archive_calls.append(APP, [call("c1", now_ms - 2 * day), call("c2", now_ms - 600_000)])
    assert await compactor.run_once([APP], at_once=True) == 2
    visit = call("c2", now_ms - 5, event="visit", articles=("p1",))
    await world.stores.archive_calls.append(APP, [visit])
    rows = await world.rows("calls")
    assert [(row["call_id"], row["event"]) for row in rows] == [
        ("c1", "call"),
        ("c2", "call"),
        ("c2", "visit"),
    ]
    assert rows[0]["at"].endswith("Z")
    assert len(await world.rows("calls", since_ms=now_ms - day)) == 2
    await world.export("calls", "out.parquet")
    await world.export("calls", "out.csv")
    assert pl.read_parquet(world.folder / "out.parquet")["articles"].to_list() == [[], [], ["p1"]]
