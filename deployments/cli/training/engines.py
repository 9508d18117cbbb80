"""`kiosk engines`: recommenders of an app: make, list, place, scale, explore and delete them while everything runs.

Commands change records; whoever keeps the engines' deployments brings the change about, and commands that wait for
that watch what it tells.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from cluster.errors import Invalid, Unavailable
from cluster.records.engine import Engine, Scaling
from cluster.store.connect import OpenStores
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation, read_clock_ms
from deployments.cli.frame.operation_commands import OperationCommand, add_commands
from deployments.operations.frame.principal import COMMAND_LINE
from deployments.operations.models import engines
from deployments.operations.models.engine_views import EngineView, read_engine_view
from deployments.operations.models.engines import (
    EngineList,
    NewEngine,
    build_engine,
    find_engine,
    parse_placement,
)

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
DELETE_EPILOG = """
[bold]Example[/]

  kiosk engines delete bookshop summer     its name answers "engine is not found" from then on
"""

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
EngineName = Annotated[str, typer.Argument(metavar="ENGINE", help="The engine; each app has `default`.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Wait = Annotated[bool, typer.Option(help="Come back when it is done, not when it is asked for.")]
Replicas = Annotated[str, typer.Option(metavar="MIN:MAX", help="Minimum and maximum replicas.")]
Target = Annotated[float | None, typer.Option(help="Requests under way per replica before one is added.")]
Memory = Annotated[int | None, typer.Option(metavar="MIB", help="Memory a replica may hold.")]
Cpus = Annotated[float | None, typer.Option(help="Processors Ray keeps for a replica.")]
UpAfter = Annotated[float | None, typer.Option(metavar="S", help="Scale-up delay in seconds.")]
DownAfter = Annotated[float | None, typer.Option(metavar="S", help="Seconds of rest before one is taken.")]
LookBack = Annotated[float | None, typer.Option(metavar="S", help="Load is averaged over these seconds.")]
PerNode = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=256, help="At most so many replicas on one node; 0: any number."),
]


@app.command("list", epilog=LIST_EPILOG)
def list_engines(
    name: Annotated[str, typer.Argument(metavar="[APP]", help="Only this app's.")] = "",
    as_json: AsJson = False,
) -> None:
    """List engines: where they live, what serves, how many replicas run, how much they are asked."""

    installation = Installation()
    listed: EngineList = (
        installation.perform("engines.list", app_id=name)
        if name
        else installation.perform("engines.list_all")
    )
    if as_json:
        screen.print_json(listed.to_dict())
        return
    engines = listed.engines
    table = screen.build_table(
        "app",
        "engine",
        "lives",
        "replicas",
        "asked/s",
        "snapshot",
        "",
        ids=("snapshot",),
        droppable=("asked/s",),
    )
    for view in engines:
        table.add_row(*view.to_row())
    words = "There are no engines yet; `default` comes with an app's first products."
    screen.out().print(table if engines else words)


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: AppName,
    engine: EngineName,
    dedicated: Annotated[
        bool, typer.Option("--dedicated", "--own", help="Run the engine in a dedicated deployment.")
    ] = False,
    replicas: Replicas = "",
    target: Target = None,
    memory: Memory = None,
    cpus: Cpus = None,
    up_after: UpAfter = None,
    down_after: DownAfter = None,
    look_back: LookBack = None,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Make an engine that reads its app's products and interactions."""
    scaling = _read_scaling(replicas, target, memory, cpus, up_after, down_after, look_back)
    given = {"app_id": name, "engine_id": engine, "dedicated": dedicated, **scaling}
    build_engine(NewEngine(**given), 0)  # a wrong name is told even where Kiosk does not run
    _show(_perform("engines.create", given, settle=wait and dedicated), as_json=as_json)


