"""A batch writer goes on after a fault, keeps what the store does not take, and writes once more at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from cluster.errors import Unavailable
from deployments.edge import batch_writer
from deployments.edge.batch_writer import BatchWriter


class NumberWriter(BatchWriter[int]):
    """Writes numbers in pairs; `failures` are raised first, one a batch."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__("numbers")
        self.failures = list(failures)
        self.batches: list[tuple[int, ...]] = []
        self.dropped = 0
        self.wrote = asyncio.Event()

    def split(self, entries: Sequence[int]) -> Iterable[Sequence[int]]:
        return [entries[start : start + 2] for start in range(0, len(entries), 2)]

    async def write_batch(self, batch: Sequence[int]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(tuple(batch))
        self.wrote.set()

    def count_dropped(self, count: int) -> None:
        self.dropped += count


async def test_a_fault_does_not_end_the_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writer, "WRITE_EVERY_S", 0.0)
    writer = NumberWriter(RuntimeError("no pen"))
    for number in range(4):
        writer.put(number)
    await writer.start()
    await asyncio.wait_for(writer.wrote.wait(), 5)
    await writer.close()
    assert writer.batches == [(2, 3)], "a batch that failed for an unknown reason is lost, the others are not"


async def test_a_writer_that_was_never_started_writes_at_the_end() -> None:
    writer = NumberWriter()
    writer.put(1)
    await writer.close()
    assert writer.batches == [(1,)]


async def test_entries_are_kept_in_order_until_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writer, "MOST_WAITING", 4)
    writer = NumberWriter(Unavailable("away"))
    for number in range(4):
        writer.put(number)
    await writer.write()
    assert writer.batches == []
    writer.put(4)
    assert writer.dropped == 1
    await writer.write()
    assert writer.batches == [(1, 2), (3, 4)]
