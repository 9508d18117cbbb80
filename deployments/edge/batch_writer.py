"""Whoever writes a book that requests note something in: twice a second, off their path, and once more at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

WRITE_EVERY_S = 0.5


class BatchWriter:
    """Writes for ever; `write` puts down what waits, `lost` names the event when it can't be said why it failed."""

    def __init__(self, write: Callable[[], Awaitable[None]], lost: str) -> None:
        self._write = write
        self._lost = lost
        self._writing: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Begin to write."""
        self._writing = asyncio.get_running_loop().create_task(self._write_for_ever())

    async def close(self) -> None:
        """Write what is left and stop."""
        if self._writing is not None:
            self._writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing
            self._writing = None
        await self._write()

    async def _write_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            try:
                await self._write()
            except Exception as error:  # noqa: BLE001 - what can't be written must not end the book
                self._log.error(self._lost, kind=type(error).__name__)
