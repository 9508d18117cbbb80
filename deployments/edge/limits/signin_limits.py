"""Limits of sign-in attempts in the store for all replicas, and limits per address in this replica's memory.

Both hold a bounded number of counters, whatever clients send.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.store.installation.limits import LimitStore

APP = "kiosk:oauth"
"Replaces the app id in limits; no app can have this id."


@dataclass(frozen=True, slots=True)
class BucketRate:
    """A token bucket."""

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class SignInRates:
    """The rates of sign-in attempts."""

    attempts_at_account_from_address: BucketRate = BucketRate(1 / 20, 6)
    attempts_from_address: BucketRate = BucketRate(1 / 6, 30)
    attempts_at_account: BucketRate = BucketRate(1 / 15, 60)
    "For all addresses together: a password must withstand 5,760 guesses a day."
    attempts_from_device: BucketRate = BucketRate(1 / 15, 20)
    "From a browser in which the account signed in before; other browsers can't use up these attempts."


class AddressLimits:
    """Token buckets by kind and address, for the few thousand most recently used addresses."""

    def __init__(self, clock: Clock, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, kind: str, who: str, rate: BucketRate) -> int:
        """Count one request; return 0 to admit it, else the seconds to wait."""
        now_s = self._clock.monotonic_s()
        tokens, at_s = self._buckets.pop((kind, who), (float(rate.burst), now_s))
        tokens = min(tokens + (now_s - at_s) * rate.per_s, float(rate.burst))
        wait_s = 0 if tokens >= 1 else max(1, math.ceil((1 - tokens) / rate.per_s))
        self._buckets[kind, who] = (tokens if wait_s else tokens - 1, now_s)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait_s


class SignInLimits:
    """Limits of sign-in attempts, counted before the password check and shared by all replicas."""

    def __init__(
        self, store: LimitStore, slot: Callable[[str], str], clock: Clock, rates: SignInRates
    ) -> None:
        self._store = store
        self._slot = slot
        self._clock = clock
        self._rates = rates

    async def wait_s(self, username: str, address: str, device: str = "") -> int:
        """Count one attempt; return 0 to admit it, else the seconds to wait.

        `device` names a browser in which the account signed in before. Each device has a separate bucket, so that
        attempts from other browsers can't lock out the account's owner.
        """
        limits = self._rates
        buckets: tuple[tuple[str, str, BucketRate], ...] = (
            ("sign-in-address", address, limits.attempts_from_address),
            ("sign-in-pair", f"{username}\n{address}", limits.attempts_at_account_from_address),
            ("sign-in-account", username, limits.attempts_at_account),
        )
        if device:
            buckets = (("sign-in-device", f"{username}\n{device}", limits.attempts_from_device),)
        for bucket, who, rate in buckets:
            lease = await self._store.take(
                APP, self._slot(who), bucket,
                rate=rate.per_s, burst=rate.burst, want=1, now_ms=self._clock.now_ms(),
            )  # fmt: skip
            if not lease.granted:
                return max(1, math.ceil(lease.retry_after_ms / 1000))
        return 0
