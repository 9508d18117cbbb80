"""What a host holds: loaded once, let go least recently used first."""

from __future__ import annotations

import asyncio

import pytest

from actors.hosting.loaded_apps import LoadedAppLabels, LoadedApps
from cluster.errors import Fault
from cluster.meter import SilentMeter

WORDS = LoadedAppLabels("it is still loading", "app_left", "kiosk_test_bytes")


class Room:
    """Takes ten bytes, loads when it is let, and says whether it was closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.nbytes = 10
        self.closed = False
        self._error = error

    async def start(self) -> None:
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        self.closed = True


async def test_all_who_come_at_once_wait_for_one_load() -> None:
    made: list[str] = []

    def make(app_id: str) -> Room:
        made.append(app_id)
        return Room()

    held = LoadedApps(make, SilentMeter(), 100, WORDS)
    rooms = await asyncio.gather(*(held.get("shop") for _ in range(5)))
    assert made == ["shop"]
    assert len(set(map(id, rooms))) == 1
    await held.close()
    assert rooms[0].closed


async def test_the_least_recently_used_app_is_evicted_first() -> None:
    held = LoadedApps(lambda app_id: Room(), SilentMeter(), 20, WORDS)
    first, second = await held.get("first"), await held.get("second")
    await held.get("first")
    third = await held.get("third")
    assert [first.closed, second.closed, third.closed] == [False, True, False]
    assert await held.get("second") is not second
    await held.close()


async def test_a_failed_load_is_tried_again() -> None:
    errors: list[Exception | None] = [Fault("damaged"), None]
    held = LoadedApps(lambda app_id: Room(errors.pop(0)), SilentMeter(), 100, WORDS)
    with pytest.raises(Fault):
        await held.get("shop")
    assert not (await held.get("shop")).closed
    await held.close()
