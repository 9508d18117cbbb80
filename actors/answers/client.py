"""The client of questions, and how a process opens it with all that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from actors.answers.affiliate_products import AffiliationRules, no_affiliation
from actors.answers.answer_pipeline import AnswerPipeline, AnswerServices, unlimited_tokens
from actors.answers.citation_recheck import CitationRechecker
from actors.answers.extractive.followups import generate_related_questions
from actors.answers.leased_questions import OnAnswered, OnTakenOver, QuestionQueue
from actors.answers.llm.provider_endpoint import LanguageModelConfig
from actors.answers.llm.writer import LanguageModelWriter
from actors.answers.render import (
    excerpts_from_article,
    find_question_words,
    highlight,
    render_answer,
    snippet_from_passage,
)
from actors.answers.text_generation import QuestionWorker
from actors.archive.client import ArchiveClient
from actors.archive.messages import ArchiveQuery, Snippet
from cluster.clock import Clock
from cluster.ids import new_request_id
from cluster.meter import Meter
from cluster.records.question import Answer, Format, Question
from cluster.store.archive.user_questions import StoredQuestion
from cluster.store.stores import Stores

_READ = 24
"Passages read to generate questions."
_MOST_RELATED = 3
"Related products whose texts are read when a product's text gives too few questions."


class QuestionClient:
    """Accepts questions and answers them in this process after the reply; the question store holds the answers."""

    def __init__(
        self,
        answering: AnswerPipeline,
        archive: ArchiveClient,
        queue: QuestionQueue,
        rechecker: CitationRechecker,
        thinking: ThreadPoolExecutor,
        writer: LanguageModelWriter | None = None,
    ) -> None:
        self._answering = answering
        self._archive = archive
        self._writer = writer
        self._thinking = thinking
        self.queue = queue
        self.rechecker = rechecker
        self._rechecking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to claim questions."""
        await self.queue.start()
        self._rechecking = asyncio.get_running_loop().create_task(self.rechecker.follow())

    async def close(self) -> None:
        """Release the questions in work."""
        if self._rechecking is not None:
            self._rechecking.cancel()
            await asyncio.gather(self._rechecking, return_exceptions=True)
        await self.queue.close()
        if self._writer is not None:
            await self._writer.close()
        self._thinking.shutdown(wait=False, cancel_futures=True)

    @property
    def can_generate(self) -> bool:
        """Return whether a language model that writes texts is configured."""
        return self._writer is not None

    async def submit(self, question: Question, entitled: Question | None = None) -> bool:
        """Store a question, with its entitled one, and begin to answer; return False when it existed before.

        Errors:
            TooMany, Unavailable
        """
        return await self.queue.submit(question, entitled)

    async def refuse(self, question: Question, reason: str) -> bool:
        """Store a question of a user without permission: finished, `forbidden`."""
        return await self.queue.refuse(question, reason)

    async def render_answer(self, recorded: StoredQuestion, form: Format) -> dict[str, Any]:
        """Render an answer in another format than its question requested."""
        question = recorded.question
        answer = recorded.answer
        if form.source_fl != question.format.source_fl:
            answer = await self._add_fields(question, answer, "passages", form.source_fl)
        if form.related_resource_fl != question.format.related_resource_fl:
            answer = await self._add_fields(question, answer, "related", form.related_resource_fl)
        return render_answer(question, answer, form)

    async def retrieve(self, query: ArchiveQuery, fq: str = "", boost_fq: str = "") -> list[Snippet]:
        """Return the passages from which an answer would be made, after filters over their products."""
        return await self._answering.retrieve(query, fq, boost_fq)

    async def suggest_questions(self, app_id: str, text: str, rows: int) -> list[str]:
        """Return questions about a text that the archive can answer."""
        passages = await self._answering.retrieve(ArchiveQuery(app_id, text, rows=_READ, type=None), "", "")
        return await self._related(text, passages, rows)

    async def suggest_product_questions(self, app_id: str, product_id: str, rows: int) -> list[str]:
        """Return questions about a product; none for a product that is not in the archive."""
        questions = await self._questions_answered_by(app_id, product_id, rows)
        if len(questions) < rows:
            named = await self._answering.list_related_ids(app_id, [product_id])
            for other in named[:_MOST_RELATED]:
                questions += await self._questions_answered_by(app_id, other, rows)
        return list(dict.fromkeys(questions))[:rows]

    def highlight_excerpt(self, text: str, question: str, most_chars: int) -> str:
        """Return an excerpt of a text around the question's words: HTML-escaped, with `<mark>`."""
        return highlight(text, find_question_words(text, question), most_chars=most_chars)

    async def _questions_answered_by(self, app_id: str, product_id: str, rows: int) -> list[str]:
        """Return questions that the text of one product answers."""
        article = await self._archive.article(app_id, product_id, 0)
        return (
            []
            if article is None
            else await self._related(article.title, excerpts_from_article(article), rows)
        )

    async def _related(self, text: str, snippets: Sequence[Snippet], rows: int) -> list[str]:
        loop = asyncio.get_running_loop()
        return list(
            await loop.run_in_executor(self._thinking, generate_related_questions, text, snippets, _READ)
        )[:rows]

    async def _add_fields(
        self, question: Question, answer: Answer, name: str, fields: Sequence[str]
    ) -> Answer:
        snippets = [snippet_from_passage(passage) for passage in getattr(answer, name)]
        filled = await self._answering.add_fields(
            question.app_id, snippets, fields, frozenset(answer.access), pictured=name == "passages"
        )
        return answer.model_copy(update={name: filled})


def open_question_client(
    stores: Stores,
    archive: ArchiveClient,
    clock: Clock,
    meter: Meter,
    *,
    app_ids: Callable[[], Sequence[str]],
    begun: OnTakenOver | None = None,
    answered: OnAnswered | None = None,
    llm: Mapping[str, Any] | None = None,
    writer: LanguageModelWriter | None = None,
    llm_token_limit: Callable[[str], int] = unlimited_tokens,
    affiliation_of: Callable[[str], tuple[str, tuple[str, ...]]] | None = None,
) -> QuestionClient:
    """Open the client with all its parts; nothing runs before `start`. `llm` contains the fields of
    `LanguageModelConfig`; without it no language model is called. `llm_token_limit` bounds the model tokens for an
    app's answers on a day; `affiliation_of` returns an app's filter of partners' products, and the fields
    that browsers can't read.

    Errors:
        Invalid: the terms make no sense
    """
    if llm is not None:
        writer = LanguageModelWriter(LanguageModelConfig(**llm), clock, meter)

    async def apps() -> Sequence[str]:
        return app_ids()

    thinking = ThreadPoolExecutor(1, thread_name_prefix="answers")
    tools = AnswerServices(
        stores.questions,
        archive,
        stores.records,
        clock,
        meter,
        thinking,
        writer,
        llm_token_limit,
        no_affiliation
        if affiliation_of is None
        else lambda app_id: AffiliationRules(*affiliation_of(app_id)),
    )
    worker = QuestionWorker(tools)
    name = f"answers-{new_request_id()}"
    queue = QuestionQueue(
        stores.questions,
        worker,
        clock,
        meter,
        name=name,
        app_ids=apps,
        begun=begun,
        answered=answered,
        # A model takes seconds that depend on much else; without one, the thread is what both would wait for.
        open_first=writer is None,
    )
    rechecker = CitationRechecker(stores, clock, meter, thinking, name=name, app_ids=apps)
    return QuestionClient(worker.answering, archive, queue, rechecker, thinking, writer)
