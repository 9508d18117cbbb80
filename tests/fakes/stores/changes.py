"""Change logs in dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from cluster.records.intake import Noun, Op
from cluster.store.data.change_log import FORGOTTEN_MS, LIVE_MS, ChangeLog, ChangeLogEntry, Follower
from tests.fakes.stores.state import MemoryState, offset_of, text_of


class MemoryChanges(ChangeLog):
    """`ChangeLog` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def read(
        self, app_id: str, after: Mapping[Noun, str], *, count: int, block_ms: int
    ) -> list[ChangeLogEntry]:
        until_s = self._state.clock.monotonic_s() + block_ms / 1000
        while True:
            changes = self._read_present(app_id, after, count)
            left_s = until_s - self._state.clock.monotonic_s()
            if changes or left_s <= 0 or not await self._state.bell.wait(left_s):
                return changes

    async def last(self, app_id: str, noun: Noun) -> str:
        last = self._state.apps[app_id].changes[noun].last
        return "0" if last == (0, 0) else text_of(last)

    async def first(self, app_id: str, noun: Noun) -> str:
        return self._state.apps[app_id].trimmed.get(noun, "0")

    async def record_follower(self, app_id: str, follower: Follower) -> None:
        self._state.apps[app_id].followers[follower.name] = follower

    async def list_followers(self, app_id: str) -> list[Follower]:
        return [follower for _, follower in sorted(self._state.apps[app_id].followers.items())]

    async def compacted_offsets(self, app_id: str) -> dict[Noun, str]:
        return {
            cast(Noun, noun): offset for noun, offset in self._state.apps[app_id].compacted_offsets.items()
        }

    async def request_compaction(self, app_id: str, offsets: Mapping[Noun, str]) -> None:
        self._state.apps[app_id].requested_compactions.update({str(noun): at for noun, at in offsets.items()})

    async def requested_compactions(self, app_id: str) -> dict[Noun, str]:
        return {
            cast(Noun, noun): offset
            for noun, offset in self._state.apps[app_id].requested_compactions.items()
        }

    async def compact(self, app_id: str, noun: Noun, offset: str, now_ms: int) -> int:
        app = self._state.apps[app_id]
        limit = app.compacted_offsets.get(noun, "0")
        if offset_of(limit) < offset_of(offset):
            limit = app.compacted_offsets[noun] = offset
        for name, follower in list(app.followers.items()):
            silent_ms = now_ms - follower.at_ms
            if silent_ms > FORGOTTEN_MS:
                del app.followers[name]
            elif silent_ms <= LIVE_MS and noun in follower.offsets:
                limit = min(limit, follower.offsets[noun], key=offset_of)
        cut = app.changes[noun].trim(offset_of(limit))
        if cut:
            app.trimmed[noun] = limit
        return cut

    def _read_present(self, app_id: str, after: Mapping[Noun, str], count: int) -> list[ChangeLogEntry]:
        logs = self._state.apps[app_id].changes
        return [
            ChangeLogEntry(noun, offset, cast(Op, entry.op), entry.payload, entry.vectors, entry.embedder)
            for noun, start in after.items()
            for offset, entry in logs[noun].after(start, count)
        ]
