"""A question in hand: its answer grows in revisions, written only as long as the question is ours."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.answers.render import answer_to_json
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.question import Answer, Question
from cluster.store.ports.questions import QuestionStore, StoredQuestion

LEASE_MS = 6_000
"How long a question is held without a sign of life."
_FINISH_TIMEOUT_S = 30.0
"How long the last revision is tried while the store is away; then somebody else goes on."
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0)


class LeaseLost(Exception):
    """The question is not ours any more: somebody took it over, or it is finished."""


class AnswerLease:
    """One question somebody works on."""

    def __init__(self, store: QuestionStore, recorded: StoredQuestion, holder: str, clock: Clock) -> None:
        self.question: Question = recorded.question
        self.answer: Answer = recorded.answer
        self.attempts = recorded.attempts
        self.began_s = clock.monotonic_s()
        self._store = store
        self._holder = holder
        self._clock = clock

    @property
    def remaining_s(self) -> float:
        """Seconds until the answer must be finished."""
        return (self.question.deadline_at - self._clock.now_ms()) / 1000

    async def write_revision(self, **changes: Any) -> None:
        """Write a revision on the way; while the store is away it is skipped, the next one holds it too.

        Errors:
            Lost
        """
        try:
            await self._write(changes)
        except Unavailable:
            return

    async def finish(self, **changes: Any) -> None:
        """Write the last revision, whatever it takes.

        Errors:
            Lost
            Unavailable: the store stayed away
        """
        until_s = self._clock.monotonic_s() + _FINISH_TIMEOUT_S
        for attempt in range(1_000):
            try:
                return await self._write(changes)
            except Unavailable:
                if self._clock.monotonic_s() >= until_s:
                    raise
                await asyncio.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])

    async def renew(self) -> bool:
        """Hold on to it; False when it is lost."""
        until_ms = self._clock.now_ms() + LEASE_MS
        return await self._store.renew(
            self.question.app_id, self.question.question_id, holder=self._holder, until_ms=until_ms
        )

    async def release(self) -> None:
        """Let somebody else go on at once."""
        await self._store.release(self.question.app_id, self.question.question_id, holder=self._holder)

    async def _write(self, changes: dict[str, Any]) -> None:
        # kept before it is written: a write whose reply was lost is followed by a larger revision
        self.answer = self.answer.model_copy(update={**changes, "revision": self.answer.revision + 1})
        until_ms = self._clock.now_ms() + LEASE_MS
        shown = answer_to_json(self.question, self.answer)
        if not await self._store.write(
            self.question, self.answer, shown, holder=self._holder, until_ms=until_ms
        ):
            raise LeaseLost
