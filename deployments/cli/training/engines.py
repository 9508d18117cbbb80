"""`kiosk engines`: recommenders of an app: make, list, place, scale, explore and delete them while everything runs.

Commands change records, and the engine operator carries the change out. Commands that wait for it watch the status
that it records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import typer

from cluster.errors import Unavailable
from cluster.records.engine import Engine
from cluster.store.connect import OpenStores
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.framework.principal import COMMAND_LINE
from deployments.operations.models import engines
from deployments.operations.models.engine_views import EngineView, read_engine_view
from deployments.operations.models.engines import DeletedEngine, EngineScaling, find_engine

app = typer.Typer(
    help="Engines: recommenders of an app, embedded in the API replicas or dedicated.", no_args_is_help=True
)

PATIENCE_S = 90.0
_EVERY_S = 0.25

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk engines create bookshop summer                        runs in the API replicas; asked with "engine_id": "summer"
  kiosk engines create bookshop large --dedicated --replicas 2:6    a deployment of its own, two to six replicas
"""
LIST_EPILOG = """
[bold]Examples[/]

  kiosk engines list
  kiosk engines list bookshop --json | jq '.engines[].replicas'
"""
PLACE_EPILOG = """
[bold]Examples[/]

  kiosk engines place bookshop default dedicated   a deployment of its own, which scales by itself
  kiosk engines place bookshop default embedded    into the API replicas: no hop, answers sooner

No request fails while an engine moves. On the way to a place of its own it is asked where it was until its
replicas answer; on the way back its replicas end when nobody asks them any more.
"""
SCALE_EPILOG = """
[bold]Examples[/]

  kiosk engines scale bookshop default                            show how it scales
  kiosk engines scale bookshop default --replicas 2:8             two at rest, up to eight under load
  kiosk engines scale bookshop default --target 2 --up-after 2 --down-after 60
  kiosk engines scale bookshop default --replicas 3:3 --per-node 1    one on each of three nodes

These hold for a dedicated engine; the API replicas scale by KIOSK_REPLICAS_MIN and KIOSK_REPLICAS_MAX.
"""
EXPLORE_EPILOG = """
[bold]Examples[/]

  kiosk engines explore bookshop default --share 0.05     one list in twenty has one explored place
  kiosk engines explore bookshop default --share 0        no more exploration

The log of answers then has propensities that let it judge rankings which were not shown; users see slightly worse
lists for it. A share above 0.2 is refused.
"""
REPEAT_EPILOG = """
[bold]Examples[/]

  kiosk engines repeat-after bookshop default checkout --days 60    what was bought is out of lists for 60 days
  kiosk engines repeat-after bookshop default '*' --days 1          all other types: a day
  kiosk engines repeat-after bookshop default checkout              as the snapshot has learned
  kiosk engines repeat-after bookshop default checkout --days 30 --all-engines    all engines of the app
  kiosk engines repeat-after bookshop default watch --days 36500    what was watched never comes back

Without a pause, a snapshot that met repeated purchases leaves out the running session; others leave out all
products of the person's history. The next training counts a product as recommendable once its pause has ended.
A new engine has the pauses of the engine default.
"""
DELETE_EPILOG = """
[bold]Example[/]

  kiosk engines delete bookshop summer     its name answers "engine is not found" from then on
"""


def _change_and_wait(installation: Installation, operation: str, given: Mapping[str, Any]) -> EngineView:
    """Change an engine, and wait until it is where it was asked to go."""
    if operation == "engines.create" and not given.get("dedicated"):
        created: EngineView = installation.perform(operation, **given)
        return created
    if not installation.is_running and not installation.settings.redis_is_external:
        raise Unavailable(
            "Kiosk does not run; start it with `kiosk up`, or say --no-wait: it is done at the start"
        )

    async def change() -> EngineView:
        async with installation.open_administration() as administration:
            view: EngineView = await administration.perform(COMMAND_LINE, operation, given)
            return await _wait_until_settled(administration.services.stores, view.engine)

    return asyncio.run(change())


def _delete_and_wait(installation: Installation, operation: str, given: Mapping[str, Any]) -> EngineView:
    async def drop() -> EngineView:
        async with installation.open_administration() as administration:
            view: EngineView = await administration.perform(COMMAND_LINE, operation, given)
            if view.status is not None:
                await _wait_until_deleted(administration.services.stores, view.engine)
            return view

    return asyncio.run(drop())


async def _wait_until_settled(stores: OpenStores, engine: Engine) -> EngineView:
    """Wait until an engine is where it was asked to go."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    with screen.err().status(f"moving {engine.engine_id}") as status:
        while True:
            view = await read_engine_view(
                stores, await find_engine(stores, engine.app_id, engine.engine_id), read_clock_ms()
            )
            if view.is_settled:
                return view
            words = view.status.message if view.status else ""
            status.update(f"moving {engine.engine_id} {words}")
            if loop.time() > until_s:
                raise Unavailable(
                    f"not moved after {PATIENCE_S:.0f} s{': ' + words if words else ''}; it is asked where it was. See "
                    f"`kiosk engines list {engine.app_id}` and `kiosk doctor`"
                )
            await asyncio.sleep(_EVERY_S)


async def _wait_until_deleted(stores: OpenStores, engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while engine.engine_id in await stores.engine_activity.list_statuses(engine.app_id):
        if loop.time() > until_s:
            raise Unavailable(
                "the engine is deleted, but its replicas have not ended yet; see `kiosk status`"
            )
        await asyncio.sleep(_EVERY_S)


SCALING = {
    "target_requests": "--target",
    "memory_budget_mb": "--memory",
    "num_cpus": "--cpus",
    "upscale_delay_s": "--up-after",
    "downscale_delay_s": "--down-after",
    "look_back_s": "--look-back",
}
NEW = {**SCALING, "engine_id": "ENGINE", "max_replicas_per_node": "", "dedicated": "--dedicated --own"}
RANGES = {"replicas": ("replicas_min", "replicas_max")}
COMMANDS = (
    OperationCommand("list", "engines.list", LIST_EPILOG, for_all="engines.list_all"),
    OperationCommand("create", "engines.create", CREATE_EPILOG, NEW, wait=_change_and_wait, ranges=RANGES),
    OperationCommand("place", "engines.place", PLACE_EPILOG, {"placement": "PLACE"}, wait=_change_and_wait),
    OperationCommand(
        "scale",
        "engines.scale",
        SCALE_EPILOG,
        {**SCALING, "max_replicas_per_node": "--per-node"},
        shows="engines.get",
        view=EngineScaling,
        ranges=RANGES,
    ),
    OperationCommand("explore", "engines.explore", EXPLORE_EPILOG),
    OperationCommand("repeat-after", "engines.repeat_after", REPEAT_EPILOG, {"type": "TYPE"}),
    OperationCommand("delete", "engines.delete", DELETE_EPILOG, wait=_delete_and_wait, view=DeletedEngine),
)
add_commands(app, COMMANDS, engines, names_app=False)
