"""Settled users, products and interactions as Parquet segments, with the change-log offsets they cover.

Readers see the newest commit and nothing half-written; when it is replaced under their hands they start again.
There is one writer at a time, kept apart from others by a lease. Everything here blocks: call it from a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.compacted_state import CompactedState, assemble_products
from cluster.artifacts.compaction import MergeRules, find_merge_start, latest_rows, split_tables
from cluster.artifacts.erasures import ErasureLog
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.segment_files import DamagedFile, SegmentFiles, position_from_offset
from cluster.artifacts.tables import INTERACTIONS, LOADED_INTERACTIONS, Noun
from cluster.artifacts.unverified_users import limit_readers_per_address
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, NotFound

__all__ = ["DamagedFile", "SegmentStore", "position_from_offset"]

T = TypeVar("T")

_READ_TRIES = 5


@dataclass(frozen=True, slots=True)
class CompactedRecords:
    """What settled of a noun behind an offset."""

    offset: str
    "Up to here it stands on the shelf."
    puts: list[bytes]
    "JSON of records that were written, each id once."
    living: frozenset[str]
    "Ids of all settled records; any other one was removed, or was never settled."


_TIME_COLUMNS = ["reader", "at_ms"]
_JSON_COLUMNS = ["reader", "at_ms", "json"]


class SegmentStore:
    """Settled changes of every app on one shelf."""

    def __init__(
        self, store: ArtifactStore, clock: Clock | None = None, rules: MergeRules | None = None
    ) -> None:
        self.shelf = store
        "Where they stand; other things of an app may stand beside them."
        self._clock = SystemClock() if clock is None else clock
        self._files = SegmentFiles(store, self._clock)
        self._rules = MergeRules() if rules is None else rules
        self._log = structlog.get_logger()

    # --- reading ------------------------------------------------------------------------------------------

    def offsets(self, app_id: str) -> dict[str, str]:
        """Up to which offset each noun stands on the shelf; a noun that never settled is absent.

        Errors:
            Fault: the manifest is damaged
        """
        return _offsets(self._files.manifest(app_id))

    def erasures(self, app_id: str) -> ErasureLog:
        """Read which rows were erased.

        Errors:
            Fault: the manifest is damaged
        """
        return ErasureLog.of(self._files.manifest(app_id).facts)

    def rows_of(self, app_id: str, noun: Noun, who: Sequence[str]) -> list[bytes]:
        """Read the JSON of all settled rows of some readers (interactions) or ids (records).

        Errors:
            Fault: a segment is damaged, so nobody can say whether it holds them
        """
        column, wanted = _name_column(noun), pa.array(list(who), pa.string())

        def attempt() -> list[bytes]:
            found: list[bytes] = []
            for entry in self._files.manifest(app_id).files:
                if entry.facts["noun"] == noun and self._has_rows_of(app_id, entry, column, wanted):
                    table = self._files.table(app_id, entry, [column, "json"])
                    rows = table.filter(pc.is_in(table[column], value_set=wanted))["json"].to_pylist()
                    found += [row for row in rows if row is not None]
            return found

        return self._retry_when_replaced(attempt)

    def load(self, app_id: str, *, salvage: bool = False) -> CompactedState:
        """Read everything a recommender starts from.

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
        """Read the newest JSON of every record of a noun that was not removed; `newest` bounds how many."""

        def attempt() -> list[bytes]:
            tables = self._newest_first(app_id, self._files.manifest(app_id), noun, [] if salvage else None)
            return list(islice((record for table in tables for record in table["json"].to_pylist()), newest))

        return self._retry_when_replaced(attempt)

    def load_searches(self, app_id: str, since_ms: int) -> Any:
        """Read the settled searches from a moment on, as far as their segments are whole.

        Returns a table with the columns `reader`, `at_ms` and `json`, oldest first.

        Cost:
            segments without a search are told by one column
        """

        return self._load_interactions(app_id, ["search"], since_ms, _JSON_COLUMNS)

    def load_interactions_of_types(self, app_id: str, kinds: Sequence[str], since_ms: int) -> Any:
        """Read the settled interactions of some types like `searches`; an address without proof counts for a few.

        Source: `limit_readers_per_address`
        """
        return limit_readers_per_address(self._load_interactions(app_id, kinds, since_ms, _JSON_COLUMNS))

    def load_interaction_times(self, app_id: str, kinds: Sequence[str], since_ms: int) -> Any:
        """Read only who and when of `acted`."""
        return self.load_interactions_of_types(app_id, kinds, since_ms).select(_TIME_COLUMNS)

    def load_records_since(
        self, app_id: str, noun: Noun, after: str, *, salvage: bool = False
    ) -> CompactedRecords:
        """Read what settled of a noun behind an offset, for whoever holds everything up to there.

        Of an id only the newest row counts. Rows from before may come along; applying them again is harmless.
        """

        def attempt() -> CompactedRecords:
            manifest = self._files.manifest(app_id)
            damaged: list[DamagedFile] | None = [] if salvage else None
            newest = [entry for entry in reversed(manifest.files) if entry.facts["noun"] == noun]
            ids = (self._files.table(app_id, entry, ["id", "gone"], damaged) for entry in newest)
            alive = latest_rows((table for table in ids if table is not None), drop_gone=True)
            living = frozenset(record_id for table in alive for record_id in table["id"].to_pylist())
            later = [
                entry
                for entry in newest
                if position_from_offset(entry.facts["last"]) > position_from_offset(after)
            ]
            tables = self._newest_first(app_id, replace(manifest, files=tuple(later[::-1])), noun, damaged)
            puts = [
                record
                for table in tables
                for record, record_id in zip(table["json"].to_pylist(), table["id"].to_pylist(), strict=True)
                if record_id in living
            ]
            return CompactedRecords(_offsets(manifest).get(noun, "0"), puts, living)

        return self._retry_when_replaced(attempt)

    def load_records_between(
        self, app_id: str, noun: Noun, after: str, until: str
    ) -> list[tuple[str, list[bytes]]]:
        """Read the living records that were last written behind one offset and up to another, by offset, oldest first.

        Segments that are damaged are left out.
        """

        def attempt() -> list[tuple[str, list[bytes]]]:
            manifest = self._files.manifest(app_id)
            later = [
                entry
                for entry in manifest.files
                if position_from_offset(entry.facts["last"]) > position_from_offset(after)
            ]
            found: dict[str, list[bytes]] = {}
            for table in self._newest_first(app_id, replace(manifest, files=tuple(later)), noun, []):
                for offset, record in zip(
                    table["offset"].to_pylist(), table["json"].to_pylist(), strict=True
                ):
                    if (
                        position_from_offset(after)
                        < position_from_offset(offset)
                        <= position_from_offset(until)
                    ):
                        found.setdefault(offset, []).append(record)
            return sorted(found.items(), key=lambda one: position_from_offset(one[0]))

        return self._retry_when_replaced(attempt)

    def verify(self, app_id: str, nouns: Sequence[Noun] | None = None) -> list[DamagedFile]:
        """Read and check every segment (of some nouns); say what would be refused.

        Errors:
            Fault: the manifest is damaged
        """

        def attempt() -> list[DamagedFile]:
            damaged: list[DamagedFile] = []
            for entry in self._files.manifest(app_id).files:
                if nouns is None or entry.facts["noun"] in nouns:
                    self._files.table(app_id, entry, None, damaged)
            return damaged

        return self._retry_when_replaced(attempt)

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, app_id: str, noun: Noun, table: Any, *, first: str, last: str) -> bool:
        """Add the rows of the changes from `first` to `last`; an empty table only moves the offset.

        Returns False, and writes nothing, when the shelf already covers `last`.

        Errors:
            Fault: the range overlaps what is covered
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        covered = _offsets(manifest).get(noun, "0")
        if position_from_offset(last) <= position_from_offset(covered):
            return False
        if position_from_offset(first) <= position_from_offset(covered):
            raise Fault(f"changes {first} to {last} overlap what is settled up to {covered}")
        added = self._files.write(app_id, manifest, noun, [table], first, last)
        self._files.commit(app_id, manifest, (*manifest.files, *added), offsets={noun: last})
        return True

    def erase(self, app_id: str, noun: Noun, who: Sequence[str]) -> int:
        """Rewrite the segments that hold rows of these readers (interactions) or ids (records) without them.

        Returns how many rows went. Doing it again is harmless.

        Errors:
            Fault: a segment is damaged, so nobody can say whether it holds them
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        column = _name_column(noun)
        wanted = pa.array(list(who), pa.string())
        kept: list[FileEntry] = []
        firsts: list[str] = []
        erased = 0
        for entry in manifest.files:
            if entry.facts["noun"] != noun or not self._has_rows_of(app_id, entry, column, wanted):
                kept.append(entry)
                continue
            table = self._files.table(app_id, entry)
            theirs = pc.is_in(table[column], value_set=wanted)
            rest = table.filter(pc.invert(theirs))
            erased += table.num_rows - rest.num_rows
            firsts += pc.unique(table.filter(theirs)["offset"]).to_pylist()
            facts = entry.facts
            first, last, run = facts["first"], facts["last"], facts["run"]
            kept += self._files.write(app_id, manifest, noun, [rest], first, last, run)
        if erased:
            now_ms, log = self._clock.now_ms(), ErasureLog.of(manifest.facts)
            log = log.add(noun, min(firsts, key=position_from_offset), now_ms)
            self._files.commit(app_id, manifest, kept, erasures=log)
        return erased

    def compact(self, app_id: str, noun: Noun, *, whole: bool = False) -> bool:
        """Merge the newest segments of a noun when that is worth it (`whole`: all of them in any case).

        Of records only the newest row of an id stays, and removals go once nothing older is left.

        Errors:
            Fault: a segment is damaged; everything stays as it is
            Conflict: another writer committed meanwhile
        """
        manifest = self._files.manifest(app_id)
        files = [entry for entry in manifest.files if entry.facts["noun"] == noun]
        is_record = noun != "interaction"
        start = 0 if whole and files else find_merge_start(files, self._rules, keep_full=not is_record)
        if start is None:
            return False
        merged = files[start:]
        if is_record:
            newest_first = (self._files.table(app_id, entry) for entry in reversed(merged))
            tables: Iterable[Any] = latest_rows(newest_first, drop_gone=start == 0)
        else:
            tables = (self._files.table(app_id, entry) for entry in merged)
        cut = split_tables(tables, self._rules.piece_bytes)
        first, last = merged[0].facts["first"], merged[-1].facts["last"]
        written = self._files.write(app_id, manifest, noun, cut, first, last)
        self._files.commit(
            app_id, manifest, [*_files_of_other_nouns(manifest, noun), *files[:start], *written]
        )
        self._log.info("segments_merged", app=app_id, noun=noun, merged=len(merged), into=len(written))
        return True

    def rebuild(self, app_id: str, noun: Noun, tables: Iterable[Any], *, last: str) -> None:
        """Put these rows in the place of everything settled of a noun; they cover the log up to `last`.

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
        """Give up a damaged segment: its rows are lost, and what needs all segments whole works again.

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
        """Remove what interrupted writers left behind, `at_once` also a moment ago; return how many files went."""
        return self._files.tidy(app_id, at_once=at_once)

    def drop(self, app_id: str) -> None:
        """Remove everything of an app."""
        self._files.drop(app_id)

    # --- inside -------------------------------------------------------------------------------------------

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
        products, embedder = assemble_products(self._newest_first(app_id, manifest, "product", spare))
        return CompactedState(
            offsets=_offsets(manifest),
            products=products,
            embedder=embedder,
            interactions=pa.concat_tables([LOADED_INTERACTIONS.empty_table(), *interactions]),
            damaged=tuple(damage.path for damage in damaged),
            erasures=ErasureLog.of(manifest.facts).count,
        )

    def _load_interactions(
        self, app_id: str, kinds: Sequence[str], since_ms: int, columns: Sequence[str]
    ) -> Any:
        wanted = pa.array(list(kinds), pa.string())

        def attempt() -> Any:
            damaged: list[DamagedFile] = []
            found = [INTERACTIONS.empty_table().select(columns)]
            for entry in self._files.manifest(app_id).files:
                if entry.facts["noun"] != "interaction":
                    continue
                types = self._files.table(app_id, entry, ["type"], damaged)
                if types is None or not pc.any(pc.is_in(types["type"], wanted)).as_py():
                    continue
                table = self._files.table(app_id, entry, ["type", *columns], damaged)
                if table is not None:
                    rows = pc.and_(
                        pc.is_in(table["type"], wanted), pc.greater_equal(table["at_ms"], since_ms)
                    )
                    found.append(table.filter(rows).select(columns))
            return pa.concat_tables(found)

        return self._retry_when_replaced(attempt)

    def _newest_first(
        self, app_id: str, manifest: Manifest, noun: Noun, damaged: list[DamagedFile] | None
    ) -> Iterator[Any]:
        entries = [entry for entry in reversed(manifest.files) if entry.facts["noun"] == noun]
        tables = (self._files.table(app_id, entry, None, damaged) for entry in entries)
        return latest_rows((table for table in tables if table is not None), drop_gone=True)

    def _has_rows_of(self, app_id: str, entry: FileEntry, column: str, wanted: Any) -> bool:
        found = pc.any(pc.is_in(self._files.table(app_id, entry, [column])[column], value_set=wanted))
        return bool(found.as_py())

    def _retry_when_replaced(self, attempt: Callable[[], T]) -> T:
        """Read again from the newest manifest when a segment was replaced under our hands."""
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
