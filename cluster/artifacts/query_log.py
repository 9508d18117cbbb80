"""The query log in the artifact store: Parquet files by day, beside the segments of an app.

    <app>/queries/manifest-<sequence>.json           the newest one is valid; written last, never changed
    <app>/queries/<day>-<sequence>-<token>.parquet   queries of one day (UTC), oldest first

The intake's lease allows one writer at a time. The log only serves statistics, so a damaged file is dropped
instead of stopping other work. All methods block: call them from a thread.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog

from cluster import ids
from cluster.artifacts.artifact_store import ArtifactStore, checksum
from cluster.artifacts.manifest import FileEntry, Manifest, load_manifest, save_manifest
from cluster.artifacts.manifest_commits import (
    ORPHAN_AGE_MS,
    list_replaced_files,
    manifest_path,
    newest_manifest,
    sequence_from_path,
    tidy_folder,
)
from cluster.clock import Clock, SystemClock, from_ms
from cluster.errors import Fault, NotFound
from cluster.records.logged_query import LoggedQuery

KIND = "queries"
MOST_FILES_A_DAY = 8
"Number of small files of a day that triggers their merge."
ERASURE_MEMORY_MS = 3_600_000
"How long erased users are remembered, for queries that arrive late."
TYPING_MS = 2_000
"A completion query that another follows within this time is a keystroke, not a final query."
_READ_TRIES = 5

COLUMNS = pa.schema(
    [
        ("at", pa.int64()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("total", pa.int64()),
        ("language", pa.string()),
        ("served_by", pa.string()),
        ("engine_id", pa.string()),
        ("took_ms", pa.float64()),
        ("reader", pa.string()),
        ("origin", pa.string()),
        ("written", pa.string()),
    ]
)
"`at` is milliseconds since 1970; `reader` is a pseudonym, empty when the user is unknown."
_ADDED = ("origin", "written")
"Columns that files of earlier releases lack: empty for them."


class QueryLogStore:
    """The compacted queries of every app in one artifact store."""

    def __init__(self, store: ArtifactStore, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = SystemClock() if clock is None else clock
        self._log = structlog.get_logger()

    def last_offset(self, app_id: str) -> str:
        """Return the offset of the last compacted batch; `"0"` before the first."""
        return str(self._manifest(app_id).facts.get("offset", "0"))

    def read(self, app_id: str, since_ms: int, until_ms: int = 1 << 62) -> Any:
        """Return the queries of a time range from undamaged files: a table with `COLUMNS`, oldest first.

        Errors:
            Fault: the newest manifest keeps changing
        """
        for _ in range(_READ_TRIES):
            tables = [COLUMNS.empty_table()]
            try:
                for entry in self._manifest(app_id).files:
                    if entry.facts["last"] < since_ms or entry.facts["first"] > until_ms:
                        continue
                    table = self._table(app_id, entry)
                    if table is not None:
                        tables.append(table)
            except NotFound:  # a writer replaced the file during the read
                continue
            inside = pa.concat_tables(tables)
            is_inside = pc.and_(
                pc.greater_equal(inside["at"], since_ms), pc.less_equal(inside["at"], until_ms)
            )
            return inside.filter(is_inside).sort_by("at")
        raise Fault("the newest manifest of the queries keeps changing")

    def commit(self, app_id: str) -> Manifest:
        """Return the newest commit, for `days`."""
        return self._manifest(app_id)

    def days(self, app_id: str, commit: Manifest, since_ms: int) -> Iterator[Any]:
        """Yield the queries of one commit day by day; tables with `COLUMNS`, oldest first.

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
                    raise Fault(f"a file of the query log is damaged: {entry.name}")
                tables.append(table.filter(pc.greater_equal(table["at"], since_ms)))
            yield pa.concat_tables(tables).sort_by("at")

    def rows_of(self, app_id: str, pseudonyms: Sequence[str]) -> list[dict[str, Any]]:
        """Return the queries of some users (pseudonyms), oldest first."""
        table = self.read(app_id, 0)
        rows: list[dict[str, Any]] = table.filter(
            pc.is_in(table["reader"], value_set=pa.array(list(pseudonyms), pa.string()))
        ).to_pylist()
        return rows

    def append(self, app_id: str, queries: Iterable[LoggedQuery], last: str) -> int:
        """Append queries of the batches up to `last`, without those of erased users; return their number.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self._manifest(app_id)
        by_day: defaultdict[str, list[LoggedQuery]] = defaultdict(list)
        for query in without_erased(queries, manifest):
            by_day[f"{from_ms(query.at):%Y-%m-%d}"].append(query)
        files = list(manifest.files)
        for day, some in sorted(by_day.items()):
            files.append(self._write(app_id, day, table_from_queries(some)))
        self._commit(app_id, manifest, files, offset=last)
        return sum(map(len, by_day.values()))

    def delete(self, app_id: str, pseudonyms: Sequence[str]) -> int:
        """Delete all queries of these users (pseudonyms), also those that arrive later but were sent before now.

        Returns the number deleted; idempotent. A damaged file is deleted whole, because its users are unknown.
        """
        manifest = self._manifest(app_id)
        now_ms = self._clock.now_ms()
        gone, kept = 0, []
        value_set = pa.array(list(pseudonyms), pa.string())
        for entry in manifest.files:
            table = self._table(app_id, entry)
            if table is None:
                gone += entry.rows
                continue
            rest = table.filter(pc.invert(pc.is_in(table["reader"], value_set=value_set)))
            if rest.num_rows == table.num_rows:
                kept.append(entry)
                continue
            gone += table.num_rows - rest.num_rows
            if rest.num_rows:
                kept.append(self._write(app_id, entry.facts["day"], rest))
        forgotten = manifest.facts.get("forgotten", {})
        self._commit(app_id, manifest, kept, forgotten={**forgotten, **dict.fromkeys(pseudonyms, now_ms)})
        return gone

    def drop_before(self, app_id: str, oldest_ms: int) -> int:
        """Delete the days that ended before a time, and merge small files of a day; return the rows deleted."""
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
            self._commit(app_id, manifest, kept)
        return sum(entry.rows for entry in manifest.files) - sum(entry.rows for entry in young)

    def tidy(self, app_id: str, *, at_once: bool = False) -> int:
        """Remove files of interrupted writes, `at_once` also recent ones; return the number of files."""
        newest = self._manifest(app_id)
        now_ms = self._clock.now_ms() + (ORPHAN_AGE_MS if at_once else 0)
        return tidy_folder(self._store, _folder(app_id), newest, oldest_kept=newest.sequence, now_ms=now_ms)

    def _manifest(self, app_id: str) -> Manifest:
        """Return the newest manifest; a damaged one counts as empty, and the next commit replaces it."""
        for _ in range(_READ_TRIES):
            path = newest_manifest(self._store, _folder(app_id))
            if path is None:
                break
            try:
                return load_manifest(self._store, path, KIND)
            except NotFound:
                continue
            except Fault as error:
                self._log.error("query_log_refused", app=app_id, manifest=path, reason=error.message)
                return Manifest(kind=KIND, sequence=sequence_from_path(path))
        return Manifest(kind=KIND, sequence=0)

    def _table(self, app_id: str, entry: FileEntry) -> Any:
        try:
            path = f"{_folder(app_id)}/{entry.name}"
            data = self._store.read_checked(path, size=entry.size, sha256=entry.sha256)
            table = pq.read_table(pa.BufferReader(data), use_threads=False)
            for name in _ADDED:
                if name not in table.column_names:
                    table = table.append_column(name, pa.array([""] * table.num_rows, pa.string()))
            return table.select(COLUMNS.names).cast(COLUMNS)
        except (Fault, pa.ArrowException, KeyError) as error:
            self._log.error("query_file_refused", app=app_id, file=entry.name, kind=type(error).__name__)
            return None

    def _write(self, app_id: str, day: str, table: Any) -> FileEntry:
        sink = io.BytesIO()
        repeating = ["kind", "language", "served_by", "engine_id", "reader", "text"]
        pq.write_table(table.sort_by("at"), sink, compression="zstd", use_dictionary=repeating)
        data = sink.getvalue()
        name = f"{day}-{self._clock.now_ms():013d}-{ids.new_request_id()}.parquet"
        self._store.write(f"{_folder(app_id)}/{name}", data)
        span = pc.min_max(table["at"]).as_py()
        facts = {"day": day, "first": span["min"], "last": span["max"]}
        return FileEntry(name, len(data), checksum(data), table.num_rows, facts)

    def _commit(self, app_id: str, manifest: Manifest, files: Sequence[FileEntry], **facts: Any) -> None:
        retired = list_replaced_files(manifest, files)
        facts = {**manifest.facts, "app_id": app_id, **facts}
        oldest_ms = self._clock.now_ms() - ERASURE_MEMORY_MS
        facts["forgotten"] = {who: at for who, at in facts.get("forgotten", {}).items() if at > oldest_ms}
        following = replace(
            manifest,
            sequence=manifest.sequence + 1,
            written_at_ms=self._clock.now_ms(),
            facts=facts,
            files=tuple(sorted(files, key=lambda entry: (entry.facts["day"], entry.name))),
            retired=retired,
        )
        folder = _folder(app_id)
        save_manifest(self._store, manifest_path(folder, following.sequence), following)
        for name in retired:
            self._store.remove(f"{folder}/{name}")
        self._store.remove(manifest_path(folder, manifest.sequence))


def without_erased(queries: Iterable[LoggedQuery], commit: Manifest) -> list[LoggedQuery]:
    """Return the queries whose users were not erased after they sent them."""
    forgotten: Mapping[str, int] = commit.facts.get("forgotten", {})
    return [
        query
        for query in drop_keystrokes(queries)
        if not (query.reader and query.at <= forgotten.get(query.reader, -1))
    ]


def drop_keystrokes(queries: Iterable[LoggedQuery]) -> list[LoggedQuery]:
    """Return the final queries, without the keystrokes before them.

    A completion query is final unless its user continues typing within two seconds. For unknown users (many may
    share one server), one of the two texts must also be a prefix of the other.
    """
    ordered = sorted(queries, key=lambda query: query.at)
    following: dict[str, LoggedQuery] = {}
    kept: list[LoggedQuery] = []
    for query in reversed(ordered):
        if query.kind == "autocomplete":
            later = following.get(query.typist)
            if query.typist:
                following[query.typist] = query
            if later is not None and _is_continued_by(query, later):
                continue
        kept.append(query)
    kept.reverse()
    return kept


def _is_continued_by(query: LoggedQuery, later: LoggedQuery) -> bool:
    if later.at - query.at > TYPING_MS:
        return False
    begins = later.text.startswith(query.text) or query.text.startswith(later.text)
    return bool(query.reader) or (begins and later.text != query.text)


def _small(entries: Sequence[FileEntry]) -> list[FileEntry]:
    """Return the newest files up to one that is larger than all after it."""
    ordered = sorted(entries, key=lambda entry: entry.name, reverse=True)
    chosen: list[FileEntry] = []
    rows = 0
    for entry in ordered:
        if len(chosen) >= MOST_FILES_A_DAY and entry.rows > rows:
            break
        chosen.append(entry)
        rows += entry.rows
    return chosen


def table_from_queries(queries: Sequence[LoggedQuery]) -> Any:
    """Return queries as a table with `COLUMNS`."""
    columns = [
        pa.array([getattr(query, name) for query in queries], COLUMNS.field(name).type)
        for name in COLUMNS.names
    ]
    return pa.table(columns, schema=COLUMNS)


def _folder(app_id: str) -> str:
    return f"{app_id}/queries"
