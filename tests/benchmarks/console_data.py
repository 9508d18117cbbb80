"""Fills an app with everything that pages of the console show, so that each of them can be measured with much of it.

Products and users go straight into Redis in the form that the intake gives them; interactions take the way of the API
into the change log, from which they are compacted into segments.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from actors.intake.batch_preparation import prepare_batch
from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.intake.segment_rows import build_compaction_batch
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.clock import SystemClock, iso_ms
from cluster.meter import SilentMeter
from cluster.records.administration import AuditRow
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.engine import Engine
from cluster.records.experiment import Exposure
from cluster.records.intake import Noun
from cluster.records.interaction import RecentEvent
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import BankQuestion
from cluster.store import keys
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.seals.seal import salt_from_key, seal
from tests.benchmarks import data
from tests.browser.stage import Stage
from tests.fakes.trained_snapshot import publish_ring_snapshot

DAY_MS = 86_400_000
_PIECE = 2_000
_CALL = 500
_KINDS = ("product_detail_page_view", "click", "add_to_cart", "checkout")


@dataclass(frozen=True, slots=True)
class PageDataSizes:
    """How much of everything an app has."""

    products: int = 1_000
    interactions: int = 5_000
    users: int = 1_000
    rules: int = 20
    queries: int = 2_000
    calls: int = 1_000
    exposures: int = 1_000
    audit_rows: int = 200
    bank: int = 200
    runs: int = 20
    people: int = 10
    refused: int = 20
    feeds: int = 5


LARGE = PageDataSizes(
    products=1_000_000, interactions=1_000_000, users=200_000, rules=402, queries=200_000, calls=50_000,
    exposures=50_000, audit_rows=20_000, bank=20_000, runs=200, people=200, refused=150,
    feeds=100,
)  # fmt: skip


async def fill_app(
    stage: Stage, app_id: str, sizes: PageDataSizes, folder: Path, *, for_engine: bool
) -> dict[str, str]:
    """Fill an app; return values for the addresses of its pages, by the names of their placeholders."""
    stores, now_ms = stage.corner.stores, SystemClock().now_ms()
    await _write_records(stage, app_id, "product", _product_batches(sizes.products), for_engine=for_engine)
    batches = (data.users(_PIECE, f"b{at}-") for at in range(0, sizes.users, _PIECE))
    await _write_records(stage, app_id, "user", batches, for_engine=False)
    await _write_interactions(stage, app_id, sizes, now_ms)
    values = await _write_models(stage, app_id, sizes, folder)
    values |= await _write_experiment(stage, app_id, sizes, now_ms)
    sides = {"name": "Sides", "snapshot": values["second_version"]}
    view = await stage.perform("experiments.interleave", app_id=app_id, **sides)
    values["interleaving"] = view.experiment.slug
    variants = [{"name": "now"}, {"name": "longer", "configuration": {"snippet_words": 300}}]
    draft = {"name": "Snippets", "slug": "snippets", "method": "question", "variants": variants}
    await stage.perform("experiments.create", app_id=app_id, experiments=[draft])
    values["question_experiment"] = "snippets"
    await _write_logs(stage, app_id, sizes, now_ms)
    values |= await _write_imports(stage, app_id, sizes)
    rules = [
        {"name": f"rule {at}", "queries": [f"kettle {at}"], "priority": at % 7,
         "boost": [{"field": "brand", "option": "is", "query": data.BRANDS[at % 8], "action": "pin"}]}
        for at in range(sizes.rules)
    ]  # fmt: skip
    await stage.perform("rules.put", app_id=app_id, rules=rules)
    for at in range(sizes.feeds):
        address = f"https://news.example.com/{at}.xml"
        await stage.perform("feeds.add", app_id=app_id, feed=f"feed-{at}", address=address)
    erasure = await stage.perform("users.erase", app_id=app_id, user_id="b0-7")
    reply = await stage.perform("try.ask", app_id=app_id, variants=[{"question": "Which kettle is quiet?"}])
    question_id = reply["variants"][0]["answer"]["data"]["question_id"]
    for at in range(sizes.people):
        await stage.add_person(f"person-{at}")
    invitation = await stage.perform("invitations.create_for_app", app_id=app_id, role="viewer")
    assert await stores.records.count(app_id, "product") >= sizes.products
    return {
        **values, "app_id": app_id, "product_id": "p11", "user_id": "b0-1", "rule": "rule 3",
        "erasure_id": erasure.erasure_id, "question_id": question_id, "username": "person-1",
        "invitation": str(invitation.path).partition("token=")[2],
    }  # fmt: skip


def _product_batches(count: int) -> Iterator[list[dict[str, Any]]]:
    for begin in range(0, count, _PIECE):
        made = data.products(min(_PIECE, count - begin), seed=begin)
        for at, record in enumerate(made, begin):
            record |= {"product_id": f"p{at}", "product_group_id": f"g{at // 2}"}
        yield made


async def _write_records(
    stage: Stage, app_id: str, noun: Noun, batches: Iterator[Sequence[dict[str, Any]]], *, for_engine: bool
) -> None:
    """Write records as the script of the intake does; `for_engine` also compacts them with their vectors."""
    server, segments = stage.corner.stores.server, SegmentStore(stage.artifacts)
    embedder, tables, at_ms = HashingEmbedder(), [], 0
    for number, batch in enumerate(batches):
        ids = [str(record[f"{noun}_id"]) for record in batch]
        pairs: list[Any] = []
        for record_id, record in zip(ids, batch, strict=True):
            key = keys.record(app_id, noun, record_id)
            pairs += (key, seal(orjson.dumps(record), salt_from_key(key)))
        scored = [part for record_id in ids for part in (0, record_id)]
        await asyncio.gather(
            server.execute_slow("MSET", *pairs),
            server.execute_slow("ZADD", keys.record_ids(app_id, noun), *scored),
        )
        if for_engine:
            at_ms = 1_700_000_000_000 + number
            ready = prepare_batch(noun, orjson.dumps(list(batch)), embedder)
            entry = ChangeLogEntry(
                noun, f"{at_ms}-0", "put", ready.change_payload, ready.vectors, ready.embedder
            )
            tables.append(build_compaction_batch(noun, [entry]).table)
    if tables:
        await asyncio.to_thread(segments.rebuild, app_id, noun, tables, last=f"{at_ms}-0")


async def _write_interactions(stage: Stage, app_id: str, sizes: PageDataSizes, now_ms: int) -> None:
    stores, rng, clock = stage.corner.stores, random.Random(3), SystemClock()
    segments = SegmentStore(stage.artifacts)
    rebuilder = SegmentRebuilder(stores, segments, HashingEmbedder(), clock)
    compactor = ChangeLogCompactor(stores.changes, segments, rebuilder, clock, SilentMeter())
    step_ms = 28 * DAY_MS / max(1, sizes.interactions)
    for begin in range(0, sizes.interactions, _CALL):
        items, packed = [], []
        for at in range(begin, min(begin + _CALL, sizes.interactions)):
            at_ms = round(now_ms - 28 * DAY_MS + at * step_ms)
            user, kind = f"b{rng.randrange(sizes.users) // _PIECE * _PIECE}-{at % _PIECE}", rng.choice(_KINDS)
            product = f"p{rng.randrange(sizes.products) if at % 10 else 11}"
            items.append(
                {"type": kind, "user_id": user, "product_ids": [product], "timestamp": iso_ms(at_ms)}
            )
            packed.append((user, "", RecentEvent(kind, (product,), at_ms).pack()))
        await stores.interactions.append(app_id, orjson.dumps(items), packed)
        if begin % 50_000 == 0:
            await compactor.run_once([app_id], at_once=True)
    await compactor.run_once([app_id], at_once=True)


async def _write_models(stage: Stage, app_id: str, sizes: PageDataSizes, folder: Path) -> dict[str, str]:
    snapshots = SnapshotStore(stage.artifacts)
    first, second = (
        publish_ring_snapshot(snapshots, folder / f"{app_id}-{seed}", app_id, seed=seed) for seed in (6, 7)
    )
    await stage.corner.stores.engines.put(Engine(app_id=app_id, engine_id="default", created_at=1))
    run_id = ""
    for _ in range(sizes.runs):
        view = await stage.perform("runs.order", app_id=app_id, engine_id="default")
        run_id = view.run.run_id
        await stage.perform("runs.cancel", app_id=app_id, run_id=run_id)
    for at in range(3):
        await stage.perform("schedules.add", app_id=app_id, schedule=f"night-{at}", when="nightly")
    return {
        "engine_id": "default",
        "version": second,
        "first_version": first,
        "second_version": second,
        "run_id": run_id,
    }


async def _write_experiment(stage: Stage, app_id: str, sizes: PageDataSizes, now_ms: int) -> dict[str, str]:
    draft = {
        "name": "Paywall", "slug": "paywall", "goal": ["checkout"], "reports_exposure": True,
        "variants": [{"name": "three"}, {"name": "five"}],
    }  # fmt: skip
    made = (await stage.perform("experiments.create", app_id=app_id, experiments=[draft])).experiments[0]
    await stage.perform("experiments.start", app_id=app_id, experiment="paywall")
    variants = [variant.variant_id for variant in made.variants]
    rows: list[Any] = []
    for at in range(sizes.exposures):
        at_ms = now_ms - 20 * DAY_MS + at * 20 * DAY_MS // sizes.exposures
        user = f"u:b{at // _PIECE * _PIECE}-{at % _PIECE}"
        rows += (user, Exposure(variants[at % 2], at_ms).pack())
    key = keys.exposure(app_id, made.experiment_id)
    for begin in range(0, len(rows), _PIECE):
        await stage.corner.stores.server.execute_slow("HSET", key, *rows[begin : begin + _PIECE])
    return {"experiment": "paywall"}


async def _write_logs(stage: Stage, app_id: str, sizes: PageDataSizes, now_ms: int) -> None:
    stores, rng = stage.corner.stores, random.Random(5)

    def texts(count: int, span_ms: int) -> Iterator[tuple[int, str]]:
        for at in range(count):
            text = f"{rng.choice(data.TRAITS)} {rng.choice(data.NOUNS)} {rng.randrange(400)}"
            yield now_ms - span_ms + at * span_ms // count, text

    queries = (
        LoggedQuery(at=at, kind="search", text=text, total=rng.randrange(30), took_ms=9.0, reader=text[-2:])
        for at, text in texts(sizes.queries, 6 * DAY_MS)
    )  # fmt: skip
    await asyncio.to_thread(QueryLogStore(stage.artifacts).append, app_id, list(queries), f"{now_ms}-0")
    calls = [
        ArchiveCall(at=at, tool="search", client=f"c{at % 30}", client_name=f"Agent {at % 30}", question=text)
        for at, text in texts(sizes.calls, 20 * DAY_MS)
    ]  # fmt: skip
    for begin in range(0, len(calls), _CALL):
        await stores.archive_calls.append(app_id, calls[begin : begin + _CALL])
    for at, text in texts(sizes.audit_rows, DAY_MS):
        row = AuditRow(
            at=at, user_id="usr-1", username=f"person-{at % 9}", way="console", operation="rules.put", app_id=app_id,
            outcome="done", arguments={"name": text}, before={"priority": 1}, after={"priority": 2},
        )  # fmt: skip
        await stores.audit.append(row)
    bank = [BankQuestion(question=f"Which {data.NOUNS[at % 10]} is number {at}?") for at in range(sizes.bank)]
    await stores.question_bank.replace(app_id, bank)


async def _write_imports(stage: Stage, app_id: str, sizes: PageDataSizes) -> dict[str, str]:
    rows = "\n".join(f"imported-{at},Kettle {at},{at / 7:.2f},Alder" for at in range(20_000))
    content = f"product_id,title,price,brand\n{rows}\n".encode()

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(content), 1 << 16):
            yield content[begin : begin + (1 << 16)]

    view = None
    for at in range(10):
        view = await stage.perform(
            "imports.upload", app_id=app_id, noun="product", file_name=f"list-{at}.csv", content=pieces()
        )
    assert view is not None
    server = stage.corner.stores.server
    for at in range(sizes.refused):
        key = keys.record(app_id, "product", f"damaged-{at}")
        await server.execute("SET", key, b"damaged" * 50)
        await stage.corner.stores.records.get(app_id, "product", f"damaged-{at}")
    entries = await stage.corner.stores.quarantine.read(app_id)
    return {"import_id": view.record.import_id, "entry_id": entries[0].entry_id}
