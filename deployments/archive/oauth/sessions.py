"""Browser sessions: which user is signed in, and proof that a form comes from a page that the server rendered.

Three cookies exist, all below `/oauth/authorize` and not readable by scripts:

    kiosk_browser    a random name, to which every form is bound
    kiosk_session    the signed-in user; each use looks the account up, so a new password or a lock ends the session
    kiosk_device     marks that an account signed in before; it grants nothing but separate sign-in attempts
"""

from __future__ import annotations

import hmac
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cluster.clock import Clock
from cluster.records.account import Account
from cluster.store.ports.accounts import AccountStore
from deployments.archive.oauth.signing import OAuthSigner
from deployments.edge.signing import sha256

BROWSER = "kiosk_browser"
SESSION = "kiosk_session"
DEVICE = "kiosk_device"
PATH = "/oauth/authorize"
SESSION_LIFE_S = 4 * 3600
DEVICE_LIFE_S = 180 * 86_400
FORM_LIFE_S = 600


class BrowserSessions:
    """Reads and writes the cookies, and signs forms."""

    def __init__(self, accounts: AccountStore, signing: OAuthSigner, clock: Clock) -> None:
        self._accounts = accounts
        self._signing = signing
        self._clock = clock

    async def account(self, request: Request) -> Account | None:
        """Return the account that is signed in here."""
        value = self._signing.sessions.open(request.cookies.get(SESSION, ""))
        if not isinstance(value, dict) or value.get("till", 0) <= self._now_s():
            return None
        account = await self._accounts.get(value.get("username", ""))
        if account is None or account.disabled:
            return None
        same = (account.user_id, account.epoch) == (value.get("user_id"), value.get("epoch"))
        if not same or value.get("mark", "") != await self._accounts.session_mark(account.user_id):
            return None
        return account

    async def sign_in(self, response: Response, account: Account, *, secure: bool) -> None:
        """Store the signed-in user in cookies."""
        value = {
            "username": account.username,
            "user_id": account.user_id,
            "epoch": account.epoch,
            "mark": await self._accounts.session_mark(account.user_id),
            "till": self._now_s() + SESSION_LIFE_S,
        }
        _set(response, SESSION, self._signing.sessions.seal(value), SESSION_LIFE_S, secure=secure)
        device = {
            "username": account.username,
            "device": self._signing.random(),
            "till": self._now_s() + DEVICE_LIFE_S,
        }
        _set(response, DEVICE, self._signing.devices.seal(device), DEVICE_LIFE_S, secure=secure)

    def device(self, request: Request, username: str) -> str:
        """Return the name of this browser if the account signed in here before; else an empty text."""
        value = self._signing.devices.open(request.cookies.get(DEVICE, ""))
        if not isinstance(value, dict) or value["till"] <= self._now_s() or value["username"] != username:
            return ""
        return str(value["device"])

    async def sign_out(self, request: Request, response: Response, *, secure: bool) -> None:
        """Delete the cookie and end all browser sessions of the user."""
        account = await self.account(request)
        if account is not None:
            await self._accounts.end_sessions(account.user_id, self._signing.random(9))
        _set(response, SESSION, "", 0, secure=secure)

    def browser_name(self, request: Request) -> str:
        """Return the name of this browser, or a new one."""
        name = request.cookies.get(BROWSER, "")
        return name if len(name) == 43 and name.isascii() else self._signing.random()

    def remember(self, response: Response, browser: str, *, secure: bool) -> None:
        """Store the browser's name in a cookie."""
        _set(response, BROWSER, browser, None, secure=secure)

    def sign_form(self, browser: str, value: dict[str, Any]) -> str:
        """Return the hidden value of a form, valid in this browser for a limited time."""
        bound = {**value, "browser": sha256(browser), "till": self._now_s() + FORM_LIFE_S}
        return self._signing.forms.seal(bound)

    def read_form(self, request: Request, text: str) -> tuple[dict[str, Any] | None, bool]:
        """Return a form's hidden value and whether it is still in time; None if another browser got it."""
        value = self._signing.forms.open(text)
        if not isinstance(value, dict):
            return None, False
        browser = sha256(request.cookies.get(BROWSER, ""))
        if not hmac.compare_digest(browser.encode(), value["browser"].encode()):
            return None, False
        return value, value["till"] > self._now_s()

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000


def _set(response: Response, name: str, value: str, life_s: int | None, *, secure: bool) -> None:
    response.set_cookie(name, value, max_age=life_s, path=PATH, secure=secure, httponly=True, samesite="lax")
