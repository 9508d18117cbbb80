"""`kiosk export`: users, products, interactions and the logs of an app as files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.records.field_types.times import parse_span_ms
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.framework.screen import PARTLY, exit_on_error

if TYPE_CHECKING:
    from jobs.export.file_export import ExportSpec, ExportSummary

EPILOG = """
[bold]Examples[/]

  kiosk export bookshop products --out products.parquet
  kiosk export bookshop interactions --since 2026-03-01 --out clicks.jsonl     `kiosk ingest` takes it again
  kiosk export bookshop queries --since 7d --out queries.csv
  kiosk export bookshop served --since 7d --out answers.parquet     which products were shown
  kiosk export bookshop outcomes --since 7d --out outcomes.csv    what followed from answers
  kiosk export bookshop users --out - --format jsonl | jq .city

The file has everything that was accepted before the command: segments, and what has not settled yet. Deletions and
erasures are applied. It is written beside its place with mode 600 and renamed when it is whole.
Parquet has lists as lists; CSV has them as JSON. See docs/guides/data-out.md for the columns and for Python.
Exit codes: 1 failed, or accepted uploads are not applied yet; 2 wrong use; 3 the store can't be reached.
"""
WAIT_S = 10.0
"How long uploads that were accepted before are waited for."
_SPAN = re.compile(r"\d+[mhdw]")

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object at the end.")]
FormatName = Annotated[
    str,
    typer.Option("--format", metavar="NAME", help="parquet, jsonl or csv; else by the ending of the file."),
]
KeepFormulas = Annotated[
    bool,
    typer.Option(
        "--keep-formulas",
        help="CSV: leave texts that begin with = + - @ as they are; a spreadsheet may run them. "
        "Without it they get an apostrophe in front.",
    ),
]


def export(
    app: AppName,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="users, products, interactions, queries, served, outcomes or calls."
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FILE", help="The file; - for standard output.")],
    since: Annotated[
        str,
        typer.Option(
            metavar="DATE",
            help="2026-03-01, 2026-03-01T09:30Z or 7d: interactions, queries, answers and outcomes from then on; "
            "users and products that were written from then on.",
        ),
    ] = "",
    form: FormatName = "",
    keep_formulas: KeepFormulas = False,
    as_json: AsJson = False,
) -> None:
    """Write all users, products, interactions, queries, answers, outcomes or archive calls of an app into a file."""
    from cluster.artifacts.table_files import STANDARD_OUTPUT, choose_format
    from jobs.export.file_export import ExportSpec, check_subject

    with exit_on_error(as_json=as_json and out != STANDARD_OUTPUT):
        installation = Installation()
        order = ExportSpec(
            app,
            check_subject(subject),
            out,
            choose_format(out, form),
            parse_since(since),
            keep_formulas,
            WAIT_S if installation.is_running else 0.0,
        )
        with show_progress(f"exporting {subject}") as watch:
            summary = asyncio.run(_export(installation, order, watch))
    _show(summary, as_json=as_json)
    if summary.waiting:
        screen.err().print(
            f"{summary.waiting:,} accepted uploads are not applied yet, so they are not in the file; "
            "`kiosk status` shows whether the intake works"
        )
        # The file lacks accepted uploads, so a pipeline must not take it for complete.
        raise typer.Exit(PARTLY)


@contextmanager
def show_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; gives a function that takes what is done and how much there is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = screen.err()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def watch(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield watch


def parse_since(text: str) -> int:
    """Read a day, a moment, or a span of time back from now, as milliseconds since 1970; 0 for nothing.

    Errors:
        Invalid: it is none of them
    """
    from jobs.export.driver import ms_from_time

    return read_clock_ms() - parse_span_ms(text) if _SPAN.fullmatch(text) else ms_from_time(text)


async def _export(
    installation: Installation, order: ExportSpec, watch: Callable[[int, int], None]
) -> ExportSummary:
    from cluster.process.artifact_access import open_artifact_store
    from jobs.export.file_export import export_to_file as write

    async with installation.open_stores() as stores:
        return await write(order, stores, open_artifact_store(installation.settings), watch=watch)


def _show(summary: ExportSummary, *, as_json: bool) -> None:
    from cluster.artifacts.table_files import STANDARD_OUTPUT

    facts = summary.to_dict()
    if summary.order.out == STANDARD_OUTPUT:
        screen.err().print(f"{summary.rows:,} rows, {facts['digest']}")
    elif as_json:
        screen.print_json(facts)
    else:
        began = f" from {facts['from']}" if facts["from"] else ""
        screen.out().print(f"{summary.rows:,} {summary.order.subject}{began} to {facts['to']}")
        screen.print_lines(f"{facts['digest']}  {summary.order.out}")
