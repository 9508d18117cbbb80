"""Rows of an app in the artifact store as Parquet files by day, beside the segments of the app.

    <app>/<kind>/manifest-<sequence>.json           the newest one is valid; written last, never changed
    <app>/<kind>/<day>-<sequence>-<token>.parquet   rows of one day (UTC), oldest first

The intake's lease allows one writer at a time. The rows only serve statistics, so a damaged file is dropped
instead of stopping other work. All methods block: call them from a thread.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from cluster import ids
from cluster.artifacts.manifest import (
    ORPHAN_AGE_MS,
    FileEntry,
    Manifest,
    list_replaced_files,
    load_manifest,
    manifest_path,
    newest_manifest,
    remove_incomplete_files,
    save_manifest,
    sequence_from_path,
)
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.clock import Clock, SystemClock, from_ms
from cluster.errors import Fault, NotFound

MOST_FILES_A_DAY = 8
"Number of small files of a day that triggers their merge."
MOST_MERGED_ROWS = 200_000
"A file of so many rows is merged no more: a merge holds all rows of its files in memory."
ERASURE_MEMORY_MS = 3_600_000
"How long erased users are remembered, for rows that arrive late."
ERASURES = "erasures"
"Fact of a manifest: the number of erasures so far."
ERASED_ROWS = "erased_rows"
"Fact of a manifest: day -> rows that erasures removed from it."
DAY_MS = 86_400_000
_READ_TRIES = 5


class DayFiles:
    """The rows of one kind of every app in one artifact store.

    `schema` has a column `at` (ms since 1970) and one of pseudonyms, `user_column`, empty when the user is unknown.
    Without `user_column` no row names a user.
    Columns of `added` are missing in files of earlier releases: empty for them.
    """

    kind: ClassVar[str]
    schema: ClassVar[Any]
    user_column: ClassVar[str]
    added: ClassVar[tuple[str, ...]] = ()
    dictionaries: ClassVar[tuple[str, ...]] = ()
    "Parquet paths of texts that `encoded` leaves as numbers of a dictionary."
    encodings: ClassVar[Mapping[str, Any]]
    "Options of the Parquet writer: which columns repeat their values."

    def __init__(self, store: ArtifactStore, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = SystemClock() if clock is None else clock
        self._log = structlog.get_logger()

    def read(
        self, app_id: str, since_ms: int, until_ms: int = 1 << 62, columns: Sequence[str] | None = None
    ) -> Any:
        """Return the rows of a time range from undamaged files: a table with `schema`, oldest first.

        `columns` names the columns to read beside `at`; None: all.

        Errors:
            Fault: the newest manifest keeps changing
        """
        names = self._names(columns)
        for _ in range(_READ_TRIES):
            # `concat_tables` refuses an empty list.
            tables = [self.schema.empty_table().select(names)]
            try:
                for entry in self._manifest(app_id).files:
                    # The manifest knows the times of each file, so files of other days are not read.
                    if entry.facts["last"] < since_ms or entry.facts["first"] > until_ms:
                        continue
                    table = self._table(app_id, entry, names)
                    if table is not None:
                        tables.append(table)
            except NotFound:  # a writer replaced the file during the read
                continue
            inside = pa.concat_tables(tables)
            is_inside = pc.and_(
                pc.greater_equal(inside["at"], since_ms), pc.less_equal(inside["at"], until_ms)
            )
            return inside.filter(is_inside).sort_by("at")
        raise Fault(f"the newest manifest of the {self.kind} keeps changing")

    def commit(self, app_id: str) -> Manifest:
        """Return the newest commit, for `days`."""
        return self._manifest(app_id)

    def days(self, app_id: str, commit: Manifest, since_ms: int) -> Iterator[Any]:
        """Yield the rows of one commit day by day; tables with `schema`, oldest first.

        Errors:
            NotFound: a file of the commit was replaced meanwhile
            Fault: a file is damaged
        """
        files = [entry for entry in commit.files if entry.facts["last"] >= since_ms]
        for _, entries in groupby(files, key=lambda entry: entry.facts["day"]):
            tables = []
            for entry in entries:
                table = self._table(app_id, entry)
                if table is None:
                    raise Fault(f"a file of the {self.kind} is damaged: {entry.name}")
                tables.append(table.filter(pc.greater_equal(table["at"], since_ms)))
            yield pa.concat_tables(tables).sort_by("at")

    def files(
        self, app_id: str, commit: Manifest, since_ms: int, until_ms: int, columns: Sequence[str]
    ) -> Iterator[Any]:
        """Yield the rows of a time range of one commit file by file: tables with `at` and these columns.

        Damaged files are left out.

        Errors:
            NotFound: a file was replaced meanwhile
        """
        for entry in commit.files:
            if entry.facts["last"] < since_ms or entry.facts["first"] >= until_ms:
                continue
            table = self._table(app_id, entry, columns)
            if table is not None:
                inside = pc.and_(pc.greater_equal(table["at"], since_ms), pc.less(table["at"], until_ms))
                yield table.filter(inside)

    def encoded(
        self, app_id: str, entry: FileEntry, since_ms: int, until_ms: int, columns: Sequence[str]
    ) -> Any:
        """Return the rows of a time range of one file, with `dictionaries`; None if the file is damaged.

        Errors:
            NotFound: the file was replaced meanwhile
        """
        table = self._table(app_id, entry, columns, self.dictionaries)
        if table is None or since_ms <= entry.facts["first"] <= entry.facts["last"] < until_ms:
            return table
        inside = pc.and_(pc.greater_equal(table["at"], since_ms), pc.less(table["at"], until_ms))
        return table.filter(inside)

    def read_file(self, app_id: str, entry: FileEntry, columns: Sequence[str]) -> Any:
        """Return the rows of one file of a commit: a table with `at` and these columns; None if it is damaged.

        Errors:
            NotFound: the file was replaced meanwhile
        """
        return self._table(app_id, entry, columns)

    def rows_of(self, app_id: str, users: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of some users (pseudonyms), oldest first.

        Errors:
            Fault: the newest manifest keeps changing
        """
        names = pa.array(list(users), pa.string())
        for _ in range(_READ_TRIES):
            tables = [self.schema.empty_table()]
            try:
                for entry in self._manifest(app_id).files:
                    mask = self._find_users(app_id, entry, names)
                    table = self._table(app_id, entry) if mask is not None and pc.any(mask).as_py() else None
                    if table is not None:
                        tables.append(table.filter(mask))
            except NotFound:  # a writer replaced the file during the read
                continue
            rows: list[dict[str, Any]] = pa.concat_tables(tables).sort_by("at").to_pylist()
            return rows
        raise Fault(f"the newest manifest of the {self.kind} keeps changing")

    def without_erased(self, table: Any, commit: Manifest) -> Any:
        """Return the rows whose users were not erased after them."""
        erased: Mapping[str, int] = commit.facts.get("forgotten", {})
        if not erased or not self.user_column:
            return table
        # Position of each row's user among the erased ones, null for others: their limit below is -1.
        at = pc.index_in(table[self.user_column], value_set=pa.array(erased.keys(), pa.string()))
        until = pc.fill_null(pa.array(erased.values(), pa.int64()).take(at.combine_chunks()), -1)
        return table.filter(pc.greater(table["at"], until))

    def delete(self, app_id: str, users: Sequence[str]) -> int:
        """Delete all rows of these users (pseudonyms), also those that arrive later but were sent before now.

        Returns the number deleted; idempotent. A damaged file is deleted whole, because its users are unknown.
        """
        if not self.user_column:
            return 0
        manifest = self._manifest(app_id)
        now_ms = self._clock.now_ms()
        gone = 0
        kept = []
        names = pa.array(list(users), pa.string())
        # Counted by day: with the rows that are left it is the number of rows that a day ever had.
        erased_rows = dict(manifest.facts.get(ERASED_ROWS, {}))
        for entry in manifest.files:
            mask = self._find_users(app_id, entry, names)
            if mask is not None and not pc.any(mask).as_py():
                kept.append(entry)
                continue
            table = None if mask is None else self._table(app_id, entry)
            rest = None if table is None else table.filter(pc.invert(mask))
            # A damaged file may hold the person, and nobody can tell: it goes as a whole.
            removed = entry.rows - (0 if rest is None else rest.num_rows)
            gone += removed
            erased_rows[entry.facts["day"]] = erased_rows.get(entry.facts["day"], 0) + removed
            if rest is not None and rest.num_rows:
                kept.append(self._write(app_id, entry.facts["day"], rest))
        erased = manifest.facts.get("forgotten", {})
        facts = {
            "forgotten": {**erased, **dict.fromkeys(users, now_ms)},
            # Never decreases, so that a reader of any duration sees an erasure that `forgotten` no longer has.
            ERASURES: manifest.facts.get(ERASURES, 0) + 1,
            ERASED_ROWS: erased_rows,
        }
        self._commit(app_id, manifest, kept, **facts)
        return gone

    def expire_and_compact(self, app_id: str, oldest_ms: int) -> int:
        """Delete files whose newest row is older than a time, merge small files of a day; return the rows deleted."""
        manifest = self._manifest(app_id)
        young = [entry for entry in manifest.files if entry.facts["last"] >= oldest_ms]
        days: defaultdict[str, list[FileEntry]] = defaultdict(list)
        for entry in young:
            days[entry.facts["day"]].append(entry)
        kept: list[FileEntry] = []
        for day, entries in days.items():
            small = _small(entries)
            if len(small) >= MOST_FILES_A_DAY:
                tables = [table for entry in small if (table := self._table(app_id, entry)) is not None]
                entries = [entry for entry in entries if entry not in small]
                if tables:
                    entries.append(self._write(app_id, day, pa.concat_tables(tables)))
            kept += entries
        if kept != list(manifest.files):
            oldest_day = name_day(oldest_ms // DAY_MS)
            erased_rows = manifest.facts.get(ERASED_ROWS, {})
            young_days = {day: count for day, count in erased_rows.items() if day >= oldest_day}
            self._commit(app_id, manifest, kept, **{ERASED_ROWS: young_days})
        return sum(entry.rows for entry in manifest.files) - sum(entry.rows for entry in young)

    def tidy(self, app_id: str, *, at_once: bool = False) -> int:
        """Remove files of interrupted writes, `at_once` also recent ones; return the number of files."""
        newest = self._manifest(app_id)
        now_ms = self._clock.now_ms() + (ORPHAN_AGE_MS if at_once else 0)
        folder = self._folder(app_id)
        return remove_incomplete_files(
            self._store, folder, newest, oldest_kept=newest.sequence, now_ms=now_ms
        )

    def _manifest(self, app_id: str) -> Manifest:
        """Return the newest manifest; a damaged one counts as empty, and the next commit replaces it."""
        for _ in range(_READ_TRIES):
            path = newest_manifest(self._store, self._folder(app_id))
            if path is None:
                break
            try:
                return load_manifest(self._store, path, self.kind)
            except NotFound:
                continue
            except Fault as error:
                self._log.error("log_manifest_refused", app=app_id, manifest=path, reason=error.message)
                # With its sequence, so that the next commit gets a name behind it.
                return Manifest(kind=self.kind, sequence=sequence_from_path(path))
        return Manifest(kind=self.kind, sequence=0)

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        return [name for name in self.schema.names if columns is None or name == "at" or name in columns]

    def _find_users(self, app_id: str, entry: FileEntry, names: Any) -> Any:
        """Return a mask of the rows of some users; None if the file is damaged."""
        table = self._table(app_id, entry, ["at", self.user_column])
        return None if table is None else pc.is_in(table[self.user_column], value_set=names)

    def _table(
        self,
        app_id: str,
        entry: FileEntry,
        columns: Sequence[str] | None = None,
        dictionaries: Sequence[str] = (),
    ) -> Any:
        """Return some columns of a file; None if it is damaged."""
        names = self._names(columns)
        try:
            path = f"{self._folder(app_id)}/{entry.name}"
            data = self._store.read_checked(path, size=entry.size, sha256=entry.sha256)
            file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(dictionaries))
            stored = set(file.schema_arrow.names)
            # Files of earlier releases lack the columns that were added since.
            missing = [name for name in self.added if name in names and name not in stored]
            present = [name for name in names if name not in missing]
            table = file.read(columns=present, use_threads=False)
            for name in missing:
                kind = self.schema.field(name).type
                empty = [] if pa.types.is_list(kind) else ""
                table = table.append_column(name, pa.array([empty] * table.num_rows, kind))
            encoded = {path.partition(".")[0] for path in dictionaries}
            kept = [
                table.schema.field(name) if name in encoded else self.schema.field(name) for name in names
            ]
            return table.select(names).cast(pa.schema(kept))
        except (Fault, pa.ArrowException, KeyError) as error:
            self._log.error("log_file_refused", app=app_id, file=entry.name, kind=type(error).__name__)
            return None

    def _write_days(self, app_id: str, table: Any) -> list[FileEntry]:
        """Write a file for each day of the rows."""
        numbers = pc.divide(table["at"], DAY_MS)
        return [
            self._write(app_id, name_day(number), table.filter(pc.equal(numbers, number)))
            for number in sorted(pc.unique(numbers).to_pylist())
        ]

    def _write(self, app_id: str, day: str, table: Any) -> FileEntry:
        sink = io.BytesIO()
        pq.write_table(table.sort_by("at"), sink, compression="zstd", **self.encodings)
        data = sink.getvalue()
        name = f"{day}-{self._clock.now_ms():013d}-{ids.new_request_id()}.parquet"
        self._store.write(f"{self._folder(app_id)}/{name}", data)
        span = pc.min_max(table["at"]).as_py()
        facts = {"day": day, "first": span["min"], "last": span["max"]}
        return FileEntry(name, len(data), checksum(data), table.num_rows, facts)

    def _commit(self, app_id: str, manifest: Manifest, files: Sequence[FileEntry], **facts: Any) -> None:
        retired = list_replaced_files(manifest, files)
        facts = {**manifest.facts, "app_id": app_id, **facts}
        oldest_ms = self._clock.now_ms() - ERASURE_MEMORY_MS
        # A longer memory than late rows need would be a list of erased people.
        facts["forgotten"] = {who: at for who, at in facts.get("forgotten", {}).items() if at > oldest_ms}
        following = replace(
            manifest,
            sequence=manifest.sequence + 1,
            written_at_ms=self._clock.now_ms(),
            facts=facts,
            files=tuple(sorted(files, key=lambda entry: (entry.facts["day"], entry.name))),
            retired=retired,
        )
        folder = self._folder(app_id)
        save_manifest(self._store, manifest_path(folder, following.sequence), following)
        for name in retired:
            self._store.remove(f"{folder}/{name}")
        self._store.remove(manifest_path(folder, manifest.sequence))

    def _folder(self, app_id: str) -> str:
        return f"{app_id}/{self.kind}"


def name_day(number: int) -> str:
    """Return the date of a day since 1970 (UTC), as files name it."""
    return f"{from_ms(number * DAY_MS):%Y-%m-%d}"


def _small(entries: Sequence[FileEntry]) -> list[FileEntry]:
    """Return the newest files up to one that is larger than all after it; none that holds very many rows."""
    ordered = sorted(entries, key=lambda entry: entry.name, reverse=True)
    chosen: list[FileEntry] = []
    rows = 0
    for entry in ordered:
        if entry.rows >= MOST_MERGED_ROWS or (len(chosen) >= MOST_FILES_A_DAY and entry.rows > rows):
            break
        chosen.append(entry)
        rows += entry.rows
    return chosen
