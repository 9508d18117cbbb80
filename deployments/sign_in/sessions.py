"""Browser sessions of the console and of the archive's consent pages, known devices, and notices for the next page.

    session   the signed-in account; each use looks the account up, so a new password or a lock ends the session
    browser   a random name, to which forms before the sign-in are bound
    device    marks that an account signed in before; it grants nothing but separate sign-in attempts
    notice    one message for the next page
    app       the app that was looked at last; it only chooses what the navigation shows
    flow      what a sign-in through the provider of identities must bring back

Over https the names begin with `__Host-`: no other host of the domain can set such a cookie.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from cluster.clock import Clock
from cluster.records.account import Account
from cluster.store.administration.accounts import AccountStore
from deployments.sign_in.signing import SignInSigner

PATH = "/console"
IDLE_S = 12 * 3600
"A session ends after this time without a request."
LONGEST_S = 7 * 86_400
"A session ends after this time in any case."
RENEW_AFTER_S = 300
DEVICE_S = 180 * 86_400
NOTICE_S = 60
LONGEST_NOTICE = 500
_APP = re.compile(r"[A-Za-z0-9_-]{1,64}")
SignInWay = Literal["password", "password and code", "identity provider"]
"How an account proved itself."
SESSION = "session"
BROWSER = "browser"
DEVICE = "device"
NOTICE = "notice"
FLOW = "flow"
APP = "app"


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in account in one browser."""

    session_id: str
    account: Account
    since_s: int
    seen_s: int
    mark: str
    "What the store held for the account's sessions when this one was found; a sign-out changes it."
    way: SignInWay = "password"


