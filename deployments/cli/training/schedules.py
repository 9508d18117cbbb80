"""`kiosk schedules`: engines that are trained again by themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.clock import iso_ms
from cluster.records.run import next_slot
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.cli.training.train import AsJson, EngineName
from deployments.operations.models import schedules
from deployments.operations.models.schedules import (
    OfSchedule,
    ScheduleView,
    check_schedule,
)

app = typer.Typer(help="Engines that are trained again by themselves.", no_args_is_help=True)

ADD_EPILOG = """
[bold]Examples[/]

  kiosk schedules add bookshop nightly                        every day at 03:00 UTC, default recipe
  kiosk schedules add bookshop hourly --when "every 1h" --recipe fast --engine summer
  kiosk schedules add bookshop early --when "daily 04:30" --recipe ./mine.toml --no-promote

The result serves if the gate allows. A slot that was missed while the system was down is made up for once.
"""
LIST_EPILOG = """
[bold]Example[/]

  kiosk schedules list
"""
CHANGE_EPILOG = """
[bold]Examples[/]

  kiosk schedules change bookshop nightly --when "every 6h"
  kiosk schedules change bookshop nightly --recipe shop
"""
REMOVE_EPILOG = """
[bold]Example[/]

  kiosk schedules remove bookshop nightly
"""

AppWord = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the schedule.")]


@app.command("add", epilog=ADD_EPILOG)
def add(
    name: AppWord,
    schedule: Name,
    when: Annotated[
        str, typer.Option(help="`nightly`, `daily HH:MM` (UTC), or `every N` with m, h or d.")
    ] = "nightly",
    engine: EngineName = "default",
    recipe: Annotated[
        str, typer.Option(help="A recipe that comes along, or a file; kept as it is now.")
    ] = "default",
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Let the result serve if the gate allows.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Train an engine again and again."""
    from jobs.refresh.recipe import load_recipe_file

    check_schedule(OfSchedule(app_id=name, schedule=schedule), when)
    view: ScheduleView = Installation().perform(
        "schedules.add",
        app_id=name,
        schedule=schedule,
        when=when,
        engine_id=engine,
        promote=promote,
        recipe=load_recipe_file(recipe).model_dump(mode="json"),
    )
    if as_json:
        screen.print_json(view.to_dict())
    else:
        due = iso_ms(next_slot(view.schedule, read_clock_ms()))[:16]
        promotes = (
            "The result serves if the gate allows; --no-promote only publishes it."
            if promote
            else "The result is published and does not serve by itself."
        )
        screen.out().print(
            f"Engine {engine} of {name} is trained {when}, the next time {due} UTC. {promotes}"
        )


COMMANDS = (
    OperationCommand("list", "schedules.list", LIST_EPILOG, for_all="schedules.list_all"),
    OperationCommand("change", "schedules.change", CHANGE_EPILOG, {"schedule": "NAME"}),
    OperationCommand("remove", "schedules.remove", REMOVE_EPILOG, {"schedule": "NAME"}),
)
add_commands(app, COMMANDS, schedules)
