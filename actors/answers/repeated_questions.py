"""Ask a question for a user: the history's monitor gets a new answer for a thread this way."""

from __future__ import annotations

from actors.answers.render import answer_to_json, render_answer
from cluster.clock import Clock
from cluster.records.question import ANSWER_WITHIN_MS, GENERATED, Answer, Question
from cluster.records.thread import ThreadAnswer
from cluster.store.archive.user_questions import QuestionStore

UPDATE_MONITOR = "answer_update_monitor"
"Value of `metadata.service_generated_by` in a question of the monitor."


class QuestionRepeater:
    """Submits questions of users through the store: an answering process claims them within a second."""

    def __init__(self, store: QuestionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Accept a question under a given id; asking it again changes nothing, so a retry is harmless.

        Errors:
            Unavailable: the store is away; nothing was asked, or it was and asking again is harmless
            TooMany: more questions wait than may
        """
        parent = await self._store.read(app_id, parent_id)
        now_ms = self._clock.now_ms()
        question = Question(
            question_id=question_id,
            app_id=app_id,
            text=text,
            asked_at=now_ms,
            deadline_at=now_ms + ANSWER_WITHIN_MS,
            parent_id=parent_id or None,
            before=() if parent is None else parent.question.before,
            user_id=user_id,
            logged=True,
            metadata={GENERATED: UPDATE_MONITOR},
        )
        answer = Answer()
        # Without a lease, so that any answering process claims it; an id that exists changes nothing.
        await self._store.ask(question, answer, answer_to_json(question, answer), holder="", until_ms=0)

    async def get_progress(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Return the progress of the answer; None when there is no such question."""
        recorded = await self._store.read(app_id, question_id)
        if recorded is None:
            return None
        answer = recorded.answer
        shown = render_answer(recorded.question, recorded.answer)
        sources = tuple(str(source["product_id"]) for source in shown["sources"])
        has_answer = answer.public_finish_reason == "success" and bool(sources)
        return ThreadAnswer(answer.finished, has_answer, sources, str(shown["answer"]))
