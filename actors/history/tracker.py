"""Change users' threads, one step at a time. All state is in the store, so any number of trackers agree.

    read -> apply the rules -> write if no other process wrote meanwhile, else again

Every later read sees an acknowledged change, and a repeated change has no further effect.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from actors.history import threads as rules
from actors.history.messages import (
    AnswerService,
    GenerateUpdate,
    GenerateUpdateResult,
    ThreadChange,
    ThreadChangeResult,
)
from cluster.clock import Clock
from cluster.errors import Fault, HouseError, Refusal, Unavailable
from cluster.records.thread import UserThreads
from cluster.store.archive.threads import ThreadStore
from cluster.store.data.changes import ChangeLog

MAX_TRIES = 32
"Attempts of a change; of concurrent changes of one user, one succeeds each time."
ANSWER_S = 20.0
"Time limit of `generate` for an answer."
_POLL_S = 0.1

ThreadRule = Callable[[UserThreads], UserThreads]


def new_question_id() -> str:
    """Return a new id of a question."""
    return str(uuid.uuid4())


class ThreadTracker:
    """Changes users' threads."""

    def __init__(
        self,
        store: ThreadStore,
        changes: ChangeLog,
        clock: Clock,
        answering: AnswerService | None = None,
        *,
        new_id: Callable[[], str] = new_question_id,
    ) -> None:
        self._store = store
        self._changes = changes
        self._clock = clock
        self._answering = answering
        self._new_id = new_id

    async def change(self, change: ThreadChange) -> ThreadChangeResult | Refusal:
        """Apply a change; return a refusal if nothing was changed."""
        try:
            return await self._make_change(change)
        except HouseError as error:
            return Refusal.of(error)

    async def generate_update(self, request: GenerateUpdate) -> GenerateUpdateResult | Refusal:
        """Ask a thread's question again now and append the answer as an update."""
        try:
            return await self._generate(request)
        except HouseError as error:
            return Refusal.of(error)

    async def apply(self, app_id: str, user_id: str, rule: ThreadRule) -> UserThreads:
        """Change a user's threads by a rule; return the new value.

        Errors:
            Unavailable: the store is unreachable, or too many processes change the same threads
            HouseError: as the rule raises it
        """
        for _ in range(MAX_TRIES):
            before = await self._store.read(app_id, user_id)
            after = rule(before)
            # Unchanged by identity: rules return their input where they have no effect.
            if after is before or await self._store.compare_and_set(app_id, user_id, before, after):
                return after
        raise Unavailable("these threads are being changed by too many at once", retry_after_s=1)

    async def _make_change(self, change: ThreadChange) -> ThreadChangeResult:
        now_ms = change.at_ms or self._clock.now_ms()
        first = change.thread_ids[0] if change.thread_ids else ""
        if change.verb == "delete":
            return await self._delete(change)
        if change.verb == "touch":
            return await self._touch(change, first, now_ms)
        rule = await self._select_rule(change, first, now_ms)
        after = await self.apply(change.app_id, change.user_id, rule)
        thread = rules.find_thread(after, first or change.question_id)
        return ThreadChangeResult() if thread is None else ThreadChangeResult(thread.thread_id, thread.title)

    async def _select_rule(self, change: ThreadChange, first: str, now_ms: int) -> ThreadRule:
        verb = change.verb
        if verb == "asked":
            return lambda user_threads: rules.add_question(
                user_threads, change.question_id, change.text, change.parent_id, now_ms
            )
        if verb == "rename":
            return lambda user_threads: rules.rename_thread(user_threads, first, change.text)
        if verb == "subscribe":
            # Read before the write: news after the offset count from this moment on.
            offset = await self._changes.last(change.app_id, "product")
            return lambda user_threads: rules.set_subscription(user_threads, first, on=True, offset=offset)
        if verb == "unsubscribe":
            return lambda user_threads: rules.set_subscription(user_threads, first, on=False)
        if verb == "dismiss_thread":
            return lambda user_threads: rules.dismiss_thread(user_threads, first)
        if verb == "dismiss_overall":
            return lambda user_threads: rules.dismiss_account(user_threads, now_ms)
        if verb == "delete_all":
            return rules.delete_all_threads
        raise Fault(f"nobody knows how to {verb} threads")

    async def _delete(self, change: ThreadChange) -> ThreadChangeResult:
        gone = 0

        def rule(user_threads: UserThreads) -> UserThreads:
            # Set anew in each try, as the rule runs again after a lost race.
            nonlocal gone
            after, gone = rules.delete_threads(user_threads, change.thread_ids)
            return after

        await self.apply(change.app_id, change.user_id, rule)
        return ThreadChangeResult(count=gone)

    async def _touch(self, change: ThreadChange, thread_id: str, now_ms: int) -> ThreadChangeResult:
        moved = False

        def rule(user_threads: UserThreads) -> UserThreads:
            nonlocal moved
            after = rules.touch_thread(user_threads, thread_id, now_ms)
            moved = after is not user_threads
            return after

        after = await self.apply(change.app_id, change.user_id, rule)
        return ThreadChangeResult(rules.get_thread(after, thread_id).thread_id, count=int(moved))

    async def _generate(self, request: GenerateUpdate) -> GenerateUpdateResult:
        user_threads = await self._store.read(request.app_id, request.user_id)
        thread = rules.get_thread(user_threads, request.thread_id)
        question_id = self._new_id()
        if not thread.subscribed:
            return GenerateUpdateResult(thread.thread_id, "", appended=False)
        if self._answering is None:
            raise Unavailable("nobody answers questions here", retry_after_s=5)
        # Before the question is asked: content that comes meanwhile is judged later.
        offset = await self._changes.last(request.app_id, "product")
        await self._answering.ask(
            request.app_id, request.user_id, thread.subject, thread.question_ids[-1], question_id
        )
        await self._wait_for_answer(request.app_id, question_id)
        after = await self.apply(
            request.app_id,
            request.user_id,
            lambda current: rules.append_update(
                current, thread.thread_id, question_id, offset, self._clock.now_ms()
            ),
        )
        appended = rules.find_thread(after, question_id) is not None
        return GenerateUpdateResult(thread.thread_id, question_id if appended else "", appended)

    async def _wait_for_answer(self, app_id: str, question_id: str) -> None:
        assert self._answering is not None
        until_s = self._clock.monotonic_s() + ANSWER_S
        while self._clock.monotonic_s() < until_s:
            answer = await self._answering.get_progress(app_id, question_id)
            if answer is not None and answer.finished:
                return
            await asyncio.sleep(_POLL_S)
        raise Unavailable("the answer takes too long", retry_after_s=5)
