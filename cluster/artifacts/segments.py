"""Compacted users, products and interactions as Parquet segments, with the change-log offsets they cover.

Reads see the newest commit and no partial writes; when a writer replaces it during a read, the read restarts. A
lease allows one writer at a time. All methods block: call them from a thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from cluster.artifacts.address_limit import limit_users_per_address
from cluster.artifacts.compacted_state import CompactedRecords, CompactedState, assemble_products
from cluster.artifacts.compaction import (
    MergeRules,
    find_latest,
    find_merge_start,
    latest_rows,
    order_by_offset,
    split_tables,
)
from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.replaced_products import ReplacedProducts, select_replaced
from cluster.artifacts.segment_commits import DamagedFile, SegmentCommits
from cluster.artifacts.segment_format import INTERACTIONS, LOADED_INTERACTIONS, Noun
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, NotFound
from cluster.ids import position_from_offset

__all__ = ["DamagedFile", "SegmentStore", "position_from_offset"]

T = TypeVar("T")

_READ_TRIES = 5
_DAY_MS = 86_400_000
_TIME_COLUMNS = ["reader", "at_ms"]
_JSON_COLUMNS = ["reader", "at_ms", "json"]


class SegmentStore:
    """Compacted changes of every app in one artifact store."""

    def __init__(
        self, store: ArtifactStore, clock: Clock | None = None, rules: MergeRules | None = None
    ) -> None:
        self.artifacts = store
        "The artifact store, which also contains other files of an app."
        self._clock = SystemClock() if clock is None else clock
        self._files = SegmentCommits(store, self._clock)
        self._rules = MergeRules() if rules is None else rules
        self._log = structlog.get_logger()

    def offsets(self, app_id: str) -> dict[str, str]:
        """Return the offset up to which each noun is compacted; a noun without segments is absent."""
        return _offsets(self._files.manifest(app_id))

    def row_counts(self, app_id: str) -> dict[str, int]:
        """Return the number of compacted rows of each noun, without reading them; replaced records count again."""
        counts: dict[str, int] = {}
        for entry in self._files.manifest(app_id).files:
            noun = str(entry.facts["noun"])
            counts[noun] = counts.get(noun, 0) + entry.rows
        return counts

    def erasures(self, app_id: str) -> ErasureLog:
        """Return the log of erased rows."""
        return ErasureLog.of(self._files.manifest(app_id).facts)

    def read_rows_of_ids(self, app_id: str, noun: Noun, who: Sequence[str]) -> list[bytes]:
        """Return the JSON of all compacted rows of some users (interactions) or ids (records)."""
        column = _name_column(noun)
        value_set = pa.array(list(who), pa.string())

        def attempt() -> list[bytes]:
            records: list[bytes] = []
            # The narrow column is read first: most segments have no row of these people.
            for entry in self._files.manifest(app_id).files:
                if entry.facts["noun"] == noun and self._has_rows_of(app_id, entry, column, value_set):
                    table = self._files.table(app_id, entry, [column, "json"])
                    rows = table.filter(pc.is_in(table[column], value_set=value_set))["json"].to_pylist()
                    records += [row for row in rows if row is not None]
            return records

        return self._retry_when_replaced(attempt)

    def load(self, app_id: str, *, salvage: bool = False) -> CompactedState:
        """Return the initial state of a recommender.

        With `salvage`, damaged segments are left out and named in the result instead of failing the load.

        Errors:
            Fault: the manifest or (without `salvage`) a segment is damaged; fact `path`
        Cost:
            100,000 products with vectors (d = 128) and 1,000,000 interactions: 0.7 to 1.9 s on one core, 0.4 GB
        """
        return self._retry_when_replaced(lambda: self._load(app_id, salvage))

    def records(
        self, app_id: str, noun: Noun, *, salvage: bool = False, newest: int | None = None
    ) -> list[bytes]:
        """Return the newest JSON of every record that was not removed; with `newest` at most so many, newest first."""

        def attempt() -> list[bytes]:
            newest_first = self._newest_first(
                app_id, self._files.manifest(app_id), noun, [] if salvage else None
            )
            if newest is None:
                return [record for table in newest_first for record in table["json"].to_pylist()]
            # Order needs offset and JSON only; vectors make up most of a row.
            tables = order_by_offset([table.select(["offset", "json"]) for table in newest_first][::-1])
            latest = (record for table in reversed(tables) for record in reversed(table["json"].to_pylist()))
            return list(islice(latest, newest))

        return self._retry_when_replaced(attempt)

    def load_searches(self, app_id: str, since_ms: int) -> Any:
        """Return the compacted searches since a time from undamaged segments.

        The table has the columns `reader`, `at_ms` and `json`, oldest first.

        Cost:
            for segments without a search, one column is read
        """

        return self._load_interactions(app_id, ["search"], since_ms, _JSON_COLUMNS)

    def load_interactions_limited_per_address(self, app_id: str, kinds: Sequence[str], since_ms: int) -> Any:
        """Return compacted interactions of some types since a time.

        Unverified users beyond a number for each address are left out (`limit_users_per_address`).
        """
        return limit_users_per_address(self._load_interactions(app_id, kinds, since_ms, _JSON_COLUMNS))

    def count_product_interactions(
        self, app_id: str, product_id: str, since_ms: int
    ) -> tuple[dict[tuple[str, int], int], str]:
        """Count the compacted interactions with a product since a time by type and day (since 1970, UTC).

        Damaged segments are left out.

        Returns:
            the counts, and the offset up to which they count

        Cost:
            reads three columns of the segments: 0.15 s for 1,000,000 interactions
        """

        def attempt() -> tuple[dict[tuple[str, int], int], str]:
            damaged: list[DamagedFile] = []
            counts: Counter[tuple[str, int]] = Counter()
            manifest = self._files.manifest(app_id)
            for entry in manifest.files:
                if entry.facts["noun"] != "interaction":
                    continue
                table = self._files.table(app_id, entry, ["type", "at_ms", "product_ids"], damaged)
                if table is None:
                    continue
                table = table.filter(pc.greater_equal(table["at_ms"], since_ms)).combine_chunks()
                ids = pc.list_flatten(table["product_ids"])
                # A row that names the product twice is one interaction.
                rows = pc.unique(
                    pc.list_parent_indices(table["product_ids"]).filter(pc.equal(ids, product_id))
                )
                hits = table.select(["type", "at_ms"]).take(rows)
                days = pc.divide(hits["at_ms"], _DAY_MS)
                groups = pa.table({"type": hits["type"], "day": days}).group_by(["type", "day"])
                for row in groups.aggregate([([], "count_all")]).to_pylist():
                    counts[row["type"], row["day"]] += row["count_all"]
            return dict(counts), _offsets(manifest).get("interaction", "0")

        return self._retry_when_replaced(attempt)

    def count_interactions(self, app_id: str, column: Literal["type", "reader"]) -> dict[str, int]:
        """Count the compacted interactions by type or user id (`u:`, `a:`). Damaged segments are left out."""

        def attempt() -> dict[str, int]:
            counts: Counter[str] = Counter()
            for entry in self._files.manifest(app_id).files:
                if entry.facts["noun"] == "interaction":
                    table = self._files.table(app_id, entry, [column], [])
                    rows = [] if table is None else pc.value_counts(table[column]).to_pylist()
                    counts.update({row["values"]: row["counts"] for row in rows})
            return dict(counts)

        return self._retry_when_replaced(attempt)

    def load_interaction_times(
        self, app_id: str, kinds: Sequence[str], since_ms: int, user_keys: Sequence[str]
    ) -> Any:
        """Return `reader` and `at_ms` of `load_interactions_limited_per_address`, only of some users."""
        table = self.load_interactions_limited_per_address(app_id, kinds, since_ms).select(_TIME_COLUMNS)
        return table.filter(pc.is_in(table["reader"], value_set=pa.array(user_keys, pa.string())))

    def load_records_since(
        self, app_id: str, noun: Noun, after: str, *, salvage: bool = False, containing: bytes = b""
    ) -> CompactedRecords:
        """Return the records of a noun after an offset that contain some bytes, for a caller with earlier ones.

        Only the newest row of an id counts. Rows from before may be included; applying them again is harmless.
        """

        def attempt() -> CompactedRecords:
            manifest = self._files.manifest(app_id)
            damaged: list[DamagedFile] | None = [] if salvage else None
            newest = [entry for entry in reversed(manifest.files) if entry.facts["noun"] == noun]
            # Two columns decide which rows are alive; the JSON of the others is never read.
            ids = (self._files.table(app_id, entry, ["id", "gone"], damaged) for entry in newest)
            alive = latest_rows((table for table in ids if table is not None), drop_gone=True)
            living = frozenset(record_id for table in alive for record_id in table["id"].to_pylist())
            least = position_from_offset(after)
            later = [entry for entry in newest if position_from_offset(entry.facts["last"]) > least]
            tables = self._newest_first(app_id, replace(manifest, files=tuple(later[::-1])), noun, damaged)
            puts = [
                record
                for table in tables
                for record, record_id in zip(table["json"].to_pylist(), table["id"].to_pylist(), strict=True)
                # A removal may be newer than the segments that are read here.
                if record_id in living and containing in record
            ]
            return CompactedRecords(_offsets(manifest).get(noun, "0"), puts, living)

        return self._retry_when_replaced(attempt)

    def load_records_between(
        self, app_id: str, noun: Noun, after: str, until: str
    ) -> list[tuple[str, list[bytes]]]:
        """Return the records last written after one offset and up to another, oldest first, without removed ones.

        Damaged segments are left out.
        """

        def attempt() -> list[tuple[str, list[bytes]]]:
            manifest = self._files.manifest(app_id)
            later = [
                entry
                for entry in manifest.files
                if position_from_offset(entry.facts["last"]) > position_from_offset(after)
            ]
            records: dict[str, list[bytes]] = {}
            for table in self._newest_first(app_id, replace(manifest, files=tuple(later)), noun, []):
                for offset, record in zip(
                    table["offset"].to_pylist(), table["json"].to_pylist(), strict=True
                ):
                    if (
                        position_from_offset(after)
                        < position_from_offset(offset)
                        <= position_from_offset(until)
                    ):
                        records.setdefault(offset, []).append(record)
            return sorted(records.items(), key=lambda item: position_from_offset(item[0]))

        return self._retry_when_replaced(attempt)

    def verify(self, app_id: str, nouns: Sequence[Noun] | None = None) -> list[DamagedFile]:
        """Read and check every segment (of some nouns); return the damaged ones."""

        def attempt() -> list[DamagedFile]:
            damaged: list[DamagedFile] = []
            for entry in self._files.manifest(app_id).files:
                if nouns is None or entry.facts["noun"] in nouns:
                    self._files.table(app_id, entry, None, damaged)
            return damaged

        return self._retry_when_replaced(attempt)

    def append(
        self, app_id: str, noun: Noun, table: Any, *, first: str, last: str, has_erased_rows: bool = False
    ) -> bool:
        """Append the rows of the changes from `first` to `last`; an empty table only moves the offset.

        With `has_erased_rows`, the changes erased rows of others among them: readers of the log may hold these.
        Returns False, and writes nothing, when the segments already cover `last`.

        Errors:
            Fault: the range overlaps the covered offsets
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        covered = _offsets(manifest).get(noun, "0")
        # A repeated call after a crash: the commit went through, only its answer was lost.
        if position_from_offset(last) <= position_from_offset(covered):
            return False
        if position_from_offset(first) <= position_from_offset(covered):
            raise Fault(f"changes {first} to {last} overlap what is settled up to {covered}")
        added = self._files.write(app_id, manifest, noun, [table], first, last)
        log = ErasureLog.of(manifest.facts)
        log = log.add(noun, first, self._clock.now_ms()) if has_erased_rows else log
        self._files.commit(app_id, manifest, (*manifest.files, *added), offsets={noun: last}, erasures=log)
        return True

    def erase(self, app_id: str, noun: Noun, who: Sequence[str]) -> int:
        """Rewrite the segments with rows of these users (interactions) or ids (records) without these rows.

        Returns the number of rows removed; idempotent.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        column = _name_column(noun)
        value_set = pa.array(list(who), pa.string())
        kept: list[FileEntry] = []
        firsts: list[str] = []
        erased = 0
        for entry in manifest.files:
            if entry.facts["noun"] != noun or not self._has_rows_of(app_id, entry, column, value_set):
                kept.append(entry)
                continue
            table = self._files.table(app_id, entry)
            theirs = pc.is_in(table[column], value_set=value_set)
            # The new file keeps offsets and run of the old one, so that
            # later merges stay as they were planned.
            rest = table.filter(pc.invert(theirs))
            erased += table.num_rows - rest.num_rows
            firsts += pc.unique(table.filter(theirs)["offset"]).to_pylist()
            span = (entry.facts["first"], entry.facts["last"], entry.facts["run"])
            kept += self._files.write(app_id, manifest, noun, [rest], *span)
        if erased:
            # A state that was read up to this offset or further contains erased rows.
            first = min(firsts, key=position_from_offset)
            log = ErasureLog.of(manifest.facts).add(noun, first, self._clock.now_ms())
            self._files.commit(app_id, manifest, kept, erasures=log)
        return erased

    def compact(self, app_id: str, noun: Noun, *, whole: bool = False) -> bool:
        """Merge the newest segments of a noun when that is worth it (`whole`: all of them in any case).

        Of records, only the newest row of an id remains; removals are dropped once nothing older is left.

        Errors:
            Fault: a segment is damaged; nothing changes
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        files = [entry for entry in manifest.files if entry.facts["noun"] == noun]
        is_record = noun != "interaction"
        start = 0 if whole and files else find_merge_start(files, self._rules, keep_full=not is_record)
        if start is None:
            return False
        merged = files[start:]
        replaced = ReplacedProducts(self.artifacts, self._clock) if noun == "product" else None
        if is_record:
            # A removal stays while an older segment may hold its record, which would come back.
            tables: Iterable[Any] = self._latest_records(app_id, merged, replaced, drop_gone=start == 0)
        else:
            tables = (self._files.table(app_id, entry) for entry in merged)
        cut = split_tables(tables, self._rules.piece_bytes)
        span = (merged[0].facts["first"], merged[-1].facts["last"])
        # Files first, then the commit that names them: a crash in between leaves files without a name.
        written = self._files.write(app_id, manifest, noun, cut, *span)
        # Before the commit too: once it is made, the replaced rows are in no segment.
        if replaced is not None:
            replaced.append(
                app_id, [entry.name for entry in merged], {entry.name for entry in manifest.files}
            )
        self._files.commit(
            app_id, manifest, [*_files_of_other_nouns(manifest, noun), *files[:start], *written]
        )
        self._log.info("segments_merged", app=app_id, noun=noun, merged=len(merged), into=len(written))
        return True

    def rebuild(self, app_id: str, noun: Noun, tables: Iterable[Any], *, last: str) -> None:
        """Replace all segments of a noun by these rows; they cover the log up to `last`.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        written = self._files.write(
            app_id, manifest, noun, split_tables(tables, self._rules.piece_bytes), "0", last
        )
        self._files.commit(
            app_id, manifest, [*_files_of_other_nouns(manifest, noun), *written], offsets={noun: last}
        )

    def discard(self, app_id: str, damage: DamagedFile) -> bool:
        """Drop a damaged segment: its rows are lost, and operations that need all segments work again.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        kept = [entry for entry in manifest.files if not damage.path.endswith("/" + entry.name)]
        if len(kept) == len(manifest.files):
            return False
        self._files.commit(app_id, manifest, kept)
        self._log.error("segment_discarded", app=app_id, noun=damage.noun, path=damage.path)
        return True

    def tidy(self, app_id: str, *, at_once: bool = False) -> int:
        """Remove files of interrupted writes, `at_once` also recent ones; return the number of files."""
        return self._files.tidy(app_id, at_once=at_once)

    def drop(self, app_id: str) -> None:
        self._files.drop(app_id)

    def _load(self, app_id: str, salvage: bool) -> CompactedState:
        manifest = self._files.manifest(app_id)
        damaged: list[DamagedFile] = []
        spare = damaged if salvage else None
        interactions = [
            table
            for entry in manifest.files
            if entry.facts["noun"] == "interaction"
            and (table := self._files.table(app_id, entry, LOADED_INTERACTIONS.names, spare)) is not None
        ]
        return CompactedState(
            offsets=_offsets(manifest),
            products=assemble_products(
                order_by_offset([*self._newest_first(app_id, manifest, "product", spare)][::-1])
            ),
            interactions=pa.concat_tables([LOADED_INTERACTIONS.empty_table(), *interactions]),
            damaged=tuple(damage.path for damage in damaged),
            erasures=ErasureLog.of(manifest.facts).count,
        )

    def _load_interactions(
        self, app_id: str, kinds: Sequence[str], since_ms: int, columns: Sequence[str]
    ) -> Any:
        value_set = pa.array(list(kinds), pa.string())

        def attempt() -> Any:
            damaged: list[DamagedFile] = []
            tables = [INTERACTIONS.empty_table().select(columns)]
            for entry in self._files.manifest(app_id).files:
                if entry.facts["noun"] != "interaction":
                    continue
                # Searches are rare: the other columns are read only where one is.
                types = self._files.table(app_id, entry, ["type"], damaged)
                if types is None or not pc.any(pc.is_in(types["type"], value_set)).as_py():
                    continue
                table = self._files.table(app_id, entry, ["type", *columns], damaged)
                if table is not None:
                    rows = pc.and_(
                        pc.is_in(table["type"], value_set), pc.greater_equal(table["at_ms"], since_ms)
                    )
                    tables.append(table.filter(rows).select(columns))
            return pa.concat_tables(tables)

        return self._retry_when_replaced(attempt)

    def _newest_first(
        self, app_id: str, manifest: Manifest, noun: Noun, damaged: list[DamagedFile] | None
    ) -> Iterator[Any]:
        entries = [entry for entry in reversed(manifest.files) if entry.facts["noun"] == noun]
        tables = (self._files.table(app_id, entry, None, damaged) for entry in entries)
        return latest_rows((table for table in tables if table is not None), drop_gone=True)

    def _latest_records(
        self, app_id: str, entries: Sequence[FileEntry], replaced: ReplacedProducts | None, *, drop_gone: bool
    ) -> Iterator[Any]:
        """Yield the newest row of every id of some segments, oldest first, and write all other rows to `replaced`."""
        # Newest first for what counts, oldest first for what is written: two passes, the first over ids only.
        seen: set[str] = set()
        ids = (self._files.table(app_id, entry, ["id", "gone"]) for entry in reversed(entries))
        latest = [find_latest(table, seen, drop_gone=drop_gone) for table in ids]
        for entry, rows in zip(entries, reversed(latest), strict=True):
            table = self._files.table(app_id, entry)
            if replaced is not None and len(rows) < table.num_rows:
                replaced.write(app_id, select_replaced(table, rows))
            yield table.take(rows)

    def _has_rows_of(self, app_id: str, entry: FileEntry, column: str, value_set: Any) -> bool:
        has_any = pc.any(pc.is_in(self._files.table(app_id, entry, [column])[column], value_set=value_set))
        return bool(has_any.as_py())

    def _retry_when_replaced(self, attempt: Callable[[], T]) -> T:
        """Repeat the read from the newest manifest when a writer replaced a segment during it."""
        # NotFound means that a compaction removed a file of the old manifest; the new one has the same rows.
        for _ in range(_READ_TRIES - 1):
            try:
                return attempt()
            except NotFound as error:
                self._log.info("segments_read_again", reason=error.message)
        try:
            return attempt()
        except NotFound as error:
            raise Fault(f"segment is missing: {error.message}", **error.facts) from error


def _name_column(noun: Noun) -> str:
    return "reader" if noun == "interaction" else "id"


def _offsets(manifest: Manifest) -> dict[str, str]:
    return dict(manifest.facts.get("offsets", {}))


def _files_of_other_nouns(manifest: Manifest, noun: Noun) -> list[FileEntry]:
    return [entry for entry in manifest.files if entry.facts["noun"] != noun]
