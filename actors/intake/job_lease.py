"""Tenure: being the only one who does a job, for as long as the lease is renewed."""

from __future__ import annotations

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.store.ports.leases import LeaseStore


class JobLease:
    """One job, one owner. While the store is away the tenure runs out by itself."""

    def __init__(
        self, leases: LeaseStore, job: str, owner: str, clock: Clock, *, ttl_ms: int = 6_000
    ) -> None:
        self._leases = leases
        self._job = job
        self._owner = owner
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._until_s = 0.0
        self._renew_s = 0.0

    @property
    def is_owned(self) -> bool:
        """Is it certainly still ours?"""
        return self._clock.monotonic_s() < self._until_s

    async def renew(self) -> bool:
        """Take or renew the lease when a third of it has passed; say whether it is ours.

        Errors:
            Unavailable: the store is away and what we held has run out
        """
        started_s = self._clock.monotonic_s()
        if started_s < self._renew_s and self.is_owned:
            return True
        try:
            ours = await self._leases.hold(self._job, self._owner, self._ttl_ms)
        except Unavailable:
            if self.is_owned:
                return True
            raise
        # counted from before the question, so that we never believe longer than the store does
        self._until_s = started_s + self._ttl_ms / 1000 if ours else 0.0
        self._renew_s = started_s + self._ttl_ms / 3000
        return ours

    async def release(self) -> None:
        """Let somebody else begin at once."""
        self._until_s = 0.0
        await self._leases.release(self._job, self._owner)
