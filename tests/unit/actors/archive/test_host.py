from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveQuery
from actors.archive.passages import document_from_product
from actors.archive.snapshot_store import PassageSnapshotStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.stores import Stores
from tests.fakes.corner_shop import upload, withdraw
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

APP = "news"
Opened = Callable[..., ArchiveHost]


@pytest.fixture
def stores() -> Stores:
    return memory_stores(SystemClock())


@pytest.fixture
async def opened(stores: Stores) -> AsyncIterator[Opened]:
    """Makes clients and closes their hosts in the end."""
    hosts: list[ArchiveHost] = []

    def make(
        segments: SegmentStore | None = None, snapshots: PassageSnapshotStore | None = None
    ) -> ArchiveHost:
        hosts.append(ArchiveHost(stores, segments, snapshots, SystemClock(), SilentMeter()))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


async def search(client: ArchiveHost, question: str, **more: Any) -> list[str]:
    result = await client.ask(ArchiveQuery(APP, question, **more))
    return [snippet.product_id for snippet in result.snippets]


async def eventually(client: ArchiveHost, question: str, condition: Callable[[list[str]], bool]) -> None:
    """Ask until the answer is as wanted."""

    async def is_expected() -> bool:
        return condition(await search(client, question))

    await until(is_expected, 1.5)


async def test_search_returns_an_uploaded_article_with_its_metadata(stores: Stores, opened: Opened) -> None:
    await upload(stores, ARTICLES, app_id=APP)
    result = await opened().ask(ArchiveQuery(APP, "Who signed the river treaty?"))
    first = result.snippets[0]
    assert (first.product_id, first.position) == ("river-treaty", 0)
    assert first.child_title == "The agreement"
    assert first.authors == ("Ida Holm",)
    assert first.published == "2024-03-14T09:00:00Z"
    assert first.licence == "CC BY 2.5"
    assert first.text.startswith("Velmora and Ostrany signed")
    assert first.score == max(snippet.score for snippet in result.snippets) <= 1


async def test_changes_are_searchable_within_a_second(stores: Stores, opened: Opened) -> None:
    await upload(stores, ARTICLES[3:], app_id=APP)
    client = opened()
    assert "river-treaty" not in await search(client, "river treaty")
    await upload(stores, ARTICLES[:1], app_id=APP)
    await eventually(client, "river treaty", lambda product_ids: product_ids[:1] == ["river-treaty"])
    await withdraw(stores, ["river-treaty"], app_id=APP)
    await eventually(client, "river treaty", lambda product_ids: "river-treaty" not in product_ids)
    assert await client.article(APP, "river-treaty", 0) is None


async def test_an_app_nobody_wrote_to_answers_with_nothing(opened: Opened) -> None:
    assert await search(opened(), "anything") == []


async def test_the_corpus_version_changes_with_the_corpus_only(stores: Stores, opened: Opened) -> None:
    await upload(stores, ARTICLES[1:], app_id=APP)
    client = opened()
    before = (await client.ask(ArchiveQuery(APP, "river"))).corpus
    assert (await client.ask(ArchiveQuery(APP, "galaxies"))).corpus == before
    await upload(stores, ARTICLES[:1], app_id=APP)
    await eventually(client, "river treaty", lambda product_ids: product_ids[:1] == ["river-treaty"])
    assert (await client.ask(ArchiveQuery(APP, "river"))).corpus != before


async def test_a_snapshot_is_completed_by_the_log_behind_its_offset(
    stores: Stores, opened: Opened, tmp_path: Path
) -> None:
    await upload(stores, ARTICLES[:6], app_id=APP)
    snapshots = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    documents = [document for article in ARTICLES[:6] if (document := document_from_product(article))]
    snapshots.write(APP, documents, offset=await stores.changes.last(APP, "product"), written_at_ms=1)
    await upload(stores, ARTICLES[6:], app_id=APP)
    await withdraw(stores, ["dam-vote"], app_id=APP)
    client = opened(snapshots=snapshots)
    assert (await search(client, "river treaty"))[0] == "river-treaty"
    assert (await search(client, "hermit beetle orchards"))[0] == "beetle-count"
    assert "dam-vote" not in await search(client, "votes to open the dam")


async def test_a_newer_snapshot_is_taken_up_while_questions_are_answered(
    stores: Stores, opened: Opened, tmp_path: Path
) -> None:
    documents = [document for article in ARTICLES if (document := document_from_product(article))]
    await upload(stores, ARTICLES[:1], app_id=APP)
    offset = await stores.changes.last(APP, "product")
    snapshots = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    snapshots.write(APP, documents[:1], offset=offset, written_at_ms=1)
    client = opened(snapshots=snapshots)
    assert (await search(client, "river treaty"))[0] == "river-treaty"
    before = (await client.ask(ArchiveQuery(APP, "river"))).corpus
    snapshots.write(APP, documents, offset=offset, written_at_ms=2)

    async def is_taken_up() -> bool:
        result = await client.ask(ArchiveQuery(APP, "river treaty"))
        assert result.snippets[0].product_id == "river-treaty"
        return result.corpus.split(":")[0] != before.split(":")[0]

    await until(is_taken_up, 4.0)
    assert (await search(client, "hermit beetle orchards"))[0] == "beetle-count"
    # and the log is followed from where the newer one stands
    await withdraw(stores, ["beetle-count"], app_id=APP)
    await eventually(client, "hermit beetle orchards", lambda product_ids: "beetle-count" not in product_ids)


async def test_a_damaged_newer_snapshot_leaves_the_old_one_answering(
    stores: Stores, opened: Opened, tmp_path: Path
) -> None:
    documents = [document for article in ARTICLES if (document := document_from_product(article))]
    snapshots = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    snapshots.write(APP, documents[:3], offset="0", written_at_ms=1)
    client = opened(snapshots=snapshots)
    before = (await client.ask(ArchiveQuery(APP, "river"))).corpus.split(":")[0]
    with structlog.testing.capture_logs() as lines:
        snapshots.write(APP, documents, offset="0", written_at_ms=2)
        (tmp_path / APP / "passages" / snapshots.list_sequences(APP)[-1] / "papers.bin").write_bytes(b"")
        await until(lambda: [line["event"] for line in lines][-2:] == ["passages_refused", "archive_loaded"])
    result = await client.ask(ArchiveQuery(APP, "river treaty"))
    assert result.snippets[0].product_id == "river-treaty"
    assert result.corpus.split(":")[0] == before
