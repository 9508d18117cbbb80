"""Write short texts about given products with the configured language model; every sentence is checked.

    products -> passages -> model -> sentences with citations -> supported by their passage? -> kept

A task is a question that nobody asked: it waits in the same queue, has the same lease, and its answer holds the text.
So a process may die at any moment, and another one continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import structlog

from actors.answers.answer_pipeline import AnswerPipeline, AnswerServices
from actors.answers.extractive.answer_composer import ComposedAnswer
from actors.answers.leased_answer import LeasedAnswer
from actors.answers.llm.draft import Draft
from actors.answers.llm.writer import LanguageModelError, LanguageModelWriter
from actors.answers.passage_filter import load_products
from actors.answers.render import drop_uncited, passage_from_snippet, sentences_from_composed
from actors.archive.messages import Snippet
from actors.archive.passages import document_from_product
from cluster.errors import KioskError
from cluster.records.question import (
    FETCHING,
    GENERATING,
    NOTHING_SUPPORTED,
    TEMPLATES,
    TextGeneration,
)

NO_TEXT = "none of the products has a text"
NO_MODEL = "the language model is not configured any more"
MODEL_FAILED = "the language model did not answer; try again"
LIMIT_REACHED = "the app's language-model tokens for today are used up"
_MOST_PASSAGES = 12
_CHARS_A_TOKEN = 3
_RESERVED = 1_000
_RULES_CHARS = 1_800
_DAY_MS = 86_400_000


def combine_instructions(generation: TextGeneration) -> str:
    """Return what a task asks for: its template, then its own instructions."""
    return "\n".join(
        part for part in (TEMPLATES.get(generation.template, ""), generation.instructions) if part
    )


def passages_from_products(
    product_ids: Sequence[str], products: Mapping[str, Mapping[str, Any]]
) -> list[Snippet]:
    """Return passages of products, the beginnings of all products first."""
    documents = [
        document_from_product(products[product_id])
        for product_id in dict.fromkeys(product_ids)
        if product_id in products
    ]
    parts = [
        Snippet(
            product_id=document.product_id,
            position=place,
            title=document.title,
            child_title="",
            authors=document.authors,
            published=document.published,
            url=document.url,
            text=document.passage_text(passage),
            score=1.0,
            licence=document.licence,
        )
        for document in documents
        if document is not None
        for place, passage in enumerate(document.passages)
    ]
    # Stable, so products keep their order within each position.
    return sorted(parts, key=lambda part: part.position)[:_MOST_PASSAGES]


class GenerationPipeline:
    """Brings tasks to their end; keeps no state of them."""

    def __init__(self, services: AnswerServices) -> None:
        self._services = services
        self._log = structlog.get_logger()

    async def run(self, hand: LeasedAnswer) -> None:
        """Generate the text of a task.

        Errors:
            LeaseLost: another process has it
            KioskError: it could not be done now
        """
        generation = hand.question.generation
        assert generation is not None
        writer = self._services.writer
        services = self._services
        if writer is None:
            return await _fail(hand, NO_MODEL)
        await hand.write_revision(stage=FETCHING)
        products = await load_products(services.records, hand.question.app_id, generation.product_ids)
        snippets = passages_from_products(generation.product_ids, products)
        if not snippets:
            return await _fail(hand, NO_TEXT)
        instructions = combine_instructions(generation)
        day = services.clock.now_ms() // _DAY_MS
        most = services.daily_token_limit(hand.question.app_id)
        chars = _RULES_CHARS + len(instructions) + sum(len(snippet.text) for snippet in snippets)
        # Booked before the model is called: concurrent tasks can't exceed the limit together.
        tokens = chars // _CHARS_A_TOKEN + _RESERVED
        if not await services.questions.spend_tokens(hand.question.app_id, day, tokens, most=most):
            return await _fail(hand, LIMIT_REACHED)
        draft = Draft(snippets)
        try:
            reason = await self._write(hand, writer, instructions, snippets, draft)
        finally:
            # The rest is given back, also after a failure.
            spare = _RESERVED - draft.chars // _CHARS_A_TOKEN
            services.meter.count("kiosk_provider_tokens_total", tokens - spare, app=hand.question.app_id)
            # Without the refund the app has some tokens fewer today, which must not fail the text.
            with suppress(KioskError):
                await services.questions.spend_tokens(hand.question.app_id, day, -spare, most=0)
        services.meter.count("kiosk_model_sentences_dropped_total", draft.dropped)
        if not draft.kept:
            return await _fail(hand, reason or NOTHING_SUPPORTED)
        composed, cited = drop_uncited(
            ComposedAnswer(tuple(draft.kept), refused=False, confidence=1.0), snippets
        )
        await hand.finish(
            finish_reason="success",
            sentences=sentences_from_composed(composed),
            passages=tuple(passage_from_snippet(snippet) for snippet in cited),
            composer="model",
        )

    async def _write(
        self,
        hand: LeasedAnswer,
        writer: LanguageModelWriter,
        instructions: str,
        snippets: Sequence[Snippet],
        draft: Draft,
    ) -> str:
        """Let the model write; return why it stopped early, empty if it did not."""
        loop = asyncio.get_running_loop()
        await hand.write_revision(stage=GENERATING)
        reason = ""
        try:
            async with aclosing(writer.generate(instructions, snippets)) as pieces:
                async for piece in pieces:
                    # Checking a sentence takes a millisecond of processor
                    # time, which polls must not wait for.
                    await loop.run_in_executor(self._services.executor, partial(draft.feed, piece))
                    if draft.is_full:
                        break
        except LanguageModelError as error:
            self._log.warning("model_failed", reason=str(error), sentences=len(draft.kept))
            self._services.meter.count("kiosk_model_failures_total")
            reason = MODEL_FAILED
        await loop.run_in_executor(self._services.executor, draft.close)
        return reason


async def _fail(hand: LeasedAnswer, reason: str) -> None:
    await hand.finish(finish_reason="error", blocked_reason=reason)


class QuestionWorker:
    """Brings what waits in the question queue to its end: questions, and tasks of text generation."""

    def __init__(self, services: AnswerServices) -> None:
        self.answering = AnswerPipeline(services)
        self._generation = GenerationPipeline(services)

    async def answer(self, hand: LeasedAnswer) -> None:
        """Answer a question, or generate the text of a task.

        Errors:
            LeaseLost: another process has it
            KioskError: it could not be done now
        """
        if hand.question.generation is None:
            await self.answering.answer(hand)
        else:
            await self._generation.run(hand)
