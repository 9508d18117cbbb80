"""The text generation endpoint: it writes short texts about given products with the configured language model.

    template, instructions    -> a task; its text is written in the background
    task_id                   -> the task: queued, running, finished or failed, and its text

Every sentence cites a product, and one that the product's text does not support is dropped. Without a language model
(`KIOSK_LLM_URL`) every valid body gets 404, because there is no template, task or instruction to run.

Published in `docs/reference/rest.md`, section Generation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from actors.answers.client import QuestionClient
from cluster.clock import Clock
from cluster.errors import NotFound, Unavailable, messages
from cluster.ids import new_question_id
from cluster.records.question import (
    ANSWER_WITHIN_MS,
    GENERATING,
    NOTHING_SUPPORTED,
    TEMPLATES,
    Question,
    TextGeneration,
)
from cluster.store.archive.user_questions import QuestionStore, StoredQuestion
from cluster.store.data.records import RecordStore
from cluster.store.stores import Stores
from deployments.api.http.endpoint import Endpoint, EndpointTexts, body_parser
from deployments.api.wire.ask import parse_question_id
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.api.wire.validation_errors import build_error, refuse, validate_body
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.http.replies import Reply, success
from deployments.edge.http.request import ApiRequest

NOTHING_TO_DO = "one of template, instructions, task_id is required"
MOST_PRODUCTS = 10
MOST_INSTRUCTIONS = 2_000
_ANY_OF: JsonDict = {"anyOf": [{"required": [name]} for name in ("template", "instructions", "task_id")]}
_Id = Annotated[str, Field(min_length=1, max_length=512)]


class Generation(BaseModel):
    """What to generate. `null` equals absence."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_ANY_OF)

    template: Any = Field(None, description=f"What to write: {', '.join(f'`{name}`' for name in TEMPLATES)}.")
    instructions: Any = Field(
        None,
        description=f"What to write, in your words, beside or instead of a template; at most "
        f"{MOST_INSTRUCTIONS:,} characters.",
    )
    product_ids: Any = Field(
        None,
        description=f"1 to {MOST_PRODUCTS} products whose texts are the only sources. Not for `task_id`.",
    )
    task_id: Any = Field(None, description="The id of an earlier task: returns its state and text.")

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Generation:
        if self.template is None and self.instructions is None and self.task_id is None:
            raise build_error(NOTHING_TO_DO)
        return self


class _NewTask(BaseModel):
    """The same body, checked for a language model that is configured."""

    model_config = ConfigDict(extra="ignore", strict=True)

    template: str | None = None
    instructions: Annotated[str, Field(min_length=1, max_length=MOST_INSTRUCTIONS)] | None = None
    product_ids: Annotated[list[_Id], Field(min_length=1, max_length=MOST_PRODUCTS)]


class GeneratedSentence(BaseModel):
    """A sentence of the text."""

    text: str
    product_id: str = Field(description="The product whose text supports the sentence.")
    support: float = Field(description="How well it does, 0 to 1.")


class GeneratedSource(BaseModel):
    """A product that supports the text."""

    product_id: str
    title: str


class GenerationReply(BaseModel):
    """A task of text generation."""

    task_id: str = Field(description="The id of the task, to fetch it with.")
    status: Literal["queued", "running", "finished", "failed"] = Field(description="How far the task is.")
    template: str = Field("", description="The template that was asked for; empty for instructions.")
    text: str = Field("", description="The text, once the task is finished.")
    sentences: list[GeneratedSentence] = Field(
        default_factory=list, description="The checked sentences, each with the product that supports it."
    )
    sources: list[GeneratedSource] = Field(default_factory=list, description="The products that were read.")
    reason: str = Field("", description="Why the task failed.")


NO_PROVIDER = (
    "no text generator is installed, so there is no template, task or instruction to run; "
    "ask questions at POST /v1/ask/questions"
)


