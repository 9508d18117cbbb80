"""Invitations: the page that their links open, and the forms of Team and Access that create and revoke them."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from cluster.errors import Invalid, NotFound
from cluster.records.administration import APP_ROLES
from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, Page
from deployments.console.pages.access.account import HOME as ACCOUNT
from deployments.console.pages.access.signin import HOME, bound_page, go_on
from deployments.console.request import ConsoleRequest, path_of
from deployments.operations.access.invitations import NewInvitation
from deployments.sign_in.sessions import PATH
from deployments.sign_in.sign_in import SignInResult

INVITATION = "/invitation"
ACCESS = "/apps/{app_id}/access"
MOST_APPS = 100
"Apps whose roles the form of Team offers."


async def show_invitation(request: ConsoleRequest) -> Response:
    """Show what a link grants, and the form to accept it."""
    token = request.form.get("token") or request.query.get("token", "")
    sign_in = request.services.sign_in
    address = request.principal.address
    try:
        invitation = await sign_in.invitations.find(token, address)
    except NotFound as error:
        return request.page("session/invitation_closed.html", status=404, message=error.message)
    goal = f"{PATH}/sign-in?next={PATH}{INVITATION}?token={token}"
    return bound_page(
        request,
        "session/invitation.html",
        invitation=invitation,
        token=token,
        sign_in_address=goal,
        has_passwords=sign_in.has_passwords,
        provider=sign_in.provider_name,
        account=None if request.session is None else request.session.account,
    )


async def accept_invitation(request: ConsoleRequest) -> Response:
    """Create the account and sign it in, or add the roles to the account of the session.

    Errors:
        Invalid: the two passwords differ
    """
    form = request.form
    services = request.services
    token = form.get("token", "")
    browser = services.browser(request.raw)
    invitations = services.sign_in.invitations
    if request.session is not None:
        await invitations.join(token, request.session.account, browser.address)
        return request.redirect("/", "invitations.joined")
    username = form.get("username", "")
    password = form.get("password", "")
    if not services.sign_in.has_passwords:
        await invitations.accept(token, username, "", browser.address)
        return request.redirect("/sign-in", "invitations.accepted")
    if not password or password != form.get("again", ""):
        raise Invalid(services.text("account.not_same"))
    account = await invitations.accept(token, username, password, browser.address)
    goal = PATH + ACCOUNT if form.get("second_factor") else HOME
    result = SignInResult(account, notice=services.text("invitations.welcome", name=account.username))
    return await go_on(request, result, goal)


async def invite(request: ConsoleRequest) -> Response:
    """Create an invitation to the installation, and show its link once."""
    form = request.form
    made = await request.perform(
        "invitations.create",
        username=form.get("username", "").strip(),
        role=form.get("role", "reader"),
        roles={
            name.removeprefix("role-"): role
            for name, role in form.items()
            if name.startswith("role-") and role
        },
    )
    return _show_link(request, made, PATH + "/people")


async def invite_to_app(request: ConsoleRequest) -> Response:
    """Create an invitation to one app, and show its link once."""
    form = request.form
    made = await request.perform(
        "invitations.create_for_app", username=form.get("username", "").strip(), role=form.get("role", "")
    )
    return _show_link(request, made, path_of(ACCESS, app_id=request.app_id))


async def list_open(request: ConsoleRequest) -> dict[str, Any]:
    """Return the invitations and the choices of the form of Team."""
    invitations = (await request.perform("invitations.list")).to_dict()["invitations"]
    app_ids = sorted(request.services.app_ids())[:MOST_APPS]
    return {"invitations": invitations, "app_ids": app_ids, "app_roles": APP_ROLES}


def _show_link(request: ConsoleRequest, made: NewInvitation, back: str) -> Response:
    link = request.services.origin(request.raw) + made.path
    return request.page("access/invitation_shown.html", link=link, invitation=made.record, back=back)


PAGES = (
    Page(INVITATION, show_invitation, role=None, is_public=True, example="-"),
    FormPage(INVITATION, accept_invitation, role=None, is_public=True),
    FormPage("/people/invite", invite, role="owner", shown_on="/people"),
    operation_page(
        "/people/invitations/revoke", "invitations.revoke", "/people", "invitations.revoked", role="owner"
    ),
    FormPage(ACCESS + "/invite", invite_to_app, role="owner", shown_on=ACCESS),
    operation_page(
        ACCESS + "/invitations/revoke",
        "invitations.revoke_for_app",
        ACCESS,
        "invitations.revoked",
        role="owner",
    ),
)
