"""Use cases of questions: the answers of late, and the question bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.question import LONGEST_BANK_QUESTION, MOST_QUESTIONS, Answer, BankQuestion
from cluster.store.archive.question_bank import QuestionBankContents
from cluster.store.archive.user_questions import StoredQuestion
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.services import AdminServices

QuestionState = Literal["all", "unanswered", "answered", "waiting"]
_SCANNED = 100
"Questions that are read at once while answers of one state are sought."
_LISTED = 1_000
_TRIES = 3
_KEPT_S = 300.0
"Seconds for which an unchanged question bank stays in memory."
_BankText = Annotated[str, Field(min_length=1, max_length=LONGEST_BANK_QUESTION)]
_Weight = Annotated[float, Field(allow_inf_nan=False)]


class ListQuestions(OfApp):
    """Which questions to list; the newest 1,000 of an app are kept for it."""

    state: QuestionState = Field(default="all", description="Only questions in this state.")
    limit: int = Field(default=50, ge=1, le=200, description="Most questions of the page.")
    start: int = Field(default=0, ge=0, le=_LISTED, description="The `next_start` of the page before.")


class ListBank(OfApp):
    """Which questions of the bank to list."""

    contains: str = Field(
        default="", max_length=LONGEST_BANK_QUESTION, description="Only questions that contain this text."
    )
    limit: int = Field(default=100, ge=1, le=1000, description="Most questions of the page.")
    start: int = Field(default=0, ge=0, le=MOST_QUESTIONS, description="Questions before the page.")


class AddToBank(OfApp):
    """A question for the bank."""

    question: _BankText
    weight: _Weight = 1.0


class EditBank(OfApp):
    """A question of the bank, and what it becomes."""

    question: _BankText
    new_question: _BankText | None = None
    weight: _Weight | None = None


class RemoveFromBank(OfApp):
    """Questions to take out of the bank."""

    questions: Annotated[list[_BankText], Field(min_length=1, max_length=1000)]


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question without the person who asked, and its answer."""

    question_id: str
    text: str
    understood: str
    "The question as it was understood, when that is not how it was put."
    asked_at: int
    state: QuestionState
    answer: Answer

    def to_dict(self) -> dict[str, Any]:
        """Return the question as JSON; each sentence names the source that holds it."""
        passages = self.answer.passages
        return {
            "question_id": self.question_id,
            "text": self.text,
            "understood": self.understood,
            "asked_at": iso_ms(self.asked_at),
            "state": self.state,
            "finish_reason": self.answer.public_finish_reason,
            "sentences": [
                {"text": sentence.text, "source": sentence.passage, "support": sentence.support}
                for sentence in self.answer.sentences
            ],
            "sources": [
                {
                    "product_id": passage.product_id,
                    "title": passage.title,
                    "url": passage.url,
                    "text": passage.text,
                }
                for passage in passages
            ],
        }


@dataclass(frozen=True, slots=True)
class QuestionList:
    """Questions, the newest first."""

    questions: tuple[QuestionView, ...]
    next_start: int | None = None
    "Where the next page begins; None: there is none."


@dataclass(frozen=True, slots=True)
class QuestionBankView:
    """A part of a question bank."""

    questions: tuple[BankQuestion, ...]
    total: int
    "Questions that match, on all pages."
    version: int

    def to_dict(self) -> dict[str, Any]:
        """Return the questions as JSON."""
        return {
            "questions": [question.model_dump() for question in self.questions],
            "total": self.total,
            "version": self.version,
        }


