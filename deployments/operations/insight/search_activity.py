"""Use cases of search: what is asked, what finds nothing, what is slow, and the feedback on answers."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from pydantic import Field

from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Invalid, NotFound
from cluster.records.field_types.times import parse_span_ms
from cluster.records.logged_query import QueryKind
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.feedback_report import (
    FeedbackReport,
    build_feedback_report,
    read_judgements,
    read_questions,
)
from deployments.operations.insight.search_report import SearchReport, build_search_report, suggest_texts

MOST_QUERIES = 1_000_000
"Compacted queries that one report of a serving process reads; a longer period begins later."


class ReadSearchReport(OfApp):
    """Which queries to report."""

    since: str = Field(default="30d", description="How far back: a number and m, h, d or w.")
    kind: str = Field(default="", description="Only `search`, `autocomplete` or `ask`; empty: all.")
    top: int = Field(default=20, ge=1, le=1000, description="Rows of each list.")
    compare: bool = Field(
        default=False, description="Add the totals of the period before, of the same length."
    )


@dataclass(frozen=True, slots=True)
class SearchActivity:
    """The report of a period, with slow queries, and similar texts for those that found nothing."""

    report: SearchReport
    is_shortened: bool = False
    "The period began earlier; it had too many queries."
    suggestions: dict[str, str] = field(default_factory=dict)
    "Text that found nothing -> a similar text that found something."
    before: SearchReport | None = None
    "The period before, of the same length; only its totals count. None if it is not requested, or is too long."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            **self.report.to_dict(),
            "slow": [asdict(query) for query in self.report.slow],
            "suggestions": [{"text": text, "similar": similar} for text, similar in self.suggestions.items()],
            "is_shortened": self.is_shortened,
            **({} if self.before is None else {"before": self.before.totals_to_dict()}),
        }


@operation("search.report", "GET", "/apps/{app_id}/search-report", "analyst")
async def report_search(services: AdminServices, given: ReadSearchReport) -> SearchActivity:
    """Report what users searched for, what found nothing and what was slow.

    No person is named.

    Errors:
        Invalid: no such kind, or no span of time; NotFound: no such app
    Cost:
        1,000,000 queries: about a second in other threads, once in 30 seconds
    """
    span_ms = check_report(given.since, given.kind)
    key = ("search.report", given.app_id, given.since, given.kind, given.top, given.compare)
    activity: SearchActivity = await services.cache.get(
        key, lambda: load_search_activity(services, given, span_ms, MOST_QUERIES)
    )
    return activity


def check_report(since: str, kind: str) -> int:
    """Return the length of the period in milliseconds.

    Errors:
        Invalid: no such kind, or no span of time
    """
    if kind not in ("", *get_args(QueryKind)):
        raise Invalid(f"there is no kind {kind!r}; choose from {', '.join(get_args(QueryKind))}")
    return parse_span_ms(since)


async def load_search_activity(
    services: AdminServices, given: ReadSearchReport, span_ms: int, most_queries: int | None
) -> SearchActivity:
    """Read the queries of a period and build the report; without `most_queries` all of them.

    Errors:
        NotFound: no such app
    """
    stores = services.stores
    app_id = given.app_id
    until_ms = services.now_ms()
    since_ms = until_ms - span_ms
    if app_id not in (await stores.access.read_all()).apps:
        raise NotFound(f"there is no app {app_id!r}")
    log = QueryLogStore(services.artifacts)
    after, begin, settled = await asyncio.to_thread(_read_log, log, app_id, since_ms, until_ms, most_queries)
    waiting = await stores.queries.read_all(app_id, after)
    feedback = None
    if given.kind in ("", "ask"):
        feedback = await _load_feedback(services, app_id, begin, until_ms, given.top)
    report = await asyncio.to_thread(
        build_search_report,
        settled,
        waiting,
        since=begin,
        until=until_ms,
        kind=given.kind,
        top=given.top,
        feedback=feedback,
    )
    suggestions = await asyncio.to_thread(suggest_texts, report)
    before = None
    if given.compare and begin == since_ms:
        first_ms = since_ms - span_ms
        _, begin, settled = await asyncio.to_thread(
            _read_log, log, app_id, first_ms, since_ms - 1, most_queries
        )
        # A period that the bound on queries cut can't be compared.
        if begin == first_ms:
            before = await asyncio.to_thread(
                build_search_report,
                settled,
                waiting,
                since=first_ms,
                until=since_ms - 1,
                kind=given.kind,
                top=1,
            )
    return SearchActivity(report, report.since > since_ms, suggestions, before)


async def _load_feedback(
    services: AdminServices, app_id: str, since_ms: int, until_ms: int, top: int
) -> FeedbackReport:
    segments = SegmentStore(services.artifacts)
    judged = await read_judgements(services.stores, segments, app_id, since_ms, until_ms)
    questions = await read_questions(services.stores, app_id, judged)
    return build_feedback_report(judged, questions, top=top)


def _read_log(
    log: QueryLogStore, app_id: str, since_ms: int, until_ms: int, most: int | None
) -> tuple[str, int, Any]:
    """Return the offset of the log, the begin of the period, and its compacted queries."""
    after = log.last_offset(app_id)
    rows = 0
    for entry in sorted(log.commit(app_id).files, key=lambda log_file: -log_file.facts["last"]):
        # From the newest file back: what is beyond the bound is the older part.
        rows += entry.rows
        if most is not None and rows > most:
            since_ms = max(since_ms, min(entry.facts["last"] + 1, until_ms))
            break
    return after, since_ms, log.read(app_id, since_ms, until_ms)
