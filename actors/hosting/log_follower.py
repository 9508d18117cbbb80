"""Reading an app's change log for ever: say how far, read, bring in; whatever fails, go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cluster.clock import Clock
from cluster.errors import Unavailable

_REPORT_EVERY_S = 3.0
_PACE_S = 0.05
"Pause after a read: under a stream of single changes many are brought in at once, at a tenth of the work."
_RETRY_S = 0.25


async def follow_log(
    note: Callable[[], Awaitable[None]],
    bring_in: Callable[[], Awaitable[bool]],
    clock: Clock,
    *,
    missed: Callable[[], None],
    failed: Callable[[], None],
) -> None:
    """Follow until cancelled.

    `note` says how far one is, before the first read and every few seconds; `bring_in` reads and applies, and tells
    whether more may be waiting; `missed` hears that the store is away, `failed` of any other error while it is handled.
    """
    noted_s = float("-inf")
    while True:
        try:
            if clock.monotonic_s() - noted_s >= _REPORT_EVERY_S:
                await note()
                noted_s = clock.monotonic_s()
            if not await bring_in():
                await asyncio.sleep(_PACE_S)
        except Unavailable:
            missed()
            noted_s = float("-inf")
            await asyncio.sleep(_RETRY_S)
        except Exception:  # noqa: BLE001
            # whatever is wrong with one change or one reload, the follower must go on
            failed()
            await asyncio.sleep(_RETRY_S)