@operation("questions.list", "GET", "/apps/{app_id}/questions", "analyst", recorded=True)
async def list_questions(services: AdminServices, given: ListQuestions) -> QuestionList:
    """List questions of late with their answers and sources.

    No person is named.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    shown: list[QuestionView] = []
    start = given.start
    # reads little if every state is wanted, and no more than the list holds if few match
    step = given.limit if given.state == "all" else _SCANNED
    while start < _LISTED:
        some = await services.stores.questions.list_recent(given.app_id, start=start, count=step)
        for at, stored in enumerate(some):
            if stored.question.generation is not None:
                continue
            question = show_question(stored)
            if given.state in ("all", question.state):
                shown.append(question)
                if len(shown) == given.limit:
                    return QuestionList(tuple(shown), start + at + 1)
        if not some:
            break
        start += step
    return QuestionList(tuple(shown))


def show_question(stored: StoredQuestion) -> QuestionView:
    """Return a question without its person."""
    question = stored.question
    answer = stored.answer
    state: QuestionState = "waiting"
    if answer.finished:
        state = "answered" if answer.sentences else "unanswered"
    return QuestionView(
        question.question_id, question.text, answer.question, question.asked_at, state, answer
    )


@operation("bank.list", "GET", "/apps/{app_id}/question-bank")
async def list_bank(services: AdminServices, given: ListBank) -> QuestionBankView:
    """List questions of the question bank.

    Errors:
        NotFound: no such app
    Cost:
        reads the bank when it has changed, else its version
    """
    await require_app(services.stores, given.app_id)
    contents = await _load_bank(services, given.app_id)
    sought = given.contains.casefold()
    chosen = [question for question in contents.questions if sought in question.question.casefold()]
    page = chosen[given.start : given.start + given.limit]
    return QuestionBankView(tuple(page), len(chosen), contents.version)


async def _load_bank(services: AdminServices, app_id: str) -> QuestionBankContents:
    bank = services.stores.question_bank
    key = ("bank", app_id)
    for _ in range(2):
        contents: QuestionBankContents = await services.cache.get(
            key, lambda: bank.load(app_id), keep_s=_KEPT_S
        )
        # The kept bank may be older than a change; it is then read once more.
        if contents.version == await bank.version(app_id):
            break
        services.cache.drop(key)
    return contents


@operation("bank.add", "POST", "/apps/{app_id}/question-bank", "editor")
async def add_to_bank(services: AdminServices, given: AddToBank) -> QuestionBankView:
    """Add a question to the question bank.

    Errors:
        NotFound: no such app; Conflict: the bank has the question; Invalid: the bank is full
    """

    def add(questions: Sequence[BankQuestion]) -> list[BankQuestion]:
        if any(question.question == given.question for question in questions):
            raise Conflict("the bank has this question already; change its weight instead")
        return [*questions, BankQuestion(question=given.question, weight=given.weight)]

    return await _change_bank(services, given.app_id, add)


@operation("bank.edit", "PATCH", "/apps/{app_id}/question-bank", "editor")
async def edit_bank(services: AdminServices, given: EditBank) -> QuestionBankView:
    """Change a question of the question bank.

    Errors:
        NotFound: no such app or question; Conflict: the bank has the new text already
    """

    def edit(questions: Sequence[BankQuestion]) -> list[BankQuestion]:
        texts = [question.question for question in questions]
        if given.question not in texts:
            raise NotFound("the bank has no such question")
        text = given.new_question or given.question
        if text != given.question and text in texts:
            raise Conflict("the bank has this question already")
        weight = {} if given.weight is None else {"weight": given.weight}
        return [
            question.model_copy(update={"question": text, **weight})
            if question.question == given.question
            else question
            for question in questions
        ]

    return await _change_bank(services, given.app_id, edit)


@operation("bank.remove", "POST", "/apps/{app_id}/question-bank/remove", "editor")
async def remove_from_bank(services: AdminServices, given: RemoveFromBank) -> QuestionBankView:
    """Take questions out of the question bank.

    All of them go, or none.

    Errors:
        NotFound: no such app, or one of the questions is not in the bank
    """

    def remove(questions: Sequence[BankQuestion]) -> list[BankQuestion]:
        gone = set(given.questions)
        if gone - {question.question for question in questions}:
            raise NotFound("the bank has no such question")
        return [question for question in questions if question.question not in gone]

    return await _change_bank(services, given.app_id, remove)


async def _change_bank(
    services: AdminServices, app_id: str, change: Callable[[Sequence[BankQuestion]], list[BankQuestion]]
) -> QuestionBankView:
    await require_app(services.stores, app_id)
    bank = services.stores.question_bank
    for _ in range(_TRIES):
        contents = await bank.load(app_id)
        questions = change(contents.questions)
        if len(questions) > MOST_QUESTIONS:
            raise Invalid(f"a bank holds at most {MOST_QUESTIONS:,} questions; remove some first")
        # an upload or another change may have come between, and must not be undone
        if version := await bank.replace(app_id, questions, expected=contents.version):
            return QuestionBankView((), len(questions), version)
    raise Conflict("the question bank is being changed by others; try again")
