"""How the search report is shown: tables for people, charts as files."""

from __future__ import annotations

from cluster.clock import iso_ms
from deployments.cli import screen
from deployments.cli.charts import build_bar_chart
from deployments.operations.feedback_report import FeedbackReport
from deployments.operations.search_report import QueryCounts, SearchReport
from jobs.refresh.evaluation.plots import BarChart


def build_charts(report: SearchReport) -> dict[str, BarChart]:
    """Draw the report, one chart a question."""
    note = f"{iso_ms(report.since)[:10]} to {iso_ms(report.until)[:10]}, {report.queries:,} queries"
    days = report.days[-60:]
    return {
        "search-days": build_bar_chart("Queries by day", [(line.day, line.queries) for line in days], note),
        "search-unfound": build_bar_chart(
            "Queries that found nothing, by day",
            [(line.day, round(100 * line.share)) for line in days],
            note,
            unit="%",
        ),
        "search-queries": build_bar_chart("Most asked queries", report.texts, note),
        "search-missing": build_bar_chart(
            "Most asked queries that found nothing",
            report.missing_texts,
            note,
        ),
    }


def print_report(report: SearchReport, app_id: str) -> None:
    """Print the tables."""
    out = screen.out()
    days = f"{iso_ms(report.since)[:16]} to {iso_ms(report.until)[:16]}"
    out.print(f"Search in {app_id}: {report.queries:,} queries, {report.share:.1%} found nothing, {days}\n")
    if not report.queries:
        out.print("Nobody searched yet, or `kiosk apps switch` has turned query_log off.")
        print_feedback(report.feedback)
        return
    table = screen.build_table(
        "kind", "queries", "nothing", "readers", "p50 ms", "p95 ms", "p99 ms", title="Ways of asking"
    )
    for line in report.kinds:
        table.add_row(
            line.kind, str(line.queries), f"{line.unfound / line.queries:.1%}", str(line.readers),
            f"{line.p50_ms:.1f}", f"{line.p95_ms:.1f}", f"{line.p99_ms:.1f}",
        )  # fmt: skip
    out.print(table, "")
    table = screen.build_table("source", "queries", title="Where it was asked")
    for source, count in report.served_by:
        table.add_row(source or "-", str(count))
    out.print(table, "")
    _show_queries("Most asked", report.top)
    _show_queries("Found nothing", report.missing)
    print_feedback(report.feedback)
    table = screen.build_table("day", "queries", "nothing", title="Days")
    for day in report.days:
        table.add_row(day.day, str(day.queries), f"{day.share:.1%}")
    out.print(table)


def print_feedback(feedback: FeedbackReport) -> None:
    """Print what readers thought of answers, the worst first."""
    if not (feedback.helpful or feedback.not_helpful or feedback.other):
        return
    title = f"Feedback on answers: {feedback.helpful:,} helpful, {feedback.not_helpful:,} not helpful"
    table = screen.build_table("helpful", "not helpful", "other", "sources", "question", title=title)
    for line in feedback.questions:
        table.add_row(
            str(line.helpful), str(line.not_helpful), str(line.other), str(line.sources),
            screen.quote_text(line.question or line.question_id),
        )  # fmt: skip
    screen.out().print(table, "")


def _show_queries(title: str, lines: list[QueryCounts]) -> None:
    if not lines:
        return
    table = screen.build_table("queries", "readers", "results", "kind", "", title=title)
    for line in lines:
        table.add_row(
            str(line.queries), str(line.readers), f"{line.found:g}", line.kind, screen.quote_text(line.text)
        )
    screen.out().print(table, "")
