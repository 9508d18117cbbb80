"""Former versions of products, kept for some days so that a list of yesterday can be rebuilt.

Segments keep every version until a merge. A merge moves the versions that a newer one replaced into files of its own,
which no load reads.

The versions are committed before the merge, which may die in between. So their commit names the merge in its fact
`merge`: the time `at` of its versions, and the segments `sources` that it merges. While one of the sources is still a
segment, these versions are there as well. Reads leave them out, and the next merge drops them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.artifacts.logs.day_files import DAY_MS, DayFiles
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.segment_commits import SegmentCommits
from cluster.artifacts.segment_format import RECORDS
from cluster.artifacts.storage.artifact_store import ArtifactStore
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
        self._at_ms = 0
        "Time of the merge; 0 before its first version."
        self._written: list[FileEntry] = []
        "Files that no manifest names yet."

    def write(self, app_id: str, table: Any) -> None:
        """Write versions, a table of `select_replaced`, which `append` adds: a merge has too many for the memory."""
        if not self._at_ms:
            # after an earlier merge, also within the same millisecond
            last_ms = self.commit(app_id).facts.get("merge", {}).get("at", 0)
            self._at_ms = max(self._clock.now_ms(), last_ms + 1)
        times = pa.array([self._at_ms] * table.num_rows, pa.int64())
        self._written += self._write_days(app_id, table.append_column("at", times).select(self.schema.names))

    def append(self, app_id: str, sources: Sequence[str], segments: Collection[str]) -> None:
        """Add the written versions of a merge, and drop old ones and those of a merge that died.

        `sources` are the files of the merged segments, `segments` those of all segments before the merge.

        Errors:
            Conflict: another writer committed meanwhile
        """
        if self._written:
            manifest = self.commit(app_id)
            files = [*self._drop_unfinished(app_id, manifest, segments), *self._written]
            self._commit(app_id, manifest, files, merge={"at": self._at_ms, "sources": list(sources)})
            self._written = []
            self._at_ms = 0
        self.drop_old(app_id)

    def read_merged_versions(self, app_id: str, segments: Collection[str]) -> Any:
        """Return the versions whose merge is complete: no segment has them. A table with `schema`, oldest first."""
        unfinished_ms = _unfinished_at(self.commit(app_id), segments)
        table = self.read(app_id, 0)
        return table.filter(pc.not_equal(table["at"], unfinished_ms)) if unfinished_ms else table

    def _drop_unfinished(
        self, app_id: str, manifest: Manifest, segments: Collection[str]
    ) -> Iterator[FileEntry]:
        """Yield the files of a commit without the versions of a merge that died."""
        unfinished_ms = _unfinished_at(manifest, segments)
        for entry in manifest.files:
            if not entry.facts["first"] <= unfinished_ms <= entry.facts["last"]:
                yield entry
                continue
            # a file of earlier merges as well, if files of a day were merged
            table = self._table(app_id, entry)
            rest = None if table is None else table.filter(pc.not_equal(table["at"], unfinished_ms))
            if rest is not None and rest.num_rows:
                yield self._write(app_id, entry.facts["day"], rest)

    def drop_old(self, app_id: str) -> None:
        """Drop versions that were kept for long enough, and the oldest files beyond `MOST_BYTES`.

        Errors:
            Conflict: another writer committed meanwhile
        """
        self.expire_and_compact(app_id, self._clock.now_ms() - KEEP_MS)
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


def _unfinished_at(commit: Manifest, segments: Collection[str]) -> int:
    """Return the time of the versions of a merge whose sources are still segments; 0: the last merge finished."""
    merge = commit.facts.get("merge", {})
    return int(merge["at"]) if merge and not set(merge["sources"]).isdisjoint(segments) else 0


def select_replaced(table: Any, kept: Any) -> Any:
    """Return the versions of a table that a merge does not keep, each with its place among those of its offset.

    Shapes:
        kept: pyarrow int32 [m], rows of the table
    """
    others = np.setdiff1d(np.arange(table.num_rows), kept.to_numpy(zero_copy_only=False))
    offsets = table["offset"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    # Stable: products of one upload keep its order.
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
    files = SegmentCommits(artifacts, SystemClock())
    replaced = ReplacedProducts(artifacts)
    for _ in range(_READ_TRIES):
        manifest = files.manifest(app_id)
        former = replaced.read_merged_versions(app_id, {entry.name for entry in manifest.files})
        tables = [VERSIONS.empty_table()]
        try:
            for entry in manifest.files:
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
