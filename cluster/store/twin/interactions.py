"""Interactions in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.ids import anonymous_reader, user_reader
from cluster.store.recents import CAP, Recent, merge_recent
from cluster.store.twin.experiments import MemoryExperiments
from cluster.store.twin.questions import MemoryQuestions
from cluster.store.twin.state import AppState, Logged, MemoryState
from cluster.store.twin.threads import MemoryThreads


class MemoryInteractions:
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

    async def append(self, app_id: str, payload: bytes, recents: Sequence[Recent]) -> str:
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
                    _push(app, anonymous_reader(visitor), [packed])
                user_id = app.links.get(visitor, "")
            if user_id and packed:
                _push(app, user_reader(user_id), [packed])
        return self._state.log(app_id, "interaction", Logged("put", payload))

    async def recent(self, app_id: str, reader_ids: Sequence[str], limit: int = 200) -> list[bytes]:
        lists = [self._state.apps[app_id].recents.get(reader_id, [])[:limit] for reader_id in reader_ids]
        return list(merge_recent(lists)) if lists else []

    async def links(self, app_id: str, anonymous_ids: Sequence[str]) -> dict[str, str]:
        links = self._state.apps[app_id].links
        return {visitor: links[visitor] for visitor in anonymous_ids if visitor in links}

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> None:
        app = self._state.apps[app_id]
        readers: list[str] = []
        for user_id in dict.fromkeys(user_ids):
            visitors = sorted(app.linked.pop(user_id, ()))
            for visitor in visitors:
                app.links.pop(visitor, None)
            readers += (user_reader(user_id), *(anonymous_reader(visitor) for visitor in visitors))
        if readers:
            if self._threads is not None:
                await self._threads.erase(app_id, user_ids)
            if self._questions is not None:
                await self._questions.erase(app_id, readers)
            if self._experiments is not None:
                await self._experiments.erase_exposures(app_id, readers)
            for reader_id in readers:
                app.recents.pop(reader_id, None)
            self._state.log(app_id, "interaction", Logged("erase", orjson.dumps(readers)))


def _link(app: AppState, visitor: str, user_id: str) -> None:
    former = app.links.get(visitor)
    if former == user_id:
        return
    app.links[visitor] = user_id
    app.linked[user_id].add(visitor)
    own = anonymous_reader(visitor)
    if former is None:
        _push(app, user_reader(user_id), list(reversed(app.recents.get(own, []))))
    else:
        app.linked[former].discard(visitor)
        app.recents.pop(own, None)


def _push(app: AppState, reader_id: str, oldest_first: Sequence[bytes]) -> None:
    if oldest_first:
        app.recents[reader_id] = [*reversed(oldest_first), *app.recents.get(reader_id, [])][:CAP]
