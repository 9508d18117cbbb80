"""The rates of all limits of OAuth, and the limit of changed registrations."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.clock import Clock
from cluster.store.installation.limits import LimitStore
from deployments.edge.http.body_pace import SMALL_BODY
from deployments.edge.limits.signin_limits import SignInRates, wait_for_shared
from deployments.edge.limits.token_buckets import BucketRate


@dataclass(frozen=True, slots=True)
class OAuthLimits(SignInRates):
    """The rates of all OAuth limits."""

    registrations: BucketRate = BucketRate(5.0, 60)
    "Per address and replica. A registration stores nothing, so this limit protects only the processors."
    changes: BucketRate = BucketRate(0.2, 500)
    "Changed registrations, for all clients and replicas together: each change is stored, so this limits the storage."
    token_calls: BucketRate = BucketRate(20.0, 200)
    "Per address and replica; one address may be the whole fleet of assistants of one provider."
    pages: BucketRate = BucketRate(10.0, 100)
    "Per address and replica."
    body_s: float = SMALL_BODY.within_s
    "Seconds in which a body of at most 20 kB must arrive."


class ChangeLimit:
    """Changes and removals of registrations, counted for all replicas together."""

    def __init__(self, store: LimitStore, clock: Clock, rate: BucketRate) -> None:
        self._store = store
        self._clock = clock
        self._rate = rate

    async def wait_s(self) -> int:
        """Count one change; return 0 to admit it, else the seconds to wait."""
        return await wait_for_shared(self._store, self._clock, "all", "registration-changes", self._rate)
