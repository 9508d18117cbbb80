"""History threads in dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.records.thread import UserThreads
from cluster.store.archive.threads import ThreadStore, ThreadWatcher


@dataclass(slots=True)
class _App:
    version: int = 0
    judged: str = ""
    threads: dict[str, UserThreads] = field(default_factory=dict)
    watchers: dict[str, int] = field(default_factory=dict)


class MemoryThreads(ThreadStore):
    """`ThreadStore` in dictionaries."""

    def __init__(self) -> None:
        self._apps: dict[str, _App] = defaultdict(_App)

    async def read(self, app_id: str, user_id: str) -> UserThreads:
        return self._apps[app_id].threads.get(user_id) or UserThreads()

    async def read_many(self, app_id: str, user_ids: Sequence[str]) -> list[UserThreads]:
        return [await self.read(app_id, user_id) for user_id in user_ids]

    async def compare_and_set(
        self, app_id: str, user_id: str, before: UserThreads, after: UserThreads
    ) -> bool:
        app = self._apps[app_id]
        if (await self.read(app_id, user_id)).revision != before.revision:
            return False
        app.version += 1
        if after.threads:
            app.threads[user_id] = after.model_copy(update={"revision": app.version})
        else:
            app.threads.pop(user_id, None)
        if not after.watched:
            app.watchers.pop(user_id, None)
        elif after.watched != before.watched:
            app.watchers[user_id] = app.version
        return True

    async def has_new(self, app_id: str, user_id: str) -> bool:
        return (await self.read(app_id, user_id)).has_new

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> int:
        app = self._apps[app_id]
        app.version += 1
        for user_id in user_ids:
            app.watchers.pop(user_id, None)
        return sum(app.threads.pop(user_id, None) is not None for user_id in dict.fromkeys(user_ids))

    async def watchers(self, app_id: str, after: int, limit: int) -> list[ThreadWatcher]:
        watchers = [ThreadWatcher(name, at) for name, at in self._apps[app_id].watchers.items() if at > after]
        return sorted(watchers, key=lambda watcher: watcher.version)[:limit]

    async def judged_offset(self, app_id: str) -> str:
        return self._apps[app_id].judged

    async def record_judged_offset(self, app_id: str, offset: str) -> None:
        self._apps[app_id].judged = offset
