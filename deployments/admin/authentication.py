"""Who sends a request to the administration: the account behind a personal token or behind the console's session.

A token is looked up by its SHA-256, so the time of a look-up discloses nothing about it. A found one is kept for a
second: that long it may work after it was revoked, its account was locked, or its roles changed.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from starlette.requests import Request

from cluster.clock import Clock
from cluster.crypto import is_token, key_sha256
from cluster.errors import KioskError, TooMany, Unauthenticated
from cluster.records.administration import TOKEN_PREFIX
from cluster.store.stores import Stores
from deployments.edge.http.credentials import HEADER as KEY_HEADER
from deployments.edge.http.credentials import read_key_parameter
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets
from deployments.operations.framework.principal import Principal, principal_of

SessionPrincipal = Callable[[Request], Awaitable[Principal | None]]
"""Return who is signed in to the console; None: nobody. It raises `Forbidden` for a change without a valid token
against forged requests."""

KEPT_S = 1.0
MOST_KEPT = 1_000
FAILURES = BucketRate(0.2, 20)
"Wrong tokens of one address; a right one is never refused for them."
REQUESTS = BucketRate(20.0, 200)
"Requests of one person."

NO_API_KEY = "an API key does not open the administration; use a personal token: kiosk tokens create"
NO_TOKEN = "the administration needs a personal token or a session of the console"  # noqa: S105 - a sentence
WRONG_TOKEN = "the token is unknown, expired or revoked, or its account is locked"  # noqa: S105 - a sentence


@dataclass(frozen=True, slots=True)
class _Kept:
    principal: Principal
    until_s: float


class Authenticator:
    """Finds the principal of a request."""

    def __init__(self, stores: Stores, clock: Clock, session: SessionPrincipal | None = None) -> None:
        self._stores = stores
        self._clock = clock
        self._session = session
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._limits = TokenBuckets(clock)

    async def authenticate(self, request: Request, address: str) -> Principal:
        """Return the principal of a request.

        Errors:
            Unauthenticated: no token and no session, a wrong token, or an API key
            TooMany: too many wrong tokens from this address, or too many requests of this person
            Forbidden: a change over a session without the token against forged requests
        """
        # HAProxy takes an answer as proof of the API key in the request, so none may stand beside a token.
        in_query = read_key_parameter(request.scope["query_string"]) is not None
        if KEY_HEADER.decode() in request.headers or in_query:
            raise self._refusal(NO_API_KEY, address)
        principal = await self._find(request, address)
        wait_s = self._limits.wait_s("requests", principal.user_id, REQUESTS)
        if wait_s:
            raise TooMany("too many requests of this account", retry_after_s=wait_s)
        return principal

    async def _find(self, request: Request, address: str) -> Principal:
        given = request.headers.get("authorization")
        if given is None:
            principal = None if self._session is None else await self._session(request)
            if principal is None:
                raise Unauthenticated(NO_TOKEN, bearer=True)
            return principal
        scheme, _, text = given.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not is_token(text, TOKEN_PREFIX):
            raise self._refusal(NO_API_KEY if text.startswith(("ksk_", "kpk_")) else WRONG_TOKEN, address)
        principal = await self._look_up(key_sha256(text))
        if principal is None:
            raise self._refusal(WRONG_TOKEN, address)
        return replace(principal, address=address)

    async def _look_up(self, sha256: str) -> Principal | None:
        now_s = self._clock.monotonic_s()
        kept = self._kept.get(sha256)
        if kept is not None and kept.until_s > now_s:
            return kept.principal
        # Removed first, so that the new entry goes to the end: the first entry is the oldest.
        self._kept.pop(sha256, None)
        token = await self._stores.admin_tokens.find(sha256)
        now_ms = self._clock.now_ms()
        # A record that was copied to another key of the store must not open anything.
        if token is None or not hmac.compare_digest(token.sha256, sha256) or token.expires_at <= now_ms:
            return None
        account = await self._stores.accounts.get(token.username)
        if account is None or account.disabled:
            return None
        # A new password or a lock raises the epoch, and the name may belong to somebody else by now.
        if (account.user_id, account.epoch) != (token.user_id, token.epoch):
            return None
        principal = principal_of(account, "token", token=token)
        # A token must not live longer in this memory than it does in the store.
        self._kept[sha256] = _Kept(principal, now_s + min(KEPT_S, (token.expires_at - now_ms) / 1000))
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return principal

    def _refusal(self, message: str, address: str) -> KioskError:
        wait_s = self._limits.wait_s("failures", address, FAILURES)
        if wait_s:
            return TooMany("too many wrong tokens from this address", retry_after_s=wait_s)
        return Unauthenticated(message, bearer=True)
