"""A person who was erased after a compaction, so that snapshots learned from interactions that are gone."""

from __future__ import annotations

import orjson

from actors.intake.segment_rows import build_compaction_batch
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.store.data.change_log import ChangeLogEntry


def erase_person(artifacts: ArtifactStore, clock: Clock, app_id: str, number: int) -> None:
    """Erase a person whose only interaction has the offset 5-0."""
    item = {
        "type": "click",
        "user_id": f"p{number}",
        "product_ids": ["a"],
        "timestamp": "2024-10-04T12:00:00Z",
    }
    entry = ChangeLogEntry("interaction", "5-0", "put", orjson.dumps([item]))
    segments = SegmentStore(artifacts, clock)
    table = build_compaction_batch("interaction", [entry]).table
    segments.append(app_id, "interaction", table, first="5-0", last="5-0")
    assert segments.erase(app_id, "interaction", [f"u:p{number}"]) == 1
    ServedLogStore(artifacts, clock).delete(app_id, [f"p{number}"])
    OutcomeStore(artifacts, clock).delete(app_id, [f"p{number}"])
