"""Limits of sign-in attempts in the store, for all replicas: a bounded number of counters, whatever clients send."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.store.installation.rate_limits import LimitStore
from deployments.edge.limits.token_buckets import BucketRate

APP = "kiosk:oauth"
"Replaces the app id in limits; no app can have this id."


@dataclass(frozen=True, slots=True)
class SignInRates:
    """The rates of sign-in attempts."""

    attempts_at_account_from_address: BucketRate = BucketRate(1 / 20, 6)
    attempts_from_address: BucketRate = BucketRate(1 / 6, 30)
    attempts_at_account: BucketRate = BucketRate(1 / 15, 60)
    "For all addresses together: a password must withstand 5,760 guesses a day."
    attempts_from_device: BucketRate = BucketRate(1 / 15, 20)
    "From a browser in which the account signed in before; other browsers can't use up these attempts."


async def take_shared_token(store: LimitStore, clock: Clock, slot: str, bucket: str, rate: BucketRate) -> int:
    """Count one attempt in a bucket of the store; return 0 to admit it, else the whole seconds to wait."""
    # Hashed to few slots (`SlotHash`): a client that sends a million names must not make a million keys.
    lease = await store.take(
        APP, slot, bucket, rate=rate.per_s, burst=rate.burst, want=1, now_ms=clock.now_ms()
    )
    return 0 if lease.granted else max(1, math.ceil(lease.retry_after_ms / 1000))


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
        # The address first: an attacker who is refused there takes no attempt from the owner's account.
        buckets: tuple[tuple[str, str, BucketRate], ...] = (
            ("sign-in-address", address, limits.attempts_from_address),
            ("sign-in-pair", f"{username}\n{address}", limits.attempts_at_account_from_address),
            ("sign-in-account", username, limits.attempts_at_account),
        )
        if device:
            # Alone: attempts from elsewhere neither stop this browser nor count with it.
            buckets = (("sign-in-device", f"{username}\n{device}", limits.attempts_from_device),)
        for bucket, who, rate in buckets:
            wait_s = await take_shared_token(self._store, self._clock, self._slot(who), bucket, rate)
            if wait_s:
                return wait_s
        return 0
