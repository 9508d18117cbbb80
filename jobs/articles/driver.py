"""Import of an archive into a running installation, including the passage snapshot."""

from __future__ import annotations

import hashlib

from rich.console import Console

from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.snapshot_writer import WeightedEmbedder
from actors.language.encoder import SHARE
from actors.language.imported_encoders import EncoderStore
from cluster.admin.schema import check_schema
from cluster.artifacts.segments import SegmentStore
from cluster.clock import SystemClock
from cluster.errors import Invalid
from cluster.process.artifact_access import open_artifact_store
from cluster.settings import Settings
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from jobs.articles.cli import ArchiveImportOptions
from jobs.articles.passages import build_passages
from jobs.ingest.display import IngestDisplay
from jobs.ingest.pipeline import IngestReport, ingest


async def import_archive(options: ArchiveImportOptions, settings: Settings) -> IngestReport | None:
    """Ingest an archive, build the passage snapshot and return the report; None without an address.

    Errors:
        Invalid: no Redis is configured, the address has no archive, or the app has no article with text
    """
    address = settings.redis_address
    if address is None:
        raise Invalid("no Redis is known: start the system first, or set KIOSK_REDIS_URL")
    segments = SegmentStore(open_artifact_store(settings))
    report = None
    async with open_stores(address, slow_s=10.0, is_serving=False) as stores:
        await check_schema(stores)
        if options.address:
            report = await _ingest_articles(options, settings, stores, segments)
        if options.passages:
            await _build_passages(options, settings, stores, segments)
    return report


async def _ingest_articles(
    options: ArchiveImportOptions, settings: Settings, stores: Stores, segments: SegmentStore
) -> IngestReport:
    # another licence or topic makes other records, so such an import is a different run
    mark = hashlib.sha256(repr(options.reading).encode()).hexdigest()[:8]
    with IngestDisplay(as_json=options.as_json) as display:
        report = await ingest(
            options.ingest_order(),
            stores,
            state_dir=(options.state_dir or settings.data_dir / "ingest") / f"archive-{mark}",
            segments=segments,
            restart=options.restart,
            watch=display.show,
            files=options.reading,
        )
    display.show_report(report)
    return report


async def _build_passages(
    options: ArchiveImportOptions, settings: Settings, stores: Stores, segments: SegmentStore
) -> None:
    console = Console(stderr=True)
    encoder = (
        EncoderStore(settings.data_dir / "models", open_artifact_store(settings)).find()
        if options.embedder != "built-in"
        else None
    )
    if options.embedder == "imported" and encoder is None:
        raise Invalid("no encoder was imported; see `kiosk models import --help`")
    with console.status("building passages") as status:
        manifest = await build_passages(
            options.app_id,
            stores,
            segments,
            PassageSnapshotStore(open_artifact_store(settings)),
            SystemClock(),
            meaning=WeightedEmbedder(encoder, SHARE) if encoder is not None else None,
            watch=lambda stage, count: status.update(f"building passages: {stage} {count:,}"),
        )
    facts = manifest.facts
    console.print(
        f"{facts['passages']:,} passages of {facts['documents']:,} articles, by {facts['embedder']}"
    )
