"""The tracker: readers' threads, changed one step at a time. All state is in the store, so any number of these agree.

    read -> the rules -> write if nobody wrote meanwhile, else again

A change that was answered is there for every later read, and one that is made again changes nothing more.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from actors.history import threads as rules
from actors.history.answer_service import Answering
from actors.history.messages import Change, Changed, Generate, Generated
from cluster.clock import Clock
from cluster.errors import Fault, HouseError, Refusal, Unavailable
from cluster.records.thread import ReaderThreads
from cluster.store.ports.stores import ChangeLog, ThreadStore

TRIES = 32
"Of those who change one reader's threads at once, one gets through each time."
ANSWER_S = 20.0
"How long `generate` waits for an answer."
_LOOK_S = 0.1

Rule = Callable[[ReaderThreads], ReaderThreads]


def new_question_id() -> str:
    """Make an id of a question."""
    return str(uuid.uuid4())


class Tracker:
    """Changes readers' threads."""

    def __init__(
        self,
        store: ThreadStore,
        changes: ChangeLog,
        clock: Clock,
        answering: Answering | None = None,
        *,
        new_id: Callable[[], str] = new_question_id,
    ) -> None:
        self._store = store
        self._changes = changes
        self._clock = clock
        self._answering = answering
        self._new_id = new_id

    async def change(self, change: Change) -> Changed | Refusal:
        """Make a change; an expected "no" comes back as a refusal, and then nothing was changed."""
        try:
            return await self._made(change)
        except HouseError as error:
            return Refusal.of(error)

    async def generate(self, wanted: Generate) -> Generated | Refusal:
        """Ask a thread's question again now and append the answer as an update."""
        try:
            return await self._generated(wanted)
        except HouseError as error:
            return Refusal.of(error)

    async def apply(self, app_id: str, user_id: str, rule: Rule) -> ReaderThreads:
        """Change a reader's threads by a rule; return what stands there then.

        Errors:
            Unavailable: the store is away, or too many change the same threads
            HouseError: what the rule raises
        """
        for _ in range(TRIES):
            before = await self._store.read(app_id, user_id)
            after = rule(before)
            if after is before or await self._store.swap(app_id, user_id, before, after):
                return after
        raise Unavailable("these threads are being changed by too many at once", retry_after_s=1)

    async def _made(self, change: Change) -> Changed:
        now_ms = change.at_ms or self._clock.now_ms()
        first = change.thread_ids[0] if change.thread_ids else ""
        if change.verb == "delete":
            return await self._deleted(change)
        if change.verb == "touch":
            return await self._touched(change, first, now_ms)
        rule = await self._rule(change, first, now_ms)
        after = await self.apply(change.app_id, change.user_id, rule)
        thread = rules.thread_of(after, first or change.question_id)
        return Changed() if thread is None else Changed(thread.thread_id, thread.title)

    async def _rule(self, change: Change, first: str, now_ms: int) -> Rule:
        verb = change.verb
        if verb == "asked":
            return lambda known: rules.asked(known, change.question_id, change.text, change.parent_id, now_ms)
        if verb == "rename":
            return lambda known: rules.renamed(known, first, change.text)
        if verb == "subscribe":
            offset = await self._changes.last(change.app_id, "product")
            return lambda known: rules.subscribed(known, first, on=True, offset=offset)
        if verb == "unsubscribe":
            return lambda known: rules.subscribed(known, first, on=False)
        if verb == "dismiss_thread":
            return lambda known: rules.dismissed(known, first)
        if verb == "dismiss_overall":
            return lambda known: rules.dismissed_overall(known, now_ms)
        if verb == "delete_all":
            return rules.emptied
        raise Fault(f"nobody knows how to {verb} threads")

    async def _deleted(self, change: Change) -> Changed:
        gone = 0

        def rule(known: ReaderThreads) -> ReaderThreads:
            nonlocal gone
            after, gone = rules.deleted(known, change.thread_ids)
            return after

        await self.apply(change.app_id, change.user_id, rule)
        return Changed(count=gone)

    async def _touched(self, change: Change, thread_id: str, now_ms: int) -> Changed:
        moved = False

        def rule(known: ReaderThreads) -> ReaderThreads:
            nonlocal moved
            after = rules.touched(known, thread_id, now_ms)
            moved = after is not known
            return after

        after = await self.apply(change.app_id, change.user_id, rule)
        return Changed(rules.owned(after, thread_id).thread_id, count=int(moved))

    async def _generated(self, wanted: Generate) -> Generated:
        known = await self._store.read(wanted.app_id, wanted.user_id)
        thread, question_id = rules.owned(known, wanted.thread_id), self._new_id()
        if not thread.subscribed:
            return Generated(thread.thread_id, "", appended=False)
        if self._answering is None:
            raise Unavailable("nobody answers questions here", retry_after_s=5)
        offset = await self._changes.last(wanted.app_id, "product")
        await self._answering.ask(
            wanted.app_id, wanted.user_id, thread.subject, thread.question_ids[-1], question_id
        )
        await self._finished(wanted.app_id, question_id)
        after = await self.apply(
            wanted.app_id,
            wanted.user_id,
            lambda now: rules.updated(now, thread.thread_id, question_id, offset, self._clock.now_ms()),
        )
        appended = rules.thread_of(after, question_id) is not None
        return Generated(thread.thread_id, question_id if appended else "", appended)

    async def _finished(self, app_id: str, question_id: str) -> None:
        assert self._answering is not None
        until_s = self._clock.monotonic_s() + ANSWER_S
        while self._clock.monotonic_s() < until_s:
            answer = await self._answering.answer(app_id, question_id)
            if answer is not None and answer.finished:
                return
            await asyncio.sleep(_LOOK_S)
        raise Unavailable("the answer takes too long", retry_after_s=5)
