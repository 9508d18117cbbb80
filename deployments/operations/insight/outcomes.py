"""Use cases of outcomes: what followed from the lists that people got."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, Literal

import polars as pl
from pydantic import Field

from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import from_ms
from cluster.errors import Fault, NotFound
from cluster.records.field_types.times import parse_span_ms
from deployments.operations.content.refused_row_formats import escape_formula
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import Download, OfApp, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.feedback_report import build_feedback_report, read_judgements
from deployments.operations.insight.outcome_report import (
    OutcomeReport,
    build_groups,
    build_questions,
    flatten_report,
)
from deployments.operations.insight.outcome_sums import (
    AnswerSums,
    Dimension,
    Sums,
    columns_of,
    count_opened,
    outcome_columns_of,
    sum_outcomes,
)

MOST_ANSWERS: Final = 2_000_000
"Answers that one report of a serving process reads; a longer period begins later."
FRESH_MS: Final = 30 * DAY_MS
LASTING_MS: Final = 37 * DAY_MS
"The longest time from an answer to its last outcome: a purchase after 7 days, a refund after 30 more."
_READ_TRIES: Final = 5
_THREADS: Final = 2
"Threads that read files of answers."
MEDIA_TYPES: Final = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


class ReportOutcomes(OfApp):
    """Which outcomes to report."""

    since: str = Field(default="7d", description="How far back: a number and m, h, d or w.")
    by: Dimension = Field(
        default="total",
        description="What the rows are: total, endpoint, engine, snapshot, recipe, level, place, rule, variant, "
        "origin, device, day or segment.",
    )


class ExportOutcomes(ReportOutcomes):
    """A report as a file."""

    form: Literal["csv", "parquet"] = Field(default="csv", description="Form of the file: csv or parquet.")


@operation("outcomes.report", "GET", "/apps/{app_id}/reports/outcomes", "analyst")
async def report_outcomes(services: AdminServices, given: ReportOutcomes) -> OutcomeReport:
    """Report what followed from the lists that people got, with intervals by person.

    Errors:
        Invalid: no span of time; NotFound: no such app
    Cost:
        1,000,000 answers: 4 to 5 s of a processor in other threads, once in 30 seconds
    """
    return await _report(services, given, MOST_ANSWERS if services.recommender is not None else None)


@operation("outcomes.export", "GET", "/apps/{app_id}/reports/outcomes/file", "analyst", media_type="text/csv")
async def export_outcomes(services: AdminServices, given: ExportOutcomes) -> Download:
    """Return the rows of a report of outcomes as a CSV or Parquet file.

    Errors:
        Invalid: no span of time; NotFound: no such app
    """
    report = await report_outcomes(
        services, ReportOutcomes(app_id=given.app_id, since=given.since, by=given.by)
    )
    body = write_report(report, given.form)

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return Download(chunks(), f"outcomes-{given.by}.{given.form}", MEDIA_TYPES[given.form])


def write_report(report: OutcomeReport, form: str) -> bytes:
    """Return the rows of a report as a file."""
    sink = io.BytesIO()
    frame = flatten_report(report)
    if form == "csv":
        if report.by in frame.columns:
            names = pl.Series(report.by, map(escape_formula, frame[report.by]), pl.String)
            frame = frame.with_columns(names)
        frame.write_csv(sink)
    else:
        frame.write_parquet(sink)
    return sink.getvalue()


async def _report(services: AdminServices, given: ReportOutcomes, most: int | None) -> OutcomeReport:
    span_ms = parse_span_ms(given.since)
    await require_app(services.stores, given.app_id)
    app = (await services.stores.access.read_all()).apps[given.app_id]
    until_ms = services.now_ms()
    key = ("outcomes.report", given.app_id, given.since, given.by)

    async def load() -> OutcomeReport:
        report = await asyncio.to_thread(
            load_report, services.artifacts, given.app_id, given.by, until_ms - span_ms, until_ms, most
        )
        report = await _add_feedback(services, report)
        return replace(report, currency=app.settings.currency)

    report: OutcomeReport = await services.cache.get(key, load)
    return report


async def _add_feedback(services: AdminServices, report: OutcomeReport) -> OutcomeReport:
    """Return a report with the feedback on answers to questions."""
    if report.questions is None:
        return report
    segments = SegmentStore(services.artifacts)
    judged = await read_judgements(services.stores, segments, report.app_id, report.since, report.until)
    feedback = build_feedback_report(judged, {})
    questions = replace(
        report.questions,
        helpful=feedback.helpful,
        not_helpful=feedback.not_helpful,
        other=feedback.other,
    )
    return replace(report, questions=questions)


def load_report(
    artifacts: ArtifactStore,
    app_id: str,
    by: Dimension,
    since_ms: int,
    until_ms: int,
    most: int | None = None,
) -> OutcomeReport:
    """Read the answers and outcomes of a period, and of the period before, and build the report.

    Errors:
        Fault: the files of the log of answers keep changing
    Cost:
        10,000,000 answers of ten products: 10 to 14 s of processor time in two threads, 0.9 to 1.5 GB
    """
    for _ in range(_READ_TRIES):
        try:
            return _load_report(artifacts, app_id, by, max(0, since_ms), until_ms, most)
        except NotFound:  # the intake merged files during the read
            continue
    raise Fault("the files of the log of answers keep changing")


def _load_report(
    artifacts: ArtifactStore, app_id: str, by: Dimension, since_ms: int, until_ms: int, most: int | None
) -> OutcomeReport:
    served = ServedLogStore(artifacts)
    outcomes = OutcomeStore(artifacts)
    commit = served.commit(app_id)
    begin_ms = _shorten(commit, since_ms, until_ms, most)
    before_ms = 2 * begin_ms - until_ms
    fresh, catalog = _read_catalog(artifacts, app_id, until_ms - FRESH_MS)
    # A period that the bound on answers cut has no equally long one before it.
    is_compared = begin_ms == since_ms and _shorten(commit, before_ms, begin_ms, most) == before_ms
    earlier = (
        _sum_period(served, outcomes, app_id, commit, by, before_ms, begin_ms, None) if is_compared else None
    )
    people = None if earlier is None else earlier.persons
    sums = _sum_period(served, outcomes, app_id, commit, by, begin_ms, until_ms, people, with_products=True)
    total, groups, left_out = build_groups(sums, earlier, fresh, catalog, by)
    days = [name_day(day) for day in range(begin_ms // DAY_MS, until_ms // DAY_MS + 1)]
    return OutcomeReport(
        app_id,
        by,
        begin_ms,
        until_ms,
        "",
        total,
        groups,
        left_out,
        outcomes.counts(app_id, days),
        catalog,
        build_questions(sums, earlier),
        is_shortened=begin_ms > since_ms,
    )


def _sum_period(
    served: ServedLogStore,
    outcomes: OutcomeStore,
    app_id: str,
    commit: Manifest,
    by: Dimension,
    since_ms: int,
    until_ms: int,
    earlier: pl.Series | None,
    *,
    with_products: bool = False,
) -> Sums:
    columns = columns_of(by, with_products=with_products)
    entries = [
        entry for entry in commit.files if entry.facts["last"] >= since_ms and entry.facts["first"] < until_ms
    ]

    # before the sums of answers take memory
    followed, opened = _sum_followed(
        outcomes, app_id, by, since_ms, until_ms if entries else since_ms, earlier
    )

    def add_all(share: Sequence[FileEntry]) -> AnswerSums:
        sums = AnswerSums(by, earlier, with_products=with_products)
        for entry in share:
            table = served.encoded(app_id, entry, since_ms, until_ms, columns)
            if table is not None:
                sums.add(table)
        return sums

    with ThreadPoolExecutor(_THREADS) as pool:
        sums, *others = pool.map(add_all, _share(entries))
    for other in others:
        sums.merge(other)
    return sums.read(followed, opened)


def _sum_followed(
    outcomes: OutcomeStore,
    app_id: str,
    by: Dimension,
    since_ms: int,
    until_ms: int,
    earlier: pl.Series | None,
) -> tuple[pl.DataFrame, Any]:
    """Return the sums of what followed from the answers of a period."""
    # nothing follows where no answer is
    last_ms = until_ms + LASTING_MS if until_ms > since_ms else since_ms - 1
    followed = pl.DataFrame(pl.from_arrow(outcomes.read(app_id, since_ms, last_ms, outcome_columns_of(by))))
    followed = followed.filter(pl.col("answered_at").is_between(since_ms, until_ms, closed="left"))
    return sum_outcomes(followed, by, earlier), count_opened(followed)


def _share(entries: Sequence[FileEntry]) -> list[list[FileEntry]]:
    """Return the files of each thread: neighbouring days, so that few days are in the memory of two threads."""
    total = sum(entry.rows for entry in entries)
    shares: list[list[FileEntry]] = [[] for _ in range(_THREADS)]
    rows = 0
    for entry in sorted(entries, key=lambda file: str(file.facts["day"])):
        shares[min(_THREADS * rows // total, _THREADS - 1)].append(entry)
        rows += entry.rows
    return shares


def _shorten(commit: Manifest, since_ms: int, until_ms: int, most: int | None) -> int:
    """Return where a period begins so that it has at most so many answers."""
    rows = 0
    for entry in sorted(commit.files, key=lambda file: -file.facts["last"]):
        if entry.facts["first"] >= until_ms or entry.facts["last"] < since_ms:
            continue
        rows += entry.rows
        if most is not None and rows > most:
            return max(since_ms, min(int(entry.facts["last"]) + 1, until_ms))
    return since_ms


def _read_catalog(artifacts: ArtifactStore, app_id: str, since_ms: int) -> tuple[frozenset[str], int]:
    """Return the products that were published or created since a time, and the number of products."""
    begins = f"{from_ms(since_ms):%Y-%m-%d}"
    fresh: list[str] = []
    count = 0
    for table in SegmentStream(artifacts, app_id).records("product", ()):
        count += table.num_rows
        # most texts of products name no date, and a search costs a tenth of reading JSON
        texts = pl.DataFrame(pl.from_arrow(table)).select("id", pl.col("json").cast(pl.String))
        dated = texts.filter(pl.col("json").str.contains_any(['"published_at"', '"created_at"']))
        day = pl.coalesce(
            pl.col("json").str.json_path_match(f"$.{name}") for name in ("published_at", "created_at")
        )
        fresh += dated.filter(day.str.slice(0, 10) >= begins)["id"].to_list()
    return frozenset(fresh), count
