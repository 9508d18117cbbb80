"""Whether this API replica is ready: an engine in this process answers one query, at most once a second.

    engine   `answers`, `fails`, or `none loaded yet` (an installation without products is ready, too)
    store    `reachable`, or `away`: then reads are answered from memory, and writes are refused; `refused` if its
             installation has another master key or artifact store than this replica

Any client may ask, without a key. The reply names no app. Requests in the same second share one answer, so that
clients can't load a replica with them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError
from deployments.edge.http.replies import Reply, dumps

PATH = "/-/ready"
KEPT_S = 1.0
WITHIN_S = 2.0
"Maximum seconds for one trending product; a slower engine counts as failed."

Probe = Callable[[], Awaitable["bool | None"]]
"Returns whether an engine answered; None if none is loaded."


class FollowedKeys(Protocol):
    """The API keys of this replica."""

    @property
    def is_following(self) -> bool:
        """Return whether changes of keys are followed."""
        ...


class WatchedStore(Protocol):
    """The store of this replica."""

    @property
    def is_away(self) -> bool:
        """Return whether it does not answer."""
        ...


class WatchedInstallation(Protocol):
    """The identity of this replica's installation."""

    @property
    def is_foreign_store(self) -> bool:
        """Return whether the store belongs to another installation."""
        ...


class Readiness:
    """Answers `/-/ready` of one replica."""

    def __init__(
        self,
        probe: Probe,
        keys: FollowedKeys,
        store: WatchedStore,
        clock: Clock,
        identity: WatchedInstallation | None = None,
    ) -> None:
        self._probe = probe
        self._keys = keys
        self._store = store
        self._clock = clock
        self._identity = identity
        self._until_s = 0.0
        self._reply: Reply | None = None
        self._lock = asyncio.Lock()

    async def reply(self) -> Reply:
        """Return 200 if the replica is ready, else 503."""
        if self._reply is None or self._clock.monotonic_s() >= self._until_s:
            async with self._lock:
                # Again, because one of the requests that waited for the lock has answered meanwhile.
                if self._reply is None or self._clock.monotonic_s() >= self._until_s:
                    self._reply = await self._ask()
                    self._until_s = self._clock.monotonic_s() + KEPT_S
        return self._reply

    async def _ask(self) -> Reply:
        answered: bool | None = False
        with contextlib.suppress(KioskError, asyncio.TimeoutError):
            answered = await run_within(self._probe(), WITHIN_S)
        is_foreign_store = self._identity is not None and self._identity.is_foreign_store
        is_ready = answered is not False and self._keys.is_following and not is_foreign_store
        body = {
            "ready": is_ready,
            "engine": {None: "none loaded yet", True: "answers", False: "fails"}[answered],
            "store": "refused" if is_foreign_store else "away" if self._store.is_away else "reachable",
        }
        headers = () if is_ready else ((b"retry-after", b"1"),)
        return Reply(200 if is_ready else 503, dumps(body), headers)


def not_open_yet() -> Reply:
    """Return the reply of a replica that is still starting."""
    return Reply(503, dumps({"ready": False}), ((b"retry-after", b"1"),))
