"""Access tokens: signed, valid for an hour, refused by every replica within a second after their grant ends.

A token contains user, client, grant and resource, so a check needs no store. It can't contain the end of its grant.
So every replica holds the revocations of the last two hours in memory. It polls a counter in the store four times a
second.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from cluster.access_tier import SIGNED_IN
from cluster.clock import Clock
from cluster.records.account import Account, Grant
from cluster.records.archive.archive_client import revocation_id_from_short, tier_revocation_id
from cluster.store.administration.grants import GrantStore, Revocations
from cluster.store.refreshing_cache import RefreshingCache
from deployments.archive.admission import ArchiveCaller
from deployments.archive.oauth.client_identity.clients import short_id
from deployments.archive.oauth.redirects import parse_target_host
from deployments.archive.oauth.signing import OAuthSigner

MOST_CACHED = 4096
"Tokens whose verified signature is cached."
SKEW_S = 60
"Seconds by which the clock of the signing replica may be ahead."
_ALL = "all"
"The only entry of the cache."


@dataclass(frozen=True, slots=True)
class _CachedToken:
    person: ArchiveCaller
    grant_id: str
    client_mark: str
    tier_mark: str
    resource: str
    expires_s: int


class AccessTokens:
    """Issues and verifies access tokens."""

    def __init__(
        self, store: GrantStore, signing: OAuthSigner, clock: Clock, *, poll_s: float = 0.25
    ) -> None:
        self._store = store
        self._signing = signing
        self._clock = clock
        # It bounds how long a revoked token is still accepted.
        self._poll_s = poll_s
        self._cached: dict[str, _CachedToken] = {}
        self._revoked: frozenset[str] = frozenset()
        self._cache = RefreshingCache(self._load, clock)

    async def find_caller(self, token: str, resource: str) -> ArchiveCaller | None:
        """Return the user of a token for this resource; None for an invalid token.

        Cost: 1 microsecond for a cached token, 40 for a new one; no round trip.
        """
        cached = self._cached.get(token) or self._read(token)
        # Before the list is read: while Redis is away, a forged token must get a 401, which proves nothing to HAProxy.
        if cached is None:
            return None
        # Without the list a revoked token would pass, so this raises rather than trusts.
        if self._cache.get(_ALL) is None:
            await self.refresh()
        if not self._revoked.isdisjoint((cached.grant_id, cached.client_mark, cached.tier_mark)):
            return None
        now_s = self._clock.now_ms() / 1000
        # The audience: a token for one archive must not open another one (RFC 8707, 2).
        if now_s >= cached.expires_s or not hmac.compare_digest(cached.resource.encode(), resource.encode()):
            return None
        return cached.person

    def issue(self, grant: Grant, life_s: int, account: Account | None = None) -> str:
        """Return an access token of a grant, with the tiers of its account."""
        now_ms = self._clock.now_ms()
        now_s = now_ms // 1000
        more: dict[str, Any] = {}
        if account is not None and account.tier_epoch:
            more = {"tiers": sorted(account.tiers_at(now_ms)[0]), "tier_epoch": account.tier_epoch}
        return self._signing.issue_access(
            {
                **more,
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
        """Return the grant of a genuine access token, also after it ended."""
        claims = self._signing.access_claims(token)
        return None if claims is None else str(claims.get("grant"))

    @property
    def is_following(self) -> bool:
        """Whether the background task is running."""
        return self._cache.is_following(_ALL)

    async def start(self) -> None:
        """Read revocations once, if the store answers, and start to follow them."""
        await self._cache.follow(
            _ALL, self._poll_s, away_event="revocations_not_followed", back_event="revocations_followed_again"
        )

    async def close(self) -> None:
        """Stop following revocations."""
        await self._cache.close()

    async def refresh(self) -> None:
        """Read revocations again if their version changed.

        Errors:
            Unavailable: the store is unavailable; the revocations read last stay valid
        """
        await self._cache.refresh(_ALL)

    async def _load(self, _key: str, last: Revocations | None) -> Revocations:
        # Each poll reads one number; the list itself is read only after a revocation.
        version = await self._store.version()
        if last is not None and version == last.version:
            return last
        revocations = await self._store.revocations()
        self._revoked = revocations.grant_ids
        return revocations

    def _read(self, token: str) -> _CachedToken | None:
        claims = self._signing.access_claims(token)
        if claims is None or not _are_complete(claims):
            return None
        now_s = self._clock.now_ms() / 1000
        if not claims["iat"] <= now_s + SKEW_S or now_s >= claims["exp"]:
            return None
        person = ArchiveCaller(
            claims["sub"],
            claims["client"],
            claims["name"],
            str(claims.get("host", "")),
            SIGNED_IN.union(claims.get("tiers", ())),
        )
        marks = (
            revocation_id_from_short(claims["client"]),
            tier_revocation_id(claims["sub"], claims.get("tier_epoch", 0)),
        )
        cached = _CachedToken(person, claims["grant"], *marks, claims["aud"], claims["exp"])
        # All at once: to verify a token again takes 40 microseconds, and an order of use would cost each
        # call.
        if len(self._cached) >= MOST_CACHED:
            self._cached.clear()
        self._cached[token] = cached
        return cached


def _are_complete(claims: dict[str, Any]) -> bool:
    texts = all(isinstance(claims.get(name), str) for name in ("aud", "sub", "client", "name", "grant"))
    # `type` and not `isinstance`, for which `true` would be a time.
    return texts and all(type(claims.get(name)) is int for name in ("iat", "exp"))
