"""How often strangers may knock: per address in this replica's memory, sign-ins in the store for all replicas.

Both keep a bounded number of counters whatever anybody sends.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.store.ports.limits import LimitStore
from deployments.archive.oauth.signing import OAuthSigner

APP = "kiosk:oauth"
"Stands where limits name an app; no app can be called that."


@dataclass(frozen=True, slots=True)
class BucketRate:
    """A token bucket."""

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class OAuthLimits:
    """How often is often enough."""

    registrations: BucketRate = BucketRate(5.0, 60)
    "Per address and replica. A registration keeps nothing, so this protects processors only."
    changes: BucketRate = BucketRate(0.2, 500)
    "Of registrations, by all clients of all replicas: each change is kept, so a flood of them is bounded here."
    token_calls: BucketRate = BucketRate(20.0, 200)
    "Per address and replica; one address may be a provider's whole fleet of assistants."
    pages: BucketRate = BucketRate(10.0, 100)
    "Per address and replica."
    attempts_at_account_from_address: BucketRate = BucketRate(1 / 20, 6)
    attempts_from_address: BucketRate = BucketRate(1 / 6, 30)
    attempts_at_account: BucketRate = BucketRate(1 / 15, 60)
    "From everywhere: what a password has to withstand, 5,760 guesses a day."
    attempts_from_device: BucketRate = BucketRate(1 / 15, 20)
    "From a browser in which the account signed in before; strangers can't use up these attempts."
    body_s: float = 2.0
    "How long a body of at most 20 kB may take to arrive."


class AddressLimits:
    """Token buckets by kind and address, the most recently used few thousand of them."""

    def __init__(self, clock: Clock, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, kind: str, who: str, rate: BucketRate) -> int:
        """Count one knock; 0 to let it in, else the seconds to wait."""
        now_s = self._clock.monotonic_s()
        tokens, at_s = self._buckets.pop((kind, who), (float(rate.burst), now_s))
        tokens = min(tokens + (now_s - at_s) * rate.per_s, float(rate.burst))
        wait_s = 0 if tokens >= 1 else max(1, math.ceil((1 - tokens) / rate.per_s))
        self._buckets[kind, who] = (tokens if wait_s else tokens - 1, now_s)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait_s


class ChangeLimit:
    """Changes and removals of registrations, counted for all replicas together."""

    def __init__(self, store: LimitStore, clock: Clock, rate: BucketRate) -> None:
        self._store = store
        self._clock = clock
        self._rate = rate

    async def wait_s(self) -> int:
        """Count one change; 0 to let it in, else the seconds to wait."""
        lease = await self._store.take(
            APP, "all", "registration-changes",
            rate=self._rate.per_s, burst=self._rate.burst, want=1, now_ms=self._clock.now_ms(),
        )  # fmt: skip
        return 0 if lease.granted else max(1, math.ceil(lease.retry_after_ms / 1000))


class SignInLimits:
    """Attempts at passwords, counted before the password is looked at and shared by all replicas."""

    def __init__(self, store: LimitStore, signing: OAuthSigner, clock: Clock, limits: OAuthLimits) -> None:
        self._store = store
        self._signing = signing
        self._clock = clock
        self._limits = limits

    async def wait_s(self, username: str, address: str, device: str = "") -> int:
        """Count one attempt; 0 to let it in, else the seconds to wait.

        `device` names a browser in which the account signed in before. It has a bucket of its own, so that
        attempts of strangers can't lock the account's owner out.
        """
        limits = self._limits
        buckets: tuple[tuple[str, str, BucketRate], ...] = (
            ("sign-in-address", address, limits.attempts_from_address),
            ("sign-in-pair", f"{username}\n{address}", limits.attempts_at_account_from_address),
            ("sign-in-account", username, limits.attempts_at_account),
        )
        if device:
            buckets = (("sign-in-device", f"{username}\n{device}", limits.attempts_from_device),)
        for bucket, who, rate in buckets:
            lease = await self._store.take(
                APP, self._signing.hash_slot(who), bucket,
                rate=rate.per_s, burst=rate.burst, want=1, now_ms=self._clock.now_ms(),
            )  # fmt: skip
            if not lease.granted:
                return max(1, math.ceil(lease.retry_after_ms / 1000))
        return 0
