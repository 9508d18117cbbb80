"""The pace of a backup: it works in short steps and rests after each, so that serving keeps its latency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Progress = Callable[[str, int], None]
"Receives the current stage and how much of it is done."


def ignore_progress(stage: str, done: int) -> None:
    """Ignore progress."""


@dataclass
class Pace:
    """Rests after every step for a multiple of its length."""

    rest: float = 1.0
    "1 rests as long as it works; 0 does not rest."
    progress: Progress = ignore_progress
    refresh: Callable[[], Awaitable[None]] | None = None
    "Called at most every 30 seconds."
    _began: float = field(default_factory=time.monotonic)
    _refreshed: float = field(default_factory=time.monotonic)

    async def step(self, stage: str, done: int) -> None:
        """End one step: report it and rest."""
        self.progress(stage, done)
        now = time.monotonic()
        if self.refresh is not None and now - self._refreshed > 30:
            self._refreshed = now
            await self.refresh()
        await asyncio.sleep(min(1.0, (now - self._began) * self.rest))
        self._began = time.monotonic()
