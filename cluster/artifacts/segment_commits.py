"""Segment files and the manifest that names them: reading, writing and committing.

    <app>/segments/manifest-<sequence>.json                      the newest one is valid; written last, never changed
    <app>/segments/<noun>-<first>-to-<last>-<sequence>-<token>.parquet

A commit writes segment files, then a new manifest under the next sequence, then removes the replaced files. A
crash at any point leaves the newest complete manifest and all its files. Two writers can't both commit the
same sequence; the later one gets `Conflict` and starts again from the newest manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from cluster import ids
from cluster.artifacts.erasure_log import ErasureLog
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
)
from cluster.artifacts.segment_format import NOUNS, Noun, from_parquet, to_parquet
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.clock import Clock
from cluster.errors import Fault, NotFound
from cluster.ids import position_from_offset

KIND = "segments"
_READ_TRIES = 5


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A damaged file, and the reason."""

    path: str
    reason: str
    noun: Noun


class SegmentCommits:
    """The segments of one artifact store, file by file."""

    def __init__(self, store: ArtifactStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._log = structlog.get_logger()

    def manifest(self, app_id: str) -> Manifest:
        """Return the newest manifest; an app without one has an empty one of sequence 0.

        Errors:
            Fault: it is damaged; fact `path`
        """
        for _ in range(_READ_TRIES):
            path = newest_manifest(self._store, _folder(app_id))
            if path is None:
                return Manifest(kind=KIND, sequence=0)
            try:
                return load_manifest(self._store, path, KIND)
            except NotFound:  # a writer replaced it since the listing
                continue
            except Fault as error:
                self._log.error("manifest_refused", app=app_id, manifest=path, reason=error.message)
                raise Fault(f"{error.message}: {path}", path=path) from error
        raise Fault("the newest manifest of the segments keeps changing")

    def table(
        self,
        app_id: str,
        entry: FileEntry,
        columns: Sequence[str] | None = None,
        damaged: list[DamagedFile] | None = None,
    ) -> Any:
        """Return one segment. With a list `damaged`, a damaged one is appended to it and returned as None.

        Errors:
            Fault: damaged; fact `path`
        """
        path = f"{_folder(app_id)}/{entry.name}"
        noun: Noun = entry.facts["noun"]
        try:
            return from_parquet(
                self._store.read_copied(path, size=entry.size, sha256=entry.sha256), noun, columns
            )
        except Fault as error:
            self._log.error("segment_refused", app=app_id, segment=entry.name, reason=error.message)
            if damaged is None:
                raise Fault(f"segment is damaged and was refused: {error.message}", path=path) from error
            damaged.append(DamagedFile(path, error.message, noun))
            return None

    def write(
        self,
        app_id: str,
        manifest: Manifest,
        noun: Noun,
        tables: Iterable[Any],
        first: str,
        last: str,
        run: int | None = None,
    ) -> list[FileEntry]:
        """Write tables as segments that follow a manifest, and return them; the next manifest makes them valid."""
        sequence = manifest.sequence + 1
        facts = {"noun": noun, "first": first, "last": last, "run": sequence if run is None else run}
        written: list[FileEntry] = []
        for table in tables:
            if not table.num_rows:
                continue
            # One segment in memory at a time: `tables` is an iterator.
            data = to_parquet(table)
            # With a token: the files of a writer that loses the race for the sequence overwrite none of the
            # winner's.
            name = f"{noun}-{first}-to-{last}-{sequence:012d}-{ids.new_request_id()}.parquet"
            self._store.write(f"{_folder(app_id)}/{name}", data)
            written.append(FileEntry(name, len(data), checksum(data), table.num_rows, facts))
        return written

    def commit(
        self,
        app_id: str,
        manifest: Manifest,
        files: Sequence[FileEntry],
        *,
        offsets: dict[str, str] | None = None,
        erasures: ErasureLog | None = None,
    ) -> None:
        """Commit these files, and remove the files of the former manifest that are not among them.

        Errors:
            Conflict: another writer committed since that manifest was read
        """
        order = {noun: at for at, noun in enumerate(NOUNS)}
        retired = list_replaced_files(manifest, files)
        following = replace(
            manifest,
            sequence=manifest.sequence + 1,
            written_at_ms=self._clock.now_ms(),
            facts={
                **manifest.facts,
                "app_id": app_id,
                "offsets": {**manifest.facts.get("offsets", {}), **(offsets or {})},
                "erasures": (erasures or ErasureLog.of(manifest.facts)).to_dict(),
            },
            # In the order of offsets: for a reader, a later row of an id replaces the earlier ones.
            files=tuple(
                sorted(files, key=lambda e: (order[e.facts["noun"]], position_from_offset(e.facts["first"])))
            ),
            retired=retired,
        )
        folder = _folder(app_id)
        # The commit. Fails with `Conflict` if the sequence exists, so of two writers only one goes on.
        save_manifest(self._store, manifest_path(folder, following.sequence), following)
        # After the commit: a reader of the former manifest gets `NotFound` and starts again.
        for name in retired:
            self._store.remove(f"{folder}/{name}")
        # The former manifest stays: a process that has listed it may be about to read it.
        self._store.remove(manifest_path(folder, manifest.sequence - 1))

    def tidy(self, app_id: str, *, at_once: bool = False) -> int:
        """Remove files of interrupted writes, `at_once` also recent ones; return the number of files."""
        newest = self.manifest(app_id)
        # keep the manifest before the newest one: a process that has listed it may be about to read it
        return remove_incomplete_files(
            self._store,
            _folder(app_id),
            newest,
            oldest_kept=newest.sequence - 1,
            now_ms=self._clock.now_ms() + (ORPHAN_AGE_MS if at_once else 0),
        )

    def drop(self, app_id: str) -> None:
        for entry in reversed(self._store.entries(_folder(app_id))):
            self._store.remove(entry.path)


def _folder(app_id: str) -> str:
    return f"{app_id}/segments"
