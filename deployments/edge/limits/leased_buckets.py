"""Rate limits without a round trip per request: each API replica leases tokens from the shared bucket in batches.

The store holds the shared bucket. An API replica spends leased tokens and requests the next lease in the background
when few are left. It waits for the store only if none are left, and remembers a refusal until the store's retry time.
While the store is unavailable each API replica uses a local bucket with the same rate, so requests stay limited.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError, TooMany, messages
from cluster.records.access import Limits as AppLimits
from cluster.store.installation.limits import LimitStore
from deployments.edge.http.caller import Credential
from deployments.edge.limits.token_buckets import AddressBuckets

_log = structlog.get_logger()

_LEASE_S = 0.2
"Seconds of the allowed rate in one lease; all API replicas together can exceed the rate by one lease each."
_LEAST_RATE = 0.001
_AWAY_S = 1.0
"Seconds for which an API replica uses its local bucket before it retries an unavailable store."


@dataclass(slots=True)
class _LeasedTokens:
    """Tokens of one key that this replica may spend without asking the store."""

    limits: AppLimits
    rate: float
    burst: int
    lease_size: int
    tokens: float = 0.0
    refused_until_s: float = 0.0
    "Monotonic: when to ask the store again after it refused."
    away_until_s: float = 0.0
    "Monotonic: when to ask an unavailable store again; until then `tokens` refill locally."
    filled_at_s: float = 0.0
    lease_task: asyncio.Task[None] | None = None


class RateLimiter:
    """Spends tokens of a credential; `bucket` is `query` or `write`."""

    def __init__(self, store: LimitStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._leased: dict[tuple[str, str], _LeasedTokens] = {}
        self._addresses = AddressBuckets(clock)

    async def spend(self, credential: Credential, bucket: str, address: str = "") -> None:
        """Spend one token of the key.

        With a publishable key, spend also one of the client's address, so that one visitor can't use up the tokens of
        all browsers of an app.

        Errors:
            TooMany: with `retry_after_s`
        Cost: half a microsecond while the lease lasts, as much again for the address; one store round trip per lease,
            off the request's path.
        """
        leased = self._leased_tokens(credential, bucket)
        if address and not credential.is_secret:
            share = credential.app.settings.address_share
            if share < 1:
                burst = max(1.0, leased.burst * share)
                wait_s = self._addresses.spend(credential.key_id, bucket, address, leased.rate * share, burst)
                if wait_s:
                    raise _too_many(wait_s)
        if leased.tokens < 1:
            await self._wait_for_token(credential, bucket, leased)
        leased.tokens -= 1
        if leased.lease_task is None:
            if leased.away_until_s:
                needs_lease = self._clock.monotonic_s() >= leased.away_until_s
            else:
                needs_lease = leased.tokens * 2 < leased.lease_size
            if needs_lease:
                self._start_lease(credential, bucket, leased)

    def spend_daily(self, credential: Credential, what: str, address: str, count: int, most: int) -> None:
        """Count an action against the daily limit of an address; each replica counts separately.

        Errors:
            TooMany: the address reached its limit
        """
        if count and most:
            wait_s = self._addresses.spend(credential.key_id, what, address, most / 86_400, most, count)
            if wait_s:
                raise _too_many(wait_s)

    def prune(self, live: frozenset[str]) -> None:
        """Delete the state of revoked keys, so that memory does not grow with rotations."""
        for place in [place for place in self._leased if place[0] not in live]:
            del self._leased[place]

    async def close(self) -> None:
        """Cancel the leases in progress."""
        lease_task = [leased.lease_task for leased in self._leased.values() if leased.lease_task is not None]
        for task in lease_task:
            task.cancel()
        await asyncio.gather(*lease_task, return_exceptions=True)

    def _leased_tokens(self, credential: Credential, bucket: str) -> _LeasedTokens:
        place = (credential.key_id, bucket)
        leased = self._leased.get(place)
        limits = credential.app.settings.limits
        if leased is None or leased.limits is not limits:
            rate = max(limits.writes_per_s if bucket == "write" else limits.queries_per_s, _LEAST_RATE)
            burst = limits.write_burst if bucket == "write" else limits.query_burst
            lease_size = max(1, min(math.ceil(rate * _LEASE_S), math.ceil(burst * _LEASE_S)))
            leased = self._leased[place] = _LeasedTokens(limits, rate, burst, lease_size)
        return leased

    async def _wait_for_token(self, credential: Credential, bucket: str, leased: _LeasedTokens) -> None:
        """Wait for at least one token or raise."""
        while leased.tokens < 1:
            now_s = self._clock.monotonic_s()
            if now_s < leased.refused_until_s:
                raise _too_many(leased.refused_until_s - now_s)
            if leased.away_until_s:
                self._refill(leased, now_s)
                if leased.tokens >= 1:
                    return
                if now_s < leased.away_until_s:
                    raise _too_many((1 - leased.tokens) / leased.rate)
            if leased.lease_task is None:
                self._start_lease(credential, bucket, leased)
            lease_task = leased.lease_task
            if lease_task is not None:
                # Shielded: a cancelled request must not cancel the lease that other requests wait for.
                await asyncio.shield(lease_task)

    def _start_lease(self, credential: Credential, bucket: str, leased: _LeasedTokens) -> None:
        leased.lease_task = asyncio.get_running_loop().create_task(self._lease(credential, bucket, leased))

    async def _lease(self, credential: Credential, bucket: str, leased: _LeasedTokens) -> None:
        try:
            lease = await self._store.take(
                credential.app.app_id,
                credential.key_id,
                bucket,
                rate=leased.rate,
                burst=leased.burst,
                want=leased.lease_size,
                now_ms=self._clock.now_ms(),
            )
        except HouseError:
            self._refill_locally(leased)
        else:
            if leased.away_until_s:
                _log.info("limits_shared_again", app=credential.app.app_id)
                leased.away_until_s = 0.0
                leased.tokens = 0.0
            leased.tokens += lease.granted
            if not lease.granted and leased.tokens < 1:
                wait_s = max(lease.retry_after_ms, 1) / 1000
                leased.refused_until_s = self._clock.monotonic_s() + wait_s
        finally:
            leased.lease_task = None

    def _refill_locally(self, leased: _LeasedTokens) -> None:
        now_s = self._clock.monotonic_s()
        if not leased.away_until_s:
            _log.warning("limits_local", reason="store away")
            leased.tokens = float(leased.lease_size)
            leased.filled_at_s = now_s
        leased.away_until_s = now_s + _AWAY_S
        self._refill(leased, now_s)

    @staticmethod
    def _refill(leased: _LeasedTokens, now_s: float) -> None:
        earned = (now_s - leased.filled_at_s) * leased.rate
        leased.tokens = min(leased.tokens + earned, float(max(leased.burst, 1)))
        leased.filled_at_s = now_s


def _too_many(wait_s: float) -> TooMany:
    return TooMany(messages.TOO_MANY, retry_after_s=max(1, math.ceil(wait_s)), wait_s=wait_s)
