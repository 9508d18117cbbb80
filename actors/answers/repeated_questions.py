"""Ask a question for a user: the history's monitor gets a new answer for a thread this way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.answers.render import answer_to_json, render_answer
from cluster.clock import Clock
from cluster.records.question import ANSWER_WITHIN_MS, GENERATED, Answer, Question
from cluster.store.archive.user_questions import QuestionStore

UPDATE_MONITOR = "answer_update_monitor"
"Value of `metadata.service_generated_by` in a question of the monitor."


@dataclass(frozen=True, slots=True)
class RepeatedQuestion:
    """A user's question that Kiosk asks again because of new content."""

    app_id: str
    user_id: str
    text: str
    parent_question_id: str
    question_id: str = ""
    """UUID of the new question; asking it again changes nothing, so a retry is harmless. Empty: a new one."""
    generated_by: str = UPDATE_MONITOR


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """The progress of an answer."""

    finished: bool
    finish_reason: str
    "`not_finished`, `success`, `error` or `forbidden`."
    sources: tuple[str, ...] = ()
    "Product ids that the answer cites; empty when the archive does not contain the answer."
    answer: str = ""


class QuestionRepeater(Protocol):
    """Submits questions; answering processes answer them in the background."""

    async def ask(self, repeated: RepeatedQuestion) -> str:
        """Accept a question and return its id at once.

        Errors:
            Unavailable: the store is away; nothing was asked, or it was and asking again is harmless
            TooMany: more questions wait than may
        """
        ...

    async def get_outcome(self, app_id: str, question_id: str) -> AnswerOutcome | None:
        """Return the progress of the answer; None when there is no such question."""
        ...


class StoreQuestionRepeater:
    """Submits questions through the store: an answering process claims them within a second."""

    def __init__(self, store: QuestionStore, clock: Clock, new_question_id: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._new_question_id = new_question_id

    async def ask(self, repeated: RepeatedQuestion) -> str:
        parent = await self._store.read(repeated.app_id, repeated.parent_question_id)
        now_ms = self._clock.now_ms()
        before = () if parent is None else parent.question.before
        question = Question(
            question_id=repeated.question_id or self._new_question_id(),
            app_id=repeated.app_id,
            text=repeated.text,
            asked_at=now_ms,
            deadline_at=now_ms + ANSWER_WITHIN_MS,
            parent_id=repeated.parent_question_id or None,
            before=before,
            user_id=repeated.user_id,
            logged=True,
            metadata={GENERATED: repeated.generated_by},
        )
        answer = Answer()
        # Without a lease, so that any answering process claims it; an id that exists changes nothing.
        await self._store.ask(question, answer, answer_to_json(question, answer), holder="", until_ms=0)
        return question.question_id

    async def get_outcome(self, app_id: str, question_id: str) -> AnswerOutcome | None:
        recorded = await self._store.read(app_id, question_id)
        if recorded is None:
            return None
        answer = recorded.answer
        shown = render_answer(recorded.question, recorded.answer)
        sources = tuple(str(source["product_id"]) for source in shown["sources"])
        return AnswerOutcome(answer.finished, answer.public_finish_reason, sources, str(shown["answer"]))
