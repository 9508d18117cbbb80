"""Use cases of readership: which agents ask and read what, what the archive lacks, and which links were followed."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, cast

import orjson
import polars as pl
from pydantic import Field

from actors.archive.snapshot_store import PassageSnapshotStore
from actors.language.hashing_embedder import Embedder
from actors.language.imported_encoders import EncoderStore
from cluster.artifacts.logs.call_log import COLUMNS
from cluster.errors import KioskError, NotFound, Unavailable
from cluster.records.field_types.times import parse_span_ms
from deployments.operations.content.refused_row_formats import escape_formula
from deployments.operations.framework.operation import Download, OfApp, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.archive.call_sums import UNANSWERED_BELOW, UsageRow, select_period
from deployments.operations.insight.archive.usage_report import (
    ArchiveReport,
    ClientUsage,
    build_usage_report,
    list_callers,
)
from jobs.export.export_source import LogSource, open_source

MOST_ROWS: Final = 1_000_000
"Rows that one report reads; a longer period begins later."
MEDIA_TYPES: Final = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
Breakdown = Literal["agent", "skill", "tool", "article", "day", "unanswered"]
_LONGEST_TITLE = 300
_READ_TRIES = 5
MOST_LINES: Final = 100_000
"Rows of a part as a file."


class ReadArchiveReport(OfApp):
    """Which calls to report."""

    since: str = Field(default="30d", description="How far back: a number and m, h, d or w.")
    top: int = Field(default=20, ge=1, le=1000, description="Rows of each list.")
    unanswered_below: float = Field(
        default=UNANSWERED_BELOW,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="A question is unanswered if its best passage holds less of it than this share.",
    )


class ExportArchiveReport(OfApp):
    """A part of the report as a file."""

    by: Breakdown = Field(
        default="agent", description="What the rows are: agent, skill, tool, article, day or unanswered."
    )
    since: str = Field(default="30d", description="How far back: a number and m, h, d or w.")
    form: Literal["csv", "parquet"] = Field(default="csv", description="Form of the file: csv or parquet.")


@operation("archive.report", "GET", "/apps/{app_id}/archive/report", "analyst")
async def report_archive(services: AdminServices, given: ReadArchiveReport) -> ArchiveReport:
    """Report the archive's use by agents, skills, tools, articles and questions, its cost, and visits of its links.

    No person is named.

    Errors:
        Invalid: no span of time
    Cost:
        200,000 calls: about two seconds in other threads, once in 30 seconds
    """
    key = ("archive.report", given.app_id, given.since, given.top, given.unanswered_below)
    report: ArchiveReport = await services.cache.get(key, lambda: load_archive_report(services, given))
    return report


@operation("archive.export", "GET", "/apps/{app_id}/archive/report/file", "analyst", media_type="text/csv")
async def export_archive(services: AdminServices, given: ExportArchiveReport) -> Download:
    """Return the rows of one part of the archive's report as a CSV or Parquet file.

    Errors:
        Invalid: no span of time
    """
    whole = ReadArchiveReport(app_id=given.app_id, since=given.since)
    # Not kept, because it may be large; the cache bounds how many are read at once.
    report: ArchiveReport = await services.cache.get(
        ("archive.export", given.app_id, given.since),
        lambda: load_archive_report(services, whole, top=MOST_LINES),
        keep_s=0,
    )
    body = await asyncio.to_thread(write_usage, report, given.by, given.form)

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return Download(chunks(), f"archive-{given.by}.{given.form}", MEDIA_TYPES[given.form])


def write_usage(report: ArchiveReport, by: Breakdown, form: str) -> bytes:
    """Return the rows of one part of a report as a file."""
    if by == "unanswered":
        rows = [{**group.to_dict(), "examples": "\n".join(group.examples)} for group in report.groups]
        schema = {
            "question": pl.String,
            "calls": pl.Int64,
            "questions": pl.Int64,
            "last_at": pl.Int64,
            "coverage": pl.Float64,
            "examples": pl.String,
        }
    else:
        rows = [{by: row.pop("name"), **row} for row in map(UsageRow.to_dict, report.usage[by])]
        counts = ("calls", "asks", "reads", "refused", "unanswered", "links", "visits")
        schema = {
            by: pl.String,
            **dict.fromkeys(counts, pl.Int64),
            "took_ms": pl.Float64,
            "reply_bytes": pl.Int64,
            "model_tokens": pl.Int64,
            "yield": pl.Float64,
        }
    frame = pl.DataFrame(rows, schema=cast(Any, schema))
    sink = io.BytesIO()
    if form == "parquet":
        frame.write_parquet(sink)
        return sink.getvalue()
    texts = [name for name, kind in schema.items() if kind == pl.String]
    # A spreadsheet would run a text that begins as a formula.
    frame.with_columns(
        pl.Series(name, map(escape_formula, frame[name]), pl.String) for name in texts
    ).write_csv(sink)
    return sink.getvalue()


async def load_callers(services: AdminServices, app_id: str, since: str) -> list[ClientUsage]:
    """Return the clients of the archive's tools that called within a span of time, the most calls first."""
    until_ms = services.now_ms()
    since_ms, rows = await load_calls(services, app_id, until_ms - parse_span_ms(since))
    period = await asyncio.to_thread(select_period, rows, since_ms, until_ms, UNANSWERED_BELOW)
    return list_callers(period.calls)


