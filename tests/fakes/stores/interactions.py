"""Interactions in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.errors import TooMany, messages
from cluster.ids import user_key_from_anonymous_id, user_key_from_id
from cluster.records.erasure import RemovedRecords
from cluster.records.logged_query import pseudonym
from cluster.store.data import interactions
from cluster.store.data.append_plan import (
    CAP,
    MOST_EVICTED,
    MOST_VISITORS,
    BrowserWriteLimits,
    Recent,
    merge_recent,
)
from cluster.store.data.interactions import InteractionStore
from tests.fakes.stores.experiments import MemoryExperiments
from tests.fakes.stores.questions import MemoryQuestions
from tests.fakes.stores.state import AppState, LoggedChange, MemoryState
from tests.fakes.stores.threads import MemoryThreads


class MemoryInteractions(InteractionStore):
    """`InteractionStore` in dictionaries. Lives of lists are not modelled: 400 days outlast any test."""

    def __init__(
        self,
        state: MemoryState,
        experiments: MemoryExperiments | None = None,
        threads: MemoryThreads | None = None,
        questions: MemoryQuestions | None = None,
    ) -> None:
        self._state = state
        self._experiments = experiments
        self._threads = threads
        self._questions = questions
        self._written: dict[tuple[str, int], int] = {}
        self._strangers: dict[tuple[str, int, str], int] = {}

    async def append(
        self, app_id: str, payload: bytes, recents: Sequence[Recent], writer: BrowserWriteLimits | None = None
    ) -> str:
        if writer is not None:
            return self._append_bounded(app_id, payload, recents, writer)
        app = self._state.apps[app_id]
        first: dict[str, str] = {}
        for user_id, visitor, _ in recents:
            if user_id and visitor:
                first.setdefault(visitor, user_id)
        for visitor, user_id in first.items():
            _link(app, visitor, user_id)
        for user_id, visitor, packed in recents:
            if visitor:
                if user_id:
                    _link(app, visitor, user_id)
                if packed:
                    _push(app, user_key_from_anonymous_id(visitor), [packed])
                user_id = app.links.get(visitor, "")
            if user_id and packed:
                _push(app, user_key_from_id(user_id), [packed])
        return self._state.log(app_id, "interaction", LoggedChange("put", payload))

    def _append_bounded(
        self, app_id: str, payload: bytes, recents: Sequence[Recent], writer: BrowserWriteLimits
    ) -> str:
        app, minute = self._state.apps[app_id], writer.now_ms // 60_000
        written = self._written.get((app_id, minute), 0)
        if writer.bytes_per_minute and written + len(payload) > writer.bytes_per_minute:
            raise TooMany(messages.TOO_MANY, retry_after_s=interactions.TOO_MUCH_S)
        self._written[app_id, minute] = written + len(payload)
        pushes: dict[str, list[bytes]] = {}
        for user_id, visitor, _ in recents:
            if not user_id or not visitor or app.links.get(visitor) == user_id:
                continue
            has_room = len(app.linked[user_id]) < MOST_VISITORS
            if visitor in app.links and not has_room:
                _unlink(app, visitor)
            elif visitor in app.links or (
                has_room and (user_id in writer.proven or self._admit(app_id, writer))
            ):
                _link(app, visitor, user_id)
        for user_id, visitor, packed in recents:
            linked = app.links.get(visitor, "") or user_id
            if visitor and packed:
                pushes.setdefault(user_key_from_anonymous_id(visitor), []).append(packed)
            if linked and packed:
                pushes.setdefault(user_key_from_id(linked), []).append(packed)
        for user_key, oldest_first in pushes.items():
            listed = len(app.recents.get(user_key, []))
            if listed or user_key[2:] in writer.proven or self._admit(app_id, writer):
                _push(app, user_key, oldest_first[-max(MOST_EVICTED, CAP - listed) :])
        return self._state.log(app_id, "interaction", LoggedChange("put", payload))

    def _admit(self, app_id: str, writer: BrowserWriteLimits) -> bool:
        mine, everybody = (app_id, writer.day, writer.address), (app_id, writer.day, "")
        counts = self._strangers
        if (
            counts.get(mine, 0) >= writer.users_per_address
            or counts.get(everybody, 0) >= writer.users_per_day
        ):
            return False
        counts[mine], counts[everybody] = counts.get(mine, 0) + 1, counts.get(everybody, 0) + 1
        return True

    async def recent(self, app_id: str, user_keys: Sequence[str], limit: int = 200) -> list[bytes]:
        lists = [self._state.apps[app_id].recents.get(user_key, [])[:limit] for user_key in user_keys]
        return list(merge_recent(lists)) if lists else []

    async def links(self, app_id: str, anonymous_ids: Sequence[str]) -> dict[str, str]:
        links = self._state.apps[app_id].links
        return {visitor: links[visitor] for visitor in anonymous_ids if visitor in links}

    async def visitors(self, app_id: str, user_ids: Sequence[str], most: int) -> dict[str, list[str]]:
        linked = self._state.apps[app_id].linked
        return {user_id: sorted(linked[user_id])[: most + 1] for user_id in user_ids if linked.get(user_id)}

    async def deleted_since(self, app_id: str, since_ms: int) -> RemovedRecords:
        deleted = self._state.apps[app_id].deleted
        return RemovedRecords(
            b"", [pseudonym(b"", user_key) for user_key, at in deleted.items() if at >= since_ms]
        )

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> None:
        app = self._state.apps[app_id]
        user_keys: list[str] = []
        for user_id in dict.fromkeys(user_ids):
            visitors = sorted(app.linked.pop(user_id, ()))
            for visitor in visitors:
                app.links.pop(visitor, None)
            user_keys += (
                user_key_from_id(user_id),
                *(user_key_from_anonymous_id(visitor) for visitor in visitors),
            )
        if user_keys:
            if self._threads is not None:
                await self._threads.erase(app_id, user_ids)
            if self._questions is not None:
                await self._questions.erase(app_id, user_keys)
            if self._experiments is not None:
                await self._experiments.erase_exposures(app_id, user_keys)
            for user_key in user_keys:
                app.recents.pop(user_key, None)
                app.deleted[user_key] = self._state.clock.now_ms()
            self._state.log(app_id, "interaction", LoggedChange("erase", orjson.dumps(user_keys)))


def _link(app: AppState, visitor: str, user_id: str) -> None:
    former = app.links.get(visitor)
    if former == user_id:
        return
    app.links[visitor] = user_id
    app.linked[user_id].add(visitor)
    visitor_key = user_key_from_anonymous_id(visitor)
    if former is None:
        _push(app, user_key_from_id(user_id), list(reversed(app.recents.get(visitor_key, []))))
    else:
        app.linked[former].discard(visitor)
        app.recents.pop(visitor_key, None)


def _unlink(app: AppState, visitor: str) -> None:
    app.linked[app.links.pop(visitor)].discard(visitor)
    app.recents.pop(user_key_from_anonymous_id(visitor), None)


def _push(app: AppState, user_key: str, oldest_first: Sequence[bytes]) -> None:
    if oldest_first:
        app.recents[user_key] = [*reversed(oldest_first), *app.recents.get(user_key, [])][:CAP]
