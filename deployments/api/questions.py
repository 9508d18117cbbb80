"""Questions and their answers: accepted at once, answered behind, read from the store.

Source: reference 8.8, endpoints 27 to 29
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from actors.answers.archive.client import ArchiveClient, QuestionClient
from actors.history.client import LocalHistoryClient
from actors.recommender.client import RecommenderClient
from cluster.clock import Clock
from cluster.errors import HouseError, NotFound, messages
from cluster.ids import new_question_id
from cluster.records.question import ANSWER_WITHIN_MS, Format, Question
from cluster.records.searched import UNKNOWN
from cluster.store.ports import QuestionStore, Recorded
from deployments.api.askers import Asker, asker_of
from deployments.api.filtered import few_that_pass
from deployments.api.query_log import QueryLog
from deployments.api.wire.ask import AskAnswers, AskQuestion, question_id_of
from deployments.api.wire.faults import refuse, unprocessable
from deployments.api.wire.shared import tree_of
from deployments.edge.arrival import Arrival
from deployments.edge.envelope import Reply, dumps, success, success_json, tagged

NAMED = "question_id"
QUOTA_SPENT = "The number of questions for today is used up."
_DAY_MS = 86_400_000
_HISTORY_WAIT_S = 1.0
"How long a reply waits until the question stands in the reader's history."
_HISTORY_PAUSES_S = (0.2, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class AskMeans:
    """What asking works with."""

    client: QuestionClient
    archive: ArchiveClient
    store: QuestionStore
    clock: Clock
    history: LocalHistoryClient
    new_question_id: Callable[[], str] = new_question_id


class Questions:
    """Endpoints 27 to 29."""

    def __init__(self, means: AskMeans, recommender: RecommenderClient, query_log: QueryLog) -> None:
        self._query_log = query_log
        self._means = means
        self._recommender = recommender
        self._put = noted_in(means.history)
        self._noting: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    def read(self, request: Arrival) -> tuple[AskQuestion, Asker]:
        """Read a question."""
        body = read_body(AskQuestion, request.payload)
        tree_of(body.fq, "fq")
        tree_of(body.boost_fq, "boost_fq")
        return body, asker_of(request, body, self._means.clock.now_ms())

    async def ask(self, request: Arrival) -> Reply:
        """Accept a question."""
        body, asker = request.parsed
        question = self.made(request, body, body.question, asker)
        question_id = await self.accept(request, question, asker, body.parent_question_id)
        self._query_log.note(
            request,
            "ask",
            question.text,
            total=UNKNOWN,
            language=question.language,
            served_by="ask_questions",
        )
        return success({"question_id": question_id})

    def made(self, request: Arrival, body: Any, text: str, asker: Asker, **more: Any) -> Question:
        """Make a question out of a body."""
        now_ms = self._means.clock.now_ms()
        default = Format(related_resource_fl=tuple(getattr(body, "related_resource_fl", None) or ("title",)))
        return Question(
            question_id=self._means.new_question_id(),
            app_id=request.app_id,
            text=" ".join(text.split()),
            asked_at=now_ms,
            deadline_at=now_ms + ANSWER_WITHIN_MS,
            user_id=asker.user_id,
            anonymous_id=asker.anonymous_id,
            user_type=asker.user_type,
            logged=bool(asker.user_id) and body.log_user_history,
            fq=body.fq or "",
            boost_fq=body.boost_fq or "",
            yearly_decay=body.yearly_decay,
            type=body.type,
            language=(getattr(body, "language", None) or "").lower(),
            format=body.format(default),
            metadata=asker.metadata,
            **more,
        )

    async def accept(self, request: Arrival, question: Question, asker: Asker, parent_id: str | None) -> str:
        """Write a question down, unless its reader may not ask any more; its answer begins behind the reply.

        Errors:
            NotFound: no such parent, or another reader's
            TooMany, Unavailable
        """
        means = self._means
        if parent_id is not None:
            question = self._after(question, await means.store.read(request.app_id, parent_id), parent_id)
        day = question.asked_at // _DAY_MS
        quotas = request.credential.app.settings.questions_per_day.items()
        quota = next((bound for kind, bound in quotas if kind == asker.user_type), None)
        if quota is not None and await means.store.count(request.app_id, asker.reader_id, day) > quota:
            await means.client.refuse(question, QUOTA_SPENT)
            return question.question_id
        only = await few_that_pass(self._recommender, question.app_id, question.fq, question.type)
        await means.client.take(question.model_copy(update={"only": only}))
        self._later(means.store.note_asked(request.app_id, question.text, asker.reader_id, day))
        if question.logged:
            await asyncio.wait({self._later(self._note(question))}, timeout=_HISTORY_WAIT_S)
        return question.question_id

    def read_id(self, request: Arrival) -> str:
        """Read the id in the path."""
        try:
            return question_id_of(request.ids[NAMED])
        except PydanticCustomError as error:
            refuse(error.message(), NAMED, kind=error.type, within="path")

    async def answer(self, request: Arrival) -> Reply:
        """Give an answer as far as it is: bytes out of the store."""
        shown = await self._means.store.shown(request.app_id, request.parsed)
        if shown is None:
            raise NotFound(messages.NOT_FOUND)
        return tagged(success_json(shown))

    def read_many(self, request: Arrival) -> AskAnswers:
        """Read a list of ids."""
        body: AskAnswers = read_body(AskAnswers, request.payload)
        return body

    async def answers(self, request: Arrival) -> Reply:
        """Give several answers, in the format asked for."""
        body: AskAnswers = request.parsed
        store, ids = self._means.store, body.question_ids
        if not body.formats:
            shown = await store.shown_many(request.app_id, ids)
            return success_json(b"[" + b",".join(one or b"null" for one in shown) + b"]")
        found = await asyncio.gather(*(store.read(request.app_id, one) for one in ids))
        return success_json(dumps([await self._formatted(one, body) for one in found]))

    async def close(self) -> None:
        """Wait for what is still being noted."""
        await asyncio.gather(*self._noting, return_exceptions=True)

    def _after(self, question: Question, parent: Recorded | None, parent_id: str) -> Question:
        if parent is None or (parent.question.user_id and parent.question.user_id != question.user_id):
            raise NotFound(messages.NOT_FOUND)
        before = (*parent.question.before, parent.question.text)[-5:]
        return question.model_copy(update={"parent_id": parent_id, "before": before})

    async def _formatted(self, recorded: Recorded | None, body: AskAnswers) -> dict[str, Any] | None:
        if recorded is None:
            return None
        return await self._means.client.formatted(recorded, body.format(recorded.question.format))

    async def _note(self, question: Question) -> None:
        """Put a question into its reader's history; what fails for good is logged, the question stands."""
        for pause_s in (*_HISTORY_PAUSES_S, 0.0):
            try:
                return await self._put(question)
            except HouseError as error:
                reason = error.message
            await asyncio.sleep(pause_s)
        self._log.warning("history_missed", question_id=question.question_id, reason=reason)

    def _later(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(_quietly(work))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)
        return task


def noted_in(history: LocalHistoryClient) -> Callable[[Question], Awaitable[None]]:
    """Make what puts a question into its reader's history; putting it there again changes nothing."""

    async def note(question: Question) -> None:
        await history.asked(
            question.app_id, question.user_id, question.question_id, question.text, question.parent_id
        )

    return note


def read_body(model: Any, payload: Any) -> Any:
    """Read a body.

    Errors:
        Unprocessable
    """
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        raise unprocessable(error) from error


async def _quietly(work: Any) -> None:
    """Do what no caller waits for; the store's absence is told elsewhere."""
    try:
        await work
    except HouseError as error:
        structlog.get_logger().info("note_missed", reason=error.message)
