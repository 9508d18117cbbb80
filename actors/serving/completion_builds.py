"""Build the completion indexes of a large catalog beside the answers of others.

    collect   the values of all products, in steps of a millisecond between answers and changes
    build     the arrays, in another thread, without the lock of the app
    adopt     a moment under the lock

A request that needs the index waits for a moment, and is refused with the time to come back if that is too short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.serving.dispatch import list_completion_keys
from actors.vectors.types import Floats
from cluster.clock import Clock
from cluster.errors import Unavailable

FEW_PRODUCTS = 5_000
"A catalog up to this size is indexed within the request, in about 150 ms."
WAIT_S = 2.0
"How long a request waits for the index: about 50,000 titles are indexed meanwhile."
_MOST_BUILDS = 8
"Indexes of an app that are built or wait for it."


class CompletionBuilds:
    """The builds of one app: one at a time."""

    def __init__(
        self,
        run_short: Callable[[Callable[[], Any]], Awaitable[Any]],
        run_in_turns: Callable[[Iterator[None]], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Take what runs short work, and steps, while nothing else reads or changes the state of the app."""
        self._run_short = run_short
        self._run_in_turns = run_in_turns
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tasks: dict[tuple[Recommender, FieldKey], asyncio.Task[None]] = {}
        "A state that a renewal brought needs builds of its own."

    async def ensure_built(self, recommender: Recommender, query: UserQuery) -> None:
        """Wait a moment until the indexes that a query reads are in memory; a small catalog needs no build.

        Errors:
            Unavailable: a build takes longer, or the index does not fit the memory
        """
        keys = list_completion_keys(recommender, query)
        missing = [key for key in keys if not recommender.completions.has_field(key)]
        # A small catalog is indexed by the request that needs it, faster than through a task.
        if not missing or recommender.overlay.catalog.products <= FEW_PRODUCTS:
            return
        tasks = [self._start(recommender, key) for key in missing]
        _, pending = await asyncio.wait(tasks, timeout=WAIT_S)
        if pending:
            # Only this request gives up; `asyncio.wait` leaves the build running for those that follow.
            raise _refuse(next(key for key, task in zip(missing, tasks, strict=True) if task in pending))
        for task in tasks:
            if task.cancelled():
                raise Unavailable(
                    "the recommender is not loaded", retry_after_s=1
                )  # it was unloaded meanwhile
            task.result()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _start(self, recommender: Recommender, key: FieldKey) -> asyncio.Task[None]:
        build = (recommender, key)
        task = self._tasks.get(build)
        if task is None:
            if len(self._tasks) >= _MOST_BUILDS:
                raise _refuse(key)
            task = self._tasks[build] = asyncio.get_running_loop().create_task(self._build(recommender, key))
            task.add_done_callback(partial(self._remove_task, build))
        return task

    def _remove_task(self, build: tuple[Recommender, FieldKey], task: asyncio.Task[None]) -> None:
        del self._tasks[build]
        if not task.cancelled():
            task.exception()  # a request that waits gets it; nobody may wait any more

    async def _build(self, recommender: Recommender, key: FieldKey) -> None:
        completions = recommender.completions
        catalog = recommender.overlay.catalog
        async with self._lock:
            try:
                # The snapshot may bring the index: binding it to the rows takes a moment in place of a
                # build.
                if await self._run_short(partial(completions.bind_saved, key, catalog)):
                    return
                await self._run_in_turns(completions.collect_in_steps(key, catalog))
                build = await self._run_short(partial(self._plan, recommender, key))
                # Without the lock of the app: the plan copied all it needs, and changes go on meanwhile.
                built = await asyncio.get_running_loop().run_in_executor(None, build)
                await self._run_short(partial(completions.adopt_build, key, built))
            finally:
                # Also after a failure or cancellation, so that the collected values do not stay in memory.
                completions.drop_build(key)

    def _plan(self, recommender: Recommender, key: FieldKey) -> Callable[[], Any]:
        return recommender.completions.plan_build(key, _popularity(recommender, self._clock.now_ms()))


def build_completions(recommender: Recommender, keys: Sequence[FieldKey], now_ms: int) -> None:
    """Build the indexes of fields at once, for a state that serves no request yet."""
    popularity = _popularity(recommender, now_ms)
    for key in keys:
        recommender.completions.get_field(key, recommender.overlay.catalog, lambda: popularity)


def _popularity(recommender: Recommender, now_ms: int) -> Floats:
    return recommender.default_engine_state.get_item_priors(now_ms).popularity_counts


def _refuse(key: FieldKey) -> Unavailable:
    message = f"completions of the field {key[0]} are being indexed"
    return Unavailable(message, retry_after_s=1, told=True)
