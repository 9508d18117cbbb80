"""The steps of a sign-in, the same for the console and for the consent pages of the archive.

    check_password    name and password -> signed in, or a step that waits for a code
    check_code        the step and a code of the second factor -> signed in
    begin             the cookies of the session, and its row in the audit log

Pages differ in their forms only. No other module checks a password of somebody who is not signed in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.admin.second_factor import LOCKED_AFTER, SecondFactors
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.records.account import NAME_FORM, Account
from cluster.store.stores import Stores
from deployments.edge.access.signing import sha256
from deployments.edge.limits.signin_limits import SignInLimits, SignInRates
from deployments.sign_in.claimed_tier_sync import ClaimedTierSync
from deployments.sign_in.identity_provider import IdentityProvider
from deployments.sign_in.invitations import Invitations
from deployments.sign_in.password_checks import PasswordChecks
from deployments.sign_in.session_log import SessionLog, Surface
from deployments.sign_in.sessions import PATH, BrowserSessions, Session, SignInWay
from deployments.sign_in.signing import SignInSigner

STEP_S = 300
"Seconds to type the code of the second factor."
LONGEST_GOAL = 2_500
"Characters: the address travels in a cookie through a sign-in at a provider, and browsers keep 4,096 bytes."

WRONG = "Incorrect user name or password."
NO_PASSWORDS = "Passwords are switched off here. Sign in with {name}."
THROTTLED = "Too many attempts. Try again in {wait}."
CODE_WRONG = "This code is incorrect or was already used."
CODE_LOCKED = "Too many incorrect codes. Use a recovery code, or try again in {wait}."
CODE_LATE = "The code expired. Sign in again."
CODES_NOTICE = (
    "{count} incorrect codes were entered for your account since your last sign-in. Whoever entered them knew your "
    "password. If that was not you, change it now."
)

_NAME = re.compile(NAME_FORM)
_GOAL = re.compile(
    r"/console/[A-Za-z0-9/_.~%?=&+,:@-]*|/oauth/authorize/(archive|clients)(\?[A-Za-z0-9_.~%=&+-]*)?"
)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Browser:
    """The browser of somebody who signs in, and the pages that it shows."""

    request: Request
    surface: Surface
    address: str
    secure: bool
    "Whether it reaches this installation over https."


@dataclass(frozen=True, slots=True)
class SignInResult:
    """The result of one step; exactly one of `account`, `step` without a fault, and `fault` decides."""

    account: Account | None = None
    "Signed in; `SignIn.begin` writes the cookies."
    way: SignInWay = "password"
    step: str = ""
    "The password was right, and a code is needed: the value for the next form."
    fault: str = ""
    "What the page shows."
    status: int = 200
    retry_after_s: int = 0
    notice: str = ""
    "What the person reads on the first page after the sign-in."


class SignIn:
    """Checks passwords, second factors and identities, and begins sessions."""

    def __init__(
        self,
        stores: Stores,
        vault: Vault,
        clock: Clock,
        *,
        rates: SignInRates | None = None,
        provider: IdentityProvider | None = None,
        has_passwords: bool = True,
    ) -> None:
        self.signing = SignInSigner(vault)
        self.sessions = BrowserSessions(stores.accounts, self.signing, clock)
        self.provider = provider
        has_claim = provider is not None and provider.config.tiers_claim
        self.claimed = ClaimedTierSync(stores, vault, provider, clock) if provider and has_claim else None
        "Reads tiers from a claim of the provider; None where no claim names them."
        self.has_passwords = has_passwords or provider is None
        "Without passwords, people sign in through the provider only."
        self._accounts = stores.accounts
        self._passwords = PasswordChecks(stores.accounts)
        self._factors = SecondFactors(stores.accounts, vault)
        self._limits = SignInLimits(stores.limits, self.signing.hash_slot, clock, rates or SignInRates())
        self.invitations = Invitations(stores, self._limits, clock)
        self._sessions_log = SessionLog(stores.audit, stores.limits, clock)
        self._clock = clock

    @property
    def provider_name(self) -> str:
        """Return the provider's name for people; empty without one."""
        return "" if self.provider is None else self.provider.config.name

    async def check_password(self, browser: Browser, username: str, password: str) -> SignInResult:
        """Check a name and a password."""
        if not self.has_passwords:
            return SignInResult(fault=NO_PASSWORDS.format(name=self.provider_name), status=403)
        username = username_from_form(username)
        device = self._device(browser, username)
        # Counted before the check, so that guesses sent at once are not all checked.
        wait_s = await self._limits.wait_s(username, browser.address, device)
        if wait_s:
            return await self._throttle(browser, username, wait_s)
        account = await self._passwords.account(username, password, browser.address, has_device=bool(device))
        if account is None:
            await self._refuse(browser, username, "wrong password")
            # The same words for an unknown name, so that nobody can try out names.
            return SignInResult(fault=WRONG, status=403)
        if account.has_second_factor:
            return SignInResult(step=self._seal_step(browser, account))
        return SignInResult(account)

    async def check_code(self, browser: Browser, step: str, code: str) -> SignInResult:
        """Check the second factor of somebody whose password was right in this browser."""
        account = await self._account_of_step(browser, step)
        # A restart may have switched passwords off since the first step.
        if account is None or not self.has_passwords:
            return SignInResult(fault=CODE_LATE, status=403)
        device = self._device(browser, account.username)
        wait_s = await self._limits.wait_s(account.username, browser.address, device)
        if wait_s:
            refused = await self._throttle(browser, account.username, wait_s)
            return SignInResult(step=step, fault=refused.fault, status=429, retry_after_s=wait_s)
        check = await self._factors.check(account, code, self._clock.now_ms())
        if not check.is_right:
            await self._refuse(browser, account.username, "wrong code")
            wait_s = check.wait_s
            fault = CODE_LOCKED.format(wait=_span(wait_s)) if wait_s else CODE_WRONG
            return SignInResult(step=step, fault=fault, status=429 if wait_s else 403, retry_after_s=wait_s)
        notice = CODES_NOTICE.format(count=check.failures) if check.failures >= LOCKED_AFTER else ""
        return SignInResult(account, "password and code", notice=notice)

    async def begin(self, response: Response, browser: Browser, result: SignInResult) -> None:
        """Begin the session of an account that proved itself."""
        account = result.account
        assert account is not None
        await self._sessions_log.add_begin(account, browser.surface, browser.address, result.way)
        _log.info("signed_in", user_id=account.user_id, way=result.way)
        await self.sessions.begin(response, account, result.way, secure=browser.secure)
        if result.notice:
            self.sessions.leave_notice(response, result.notice, "bad", secure=browser.secure)

    async def end_all_sessions(self, response: Response, browser: Browser, session: Session) -> None:
        """End all browser sessions of the account, and delete the cookie."""
        await self.sessions.end(response, session, secure=browser.secure)
        await self._sessions_log.add_end(session.account, browser.surface, browser.address, session.way)

    async def record_refused_identity(self, browser: Browser, account: Account | None, reason: str) -> None:
        """Record a sign-in through the provider that led to no session."""
        await self._sessions_log.add_refused(account, browser.surface, browser.address, reason)

    async def _throttle(self, browser: Browser, username: str, wait_s: int) -> SignInResult:
        await self._refuse(browser, username, "too many attempts")
        return SignInResult(fault=THROTTLED.format(wait=_span(wait_s)), status=429, retry_after_s=wait_s)

    async def _refuse(self, browser: Browser, username: str, reason: str) -> None:
        _log.warning("sign_in_refused", reason=reason)
        account = await self._accounts.get(username) if username else None
        await self._sessions_log.add_refused(account, browser.surface, browser.address, reason)

    def _device(self, browser: Browser, username: str) -> str:
        return self.sessions.device(browser.request, username, secure=browser.secure) if username else ""

    def _seal_step(self, browser: Browser, account: Account) -> str:
        """Return proof that the password was right in this browser, for a few minutes."""
        return self.signing.steps.seal(
            {
                "username": account.username,
                "id": account.user_id,
                "epoch": account.epoch,
                "browser": self._browser_hash(browser),
                "till": self._clock.now_ms() // 1000 + STEP_S,
            }
        )

    async def _account_of_step(self, browser: Browser, sealed: str) -> Account | None:
        step: Any = self.signing.steps.open(sealed)
        if not isinstance(step, dict) or step.get("browser") != self._browser_hash(browser):
            return None
        account = await self._accounts.get(step["username"])
        # The account is read again: it may have been locked since the password was right.
        if account is None or account.disabled or step["till"] <= self._clock.now_ms() // 1000:
            return None
        return account if (account.user_id, account.epoch) == (step["id"], step["epoch"]) else None

    def _browser_hash(self, browser: Browser) -> str:
        return sha256(self.sessions.browser_name(browser.request, secure=browser.secure))


def username_from_form(text: str) -> str:
    """Return a typed user name in its stored form; empty if no account can have it."""
    username = text.strip().lower()
    return username if _NAME.fullmatch(username) else ""


def safe_redirect(text: str) -> str:
    """Return the page to which a sign-in may lead, of the console or of the archive; never an address elsewhere."""
    # `//host` and `/../` lead elsewhere in browsers, and pages of the sign-in would lead back to themselves.
    is_page = len(text) <= LONGEST_GOAL and _GOAL.fullmatch(text) and "//" not in text and "/../" not in text
    return text if is_page and not text.startswith(PATH + "/sign-") else PATH + "/"


def _span(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 100 else f"{(seconds + 59) // 60} minutes"
