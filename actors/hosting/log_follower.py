"""The loop that applies an app's change log: report the offset, read, apply, and go on after every failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cluster.clock import Clock
from cluster.errors import Unavailable

_REPORT_EVERY_S = 3.0
_PACE_S = 0.05
"Pause after a read. Under a stream of single changes the next read then returns many, at a tenth of the work."
_RETRY_S = 0.25


class LogFollower:
    """Applies a change log until it is cancelled."""

    def __init__(
        self,
        report_offset: Callable[[], Awaitable[None]],
        apply_next: Callable[[], Awaitable[bool]],
        clock: Clock,
        *,
        on_miss: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        """Take the steps of the loop.

        `report_offset` runs before the first read and every few seconds. `apply_next` reads and applies changes, and
        returns whether more may wait. `on_miss` is called when the store is away, `on_failure` inside the handler of
        any other exception.
        """
        self._report_offset = report_offset
        self._apply_next = apply_next
        self._clock = clock
        self._on_miss = on_miss
        self._on_failure = on_failure

    async def run(self) -> None:
        """Follow until cancelled. No change and no failed reload ends the loop."""
        reported_s = float("-inf")
        while True:
            try:
                if self._clock.monotonic_s() - reported_s >= _REPORT_EVERY_S:
                    await self._report_offset()
                    reported_s = self._clock.monotonic_s()
                if not await self._apply_next():
                    await asyncio.sleep(_PACE_S)
            except Unavailable:
                self._on_miss()
                # others may trim the log meanwhile: report again before the next read
                reported_s = float("-inf")
                await asyncio.sleep(_RETRY_S)
            except Exception:  # noqa: BLE001
                # whatever is wrong with one change or one reload, the follower must go on
                self._on_failure()
                await asyncio.sleep(_RETRY_S)
