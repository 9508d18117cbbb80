"""Digests of the state of an app, published with the offsets of a replica and compared with those of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from actors.recommender.recommender import Recommender
from actors.serving.state_digest import digest_lists, digest_records
from cluster.clock import Clock
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import Meter
from cluster.store.data.changes import ChangeLog, find_differing

_COMPARE_MS = 30_000
"Pause between two comparisons."

RunWork = Callable[[Callable[[], str]], Awaitable[str]]
"Runs work that takes long while no other work changes the state."


class ReplicaComparison:
    """The digests of one app in one replica."""

    def __init__(
        self, app_id: str, name: str, changes: ChangeLog, clock: Clock, meter: Meter, run: RunWork
    ) -> None:
        self._app_id = app_id
        self._name = name
        self._changes = changes
        self._clock = clock
        self._meter = meter
        self._run = run
        self._lists: tuple[Recommender | None, str, str] = None, "", ""
        "State, snapshot version and digest of the lists that were digested last."
        self._compared_ms = -_COMPARE_MS
        self._log = structlog.get_logger().bind(app=app_id)

    async def digest(self, recommender: Recommender, *, is_as_loaded: bool) -> dict[str, str]:
        """Return digests of a state; that of its lists only for a state as loaded, computed once."""
        version = recommender.get_engine_state(DEFAULT_ENGINE).serving_version
        if not is_as_loaded:
            self._lists = None, "", ""
        elif self._lists[:2] != (recommender, version) or not self._lists[2]:
            lists = await self._run(lambda: digest_lists(recommender, self._app_id, self._clock.now_ms()))
            self._lists = recommender, version, lists
        return {"records": digest_records(recommender), "lists": self._lists[2], "version": version}

    async def compare(self, now_ms: int) -> None:
        """Report whether another replica holds another state at the same offset, at most twice a minute.

        Errors:
            Unavailable: the store does not answer
        """
        if 0 <= now_ms - self._compared_ms < _COMPARE_MS:
            return
        self._compared_ms = now_ms
        differing = find_differing(await self._changes.list_followers(self._app_id), now_ms)
        differs = self._name in differing
        self._meter.gauge("kiosk_replicas_differ", float(differs), app=self._app_id)
        if differs:
            self._log.error("replicas_differ", replica=self._name, replicas=differing)

    def close(self) -> None:
        """Stop to report on this app."""
        self._meter.remove_gauge("kiosk_replicas_differ", app=self._app_id)
