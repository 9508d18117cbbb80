"""The ingest of files in this process, without Ray: read, map, validate, write, and record the progress.

A thread reads and validates the next chunk while the previous one is written. Users and products go through the
intake. The holder of the intake lease applies them; if there is none, this process does.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import Embedder, HashingEmbedder
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock, SystemClock
from cluster.errors import Invalid, KioskError, NotFound, ReadOnly, messages
from cluster.ids import new_request_id
from cluster.meter import Meter, SilentMeter
from cluster.records.erasure import RemovedRecords
from cluster.records.intake import Noun
from cluster.store.app_quotas import check_stored_bytes
from cluster.store.stores import Stores
from jobs.ingest.files import sources as reading
from jobs.ingest.files.chunks import CHUNK_BYTES, ReadBounds
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.mappings.mapping import FieldMap, RowMapper
from jobs.ingest.mappings.row_baskets import BasketFiles
from jobs.ingest.progress import IngestProgress, IngestRun
from jobs.ingest.validation import (
    AcceptedPart,
    CheckedChunk,
    ReasonCounter,
    RejectedRow,
    RejectionReason,
    build_chunk_check,
    find_warnings,
    prepare_mapping,
    validate_without_erased_rows,
)
from jobs.ingest.writing import InteractionWriter, RecordWriter, StoreRetry, SubmittedChunk

IngestCallback = Callable[[IngestProgress], None]

MOST_REJECTED_FIRST_ROWS = 1_000
"Number of rows after which an ingest stops if none was accepted."


@dataclass(frozen=True, slots=True)
class IngestSpec:
    """The parameters of an ingest."""

    address: str
    "A file, a directory, or a URI of either."
    noun: Noun
    app_id: str
    mapping: tuple[str, ...] = ()
    format: reading.Format | None = None
    chunk: int = 500
    "Rows that are validated and written together, at most."
    chunk_bytes: int = CHUNK_BYTES
    "Bytes after which such a chunk ends."
    decoded_bytes: int = 0
    "Bytes that a file may hold after decompression and decoding; 0: any number."
    window: int = 8
    "Maximum number of chunks in the intake."
    patience_s: float = 600.0
    "Seconds to wait for a store that does not answer."
    layout: DelimitedFormat = field(default_factory=DelimitedFormat)
    limit: int = 0
    "Maximum number of rows; 0: all."
    keep_going: bool = False
    "Continue even if none of the first rows was accepted."
    title: str = ""
    "Name of the file in the quarantine, for an upload whose path means nothing to people; empty: its path."
    erased: RemovedRecords | None = None
    "Whose rows are refused: people that were erased after the file was uploaded; None: since the start of the run."


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of an ingest."""

    rows: int
    accepted: int
    refused: int
    failed: int
    seconds: float
    "Duration of this run, without earlier interrupted runs."
    quarantine: Path | None
    "File of the rejected rows, None if there are none."
    already: bool = False
    "True if an earlier run had ingested everything."
    reasons: tuple[RejectionReason, ...] = ()
    "The most frequent reasons of this run, in descending order."
    warnings: tuple[str, ...] = ()

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


