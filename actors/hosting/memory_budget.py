"""The memory budget of a process: one bound for the engines and the archives of all apps.

Each host of loaded apps joins the budget. While all apps together exceed it, the app that should leave first leaves,
whichever host loaded it. The app that was used last always stays.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from cluster.clock import Clock, SystemClock
from cluster.machine_memory import release_memory
from cluster.meter import Meter, SilentMeter
from cluster.store.installation.replica_memory import ReplicaMemory

DEFAULT_MB = 512
SOON_S = 600.0
"An app that is loaded again within this time of its unloading is a guest, and counts as reloaded."
# Bounds the record; under more reloads the count for reports is too low.
_MOST_RELOADS = 10_000


@dataclass(frozen=True, slots=True)
class LoadedSize:
    """One loaded app of a host."""

    nbytes: int
    keep_until_s: float
    "The app with the earliest time leaves first."
    used_s: float
    "Monotonic time of the last request."


class BudgetMember(Protocol):
    """A host of loaded apps."""

    @property
    def memory_gauge(self) -> str: ...

    def list_sizes(self) -> Mapping[str, LoadedSize]: ...

    async def unload(self, app_id: str) -> None: ...


class MemoryBudget:
    """The bytes that all loaded apps of a process may take, by estimate."""

    def __init__(self, budget_bytes: int, meter: Meter | None = None, clock: Clock | None = None) -> None:
        self.budget_bytes = budget_bytes
        self._meter = SilentMeter() if meter is None else meter
        self._clock = SystemClock() if clock is None else clock
        self._members: list[BudgetMember] = []
        self._reloads: deque[tuple[float, str]] = deque(maxlen=_MOST_RELOADS)
        "Time and app of each reload, the oldest first."
        self._large: dict[str, int] = {}
        self._reported: set[str] = set()
        self._log = structlog.get_logger()

    def add_member(self, member: BudgetMember) -> None:
        self._members.append(member)

    def record_reload(self, app_id: str) -> None:
        """Record that an app is loaded again soon after it was unloaded."""
        self._reloads.append((self._clock.monotonic_s(), app_id))
        self._meter.count("kiosk_reloads_total")

    async def evict(self, loaded: tuple[BudgetMember, str, int] | None = None) -> int:
        """Unload apps until the others fit the budget, and return the bytes of those; the one used last always stays.

        `loaded` is an app that a host has just loaded, with its bytes: it stays. Apps grow after their load, so the
        owner of the budget calls this every few seconds.
        """
        sizes = {
            (at, app_id): size
            for at, member in enumerate(self._members)
            for app_id, size in member.list_sizes().items()
        }
        if loaded is not None:
            member, app_id, nbytes = loaded
            now_s = self._clock.monotonic_s()
            sizes[self._members.index(member), app_id] = LoadedSize(nbytes, now_s, now_s)
            newest = self._members.index(member), app_id
        elif sizes:
            newest = max(sizes, key=lambda key: sizes[key].used_s)
        else:
            newest = 0, ""
        loaded_apps = len(sizes)
        # The newest stays even if it alone exceeds the budget: unloading it would only load it again.
        for key in sorted(sizes.keys() - {newest}, key=lambda key: sizes[key].keep_until_s):
            if sum(size.nbytes for size in sizes.values()) <= self.budget_bytes:
                break
            del sizes[key]
            await self._members[key[0]].unload(key[1])
        if len(sizes) < loaded_apps:
            await asyncio.sleep(0)  # the callback that runs now still refers to the last app
            # Freed memory stays with the allocator otherwise, and the process looks as large as before.
            await asyncio.to_thread(release_memory)
        for at, member in enumerate(self._members):
            self._meter.gauge(
                member.memory_gauge, sum(size.nbytes for key, size in sizes.items() if key[0] == at)
            )
        self._report_large({app_id: size.nbytes for (_, app_id), size in sizes.items()})
        return sum(size.nbytes for size in sizes.values())

    def has_room(self, nbytes: int) -> bool:
        """Return whether the loaded apps could take so many bytes more, without an unload."""
        counted = sum(size.nbytes for member in self._members for size in member.list_sizes().values())
        return counted + nbytes <= self.budget_bytes

    def describe_use(self, replica: str, at_ms: int) -> ReplicaMemory:
        """Return what the loaded apps of a replica take now."""
        sizes = [size for member in self._members for size in member.list_sizes().values()]
        since_s = self._clock.monotonic_s() - SOON_S
        while self._reloads and self._reloads[0][0] < since_s:
            self._reloads.popleft()
        reloads = Counter(app_id for _, app_id in self._reloads)
        counted = sum(size.nbytes for size in sizes)
        return ReplicaMemory(
            replica, at_ms, self.budget_bytes, counted, len(sizes), dict(self._large), dict(reloads)
        )

    def _report_large(self, sizes: Mapping[str, int]) -> None:
        """Name each app that alone takes more than the budget: it is served, and no other stays beside it."""
        before = self._large
        self._large = {app_id: nbytes for app_id, nbytes in sizes.items() if nbytes > self.budget_bytes}
        for app_id in before.keys() - self._large.keys():
            self._meter.remove_gauge("kiosk_memory_over_budget", app=app_id)
            self._reported.discard(app_id)
        for app_id, nbytes in self._large.items():
            self._meter.gauge("kiosk_memory_over_budget", nbytes / max(self.budget_bytes, 1), app=app_id)
            if app_id not in self._reported:
                self._reported.add(app_id)
                self._log.warning(
                    "app_larger_than_budget", app=app_id, mb=nbytes >> 20, budget_mb=self.budget_bytes >> 20
                )
