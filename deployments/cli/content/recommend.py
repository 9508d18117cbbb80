"""`kiosk recommend`: recommendations for a list of users, as a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.ids import DEFAULT_ENGINE
from deployments.cli.content.export import AppName, AsJson, FormatName, KeepFormulas, show_progress
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.screen import exit_on_error

if TYPE_CHECKING:
    from jobs.scoring.user_scorer import ScoringSpec

EPILOG = """
[bold]Examples[/]

  kiosk recommend bookshop --users users.parquet --out scores.parquet
  kiosk recommend bookshop --users mail.csv --rows 20 --fq 'price:[* TO 50]' --out mail-scores.csv
  kiosk recommend bookshop --users ids.txt --snapshot 053040c827b6cf19 --nested --out lists.jsonl

The file of users is Parquet, CSV or JSON Lines with user_id or anonymous_id, or text with one user id a line.
The answers are those of `user_to_products`: the same snapshot, history, filters and stored boost rules. Experiments are
left out. A running system scores on its Ray cluster, at the lowest priority; stopped, or with --local, this command
scores itself. The file stands in its place when it is whole; nothing is kept of an interrupted run.
Exit codes: 1 failed; 2 wrong use; 3 the store or the cluster can't be reached.
"""


def recommend(
    app: AppName,
    users: Annotated[str, typer.Option(metavar="FILE", help="The users: .parquet, .csv, .jsonl or .txt.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="The file; - for standard output.")],
    engine: Annotated[str, typer.Option("--engine", help="The engine.")] = DEFAULT_ENGINE,
    rows: Annotated[int, typer.Option(help="Products for each user, 1 to 1,000.")] = 10,
    snapshot: Annotated[str, typer.Option(help="A version to answer from; else what serves.")] = "",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--fq", metavar="FILTER", help="Only products that pass; as many as you like, all hold."
        ),
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested", help="One row for each user, products as a list; else one for each.")
    ] = False,
    form: FormatName = "",
    keep_formulas: KeepFormulas = False,
    workers: Annotated[
        int, typer.Option(help="Workers on the cluster; 0: one for every two processors.", min=0, max=1000)
    ] = 0,
    local: Annotated[bool, typer.Option("--local", help="Score in this process.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recommend products to a list of users, as the API does, into a file."""
    from cluster.artifacts.table_files import STANDARD_OUTPUT, choose_format
    from jobs.scoring.user_scorer import ScoringSpec

    to_stdout = out == STANDARD_OUTPUT
    with exit_on_error(as_json=as_json and not to_stdout):
        installation = Installation()
        order = ScoringSpec(app, engine, rows, snapshot, tuple(filters or ()))
        # Built and dropped, so that an invalid order is refused before anything is opened.
        order.build_query()
        choose_format(out, form)
        options: dict[str, Any] = {"form": form, "nested": nested, "keep_formulas": keep_formulas}
        with show_progress("scoring users") as watch:
            if local or not installation.is_running:
                summary = asyncio.run(
                    _recommend_locally(installation, order, users, out, watch=watch, **options)
                )
            else:
                from jobs.scoring.driver import recommend_file

                asyncio.run(_check(installation, order))
                settings = installation.settings
                summary = recommend_file(
                    order, users, out, watch=watch, workers=workers, settings=settings, **options
                )
    if to_stdout:
        screen.err().print(f"{summary['users']:,} users, {summary['rows']:,} rows, {summary['digest']}")
    elif as_json:
        screen.print_json(summary)
    else:
        by = ", ".join(summary["snapshots"]) or "trending products; no trained model serves yet"
        screen.out().print(f"{summary['users']:,} users, {summary['rows']:,} rows, answered by {by}")
        screen.print_lines(f"{summary['digest']}  {out}")


async def _check(installation: Installation, order: ScoringSpec) -> None:
    """Refuse an unknown engine before workers start."""
    from jobs.scoring.user_scorer import check_engine

    async with installation.open_stores() as stores:
        await check_engine(stores, order)


async def _recommend_locally(
    installation: Installation, order: ScoringSpec, users: str, out: str, **options: Any
) -> dict[str, Any]:
    from cluster.process.artifact_access import open_artifact_store
    from jobs.scoring.driver import recommend_in_process

    settings = installation.settings
    async with installation.open_stores() as stores:
        return await recommend_in_process(order, users, out, stores, open_artifact_store(settings), **options)
