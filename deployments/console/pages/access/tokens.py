"""Personal tokens for the administration over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from cluster.records.administration import APP_ROLES, ROLE_TEXTS
from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest


async def show_tokens(request: ConsoleRequest) -> Response:
    """List tokens of the person; administrators may list everybody's."""
    everyone = request.query.get("everyone") == "true" and request.may("owner", "")
    tokens = (await request.perform("tokens.list", everyone=everyone)).to_dict()["tokens"]
    apps = [app["app_id"] for app in (await request.perform("apps.list")).to_dict()["apps"]]
    roles = [(role, f"{role}: {ROLE_TEXTS[role]}") for role in APP_ROLES]
    return request.page(
        "access/tokens.html",
        tokens=tokens,
        own_apps=apps[:100],
        roles=roles,
        everyone=everyone,
        now_ms=request.services.clock.now_ms(),
    )


async def create_token(request: ConsoleRequest) -> Response:
    """Create a token and show it once."""
    form = request.form
    made = await request.perform(
        "tokens.create",
        name=form.get("name", "").strip(),
        role=form.get("role", "viewer"),
        apps=tuple(request.form_lists.get("apps", ())),
        days=form.get("days") or 90,
    )
    return request.page("access/token_shown.html", token=made.to_dict())


PAGES = (
    Page("/tokens", show_tokens, role=None),
    FormPage("/tokens", create_token, role=None),
    operation_page("/tokens/revoke", "tokens.revoke", "/tokens", "tokens.revoked", role=None),
)
NAVIGATION = (NavigationEntry("tokens.nav", "/tokens", role=None, icon="token"),)
