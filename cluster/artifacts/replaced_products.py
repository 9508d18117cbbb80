"""Former versions of products, kept for some days so that a list of yesterday can be rebuilt.

Segments keep every version until a merge. A merge moves the versions that a newer one replaced into files of its own,
which no load reads.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cluster.artifacts.logs.day_files import DAY_MS, DayFiles
from cluster.artifacts.manifest import FileEntry
from cluster.artifacts.segment_files import SegmentFiles
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.tables import RECORDS
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, NotFound
from cluster.ids import position_from_offset

KEEP_MS: Final = 3 * DAY_MS
"How long a version is kept after the merge that replaced it."
VERSIONS = pa.schema([field for field in RECORDS if field.name != "product_type"])
"The columns of a version."
MOST_BYTES: Final = 4 << 30
"Bytes of the versions of one app; the oldest files go first, where prices change every minute."
_READ_TRIES = 5


class ReplacedProducts(DayFiles):
    """The former versions of the products of every app in one artifact store."""

    kind = "replaced"
    schema = pa.schema([("at", pa.int64()), *VERSIONS, ("place", pa.int64())])
    "`at` is the time of the merge, `place` that of the version among those of its offset before the merge."
    user_column = "id"
    encodings = {"compression_level": 6}  # noqa: RUF012

    def __init__(self, store: ArtifactStore, clock: Clock | None = None) -> None:
        super().__init__(store, clock)
        self._written: list[FileEntry] = []
        "Files that no manifest names yet."

    def write(self, app_id: str, table: Any) -> None:
        """Write versions, a table of `select_replaced`, which `append` adds: a merge has too many for the memory."""
        times = pa.array([self._clock.now_ms()] * table.num_rows, pa.int64())
        self._written += self._write_days(app_id, table.append_column("at", times).select(self.schema.names))

    def append(self, app_id: str) -> None:
        """Add the written versions, and drop old ones.

        Errors:
            Conflict: another writer committed meanwhile
        """
        if self._written:
            manifest = self.commit(app_id)
            self._commit(app_id, manifest, [*manifest.files, *self._written])
            self._written = []
        self.drop_old(app_id)

    def drop_old(self, app_id: str) -> None:
        """Drop versions that were kept for long enough, and the oldest files beyond `MOST_BYTES`.

        Errors:
            Conflict: another writer committed meanwhile
        """
        self.drop_before(app_id, self._clock.now_ms() - KEEP_MS)
        manifest = self.commit(app_id)
        kept = list[FileEntry]()
        left = MOST_BYTES
        for entry in sorted(manifest.files, key=lambda file: -file.facts["last"]):
            left -= entry.size
            if left < 0:
                break
            kept.append(entry)
        if len(kept) < len(manifest.files):
            self._commit(app_id, manifest, kept)


def select_replaced(table: Any, kept: Any) -> Any:
    """Return the versions of a table that a merge does not keep, each with its place among those of its offset.

    Shapes:
        kept: pyarrow int32 [m], rows of the table
    """
    others = np.setdiff1d(np.arange(table.num_rows), kept.to_numpy(zero_copy_only=False))
    offsets = table["offset"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.argsort(offsets, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.searchsorted(offsets[order], offsets[order])
    return table.select(VERSIONS.names).append_column("place", pa.array(places)).take(pa.array(others))


def read_versions(artifacts: ArtifactStore, app_id: str) -> Any:
    """Return all versions of products that are kept, in the order of the change log; a table with `VERSIONS`.

    Products of one upload are in its order, as in a load: of equal products, later rows come first in lists.

    Errors:
        Fault: the segments are damaged, or keep changing
    """
    files = SegmentFiles(artifacts, SystemClock())
    replaced = ReplacedProducts(artifacts)
    for _ in range(_READ_TRIES):
        former = replaced.read(app_id, 0)
        tables = [VERSIONS.empty_table()]
        try:
            for entry in files.manifest(app_id).files:
                if entry.facts["noun"] == "product":
                    tables.append(files.table(app_id, entry, VERSIONS.names).select(VERSIONS.names))
        except NotFound:  # the intake merged segments during the read
            continue
        latest = pa.concat_tables([table.cast(VERSIONS) for table in tables])
        every = pa.concat_tables([latest, former.select(VERSIONS.names)])
        return every.take(pa.array(_order_versions(latest, former), pa.int64()))
    raise Fault(f"the segments of {app_id} keep being replaced while they are read")


def _order_versions(latest: Any, former: Any) -> list[int]:
    """Return the rows of versions in the order of the change log; former ones have the numbers after the latest.

    The merges are undone, the newest one first: each version goes back to its place.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, offset in enumerate(latest["offset"].to_pylist()):
        rows[offset].append(row)
    at, places, offsets = (former[name].to_pylist() for name in ("at", "place", "offset"))
    for row in sorted(range(len(at)), key=lambda row: (-at[row], places[row])):
        rows[offsets[row]].insert(places[row], latest.num_rows + row)
    return [row for offset in sorted(rows, key=position_from_offset) for row in rows[offset]]
