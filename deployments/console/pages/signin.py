"""Sign-in with a password, and sign-out."""

from __future__ import annotations

import re
from typing import Any

import structlog
from starlette.responses import Response

from cluster.records.account import NAME_FORM, Account
from deployments.console.page import Page
from deployments.console.request import ConsoleRequest
from deployments.console.sessions import PATH
from deployments.edge.signing import sha256

STEP_S = 300
"Seconds to type the code of the second factor."
_NAME = re.compile(NAME_FORM)
_GOAL = re.compile(r"/console/[A-Za-z0-9/_.~%?=&+,:@-]{0,1000}")

_log = structlog.get_logger()


async def show_sign_in(request: ConsoleRequest) -> Response:
    """Show the form; whoever is signed in goes on."""
    goal = safe_goal(request.query.get("next", ""))
    if request.session is not None:
        return request.redirect(goal.removeprefix(PATH))
    return show_form(request, goal)


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
        response = show_form(request, goal, "signin.throttled", 429, wait=_span(wait_s))
        response.headers["retry-after"] = str(wait_s)
        return response
    password = request.form.get("password", "")
    account = await services.passwords.account(username, password, address, known=bool(device))
    if account is None:
        _log.warning("sign_in_refused")
        return show_form(request, goal, "signin.wrong", 403)
    if account.has_second_factor:
        return _ask_code(request, _seal_step(request, account, goal))
    return await finish_sign_in(request, account, "password", goal)


async def check_code(request: ConsoleRequest) -> Response:
    """Check the second factor of somebody whose password was right."""
    services, sealed = request.services, request.form.get("step", "")
    step = services.signing.steps.open(sealed)
    if step is None or not _is_step_of_browser(request, step):
        return show_form(request, PATH + "/", "signin.code_late", 403)
    account = await services.accounts.get(step["username"])
    if account is None or account.disabled or (account.user_id, account.epoch) != (step["id"], step["epoch"]):
        return show_form(request, PATH + "/", "signin.code_late", 403)
    address = services.client_address(request.raw)
    device = request.sessions.device(request.raw, account.username, secure=request.secure)
    wait_s = await services.sign_ins.wait_s(account.username, address, device)
    if wait_s:
        fault = services.text("signin.throttled", wait=_span(wait_s))
        response = _ask_code(request, sealed, fault, 429)
        response.headers["retry-after"] = str(wait_s)
        return response
    if not await services.factors.check(account, request.form.get("code", ""), services.clock.now_ms()):
        _log.warning("second_factor_refused", user_id=account.user_id)
        return _ask_code(request, sealed, services.text("signin.code_wrong"), 403)
    return await finish_sign_in(request, account, "password and code", safe_goal(step["goal"]))


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


def _seal_step(request: ConsoleRequest, account: Account, goal: str) -> str:
    """Return proof that the password was right in this browser, for a few minutes."""
    till = request.services.clock.now_ms() // 1000 + STEP_S
    browser = request.sessions.browser_name(request.raw, secure=request.secure)
    return request.services.signing.steps.seal(
        {
            "username": account.username, "id": account.user_id, "epoch": account.epoch, "goal": goal,
            "browser": sha256(browser), "till": till,
        }
    )  # fmt: skip


def _is_step_of_browser(request: ConsoleRequest, step: Any) -> bool:
    browser = request.sessions.browser_name(request.raw, secure=request.secure)
    now_s = request.services.clock.now_ms() // 1000
    return isinstance(step, dict) and step.get("browser") == sha256(browser) and step["till"] > now_s


def _ask_code(request: ConsoleRequest, step: str, fault: str = "", status: int = 200) -> Response:
    return request.page("session/code.html", status=status, step=step, fault=fault)


def show_form(
    request: ConsoleRequest, goal: str, fault: str = "", status: int = 200, **values: str
) -> Response:
    """Return the form, bound to a name of this browser; `fault` is the key of a text."""
    services, sessions = request.services, request.sessions
    browser = sessions.browser_name(request.raw, secure=request.secure)
    name = browser or services.signing.random()
    request.csrf = services.signing.form_proof(name)
    request.notice = request.notice or sessions.take_notice(request.raw, secure=request.secure)
    response = request.page(
        "session/sign_in.html", status=status, goal=goal, username=request.form.get("username", "")[:64],
        fault=services.text(fault, **values) if fault else "",
        provider="" if services.provider is None else services.provider.config.name,
    )  # fmt: skip
    if not browser:
        sessions.name_browser(response, name, secure=request.secure)
    return response


def _span(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{(seconds + 59) // 60} minutes"


PAGES = (
    Page("/sign-in", show_sign_in, role=None, is_public=True),
    Page("/sign-in", sign_in, role=None, methods=("POST",), is_public=True),
    Page("/sign-in/code", check_code, role=None, methods=("POST",), is_public=True),
    Page("/sign-out", sign_out, role=None, methods=("POST",), is_public=True),
)
