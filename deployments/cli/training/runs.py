"""`kiosk runs`: trainings, how far they are, how they ended."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cluster.clock import iso_ms
from cluster.records.run import FACT_LABELS, Run
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.cli.training.train import AsJson, run_to_dict
from deployments.operations.frame.principal import COMMAND_LINE
from deployments.operations.models.runs import RunList, RunView
from deployments.operations.models.runs import find_run as find_run

app = typer.Typer(help="Trainings: how far they are and how they ended.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk runs list                        of all apps, newest first
  kiosk runs list bookshop --limit 5
"""
SHOW_EPILOG = """
[bold]Example[/]

  kiosk runs show run-1f0c               the start of a name is enough while it is the only one
"""
REPORT_EPILOG = """
[bold]Example[/]

  kiosk runs report run-1f0c             of an evaluation or a sweep that the console or HTTP ordered
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


@app.command("list", epilog=LIST_EPILOG)
def list_runs(
    name: Annotated[str, typer.Argument(metavar="[APP]", help="Only this app's runs.")] = "",
    limit: Annotated[int, typer.Option(help="How many of each app.", min=1, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""

    installation = Installation()
    listed: RunList = (
        installation.perform("runs.list", app_id=name, limit=limit)
        if name
        else installation.perform("runs.list_all", limit=limit)
    )
    if as_json:
        screen.print_json(listed.to_dict())
        return
    runs = listed.runs
    table = screen.build_table(
        "ordered", "app", "engine", "run", "status", "stage", "attempt", "by", "snapshot",
        ids=("run", "snapshot"), droppable=("attempt", "by", "engine"),
    )  # fmt: skip
    for run in runs:
        stage = f"{run.stage} {run.fraction:.0%}" if run.status == "running" else ""
        table.add_row(
            iso_ms(run.created_at)[:19], run.app_id, run.engine_id, run.run_id, run.status, stage,
            str(run.attempt), run.by, run.version,
        )  # fmt: skip
    screen.out().print(table if runs else "There are no runs yet; `kiosk train` orders one.")


@app.command("show", epilog=SHOW_EPILOG)
def show(name: AppOrRun, run_name: RunName = "", as_json: AsJson = False) -> None:
    """Show one run: its stages, figures and verdict, or why it failed."""

    installation = Installation()
    view: RunView = (
        installation.perform("runs.get", app_id=name, run_id=run_name)
        if run_name
        else installation.perform("runs.find", run_id=name)
    )
    run = view.run
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
        facts = ", ".join(f"{FACT_LABELS.get(key, key)} {value}" for key, value in stage.facts.items())
        stages.add_row(stage.name, f"{stage.seconds:.1f}", facts)
    if run.stages:
        screen.out().print(stages)
    if run.split.get("sentence"):
        screen.out().print(run.split["sentence"])
    if run.figures:
        screen.out().print(", ".join(f"{key} {value:.4f}" for key, value in run.figures.items()))
    if run.parts:
        parts = screen.build_table("part", "weight", "new products", "without history", "alone", "why")
        for part in run.parts:
            alone, unseen = part.get("alone"), part.get("weight_unseen")
            parts.add_row(
                str(part.get("part", "")),
                f"{part.get('weight', 0.0):g}",
                f"{part.get('weight', 0.0) if unseen is None else unseen:g}",
                f"{part.get('weight_new', 0.0):g}",
                "" if alone is None else f"{alone:.4f}",
                str(part.get("reason", "")),
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


@app.command("report", epilog=REPORT_EPILOG)
def report(name: AppOrRun, run_name: RunName = "", as_json: AsJson = False) -> None:
    """Show what an evaluation or a sweep found."""
    from jobs.refresh.evaluation.reports import markdown_from_reports
    from jobs.refresh.runs.sweep import markdown_from_rows

    installation = Installation()
    app_id, run_id = name, run_name
    if not run_name:
        run: RunView = installation.perform("runs.find", run_id=name)
        app_id, run_id = run.run.app_id, run.run.run_id
    content = installation.perform("evaluations.report", app_id=app_id, run_id=run_id).to_dict()
    title = f"{content['recipe']} on {app_id}"
    if as_json:
        screen.print_json(content)
    elif "rows" in content:
        screen.print_lines(
            markdown_from_rows(content["rows"], title, content.get("split", {}).get("sentence", ""))
        )
    else:
        screen.print_lines(markdown_from_reports(content["reports"], title))


@app.command("cancel", epilog=CANCEL_EPILOG)
def cancel(name: AppOrRun, run_name: RunName = "", as_json: AsJson = False) -> None:
    """End a run; its worker notices within seconds."""

    async def end() -> Run:
        async with Installation().open_administration() as administration:
            apps = [
                app.app_id for app in (await administration.services.stores.access.read_all()).apps.values()
            ]
            app_id = (await find_run(administration.services.stores, apps, (name, run_name))).app_id
            given = {"app_id": app_id, "run_id": run_name or name}
            ended: RunView = await administration.perform(COMMAND_LINE, "runs.cancel", given)
            return ended.run

    run = asyncio.run(end())
    if as_json:
        screen.print_json(run_to_dict(run))
    else:
        screen.out().print(f"Run {run.run_id} is cancelled; nothing of it is published.")
