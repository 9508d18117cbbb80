"""Questions with the revisions of their answers, and the questions of an app's question bank.

    not_finished -> success | error | forbidden        finished is finished; what it cites may still be withdrawn

A question of a token's user has an entitled answer beside the answer for everybody. It may rest on locked articles:

    question             open articles alone                 everybody, and every list, report and memory
    question~user        articles of the token's tiers       its asker, with a token that opens all it was made from

Both are separate questions of the queue. Nothing that knows only the first can show anything of a locked article.

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from cluster.access_tier import may_read

FinishReason = Literal["not_finished", "success", "error", "forbidden"]
PublicFinishReason = Literal["not_finished", "success", "no_answer", "error", "forbidden"]

INITIALIZING: Final = "Initializing"
FETCHING: Final = "Fetching related content"
VERIFYING: Final = "Verifying possible answers"
GENERATING: Final = "Generating summary"

GENERATED: Final = "service_generated_by"
"Metadata key of questions that no user asked; its value names the program that asked."

CLAIMS_MARK: Final = b',"_claims":true}'
"""End of a public record whose asker's token has further claims. The claims are for the asker; no client
gets the mark."""

ACCESS_MARK: Final = b',"_access":'
"Begins the end of the public record of an entitled answer: the accesses it rests on. No client gets it."

LONGEST_QUESTION = 8_000
"Maximal number of characters of a question; longer questions are refused."
ANSWER_WITHIN_MS = 60_000
"How long an answer may take, one way or another."
RECHECK = "answers-recheck"
"Begins the names of the followers of products that check cited passages again."
LATE_RECHECK = f"{RECHECK}-late"
"Follows behind on purpose, by more than an answer may take."


class Format(BaseModel):
    """Requested form of an answer."""

    model_config = ConfigDict(frozen=True)

    source_fl: tuple[str, ...] = ("title",)
    "Fields of products beside the usual ones of a source."
    related_resource_fl: tuple[str, ...] = ("title",)
    cite_start: str = "["
    cite_end: str = "]"
    cite_link: bool = False
    wiki_link_template: str = ""
    "Address with `%s`: names in the answer become links to it."


TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "summary": "Summarise the sources in two to four sentences.",
        "headline": "Write one headline of at most twelve words for the sources, as one sentence.",
        "teaser": "Write one or two sentences that make a reader want to read the sources; keep the end to yourself.",
        "description": "Describe the product of the sources to a buyer in two or three sentences.",
        "key_points": "Write the three to five most important facts of the sources, each as one short sentence.",
    }
)
"Name of a template -> what it asks the model for."
NOTHING_SUPPORTED: Final = "the model wrote nothing that the texts of the products support"
"Why a task of text generation failed whose model wrote something else."


class TextGeneration(BaseModel):
    """What a task of text generation asks for."""

    model_config = ConfigDict(frozen=True)

    template: str = ""
    "Name of a template; empty: the instructions only."
    instructions: str = ""
    product_ids: tuple[str, ...] = ()
    "Products whose texts are the only sources."


class Question(BaseModel):
    """A question as the user asked it; never changes."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    app_id: str
    text: str
    asked_at: int
    deadline_at: int
    "The answer is finished by this time, with success or not; milliseconds since 1970."
    parent_id: str | None = None
    before: tuple[str, ...] = ()
    "The questions it follows, oldest first."
    user_id: str = ""
    "Only of a verified user."
    anonymous_id: str = ""
    user_type: str = ""
    is_strangers: bool = False
    "The question came with a publishable key from an unverified user."
    is_automated: bool = False
    "The question came with a publishable key from a client that looks like a robot."
    logged: bool = False
    "The question is in the user's history."
    fq: str = ""
    boost_fq: str = ""
    yearly_decay: float = 1.0
    type: str | None = None
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    "Products that `fq` selects, when they are few: the search for passages is restricted to them."
    language: str = ""
    format: Format = Format()
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    "The public record of the answer repeats it, for any client with its id."
    generation: TextGeneration | None = None
    "Set for a task of text generation, which is no question of a user."
    claims: Mapping[str, Any] = Field(default_factory=dict)
    "Further claims of the asker's token; only the asker gets them."
    open_question_id: str = ""
    "Set for the entitled answer of a question: the id of the question, whose answer rests on open articles."
    tiers: tuple[str, ...] = ()
    "Tiers of the asker's token, for an entitled answer."
    lives_as_logged: bool = False
    "An entitled answer to a question in the user's history; only the question itself is listed there."
    is_counted_late: bool = False
    "The question counts as popular only when open articles answer it: it may be about a locked one."

    @property
    def is_entitled(self) -> bool:
        """Return whether the answer may rest on locked articles, so that only its asker reads it."""
        return bool(self.open_question_id)