async def load_calls(services: AdminServices, app_id: str, since_ms: int) -> tuple[int, pl.DataFrame]:
    """Return the rows of the log of archive calls from a time on, and the time: later if there are too many rows.

    Errors:
        Unavailable: the store does not answer, or the files keep changing
    """
    for _ in range(_READ_TRIES):
        source = await open_source(
            services.stores, services.artifacts, app_id, "calls", since_ms, Path(tempfile.gettempdir())
        )
        assert isinstance(source, LogSource)
        begin_ms = since_ms
        left = MOST_ROWS
        # The newest files first, so that a report with too many rows has the latest calls.
        for entry in sorted(source.compacted.commit.files, key=lambda file: -file.facts["last"]):
            left -= entry.rows
            if left < 0 and entry.facts["last"] >= begin_ms:
                begin_ms = int(entry.facts["last"]) + 1
                break
        source = replace(source, compacted=replace(source.compacted, since_ms=begin_ms))
        with suppress(NotFound):  # the intake merged files during the read
            tables = await asyncio.to_thread(lambda rows: list(rows.tables()), source)
            frames = [pl.DataFrame(pl.from_arrow(table)) for table in (COLUMNS.empty_table(), *tables)]
            return begin_ms, pl.concat(frames)
    raise Unavailable("the files of archive calls keep changing; try again")


async def load_archive_report(
    services: AdminServices, given: ReadArchiveReport, *, top: int | None = None
) -> ArchiveReport:
    """Read the rows of a period and build the report; with `top` its lists have so many rows, and no titles.

    Errors:
        Invalid: no span of time; Unavailable: the store does not answer
    """
    until_ms = services.now_ms()
    since_ms, rows = await load_calls(services, given.app_id, until_ms - parse_span_ms(given.since))
    embedder = await asyncio.to_thread(_open_embedder, services, given.app_id)
    report = await asyncio.to_thread(
        build_usage_report,
        rows,
        since=since_ms,
        until=until_ms,
        top=top or given.top,
        unanswered_below=given.unanswered_below,
        embedder=embedder,
    )
    if top is not None:
        return report
    ids = list(
        {line[0]: None for line in report.articles} | {row.name: None for row in report.usage["article"]}
    )
    bodies = await services.stores.records.get_many(given.app_id, "product", ids)
    titles = {
        product_id: str(orjson.loads(body).get("title") or "")[:_LONGEST_TITLE]
        for product_id, body in zip(ids, bodies, strict=True)
        if body is not None
    }
    return replace(report, titles=titles)


def _open_embedder(services: AdminServices, app_id: str) -> Embedder | None:
    """Return the embedder of the archive's newest snapshot; None without one, or if it is not on this machine."""
    folder = services.config.data_dir
    artifacts = services.artifacts
    snapshots = PassageSnapshotStore(artifacts)
    if folder is not None:
        snapshots = PassageSnapshotStore(artifacts, EncoderStore(folder / "models", artifacts).find)
    with suppress(KioskError):
        return snapshots.open_embedder(app_id)
    return None
