from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.archive.messages import ArchiveQuery
from actors.archive.retrieve import get_article, search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Invalid
from cluster.records.apps import App
from cluster.store.stores import Stores
from jobs.articles.article_files import ArchiveReading
from jobs.articles.passages import build_passages
from jobs.ingest.pipeline import IngestSpec, ingest
from tests.fakes.corner_shop import upload, withdraw
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores

APP = "news"


@pytest.fixture
async def stores() -> Stores:
    made = memory_stores(SystemClock())
    await made.access.put_app(App(app_id=APP, environment="development", created_at=0))
    return made


def first(snapshots: PassageSnapshotStore, question: str) -> str:
    opened = snapshots.open(APP)
    assert opened is not None
    snippets = search_passages(opened[0], ArchiveQuery(APP, question), 0).snippets
    return snippets[0].product_id if snippets else ""


async def build(stores: Stores, tmp_path: Path) -> PassageSnapshotStore:
    snapshots = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    await build_passages(APP, stores, SegmentStore(ArtifactStore.open(tmp_path)), snapshots, SystemClock())
    return snapshots


async def test_an_archive_goes_from_files_to_passages(stores: Stores, tmp_path: Path) -> None:
    lines = [json.dumps(record) for record in ARTICLES] + ["{broken", json.dumps({"title": "no text"})]
    (tmp_path / "news.jsonl").write_text("\n".join(lines))
    order = IngestSpec(address=str(tmp_path / "news.jsonl"), noun="product", app_id=APP, chunk=5)
    report = await ingest(order, stores, state_dir=tmp_path / "state", files=ArchiveReading())
    assert (report.accepted, report.refused) == (12, 2)
    assert report.quarantine is not None
    reasons = [json.loads(line)["reason"] for line in report.quarantine.read_text().splitlines()]
    assert "not JSON" in reasons[0]
    assert "no text" in reasons[1]
    snapshots = await build(stores, tmp_path)
    assert first(snapshots, "Who saved two penalties?") == "cup-final"
    opened = snapshots.open(APP)
    assert opened is not None
    section = get_article(opened[0], "river-treaty", 1)
    assert section is not None
    assert section.child_title == "The costs"
    assert section.content.startswith("## The agreement\n\n")


async def test_a_snapshot_holds_the_newest_of_what_was_written_and_nothing_that_went(
    stores: Stores, tmp_path: Path
) -> None:
    await upload(stores, ARTICLES, app_id=APP)
    changed: dict[str, Any] = {
        **ARTICLES[0],
        "title": "Zebra crossing",
        "children": None,
        "description": "Zebras.",
    }
    await upload(stores, [changed], app_id=APP)
    await withdraw(stores, ["cup-final"], app_id=APP)
    snapshots = await build(stores, tmp_path)
    assert first(snapshots, "zebra") == "river-treaty"
    opened = snapshots.open(APP)
    assert opened is not None
    assert get_article(opened[0], "cup-final", 0) is None
    assert opened[0].documents == 11
    assert opened[1] == await stores.changes.last(APP, "product")


async def test_an_app_without_articles_has_nothing_to_build(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no articles"):
        await build(stores, tmp_path)
    assert PassageSnapshotStore(ArtifactStore.open(tmp_path)).list_sequences(APP) == []