async def ingest(
    order: IngestSpec,
    stores: Stores,
    *,
    state_dir: Path,
    segments: SegmentStore | None = None,
    embedder: Embedder | None = None,
    restart: bool = False,
    clock: Clock | None = None,
    meter: Meter | None = None,
    watch: IngestCallback | None = None,
    files: reading.RowFiles | None = None,
) -> IngestReport:
    """Ingest files of any size and return the report; after an interruption, continue from the last progress.

    Unchanged files whose interactions are ingested already are skipped, unless `restart` is set. Users and products
    replace earlier records. An interrupted run continues with its original chunk size, and refuses rows of people who
    were erased since its start.

    `segments` lets a continued ingest find interactions that were compacted meanwhile. `watch` is called after every
    chunk.

    Errors:
        Invalid: the address, the format or the mapping is invalid, or none of the first rows was accepted
        NotFound: the app does not exist
        ReadOnly: the app is a playground
        Forbidden: the app reached its bound on storage, or the next chunk passes its bound on records
        Conflict: the files changed since the interruption of the ingest, or another process executes the run
    Cost:
        one core: see tests/benchmarks; memory is bounded by a few chunks
    """
    clock = SystemClock() if clock is None else clock
    mapping = FieldMap.parse(order.mapping, order.noun)
    source: reading.RowFiles = reading.PlainFiles(order.format, order.layout) if files is None else files
    sources = await asyncio.to_thread(source.find, order.address)
    chunk, chunk_bytes = mapping.compute_chunk_limits(order.chunk, order.chunk_bytes)
    warnings: list[str] = []
    if files is None:
        mapping, warnings = await asyncio.to_thread(prepare_mapping, mapping, sources, source)
    patience = StoreRetry(order.patience_s, clock, random.Random())
    book = await patience.call(stores.access.read_all)
    if order.app_id not in book.apps:
        raise NotFound(
            f"there is no app {order.app_id!r}; there are {', '.join(sorted(book.apps)) or 'none'}"
        )
    app = book.apps[order.app_id]
    if app.read_only:
        raise ReadOnly(f"{messages.PLAYGROUND} Name another app with --app.")
    if app.settings.max_storage_mb:
        check_stored_bytes(app, await patience.call(lambda: stores.usage.stored_bytes(app.app_id)))
    run = run_from_order(order, state_dir)
    with run.lock():
        now_ms = clock.now_ms()
        progress = await asyncio.to_thread(
            run.begin,
            sources,
            now_ms,
            restart=restart,
            once=order.noun == "interaction",
            chunk=chunk,
            chunk_bytes=chunk_bytes,
        )
        if progress.finished:
            return _build_report(run, progress, 0, 0.0, already=True)
        await asyncio.to_thread(run.record_start, order.app_id, order.noun, progress.started_ms)
        order = await _continue_order(order, progress, stores, patience, now_ms)
        if files is None:
            bounds = ReadBounds(progress.chunk_bytes, order.decoded_bytes)
            source = reading.PlainFiles(order.format, order.layout, bounds)
        baskets = _join_rows(source, mapping, order, progress.chunk_bytes)
        rows_of = source if baskets is None else baskets
        work = _IngestTask(order, run, progress, sources, rows_of, mapping, clock, watch or (lambda _: None))
        started_s = clock.monotonic_s()
        if order.noun == "interaction":
            await work.interactions(InteractionWriter(stores, order.app_id, segments, patience, order.erased))
        else:
            loop = IntakeLoop(
                stores,
                segments,
                HashingEmbedder() if embedder is None else embedder,
                clock,
                SilentMeter() if meter is None else meter,
                owner=f"ingest {new_request_id()}",
            )
            await _apply_in_process(
                loop, work.records(RecordWriter(stores, app, order.noun, clock, patience))
            )
        done = work.finish()
        report = _build_report(run, done, done.rows - progress.rows, clock.monotonic_s() - started_s)
        warnings += [*work.warnings, *(baskets.report.warnings() if baskets is not None else ())]
        return replace(report, reasons=work.reasons.most_frequent(), warnings=tuple(dict.fromkeys(warnings)))


async def _continue_order(
    order: IngestSpec, progress: IngestProgress, stores: Stores, patience: StoreRetry, now_ms: int
) -> IngestSpec:
    """Return the order of a run: with its chunks, and who was erased or deleted since its start.

    A continued run must bring none of them back.
    """
    erased = order.erased
    app_id = order.app_id
    noun = order.noun
    since_ms = progress.started_ms
    if erased is None:
        erased = await patience.call(lambda: stores.erasures.erased_since(app_id, since_ms))
    # A new run takes all rows, also if the clock of the replica that accepted a delete is ahead.
    is_new = progress.started_ms == now_ms
    if noun == "interaction" and not is_new:
        erased.add(await patience.call(lambda: stores.interactions.deleted_since(app_id, since_ms)))
    elif not is_new:
        erased.add(await patience.call(lambda: stores.intake.deleted_since(app_id, noun, since_ms)))
    return replace(order, chunk=progress.chunk or order.chunk, erased=erased)


def run_from_order(order: IngestSpec, state_dir: Path) -> IngestRun:
    """Return the run of an order; the same files and reading options give the same run for any form of the address."""
    address = order.address
    if "://" not in address:
        address = str(Path(address).expanduser().resolve())
    layout = (order.layout.delimiter, order.layout.encoding) if order.layout != DelimitedFormat() else ()
    limit = (f"limit {order.limit}",) if order.limit else ()
    return IngestRun.of(
        state_dir, order.app_id, order.noun, address, order.format or "", *order.mapping, *layout, *limit
    )


def _join_rows(
    files: reading.RowFiles, mapping: FieldMap, order: IngestSpec, chunk_bytes: int
) -> BasketFiles | None:
    """Return the source of joined rows, None if no rule joins them; a limit counts rows before they are joined."""
    if mapping.order_rule is None:
        return None
    rows = reading.FirstRows(files, order.limit) if order.limit else files
    return BasketFiles(rows, mapping, chunk_bytes)


