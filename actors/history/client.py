"""The typed client of users' threads.

await history.add_question(app_id, user_id, question_id, "How deep do I plant tulips?", parent_id)
"""

from __future__ import annotations

from actors.history.messages import (
    AnswerService,
    GenerateUpdate,
    GenerateUpdateResult,
    ThreadChange,
    ThreadChangeResult,
)
from actors.history.threads import QuestionPage, ThreadPage, list_questions, list_threads
from actors.history.tracker import ThreadTracker
from cluster.clock import Clock
from cluster.errors import Refusal
from cluster.store.stores import Stores


class LocalHistoryClient:
    """Reads and changes users' threads in this process.

    The store accepts one change of a user at a time, so API replicas need no hop. Every method may raise `Unavailable`
    when the store is unreachable. Then nothing was changed, or the whole change was; repeating it is safe.
    """

    def __init__(self, stores: Stores, clock: Clock, answering: AnswerService | None = None) -> None:
        self._store = stores.threads
        self._tracker = ThreadTracker(stores.threads, stores.changes, clock, answering)

    async def add_question(
        self, app_id: str, user_id: str, question_id: str, text: str, parent_id: str | None = None
    ) -> None:
        """Add a question of an authenticated user to the thread of its parent, or to a new thread.

        Adding it again changes nothing.
        """
        await self.change(
            ThreadChange(app_id, user_id, "asked", text=text, question_id=question_id, parent_id=parent_id)
        )

    async def change(self, change: ThreadChange) -> ThreadChangeResult:
        """Change a user's threads; every later read sees the change.

        Errors:
            NotFound: the thread does not belong to this user
        """
        reply = await self._tracker.change(change)
        if isinstance(reply, Refusal):
            raise reply.error()
        return reply

    async def has_new(self, app_id: str, user_id: str) -> bool:
        """Return whether the account's indicator is on, with one short read of the store."""
        return await self._store.has_new(app_id, user_id)

    async def list_threads(
        self, app_id: str, user_id: str, *, rows: int, start: int, before_ms: int | None = None
    ) -> ThreadPage:
        """List threads, latest activity first."""
        user_threads = await self._store.read(app_id, user_id)
        return list_threads(user_threads, rows=rows, start=start, before_ms=before_ms)

    async def list_questions(
        self,
        app_id: str,
        user_id: str,
        thread_id: str,
        *,
        rows: int,
        descending: bool = False,
        after: str = "",
    ) -> QuestionPage:
        """List the questions of the thread that contains a question.

        Errors:
            NotFound: the thread does not belong to this user
        """
        user_threads = await self._store.read(app_id, user_id)
        return list_questions(user_threads, thread_id, rows=rows, descending=descending, after=after)

    async def generate_update(self, request: GenerateUpdate) -> GenerateUpdateResult:
        """Ask a thread's question again now and append the answer as an update.

        Errors:
            NotFound: the thread does not belong to this user
            Unavailable: no process answers questions
        """
        reply = await self._tracker.generate_update(request)
        if isinstance(reply, Refusal):
            raise reply.error()
        return reply
