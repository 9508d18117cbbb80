"""Write segments of users and products again from the store of records, when they are lost or damaged.

Interactions can't be recovered this way: after the log was trimmed, only segments hold them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from actors.intake.segment_rows import build_compaction_batch
from actors.intake.steps import prepare_batch
from actors.language.embedder import Embedder
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.store.ports.changes import ChangeLogEntry, Noun
from cluster.store.ports.stores import Stores

_BATCH = 200


class SegmentRebuilder:
    """Writes the segments of one kind of record again."""

    def __init__(self, stores: Stores, segments: SegmentStore, embedder: Embedder, clock: Clock) -> None:
        self._stores = stores
        self._segments = segments
        self._embedder = embedder
        self._clock = clock
        self._log = structlog.get_logger()

    async def rebuild(self, app_id: str, noun: Noun) -> str:
        """Read every record, embed products and replace the segments; return the offset that they cover now.

        Later changes are in the log behind that offset and are compacted as usual.

        Errors:
            Unavailable: the store or the artifact store is unreachable
            Conflict: another writer committed meanwhile
        """
        last = await self._stores.changes.last(app_id, noun)
        record_ids = await self._stores.records.ids(app_id, noun)
        tables: list[Any] = []
        for start in range(0, len(record_ids), _BATCH):
            records = await self._stores.records.get_many(app_id, noun, record_ids[start : start + _BATCH])
            payload = b"[" + b",".join(record for record in records if record is not None) + b"]"
            tables.append(await asyncio.to_thread(self._build_table, noun, payload, last))
        await asyncio.to_thread(self._segments.rebuild, app_id, noun, tables, last=last)
        await self._stores.changes.compact(app_id, noun, last, self._clock.now_ms())
        self._log.warning("segments_rebuilt", app=app_id, noun=noun, records=len(record_ids))
        return last

    def _build_table(self, noun: Noun, payload: bytes, last: str) -> Any:
        prepared = prepare_batch(noun, payload, self._embedder)
        return build_compaction_batch(
            noun,
            [ChangeLogEntry(noun, last, "put", prepared.change_payload, prepared.vectors, prepared.embedder)],
        ).table
