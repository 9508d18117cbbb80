"""Apps: the list, and one app's keys, limits, switches and people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

from starlette.responses import Response

from cluster.records.administration import APP_ROLES, ROLE_TEXTS
from cluster.records.apps import SWITCHES, AppSettings
from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.operations.access.apps import switch_text

ACCESS = "/apps/{app_id}/access"
SETTING_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "privacy": ("query_log", "served_log", "served_days", "confidential_fields"),
    "browsers": (
        "bot_rule", "secret_key_in_browser", "publishable_experiments", "browser_events", "browser_readers",
        "address_share",
    ),
    "limits": (
        "new_readers_per_address", "new_readers_per_day", "checkouts_per_address", "questions_per_address",
        "questions_without_proof", "questions_per_day", "provider_tokens_per_day",
    ),
    "capacity": ("max_records", "max_storage_mb", "max_engines", "max_trainings", "max_training_memory_mb"),
    "content": ("primary_language", "currency", "update_significance", "affiliation_fq", "citation_marks"),
    "compatibility": ("product_envelope", "completion_paging", "service_id_aliases", "service_id_response_alias"),
    "proof": (
        "prove_writers", "strict_user_hash", "typed_user_hash", "derived_token_key", "keyed_visitor_ids",
        "token_max_age_h",
    ),
}  # fmt: skip
"Groups of settings in their order; settings of no group follow in a last one."
CLOSED_GROUPS = ("compatibility", "proof", "other")
"Groups that need a click: they can lock out clients that run today."
KINDS = ("both", "secret", "publishable")


async def show_apps(request: ConsoleRequest) -> Response:
    """List the apps of the person."""
    apps = await request.perform("apps.list")
    return request.page("access/apps.html", list=apps.to_dict()["apps"])


async def create_app(request: ConsoleRequest) -> Response:
    """Create an app and show its keys once."""
    form = request.form
    made = await request.perform(
        "apps.create",
        app_id=form.get("app_id", "").strip(),
        environment=form.get("environment", ""),
        display_name=form.get("display_name", "").strip(),
    )
    return _show_new_keys(request, made)


async def show_access(request: ConsoleRequest) -> Response:
    """Show limits, switches, keys and people of an app."""
    app = (await request.perform("apps.get")).to_dict()
    values: dict[str, Any] = {"app": app, "keys": [], "people": [], "roles": [], "kinds": KINDS}
    values["groups"] = list_setting_groups(app["switches"], request.services.text)
    if request.may("owner"):
        keys, people, invitations = await asyncio.gather(
            request.perform("keys.list"),
            request.perform("people.list_of_app"),
            request.perform("invitations.list_of_app"),
        )
        roles = [(role, f"{role}: {ROLE_TEXTS[role]}") for role in APP_ROLES]
        values |= {"keys": keys.to_dict()["keys"], "people": people.to_dict()["users"], "roles": roles}
        values |= invitations.to_dict()
    return request.page("access/app.html", **values)


def list_setting_groups(settings: Mapping[str, Any], text: ConsoleTexts) -> list[dict[str, Any]]:
    """Return the groups of the settings with their inputs: label, sentence, value, and choices or bounds."""
    grouped = {name for names in SETTING_GROUPS.values() for name in names}
    groups = {**SETTING_GROUPS, "other": tuple(name for name in settings if name not in grouped)}
    return [
        {
            "name": group,
            "is_open": group not in CLOSED_GROUPS,
            "inputs": [_describe_setting(name, settings[name], text) for name in names if name in settings],
        }
        for group, names in groups.items()
        if any(name in settings for name in names)
    ]


def _describe_setting(name: str, value: Any, text: ConsoleTexts) -> dict[str, Any]:
    field = AppSettings.model_fields[name]
    choices: list[tuple[str, str]] = []
    if isinstance(value, bool):
        choices = [("true", text("access.on")), ("false", text("access.off"))]
    elif get_origin(field.annotation) is Literal:
        choices = [(choice, text(f"access.choice.{name}.{choice}")) for choice in get_args(field.annotation)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    bounds = {
        part: getattr(entry, part)
        for entry in field.metadata
        for part in ("ge", "le")
        if hasattr(entry, part)
    }
    return {
        "name": f"switch-{name}",
        "label": text.texts.get(f"access.setting.{name}") or name.replace("_", " "),
        "hint": SWITCHES[name],
        "value": switch_text(value),
        "choices": choices,
        "type": "number" if is_number else "text",
        "minimum": bounds.get("ge", ""),
        "maximum": bounds.get("le", ""),
        "step": "any" if isinstance(value, float) else "",
    }


async def set_display_name(request: ConsoleRequest) -> Response:
    """Change the name that pages show for the app."""
    name = request.form.get("display_name", "").strip()
    await request.perform("apps.set_display_name", display_name=name)
    return request.redirect(ACCESS, "access.display_name_saved")


async def set_switches(request: ConsoleRequest) -> Response:
    """Change switches to the texts of the form."""
    app = (await request.perform("apps.get")).to_dict()
    changes = {
        name: request.form[f"switch-{name}"].strip()
        for name, value in app["switches"].items()
        if f"switch-{name}" in request.form and request.form[f"switch-{name}"].strip() != switch_text(value)
    }
    await request.perform("apps.set_switches", switches=changes)
    return request.redirect(ACCESS, "access.switches_saved")


async def rotate_keys(request: ConsoleRequest) -> Response:
    """Replace keys, and show the new ones once."""
    kind = request.form.get("kind", "")
    return _show_new_keys(request, await request.perform("keys.rotate", kind=kind))


async def reveal_keys(request: ConsoleRequest) -> Response:
    """Show the texts of all keys of an app."""
    keys = await request.perform("keys.reveal")
    rows = [(key["kind"], key["key"]) for key in keys.to_dict()["keys"]]
    return request.page("access/keys_shown.html", rows=rows, shown_app=request.app_id, is_new=False)


def _show_new_keys(request: ConsoleRequest, made: Any) -> Response:
    rows = [(name.removesuffix("_key"), text) for name, text in made.keys.items()]
    return request.page("access/keys_shown.html", rows=rows, shown_app=made.app_id, is_new=True)


PAGES = (
    Page("/apps", show_apps, role=None),
    FormPage("/apps", create_app, role="owner"),
    Page(ACCESS, show_access),
    FormPage(ACCESS + "/display-name", set_display_name, role="owner", shown_on=ACCESS),
    operation_page(ACCESS + "/limits", "apps.set_limits", ACCESS, "access.limits_saved", role="owner"),
    FormPage(ACCESS + "/switches", set_switches, role="owner", shown_on=ACCESS),
    FormPage(ACCESS + "/rotate", rotate_keys, role="owner", shown_on=ACCESS),
    operation_page(ACCESS + "/revoke", "keys.revoke", ACCESS, "access.key_revoked", role="owner"),
    FormPage(ACCESS + "/reveal", reveal_keys, role="owner", shown_on=ACCESS),
    operation_page(ACCESS + "/people", "people.grant_role", ACCESS, "access.role_granted", role="owner"),
    operation_page(
        ACCESS + "/people/remove", "people.revoke_role", ACCESS, "access.role_revoked", role="owner"
    ),
)
NAVIGATION = (
    NavigationEntry("access.nav", ACCESS, icon="key"),
    NavigationEntry("access.apps_nav", "/apps", role=None, icon="box"),
)
