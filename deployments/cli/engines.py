"""`kiosk engines`: recommenders of an app: make, list, place, scale and delete them while everything runs.

Commands change records; whoever keeps the engines' deployments brings the change about, and commands that wait for
that watch what it tells.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from cluster.admin.key_admin import KeyAdmin
from cluster.errors import Conflict, HouseError, Invalid, NotFound, Unavailable
from cluster.records.changes import with_changes
from cluster.records.engine import ENGINE_NAME, Engine, Placement, Scaling
from cluster.runtime.artifact_access import open_artifact_store
from cluster.store.app_bounds import check_new_engine
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.engine_views import EngineView, read_engine_view, read_engine_views
from deployments.cli.installation import Installation, read_clock_ms

app = typer.Typer(
    help="Engines: recommenders of an app, embedded in the API replicas or dedicated.", no_args_is_help=True
)

PATIENCE_S = 90.0
_EVERY_S = 0.25
BUSY_PER_S = 0.05
"An engine asked at least three times in the last minute has traffic."

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
DELETE_EPILOG = """
[bold]Example[/]

  kiosk engines delete bookshop summer     its name answers "engine is not found" from then on
"""

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
EngineName = Annotated[str, typer.Argument(metavar="ENGINE", help="The engine; each app has `default`.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Wait = Annotated[bool, typer.Option(help="Come back when it is done, not when it is asked for.")]
Replicas = Annotated[str, typer.Option(metavar="MIN:MAX", help="Replicas at rest and under load.")]
Target = Annotated[float | None, typer.Option(help="Requests under way per replica before one is added.")]
Memory = Annotated[int | None, typer.Option(metavar="MIB", help="Memory a replica may hold.")]
Cpus = Annotated[float | None, typer.Option(help="Processors Ray keeps for a replica.")]
UpAfter = Annotated[float | None, typer.Option(metavar="S", help="Seconds of load before one is added.")]
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

    async def read(keeping: KeyAdmin, stores: OpenStores) -> list[EngineView]:
        return await read_engine_views(
            keeping, stores, name, read_clock_ms(), open_artifact_store(installation.settings)
        )

    installation = Installation()
    found = installation.administer(read)
    if as_json:
        screen.print_json({"engines": [view.to_dict() for view in found]})
        return
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
    for view in found:
        table.add_row(*view.to_row())
    words = "There are no engines yet; `default` comes with an app's first products."
    screen.out().print(table if found else words)


_PLACEMENTS: Final[dict[str, Placement]] = {
    "embedded": "door",
    "dedicated": "own",
    "door": "door",
    "own": "own",
}
"Words of the command line -> stored placements; the stored words are valid too."


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: AppName,
    engine: EngineName,
    own: Annotated[
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
    if not re.fullmatch(ENGINE_NAME, engine):
        raise Invalid(
            f"{engine!r} can't be the name of an engine: up to 64 lower case letters, digits and -, the first no -"
        )
    wanted = _apply_scaling(Scaling(), replicas, target, memory, cpus, up_after, down_after, look_back)
    moving: Placement | None = "own" if own else None

    async def make(keeping: KeyAdmin, stores: OpenStores) -> EngineView:
        apps = {one.app_id: one for one in await keeping.apps()}
        _check_app(list(apps), name)
        await check_new_engine(stores.engines, apps[name], engine)
        made = Engine(
            app_id=name, engine_id=engine, scaling=wanted, moving_to=moving, created_at=read_clock_ms()
        )
        if not await stores.engines.add(made):
            raise Conflict(
                f"{name} has an engine named {engine} already; see `kiosk engines list {name}`, change it with "
                "`kiosk engines scale` or `kiosk engines place`"
            )
        return (
            await _wait_until_settled(stores, made)
            if wait and own
            else await read_engine_view(stores, made, read_clock_ms())
        )

    _show(_retry_while_running(make, needed=own and wait), as_json=as_json)


@app.command("place", epilog=PLACE_EPILOG)
def place(
    name: AppName,
    engine: EngineName,
    where: Annotated[str, typer.Argument(metavar="PLACE", help="`embedded` or `dedicated`.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Move an engine between the API replicas and a dedicated deployment, without losing a request."""
    if where not in _PLACEMENTS:
        raise Invalid(f"there is no place {where!r}; choose embedded or dedicated")
    to = _PLACEMENTS[where]

    def moved(one: Engine) -> Engine:
        return one.model_copy(update={"moving_to": None if one.placement == to else to})

    async def move(keeping: KeyAdmin, stores: OpenStores) -> EngineView:
        asked = await _change_engine(stores, name, engine, moved)
        return (
            await _wait_until_settled(stores, asked)
            if wait
            else await read_engine_view(stores, asked, read_clock_ms())
        )

    _show(_retry_while_running(move, needed=wait), as_json=as_json)


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

    async def change(keeping: KeyAdmin, stores: OpenStores) -> EngineView:
        def scaled(one: Engine) -> Engine:
            wanted = _apply_scaling(
                one.scaling, replicas, target, memory, cpus, up_after, down_after, look_back
            )
            each = one.max_replicas_per_node if per_node is None else per_node
            return one.model_copy(update={"scaling": wanted, "max_replicas_per_node": each})

        return await read_engine_view(
            stores, await _change_engine(stores, name, engine, scaled), read_clock_ms()
        )

    view = Installation().administer(change)
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


