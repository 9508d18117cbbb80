"""An event loop whose waits take no time, for tests of deadlines: how busy the machine is changes nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _SkippingSelector(selectors.DefaultSelector):
    """Waits for nothing: the time of the next timer is reached at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0.0
        return super().select(0 if timeout is not None else None)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own, in seconds since its start."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run work that only waits for timers, and return its result."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
