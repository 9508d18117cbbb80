"""`kiosk report`: the use of the archive and of search, and what followed from lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.field_types.times import parse_span_ms as parse_span_ms
from deployments.cli.framework import screen
from deployments.cli.framework.chart_files import Forms, build_bar_chart, write_charts
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import print_result
from deployments.operations.insight.archive.call_sums import UNANSWERED_BELOW
from deployments.operations.insight.archive.readership import (
    MOST_LINES,
    Breakdown,
    ReadArchiveReport,
    load_archive_report,
    write_usage,
)
from deployments.operations.insight.archive.usage_report import ArchiveReport
from jobs.refresh.evaluation.plots import BarChart

if TYPE_CHECKING:
    from deployments.operations.insight.feedback_report import FeedbackReport
    from deployments.operations.insight.outcome_report import OutcomeReport
    from deployments.operations.insight.search_report import QueryCounts, SearchReport


app = typer.Typer(help="Reports of the archive, of search, and of outcomes.", no_args_is_help=True)

EPILOG = """
[bold]Examples[/]

  kiosk report mcp                          the last 30 days
  kiosk report mcp --since 24h --json
  kiosk report mcp --unanswered-below .4    fewer questions count as unanswered; 0: those that found nothing at all
  kiosk report mcp --by article --out articles.parquet     one part of the report as a file
  kiosk report mcp --charts ./charts        calls by day, client, skill, question and article as SVG
"""
SEARCH_EPILOG = """
[bold]Examples[/]

  kiosk report search --app bookshop              the last 30 days
  kiosk report search --app bookshop --kind search --since 24h --json
  kiosk report search --app bookshop --charts ./charts    by day, most asked, found nothing, as SVG
"""
OUTCOMES_EPILOG = """
[bold]Examples[/]

  kiosk report outcomes bookshop                       the last 7 days in one line
  kiosk report outcomes bookshop --by engine --since 30d
  kiosk report outcomes bookshop --by place --out places.csv
"""


@app.callback()
def reports() -> None:
    """Reports of the archive, of search, and of outcomes."""


@app.command("mcp", epilog=EPILOG)
def mcp(
    since: Annotated[str, typer.Option(help="How far back: a number and m, h, d or w.")] = "30d",
    top: Annotated[int, typer.Option(help="Lines of each table.", min=1, max=1000)] = 20,
    charts: Annotated[Path | None, typer.Option(help="Folder for chart files.", metavar="DIR")] = None,
    forms: Forms = "svg",
    name: Annotated[str, typer.Option("--app", help="The archive's app; default: KIOSK_ARCHIVE_APP.")] = "",
    below: Annotated[
        float,
        typer.Option(
            "--unanswered-below",
            min=0.0,
            max=1.0,
            help="A question is unanswered when its best passage holds less of it than this share.",
        ),
    ] = UNANSWERED_BELOW,
    by: Annotated[
        str, typer.Option(help="Part for --out: agent, skill, tool, article, day or unanswered.")
    ] = "agent",
    out: Annotated[Path | None, typer.Option(help="Write this part into a .csv or .parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Report the archive's use: agents, skills, tools, articles, questions, cost, visits. No person is named."""
    parse_span_ms(since)
    if out is not None and (out.suffix not in (".csv", ".parquet") or by not in get_args(Breakdown)):
        raise Invalid(
            f"{out} should end in .csv or .parquet, and --by be one of {', '.join(get_args(Breakdown))}"
        )
    installation = Installation()
    app_id = name or installation.perform("archive.app").app_id
    report: ArchiveReport = installation.perform(
        "archive.report", app_id=app_id, since=since, top=top, unanswered_below=below
    )
    if out is not None:
        given = ReadArchiveReport(app_id=app_id, since=since, unanswered_below=below)
        asyncio.run(_write_part(installation, given, cast(Breakdown, by), out))
    files = write_charts(charts, build_charts(report)) if charts is not None else []
    if as_json:
        content = {"app_id": app_id, **report.to_dict()}
        screen.print_json({**content, "charts": [str(path) for path in files]} if files else content)
        return
    _show(report, app_id)
    for path in files:
        screen.print_lines(str(path))


async def _write_part(installation: Installation, given: ReadArchiveReport, by: Breakdown, out: Path) -> None:
    """Write all rows of one part of the archive's report.

    Errors:
        Invalid: the file can't be written
    """
    async with installation.open_administration() as administration:
        report = await load_archive_report(administration.services, given, top=MOST_LINES)
    try:
        await asyncio.to_thread(out.write_bytes, write_usage(report, by, out.suffix[1:]))
    except OSError as error:
        raise Invalid(f"{out} can't be written: {error.strerror}") from error


