"""Questions with the revisions of their answers, and the questions of an app's question bank.

    not_finished -> success | error | forbidden        finished is finished; what it cites may still be withdrawn

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

FinishReason = Literal["not_finished", "success", "error", "forbidden"]

INITIALIZING: Final = "Initializing"
FETCHING: Final = "Fetching related content"
VERIFYING: Final = "Verifying possible answers"
GENERATING: Final = "Generating summary"

GENERATED: Final = "service_generated_by"
"Key of the metadata of questions no reader put; whoever put one says where it belongs."

CLAIMS_MARK: Final = b',"_claims":true}'
"""End of a public record whose asker's token said more: those claims are for the asker, and the mark is for nobody."""

LONGEST_QUESTION = 8_000
"Characters of a question; more is refused."
ANSWER_WITHIN_MS = 60_000
"How long an answer may take, one way or another."


class Format(BaseModel):
    """How an answer wants to be shown."""

    model_config = ConfigDict(frozen=True)

    source_fl: tuple[str, ...] = ("title",)
    "Fields of products beside the usual ones of a source."
    related_resource_fl: tuple[str, ...] = ("title",)
    cite_start: str = "["
    cite_end: str = "]"
    cite_link: bool = False
    wiki_link_template: str = ""
    "Address with `%s`: names in the answer become links to it."


class Question(BaseModel):
    """What was asked; never changes."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    app_id: str
    text: str
    asked_at: int
    deadline_at: int
    "The answer is finished by then, one way or another; milliseconds since 1970."
    parent_id: str | None = None
    before: tuple[str, ...] = ()
    "The questions it follows, oldest first."
    user_id: str = ""
    "Only of a reader who proved who they are."
    anonymous_id: str = ""
    user_type: str = ""
    is_strangers: bool = False
    "It came with a publishable key, and nobody proved who asked."
    logged: bool = False
    "It stands in the reader's history."
    fq: str = ""
    boost_fq: str = ""
    yearly_decay: float = 1.0
    type: str | None = None
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    "Products `fq` lets through, when they are few: then passages are looked for among them."
    language: str = ""
    format: Format = Format()
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    "What the answer's public record repeats, to whoever has its id."
    claims: Mapping[str, Any] = Field(default_factory=dict)
    "What the asker's token said beside who they are; nobody else is shown it."


class Picture(BaseModel):
    """A picture of a product."""

    model_config = ConfigDict(frozen=True)

    src: str
    alt: str = ""


class CitedPassage(BaseModel):
    """A passage an answer rests on, or one that is worth reading beside it."""

    model_config = ConfigDict(frozen=True)

    product_id: str
    position: int
    text: str
    title: str = ""
    child_id: str = ""
    child_title: str = ""
    url: str = ""
    authors: tuple[str, ...] = ()
    published: str = ""
    licence: str = ""
    start: int = 0
    score: float = 0.0
    fields: Mapping[str, Any] = Field(default_factory=dict)
    "What the format asked of the product."
    picture: Picture | None = None
    "Of the product; only of what is cited."


class CitedSentence(BaseModel):
    """A sentence of an answer and where it stands."""

    model_config = ConfigDict(frozen=True)

    text: str
    passage: int
    "Which of the answer's passages holds it, from 0."
    start: int = 0
    end: int = 0
    support: float = 1.0


class Answer(BaseModel):
    """How far an answer is."""

    model_config = ConfigDict(frozen=True)

    revision: int = 1
    "Grows with every change that shows."
    stage: str = INITIALIZING
    finish_reason: FinishReason = "not_finished"
    sentences: tuple[CitedSentence, ...] = ()
    passages: tuple[CitedPassage, ...] = ()
    "What the sentences cite."
    related: tuple[CitedPassage, ...] = ()
    followups: tuple[str, ...] = ()
    blocked_reason: str = ""
    question: str = ""
    "The question as it was understood, when that is not how it was put."
    composer: str = ""
    "Who wrote it: `extractive`, `model`, `reused`; for ourselves."

    @property
    def finished(self) -> bool:
        """Return whether the answer is finished."""
        return self.finish_reason != "not_finished"


LONGEST_BANK_QUESTION = 2_000
MOST_QUESTIONS = 100_000
"Questions a bank holds."


class BankQuestion(BaseModel):
    """A question and its weight; among equally fitting questions the weightier comes first."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_BANK_QUESTION)]
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
