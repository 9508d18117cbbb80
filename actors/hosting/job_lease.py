"""The exclusive right of one process to do a job, as long as it renews its lease."""

from __future__ import annotations

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.store.installation.leases import LeaseStore


class JobLease:
    """Holds one job for one owner. If the store does not answer, the lease expires."""

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
        """Return whether no other owner can hold the lease now."""
        return self._clock.monotonic_s() < self._until_s

    async def renew(self) -> bool:
        """Take the lease, or renew it when a third of its time has passed; return whether this owner holds it.

        Errors:
            Unavailable: the store is away and the lease has expired
        """
        started_s = self._clock.monotonic_s()
        # The first third needs no trip to the store.
        if started_s < self._renew_s and self.is_owned:
            return True
        try:
            ours = await self._leases.hold(self._job, self._owner, self._ttl_ms)
        # Nobody else can hold it before it expires, so the work goes on while the store is away.
        except Unavailable:
            if self.is_owned:
                return True
            raise
        # counted from before the call, so that the lease never lasts longer here than in the store
        self._until_s = started_s + self._ttl_ms / 1000 if ours else 0.0
        self._renew_s = started_s + self._ttl_ms / 3000
        return ours

    async def release(self) -> None:
        """Let another owner take the lease at once."""
        # Before the call: another process may begin while its reply is under way.
        self._until_s = 0.0
        await self._leases.release(self._job, self._owner)