def entitled_answer_id(question_id: str, user_id: str) -> str:
    """Return the id of a user's entitled answer to a question; no request can name it, because it is no UUID."""
    return f"{question_id}~{hashlib.sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def is_entitled_answer_id(question_id: str) -> bool:
    """Return whether an id is that of an entitled answer."""
    return "~" in question_id


class Picture(BaseModel):
    """A picture of a product."""

    model_config = ConfigDict(frozen=True)

    src: str
    alt: str = ""


class CitedPassage(BaseModel):
    """A passage that supports an answer, or one that is useful additional reading."""

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
    "Product fields that the format requests."
    picture: Picture | None = None
    "Of the product; only for citations."


class CitedSentence(BaseModel):
    """A sentence of an answer and its position."""

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
    "The passages that the sentences cite."
    related: tuple[CitedPassage, ...] = ()
    affiliated: tuple[Mapping[str, Any], ...] = ()
    "Products of partners beside the answer: `product_id` and the shown fields."
    followups: tuple[str, ...] = ()
    blocked_reason: str = ""
    question: str = ""
    "The question as it was understood, when that is not how it was put."
    composer: str = ""
    "What composed the answer: `extractive`, `model`, `reused`; internal."
    access: tuple[str, ...] = ()
    "Accesses of the locked articles that it was made from; its asker needs all of them. Empty: open."

    @property
    def finished(self) -> bool:
        return self.finish_reason != "not_finished"

    @property
    def public_finish_reason(self) -> PublicFinishReason:
        """Return the finish reason for clients: `no_answer` when the content does not answer the question.

        It is derived from the sentences, so that stored refusals of earlier releases have it too. An answer that was
        withdrawn after a change of its sources stays a success.
        """
        if self.finish_reason == "success" and not self.sentences and self.composer != "withdrawn":
            return "no_answer"
        return self.finish_reason


LONGEST_BANK_QUESTION = 2_000
MOST_QUESTIONS = 100_000
"Questions a bank holds."


class BankQuestion(BaseModel):
    """A question and its weight; of equally fitting questions, the one with the higher weight comes first."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_BANK_QUESTION)]
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0


def build_entitled_question(
    question: Question, tiers: frozenset[str], only: tuple[str, ...] | None
) -> Question:
    """Return the question whose answer may rest on the articles of some tiers; `only` as its filter selects them."""
    return question.model_copy(
        update={
            "question_id": entitled_answer_id(question.question_id, question.user_id),
            "open_question_id": question.question_id,
            "tiers": tuple(sorted(tiers)),
            "only": only,
            "logged": False,
            "lives_as_logged": question.logged,
            "is_counted_late": False,
        }
    )


def mark_access(shown: bytes, access: Sequence[str]) -> bytes:
    """Add the accesses that an answer rests on to the end of its public record."""
    return shown[:-1] + ACCESS_MARK + orjson.dumps(access) + b"}"


def open_entitled(shown: bytes, tiers: frozenset[str]) -> bytes | None:
    """Return the public record of an entitled answer without its mark; None if these tiers do not open it.

    A record without the mark is of an earlier release, which took it for a question of its own.
    """
    before, mark, rest = shown.rpartition(ACCESS_MARK)
    access, bracket, end = rest.partition(b"]")
    if not mark or not bracket:
        return None
    return before + end if may_read_all(orjson.loads(access + bracket), tiers) else None


def may_read_all(access: Sequence[str], tiers: frozenset[str]) -> bool:
    """Return whether tiers open an answer that rests on articles of some accesses."""
    return all(may_read(name, tiers) for name in access)
