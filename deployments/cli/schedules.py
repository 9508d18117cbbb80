"""`kiosk schedules`: engines that are trained again by themselves."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

import typer

from cluster.admin.key_admin import KeyAdmin
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.run import Schedule, next_slot, period_of
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.installation import Installation, read_clock_ms
from deployments.cli.train import AsJson, EngineName

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
REMOVE_EPILOG = """
[bold]Example[/]

  kiosk schedules remove bookshop nightly
"""

AppWord = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the schedule.")]
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


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
    from jobs.refresh.runs.run_commands import check_engine

    if not _NAME.fullmatch(schedule):
        raise Invalid(
            f"{schedule!r} is no name for a schedule: up to 40 lower case letters, digits and -; "
            f'the time comes with another option: kiosk schedules add {name} NAME --when "nightly"'
        )
    period_of(when)
    made = Schedule(
        app_id=name,
        name=schedule,
        engine_id=engine,
        when=when,
        recipe=load_recipe_file(recipe).model_dump(mode="json"),
        promote=promote,
        created_at=read_clock_ms(),
    )

    async def put() -> None:
        async with Installation().open_stores() as stores:
            await check_engine(stores, name, engine)
            if any(other.name == schedule for other in await stores.schedules.all(name)):
                raise Conflict(
                    f"app {name} has a schedule {schedule} already; remove it first: "
                    f"kiosk schedules remove {name} {schedule}"
                )
            await stores.schedules.put(made)

    asyncio.run(put())
    if as_json:
        screen.print_json(_schedule_to_dict(made))
    else:
        due = iso_ms(next_slot(made, read_clock_ms()))[:16]
        promotes = (
            "The result serves if the gate allows; --no-promote only publishes it."
            if promote
            else "The result is published and does not serve by itself."
        )
        screen.out().print(
            f"Engine {engine} of {name} is trained {when}, the next time {due} UTC. {promotes}"
        )


@app.command("list", epilog=LIST_EPILOG)
def list_schedules(
    name: Annotated[str, typer.Argument(metavar="[APP]", help="Only this app's.")] = "",
    as_json: AsJson = False,
) -> None:
    """List schedules, when they fired last and when they are due."""

    async def read(keeping: KeyAdmin, stores: OpenStores) -> list[Schedule]:
        known = [one.app_id for one in await keeping.apps()]
        if name and name not in known:
            raise NotFound(f"there is no app named {name}; there are: {', '.join(known) or 'none'}")
        return [one for app_id in ([name] if name else known) for one in await stores.schedules.all(app_id)]

    found = Installation().administer(read)
    if as_json:
        screen.print_json({"schedules": [_schedule_to_dict(one) for one in found]})
        return
    table = screen.build_table(
        "app", "name", "engine", "when", "recipe", "promotes", "fired last", "due (UTC)",
        droppable=("engine", "fired last"),
    )  # fmt: skip
    for one in found:
        told = _schedule_to_dict(one)
        table.add_row(
            one.app_id, one.name, one.engine_id, one.when, told["recipe"], "yes" if one.promote else "no",
            (told["last"] or "never")[:16], told["next"][:16],
        )  # fmt: skip
    screen.out().print(table if found else "There are no schedules; `kiosk schedules add` makes one.")


@app.command("remove", epilog=REMOVE_EPILOG)
def remove(name: AppWord, schedule: Name, as_json: AsJson = False) -> None:
    """Remove a schedule; a run under way goes on."""

    async def drop() -> bool:
        async with Installation().open_stores() as stores:
            return await stores.schedules.remove(name, schedule)

    if not asyncio.run(drop()):
        raise NotFound(f"app {name} has no schedule {schedule}; see `kiosk schedules list {name}`")
    if as_json:
        screen.print_json({"app_id": name, "name": schedule, "removed": True})
    else:
        screen.out().print(f"Schedule {schedule} of {name} is removed.")


def _schedule_to_dict(one: Schedule) -> dict[str, Any]:
    return {
        "app_id": one.app_id,
        "name": one.name,
        "engine_id": one.engine_id,
        "when": one.when,
        "recipe": str(one.recipe.get("name", "")),
        "promote": one.promote,
        "last": iso_ms(one.last_slot) if one.last_slot else None,
        "next": iso_ms(next_slot(one, read_clock_ms())),
    }
