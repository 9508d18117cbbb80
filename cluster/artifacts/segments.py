"""Settled changes as Parquet segments, with the change-log offsets they cover.

    <app>/segments/manifest-<sequence>.json                      the newest one counts; written last, never changed
    <app>/segments/<noun>-<first>-to-<last>-<sequence>-<token>.parquet

Writing goes: segment files, then a new manifest under the next sequence, then removing what was replaced. A
crash at any point leaves the newest whole manifest and everything it names. Two writers can't both commit the
same sequence; the later one gets `Conflict` and starts again from what it finds. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from cluster import ids
from cluster.artifacts.compaction import MergeRules, latest_rows, merge_start, pieces
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.settled import SettledState, assemble_products
from cluster.artifacts.shelf import Shelf, checksum
from cluster.artifacts.tables import LOADED_INTERACTIONS, NOUNS, Noun, from_parquet, to_parquet
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, NotFound

T = TypeVar("T")

KIND = "segments"
_READ_TRIES = 5
_ORPHAN_AGE_MS = 3_600_000


def position(offset: str) -> tuple[int, int]:
    """Turn an offset (`<ms>-<n>`, or `"0"`) into something that compares in log order."""
    ms, _, n = offset.partition("-")
    return int(ms), int(n or 0)


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that was refused, and why."""

    path: str
    reason: str


