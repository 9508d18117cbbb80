"""`kiosk runs`: trainings, how far they are, how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cluster.admin.key_admin import KeyAdmin
from cluster.clock import iso_ms
from cluster.errors import Conflict, NotFound
from cluster.records.run import Run
from cluster.store.connect import OpenStores
from cluster.store.ports.stores import Stores
from deployments.cli import screen
from deployments.cli.installation import Installation, read_clock_ms
from deployments.cli.train import AsJson, run_to_dict

app = typer.Typer(help="Trainings: how far they are and how they ended.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk runs list                        of all apps, newest first
  kiosk runs list bookshop --limit 5
"""
_SEARCHED = 500
"How many of an app's newest runs are searched for the start of a name."
SHOW_EPILOG = """
[bold]Example[/]

  kiosk runs show run-1f0c               the start of a name is enough while it is the only one
"""
CANCEL_EPILOG = """
[bold]Example[/]

  kiosk runs cancel run-1f0c5d2a9b       nothing of it is published; what serves stays
"""

AppOrRun = Annotated[str, typer.Argument(metavar="[APP] RUN", help="The app may be left out.")]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="", help="The run as `kiosk runs list` names it, or its start.", show_default=False
    ),
]


async def find_run(stores: Stores, apps: Sequence[str], words: Sequence[str]) -> Run:
    """Return the run that `[APP] RUN` names; RUN may be the start of a name.

    Errors:
        NotFound: no such app, or no run of that name
        Conflict: several runs begin like that
    """
    *app_words, run_name = [word for word in words if word]
    if app_words and app_words[0] not in apps:
        raise NotFound(f"there is no app named {app_words[0]}; there are: {', '.join(apps) or 'none'}")
    searched = app_words or list(apps)
    for app_id in searched:
        if exact := await stores.runs.get(app_id, run_name):
            return exact
    newest = [run for app_id in searched for run in await stores.runs.newest(app_id, _SEARCHED)]
    found = [run for run in newest if run.run_id.startswith(run_name)]
    if not found:
        where, listed = (
            (f"app {app_words[0]}", f" {app_words[0]}") if app_words else ("this installation", "")
        )
        raise NotFound(f"{where} has no run {run_name}; see `kiosk runs list{listed}`")
    if len(found) > 1:
        names = ", ".join(run.run_id for run in found[:5])
        raise Conflict(f"{len(found)} runs begin with {run_name}: {names}")
    return found[0]


@app.command("list", epilog=LIST_EPILOG)
def list_runs(
    name: Annotated[str, typer.Argument(metavar="[APP]", help="Only this app's runs.")] = "",
    limit: Annotated[int, typer.Option(help="How many of each app.", min=1, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""

    async def read(keeping: KeyAdmin, stores: OpenStores) -> list[Run]:
        known = [one.app_id for one in await keeping.apps()]
        if name and name not in known:
            raise NotFound(f"there is no app named {name}; there are: {', '.join(known) or 'none'}")
        found: list[Run] = []
        for app_id in [name] if name else known:
            found += await stores.runs.newest(app_id, limit)
        return sorted(found, key=lambda run: -run.created_at)

    found = Installation().administer(read)
    if as_json:
        screen.print_json({"runs": [run_to_dict(run) for run in found]})
        return
    table = screen.build_table(
        "ordered", "app", "engine", "run", "status", "stage", "attempt", "by", "snapshot",
        ids=("run", "snapshot"), droppable=("attempt", "by", "engine"),
    )  # fmt: skip
    for run in found:
        stage = f"{run.stage} {run.fraction:.0%}" if run.status == "running" else ""
        table.add_row(
            iso_ms(run.created_at)[:19], run.app_id, run.engine_id, run.run_id, run.status, stage,
            str(run.attempt), run.by, run.version,
        )  # fmt: skip
    screen.out().print(table if found else "There are no runs yet; `kiosk train` orders one.")


@app.command("show", epilog=SHOW_EPILOG)
def show(name: AppOrRun, run_name: RunName = "", as_json: AsJson = False) -> None:
    """Show one run: its stages, figures and verdict, or why it failed."""

    async def read(keeping: KeyAdmin, stores: OpenStores) -> Run:
        return await find_run(stores, [one.app_id for one in await keeping.apps()], (name, run_name))

    run = Installation().administer(read)
    if as_json:
        screen.print_json(run_to_dict(run))
        return
    screen.out().print(
        f"{run.run_id}: {run.status}, engine {run.engine_id} of {run.app_id}, recipe {run.recipe.get('name', '')}, "
        f"ordered {iso_ms(run.created_at)[:19]} by {run.by or 'nobody'}, attempt {run.attempt}"
    )
    if run.status == "running":
        screen.out().print(f"now: {run.stage} {run.fraction:.0%} {run.message}")
    stages = screen.build_table("stage", "seconds", "facts")
    for stage in run.stages:
        facts = ", ".join(f"{key} {value}" for key, value in stage.facts.items())
        stages.add_row(stage.name, f"{stage.seconds:.1f}", facts)
    if run.stages:
        screen.out().print(stages)
    if run.figures:
        screen.out().print(", ".join(f"{key} {value:.4f}" for key, value in run.figures.items()))
    if run.parts:
        parts = screen.build_table("part", "weight", "without history", "alone", "why")
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
def cancel(name: AppOrRun, run_name: RunName = "", as_json: AsJson = False) -> None:
    """End a run; its worker notices within seconds."""
    from jobs.refresh.runs.run_commands import cancel_training as cancel_run

    async def end(keeping: KeyAdmin, stores: OpenStores) -> Run:
        found = await find_run(stores, [one.app_id for one in await keeping.apps()], (name, run_name))
        return await cancel_run(stores, found.app_id, found.run_id, read_clock_ms())

    run = Installation().administer(end)
    if as_json:
        screen.print_json(run_to_dict(run))
    else:
        screen.out().print(f"Run {run.run_id} is cancelled; nothing of it is published.")
