"""My account: password, second factor, sessions."""

from __future__ import annotations

import base64
import io

import segno
from starlette.responses import Response

from cluster.errors import Invalid
from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest

HOME = "/account"


async def show_account(request: ConsoleRequest) -> Response:
    """Show the account of the person."""
    facts = (await request.perform("me.get")).to_dict()
    session = request.session
    assert session is not None
    return request.page("access/account.html", me=facts, session=session, account=session.account)


async def change_password(request: ConsoleRequest) -> Response:
    """Change the password; other browsers are signed out, this one stays.

    Errors:
        Invalid: the new password was not typed the same way twice
    """
    form = request.form
    session = request.session
    assert session is not None
    if form.get("new", "") != form.get("again", ""):
        raise Invalid(request.services.text("account.not_same"))
    await request.perform("me.change_password", current=form.get("current", ""), new=form.get("new", ""))
    response = request.redirect(HOME, "account.password_changed")
    await request.sessions.continue_after_change(response, session, epochs=1, secure=request.secure)
    return response


async def begin_second_factor(request: ConsoleRequest) -> Response:
    """Show the QR code of a new secret."""
    made = await request.perform("me.begin_second_factor", password=request.form.get("password", ""))
    return _show_secret(request, made.to_dict())


async def confirm_second_factor(request: ConsoleRequest) -> Response:
    """Switch the second factor on, and show recovery codes once; sessions of the password alone end, but this one."""
    session = request.session
    assert session is not None
    made = await request.perform(
        "me.confirm_second_factor", pending=request.form.get("pending", ""), code=request.form.get("code", "")
    )
    way = "password and code" if session.way == "password" else session.way
    # The page is rendered only after the session is renewed, so the cookies wait in this response.
    cookies = Response()
    renewed = await request.sessions.continue_after_change(
        cookies, session, epochs=0, secure=request.secure, way=way
    )
    if renewed is not None:
        request.use_session(renewed)  # before the page: its forms carry the proof of the new session
    response = request.page("access/recovery_codes.html", codes=made.to_dict()["recovery_codes"])
    for value in cookies.headers.getlist("set-cookie"):
        response.headers.append("set-cookie", value)
    return response


async def end_sessions(request: ConsoleRequest) -> Response:
    """End all sessions but this one."""
    session = request.session
    assert session is not None
    await request.perform("me.end_sessions")
    response = request.redirect(HOME, "account.sessions_ended")
    await request.sessions.continue_after_change(response, session, epochs=0, secure=request.secure)
    return response


def _show_secret(request: ConsoleRequest, facts: dict[str, str]) -> Response:
    """Show the secret as a picture and as text."""
    buffer = io.BytesIO()
    segno.make(facts["uri"], error="m").save(
        buffer, kind="svg", xmldecl=False, svgns=True, nl=False, border=2, scale=4, light="#fff"
    )
    return request.page(
        "access/second_factor.html",
        secret=facts["secret"],
        pending=facts["pending"],
        picture=svg_data_uri(buffer.getvalue()),
    )


def svg_data_uri(svg: bytes) -> str:
    """Return a picture as an address for an image."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


PAGES = (
    Page(HOME, show_account, role=None),
    FormPage(HOME + "/password", change_password, role=None, shown_on=HOME),
    FormPage(HOME + "/second-factor", begin_second_factor, role=None, shown_on=HOME),
    FormPage(HOME + "/second-factor/confirm", confirm_second_factor, role=None, shown_on=HOME),
    operation_page(
        HOME + "/second-factor/remove", "me.remove_second_factor", HOME, "account.factor_removed", role=None
    ),
    FormPage(HOME + "/sessions", end_sessions, role=None, shown_on=HOME),
)
NAVIGATION = (NavigationEntry("account.nav", HOME, role=None, icon="person"),)