class BrowserSessions:
    """Reads and writes the cookies."""

    def __init__(self, accounts: AccountStore, signing: SignInSigner, clock: Clock) -> None:
        self._accounts = accounts
        self._signing = signing
        self._clock = clock

    async def find(self, request: Request, *, secure: bool) -> Session | None:
        """Return the session of a request; None if there is none, or it ended.

        Cost: two reads of the store at once.
        """
        value = self._signing.sessions.open(_read(request, SESSION, secure=secure))
        if not isinstance(value, dict):
            return None
        now_s = self._now_s()
        if value["seen"] + IDLE_S <= now_s or value["since"] + LONGEST_S <= now_s:
            return None
        account, mark = await asyncio.gather(
            self._accounts.get(value["username"]), self._accounts.session_mark(value["user_id"])
        )
        if account is None or account.disabled or value["mark"] != mark:
            return None
        # The name of a deleted account may be somebody else's now; a new password or a lock raises the epoch.
        if (account.user_id, account.epoch) != (value["user_id"], value["epoch"]):
            return None
        if account.has_second_factor and value["way"] == "password":
            return None  # it began before the second factor was switched on
        return Session(value["id"], account, value["since"], value["seen"], mark, value["way"])

    async def begin(self, response: Response, account: Account, way: SignInWay, *, secure: bool) -> Session:
        """Sign an account in under a new session id, which no page before the sign-in has seen."""
        now_s = self._now_s()
        mark = await self._accounts.session_mark(account.user_id)
        session = Session(self._signing.random(), account, now_s, now_s, mark, way)
        self._write(response, session, secure=secure)
        device = {"username": account.username, "device": self._signing.random(), "till": now_s + DEVICE_S}
        _set(response, DEVICE, self._signing.devices.seal(device), DEVICE_S, secure=secure)
        return session

    def renew(self, response: Response, session: Session, *, secure: bool) -> None:
        """Note that the session is in use, once in a while; one that ended meanwhile stays ended."""
        now_s = self._now_s()
        if now_s - session.seen_s >= RENEW_AFTER_S:
            self._write(response, replace(session, seen_s=now_s), secure=secure)

    async def continue_after_change(
        self, response: Response, session: Session, *, epochs: int, secure: bool, way: SignInWay | None = None
    ) -> Session | None:
        """Keep this browser signed in, under a new session id, after a change by its account; None if it ended.

        `epochs` is how often that change ended sessions: if somebody else ended them too, this one stays ended.
        `way` replaces the way of the session, after the first code of a second factor.
        """
        account = await self._accounts.get(session.account.username)
        if account is None or account.epoch != session.account.epoch + epochs:
            return None
        return await self.begin(response, account, way or session.way, secure=secure)

    async def end(self, response: Response, session: Session, *, secure: bool) -> None:
        """End all browser sessions of the account, and delete the cookie."""
        await self._accounts.end_sessions(session.account.user_id, self._signing.random(9))
        _set(response, SESSION, "", 0, secure=secure)

    def device(self, request: Request, username: str, *, secure: bool) -> str:
        """Return the name of this browser if the account signed in here before; else an empty text."""
        value = self._signing.devices.open(_read(request, DEVICE, secure=secure))
        if not isinstance(value, dict) or value["till"] <= self._now_s() or value["username"] != username:
            return ""
        return str(value["device"])

    def browser_name(self, request: Request, *, secure: bool) -> str:
        """Return the name of this browser; empty if it has none."""
        name = _read(request, BROWSER, secure=secure)
        # 43 characters are the 32 random bytes of a name that the server gave.
        return name if len(name) == 43 and name.isascii() else ""

    def name_browser(self, response: Response, name: str, *, secure: bool) -> None:
        """Store the browser's name."""
        _set(response, BROWSER, name, None, secure=secure)

    def leave_notice(self, response: Response, text: str, kind: str, *, secure: bool) -> None:
        """Store a message for the next page of this browser."""
        value = {"text": text[:LONGEST_NOTICE], "kind": kind, "till": self._now_s() + NOTICE_S}
        _set(response, NOTICE, self._signing.notices.seal(value), NOTICE_S, secure=secure)

    def take_notice(self, request: Request, *, secure: bool) -> dict[str, Any] | None:
        """Return the stored message, if it is fresh."""
        value = self._signing.notices.open(_read(request, NOTICE, secure=secure))
        return value if isinstance(value, dict) and value["till"] > self._now_s() else None

    def forget_notice(self, response: Response, *, secure: bool) -> None:
        """Delete the stored message."""
        _set(response, NOTICE, "", 0, secure=secure)

    def last_app(self, request: Request, *, secure: bool) -> str:
        """Return the app that was looked at last in this browser; whoever reads it checks the rights."""
        return _read(request, APP, secure=secure)

    def remember_app(self, request: Request, response: Response, app_id: str, *, secure: bool) -> None:
        """Store the app of a page, if it is another one than before."""
        if _APP.fullmatch(app_id) and app_id != self.last_app(request, secure=secure):
            _set(response, APP, app_id, LONGEST_S, secure=secure)

    def flow(self, request: Request, *, secure: bool) -> str:
        """Return what a sign-in through the provider must bring back, signed."""
        return _read(request, FLOW, secure=secure)

    def set_flow(self, response: Response, value: str, life_s: int, *, secure: bool) -> None:
        """Store what a sign-in through the provider must bring back; a life of 0 deletes it."""
        _set(response, FLOW, value, life_s, secure=secure)

    def _write(self, response: Response, session: Session, *, secure: bool) -> None:
        account = session.account
        value = {
            "id": session.session_id,
            "username": account.username,
            "user_id": account.user_id,
            "epoch": account.epoch,
            "mark": session.mark,
            "since": session.since_s,
            "seen": session.seen_s,
            "way": session.way,
        }
        _set(response, SESSION, self._signing.sessions.seal(value), LONGEST_S, secure=secure)

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000


def cookie_name(name: str, *, secure: bool) -> str:
    """Return the whole name of a cookie."""
    return f"__Host-kiosk_console_{name}" if secure else f"kiosk_console_{name}"


def _read(request: Request, name: str, *, secure: bool) -> str:
    return request.cookies.get(cookie_name(name, secure=secure), "")


def _set(response: Response, name: str, value: str, life_s: int | None, *, secure: bool) -> None:
    response.set_cookie(
        cookie_name(name, secure=secure),
        value,
        max_age=life_s,
        # `__Host-` demands this path, `Secure`, and no domain.
        path="/",
        secure=secure,
        # No script can read it, not even one that got into a page.
        httponly=True,
        # Not "strict": the way back from a provider of identities begins on another site and needs the
        # cookie.
        samesite="lax",
    )