class GenerationResource:
    """The endpoint of text generation. Without a question client there is no language model."""

    def __init__(
        self,
        client: QuestionClient | None,
        questions: QuestionStore,
        records: RecordStore,
        clock: Clock,
    ) -> None:
        self._client = client
        self._questions = questions
        self._records = records
        self._clock = clock

    async def answer(self, request: ApiRequest) -> Reply:
        """Accept a task, or return one.

        Errors:
            NotFound: there is no language model, or no such task
            Unprocessable: a field is invalid, or a product does not exist
            TooMany, Unavailable: too many tasks wait, or the store is away
        """
        body: Generation = request.parsed
        if self._client is None or not self._client.can_generate:
            raise NotFound(NO_PROVIDER)
        if body.task_id is not None:
            return await self._show(request, body.task_id)
        return await self._accept(self._client, request)

    async def _show(self, request: ApiRequest, task_id: Any) -> Reply:
        try:
            stored = await self._questions.read(request.app_id, parse_question_id(task_id))
        except ValueError:
            # An id of another form names no task, so it gets the answer of an unknown one.
            stored = None
        # Questions and tasks share one store and one form of ids.
        if stored is None or stored.question.generation is None:
            raise NotFound(messages.NOT_FOUND)
        return success(_render(stored))

    async def _accept(self, client: QuestionClient, request: ApiRequest) -> Reply:
        task = validate_body(_NewTask, request.payload)
        if task.template is not None and task.template not in TEMPLATES:
            refuse(f"there is no such template; choose from {', '.join(TEMPLATES)}", "template")
        reason = request.gate.why_no_writes()
        if reason:
            raise Unavailable(reason, retry_after_s=10, told=True)
        records = await self._records.get_many(request.app_id, "product", task.product_ids)
        for at, record in enumerate(records):
            if record is None:
                refuse("no product has this id", "product_ids", at)
        now_ms = self._clock.now_ms()
        generation = TextGeneration(
            template=task.template or "",
            instructions=task.instructions or "",
            product_ids=tuple(dict.fromkeys(task.product_ids)),
        )
        question = Question(
            question_id=new_question_id(),
            app_id=request.app_id,
            text=generation.instructions or generation.template,
            asked_at=now_ms,
            deadline_at=now_ms + ANSWER_WITHIN_MS,
            generation=generation,
        )
        await client.submit(question)
        return success({"task_id": question.question_id, "status": "queued"})


def _render(stored: StoredQuestion) -> dict[str, Any]:
    """Return a task as the interface shows it."""
    question = stored.question
    answer = stored.answer
    task = {
        "task_id": question.question_id,
        "status": "running" if answer.stage == GENERATING else "queued",
        "template": question.generation.template if question.generation else "",
    }
    if not answer.finished:
        return task
    if answer.finish_reason != "success" or not answer.sentences:
        return {**task, "status": "failed", "reason": answer.blocked_reason or NOTHING_SUPPORTED}
    return {
        **task,
        "status": "finished",
        "text": " ".join(sentence.text for sentence in answer.sentences),
        "sentences": [
            {
                "text": sentence.text,
                "product_id": answer.passages[sentence.passage].product_id,
                "support": round(sentence.support, 3),
            }
            for sentence in answer.sentences
        ],
        "sources": list(
            {
                passage.product_id: {"product_id": passage.product_id, "title": passage.title}
                for passage in answer.passages
            }.values()
        ),
    }


class HasQuestionClient(Protocol):
    """What the ask endpoints depend on, as far as text generation needs it."""

    @property
    def client(self) -> QuestionClient:
        """Accepts tasks, as it accepts questions."""
        ...


def build_generation_endpoint(ask: HasQuestionClient | None, stores: Stores, clock: Clock) -> Endpoint:
    """Return the endpoint; without the ask endpoints there is no language model."""
    resource = GenerationResource(
        None if ask is None else ask.client, stores.questions, stores.records, clock
    )
    return Endpoint(
        "genai.generate",
        "POST",
        "/v1/genai/generate",
        AdmissionRules(body="json", bucket="write"),
        "detail",
        resource.answer,
        schema=body_parser(Generation),
        about=EndpointTexts(
            "Generate a text about products",
            "Generation",
            Generation,
            {200: build_envelope(GenerationReply), 404: MessageReply},
        ),
    )
