"""Read and change users' threads, one step at a time. All state is in the store, so any number of trackers agree.

    read -> apply the rules -> write if no other process wrote meanwhile, else again

Every later read sees an acknowledged change, and a repeated change has no further effect.
"""

from __future__ import annotations

import asyncio
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
from cluster.errors import Fault, Unavailable
from cluster.ids import new_question_id
from cluster.records.thread import UserThreads
from cluster.store.stores import Stores

MAX_TRIES = 32
"Attempts of a change; of concurrent changes of one user, one succeeds each time."
ANSWER_S = 20.0
"Time limit of `generate` for an answer."
_POLL_S = 0.1

ThreadRule = Callable[[UserThreads], UserThreads]


class ThreadTracker:
    """Reads and changes users' threads in this process.

    The store accepts one change of a user at a time, so API replicas need no hop. Every method may raise `Unavailable`
    when the store is unreachable. Then nothing was changed, or the whole change was; repeating it is safe.
    """

    def __init__(self, stores: Stores, clock: Clock, answering: AnswerService | None = None) -> None:
        self._store = stores.threads
        self._changes = stores.changes
        self._clock = clock
        self._answering = answering

    async def has_new(self, app_id: str, user_id: str) -> bool:
        """Return whether the account's indicator is on, with one short read of the store."""
        return await self._store.has_new(app_id, user_id)

    async def list_threads(
        self, app_id: str, user_id: str, *, rows: int, start: int, before_ms: int | None = None
    ) -> rules.ThreadPage:
        """List threads, latest activity first."""
        user_threads = await self._store.read(app_id, user_id)
        return rules.list_threads(user_threads, rows=rows, start=start, before_ms=before_ms)

    async def list_questions(
        self,
        app_id: str,
        user_id: str,
        thread_id: str,
        *,
        rows: int,
        descending: bool = False,
        after: str = "",
    ) -> rules.QuestionPage:
        """List the questions of the thread that contains a question.

        Errors:
            NotFound: the thread does not belong to this user
        """
        user_threads = await self._store.read(app_id, user_id)
        return rules.list_questions(user_threads, thread_id, rows=rows, descending=descending, after=after)

    async def add_question(
        self, app_id: str, user_id: str, question_id: str, text: str, parent_id: str | None = None
    ) -> None:
        """Add a question of an authenticated user to the thread of its parent, or to a new thread.

        Adding it again changes nothing.
        """
        await self.change(
            ThreadChange(app_id, user_id, "asked", text=text, question_id=question_id, parent_id=parent_id)
        )

    async def apply(self, app_id: str, user_id: str, rule: ThreadRule) -> UserThreads:
        """Change a user's threads by a rule; return the new value.

        Errors:
            Unavailable: the store is unreachable, or too many processes change the same threads
            KioskError: as the rule raises it
        """
        for _ in range(MAX_TRIES):
            before = await self._store.read(app_id, user_id)
            after = rule(before)
            # Unchanged by identity: rules return their input where they have no effect.
            if after is before or await self._store.compare_and_set(app_id, user_id, before, after):
                return after
        raise Unavailable("these threads are being changed by too many at once", retry_after_s=1)

    async def change(self, change: ThreadChange) -> ThreadChangeResult:
        """Change a user's threads; every later read sees the change.

        Errors:
            NotFound: the thread does not belong to this user
        """
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
            return lambda user_threads: rules.dismiss_overall(user_threads, now_ms)
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

    async def generate_update(self, request: GenerateUpdate) -> GenerateUpdateResult:
        """Ask a thread's question again now and append the answer as an update.

        Errors:
            NotFound: the thread does not belong to this user
            Unavailable: no process answers questions
        """
        user_threads = await self._store.read(request.app_id, request.user_id)
        thread = rules.get_thread(user_threads, request.thread_id)
        question_id = new_question_id()
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
