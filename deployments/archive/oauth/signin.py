"""The sign-in form, for every page that needs an account."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.records.account import NAME_FORM
from deployments.archive.oauth.clients import OAuthClient
from deployments.archive.oauth.forms import Parameters
from deployments.archive.oauth.pages import OAuthPages, redirect
from deployments.archive.oauth.redirects import describe_target, is_on_this_machine
from deployments.archive.oauth.services import OAuthServices
from deployments.archive.oauth.sessions import BrowserSessions
from deployments.edge.password_checks import PasswordChecks

WRONG = "This user name and password do not belong together."
_NAME = re.compile(NAME_FORM)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ConnectingClient:
    """The client for which a user signs in, as pages show it."""

    client_name: str
    "Name that the client chose; empty if the user signs in without a client."
    target: str = ""
    "Host or scheme of the redirect target: the only verified fact about the client."
    is_local: bool = False

    @classmethod
    def from_client(cls, client: OAuthClient, redirect_uri: str) -> ConnectingClient:
        """Return the description of a client with a registered redirect address."""
        return cls(client.shown_name, describe_target(redirect_uri), is_on_this_machine(redirect_uri))


NO_CLIENT = ConnectingClient("")


class SignInPage:
    """Shows the form and checks the submitted values."""

    def __init__(self, services: OAuthServices, pages: OAuthPages, sessions: BrowserSessions) -> None:
        self._services = services
        self._pages = pages
        self._sessions = sessions
        self._passwords = PasswordChecks(services.accounts)

    def show(
        self,
        request: Request,
        values: dict[str, Any],
        *,
        action: str,
        client: ConnectingClient = NO_CLIENT,
        username: str = "",
        fault: str = "",
        status: int = 200,
        retry_after_s: int = 0,
    ) -> Response:
        """Show the form; the browser sends `values` back with it."""
        secure = self._services.origin(request).startswith("https:")
        browser = self._sessions.browser_name(request)
        response = self._pages.show(
            "sign_in", status, retry_after_s=retry_after_s, action=action,
            form=self._sessions.sign_form(browser, values), username=username, fault=fault, **asdict(client),
        )  # fmt: skip
        self._sessions.remember(response, browser, secure=secure)
        return response

    async def attempt(
        self,
        request: Request,
        form: Parameters,
        values: dict[str, Any],
        *,
        goal: str,
        action: str,
        client: ConnectingClient = NO_CLIENT,
    ) -> Response:
        """Check a name and a password; redirect to `goal` if they are right, else show the form again."""
        username = (form.get("username") or "").strip().lower()
        known_form = username if _NAME.fullmatch(username) else ""
        again = partial(self.show, request, values, action=action, client=client, username=known_form)
        address = self._services.client_address(request)
        device = self._sessions.device(request, known_form) if known_form else ""
        wait_s = await self._services.sign_ins.wait_s(username[:200], address, device)
        if wait_s:
            _log.warning("sign_in_throttled", wait_s=wait_s)
            fault = f"Too many attempts. Try again in {_span(wait_s)}."
            return again(fault=fault, status=429, retry_after_s=wait_s)
        account = await self._passwords.account(
            known_form, form.get("password") or "", address, known=bool(device)
        )
        if account is None:
            _log.warning("sign_in_refused")
            return again(fault=WRONG, status=403)
        _log.info("signed_in", user_id=account.user_id)
        response = redirect(goal)
        await self._sessions.sign_in(
            response, account, secure=self._services.origin(request).startswith("https:")
        )
        return response


def _span(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{(seconds + 59) // 60} minutes"