@app.command("outcomes", epilog=OUTCOMES_EPILOG)
def outcomes(
    app_id: Annotated[str, typer.Argument(metavar="APP", help="The app.")],
    by: Annotated[
        str, typer.Option(help="What the rows are, as endpoint, engine, snapshot or place.")
    ] = "total",
    since: Annotated[str, typer.Option(help="How far back: a number and m, h, d or w.")] = "7d",
    out: Annotated[
        Path | None, typer.Option(help="Also write the rows into a .csv or .parquet file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Report what followed from lists: clicks, purchases, revenue and coverage, with 95 % intervals by person.

    --by total, endpoint, engine, snapshot, recipe, level, place, rule, variant, origin, device, day or segment.
    """
    parse_span_ms(since)
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise Invalid(f"{out} should end in .csv or .parquet")
    report: OutcomeReport = Installation().perform("outcomes.report", app_id=app_id, since=since, by=by)
    if out is not None:
        # Imported here: every other command starts faster without it.
        from deployments.operations.insight.outcomes import write_report

        try:
            out.write_bytes(write_report(report, out.suffix[1:]))
        except OSError as error:
            raise Invalid(f"{out} can't be written: {error.strerror}") from error
    print_result(report, as_json, given={"app_id": app_id})


@app.command("search", epilog=SEARCH_EPILOG)
def search(
    since: Annotated[str, typer.Option(help="How far back: a number and m, h, d or w.")] = "30d",
    kind: Annotated[str, typer.Option(help="Only search, autocomplete or ask.")] = "",
    top: Annotated[int, typer.Option(help="Lines of each table.", min=1, max=1000)] = 20,
    charts: Annotated[Path | None, typer.Option(help="Folder for chart files.", metavar="DIR")] = None,
    forms: Forms = "svg",
    name: Annotated[str, typer.Option("--app", help="The app.")] = "playground",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Report what users searched for, and their feedback on answers. No person is named.

    Top queries, searches without results, by day, latency; and the feedback on answers, the worst first.
    """
    # Imported here: every other command starts faster without it.
    from deployments.operations.insight.search_activity import (
        ReadSearchReport,
        check_report,
        load_search_activity,
    )

    span_ms = check_report(since, kind)
    given = ReadSearchReport(app_id=name, since=since, kind=kind, top=top)

    async def read() -> SearchReport:
        async with Installation().open_administration() as administration:
            activity = await load_search_activity(administration.services, given, span_ms, None)
            return activity.report

    report = asyncio.run(read())
    files = write_charts(charts, build_search_charts(report)) if charts is not None else []
    if as_json:
        content = {"app_id": name, **report.to_dict()}
        screen.print_json({**content, "charts": [str(path) for path in files]} if files else content)
        return
    print_search_report(report, name)
    for path in files:
        screen.print_lines(str(path))


def build_charts(report: ArchiveReport) -> dict[str, BarChart]:
    """Draw the report, one chart a question."""
    note = f"{iso_ms(report.since)[:10]} to {iso_ms(report.until)[:10]}, {report.calls:,} calls"
    return {
        "days": build_bar_chart("Calls by day", report.days[-60:], note),
        "clients": build_bar_chart(
            "Calls by client", [(client.name, client.calls) for client in report.clients], note
        ),
        "skills": build_bar_chart("Calls by skill", report.skills, note),
        "questions": build_bar_chart("Top questions", report.questions, note),
        "articles": build_bar_chart(
            "Most read articles",
            [(product_id, read) for product_id, read, _ in report.articles if read],
            note,
        ),
        "refusals": build_bar_chart("Refusals", report.refusals, note),
    }


def _show(report: ArchiveReport, app_id: str) -> None:
    out = screen.out()
    days = f"{iso_ms(report.since)[:16]} to {iso_ms(report.until)[:16]}"
    out.print(f"Archive {app_id}: {report.calls:,} calls, {days}")
    if report.took_ms:
        out.print("Took " + ", ".join(f"{took:.1f} ms ({name})" for name, took in report.took_ms.items()))
    out.print()
    if not report.calls:
        out.print("There are no calls yet. `kiosk doctor mcp` makes some.")
        return
    for by in ("agent", "skill", "tool", "article"):
        _show_usage(report, by)
    for title, rows in (
        ("Signed requests", list(report.signatures.items())),
        ("Agents that sign", [(line.name, line.calls) for line in report.signers]),
        ("Questions", report.questions),
        ("Refusals", report.refusals),
    ):
        if rows:
            table = screen.build_table("calls", "", title=title)
            for words, count in rows:
                table.add_row(str(count), screen.quote_text(words))
            out.print(table, "")
    _show_unanswered(report)
    cost = report.cost
    out.print(
        f"Answers: {cost['reply_bytes']:,} bytes, about {cost['reply_tokens']:,} tokens of agents; "
        f"{cost['model_tokens']:,} tokens of the language model."
    )
    if report.links:
        out.print(
            f"Citations: {report.visits:,} of {report.links:,} links were followed ({report.visit_share:.2%}), "
            f"{report.repeated_visits:,} again; {report.other_visits:,} visits of other calls."
        )


def _show_usage(report: ArchiveReport, by: str) -> None:
    table = screen.build_table(
        by, "calls", "asks", "reads", "refused", "unanswered", "visits", "yield", title=f"By {by}"
    )
    for row in report.usage[by]:
        title = report.titles.get(row.name, "") if by == "article" else ""
        share = "-" if row.visit_share is None else f"{row.visit_share:.1%}"
        counts = (row.calls, row.asks, row.reads, row.refused, row.unanswered, row.visits)
        table.add_row(
            screen.quote_text(f"{title} ({row.name})" if title else row.name), *map(str, counts), share
        )
    screen.out().print(table, "")


def _show_unanswered(report: ArchiveReport) -> None:
    if not report.groups:
        return
    share = f"{report.missing_calls:,} of {report.question_calls:,} asks below {report.unanswered_below:g}"
    table = screen.build_table(
        "calls", "texts", "last", "covered", "", title=f"Questions without an answer: {share}"
    )
    for group in report.groups:
        last = iso_ms(group.last_at)[:16].replace("T", " ")
        question = screen.quote_text(group.question)
        table.add_row(str(group.calls), str(group.questions), last, f"{group.coverage:.0%}", question)
    screen.out().print(table, "")


def build_search_charts(report: SearchReport) -> dict[str, BarChart]:
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
        "search-queries": build_bar_chart("Top queries", report.texts, note),
        "search-missing": build_bar_chart(
            "Top queries without results",
            report.missing_texts,
            note,
        ),
    }


def print_search_report(report: SearchReport, app_id: str) -> None:
    """Print the tables."""
    out = screen.out()
    days = f"{iso_ms(report.since)[:16]} to {iso_ms(report.until)[:16]}"
    out.print(f"Search in {app_id}: {report.queries:,} queries, {report.share:.1%} found nothing, {days}\n")
    if not report.queries:
        out.print("There are no queries yet, or `kiosk apps switch` has turned query_log off.")
        print_feedback(report.feedback)
        return
    table = screen.build_table(
        "kind", "queries", "nothing", "users", "p50 ms", "p95 ms", "p99 ms", title="Ways of asking"
    )
    for line in report.kinds:
        table.add_row(
            line.kind,
            str(line.queries),
            f"{line.unfound / line.queries:.1%}",
            str(line.readers),
            f"{line.p50_ms:.1f}",
            f"{line.p95_ms:.1f}",
            f"{line.p99_ms:.1f}",
        )
    out.print(table, "")
    table = screen.build_table("source", "queries", title="Where it was asked")
    for source, count in report.served_by:
        table.add_row(source or "-", str(count))
    out.print(table, "")
    _show_queries("Top queries", report.top)
    _show_queries("Searches without results", report.missing)
    print_feedback(report.feedback)
    table = screen.build_table("day", "queries", "nothing", title="Days")
    for day in report.days:
        table.add_row(day.day, str(day.queries), f"{day.share:.1%}")
    out.print(table)


def print_feedback(feedback: FeedbackReport) -> None:
    """Print the feedback on answers, the worst first."""
    if not (feedback.helpful or feedback.not_helpful or feedback.other):
        return
    title = f"Feedback on answers: {feedback.helpful:,} helpful, {feedback.not_helpful:,} not helpful"
    table = screen.build_table("helpful", "not helpful", "other", "sources", "question", title=title)
    for line in feedback.questions:
        table.add_row(
            str(line.helpful),
            str(line.not_helpful),
            str(line.other),
            str(line.sources),
            screen.quote_text(line.question or line.question_id),
        )
    screen.out().print(table, "")


def _show_queries(title: str, lines: list[QueryCounts]) -> None:
    if not lines:
        return
    table = screen.build_table("queries", "users", "results", "kind", "", title=title)
    for line in lines:
        table.add_row(
            str(line.queries), str(line.readers), f"{line.found:g}", line.kind, screen.quote_text(line.text)
        )
    screen.out().print(table, "")
