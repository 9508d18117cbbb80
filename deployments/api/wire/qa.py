"""The bodies of the question bank and of question answering, and their replies.

Published in `docs/reference/rest.md`, section Questions and answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import AnswerQuery
from cluster.query.language.parser import parse
from cluster.query.language.tree import All, Node
from cluster.records.question import LONGEST_BANK_QUESTION, MOST_QUESTIONS, BankQuestion
from deployments.api.wire.query_bodies import (
    Count,
    Flag,
    Offset,
    ProductQueryBody,
    Real,
    RequestModel,
    Warnings,
    number_not_bool,
    plain_query_from_body,
)
from deployments.api.wire.search import Spellcheck, SpellcheckReply

MOST_QUERY_CHARS = 1_000
"Characters of `q` that the engine reads."


Probability = Annotated[Real, Field(ge=0, le=1)]


class BankEntry(RequestModel):
    """A question of the bank."""

    model_config = ConfigDict(extra="ignore")

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_BANK_QUESTION, strict=True)]
    weight: Annotated[float, BeforeValidator(number_not_bool)] = 1.0

    def record(self) -> BankQuestion:
        """Return the record in its stored form."""
        return BankQuestion(question=self.question, weight=self.weight)


class QuestionBank(RequestModel):
    """All questions of the bank. They replace the stored ones."""

    model_config = ConfigDict(extra="ignore")

    data: Annotated[list[BankEntry], Field(max_length=MOST_QUESTIONS)]


class BankReply(BaseModel):
    """The bank was replaced."""

    took: int
    service_id: str


class QuestionAutocomplete(RequestModel):
    """The text typed so far."""

    model_config = ConfigDict(extra="ignore")

    q: Annotated[str, Field(min_length=1, max_length=65_536)]
    rows: Count = 5


class QuestionCompletion(BaseModel):
    """A question of the bank."""

    question: str
    weight: float


class BankQuestionsReply(BaseModel):
    """Questions, best first."""

    took: int
    service_id: str
    completions: list[QuestionCompletion]


class QuestionAnswering(ProductQueryBody):
    """A question, and how probable an answer must be."""

    model_config = ConfigDict(extra="ignore")

    q: Annotated[str, Field(min_length=1, max_length=65_536)]
    min_probability: Probability
    version: Literal["v1.2", "v1.3"] = Field(
        "v1.2", description="Accepted; both versions find answers in the same way."
    )
    rows: Count = 1
    start: Offset = 0
    spellcheck: Spellcheck = Spellcheck()
    enable_answer_html: Flag = False
    enable_answer_block: Flag = False
    boost_probability_threshold: Probability | None = None
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2}$")] | None = None


class AnswerPart(BaseModel):
    """A paragraph of a page."""

    text: str
    css_selector: str
    "Path from the root of the page."
    probability: float
    html: str | None = None


class AnswerBlock(BaseModel):
    """The block of the page around a paragraph."""

    html: str
    css_selector: str
    relevant_children_slice: Annotated[list[int], Field(min_length=2, max_length=2)]
    answer_css_selector: str
    title: str


class AnswerEntry(BaseModel):
    """An answer and its product."""

    model_config = ConfigDict(extra="allow")

    product_id: str
    answer: AnswerPart
    answer_block: AnswerBlock | None = None


class AnswersReply(BaseModel):
    """Answers, best first."""

    took: int
    service_id: str
    total: int
    spellcheck: SpellcheckReply
    answers: list[AnswerEntry]
    warnings: Warnings = None


def to_answer_query(body: QuestionAnswering, *, app_id: str, user_id: str) -> UserQuery:
    """Return the query of a body; only products that allow questions are searched.

    Errors:
        FilterSyntax, Unprocessable: a filter is invalid
    """
    enabled: Node = parse("enable_question_answering:true")
    least = body.min_probability
    boosted = body.boost_probability_threshold
    query = plain_query_from_body(
        body,
        "question_answering",
        app_id=app_id,
        user_id=user_id,
        start=body.start,
        dedupe=False,
        language=(body.language or "").lower(),
        question=AnswerQuery(
            text=body.q[:MOST_QUERY_CHARS],
            original=body.q[:MOST_QUERY_CHARS],
            min_probability=least,
            min_boosted_probability=least if boosted is None else boosted,
            correct=body.spellcheck.enable_auto_spelling_correction,
            html=body.enable_answer_html,
            block=body.enable_answer_block,
        ),
    )
    return replace(query, filter=enabled if query.filter is None else All((enabled, query.filter)))