async def _apply_in_process(loop: IntakeLoop, writing: Coroutine[Any, Any, None]) -> None:
    """Apply the intake in this process while chunks are written, unless another process holds the lease."""
    # Without a cluster nobody else would apply the chunks, and the window would never empty.
    applying = asyncio.create_task(loop.run())
    try:
        await writing
    finally:
        loop.stop()
        await applying


def _build_report(
    run: IngestRun, done: IngestProgress, rows: int, seconds: float, *, already: bool = False
) -> IngestReport:
    return IngestReport(
        rows=rows,
        accepted=done.accepted,
        refused=done.refused,
        failed=done.failed,
        seconds=seconds,
        quarantine=run.quarantine if done.refused or done.failed else None,
        already=already,
    )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A validated chunk, and the progress after it."""

    checked: CheckedChunk[Any]
    file: int
    first: int
    rows: int


class _IngestTask:
    """The execution of one run."""

    def __init__(
        self,
        order: IngestSpec,
        run: IngestRun,
        progress: IngestProgress,
        sources: Sequence[reading.SourceFile],
        files: reading.RowFiles,
        mapping: FieldMap,
        clock: Clock,
        watch: IngestCallback,
    ) -> None:
        self._order = order
        self._run = run
        self._progress = progress
        self._sources = sources
        self._files = files
        self._mapping = mapping
        self._clock = clock
        self._watch = watch
        self.reasons = ReasonCounter()
        self.warnings: list[str] = []
        self._last = ""
        "Offset of the last appended interactions, empty if unknown."
        self._log = structlog.get_logger()

    async def records(self, writer: RecordWriter) -> None:
        """Ingest users or products: several chunks are in the intake, and their progress is recorded in order."""
        waiting: deque[tuple[_Chunk, list[SubmittedChunk], list[RejectedRow]]] = deque()

        async def hand(chunk: _Chunk) -> None:
            handed: list[SubmittedChunk] = []
            refused = list(chunk.checked.refused)
            for part in chunk.checked.parts:
                submitted, clashing = await writer.submit(part)
                refused += clashing
                handed += [submitted] if submitted is not None else []
            waiting.append((chunk, handed, refused))
            # The oldest chunk is awaited, not any: the progress is one position, behind which nothing may
            # be open.
            if len(waiting) >= self._order.window:
                await self._finish_chunk(writer, *waiting.popleft())

        await self._process_chunks(hand)
        while waiting:
            await self._finish_chunk(writer, *waiting.popleft())

    async def interactions(self, writer: InteractionWriter) -> None:
        """Ingest interactions one chunk after the other, each exactly once.

        One write to disk records the appended chunk and announces the next one. After a crash, the next run looks for
        the announced chunk in the change log.
        """

        async def append(chunk: _Chunk) -> None:
            for part in chunk.checked.parts:
                await self._append(writer, chunk, part)
            accepted = sum(part.accepted.count for part in chunk.checked.parts)
            # Saved with the announcement of the next chunk. A chunk without parts announces nothing, so it
            # is saved here.
            self._record_chunk(chunk, accepted, 0, chunk.checked.refused, later=bool(chunk.checked.parts))

        try:
            await self._process_chunks(append)
        except KioskError:
            # Nothing accepted: `_check_first_rows` may have deleted the run, and saving would bring it
            # back.
            if self._progress.accepted:
                self._run.save(self._progress)
            raise

    def finish(self) -> IngestProgress:
        """Record the end of the ingest and return the progress."""
        self._progress = replace(self._progress, finished=True)
        self._run.save(self._progress)
        self._watch(self._progress)
        return self._progress

    async def _append(self, writer: InteractionWriter, chunk: _Chunk, part: AcceptedPart[Any]) -> None:
        place = [chunk.file, chunk.first, part.number]
        pending = self._progress.pending
        if pending and pending["place"] > place:
            return  # ingested before the interruption
        # The crash came between the announcement and the recorded end: only the log knows whether the
        # append happened.
        if pending and pending["place"] == place:
            after = pending["after"]
            if await writer.is_appended(part.accepted, after):
                self._log.info("chunk_already_in", app=self._order.app_id, row=chunk.first)
                return
        else:
            # Read before the append: the chunk can only stand behind this offset, so a later search starts
            # here.
            after = self._last or await writer.read_log_end()
            self._progress = replace(self._progress, pending={"place": place, "after": after})
            self._run.save(self._progress)
        self._last = await writer.append(part.accepted, after)

    async def _finish_chunk(
        self,
        writer: RecordWriter,
        chunk: _Chunk,
        handed: Sequence[SubmittedChunk],
        refused: Sequence[RejectedRow],
    ) -> None:
        accepted = failed = 0
        lost: list[RejectedRow] = []
        for submitted in handed:
            task = await writer.wait_for_task(submitted)
            accepted += task.succeeded
            failed += task.failed
            if task.failed:
                # The task counts failed records and does not name them, so the chunk's first row stands for
                # all of them.
                reason = task.errors[-1] if task.errors else "could not be applied"
                lost.append(
                    RejectedRow(
                        submitted.rows[0],
                        f"{task.failed} of {submitted.records} records failed: {reason}",
                        "",
                    )
                )
        self._record_chunk(chunk, accepted, failed, refused, lost)

    def _record_chunk(
        self,
        chunk: _Chunk,
        accepted: int,
        failed: int,
        refused: Sequence[RejectedRow],
        lost: Sequence[RejectedRow] = (),
        *,
        later: bool = False,
    ) -> None:
        """Record the end of a chunk, on disk unless `later` is set."""
        name = self._order.title or self._sources[chunk.file].path
        self.reasons.add((*refused, *lost))
        progress = self._run.quarantine_rows(self._progress, name, refused, lost)
        self._progress = replace(
            progress,
            file=chunk.file,
            row=chunk.first + chunk.rows,
            rows=progress.rows + chunk.rows,
            accepted=progress.accepted + accepted,
            failed=progress.failed + failed,
        )
        if not later:
            self._run.save(self._progress)
        self._watch(self._progress)
        self._check_first_rows()

    def _check_first_rows(self) -> None:
        """Stop if none of the first rows was accepted, because then the mapping or the format is wrong."""
        done = self._progress
        if done.rows < MOST_REJECTED_FIRST_ROWS or done.accepted or self._order.keep_going:
            return
        (worst,) = self.reasons.most_frequent(1)
        # The corrected ingest must begin at the first row; with the progress kept, it would skip the rows
        # that were refused.
        self._run.delete()
        raise Invalid(
            f"none of the first {done.rows:,} rows was accepted; {worst.count:,} of them because: {worst.text} "
            f"(for example row {worst.row:,}: {worst.example[:200]}). Correct the mapping (try it with --dry-run), "
            "or read on with --keep-going"
        )

    async def _process_chunks(self, act: Callable[[_Chunk], Awaitable[None]]) -> None:
        """Call `act` with each chunk, while a thread reads and validates the next one."""
        chunks = self._read_checked_chunks()
        coming = asyncio.create_task(asyncio.to_thread(next, chunks, None))
        try:
            while (chunk := await coming) is not None:
                # Started before the write, so that both overlap; at most one chunk is read ahead.
                coming = asyncio.create_task(asyncio.to_thread(next, chunks, None))
                await act(chunk)
        finally:
            # A thread can't be cancelled: it is awaited, or it would read on in a file that the caller
            # closes or removes.
            await asyncio.gather(coming, return_exceptions=True)

    def _read_checked_chunks(self) -> Iterator[_Chunk]:
        """Yield validated chunks after the recorded progress."""
        start = self._progress.file
        skip = self._progress.row
        # The start of the first run, so that a continued run gives rows without a time the same bytes as
        # before.
        now_ms = self._progress.started_ms
        check = build_chunk_check(self._order.noun, self._mapping, now_ms)
        read_rows = self._progress.rows
        for file in range(start, len(self._sources)):
            source = self._sources[file]
            # joined rows are records already
            is_joined = self._mapping.order_rule is not None
            read: RowMapper = dict if is_joined else self._mapping.build_row_mapper(source.format)
            for first, rows in self._files.chunks(source, self._order.chunk, skip if file == start else 0):
                if self._order.limit:
                    rows = rows[: self._order.limit - read_rows]
                    read_rows += len(rows)
                    if not len(rows):
                        return
                # Once per file, at its first row; a continued run has warned about it before.
                if not first:
                    self.warnings += find_warnings(rows, read, self._mapping)
                # None while nobody is erased: a look at each row takes time.
                erased = self._order.erased or None
                if erased is None:
                    checked = check(rows, first, read)
                else:
                    checked = validate_without_erased_rows(rows, first, read, erased, check)
                yield _Chunk(checked, file, first, len(rows))
