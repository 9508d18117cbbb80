"""Rate limits without a round trip per request: each API replica leases tokens from the shared bucket in batches.

The store holds the shared bucket. An API replica spends leased tokens and requests the next lease in the background
when few are left. It waits for the store only if none are left, and remembers a refusal until the store's retry time.
While the store is unavailable each API replica uses a local bucket with the same rate, so requests stay limited.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

import structlog

from cluster.clock import Clock
from cluster.errors import KioskError, TooMany, messages
from cluster.records.apps import Limits as AppLimits
from cluster.store.installation.rate_limits import LimitStore
from deployments.edge.http.credentials import Credential
from deployments.edge.limits.token_buckets import TokenBuckets

_log = structlog.get_logger()

LEASE_S = 0.2
"Seconds of the allowed rate in one lease; all API replicas together can exceed the rate by one lease each."
MOST_ADDRESSES = 20_000
"Addresses in one of two tables: about 4 MB in both."
# A rate of 0 would divide by zero; this admits a request in 17 minutes.
_LEAST_RATE = 0.001
_AWAY_S = 1.0
"Seconds for which an API replica uses its local bucket before it retries an unavailable store."
_LEAST_WAIT_S = 0.001


class LeasedBucket:
    """Tokens of one shared bucket that this replica may spend without asking the store."""

    __slots__ = (
        "_away_until_s",
        "_clock",
        "_filled_at_s",
        "_lease_size",
        "_name",
        "_refused_until_s",
        "_store",
        "burst",
        "lease_task",
        "rate",
        "tokens",
    )

    def __init__(
        self,
        store: LimitStore,
        clock: Clock,
        name: tuple[str, str, str],
        *,
        rate: float,
        burst: int,
        lease_size: int,
    ) -> None:
        """Start empty; `name` are the app, the key and the bucket in the store, `rate` is in tokens per second."""
        self._store = store
        self._clock = clock
        self._name = name
        self.rate = rate
        self.burst = burst
        self._lease_size = lease_size
        self.tokens = 0.0
        self._refused_until_s = 0.0
        "Monotonic: when to ask the store again after it refused."
        self._away_until_s = 0.0
        "Monotonic: when to ask an unavailable store again; until then `tokens` refill locally."
        self._filled_at_s = 0.0
        self.lease_task: asyncio.Task[None] | None = None

    async def wait_s(self) -> float:
        """Wait for the store if no token is left; return 0 if there is a token, else the seconds until the next."""
        # A loop, because other requests may have spent the lease that this one waited for.
        while self.tokens < 1:
            now_s = self._clock.monotonic_s()
            if now_s < self._refused_until_s:
                return _rounded(self._refused_until_s - now_s)
            # The store did not answer the last lease: tokens refill here, and after a second it is asked
            # again.
            if self._away_until_s:
                self._refill(now_s)
                if self.tokens >= 1:
                    break
                if now_s < self._away_until_s:
                    return _rounded((1 - self.tokens) / self.rate)
            # Shielded: a cancelled request must not cancel the lease that other requests wait for.
            await asyncio.shield(self.lease_task or self._start_lease())
        return 0.0

    def spend(self) -> None:
        """Spend a token, and request the next lease if few are left. Only after `wait_s` returned 0."""
        self.tokens -= 1
        if self.lease_task is None:
            if self._away_until_s:
                needs_lease = self._clock.monotonic_s() >= self._away_until_s
            else:
                # At half, so that the next lease arrives before the rest is spent.
                needs_lease = self.tokens * 2 < self._lease_size
            if needs_lease:
                self._start_lease()

    def _start_lease(self) -> asyncio.Task[None]:
        self.lease_task = asyncio.get_running_loop().create_task(self._lease())
        return self.lease_task

    async def _lease(self) -> None:
        app_id, key_id, bucket = self._name
        try:
            lease = await self._store.take(
                app_id,
                key_id,
                bucket,
                rate=self.rate,
                burst=self.burst,
                want=self._lease_size,
                now_ms=self._clock.now_ms(),
            )
        # Limits stay while the store is away; neither all nor no requests may pass.
        except KioskError:
            self._refill_locally()
        else:
            if self._away_until_s:
                _log.info("limits_shared_again", app=app_id)
                self._away_until_s = 0.0
                # The local tokens were given by no store: with them and the lease, the rate would count
                # twice.
                self.tokens = 0.0
            self.tokens += lease.granted
            if not lease.granted and self.tokens < 1:
                wait_s = max(lease.retry_after_ms, 1) / 1000
                self._refused_until_s = self._clock.monotonic_s() + wait_s
        finally:
            self.lease_task = None

    def _refill_locally(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._away_until_s:
            _log.warning("limits_local", reason="store away")
            # One lease and not the burst: with many replicas, a burst each would add up.
            self.tokens = float(self._lease_size)
            self._filled_at_s = now_s
        self._away_until_s = now_s + _AWAY_S
        self._refill(now_s)

    def _refill(self, now_s: float) -> None:
        earned = (now_s - self._filled_at_s) * self.rate
        self.tokens = min(self.tokens + earned, float(max(self.burst, 1)))
        self._filled_at_s = now_s


def _rounded(wait_s: float) -> float:
    # The store counts milliseconds: 1.0000000001 seconds must not become 2 in a header of whole seconds.
    return max(_LEAST_WAIT_S, round(wait_s, 3))


async def cancel_leases(buckets: Iterable[LeasedBucket]) -> None:
    """Cancel the leases in progress."""
    tasks = [bucket.lease_task for bucket in buckets if bucket.lease_task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class RateLimiter:
    """Spends tokens of a credential; `bucket` is `query` or `write`."""

    def __init__(self, store: LimitStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._leased: dict[tuple[str, str], tuple[AppLimits, LeasedBucket]] = {}
        self._addresses = TokenBuckets(clock, MOST_ADDRESSES)

    async def spend(self, credential: Credential, bucket: str, address: str = "") -> None:
        """Spend one token of the key.

        With a publishable key, spend also one of the client's address, so that one visitor can't use up the tokens of
        all browsers of an app.

        Errors:
            TooMany: with `retry_after_s`
        Cost: half a microsecond while the lease lasts, as much again for the address; one store round trip per lease,
            off the request's path.
        """
        limits, leased = self._leased.get((credential.key_id, bucket), (None, None))
        # By identity: settings are read anew only when something changed, and a comparison would cost each
        # request.
        if leased is None or limits is not credential.app.settings.limits:
            leased = self._open(credential, bucket)
        if address and not credential.is_secret:
            share = credential.app.settings.address_share
            if share < 1:
                # Below 1 the bucket could never hold the one token that a request takes.
                burst = max(1.0, leased.burst * share)
                name = (credential.key_id, bucket, address)
                # First the address, then the key: a client beyond its share takes nothing from the others.
                _refuse(self._addresses.spend(name, leased.rate * share, burst))
        if leased.tokens < 1:
            _refuse(await leased.wait_s())
        leased.spend()

    def spend_daily(self, credential: Credential, what: str, address: str, count: int, most: int) -> None:
        """Count an action against the daily limit of an address; each replica counts separately."""
        if count and most:
            _refuse(self._addresses.spend((credential.key_id, what, address), most / 86_400, most, count))

    def prune(self, live: frozenset[str]) -> None:
        """Delete the state of revoked keys, so that memory does not grow with rotations."""
        for place in [place for place in self._leased if place[0] not in live]:
            del self._leased[place]

    async def close(self) -> None:
        """Cancel the leases in progress."""
        await cancel_leases(bucket for _, bucket in self._leased.values())

    def _open(self, credential: Credential, bucket: str) -> LeasedBucket:
        limits = credential.app.settings.limits
        rate = max(limits.writes_per_s if bucket == "write" else limits.queries_per_s, _LEAST_RATE)
        burst = limits.write_burst if bucket == "write" else limits.query_burst
        # The same share of the burst, so that one replica does not take all of a small bucket.
        lease_size = max(1, min(math.ceil(rate * LEASE_S), math.ceil(burst * LEASE_S)))
        name = (credential.app.app_id, credential.key_id, bucket)
        leased = LeasedBucket(self._store, self._clock, name, rate=rate, burst=burst, lease_size=lease_size)
        self._leased[credential.key_id, bucket] = limits, leased
        return leased


def _refuse(wait_s: float) -> None:
    if wait_s:
        # `Retry-After` has whole seconds (RFC 9110, 10.2.3); bulk calls wait for the exact time.
        raise TooMany(messages.TOO_MANY, retry_after_s=max(1, math.ceil(wait_s)), wait_s=wait_s)
