"""The shell around archives: apps on demand, within a memory budget. Lives in a door's replica."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial

import structlog

from actors.answers.follower import Follower, Opened
from actors.answers.library import Library
from actors.answers.messages import ArchiveQuery, ArchiveResult, Article
from actors.answers.retrieve import article, ask
from actors.answers.shelf import PassageShelf
from actors.language.embed import HashingEmbedder
from cluster.artifacts.segments import SegmentShelf
from cluster.clock import Clock
from cluster.errors import HouseError, Refusal, Unavailable
from cluster.ids import new_request_id
from cluster.meter import Meter
from cluster.store.ports import Stores

_LOAD_WAIT_S = 20.0
_HASHING_SHARE = 0.1
"Hashed words know nothing of a corpus: they break ties and find parts of words, no more."


class AnswersHost:
    """Finds passages for every app; what an app needs loads when it is first asked for."""

    def __init__(
        self,
        stores: Stores,
        segments: SegmentShelf | None,
        shelf: PassageShelf | None,
        clock: Clock,
        meter: Meter,
        memory_budget_mb: int = 2_048,
    ) -> None:
        self._stores = stores
        self._segments = segments
        self._shelf = shelf
        self._clock = clock
        self._meter = meter
        self._budget = memory_budget_mb << 20
        self._name = f"archive-{new_request_id()}"
        self._apps: OrderedDict[str, asyncio.Task[Follower]] = OrderedDict()
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Get ready. Nothing is loaded yet: an app nobody asks for costs nothing."""

    async def close(self) -> None:
        """Stop following and let go of everything."""
        for app_id in list(self._apps):
            await self._leave(app_id)

    async def ask(self, query: ArchiveQuery) -> ArchiveResult | Refusal:
        """Find passages; an expected "no" comes back as a refusal."""
        try:
            follower = await self._follower(query.app_id)
            return await follower.think(partial(_ask, query, self._clock.now_ms()))
        except HouseError as error:
            return Refusal.of(error)

    async def article(self, app_id: str, product_id: str, position: int) -> Article | Refusal | None:
        """Give the article a passage stands in."""
        try:
            follower = await self._follower(app_id)
            return await follower.think(partial(_article, product_id, position))
        except HouseError as error:
            return Refusal.of(error)

    async def _follower(self, app_id: str) -> Follower:
        """Find an app's follower; the first to ask loads it, everybody else waits for the same load."""
        task = self._apps.get(app_id)
        if task is None:
            task = self._apps[app_id] = asyncio.get_running_loop().create_task(self._open(app_id))
        self._apps.move_to_end(app_id)
        if _is_ready(task):
            return task.result()
        try:
            return await asyncio.wait_for(asyncio.shield(task), _LOAD_WAIT_S)
        except asyncio.TimeoutError:
            raise Unavailable("the archive is still loading", retry_after_s=2) from None
        finally:
            if task.done() and not _is_ready(task) and self._apps.get(app_id) is task:
                # a failed load is tried again by the next request
                del self._apps[app_id]

    async def _open(self, app_id: str) -> Follower:
        follower = Follower(
            app_id, self._name, self._stores, self._segments, self._clock, self._meter, self._opened
        )
        await follower.start()
        await self._make_room(app_id, follower.nbytes)
        return follower

    def _opened(self, app_id: str) -> Opened:
        """Open the newest snapshot, or begin with nothing."""
        if self._shelf is not None:
            opened = self._shelf.open(app_id)
            if opened is not None:
                return opened
        return Library(HashingEmbedder(), share=_HASHING_SHARE), "0"

    async def _make_room(self, newest: str, used: int) -> None:
        """Let the apps go that were asked least recently until the others fit the budget."""
        for app_id, task in list(self._apps.items()):
            if app_id != newest and _is_ready(task):
                used += task.result().nbytes
        for app_id, task in list(self._apps.items()):
            if used > self._budget and app_id != newest and _is_ready(task):
                used -= task.result().nbytes
                await self._leave(app_id)
        self._meter.gauge("kiosk_archive_memory_bytes", used)

    async def _leave(self, app_id: str) -> None:
        task = self._apps.pop(app_id, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        found = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(found, Follower):
            await found.close()
            self._log.info("archive_left", app=app_id)


def _ask(query: ArchiveQuery, now_ms: int, library: Library) -> ArchiveResult:
    return ask(library, query, now_ms)


def _article(product_id: str, position: int, library: Library) -> Article | None:
    return article(library, product_id, position)


def _is_ready(task: asyncio.Task[Follower]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
