"""Apps: the list, and one app's keys, limits, switches and people."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from cluster.records.administration import APP_ROLES, ROLE_TEXTS
from deployments.console.page import NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of

ACCESS = "/apps/{app_id}/access"
KINDS = ("both", "secret", "publishable")


async def show_apps(request: ConsoleRequest) -> Response:
    """List the apps of the person."""
    found = await request.perform("apps.list")
    return request.page("access/apps.html", list=found.to_dict()["apps"])


async def create_app(request: ConsoleRequest) -> Response:
    """Create an app and show its keys once."""
    form = request.form
    made = await request.perform(
        "apps.create", app_id=form.get("app_id", "").strip(), environment=form.get("environment", "")
    )
    return _show_new_keys(request, made)


async def show_access(request: ConsoleRequest) -> Response:
    """Show limits, switches, keys and people of an app."""
    app = (await request.perform("apps.get", app_id=request.app_id)).to_dict()
    values: dict[str, Any] = {"app": app, "keys": [], "people": [], "roles": [], "kinds": KINDS}
    if request.may("owner"):
        keys, people = await asyncio.gather(
            request.perform("keys.list", app_id=request.app_id),
            request.perform("people.list_of_app", app_id=request.app_id),
        )
        roles = [(role, f"{role}: {ROLE_TEXTS[role]}") for role in APP_ROLES]
        values |= {"keys": keys.to_dict()["keys"], "people": people.to_dict()["users"], "roles": roles}
    return request.page("access/app.html", **values)


async def set_limits(request: ConsoleRequest) -> Response:
    """Change rate limits."""
    names = ("queries_per_s", "writes_per_s")
    given = {name: request.form[name].strip() for name in names if request.form.get(name, "").strip()}
    await request.perform("apps.set_limits", app_id=request.app_id, **given)
    return _back(request, "access.limits_saved")


async def set_switches(request: ConsoleRequest) -> Response:
    """Change switches to the texts of the form."""
    app = (await request.perform("apps.get", app_id=request.app_id)).to_dict()
    changes = {
        name: request.form[f"switch-{name}"].strip()
        for name, value in app["switches"].items()
        if f"switch-{name}" in request.form and request.form[f"switch-{name}"].strip() != switch_text(value)
    }
    await request.perform("apps.set_switches", app_id=request.app_id, switches=changes)
    return _back(request, "access.switches_saved")


async def rotate_keys(request: ConsoleRequest) -> Response:
    """Replace keys, and show the new ones once."""
    kind = request.form.get("kind", "")
    return _show_new_keys(request, await request.perform("keys.rotate", app_id=request.app_id, kind=kind))


async def revoke_key(request: ConsoleRequest) -> Response:
    """Revoke one key."""
    await request.perform("keys.revoke", app_id=request.app_id, key_id=request.form.get("key_id", ""))
    return _back(request, "access.key_revoked")


async def reveal_keys(request: ConsoleRequest) -> Response:
    """Show the texts of all keys of an app."""
    found = await request.perform("keys.reveal", app_id=request.app_id)
    rows = [(one["kind"], one["key"]) for one in found.to_dict()["keys"]]
    return request.page("access/keys_shown.html", rows=rows, shown_app=request.app_id, is_new=False)


async def grant_role(request: ConsoleRequest) -> Response:
    """Give a person a role in the app."""
    form = request.form
    await request.perform(
        "people.grant_role", app_id=request.app_id, username=form.get("username", "").strip(),
        role=form.get("role", ""),
    )  # fmt: skip
    return _back(request, "access.role_granted")


async def revoke_role(request: ConsoleRequest) -> Response:
    """Take a person's role in the app away."""
    await request.perform(
        "people.revoke_role", app_id=request.app_id, username=request.form.get("username", "")
    )
    return _back(request, "access.role_revoked")


def switch_text(value: Any) -> str:
    """Return the value of a switch as a form shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}:{bound}" for name, bound in value.items())
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return "" if value is None else str(value)


def _back(request: ConsoleRequest, text: str) -> Response:
    path = path_of(ACCESS, app_id=request.app_id).removeprefix("/console")
    return request.redirect(path, request.services.text(text))


def _show_new_keys(request: ConsoleRequest, made: Any) -> Response:
    rows = [(name.removesuffix("_key"), text) for name, text in made.keys.items()]
    return request.page("access/keys_shown.html", rows=rows, shown_app=made.app_id, is_new=True)


PAGES = (
    Page("/apps", show_apps, role=None),
    Page("/apps", create_app, role="owner", methods=("POST",)),
    Page(ACCESS, show_access),
    Page(ACCESS + "/limits", set_limits, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/switches", set_switches, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/rotate", rotate_keys, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/revoke", revoke_key, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/reveal", reveal_keys, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/people", grant_role, role="owner", methods=("POST",), shown_on=ACCESS),
    Page(ACCESS + "/people/remove", revoke_role, role="owner", methods=("POST",), shown_on=ACCESS),
)
NAVIGATION = (
    NavigationEntry("access.nav", ACCESS, icon="key"),
    NavigationEntry("access.apps_nav", "/apps", role=None, icon="box"),
)
