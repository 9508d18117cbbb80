"""Access tokens: signed, good for an hour, refused everywhere within a second of their grant's end.

A token says who, for which client, from which grant and for which resource, so checking one asks nobody. What a
token can't say is that its grant has ended: those are few (the last two hours' revocations), every replica holds
them in memory and follows a counter in the store, four times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from dataclasses import dataclass
from typing import Any

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError, Unavailable
from cluster.records.account import Grant
from cluster.records.registration import revocation_id_from_short
from cluster.store.ports.accounts import GrantStore
from deployments.archive.caller import ArchiveCaller
from deployments.archive.oauth.clients import short_id
from deployments.archive.oauth.redirects import parse_target_host
from deployments.archive.oauth.signing import OAuthSigner

MOST_CACHED = 4096
"Tokens whose signature is remembered."
SKEW_S = 60
"How far ahead of ours the clock of the replica that signed may be."

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _CachedToken:
    person: ArchiveCaller
    grant_id: str
    client_mark: str
    resource: str
    expires_s: int


class AccessTokens:
    """Knows whose token it is."""

    def __init__(
        self, store: GrantStore, signing: OAuthSigner, clock: Clock, *, poll_s: float = 0.25
    ) -> None:
        self._store = store
        self._signing = signing
        self._clock = clock
        self._poll_s = poll_s
        self._known: dict[str, _CachedToken] = {}
        self._revoked: frozenset[str] = frozenset()
        self._version = -1
        self._task: asyncio.Task[None] | None = None
        self.ready = False
        "False until revocations were read once; until then nobody is let in."

    async def person(self, token: str, resource: str) -> ArchiveCaller | None:
        """Tell who holds a token for this resource; None for everything that is no valid token.

        Errors:
            Unavailable: revocations could not be read since the start
        Cost: 1 microsecond for a known token, 40 for a new one; no round trip.
        """
        if not self.ready:
            await self.refresh()
        known = self._known.get(token) or self._read(token)
        if known is None or known.grant_id in self._revoked or known.client_mark in self._revoked:
            return None
        now_s = self._clock.now_ms() / 1000
        if now_s >= known.expires_s or not hmac.compare_digest(known.resource.encode(), resource.encode()):
            return None
        return known.person

    def issue(self, grant: Grant, life_s: int) -> str:
        """Make an access token of a grant."""
        now_s = self._clock.now_ms() // 1000
        return self._signing.issue_access(
            {
                "aud": grant.resource,
                "sub": grant.user_id,
                "client": short_id(grant.client_id),
                "name": grant.client_name,
                "host": parse_target_host(grant.target),
                "grant": grant.grant_id,
                "jti": self._signing.random(9),
                "iat": now_s,
                "exp": now_s + life_s,
            }
        )

    def grant_of(self, token: str) -> str | None:
        """Tell which grant a genuine access token belongs to, whether it is still good or not."""
        claims = self._signing.access_claims(token)
        return None if claims is None else str(claims.get("grant"))

    @property
    def is_following(self) -> bool:
        """Is the background task alive?"""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Read revocations once, if the store answers, and keep following them."""
        with contextlib.suppress(Unavailable):
            await self.refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def refresh(self) -> None:
        """Read revocations again when their version moved.

        Errors:
            Unavailable: the store is away; what is known stays so
        """
        version = await self._store.version()
        if self.ready and version == self._version:
            return
        revocations = await self._store.revocations()
        self._revoked, self._version = revocations.grant_ids, revocations.version
        self.ready = True

    def _read(self, token: str) -> _CachedToken | None:
        claims = self._signing.access_claims(token)
        if claims is None or not _are_complete(claims):
            return None
        now_s = self._clock.now_ms() / 1000
        if not claims["iat"] <= now_s + SKEW_S or now_s >= claims["exp"]:
            return None
        person = ArchiveCaller(claims["sub"], claims["client"], claims["name"], str(claims.get("host", "")))
        mark = revocation_id_from_short(claims["client"])
        known = _CachedToken(person, claims["grant"], mark, claims["aud"], claims["exp"])
        if len(self._known) >= MOST_CACHED:
            self._known.clear()
        self._known[token] = known
        return known

    async def _follow(self) -> None:
        away = False
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self.refresh()
                if away:
                    _log.info("revocations_followed_again")
                away = False
            except HouseError as error:
                if not away:
                    _log.warning("revocations_not_followed", reason=error.code)
                away = True
            except Exception:  # noqa: BLE001 - a follow loop tells and goes on
                _log.exception("revocations_not_followed", reason="fault")


def _are_complete(claims: dict[str, Any]) -> bool:
    texts = all(isinstance(claims.get(name), str) for name in ("aud", "sub", "client", "name", "grant"))
    return texts and all(type(claims.get(name)) is int for name in ("iat", "exp"))