class SegmentShelf:
    """Settled users, products and interactions of every app."""

    def __init__(self, shelf: Shelf, clock: Clock | None = None, rules: MergeRules | None = None) -> None:
        self._shelf = shelf
        self._clock: Clock = SystemClock() if clock is None else clock
        self._rules = MergeRules() if rules is None else rules
        self._log = structlog.get_logger()

    # --- reading ------------------------------------------------------------------------------------------

    def offsets(self, app_id: str) -> dict[str, str]:
        """Up to which offset each noun stands on the shelf; a noun that never settled is absent."""
        return dict(self._manifest(app_id).facts.get("offsets", {}))

    def load(self, app_id: str, *, salvage: bool = False) -> SettledState:
        """Read everything a recommender starts from.

        With `salvage`, damaged segments are left out and named in the result instead of failing the load.

        Errors:
            Fault: the manifest or (without `salvage`) a segment is damaged; fact `path`
        Cost:
            100,000 products with vectors (d = 128) and 1,000,000 interactions: about 2 s on one core
        """
        return self._stable(lambda: self._load(app_id, salvage))

    def records(self, app_id: str, noun: Noun, *, salvage: bool = False) -> list[bytes]:
        """Read the newest JSON of every record of a noun that was not removed."""

        def attempt() -> list[bytes]:
            damaged: list[Damage] = []
            tables = self._newest_first(app_id, self._manifest(app_id), noun, damaged if salvage else None)
            return [record for table in tables for record in table["json"].to_pylist()]

        return self._stable(attempt)

    def verify(self, app_id: str) -> list[Damage]:
        """Read and check every segment; say what would be refused."""
        damaged: list[Damage] = []

        def attempt() -> None:
            damaged.clear()
            for entry in self._manifest(app_id).files:
                self._table(app_id, entry, None, damaged)

        self._stable(attempt)
        return damaged

    # --- writing (one writer at a time, kept apart by a lease) -----------------------------------------------

    def append(self, app_id: str, noun: Noun, table: Any, *, first: str, last: str) -> bool:
        """Add the rows of the changes from `first` to `last`; an empty table only moves the offset.

        Returns False, and writes nothing, when the shelf already covers `last`.

        Errors:
            Fault: the range overlaps what is covered
            Conflict: another writer committed meanwhile
        """
        manifest = self._manifest(app_id)
        covered = manifest.facts.get("offsets", {}).get(noun, "0")
        if position(last) <= position(covered):
            return False
        if position(first) <= position(covered):
            raise Fault(f"changes {first} to {last} overlap what is settled up to {covered}")
        added = self._write(app_id, manifest, noun, [table], first, last)
        self._commit(app_id, manifest, (*manifest.files, *added), offsets={noun: last})
        return True

    def erase(self, app_id: str, noun: Noun, who: Sequence[str]) -> int:
        """Rewrite the segments that hold rows of these readers (interactions) or ids (records) without them.

        Returns how many rows went. Doing it again is harmless.

        Errors:
            Fault: a segment is damaged, so nobody can say whether it holds them
            Conflict: another writer committed meanwhile
        """
        manifest = self._manifest(app_id)
        column = "reader" if noun == "interaction" else "id"
        wanted = pa.array(list(who), pa.string())
        kept: list[FileEntry] = []
        replaced: list[str] = []
        erased = 0
        for entry in manifest.files:
            hit = entry.facts["noun"] == noun and self._holds(app_id, entry, column, wanted)
            if not hit:
                kept.append(entry)
                continue
            table = self._table(app_id, entry)
            rest = table.filter(pc.invert(pc.is_in(table[column], value_set=wanted)))
            erased += table.num_rows - rest.num_rows
            replaced.append(entry.name)
            facts = entry.facts
            kept += self._write(app_id, manifest, noun, [rest], facts["first"], facts["last"], facts["run"])
        if replaced:
            self._commit(app_id, manifest, kept, replaced=replaced)
        return erased

    def compact(self, app_id: str, noun: Noun, *, whole: bool = False) -> bool:
        """Merge the newest segments of a noun when that is worth it (`whole`: all of them in any case).

        Of records only the newest row of an id stays, and removals go once nothing older is left.

        Errors:
            Fault: a segment is damaged; it is left as it is
            Conflict: another writer committed meanwhile
        """
        manifest = self._manifest(app_id)
        files = [entry for entry in manifest.files if entry.facts["noun"] == noun]
        is_record = noun != "interaction"
        start = 0 if whole and files else merge_start(files, self._rules, keep_full=not is_record)
        if start is None:
            return False
        merged = files[start:]
        if is_record:
            newest_first = (self._table(app_id, entry) for entry in reversed(merged))
            tables: Iterable[Any] = latest_rows(newest_first, drop_gone=start == 0)
        else:
            tables = (self._table(app_id, entry) for entry in merged)
        first, last = merged[0].facts["first"], merged[-1].facts["last"]
        written = self._write(app_id, manifest, noun, pieces(tables, self._rules.piece_bytes), first, last)
        others = [entry for entry in manifest.files if entry.facts["noun"] != noun]
        replaced = [entry.name for entry in merged]
        self._commit(app_id, manifest, [*others, *files[:start], *written], replaced=replaced)
        self._log.info("segments_merged", app=app_id, noun=noun, merged=len(merged), into=len(written))
        return True

    def tidy(self, app_id: str) -> int:
        """Remove what interrupted writers left behind; return how many files went."""
        manifest = self._manifest(app_id)
        named = {entry.name for entry in manifest.files}
        before_ms = self._clock.now_ms() - _ORPHAN_AGE_MS
        gone = self._shelf.sweep_parts(_folder(app_id), before_ms)
        for entry in self._shelf.entries(_folder(app_id)):
            name = entry.path.rsplit("/", 1)[-1]
            orphan = name.endswith(".parquet") and name not in named
            left_over = orphan and (name in manifest.retired or entry.modified_ms < before_ms)
            outdated = _is_manifest(name) and entry.path < _manifest_path(app_id, manifest.sequence - 1)
            if left_over or outdated:
                gone += self._shelf.remove(entry.path)
        return gone

    def drop(self, app_id: str) -> None:
        """Remove everything of an app."""
        for entry in reversed(self._shelf.entries(_folder(app_id))):
            self._shelf.remove(entry.path)

    # --- inside -------------------------------------------------------------------------------------------

    def _load(self, app_id: str, salvage: bool) -> SettledState:
        manifest = self._manifest(app_id)
        damaged: list[Damage] = []
        spare = damaged if salvage else None
        interactions = [
            table
            for entry in manifest.files
            if entry.facts["noun"] == "interaction"
            and (table := self._table(app_id, entry, LOADED_INTERACTIONS.names, spare)) is not None
        ]
        products, embedder = assemble_products(self._newest_first(app_id, manifest, "product", spare))
        return SettledState(
            offsets=dict(manifest.facts.get("offsets", {})),
            products=products,
            embedder=embedder,
            interactions=pa.concat_tables([LOADED_INTERACTIONS.empty_table(), *interactions]),
            damaged=tuple(damage.path for damage in damaged),
        )

    def _newest_first(
        self, app_id: str, manifest: Manifest, noun: Noun, damaged: list[Damage] | None
    ) -> Iterator[Any]:
        entries = [entry for entry in reversed(manifest.files) if entry.facts["noun"] == noun]
        tables = (self._table(app_id, entry, None, damaged) for entry in entries)
        return latest_rows((table for table in tables if table is not None), drop_gone=True)

    def _table(
        self,
        app_id: str,
        entry: FileEntry,
        columns: Sequence[str] | None = None,
        damaged: list[Damage] | None = None,
    ) -> Any:
        path = f"{_folder(app_id)}/{entry.name}"
        try:
            data = self._shelf.read_checked(path, size=entry.size, sha256=entry.sha256)
            return from_parquet(data, entry.facts["noun"], columns)
        except Fault as error:
            self._log.error("segment_refused", app=app_id, segment=entry.name, reason=error.message)
            if damaged is None:
                raise Fault(f"segment is damaged and was refused: {error.message}", path=path) from error
            damaged.append(Damage(path, error.message))
            return None

    def _holds(self, app_id: str, entry: FileEntry, column: str, wanted: Any) -> bool:
        found = pc.any(pc.is_in(self._table(app_id, entry, [column])[column], value_set=wanted))
        return bool(found.as_py())

    def _write(
        self,
        app_id: str,
        manifest: Manifest,
        noun: Noun,
        tables: Iterable[Any],
        first: str,
        last: str,
        run: int | None = None,
    ) -> list[FileEntry]:
        sequence = manifest.sequence + 1
        facts = {"noun": noun, "first": first, "last": last, "run": sequence if run is None else run}
        written: list[FileEntry] = []
        for table in tables:
            if not table.num_rows:
                continue
            data = to_parquet(table)
            name = f"{noun}-{first}-to-{last}-{sequence:012d}-{ids.new_request_id()}.parquet"
            self._shelf.write(f"{_folder(app_id)}/{name}", data)
            written.append(FileEntry(name, len(data), checksum(data), table.num_rows, facts))
        return written

    def _manifest(self, app_id: str) -> Manifest:
        entries = self._shelf.entries(_folder(app_id))
        names = [entry.path for entry in entries if _is_manifest(entry.path)]
        if not names:
            return Manifest(kind=KIND, sequence=0)
        try:
            return Manifest.parse(self._shelf.read(names[-1]), kind=KIND)
        except NotFound:  # a newer one took its place since the listing
            return self._manifest(app_id)
        except Fault as error:
            self._log.error("manifest_refused", app=app_id, manifest=names[-1], reason=error.message)
            raise Fault(f"{error.message}: {names[-1]}", path=names[-1]) from error

    def _commit(
        self,
        app_id: str,
        manifest: Manifest,
        files: Sequence[FileEntry],
        *,
        offsets: dict[str, str] | None = None,
        replaced: Sequence[str] = (),
    ) -> None:
        order = {noun: at for at, noun in enumerate(NOUNS)}
        following = replace(
            manifest,
            sequence=manifest.sequence + 1,
            written_at_ms=self._clock.now_ms(),
            facts={"app_id": app_id, "offsets": {**manifest.facts.get("offsets", {}), **(offsets or {})}},
            files=tuple(sorted(files, key=lambda e: (order[e.facts["noun"]], position(e.facts["first"])))),
            retired=tuple(replaced),
        )
        self._shelf.write(_manifest_path(app_id, following.sequence), following.dump(), new=True)
        for name in replaced:
            self._shelf.remove(f"{_folder(app_id)}/{name}")
        self._shelf.remove(_manifest_path(app_id, manifest.sequence - 1))

    def _stable(self, attempt: Callable[[], T]) -> T:
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


def _folder(app_id: str) -> str:
    return f"{app_id}/segments"


def _manifest_path(app_id: str, sequence: int) -> str:
    return f"{_folder(app_id)}/manifest-{sequence:012d}.json"


def _is_manifest(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith("manifest-") and name.endswith(".json")
