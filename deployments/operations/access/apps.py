"""Apps: list and create them, set their rate limits and switches."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from actors.hosting.uncompacted_interactions import read_uncompacted
from cluster.admin.app_key_admin import FIRST_APPS, LONGEST_DISPLAY_NAME, AppKeyAdmin
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Invalid
from cluster.records.api_keys import IssuedKey
from cluster.records.apps import SWITCHES, App, AppSettings, Environment, Limits
from cluster.records.interaction import INTERACTION_TYPES
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_PAGE_EVENTS = (
    "product_detail_page_view",
    "click",
    "home_page_view",
    "category_page_view",
    "impression",
    "read",
)
"Interactions that web pages send."
_LATE_PAGES = 3
"Pages of the change log that are read for interactions that are not compacted yet."
_DISPLAY_NAME = "The name that the console shows for the app; empty: its id."
_PROOF_CHOICE = (
    "With the publishable key, a user_id needs its user_hash; the anonymous_id of a visitor needs no proof. To ask for "
    "one, once your pages send anonymous_hash: kiosk apps switch {} strict_user_hash=true"
)
SwitchValue = str | bool | int | float | list[str] | dict[str, int]


@dataclass(frozen=True, slots=True)
class AppList:
    """Apps that a person may see."""

    apps: list[App]

    def to_dict(self) -> dict[str, Any]:
        return {"apps": [app_to_dict(app) for app in self.apps]}

    def to_lines(self) -> ResultLines:
        """Return a table of the apps."""
        rows = [
            (
                app.app_id,
                app.display_name,
                app.environment,
                f"{app.settings.limits.queries_per_s:g}",
                f"{app.settings.limits.writes_per_s:g}",
                "read-only" if app.read_only else "",
            )
            for app in self.apps
        ]
        empty = "There are no apps yet; `kiosk up` makes the first three."
        return (
            ResultTable(("app", "display name", "environment", "queries/s", "writes/s", ""), rows, empty),
        )


@dataclass(frozen=True, slots=True)
class AppDetails:
    """One app with its limits and switches."""

    app: App

    def limits(self) -> AppLimits:
        """Return its rate limits."""
        return AppLimits(self.app.app_id, self.app.settings.limits)

    def switches(self) -> AppSwitches:
        """Return its switches."""
        return AppSwitches(self.app.app_id, self.app.settings)

    def to_dict(self) -> dict[str, Any]:
        return {**app_to_dict(self.app), "switches": switches_to_dict(self.app.settings)}

    def to_lines(self) -> ResultLines:
        """Return the name that the console shows."""
        return (f"The console shows {self.app.display_name or self.app.app_id}.",)


@dataclass(frozen=True, slots=True)
class NewKeys:
    """Keys that were issued for an app; they are shown to whoever asked for them, and to nobody later."""

    app_id: str
    environment: str
    "Empty where the app existed before."
    issued: list[IssuedKey]

    @property
    def keys(self) -> dict[str, str]:
        """Return `secret_key` and `publishable_key`, those that were issued."""
        return {f"{key.record.kind}_key": key.text for key in self.issued}

    def to_dict(self) -> dict[str, Any]:
        environment = {"environment": self.environment} if self.environment else {}
        return {"app_id": self.app_id, **environment, **self.keys}

    def to_lines(self) -> ResultLines:
        """Return the keys."""
        revoked = f"New keys of {self.app_id}; the old ones are refused from now on."
        first = f"App {self.app_id} is made." if self.environment else revoked
        proof = (_PROOF_CHOICE.format(self.app_id),) if self.environment == "production" else ()
        return (first, *(f"  {kind:<16} {key}" for kind, key in self.keys.items()), *proof)


@dataclass(frozen=True, slots=True)
class AppLimits:
    """Rate limits of an app."""

    app_id: str
    limits: Limits

    def to_dict(self) -> dict[str, Any]:
        return {"app_id": self.app_id, **self.limits.model_dump()}

    def to_lines(self) -> ResultLines:
        """Return the limits."""
        limits = self.limits
        return (
            f"{self.app_id}: {limits.queries_per_s:g} queries/s (burst {limits.query_burst}), "
            f"{limits.writes_per_s:g} writes/s (burst {limits.write_burst})",
        )


@dataclass(frozen=True, slots=True)
class AppSwitches:
    """Switches of an app."""

    app_id: str
    settings: AppSettings

    def to_dict(self) -> dict[str, Any]:
        return {"app_id": self.app_id, **switches_to_dict(self.settings)}

    def to_lines(self) -> ResultLines:
        """Return a table of the switches."""
        values = self.to_dict()
        rows = [(name, _format_switch(values[name]), text) for name, text in SWITCHES.items()]
        return (ResultTable(("switch", "value", "means"), rows),)


@dataclass(frozen=True, slots=True)
class OnboardingProgress:
    """The first steps of an app, and how far each of them is."""

    app_id: str
    products: int
    interactions: int
    "Compacted ones; new ones follow within minutes."
    orders: int
    "Interactions of the type checkout."
    models: int
    "Engines that serve a trained model."
    is_on_page: bool
    "Whether web pages send views or clicks."


class CreateApp(Arguments):
    """Arguments of `apps.create`."""

    app_id: str = Field(description="Up to 64 lower case letters, digits and -.")
    environment: str = Field("development", description="playground, development or production.")
    display_name: str = Field("", max_length=LONGEST_DISPLAY_NAME, description=_DISPLAY_NAME)


class SetDisplayName(OfApp):
    """Arguments of `apps.set_display_name`."""

    display_name: str = Field(max_length=LONGEST_DISPLAY_NAME, description=_DISPLAY_NAME)


class SetLimits(OfApp):
    """Arguments of `apps.set_limits`; what is absent stays as it is."""

    queries_per_s: float | None = Field(None, ge=0.1, le=1e6, description="Queries per second and key.")
    writes_per_s: float | None = Field(
        None, ge=0.1, le=1e6, description="Uploads and deletes per second and key."
    )


class SetSwitches(OfApp):
    """Arguments of `apps.set_switches`; switches that are absent stay as they are."""

    switches: dict[str, SwitchValue] = Field(
        default_factory=dict, max_length=100, description="Switch -> value."
    )


def _format_switch(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple | list) else str(value)


def app_to_dict(app: App) -> dict[str, Any]:
    """Return an app for JSON."""
    facts = app.model_dump(include={"app_id", "display_name", "environment", "created_at"})
    return {**facts, "read_only": app.read_only, "limits": app.settings.limits.model_dump()}


def switches_to_dict(settings: AppSettings) -> dict[str, Any]:
    """Return the switches of an app, name -> value."""
    return settings.model_dump(include=set(SWITCHES))


@operation("apps.list", "GET", "/apps", scope="person")
async def list_apps(services: AdminServices, _: Arguments) -> AppList:
    """List the apps in which you have a role."""
    visible = services.principal.app_ids
    apps = await app_admin(services).apps()
    return AppList([app for app in apps if visible is None or app.app_id in visible])


@operation("apps.get", "GET", "/apps/{app_id}")
async def read_app(services: AdminServices, given: OfApp) -> AppDetails:
    """Show one app with its limits and switches.

    Errors:
        NotFound: no such app
    """
    return AppDetails(await app_admin(services).app(given.app_id))


@operation("apps.progress", "GET", "/apps/{app_id}/progress")
async def read_progress(services: AdminServices, given: OfApp) -> OnboardingProgress:
    """Show how far the first steps of an app are.

    The steps: catalog, orders, model, web page.

    Errors:
        NotFound: no such app
    Cost:
        reads the types of all interactions, once in 30 seconds
    """
    await app_admin(services).app(given.app_id)
    stores = services.stores
    products, engines, types = await asyncio.gather(
        stores.records.count(given.app_id, "product"),
        stores.engines.all(given.app_id),
        services.cache.get(("apps.progress", given.app_id), lambda: _count_types(services, given.app_id)),
    )
    return OnboardingProgress(
        given.app_id,
        products,
        sum(types.values()),
        types.get("checkout", 0),
        sum(1 for engine in engines if engine.snapshot),
        any(types.get(kind) for kind in _PAGE_EVENTS),
    )


async def _count_types(services: AdminServices, app_id: str) -> dict[str, int]:
    segments = SegmentStore(services.artifacts)
    counts = Counter(await asyncio.to_thread(segments.count_interactions, app_id, "type"))
    offsets = await asyncio.to_thread(segments.offsets, app_id)
    # The first interactions of a new app are in no segment yet, and its owner looks for them here.
    late = await read_uncompacted(
        services.stores.changes,
        app_id,
        offsets.get("interaction", "0"),
        INTERACTION_TYPES,
        most_pages=_LATE_PAGES,
    )
    counts.update(str(interaction.item["type"]) for interaction in late)
    return dict(counts)


@operation(
    "apps.create",
    "POST",
    "/apps",
    "owner",
    scope="installation",
    secret_results={"publishable_key", "secret_key"},
)
async def create_app(services: AdminServices, given: CreateApp) -> NewKeys:
    """Make an app with a secret and a publishable key, which are shown once.

    Errors:
        Conflict: the name is taken
        Invalid: the name is not allowed, or there is no such environment
    """
    environment = _environment(given.environment)
    issued = await app_admin(services).create_app(
        given.app_id, environment, services.now_ms(), given.display_name
    )
    return NewKeys(given.app_id, environment, issued)


async def _read_display_name(services: AdminServices, given: SetDisplayName) -> dict[str, Any]:
    return {"display_name": (await app_admin(services).app(given.app_id)).display_name}


@operation(
    "apps.set_display_name", "PUT", "/apps/{app_id}/display-name", "owner", read_before=_read_display_name
)
async def set_display_name(services: AdminServices, given: SetDisplayName) -> AppDetails:
    """Change the name that the console shows for an app.

    The id stays.

    Errors:
        NotFound: no such app
        Invalid: the name has control characters
    """
    return AppDetails(await app_admin(services).set_display_name(given.app_id, given.display_name))


async def _read_limits(services: AdminServices, given: SetLimits) -> AppLimits:
    return AppDetails(await app_admin(services).app(given.app_id)).limits()


@operation("apps.set_limits", "PATCH", "/apps/{app_id}/limits", "owner", read_before=_read_limits)
async def set_limits(services: AdminServices, given: SetLimits) -> AppLimits:
    """Change the rate limits of an app.

    Errors:
        NotFound: no such app
    """
    limits = await app_admin(services).set_rate_limits(
        given.app_id, queries_per_s=given.queries_per_s, writes_per_s=given.writes_per_s
    )
    return AppLimits(given.app_id, limits)


async def _read_switches(services: AdminServices, given: SetSwitches) -> dict[str, Any]:
    app = await app_admin(services).app(given.app_id)
    switches = switches_to_dict(app.settings)
    return {name: switches.get(name) for name in given.switches}


@operation("apps.set_switches", "PATCH", "/apps/{app_id}/switches", "owner", read_before=_read_switches)
async def set_switches(services: AdminServices, given: SetSwitches) -> AppSwitches:
    """Change switches of an app; API replicas apply them within a second.

    Errors:
        NotFound: no such app
        Invalid: no such switch, or a value it does not accept
    """
    changes = {name: switch_text(value) for name, value in given.switches.items()}
    return AppSwitches(given.app_id, await app_admin(services).set_switches(given.app_id, changes))


def app_admin(services: AdminServices) -> AppKeyAdmin:
    """Return the administration of apps and keys."""
    return AppKeyAdmin(services.stores.access, services.vault)


def switch_text(value: Any) -> str:
    """Return the value of a switch as forms and commands write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}:{bound}" for name, bound in value.items())
    if isinstance(value, list | tuple):
        return ",".join(str(entry) for entry in value)
    return "" if value is None else str(value)


def _environment(text: str) -> Environment:
    for environment in FIRST_APPS:
        if text == environment:
            return environment
    raise Invalid(f"there is no environment {text!r}; choose one of {', '.join(FIRST_APPS)}")
