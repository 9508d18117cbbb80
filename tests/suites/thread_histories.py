"""Are the calls of one reader linearizable? Several clients change and read the same threads at once, some are killed
in the middle, and what they saw must be explained by one order of the calls.

A call that returned took effect between its beginning and its end; one that was killed took effect once, at any time
after its beginning, or never. The search tries orders that respect this until one explains every answer.

Source: Wing and Gong, Testing and verifying concurrent objects, 1993
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.history import threads as rules
from actors.history.messages import ThreadChange, ThreadVerb
from actors.history.tracker import ThreadTracker
from cluster.errors import KioskError, NotFound
from cluster.records.thread import UserThreads
from cluster.store.stores import Stores
from tests.fakes.request_handler import StillClock
from tests.suites.doing import APP

Answer = Any
KILLED = object()
ROOTS = ("q0", "q1")
CLIENTS, CALLS = 4, 3
_VERBS: tuple[str, ...] = (
    "asked", "asked", "rename", "delete", "delete_all", "subscribe", "unsubscribe", "dismiss_thread", "dismiss_overall",
    "touch", "update", "update", "poll", "poll", "list", "list",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call of one client, as it was seen from outside."""

    verb: str
    name: str
    began: int
    ended: float
    answer: Answer

    def apply(self, threads: UserThreads, now_ms: int) -> tuple[UserThreads, Answer]:
        """Do it alone, by the rules."""
        try:
            return _alone(self.verb, self.name, threads, now_ms)
        except NotFound:
            return threads, "not found"


def _alone(verb: str, name: str, threads: UserThreads, now_ms: int) -> tuple[UserThreads, Answer]:
    if verb == "poll":
        return threads, threads.has_new
    if verb == "list":
        return threads, seen(threads)
    if verb == "delete":
        return rules.delete_threads(threads, [name])
    if verb == "touch":
        after = rules.touch_thread(threads, name, now_ms)
        return after, int(after is not threads)
    steps: dict[str, Callable[[], UserThreads]] = {
        "asked": lambda: rules.add_question(threads, name, name, None, now_ms),
        "rename": lambda: rules.rename_thread(threads, name, "renamed"),
        "delete_all": lambda: rules.delete_all_threads(threads),
        "subscribe": lambda: rules.set_subscription(threads, name, on=True, offset="0"),
        "unsubscribe": lambda: rules.set_subscription(threads, name, on=False),
        "dismiss_thread": lambda: rules.dismiss_thread(threads, name),
        "dismiss_overall": lambda: rules.dismiss_overall(threads, now_ms),
        "update": lambda: rules.append_update(threads, name[:2], name, "1-0", now_ms),
    }
    return steps[verb](), None


def seen(threads: UserThreads) -> Answer:
    """Everything a reader can see of their threads."""
    return frozenset(
        (thread.thread_id, thread.title, thread.subscribed, thread.has_new, thread.question_ids)
        for thread in threads.threads.values()
    )


class Clients:
    """Lets clients at one reader's threads, and writes down what they saw."""

    def __init__(self, stores: Stores, seed: int) -> None:
        self._stores = stores
        self._chance = random.Random(seed)
        self._clock = StillClock()
        self._ticks = 0
        self._fresh = 0
        self.user_id = f"reader-{seed}"
        self.calls: list[Call] = []

    async def play(self) -> UserThreads:
        """Run all clients to their ends; return where they begin."""
        first = ThreadTracker(self._stores, self._clock)
        for root in ROOTS:
            await first.add_question(APP, self.user_id, root, root)
        await first.change(ThreadChange(APP, self.user_id, "subscribe", (ROOTS[0],)))
        begin = await self._stores.threads.read(APP, self.user_id)
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))
        return begin

    async def _client(self) -> None:
        for _ in range(CALLS):
            verb = self._chance.choice(_VERBS)
            await self._call(verb, self._name(verb))

    def _name(self, verb: str) -> str:
        root = self._chance.choice(ROOTS)
        if verb == "update":
            self._fresh += 1
            return f"{root}-u{self._fresh}"
        return root

    async def _call(self, verb: str, name: str) -> None:
        began = self._tick()
        task = asyncio.get_running_loop().create_task(self._answered(verb, name))
        if self._chance.random() < 0.2:
            for _ in range(self._chance.randrange(12)):
                await asyncio.sleep(0)
            task.cancel()
        try:
            answer, ended = await task, float(self._tick())
        except asyncio.CancelledError:
            answer, ended = KILLED, float("inf")
        self.calls.append(Call(verb, name, began, ended, answer))

    async def _answered(self, verb: str, name: str) -> Answer:
        client = ThreadTracker(self._stores, self._clock)
        if verb == "poll":
            return await client.has_new(APP, self.user_id)
        if verb == "list":
            return seen(await self._stores.threads.read(APP, self.user_id))
        if verb == "update":
            tracker, now_ms = (
                ThreadTracker(self._stores, self._clock),
                self._clock.now_ms(),
            )
            await tracker.apply(
                APP, self.user_id, lambda threads: rules.append_update(threads, name[:2], name, "1-0", now_ms)
            )
            return None
        return await self._changed(client, verb, name)  # type: ignore[arg-type]

    async def _changed(self, client: ThreadTracker, verb: ThreadVerb, name: str) -> Answer:
        try:
            if verb == "asked":
                await client.add_question(APP, self.user_id, name, name)
                return None
            named = () if verb in ("delete_all", "dismiss_overall") else (name,)
            changed = await client.change(ThreadChange(APP, self.user_id, verb, named, text="renamed"))
        except KioskError as error:
            return error.message
        return changed.count if verb in ("delete", "touch") else None

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks


def explained(begin: UserThreads, calls: list[Call], now_ms: int) -> bool:
    """Is there one order of the calls that explains every answer?"""
    tried: set[tuple[frozenset[int], Any]] = set()

    def search(left: frozenset[int], threads: UserThreads) -> bool:
        if all(calls[at].answer is KILLED for at in left):
            return True
        key = (
            left,
            (
                seen(threads),
                threads.dismissed_at_ms,
                tuple(thread.new_at_ms for thread in threads.threads.values()),
            ),
        )
        if key in tried:
            return False
        tried.add(key)
        horizon = min(calls[at].ended for at in left)
        for at in left:
            call = calls[at]
            if call.began > horizon:
                continue
            after, answer = call.apply(threads, now_ms)
            if call.answer in (KILLED, answer) and search(left - {at}, after):
                return True
        # a call that was killed may also never have happened: then it stays in `left` to the end
        return False

    return search(frozenset(range(len(calls))), begin)
