"""An archive from its dump to what is found, over memory and over a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveQuery, ArchiveResult
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.store.stores import Stores
from jobs.articles.article_files import ArchiveReading
from jobs.articles.passages import build_passages
from jobs.ingest.pipeline import IngestReport, IngestSpec, ingest
from jobs.ingest.progress import IngestProgress
from tests.suites.store_kinds import STORE_KINDS, open_store_kind
from tests.suites.waiting import until

pytestmark = pytest.mark.redis
APP = "news"
HEAD = '<mediawiki xml:lang="en"><siteinfo><base>https://news.example/wiki/Main</base></siteinfo>'
SUBJECTS = ("glacier", "orchestra", "tramway", "lighthouse", "vineyard", "observatory", "quarry", "ferry")


@pytest.fixture(params=STORE_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    async with open_store_kind(request) as stores:
        await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        yield stores


def dump(path: Path, count: int) -> str:
    pages = "".join(
        f"<page><title>The {SUBJECTS[n % 8]} of town {n}</title><ns>0</ns><id>{n}</id><revision>"
        f"<timestamp>2024-01-0{1 + n % 9}T10:00:00Z</timestamp><text>News of the {SUBJECTS[n % 8]} in town {n}.\n\n"
        f"== Plans ==\nMore about number {n} follows.</text></revision></page>"
        for n in range(count)
    )
    path.write_text(HEAD + pages + "</mediawiki>")
    return str(path)


async def bring(
    stores: Stores, tmp_path: Path, address: str, watch: Callable[[IngestProgress], None]
) -> IngestReport:
    order = IngestSpec(address=address, noun="product", app_id=APP, chunk=10, window=2)
    return await ingest(order, stores, state_dir=tmp_path / "state", watch=watch, files=ArchiveReading())


async def first(host: ArchiveHost, question: str) -> str:
    result = await host.ask(ArchiveQuery(APP, question))
    assert isinstance(result, ArchiveResult), result
    return result.snippets[0].product_id if result.snippets else ""


async def settle(stores: Stores, segments: SegmentStore) -> None:
    """Put everything into the artifact store and trim the logs behind it."""
    rules = IntakeConfig(apps_every_s=0.0, compaction=CompactionConfig(every_s=0.0))
    loop = IntakeLoop(
        stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="settler", rules=rules
    )
    while await stores.changes.first(APP, "product") != await stores.changes.last(APP, "product"):
        await loop.compact_round(at_once=True)
        await asyncio.sleep(0.01)


async def test_an_interrupted_dump_continues_and_is_searchable(stores: Stores, tmp_path: Path) -> None:
    address = dump(tmp_path / "news.xml", 95)

    def die(progress: IngestProgress) -> None:
        if progress.rows >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await bring(stores, tmp_path, address, die)
    report = await bring(stores, tmp_path, address, lambda progress: None)
    assert report.rows < 95
    assert len(await stores.records.ids(APP, "product")) == 95
    segments, artifacts = (
        SegmentStore(ArtifactStore.open(tmp_path / "shelf")),
        PassageSnapshotStore(ArtifactStore.open(tmp_path / "shelf")),
    )
    manifest = await build_passages(APP, stores, segments, artifacts, SystemClock())
    assert manifest.facts["documents"] == 95
    host = ArchiveHost(stores, segments, artifacts, SystemClock(), SilentMeter())
    try:
        assert await first(host, "What is new at the observatory in town 13?") == "en-13"
    finally:
        await host.close()


async def test_a_host_starts_from_snapshot_and_segments_when_the_log_is_gone(
    stores: Stores, tmp_path: Path
) -> None:
    segments, artifacts = (
        SegmentStore(ArtifactStore.open(tmp_path / "shelf")),
        PassageSnapshotStore(ArtifactStore.open(tmp_path / "shelf")),
    )
    await bring(stores, tmp_path, dump(tmp_path / "news.xml", 30), lambda progress: None)
    await build_passages(APP, stores, segments, artifacts, SystemClock())
    await bring(stores, tmp_path, dump(tmp_path / "more.xml", 40), lambda progress: None)
    await stores.intake.accept(APP, "product", "remove", b'["en-5"]', task_id="7", total=1, now_ms=0)
    (batch,) = await stores.intake.claim("test", [APP], count=1, block_ms=0)
    assert await stores.intake.apply_remove(batch, ["en-5"], now_ms=0)
    await settle(stores, segments)
    host = ArchiveHost(stores, segments, artifacts, SystemClock(), SilentMeter())
    try:
        assert await first(host, "observatory in town 37 number 37") == "en-37"
        assert await first(host, "news of the orchestra in town 25 number 25") == "en-25"
        assert await host.article(APP, "en-5", 0) is None
    finally:
        await host.close()


async def test_questions_are_answered_while_an_archive_pours_in(stores: Stores, tmp_path: Path) -> None:
    host = ArchiveHost(stores, None, None, SystemClock(), SilentMeter())
    try:
        await first(host, "anything")
        pouring = asyncio.create_task(
            bring(stores, tmp_path, dump(tmp_path / "news.xml", 120), lambda progress: None)
        )
        while not pouring.done():
            await first(host, "ferry in town 7")
            await asyncio.sleep(0.005)
        assert (await pouring).accepted == 120

        async def has_last() -> bool:
            return await first(host, "ferry in town 119 number 119") == "en-119"

        await until(has_last)
    finally:
        await host.close()
