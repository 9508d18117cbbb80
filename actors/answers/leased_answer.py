"""Write the growing revisions of an answer, only as long as this process holds the lease of its question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from actors.answers.render import answer_to_json
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.question import Answer, Question
from cluster.store.archive.user_questions import QuestionStore, StoredQuestion

LEASE_MS = 6_000
"Time without a heartbeat after which the lease of a question expires."
_FINISH_TIMEOUT_S = 30.0
"How long the last revision is retried while the store is unreachable; then another process takes over."
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0)


class LeaseLost(Exception):
    """Another process holds the question, or its answer is finished."""


class LeasedAnswer:
    """The exclusive right to write the answer of one question."""

    def __init__(self, store: QuestionStore, recorded: StoredQuestion, holder: str, clock: Clock) -> None:
        self.question: Question = recorded.question
        self.answer: Answer = recorded.answer
        self.attempts = recorded.attempts
        self.model_tokens = 0
        self.began_s = clock.monotonic_s()
        self._store = store
        self._holder = holder
        self._clock = clock

    @property
    def remaining_s(self) -> float:
        """Return the seconds until the answer must be finished."""
        return (self.question.deadline_at - self._clock.now_ms()) / 1000

    async def write_revision(self, **changes: Any) -> None:
        """Write an intermediate revision; while the store is unreachable it is skipped, because the next
        revision includes it.

        Errors:
            LeaseLost: another process has the question
        """
        try:
            await self._write(changes)
        except Unavailable:
            return

    async def finish(self, **changes: Any) -> None:
        """Write the last revision; retry while the store is unreachable.

        Errors:
            LeaseLost: another process has the question
            Unavailable: the store stayed away
        """
        await self._retry(lambda: self._write(changes))

    async def discard(self) -> None:
        """Delete the question; retry while the store is unreachable."""
        await self._retry(lambda: self._store.discard(self.question))

    async def renew(self) -> bool:
        """Renew the lease; return False when it is lost."""
        until_ms = self._clock.now_ms() + LEASE_MS
        return await self._store.renew(
            self.question.app_id, self.question.question_id, holder=self._holder, until_ms=until_ms
        )

    async def release(self) -> None:
        """Release the question, so that another process continues at once."""
        await self._store.release(self.question.app_id, self.question.question_id, holder=self._holder)

    async def _retry(self, write: Callable[[], Awaitable[None]]) -> None:
        until_s = self._clock.monotonic_s() + _FINISH_TIMEOUT_S
        for attempt in range(1_000):
            try:
                return await write()
            except Unavailable:
                if self._clock.monotonic_s() >= until_s:
                    raise
                await asyncio.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])

    async def _write(self, changes: dict[str, Any]) -> None:
        # assigned before the write: after a write whose reply was lost, the next revision must be larger
        self.answer = self.answer.model_copy(update={**changes, "revision": self.answer.revision + 1})
        until_ms = self._clock.now_ms() + LEASE_MS
        shown = answer_to_json(self.question, self.answer)
        if not await self._store.write(
            self.question, self.answer, shown, holder=self._holder, until_ms=until_ms
        ):
            raise LeaseLost
