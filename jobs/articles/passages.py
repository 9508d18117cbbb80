"""The passage snapshot of an app, built from the compacted segments and the change log after them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from actors.archive.passages import Document, document_from_product
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.snapshot_writer import ProgressCallback, WeightedEmbedder
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.store.stores import Stores

_READ = 200


@dataclass(slots=True)
class _LogChanges:
    """Changes in the log after the segments."""

    offset: str
    records: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def put(self, record: dict[str, Any]) -> None:
        self.gone.discard(record["product_id"])
        self.records[record["product_id"]] = orjson.dumps(record)

    def remove(self, product_id: str) -> None:
        self.records.pop(product_id, None)
        self.gone.add(product_id)


async def build_passages(
    app_id: str,
    stores: Stores,
    segments: SegmentStore,
    snapshots: PassageSnapshotStore,
    clock: Clock,
    *,
    meaning: WeightedEmbedder | None = None,
    watch: ProgressCallback | None = None,
) -> Manifest:
    """Build the passage snapshot, write it into the artifact store and return its manifest.

    Replicas that start afterwards load it.

    Errors:
        Invalid: the app has no article with text
        Conflict: another process built a snapshot at the same time
    """
    # read the offset first: a record that is compacted in between is read twice, which is harmless
    settled = (await asyncio.to_thread(segments.offsets, app_id)).get("product", "0")
    later = await _read_log_changes(app_id, stores, settled)
    records = await asyncio.to_thread(segments.records, app_id, "product", salvage=True)
    return await asyncio.to_thread(
        snapshots.write,
        app_id,
        _read_documents(records, later),
        offset=later.offset,
        written_at_ms=clock.now_ms(),
        meaning=meaning,
        watch=watch,
    )


async def _read_log_changes(app_id: str, stores: Stores, offset: str) -> _LogChanges:
    later = _LogChanges(offset)
    while changes := await stores.changes.read(app_id, {"product": later.offset}, count=_READ, block_ms=0):
        for change in changes:
            items = orjson.loads(change.payload)
            if change.op == "put":
                for record in items:
                    later.put(record)
            elif change.op == "remove":
                for product_id in items:
                    later.remove(product_id)
        later.offset = changes[-1].offset
    return later


def _read_documents(records: list[bytes], later: _LogChanges) -> Iterator[Document]:
    """Yield each record in its latest version; an unreadable record is logged and skipped."""
    log = structlog.get_logger()
    for data in (*records, *later.records.values()):
        try:
            record = orjson.loads(data)
            product_id = record["product_id"]
            if product_id in later.gone or (later.records.get(product_id, data) is not data):
                continue
            document = document_from_product(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("record_left_out", reason=type(error).__name__)
            continue
        if document is not None:
            yield document
