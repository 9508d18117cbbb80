"""Books are written for ever, whatever one writing runs into, and once more at the end."""

from __future__ import annotations

import asyncio

import pytest

from deployments.edge import batch_writer
from deployments.edge.batch_writer import BatchWriter


async def test_a_writing_that_fails_does_not_end_the_book(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writer, "WRITE_EVERY_S", 0.0)
    tries, thrice = 0, asyncio.Event()

    async def write() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("no pen")
        if tries == 3:
            thrice.set()

    one = BatchWriter(write, "pages_lost")
    await one.start()
    await asyncio.wait_for(thrice.wait(), 5)
    await one.close()
    ended = tries
    await asyncio.sleep(0)
    assert ended == tries > 3


async def test_a_book_that_was_never_begun_is_still_written_at_the_end() -> None:
    written = 0

    async def write() -> None:
        nonlocal written
        written += 1

    await BatchWriter(write, "pages_lost").close()
    assert written == 1