@app.command("place", epilog=PLACE_EPILOG)
def place(
    name: AppName,
    engine: EngineName,
    where: Annotated[str, typer.Argument(metavar="PLACE", help="`embedded` or `dedicated`.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Move an engine between the API replicas and a dedicated deployment, without losing a request."""
    parse_placement(where)
    given = {"app_id": name, "engine_id": engine, "placement": where}
    _show(_perform("engines.place", given, settle=wait), as_json=as_json)


@app.command("scale", epilog=SCALE_EPILOG)
def scale(
    name: AppName,
    engine: EngineName,
    replicas: Replicas = "",
    target: Target = None,
    memory: Memory = None,
    cpus: Cpus = None,
    up_after: UpAfter = None,
    down_after: DownAfter = None,
    look_back: LookBack = None,
    per_node: PerNode = None,
    as_json: AsJson = False,
) -> None:
    """Show or change how a dedicated engine scales."""

    change = _read_scaling(replicas, target, memory, cpus, up_after, down_after, look_back)
    if per_node is not None:
        change["max_replicas_per_node"] = per_node
    view: EngineView = Installation().perform(
        "engines.scale" if change else "engines.get", app_id=name, engine_id=engine, **change
    )
    if as_json:
        screen.print_json(view.to_dict())
        return
    table = screen.build_table("setting", "value", "means")
    for field, about in Scaling.model_fields.items():
        table.add_row(
            field,
            f"{getattr(view.engine.scaling, field):g}",
            _SCALING_TEXTS.get(field, about.description or ""),
        )
    per_node_now = view.engine.max_replicas_per_node
    table.add_row(
        "max_replicas_per_node",
        str(per_node_now or "none"),
        "replicas on one node; a change starts replicas anew",
    )
    screen.out().print(table)
    if view.engine.target_placement == "door":
        screen.err().print(
            f"The engine is embedded in the API replicas; `kiosk engines place {name} {engine} dedicated` moves it."
        )


_SCALING_TEXTS = {
    "replicas_min": "replicas at rest",
    "replicas_max": "replicas under load",
    "target_requests": "requests under way per replica before another one starts",
    "memory_budget_mb": "MiB a replica may hold",
    "num_cpus": "processors Ray keeps for a replica; a change starts replicas anew",
    "upscale_delay_s": "seconds of load before a replica is added",
    "downscale_delay_s": "seconds of rest before one is taken away",
    "look_back_s": "load is averaged over these seconds",
}


add_commands(app, [OperationCommand("explore", "engines.explore", EXPLORE_EPILOG)], engines)


@app.command("delete", epilog=DELETE_EPILOG)
def delete(
    name: AppName,
    engine: EngineName,
    force: Annotated[bool, typer.Option("--force", help="Even though it is being asked.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Delete an engine and what serves it; the app's records stay."""

    async def drop() -> None:
        async with Installation().open_administration() as administration:
            view: EngineView = await administration.perform(
                COMMAND_LINE, "engines.delete", {"app_id": name, "engine_id": engine, "force": force}
            )
            if wait and view.status is not None:
                await _wait_until_deleted(administration.services.stores, name, engine)

    asyncio.run(drop())
    if as_json:
        screen.print_json({"deleted": True, "app_id": name, "engine_id": engine})
        return
    screen.out().print(f"Engine {engine} of {name} is deleted.")


def _perform(operation: str, given: dict[str, Any], *, settle: bool) -> EngineView:
    """Change an engine, and wait until it is where it was asked to go if it shall `settle`."""
    installation = Installation()
    if settle and not installation.is_running and not installation.settings.redis_is_external:
        raise Unavailable(
            "Kiosk does not run; start it with `kiosk up`, or say --no-wait: it is done at the start"
        )

    async def change() -> EngineView:
        async with installation.open_administration() as administration:
            view: EngineView = await administration.perform(COMMAND_LINE, operation, given)
            return await _wait_until_settled(administration.services.stores, view.engine) if settle else view

    return asyncio.run(change())


def _read_scaling(
    replicas: str,
    target: float | None,
    memory: int | None,
    cpus: float | None,
    up_after: float | None,
    down_after: float | None,
    look_back: float | None,
) -> dict[str, Any]:
    """Return the settings that were said.

    Errors:
        Invalid: `--replicas` has another form
    """
    given = {
        "target_requests": target, "memory_budget_mb": memory, "num_cpus": cpus, "upscale_delay_s": up_after,
        "downscale_delay_s": down_after, "look_back_s": look_back,
    }  # fmt: skip
    change: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    if replicas:
        least, _, most = replicas.partition(":")
        if not least.isdigit() or not (most or least).isdigit():
            raise Invalid(f"--replicas is MIN:MAX, for example 1:4, or one number; not {replicas!r}")
        change |= {"replicas_min": int(least), "replicas_max": int(most or least)}
    return change


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


async def _wait_until_deleted(stores: OpenStores, name: str, engine: str) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while engine in await stores.engine_watch.list_statuses(name):
        if loop.time() > until_s:
            raise Unavailable(
                "the engine is deleted, but its replicas have not ended yet; see `kiosk status`"
            )
        await asyncio.sleep(_EVERY_S)


def _show(view: EngineView, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(view.to_dict())
        return
    screen.out().print(view.to_sentence())
