"""The sign-in form of the consent pages; the steps are those of `deployments.sign_in`."""

from __future__ import annotations

import hmac
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from cluster.clock import Clock
from cluster.records.account import Account
from deployments.archive.oauth.addresses import CLIENTS_PATH
from deployments.archive.oauth.client_identity.clients import OAuthClient
from deployments.archive.oauth.forms import Parameters
from deployments.archive.oauth.pages import OAuthPages, redirect
from deployments.archive.oauth.redirects import describe_target, is_on_this_machine
from deployments.archive.oauth.services import OAuthServices
from deployments.edge.access.signing import PurposeSigner, sha256
from deployments.sign_in.sessions import PATH, BrowserSessions, Session
from deployments.sign_in.sign_in import safe_redirect, username_from_form

FORM_LIFE_S = 600


@dataclass(frozen=True, slots=True)
class ConnectingClient:
    """The client for which a user signs in, as pages show it."""

    client_name: str
    "Name that the client chose; empty if the user signs in without a client."
    target: str = ""
    "Host or scheme of the redirect target: the only verified fact about the client."
    is_local: bool = False
    host: str = ""
    "Host of the client's metadata document, which is its identity; empty for a registered client."
    is_loopback_only: bool = False
    "Whether any program can use the document of the client."
    title: str = ""
    "Name of the archive that the client wants to use; empty: the default one."

    @classmethod
    def from_client(cls, client: OAuthClient, redirect_uri: str, title: str = "") -> ConnectingClient:
        """Return the description of a client with a registered redirect address."""
        return cls(
            client.shown_name,
            describe_target(redirect_uri),
            is_on_this_machine(redirect_uri),
            client.host,
            client.is_loopback_only,
            title,
        )

    @classmethod
    def from_host(cls, host: str) -> ConnectingClient:
        """Return the description of a client whose document was not fetched yet."""
        return cls(host, host=host)


NO_CLIENT = ConnectingClient("")


class BoundForms:
    """Signs the hidden values of forms: valid in the browser that got the page, for a limited time."""

    def __init__(self, signer: PurposeSigner, sessions: BrowserSessions, clock: Clock) -> None:
        self._signer = signer
        self._sessions = sessions
        self._clock = clock

    def seal(self, browser_name: str, value: dict[str, Any]) -> str:
        """Return the hidden value of a form."""
        till = self._clock.now_ms() // 1000 + FORM_LIFE_S
        return self._signer.seal({**value, "browser": sha256(browser_name), "till": till})

    def open(self, request: Request, text: str, *, secure: bool) -> tuple[dict[str, Any] | None, bool]:
        """Return a form's hidden value and whether it is still in time; None if another browser got it."""
        value = self._signer.open(text)
        if not isinstance(value, dict):
            return None, False
        browser = sha256(self._sessions.browser_name(request, secure=secure))
        if not hmac.compare_digest(browser.encode(), value["browser"].encode()):
            return None, False
        return value, value["till"] > self._clock.now_ms() // 1000


class SignInPage:
    """Shows pages with forms of this browser, checks what is submitted, and knows who is signed in."""

    def __init__(self, services: OAuthServices, pages: OAuthPages) -> None:
        self._services = services
        self._pages = pages
        self._sign_in = services.sign_in
        self._sessions = services.sign_in.sessions
        self._forms = BoundForms(services.signing.forms, self._sessions, services.clock)

    async def session(self, request: Request) -> Session | None:
        return await self._sessions.find(request, secure=self._is_secure(request))

    async def account(self, request: Request) -> Account | None:
        """Return the account that is signed in here."""
        session = await self.session(request)
        return None if session is None else session.account

    async def sign_out(self, request: Request, response: Response) -> None:
        """End all browser sessions of the account."""
        session = await self.session(request)
        if session is not None:
            await self._sign_in.end_all_sessions(response, self._services.browser(request), session)

    def read_form(self, request: Request, form: Parameters) -> tuple[dict[str, Any] | None, bool]:
        """Return the hidden value of a form of this browser, and whether it is still in time."""
        return self._forms.open(request, form.get("form") or "", secure=self._is_secure(request))

    def show_bound(
        self, request: Request, name: str, values: dict[str, Any], status: int = 200, **shown: Any
    ) -> Response:
        """Show a page whose form sends `values` back, bound to this browser."""
        secure = self._is_secure(request)
        browser = self._sessions.browser_name(request, secure=secure)
        browser_name = browser or self._sign_in.signing.random()
        notice = self._sessions.take_notice(request, secure=secure)
        response = self._pages.show(
            name,
            status,
            form=self._forms.seal(browser_name, values),
            notice=notice["text"] if notice else "",
            **shown,
        )
        if not browser:
            self._sessions.name_browser(response, browser_name, secure=secure)
        if notice:
            self._sessions.forget_notice(response, secure=secure)
        return response

    def show(
        self,
        request: Request,
        values: dict[str, Any],
        *,
        goal: str,
        action: str,
        client: ConnectingClient = NO_CLIENT,
        username: str = "",
        fault: str = "",
        status: int = 200,
        retry_after_s: int = 0,
        step: str = "",
    ) -> Response:
        """Show the form of the password, or with a `step` that of the code; the browser sends `values` back."""
        # A goal that is too long for the provider's cookie becomes the list of connected applications.
        target = goal if safe_redirect(goal) == goal else CLIENTS_PATH
        return self.show_bound(
            request,
            "code" if step else "sign_in",
            values,
            status,
            retry_after_s=retry_after_s,
            action=action,
            username=username,
            fault=fault,
            step=step,
            provider=self._sign_in.provider_name,
            provider_link=f"{PATH}/sign-in/provider?next={quote(target, safe='')}",
            has_passwords=self._sign_in.has_passwords,
            **asdict(client),
        )

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
        """Check a password or a code; redirect to `goal` if the person is signed in, else show a form again."""
        browser = self._services.browser(request)
        username = form.get("username") or ""
        if step := form.get("step"):
            result = await self._sign_in.check_code(browser, step, form.get("code") or "")
        else:
            result = await self._sign_in.check_password(browser, username, form.get("password") or "")
        if result.account is None:
            return self.show(
                request,
                values,
                goal=goal,
                action=action,
                client=client,
                username=username_from_form(username),
                fault=result.fault,
                status=result.status,
                retry_after_s=result.retry_after_s,
                step=result.step,
            )
        response = redirect(goal)
        await self._sign_in.begin(response, browser, result)
        return response

    def _is_secure(self, request: Request) -> bool:
        return self._services.browser(request).secure
