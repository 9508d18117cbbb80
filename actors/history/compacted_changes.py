"""What the log no longer holds: content that settled while nobody watched, as the changes it once was.

Of an article that was written several times, or is gone again, only what stands now is news.
"""

from __future__ import annotations

from collections import deque

from cluster.artifacts.segments import SegmentStore
from cluster.store.ports.changes import ChangeLogEntry


def read_compacted_changes(
    segments: SegmentStore, app_id: str, after: str, until: str
) -> deque[ChangeLogEntry]:
    """Read what settled behind one offset up to another; the last change says that it ends there, and holds nothing.

    Errors:
        Fault: the manifest of the segments is damaged
    """
    found = deque(
        ChangeLogEntry("product", offset, "put", b"[" + b",".join(records) + b"]")
        for offset, records in segments.load_records_between(app_id, "product", after, until)
    )
    if not found or found[-1].offset != until:
        found.append(ChangeLogEntry("product", until, "put", b"[]"))
    return found
