"""Use cases of engines: list, read, create, place, scale and delete.

They change records; the engine operator brings the change about while everything runs.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field, ValidationError

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Conflict, Invalid, KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.records.apps import App
from cluster.records.engine import (
    ENGINE_NAME,
    MOST_EXPLORED,
    MOST_PAUSES,
    Engine,
    Exploration,
    Placement,
    Scaling,
)
from cluster.records.field_types.record_changes import with_changes
from cluster.store.app_quotas import check_new_engine
from cluster.store.stores import Stores
from deployments.operations.framework.operation import Arguments, OfApp, OfEngine, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engine_views import EngineView, read_engine_view, read_engine_views

BUSY_PER_S = 0.05
"An engine asked at least three times in the last minute has traffic."

PLACEMENTS: Final[dict[str, Placement]] = {
    "embedded": "door",
    "dedicated": "own",
    "door": "door",
    "own": "own",
}
"Words of people -> stored placements; the stored words are valid too."


@dataclass(frozen=True, slots=True)
class EngineList:
    """Engines at one moment."""

    engines: tuple[EngineView, ...]

    def to_lines(self) -> ResultLines:
        """Return a table of the engines."""
        table = ResultTable(
            ("app", "engine", "lives", "replicas", "asked/s", "snapshot", ""),
            [view.to_row() for view in self.engines],
            "There are no engines yet; `default` comes with an app's first products.",
            ids=("snapshot",),
            droppable=("asked/s",),
        )
        return (table,)


@dataclass(frozen=True, slots=True)
class EngineScaling:
    """An engine, shown by how it scales."""

    view: EngineView

    def to_dict(self) -> dict[str, object]:
        return self.view.to_dict()

    def to_lines(self) -> ResultLines:
        """Return a table of the settings."""
        engine = self.view.engine
        values = {name: f"{getattr(engine.scaling, name):g}" for name in Scaling.model_fields}
        values["max_replicas_per_node"] = str(engine.max_replicas_per_node or "none")
        fields = ScaleEngine.model_fields
        table = ResultTable(
            ("setting", "value", "means"),
            [(name, value, fields[name].description or "") for name, value in values.items()],
        )
        move = f"kiosk engines place {engine.app_id} {engine.engine_id} dedicated"
        hint = f"The engine is embedded in the API replicas; `{move}` moves it."
        return (table, hint) if engine.target_placement == "door" else (table,)


@dataclass(frozen=True, slots=True)
class DeletedEngine:
    """An engine that was deleted."""

    view: EngineView

    def to_dict(self) -> dict[str, Any]:
        engine = self.view.engine
        return {"deleted": True, "app_id": engine.app_id, "engine_id": engine.engine_id}

    def to_lines(self) -> ResultLines:
        engine = self.view.engine
        return (f"Engine {engine.engine_id} of {engine.app_id} is deleted.",)


class ScaleEngine(OfEngine):
    """What to change of how a dedicated engine scales; what is not named stays."""

    replicas_min: int | None = Field(None, title="Minimum replicas", description="Minimum replicas.")
    replicas_max: int | None = Field(None, title="Maximum replicas", description="Maximum replicas.")
    target_requests: float | None = Field(
        None,
        title="Target requests in flight per replica",
        description="Requests under way per replica before another one starts.",
    )
    memory_budget_mb: int | None = Field(
        None, title="Memory per replica (MiB)", description="MiB a replica may hold."
    )
    num_cpus: float | None = Field(
        None,
        title="CPUs per replica",
        description="Processors Ray keeps for a replica; a change starts replicas anew.",
    )
    upscale_delay_s: float | None = Field(
        None, title="Scale-up delay (seconds)", description="Scale-up delay in seconds."
    )
    downscale_delay_s: float | None = Field(
        None, title="Scale-down delay (seconds)", description="Scale-down delay in seconds."
    )
    look_back_s: float | None = Field(
        None, title="Averaging window (seconds)", description="Load is averaged over these seconds."
    )
    max_replicas_per_node: int | None = Field(
        None, ge=0, le=256, description="Replicas on one node, 0: any number; a change starts replicas anew."
    )

    def apply(self, before: Scaling) -> Scaling:
        """Return the changed scaling.

        Errors:
            Invalid: the message names the setting and what it may be
        """
        named = {field: getattr(self, field) for field in Scaling.model_fields}
        try:
            return with_changes(before, {field: value for field, value in named.items() if value is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            words = first["msg"].removeprefix("Value error, ")
            where = f"{first['loc'][0]}: " if first["loc"] else ""
            raise Invalid(f"{where}{words[:1].lower()}{words[1:]}") from None


class CreateEngine(ScaleEngine):
    """An engine to create."""

    dedicated: bool = Field(
        False, description="Run it in a deployment of its own instead of in the API replicas."
    )


class PlaceEngine(OfEngine):
    """Where an engine shall run."""

    placement: str = Field(description="`embedded` or `dedicated`.")


class ExploreEngine(OfEngine):
    """How an engine shall explore."""

    share: float = Field(ge=0, le=MOST_EXPLORED)
    "Share of lists in which one place gets a product from behind the list, at most 0.2; 0 turns exploration off."
    pool: int = Field(default=100, ge=1, le=1000)
    "Number of the best products behind the list from which the product is drawn."


class SetRepeatAfter(OfEngine):
    """When a product may be recommended again after an interaction."""

    type: str = Field(default="*", min_length=1, max_length=64)
    "Type of interaction, for example `checkout`; `*` is any type that has no pause."
    days: float | None = Field(default=None, ge=0, le=36_500)
    "Days in which lists leave out the products of such an interaction; absent: as the snapshot has learned."
    all_engines: bool = Field(False, description="Change all engines of the app, not this one alone.")


class DeleteEngine(OfEngine):
    """An engine to delete."""

    force: bool = Field(False, description="Delete it even though it is being asked.")


async def list_apps(services: AdminServices) -> list[App]:
    """Return the apps, the first ones first."""
    return await AppKeyAdmin(services.stores.access, services.vault).apps()


async def list_visible(services: AdminServices) -> list[str]:
    """Return the names of the apps that the principal may see, the first ones first."""
    visible = services.principal.app_ids
    return [app.app_id for app in await list_apps(services) if visible is None or app.app_id in visible]


async def check_visible(services: AdminServices, app_id: str) -> str:
    """Return the name of an app that the principal may see.

    Errors:
        NotFound: there is none of this name; the message lists the others
    """
    visible = await list_visible(services)
    if app_id not in visible:
        raise no_app_error(app_id, visible)
    return app_id


async def check_app(services: AdminServices, app_id: str) -> App:
    """Return an app.

    Errors:
        NotFound: no such app; the message lists the existing ones
    """
    apps = {app.app_id: app for app in await list_apps(services)}
    if app_id not in apps:
        raise no_app_error(app_id, list(apps))
    return apps[app_id]


def no_app_error(app_id: str, app_ids: Sequence[str]) -> KioskError:
    """Return the error for the name of no app."""
    return NotFound(f"there is no app named {app_id}; there are: {', '.join(app_ids) or 'none'}")


@operation("engines.list_all", "GET", "/engines", scope="person")
async def list_all_engines(services: AdminServices, _: Arguments) -> EngineList:
    """List the engines of all apps."""
    return await _list_engines(services, await list_visible(services))


@operation("engines.list", "GET", "/apps/{app_id}/engines")
async def list_engines(services: AdminServices, given: OfApp) -> EngineList:
    """List the engines of an app."""
    return await _list_engines(services, [await check_visible(services, given.app_id)])


async def _list_engines(services: AdminServices, app_ids: Sequence[str]) -> EngineList:
    views = await read_engine_views(services.stores, app_ids, services.now_ms(), services.artifacts)
    return EngineList(tuple(views))


@operation("engines.get", "GET", "/apps/{app_id}/engines/{engine_id}")
async def get_engine(services: AdminServices, given: OfEngine) -> EngineView:
    """Read an engine."""
    engine = await find_engine(services.stores, given.app_id, given.engine_id)
    return await read_engine_view(services.stores, engine, services.now_ms())


def build_engine(given: CreateEngine, now_ms: int) -> Engine:
    """Return the record of a new engine.

    Errors:
        Invalid: the name or the scaling is not allowed
    """
    if not re.fullmatch(ENGINE_NAME, given.engine_id):
        raise Invalid(
            f"{given.engine_id!r} can't be the name of an engine: up to 64 lower case letters, digits and -, "
            "the first no -"
        )
    return Engine(
        app_id=given.app_id,
        engine_id=given.engine_id,
        scaling=given.apply(Scaling()),
        max_replicas_per_node=given.max_replicas_per_node or 0,
        moving_to="own" if given.dedicated else None,
        created_at=now_ms,
    )


@operation(
    "engines.create", "POST", "/apps/{app_id}/engines", "owner", check=lambda given: build_engine(given, 0)
)
async def create_engine(services: AdminServices, given: CreateEngine) -> EngineView:
    """Create an engine that reads its app's products and interactions.

    Errors:
        Invalid: the name or the scaling is not allowed
        NotFound: no such app
        Conflict: the app has an engine of that name, or as many engines as it may
    """
    made = build_engine(given, services.now_ms())
    apps = {app.app_id: app for app in await list_apps(services)}
    if given.app_id not in apps:
        raise no_app_error(given.app_id, sorted(apps))
    await check_new_engine(services.stores.engines, apps[given.app_id], given.engine_id)
    default = await services.stores.engines.get(given.app_id, DEFAULT_ENGINE)
    if default is not None:
        made = made.model_copy(update={"repeat_after_days": default.repeat_after_days})
    if not await services.stores.engines.add(made):
        raise Conflict(
            f"{given.app_id} has an engine named {given.engine_id} already; see `kiosk engines list "
            f"{given.app_id}`, change it with `kiosk engines scale` or `kiosk engines place`"
        )
    return await read_engine_view(services.stores, made, services.now_ms())


@operation(
    "engines.place",
    "POST",
    "/apps/{app_id}/engines/{engine_id}/place",
    "owner",
    read_before=get_engine,
    check=lambda given: parse_placement(given.placement),
)
async def place_engine(services: AdminServices, given: PlaceEngine) -> EngineView:
    """Move an engine between the API replicas and a dedicated deployment.

    No request is lost.
    """
    to = parse_placement(given.placement)

    def moved(engine: Engine) -> Engine:
        # Where the engine is already, the move that has begun is called off.
        return engine.model_copy(update={"moving_to": None if engine.placement == to else to})

    changed = await _change_engine(services.stores, given, moved)
    return await read_engine_view(services.stores, changed, services.now_ms())


def parse_placement(word: str) -> Placement:
    """Return the stored placement that a word means.

    Errors:
        Invalid: there is no such place
    """
    if word not in PLACEMENTS:
        raise Invalid(f"there is no place {word!r}; choose embedded or dedicated")
    return PLACEMENTS[word]


@operation(
    "engines.scale", "POST", "/apps/{app_id}/engines/{engine_id}/scale", "owner", read_before=get_engine
)
async def scale_engine(services: AdminServices, given: ScaleEngine) -> EngineScaling:
    """Change how a dedicated engine scales."""

    def scaled(engine: Engine) -> Engine:
        per_node = given.max_replicas_per_node
        return engine.model_copy(
            update={
                "scaling": given.apply(engine.scaling),
                "max_replicas_per_node": engine.max_replicas_per_node if per_node is None else per_node,
            }
        )

    changed = await _change_engine(services.stores, given, scaled)
    return EngineScaling(await read_engine_view(services.stores, changed, services.now_ms()))


@operation(
    "engines.explore", "POST", "/apps/{app_id}/engines/{engine_id}/explore", "owner", read_before=get_engine
)
async def explore_engine(services: AdminServices, given: ExploreEngine) -> EngineView:
    """Let an engine show products from behind its lists to a share of requests, so that logs can judge other rankings.

    Errors:
        NotFound: no such app or engine
    """
    secret = secrets.token_hex(16)

    def exploring(engine: Engine) -> Engine:
        # The first secret stays, so that earlier draws can be recomputed.
        kept = engine.exploration.secret or secret
        exploration = Exploration(share=given.share, pool=given.pool, secret=kept)
        return engine.model_copy(update={"exploration": exploration})

    changed = await _change_engine(services.stores, given, exploring)
    return await read_engine_view(services.stores, changed, services.now_ms())


@operation(
    "engines.repeat_after",
    "POST",
    "/apps/{app_id}/engines/{engine_id}/repeat-after",
    "owner",
    read_before=get_engine,
)
async def change_repeat_pause(services: AdminServices, given: SetRepeatAfter) -> EngineView:
    """Change how long the lists of an engine leave out the products of a type of interaction.

    A new engine has the pauses of the engine `default`.

    Errors:
        NotFound: no such app or engine
        Invalid: the engine has pauses for too many types
    """

    def pausing(engine: Engine) -> Engine:
        pauses = {kind: days for kind, days in engine.repeat_after_days.items() if kind != given.type}
        if given.days is not None:
            pauses[given.type] = given.days
        if len(pauses) > MOST_PAUSES:
            raise Invalid(
                f"an engine has pauses for at most {MOST_PAUSES} types of interaction; remove one first"
            )
        return engine.model_copy(update={"repeat_after_days": pauses})

    engines = await services.stores.engines.all(given.app_id) if given.all_engines else []
    others = [engine for engine in engines if engine.engine_id != given.engine_id]
    for engine in others:
        pausing(engine)  # the bound of another engine refuses all changes before the first one
    changed = await _change_engine(services.stores, given, pausing)
    for engine in others:
        await services.stores.engines.change(engine.app_id, engine.engine_id, pausing)
    return await read_engine_view(services.stores, changed, services.now_ms())


@operation("engines.delete", "DELETE", "/apps/{app_id}/engines/{engine_id}", "owner", read_before=get_engine)
async def delete_engine(services: AdminServices, given: DeleteEngine) -> EngineView:
    """Delete an engine; the app's records stay.

    The result is the engine as it was.

    Errors:
        NotFound: no such app or engine
        Invalid: it is the default engine
        Conflict: requests come in, and `force` is off
    """
    stores = services.stores
    app_id = given.app_id
    engine_id = given.engine_id
    engine = await find_engine(stores, app_id, engine_id)
    if engine.is_default:
        raise Invalid("the default engine answers requests that name none and can't be deleted")
    view = await read_engine_view(stores, engine, services.now_ms())
    if view.per_s >= BUSY_PER_S and not given.force:
        raise Conflict(
            f"{engine_id} is asked {view.per_s:.2g} times a second; stop asking it and try again in a minute, or "
            f"`kiosk engines delete {app_id} {engine_id} --force`"
        )
    await stores.engines.remove(app_id, engine_id)
    return view


async def find_engine(stores: Stores, app_id: str, engine_id: str) -> Engine:
    """Return an engine.

    Errors:
        NotFound: no such app or engine; the message says how to make it
    """
    engine = await stores.engines.get(app_id, engine_id)
    if engine is None:
        raise await _no_engine_error(stores, app_id, engine_id)
    return engine


async def _change_engine(stores: Stores, given: OfEngine, change: Any) -> Engine:
    changed = await stores.engines.change(given.app_id, given.engine_id, change)
    if changed is None:
        raise await _no_engine_error(stores, given.app_id, given.engine_id)
    return changed


async def _no_engine_error(stores: Stores, app_id: str, engine_id: str) -> KioskError:
    apps = sorted((await stores.access.read_all()).apps)
    if app_id not in apps:
        return no_app_error(app_id, apps)
    names = [engine.engine_id for engine in await stores.engines.all(app_id)]
    if engine_id == "default" and not names:
        return NotFound(f"{app_id} has no engine yet; `default` comes with its first products")
    return NotFound(
        f"{app_id} has no engine named {engine_id}; there are: {', '.join(names) or 'none'}. "
        f"`kiosk engines create {app_id} {engine_id}` makes it"
    )
