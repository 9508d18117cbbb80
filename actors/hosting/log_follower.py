"""The loop that applies a change log: report the offset, read, apply, and go on after every failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import Unavailable

_REPORT_EVERY_S = 3.0
_PACE_S = 0.05
"Pause after a read. Under a stream of single changes the next read then returns many, at a tenth of the work."
_RETRY_S = 0.25


class LogFollower:
    """Applies a change log until it is cancelled or stopped."""

    def __init__(
        self,
        apply_next: Callable[[], Awaitable[bool]],
        clock: Clock,
        *,
        on_miss: Callable[[Unavailable], None],
        on_failure: Callable[[], None],
        report_offset: Callable[[], Awaitable[None]] | None = None,
        pace_s: float = _PACE_S,
        retry_s: float = _RETRY_S,
    ) -> None:
        """Take the steps of the loop, and its pauses in seconds.

        `apply_next` reads and applies changes, and returns whether more may wait; if not, the loop pauses for `pace_s`.
        `report_offset` runs before the first read and every few seconds. `on_miss` is called when the store is
        unreachable, `on_failure` inside the handler of any other exception; the loop then pauses for `retry_s`.
        """
        self._apply_next = apply_next
        self._clock = clock
        self._on_miss = on_miss
        self._on_failure = on_failure
        self._report_offset = report_offset
        self._pace_s = pace_s
        self._retry_s = retry_s
        self._reported_s = float("-inf")

    async def run(self, stopping: asyncio.Event | None = None) -> None:
        """Follow until cancelled, or until the event is set. No change and no failed reload ends the loop."""
        while stopping is None or not stopping.is_set():
            await _pause(await self._run_once(), stopping)

    async def _run_once(self) -> float:
        """Report and apply once; return the pause before the next time in seconds."""
        try:
            if (
                self._report_offset is not None
                and self._clock.monotonic_s() - self._reported_s >= _REPORT_EVERY_S
            ):
                await self._report_offset()
                # After the report: a failed one is repeated at once.
                self._reported_s = self._clock.monotonic_s()
            return 0.0 if await self._apply_next() else self._pace_s
        except Unavailable as error:
            self._on_miss(error)
            # others may trim the log meanwhile: report again before the next read
            self._reported_s = float("-inf")
        except Exception:  # noqa: BLE001
            # whatever is wrong with one change or one reload, the follower must go on
            self._on_failure()
        return self._retry_s


async def _pause(pause_s: float, stopping: asyncio.Event | None) -> None:
    if stopping is None or pause_s <= 0:
        await asyncio.sleep(pause_s)
        return
    with contextlib.suppress(asyncio.TimeoutError):
        await run_within(stopping.wait(), pause_s)
