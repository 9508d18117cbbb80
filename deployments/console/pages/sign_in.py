"""Sign-in with a password, and sign-out."""

from __future__ import annotations

import re

import structlog
from starlette.responses import Response

from cluster.records.account import NAME_FORM, Account
from deployments.console.page import Page
from deployments.console.request import ConsoleRequest
from deployments.console.sessions import PATH

_NAME = re.compile(NAME_FORM)
_GOAL = re.compile(r"/console/[A-Za-z0-9/_.~%?=&+,:@-]{0,1000}")

_log = structlog.get_logger()


async def show_sign_in(request: ConsoleRequest) -> Response:
    """Show the form; whoever is signed in goes on."""
    goal = safe_goal(request.query.get("next", ""))
    if request.session is not None:
        return request.redirect(goal.removeprefix(PATH))
    return _show_form(request, goal)


async def sign_in(request: ConsoleRequest) -> Response:
    """Check a name and a password."""
    services = request.services
    goal = safe_goal(request.form.get("next", ""))
    username = request.form.get("username", "").strip().lower()
    username = username if _NAME.fullmatch(username) else ""
    address = services.client_address(request.raw)
    device = request.sessions.device(request.raw, username, secure=request.secure) if username else ""
    wait_s = await services.sign_ins.wait_s(username, address, device)
    if wait_s:
        _log.warning("sign_in_throttled", wait_s=wait_s)
        response = _show_form(request, goal, "signin.throttled", 429, wait=_span(wait_s))
        response.headers["retry-after"] = str(wait_s)
        return response
    password = request.form.get("password", "")
    account = await services.passwords.account(username, password, address, known=bool(device))
    if account is None:
        _log.warning("sign_in_refused")
        return _show_form(request, goal, "signin.wrong", 403)
    return await finish_sign_in(request, account, "password", goal)


async def finish_sign_in(request: ConsoleRequest, account: Account, way: str, goal: str) -> Response:
    """Begin the session of an account that proved itself, and go on to a page."""
    _log.info("signed_in", user_id=account.user_id, way=way)
    response = request.redirect(goal.removeprefix(PATH))
    await request.sessions.begin(response, account, way, secure=request.secure)
    return response


async def sign_out(request: ConsoleRequest) -> Response:
    """End all sessions of the account."""
    response = request.redirect("/sign-in", request.services.text("signin.signed_out"))
    if request.session is not None:
        await request.sessions.end(response, request.session, secure=request.secure)
    return response


def safe_goal(text: str) -> str:
    """Return a page of the console to which a sign-in may lead; never an address elsewhere."""
    if not _GOAL.fullmatch(text) or "//" in text or "/../" in text or text.startswith(PATH + "/sign-"):
        return PATH + "/"
    return text


def _show_form(
    request: ConsoleRequest, goal: str, fault: str = "", status: int = 200, **values: str
) -> Response:
    """Show the form, bound to a name of this browser."""
    services, sessions = request.services, request.sessions
    browser = sessions.browser_name(request.raw, secure=request.secure)
    name = browser or services.signing.random()
    request.csrf = services.signing.form_proof(name)
    request.notice = request.notice or sessions.take_notice(request.raw, secure=request.secure)
    response = request.page(
        "session/sign_in.html", status=status, goal=goal, username=request.form.get("username", "")[:64],
        fault=services.text(fault, **values) if fault else "",
    )  # fmt: skip
    if not browser:
        sessions.name_browser(response, name, secure=request.secure)
    return response


def _span(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{(seconds + 59) // 60} minutes"


PAGES = (
    Page("/sign-in", show_sign_in, role=None, is_public=True),
    Page("/sign-in", sign_in, role=None, methods=("POST",), is_public=True),
    Page("/sign-out", sign_out, role=None, methods=("POST",), is_public=True),
)
