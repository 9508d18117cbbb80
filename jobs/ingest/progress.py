"""The progress of an ingest on disk, from which an interrupted run continues, and its rejected rows.

    <state>/<run>/progress.json       replaced with each chunk: the written rows, and the chunk that follows
    <state>/<run>/quarantine.jsonl    one line per rejected row: file, row, reason, the beginning of the row
    <state>/<run>/about.json          app, noun and start of the ingest, to explain the quarantine
    <state>/<run>/lock                held by the process that executes the run

The id of the run depends on the files, the app, the noun and the mapping. A run over changed files is not continued.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from cluster.artifacts.storage.local_files import sync_folder
from cluster.errors import Conflict, Fault, Unavailable
from cluster.records.intake import ABOUT
from jobs.ingest.files.sources import SourceFile
from jobs.ingest.validation import RejectedRow


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """The position up to which all rows are written."""

    sources: tuple[tuple[str, int, int], ...]
    "(path, size, changed) of every file, in order."
    started_ms: int
    chunk: int = 0
    "Rows per chunk; a continued run must use the same chunks."
    chunk_bytes: int = 0
    "Bytes after which a chunk ends; 0 in runs of earlier releases, whose chunks end by rows alone."
    file: int = 0
    row: int = 0
    "Number of written rows of that file."
    rows: int = 0
    "Number of rows read from all files."
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    "Number of accepted records that could not be applied."
    quarantine_bytes: int = 0
    pending: dict[str, Any] = field(default_factory=dict)
    "For interactions: the announced chunk, and the end of the change log before it."
    finished: bool = False


class IngestRun:
    """The folder of one ingest run.

    Errors (all methods):
        Unavailable: the folder can't be written, or the disk is full
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.quarantine = folder / "quarantine.jsonl"
        self._progress = folder / "progress.json"

    @classmethod
    def of(cls, state_dir: Path, *what: str) -> IngestRun:
        """Return the run whose id is derived from its parameters."""
        # NUL occurs in no path and no rule, so different parameters never join to the same text.
        name = hashlib.sha256("\0".join(what).encode()).hexdigest()[:16]
        return cls(state_dir / name)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run against other processes; the operating system releases the lock of a dead process.

        Errors:
            Conflict: another process executes the run
        """
        with self._explain_disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("wb")
        with lock:
            try:
                # Of the open file, not of its name: the system releases it when the process dies, also by
                # SIGKILL.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Conflict(
                    "another process is at work on this very ingest; wait until it ends"
                ) from error
            except OSError:
                # a file system without locks: continue without one
                pass
            yield

    def record_start(self, app_id: str, noun: str, now_ms: int) -> None:
        """Record the app, the noun and the start of the ingest next to the quarantine."""
        with self._explain_disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            about = {"app_id": app_id, "noun": noun, "at": now_ms}
            (self.folder / ABOUT).write_bytes(orjson.dumps(about))

    def reset(self) -> None:
        """Delete the progress, so that the next ingest begins at the first row.

        Errors:
            Conflict: another process executes the run
        """
        with self.lock():
            self.delete()

    def delete(self) -> None:
        """Delete the progress of a run that the caller holds."""
        with self._explain_disk_errors():
            self._progress.unlink(missing_ok=True)

    def begin(
        self,
        sources: Sequence[SourceFile],
        now_ms: int,
        *,
        restart: bool,
        once: bool = False,
        chunk: int = 0,
        chunk_bytes: int = 0,
    ) -> IngestProgress:
        """Return the progress of an unfinished run over the same files, else that of a new run.

        With `once`, a finished run over the same files stays finished. So a second start by accident, or after a crash
        at the end, repeats nothing.

        Errors:
            Conflict: an unfinished run read other contents under the same names
        """
        # Size and time stand for the contents; a checksum would read every file a second time.
        facts = tuple((source.path, source.size, source.changed_ms) for source in sources)
        before = None if restart else self._read()
        if before is not None and before.finished and once and before.sources == facts:
            return before
        if before is not None and not before.finished:
            if before.sources != facts:
                raise Conflict(
                    "the files changed since this ingest was interrupted; restart it from the beginning"
                )
            # Lines behind this size belong to a chunk whose end was not recorded; the chunk is read and
            # refused again.
            self._cut_quarantine(before.quarantine_bytes)
            return before
        self._cut_quarantine(0)
        fresh = IngestProgress(facts, now_ms, chunk, chunk_bytes)
        self.save(fresh)
        return fresh

    def save(self, progress: IngestProgress) -> None:
        """Replace the progress on disk atomically; it survives a power loss."""
        part = self._progress.with_suffix(".part")
        with self._explain_disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as stream:
                stream.write(orjson.dumps(asdict(progress)))
                stream.flush()
                # Before the rename: after a power loss the name must not point at bytes that were never written.
                os.fsync(stream.fileno())
            # A process that dies while writing leaves the old progress, not half of the new one.
            part.replace(self._progress)
            # A chunk is written only after its announcement: the rename itself is durable only once the folder is.
            sync_folder(self.folder)

    def quarantine_rows(
        self,
        progress: IngestProgress,
        file: str,
        refused: Sequence[RejectedRow],
        also: Sequence[RejectedRow] = (),
    ) -> IngestProgress:
        """Write rejected rows to the quarantine; return the progress that counts them.

        `also` is written and not counted: accepted records that could not be applied.
        """
        lines = [
            orjson.dumps({"file": file, "row": bad.row, "reason": bad.reason, "text": bad.text}) + b"\n"
            for bad in (*refused, *also)
        ]
        if not lines:
            return progress
        data = b"".join(lines)
        with self._explain_disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Before the progress that counts these bytes: a crash in between leaves lines that the next run
            # cuts off.
            with self.quarantine.open("ab") as stream:
                stream.write(data)
                stream.flush()
                # The progress that counts these bytes survives a power loss, so they must too.
                os.fsync(stream.fileno())
        return replace(
            progress,
            refused=progress.refused + len(refused),
            quarantine_bytes=progress.quarantine_bytes + len(data),
        )

    def _read(self) -> IngestProgress | None:
        try:
            fields = orjson.loads(self._progress.read_bytes())
            fields["sources"] = tuple(tuple(fact) for fact in fields["sources"])
            return IngestProgress(**fields)
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise Fault(f"progress in {self._progress} can't be read; restart the ingest") from error

    def _cut_quarantine(self, size: int) -> None:
        """Remove the lines of a chunk that is read again."""
        with self._explain_disk_errors():
            if self.quarantine.exists():
                os.truncate(self.quarantine, size)

    @contextlib.contextmanager
    def _explain_disk_errors(self) -> Iterator[None]:
        """Raise `Unavailable` with an explanation of a disk error.

        Recorded progress stays, so the ingest can continue later.
        """
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"progress can't be kept in {self.folder}: {error.strerror or error}; free space there or name "
                "another folder with --state"
            ) from error


def check_disk_space(
    why_full: Callable[[], str], show: Callable[[IngestProgress], None]
) -> Callable[[IngestProgress], None]:
    """Return a callback that shows progress, and raises `Unavailable` if the disk is full."""

    def watch(progress: IngestProgress) -> None:
        if reason := why_full():
            raise Unavailable(f"{reason} The same command goes on where this one stopped.")
        show(progress)

    return watch
