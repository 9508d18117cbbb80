"""Bodies of the ask endpoints and their replies. Unknown fields are ignored.

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

import re
import uuid
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from cluster.records.question import LONGEST_QUESTION, Format, PublicFinishReason
from deployments.api.wire.query_bodies import (
    Count,
    FieldNames,
    Filter,
    Name,
    Names,
    Offset,
    ProductType,
    Real,
    RequestModel,
    VisitorName,
    Warnings,
)
from deployments.api.wire.validation_errors import build_error

MOST_METADATA = 64 << 10
"Maximum bytes of `metadata` as JSON."
MOST_QUESTION_IDS = 100

# Not two slashes at the beginning: `//host` leads to another host.
_LINK = re.compile(r"(?:https?://[^\s/?#]|/(?!/)|\?)[^\s<>\"'`\\]*\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def parse_question_id(value: Any) -> str:
    """Return a question id.

    Errors:
        PydanticCustomError: the text is not a uuid
    """
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise build_error("value is not a valid uuid", "type_error.uuid")
    # In lower case, as ids are stored.
    return str(uuid.UUID(value))


def _not_blank(text: str) -> str:
    if not text.strip():
        raise build_error("ensure this value is not blank", "value_error.any_str.blank")
    return text


def _metadata(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise build_error("value is not a valid dict", "type_error.dict")
    if len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)) > MOST_METADATA:
        raise build_error(f"ensure this value has at most {MOST_METADATA} bytes", "value_error.size")
    return value


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1, "0", "1"):
        return bool(int(value))
    raise build_error("value could not be parsed to a boolean", "type_error.bool")


def _link_template(text: str) -> str:
    if text and (text.count("%s") != 1 or not _LINK.match(text)):
        raise build_error(
            "an address of the web, a path or a query with one %s is expected", "value_error.url"
        )
    return text


Text = Annotated[str, Field(max_length=LONGEST_QUESTION), AfterValidator(_not_blank)]
Typed = Annotated[str, Field(max_length=65_536)]
QuestionId = Annotated[
    str, BeforeValidator(parse_question_id), WithJsonSchema({"type": "string", "format": "uuid"})
]
Metadata = Annotated[
    dict[str, Any],
    PlainValidator(_metadata),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
Switch = Annotated[
    bool,
    PlainValidator(_switch),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}]}),
]
LinkTemplate = Annotated[
    str,
    Field(max_length=2048),
    AfterValidator(_link_template),
    WithJsonSchema(
        {"type": "string", "maxLength": 2048, "description": "An address of the web or a path with `%s`."}
    ),
]
Mark = Annotated[str, Field(max_length=64)]
Decay = Annotated[Real, Field(gt=0, le=1)]
UserType = Literal["anonymous", "registered", "free", "subscriber", "paid", "internal"]


class AskBody(RequestModel):
    """Who asks; the same in all ask bodies."""

    model_config = ConfigDict(extra="ignore")

    user_id: Name | None = None
    anonymous_id: VisitorName | None = None
    user_hash: Name | None = None
    user_type: UserType | None = None
    jwt_token: Annotated[str, Field(max_length=8192)] | None = None
    metadata: Metadata | None = None
    meta: Metadata | None = Field(None, alias="_meta")


class AnswerFormatBody(AskBody):
    """How an answer should be shown; what is absent is as the question asked for."""

    source_fl: FieldNames | None = None
    cite_start: Mark | None = None
    cite_end: Mark | None = None
    cite_link: Switch | None = None

    def format(self, otherwise: Format) -> Format:
        """Return the format; absent fields get the values of the question."""
        given = {
            name: getattr(self, name) for name in Format.model_fields if getattr(self, name, None) is not None
        }
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return otherwise.model_copy(update={**given, **lists})

    @property
    def has_format(self) -> bool:
        """Return whether the body has any field of the format."""
        return any(getattr(self, name, None) is not None for name in Format.model_fields)


class AskQuestion(AnswerFormatBody):
    """A question."""

    question: Text
    parent_question_id: QuestionId | None = None
    fq: Filter | None = None
    boost_fq: Filter | None = None
    yearly_decay: Decay = 1.0
    related_resource_fl: FieldNames | None = None
    wiki_link_template: LinkTemplate | None = None
    log_user_history: Switch = True
    type: ProductType = None
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2}$")] | None = None


class AskAnswers(AnswerFormatBody):
    """Several answers at once."""

    question_ids: Annotated[list[QuestionId], Field(max_length=MOST_QUESTION_IDS)]
    related_resource_fl: FieldNames | None = None


class AskSearch(AnswerFormatBody):
    """A search by words and meaning, which can also be asked as a question."""

    q: Text
    answer: Switch = True
    rows: Count = 10
    start: Offset = 0
    fl: FieldNames = Field(default_factory=lambda: ["cover_image", "url"])
    fq: Filter | None = None
    boost_fq: Filter | None = None
    exclude: Names = Field(default_factory=list)
    type: ProductType = None
    facets: Annotated[list[Any], Field(max_length=100)] = Field(default_factory=list)
    facet_filters: dict[str, Any] = Field(default_factory=dict)
    order_by: str | list[Any] = "relevance"
    yearly_decay: Decay = 1.0
    parent_question_id: QuestionId | None = None
    wiki_link_template: LinkTemplate | None = None
    log_user_history: Switch = True
    snippet_max_chars: Annotated[int, Field(ge=0, le=10_000)] | None = None


class RelatedQuestions(AskBody):
    """A request for questions about a product, or for trending questions without one."""

    product_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    rows: Count = 5


class TrendingQuestions(AskBody):
    """A request for questions that many users asked lately."""

    rows: Count = 5


class Suggestion(AskBody):
    """The text typed so far."""

    q: Typed
    rows: Count = 5


class SearchSuggestion(Suggestion):
    """The text typed so far, and where completions come from."""

    completion_fields: Annotated[list[Name], Field(min_length=1, max_length=20)] = Field(
        default_factory=lambda: ["title"]
    )


class QuestionIdReply(BaseModel):
    """The id of the new question."""

    question_id: str


class ShownImage(BaseModel):
    """The picture of a cited product."""

    product_id: str
    image_src: str
    image_alt: str
    title: str
    url: str = ""
    published_at: str = ""


class ShownAnswer(BaseModel):
    """An answer record, which grows until `finished` is true."""

    question: str = Field(
        description="The question as it was understood: a follow-up has the subject of the questions before it "
        "filled in, from the stage `Fetching related content` on."
    )
    question_id: str
    parent_question_id: str | None
    answer_stage: str
    finished: bool
    finish_reason: PublicFinishReason
    answer: str
    sources: list[dict[str, Any]]
    related_resources: list[dict[str, Any]]
    followup_questions: list[str]
    affiliation_products: list[dict[str, Any]]
    revision: int
    datetime: str
    metadata: dict[str, Any]
    images: list[ShownImage] = Field(default_factory=list)
    "Images of the cited products that have one; absent if none has one."
    blocked_reason: str = ""


class ShownAnswers(BaseModel):
    """Answer records in the order of the request."""

    message: str
    data: list[ShownAnswer | None]


class AskSearchReply(BaseModel):
    """A page of products, and the id of the question."""

    took: int
    service_id: str
    total: int
    start: int
    products: list[dict[str, Any]]
    facet_counts: dict[str, Any] = Field(default_factory=dict)
    question_id: str = ""
    warnings: Warnings = None


class QuestionsReply(BaseModel):
    """Questions to ask."""

    service_id: str
    related_questions: list[str]


class CompletedTextsReply(BaseModel):
    """Completed texts."""

    completions: list[str]


class CompletedText(BaseModel):
    """One completion."""

    text: str
    text_with_markups: str
    text_with_inverted_markups: str


class CompletedFieldsReply(BaseModel):
    """Completions by field."""

    completions: dict[str, list[CompletedText]]
