"""`kiosk runs`: trainings, how far they are, how they ended."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cluster.clock import iso_ms
from cluster.commands import screen
from cluster.commands.installation import Installation, now_ms
from cluster.commands.train import AsJson, told
from cluster.errors import NotFound
from cluster.records.run import Run
from cluster.runtime.keeping import Keeping
from cluster.store.connect import OpenStores

app = typer.Typer(help="Trainings: how far they are and how they ended.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk runs list                        of all apps, newest first
  kiosk runs list bookshop --limit 5
"""
SHOW_EPILOG = """
[bold]Example[/]

  kiosk runs show bookshop run-1f0c5d2a9b
"""
CANCEL_EPILOG = """
[bold]Example[/]

  kiosk runs cancel bookshop run-1f0c5d2a9b      nothing of it is published; what serves stays
"""

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as `kiosk runs list` names it.")]


@app.command("list", epilog=LIST_EPILOG)
def list_runs(
    name: Annotated[str, typer.Argument(metavar="[APP]", help="Only this app's runs.")] = "",
    limit: Annotated[int, typer.Option(help="How many of each app.", min=1, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""

    async def read(keeping: Keeping, stores: OpenStores) -> list[Run]:
        known = [one.app_id for one in await keeping.apps()]
        if name and name not in known:
            raise NotFound(f"there is no app named {name}; there are: {', '.join(known) or 'none'}")
        found: list[Run] = []
        for app_id in [name] if name else known:
            found += await stores.runs.newest(app_id, limit)
        return sorted(found, key=lambda run: -run.created_at)

    found = Installation().administer(read)
    if as_json:
        screen.tell_json({"runs": [told(run) for run in found]})
        return
    table = screen.table("ordered", "app", "engine", "run", "status", "stage", "attempt", "by", "snapshot")
    for run in found:
        stage = f"{run.stage} {run.fraction:.0%}" if run.status == "running" else ""
        table.add_row(
            iso_ms(run.created_at)[:19], run.app_id, run.engine_id, run.run_id, run.status, stage,
            str(run.attempt), run.by, run.version,
        )  # fmt: skip
    screen.out().print(table if found else "There are no runs yet; `kiosk train` orders one.")


@app.command("show", epilog=SHOW_EPILOG)
def show(
    name: Annotated[str, typer.Argument(metavar="APP", help="The app.")],
    run_name: RunName,
    as_json: AsJson = False,
) -> None:
    """Show one run: its stages, figures and verdict, or why it failed."""
    from jobs.refresh.running.orders import run_named

    async def read(keeping: Keeping, stores: OpenStores) -> Run:
        return await run_named(stores, name, run_name)

    run = Installation().administer(read)
    if as_json:
        screen.tell_json(told(run))
        return
    screen.out().print(
        f"{run.run_id}: {run.status}, engine {run.engine_id} of {run.app_id}, recipe {run.recipe.get('name', '')}, "
        f"ordered {iso_ms(run.created_at)[:19]} by {run.by or 'nobody'}, attempt {run.attempt}"
    )
    if run.status == "running":
        screen.out().print(f"now: {run.stage} {run.fraction:.0%} {run.message}")
    stages = screen.table("stage", "seconds", "facts")
    for stage in run.stages:
        facts = ", ".join(f"{key} {value}" for key, value in stage.facts.items())
        stages.add_row(stage.name, f"{stage.seconds:.1f}", facts)
    if run.stages:
        screen.out().print(stages)
    if run.figures:
        screen.out().print(", ".join(f"{key} {value:.4f}" for key, value in run.figures.items()))
    if run.parts:
        parts = screen.table("part", "weight", "without history", "alone", "why")
        for one in run.parts:
            alone = one.get("alone")
            parts.add_row(
                str(one.get("part", "")),
                f"{one.get('weight', 0.0):g}",
                f"{one.get('weight_new', 0.0):g}",
                "" if alone is None else f"{alone:.4f}",
                str(one.get("reason", "")),
            )
        screen.out().print(parts)
    for line in (
        run.chosen,
        run.version and f"snapshot {run.version}",
        run.verdict,
        run.error and f"error: {run.error}",
    ):
        if line:
            screen.out().print(line)


@app.command("cancel", epilog=CANCEL_EPILOG)
def cancel(
    name: Annotated[str, typer.Argument(metavar="APP", help="The app.")],
    run_name: RunName,
    as_json: AsJson = False,
) -> None:
    """End a run; its worker notices within seconds."""
    from jobs.refresh.running.orders import cancel as cancel_run

    async def end() -> Run:
        async with Installation().stores() as stores:
            return await cancel_run(stores, name, run_name, now_ms())

    run = asyncio.run(end())
    if as_json:
        screen.tell_json(told(run))
    else:
        screen.out().print(f"Run {run.run_id} is cancelled; nothing of it is published.")