@app.command("delete", epilog=DELETE_EPILOG)
def delete(
    name: AppName,
    engine: EngineName,
    force: Annotated[bool, typer.Option("--force", help="Even though it is being asked.")] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Delete an engine and what serves it; the app's records stay."""

    async def drop(keeping: KeyAdmin, stores: OpenStores) -> None:
        one = await _get_engine(stores, name, engine)
        if one.is_default:
            raise Invalid("the default engine answers requests that name none and can't be deleted")
        view = await read_engine_view(stores, one, read_clock_ms())
        if view.per_s >= BUSY_PER_S and not force:
            raise Conflict(
                f"{engine} is asked {view.per_s:.2g} times a second; stop asking it and try again in a minute, or "
                f"`kiosk engines delete {name} {engine} --force`"
            )
        await stores.engines.remove(name, engine)
        if wait and view.status is not None:
            await _wait_until_deleted(stores, name, engine)

    _retry_while_running(drop, needed=False)
    if as_json:
        screen.print_json({"deleted": True, "app_id": name, "engine_id": engine})
        return
    screen.out().print(f"Engine {engine} of {name} is deleted.")


# --- working on records ----------------------------------------------------------------------------------------


def _retry_while_running(work: Any, *, needed: bool) -> Any:
    installation = Installation()
    if needed and not installation.is_running and not installation.settings.redis_is_external:
        raise Unavailable(
            "Kiosk does not run; start it with `kiosk up`, or say --no-wait: it is done at the start"
        )
    return installation.administer(work)


def _apply_scaling(
    before: Scaling,
    replicas: str,
    target: float | None,
    memory: int | None,
    cpus: float | None,
    up_after: float | None,
    down_after: float | None,
    look_back: float | None,
) -> Scaling:
    """Change what was said.

    Errors:
        Invalid: the sentence names the setting and what it may be
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
    try:
        return with_changes(before, change)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        words = first["msg"].removeprefix("Value error, ")
        where = f"{first['loc'][0]}: " if first["loc"] else ""
        raise Invalid(f"{where}{words[:1].lower()}{words[1:]}") from None


async def _get_engine(stores: OpenStores, name: str, engine: str) -> Engine:
    found = await stores.engines.get(name, engine)
    if found is None:
        raise await _raise_no_engine(stores, name, engine)
    return found


async def _change_engine(stores: OpenStores, name: str, engine: str, change: Any) -> Engine:
    changed = await stores.engines.change(name, engine, change)
    if changed is None:
        raise await _raise_no_engine(stores, name, engine)
    return changed


async def _raise_no_engine(stores: OpenStores, name: str, engine: str) -> HouseError:
    apps = sorted((await stores.access.read_all()).apps)
    if name not in apps:
        return NotFound(f"there is no app named {name}; there are: {', '.join(apps) or 'none'}")
    names = [one.engine_id for one in await stores.engines.all(name)]
    if engine == "default" and not names:
        return NotFound(f"{name} has no engine yet; `default` comes with its first products")
    return NotFound(
        f"{name} has no engine named {engine}; there are: {', '.join(names) or 'none'}. "
        f"`kiosk engines create {name} {engine}` makes it"
    )


def _check_app(apps: list[str], name: str) -> None:
    if name not in apps:
        raise NotFound(f"there is no app named {name}; there are: {', '.join(sorted(apps)) or 'none'}")


async def _wait_until_settled(stores: OpenStores, asked: Engine) -> EngineView:
    """Wait until an engine is where it was asked to go."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    with screen.err().status(f"moving {asked.engine_id}") as status:
        while True:
            view = await read_engine_view(
                stores, await _get_engine(stores, asked.app_id, asked.engine_id), read_clock_ms()
            )
            if view.is_settled:
                return view
            words = view.status.message if view.status else ""
            status.update(f"moving {asked.engine_id} {words}")
            if loop.time() > until_s:
                raise Unavailable(
                    f"not moved after {PATIENCE_S:.0f} s{': ' + words if words else ''}; it is asked where it was. See "
                    f"`kiosk engines list {asked.app_id}` and `kiosk doctor`"
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
