"""Logs that requests write to: entries wait in memory and reach the store twice a second, off the request path.

While the store is away the newest entries are kept until it is back. A killed process loses what it had not written
yet: at most half a second of entries.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import structlog

from cluster.errors import HouseError

WRITE_EVERY_S = 0.5
MOST_WAITING = 10_000

Entry = TypeVar("Entry")


class BatchWriter(ABC, Generic[Entry]):
    """Collects entries and writes them in batches; a subclass says how entries are batched and stored.

    `name` begins the names of log events: `<name>_kept` while the store is away, `<name>_lost` after a fault.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[Entry] = deque(maxlen=MOST_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    @abstractmethod
    def split(self, entries: Sequence[Entry]) -> Iterable[Sequence[Entry]]:
        """Split entries into batches that the store takes at once."""

    @abstractmethod
    async def write_batch(self, batch: Sequence[Entry]) -> None:
        """Write one batch.

        Errors:
            HouseError: the store is away; the batch is tried again
        """

    def count_dropped(self, count: int) -> None:
        """Count entries for which there was no room."""

    def put(self, entry: Entry) -> None:
        """Add an entry; the oldest one is dropped when there is no room. Cost: under a microsecond."""
        if len(self._waiting) == MOST_WAITING:
            self.count_dropped(1)
        self._waiting.append(entry)

    async def start(self) -> None:
        """Begin to write."""
        self._writing = asyncio.get_running_loop().create_task(self._write_forever())

    async def close(self) -> None:
        """Write what is left and stop."""
        if self._writing is not None:
            self._writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing
            self._writing = None
        await self.write()

    async def write(self) -> None:
        """Write all waiting entries; those that the store does not take are kept."""
        waiting, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        batches = deque(self.split(tuple(waiting)))
        try:
            while batches:
                batch = batches.popleft()
                try:
                    await self.write_batch(batch)
                except HouseError as error:
                    batches.appendleft(batch)
                    self._log.warning(
                        f"{self._name}_kept",
                        count=len(self._waiting) + sum(map(len, batches)),
                        reason=error.code,
                    )
                    return
        finally:
            self._put_back([entry for batch in batches for entry in batch])

    def _put_back(self, entries: Sequence[Entry]) -> None:
        """Put the newest of some entries in front of those that came meanwhile."""
        room = MOST_WAITING - len(self._waiting)
        if len(entries) > room:
            self.count_dropped(len(entries) - room)
        self._waiting.extendleft(reversed(entries[-room:] if room > 0 else ()))

    async def _write_forever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            try:
                await self.write()
            except Exception as error:  # noqa: BLE001 - entries that can't be written must not end the writing
                self._log.error(f"{self._name}_lost", kind=type(error).__name__)
