"""The bound of the bundled Redis, and the guard that refuses writes before Redis is full.

A full Redis refuses every write, also those that free memory: compaction, leases, heartbeats. So API replicas
refuse writes of clients from 90 % on, and the rest is reserved for Kiosk. Reads continue, and replicas accept
writes again as soon as there is space.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import structlog

from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.machine_memory import machine_memory
from cluster.meter import Meter
from cluster.process.disk_guard import DiskGuard

SHARE = 4
"Redis may use one part in this number of the machine's memory, unless a setting changes it."
LEAST_MB = 256
REFUSED_FROM = 0.9
"Share of Redis' bound from which writes of clients are refused."
WARNED_FROM = 0.8
"Share from which `kiosk doctor` and an alert warn."

_log = structlog.get_logger()


def redis_memory_mb(setting: int, total: int | None = None) -> int:
    """Return the bound of the bundled Redis in MiB: the setting, or a quarter of the machine's memory."""
    if setting:
        return setting
    total = machine_memory() if total is None else total
    return max(LEAST_MB, (total >> 20) // SHARE)


def used_memory_share(memory: Mapping[str, str]) -> float:
    """Return the share of its bound that Redis uses, by `INFO memory`; without a bound, of its machine's memory."""
    used = memory.get("used_memory", "0")
    most = memory.get("maxmemory", "0")
    if most == "0":
        # A Redis of others: its machine kills it where it would have refused writes.
        most = memory.get("total_system_memory", "0")
    return int(used) / int(most) if used.isdigit() and most.isdigit() and int(most) else 0.0


Infos = Callable[[str], Awaitable[Sequence[Mapping[str, str]]]]
"Returns a section of the `INFO` of each master of Redis."


class WriteGuard:
    """Watches the memory and the disk of Redis by what it reports; its owner calls `refresh` about once a second.

    The fullest master of a cluster counts. `otherwise` may give another reason to refuse writes, such as a
    full disk of this machine.
    """

    def __init__(
        self,
        infos: Infos,
        meter: Meter,
        otherwise: Callable[[], str] = str,
    ) -> None:
        self._otherwise = otherwise
        self._infos = infos
        self._meter = meter
        self._reason = ""

    def refusal_reason(self) -> str:
        """Return why writes are refused; empty while they are accepted."""
        return self._reason or self._otherwise()

    async def refresh(self) -> None:
        """Read what Redis reports; the last reason stays while Redis is unreachable."""
        try:
            share = max(map(used_memory_share, await self._infos("memory")))
            can_save = all(map(can_save_writes, await self._infos("persistence")))
        # An outage says nothing about the memory; clearing the reason would accept writes again.
        except KioskError:
            return
        self._meter.gauge("kiosk_redis_memory_share", share)
        reason = ""
        if share >= REFUSED_FROM:
            reason = f"The memory of the store is {share:.0%} full, so writes are refused until there is room again."
        elif not can_save:
            reason = "The store can't write to its disk, so writes are refused until it can."
        # Logged once for each change, since this runs each second.
        if bool(reason) != bool(self._reason):
            _log.warning("redis_room", refuses_writes=bool(reason), share=round(share, 3), can_save=can_save)
        self._reason = reason and f"{reason} Reads go on."


def can_save_writes(persistence: Mapping[str, str]) -> bool:
    """Return whether the append-only file of Redis takes writes, by `INFO persistence`; true without such a file."""
    return persistence.get("aof_enabled") != "1" or persistence.get("aof_last_write_status", "ok") == "ok"


def guard_writes(data_dir: Path, disk_limit: float, infos: Infos, meter: Meter, clock: Clock) -> WriteGuard:
    """Return the guard that refuses writes while Redis or the disk is nearly full."""
    return WriteGuard(infos, meter, DiskGuard(data_dir, disk_limit, clock).refusal_reason)
