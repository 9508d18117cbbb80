"""Rate limits without a round trip per request: a door leases tokens from the shared bucket in small lots.

The shared bucket in the store decides; a door spends what it leased, asks for the next lot in the background
when little is left, waits for the store only when nothing is left, and remembers a refusal until the store's own
hint has passed. While the store is away each door goes on with a bucket of its own at the same rate, so an
outage neither opens the gates nor closes them.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError, TooMany, messages
from cluster.records.access import Limits as AppLimits
from cluster.store.ports.limits import LimitStore
from deployments.edge.address_buckets import AddressBuckets
from deployments.edge.caller import Credential

_log = structlog.get_logger()

_LOT_S = 0.2
"A lot covers this much of the allowed rate: what all doors together can overspend is one lot each."
_LEAST_RATE = 0.001
_AWAY_S = 1.0
"How long a door lives on its own bucket before it asks an absent store again."


@dataclass(slots=True)
class _LeasedTokens:
    """What one key may still spend here without asking."""

    limits: AppLimits
    rate: float
    burst: int
    lot: int
    tokens: float = 0.0
    refused_until_s: float = 0.0
    "Monotonic; the store said no and when to come back."
    away_until_s: float = 0.0
    "Monotonic; the store is away, `tokens` refill here."
    filled_at_s: float = 0.0
    asking: asyncio.Task[None] | None = None


class RateLimiter:
    """Spends tokens of a credential; `bucket` is `query` or `write`."""

    def __init__(self, store: LimitStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._purses: dict[tuple[str, str], _LeasedTokens] = {}
        self._addresses = AddressBuckets(clock)

    async def spend(self, credential: Credential, bucket: str, address: str = "") -> None:
        """Spend one token; of a publishable key also one of the client's address, so that one visitor can't use up
        what all browsers of an app share.

        Errors:
            TooMany: with `retry_after_s`
        Cost: half a microsecond while the lot lasts, as much again for the address; one store round trip per lot,
            not on the request's way.
        """
        purse = self._leased_tokens(credential, bucket)
        if address and not credential.is_secret:
            share = credential.app.settings.address_share
            if share < 1:
                burst = max(1.0, purse.burst * share)
                wait_s = self._addresses.spend(credential.key_id, bucket, address, purse.rate * share, burst)
                if wait_s:
                    raise _too_many(wait_s)
        if purse.tokens < 1:
            await self._wait_for_token(credential, bucket, purse)
        purse.tokens -= 1
        if purse.asking is None:
            if purse.away_until_s:
                wanted = self._clock.monotonic_s() >= purse.away_until_s
            else:
                wanted = purse.tokens * 2 < purse.lot
            if wanted:
                self._start_lease(credential, bucket, purse)

    def spend_daily(self, credential: Credential, what: str, address: str, count: int, most: int) -> None:
        """Count what an address may do only so often a day, all replicas for themselves.

        Errors:
            TooMany
        """
        if count and most:
            wait_s = self._addresses.spend(credential.key_id, what, address, most / 86_400, most, count)
            if wait_s:
                raise _too_many(wait_s)

    def prune(self, live: frozenset[str]) -> None:
        """Drop what is kept for keys that are gone, so that memory does not grow with rotations."""
        for place in [place for place in self._purses if place[0] not in live]:
            del self._purses[place]

    async def close(self) -> None:
        """Wait for questions on their way."""
        asking = [purse.asking for purse in self._purses.values() if purse.asking is not None]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _leased_tokens(self, credential: Credential, bucket: str) -> _LeasedTokens:
        place = (credential.key_id, bucket)
        purse = self._purses.get(place)
        limits = credential.app.settings.limits
        if purse is None or purse.limits is not limits:
            rate = max(limits.writes_per_s if bucket == "write" else limits.queries_per_s, _LEAST_RATE)
            burst = limits.write_burst if bucket == "write" else limits.query_burst
            lot = max(1, min(math.ceil(rate * _LOT_S), math.ceil(burst * _LOT_S)))
            purse = self._purses[place] = _LeasedTokens(limits, rate, burst, lot)
        return purse

    async def _wait_for_token(self, credential: Credential, bucket: str, purse: _LeasedTokens) -> None:
        """Get at least one token or raise."""
        while purse.tokens < 1:
            now_s = self._clock.monotonic_s()
            if now_s < purse.refused_until_s:
                raise _too_many(purse.refused_until_s - now_s)
            if purse.away_until_s:
                self._refill(purse, now_s)
                if purse.tokens >= 1:
                    return
                if now_s < purse.away_until_s:
                    raise _too_many((1 - purse.tokens) / purse.rate)
            if purse.asking is None:
                self._start_lease(credential, bucket, purse)
            asking = purse.asking
            if asking is not None:
                # Shielded: a caller that goes away must not take the answer from the others who wait for it.
                await asyncio.shield(asking)

    def _start_lease(self, credential: Credential, bucket: str, purse: _LeasedTokens) -> None:
        purse.asking = asyncio.get_running_loop().create_task(self._lease(credential, bucket, purse))

    async def _lease(self, credential: Credential, bucket: str, purse: _LeasedTokens) -> None:
        try:
            lease = await self._store.take(
                credential.app.app_id,
                credential.key_id,
                bucket,
                rate=purse.rate,
                burst=purse.burst,
                want=purse.lot,
                now_ms=self._clock.now_ms(),
            )
        except HouseError:
            self._refill_locally(purse)
        else:
            if purse.away_until_s:
                _log.info("limits_shared_again", app=credential.app.app_id)
                purse.away_until_s = 0.0
                purse.tokens = 0.0
            purse.tokens += lease.granted
            if not lease.granted and purse.tokens < 1:
                wait_s = max(lease.retry_after_ms, 1) / 1000
                purse.refused_until_s = self._clock.monotonic_s() + wait_s
        finally:
            purse.asking = None

    def _refill_locally(self, purse: _LeasedTokens) -> None:
        now_s = self._clock.monotonic_s()
        if not purse.away_until_s:
            _log.warning("limits_local", reason="store away")
            purse.tokens = float(purse.lot)
            purse.filled_at_s = now_s
        purse.away_until_s = now_s + _AWAY_S
        self._refill(purse, now_s)

    @staticmethod
    def _refill(purse: _LeasedTokens, now_s: float) -> None:
        earned = (now_s - purse.filled_at_s) * purse.rate
        purse.tokens = min(purse.tokens + earned, float(max(purse.burst, 1)))
        purse.filled_at_s = now_s


def _too_many(wait_s: float) -> TooMany:
    return TooMany(messages.TOO_MANY, retry_after_s=max(1, math.ceil(wait_s)), wait_s=wait_s)
