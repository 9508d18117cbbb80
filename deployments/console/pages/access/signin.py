"""Sign-in with a password, and sign-out."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from deployments.console.page import FormPage, Page
from deployments.console.request import ConsoleRequest
from deployments.sign_in.sessions import PATH
from deployments.sign_in.sign_in import SignInResult, safe_redirect

HOME = PATH + "/"


async def show_sign_in(request: ConsoleRequest) -> Response:
    """Show the form; whoever is signed in goes on."""
    goal = safe_redirect(request.query.get("next", ""))
    if request.session is not None:
        return request.redirect("", external=goal)
    return show_form(request, goal)


async def sign_in(request: ConsoleRequest) -> Response:
    """Check a name and a password."""
    browser = request.services.browser(request.raw)
    username = request.form.get("username", "")
    password = request.form.get("password", "")
    result = await request.services.sign_in.check_password(browser, username, password)
    return await go_on(request, result, safe_redirect(request.form.get("next", "")))


async def check_code(request: ConsoleRequest) -> Response:
    """Check the second factor of somebody whose password was right."""
    browser = request.services.browser(request.raw)
    step = request.form.get("step", "")
    code = request.form.get("code", "")
    result = await request.services.sign_in.check_code(browser, step, code)
    return await go_on(request, result, safe_redirect(request.form.get("next", "")))


async def go_on(request: ConsoleRequest, result: SignInResult, goal: str) -> Response:
    """Return the page after a step of the sign-in: the goal, the form of the code, or a form with a fault."""
    if result.account is not None:
        response = request.redirect("", external=goal)
        await request.services.sign_in.begin(response, request.services.browser(request.raw), result)
        return response
    if result.step:
        values = {"step": result.step, "fault": result.fault, "goal": goal}
        response = request.page("session/code.html", status=result.status, **values)
    else:
        response = show_form(request, goal, result.fault, result.status)
    if result.retry_after_s:
        response.headers["retry-after"] = str(result.retry_after_s)
    return response


async def sign_out(request: ConsoleRequest) -> Response:
    """End all sessions of the account."""
    response = request.redirect("/sign-in", "signin.signed_out")
    if request.session is not None:
        browser = request.services.browser(request.raw)
        await request.services.sign_in.end_all_sessions(response, browser, request.session)
    return response


def show_form(request: ConsoleRequest, goal: str, fault: str = "", status: int = 200) -> Response:
    """Return the form of the sign-in."""
    sign_in = request.services.sign_in
    return bound_page(
        request,
        "session/sign_in.html",
        status=status,
        goal=goal,
        username=request.form.get("username", "")[:64],
        fault=fault,
        provider=sign_in.provider_name,
        has_passwords=sign_in.has_passwords,
    )


def bound_page(request: ConsoleRequest, template: str, status: int = 0, **values: Any) -> Response:
    """Return a page whose form is bound to the session, or before the sign-in to a name of this browser."""
    services = request.services
    sessions = request.sessions
    request.notice = request.notice or sessions.take_notice(request.raw, secure=request.secure)
    if request.session is not None:
        return request.page(template, status=status, **values)
    browser = sessions.browser_name(request.raw, secure=request.secure)
    name = browser or services.signing.random()
    request.csrf = services.signing.form_proof(name)
    response = request.page(template, status=status, **values)
    if not browser:
        sessions.name_browser(response, name, secure=request.secure)
    return response


PAGES = (
    Page("/sign-in", show_sign_in, role=None, is_public=True),
    FormPage("/sign-in", sign_in, role=None, is_public=True),
    FormPage("/sign-in/code", check_code, role=None, is_public=True),
    FormPage("/sign-out", sign_out, role=None, is_public=True),
)
