"""A base class for logs that requests write to: entries are written twice a second, off the request path.

While the store is unavailable the newest entries are kept. A killed process loses at most the entries of the last
half second.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import structlog

from cluster.errors import KioskError

WRITE_EVERY_S = 0.5
MOST_WAITING = 10_000

Entry = TypeVar("Entry")


class EntryOfApp(Protocol):
    """An entry that belongs to an app."""

    @property
    def app_id(self) -> str: ...


AppEntry = TypeVar("AppEntry", bound=EntryOfApp)


def split_by_app(entries: Sequence[AppEntry], most: int) -> Iterator[Sequence[AppEntry]]:
    """Yield batches of one app each, of at most so many entries."""
    by_app: dict[str, list[AppEntry]] = {}
    for entry in entries:
        by_app.setdefault(entry.app_id, []).append(entry)
    for waiting in by_app.values():
        for start in range(0, len(waiting), most):
            yield waiting[start : start + most]


class BatchWriter(ABC, Generic[Entry]):
    """Collects entries and writes them in batches; subclasses define how entries are batched and stored.

    `name` starts the names of log events: `<name>_kept` while the store is unavailable, `<name>_lost` after a fault.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[Entry] = deque(maxlen=MOST_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._log = structlog.get_logger()

    @abstractmethod
    def split(self, entries: Sequence[Entry]) -> Iterable[Sequence[Entry]]:
        """Split entries into batches for the store."""

    @abstractmethod
    async def write_batch(self, batch: Sequence[Entry]) -> None:
        """Write one batch.

        Errors:
            KioskError: the store is unavailable; the batch is retried
        """

    def count_dropped(self, count: int) -> None:
        """Count dropped entries."""

    def put(self, entry: Entry) -> None:
        """Add an entry; drop the oldest one if the queue is full. Cost: under a microsecond."""
        if len(self._waiting) == MOST_WAITING:
            self.count_dropped(1)
        self._waiting.append(entry)

    async def start(self) -> None:
        self._writing = asyncio.get_running_loop().create_task(self._write_forever())

    async def close(self) -> None:
        """Write the remaining entries and stop."""
        if self._writing is not None:
            self._writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing
            self._writing = None
        await self.write()

    async def write(self) -> None:
        """Write all waiting entries; keep those that the store refuses."""
        # Swapped first: entries that requests put while the store is written belong to the next round.
        waiting = self._waiting
        self._waiting = deque(maxlen=MOST_WAITING)
        batches = deque(self.split(tuple(waiting)))
        try:
            while batches:
                batch = batches.popleft()
                try:
                    await self.write_batch(batch)
                except asyncio.CancelledError:  # at the end of the process, which writes once more
                    batches.appendleft(batch)
                    raise
                except KioskError as error:
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
        """Put the newest of some entries in front of later ones."""
        # A full deque drops on the right what is added on the left: the newest entries.
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
