"""A load of writes over stores whose Redis is being hurt, and what became of each of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from cluster.errors import Unavailable
from cluster.store.connect import OpenStores
from tests.suites.doing import body


@dataclass
class Journal:
    """What writers were told."""

    acknowledged: dict[str, float] = field(default_factory=dict)
    "Task id -> when it was acknowledged."
    refused: int = 0
    slowest_s: float = 0.0
    others: list[BaseException] = field(default_factory=list)

    @property
    def longest_gap_s(self) -> float:
        """The longest time in which no write was acknowledged."""
        times = sorted(self.acknowledged.values())
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    def __str__(self) -> str:
        return (
            f"{len(self.acknowledged)} acknowledged, {self.refused} refused, longest gap {self.longest_gap_s:.1f} s, "
            f"slowest {self.slowest_s:.2f} s"
        )


async def write_until(
    stores: OpenStores, stop: asyncio.Event, apps: tuple[str, ...], writers: int = 4
) -> Journal:
    """Accept uploads without retries until told to stop."""
    journal = Journal()

    async def write(number: int) -> None:
        at = 0
        while not stop.is_set():
            at += 1
            app, task = apps[at % len(apps)], f"{number}-{at}"
            begin = time.monotonic()
            try:
                await stores.intake.accept(
                    app, "product", "put", b"[" + body(task) + b"]", task_id=task, total=1, now_ms=at
                )
                journal.acknowledged[f"{app}/{task}"] = time.monotonic()
            except Unavailable:
                journal.refused += 1
            except Exception as error:  # noqa: BLE001 - nothing else may come
                journal.others.append(error)
            journal.slowest_s = max(journal.slowest_s, time.monotonic() - begin)
            await asyncio.sleep(0.005)

    await asyncio.gather(*(write(number) for number in range(writers)))
    return journal


async def count_lost(stores: OpenStores, journal: Journal) -> int:
    """Return how many acknowledged writes are not there."""
    lost = 0
    for name in journal.acknowledged:
        app, _, task = name.partition("/")
        lost += await stores.tasks.get(app, "product", task) is None
    return lost
