"""Answer a question in visible stages; the worker may crash after any of them, and another one continues.

    Fetching related content    passages by words and meaning, after the question's filters
    Verifying possible answers  reuse the stored answer to the same question over the same passages, else compose
    Generating summary          a language model writes from the passages; each sentence is checked before it is shown
    finished                    success (with or without sources) or error

Without a model, the composed answer is the answer. With one, it is the fallback when the model fails.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import structlog

from actors.answers.affiliate_products import (
    SEARCHED,
    RulesOf,
    list_relevant_ids,
    no_affiliation,
    select_affiliated,
)
from actors.answers.answer_digest import compute_digest
from actors.answers.extractive.answer_composer import ComposedAnswer, compose_answer
from actors.answers.extractive.followups import (
    generate_related_questions,
    resolve_followup,
    validate_rewriting,
)
from actors.answers.extractive.injection_filter import clean_text
from actors.answers.leased_answer import LeasedAnswer
from actors.answers.llm.draft import Draft
from actors.answers.llm.writer import LanguageModelError, LanguageModelWriter
from actors.answers.passage_filter import (
    add_product_fields,
    collect_related_ids,
    filter_passages,
    keep_readable,
    load_products,
)
from actors.answers.render import (
    composed_from_answer,
    drop_uncited,
    excerpts_from_article,
    passage_from_snippet,
    sentences_from_composed,
    snippet_from_passage,
)
from actors.archive.client import ArchiveClient
from actors.archive.messages import ArchiveQuery, Snippet
from cluster.access_tier import NOBODY
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.query.language.parser import parse
from cluster.records.question import FETCHING, GENERATING, VERIFYING, CitedPassage, Question
from cluster.store.archive.user_questions import QuestionStore, user_key_from_question
from cluster.store.data.records import RecordStore

PASSAGE_ROWS = 12
"Passages from which an answer is made."
_FILTERED_ROWS = 400
"Passages searched when a filter leaves few."
_BATCH = 24
_RELATED = 5
REUSE_MS = 7 * 86_400_000
_DAY_MS = 86_400_000
_CHARS_A_TOKEN = 3
"Characters per token of prompt and reply, a low estimate: the provider's count comes too late."
_MOST_SOURCE_CHARS = 2_000
_RULES_CHARS = 1_500
"Characters of the prompt beside question and sources."
_RESERVED = 1_000
"Tokens reserved for the model's reply, until its length is known."
_REWRITE_S = 3.0
"Time limit of a model for rewriting a follow-up question."
_REWRITE_TOKENS = 400
"Tokens of rules and reply of a rewriting."
_STANDARD_FIELDS = frozenset({"title", "product_id", "snippet"})

T = TypeVar("T")


def unlimited_tokens(app_id: str) -> int:
    """Allow any number of tokens."""
    return 0


@dataclass(frozen=True, slots=True)
class AnswerServices:
    """The dependencies of answering."""

    questions: QuestionStore
    archive: ArchiveClient
    records: RecordStore
    clock: Clock
    meter: Meter
    executor: ThreadPoolExecutor
    writer: LanguageModelWriter | None = None
    daily_token_limit: Callable[[str], int] = unlimited_tokens
    "App -> maximal number of model tokens for its answers on a day; 0: no limit."
    affiliation_of: RulesOf = no_affiliation
    "App -> which products of partners stand beside its answers."


class AnswerPipeline:
    """Answers questions one at a time; keeps no state of them."""

    def __init__(self, tools: AnswerServices) -> None:
        self._services = tools
        self._log = structlog.get_logger()

    async def answer(self, hand: LeasedAnswer) -> None:
        """Bring a question to its end.

        Errors:
            LeaseLost: another process has the question
            KioskError: it could not be answered now
        """
        question = hand.question
        question_text = await self._rewrite_standalone(hand) if question.before else question.text
        rewritten = (
            {"question": question_text}
            if question.before and question_text != clean_text(question.text)
            else {}
        )
        if question.is_entitled:
            retrieved = await self._retrieve_with_retries(question, question_text)
            snippets, access = await keep_readable(self._services.records, question, retrieved)
            if not access:
                return await hand.discard()  # no locked article takes part: the open answer is the answer
            # The first revision that shows is this one, so that a discarded answer never had a later one than
            # the open answer, which its asker gets then.
            await hand.write_revision(stage=VERIFYING, access=access, sentences=(), passages=(), **rewritten)
        else:
            await hand.write_revision(stage=FETCHING, **rewritten)
            snippets = await self._retrieve_with_retries(question, question_text)
            await hand.write_revision(stage=VERIFYING)
        writer = self._services.writer
        digest = compute_digest(
            question_text,
            question.language,
            snippets,
            writer.name if writer is not None else "",
            hand.answer.access,
        )
        if await self._reuse_answer(hand, digest, snippets):
            return
        composed = await self._run_in_thread(
            partial(compose_answer, question_text, snippets, language=question.language)
        )
        followups = await self._run_in_thread(partial(generate_related_questions, question_text, snippets))
        composer = "extractive"
        if self._services.writer is not None and snippets:
            written = await self._write_within_budget(hand, question_text, snippets, composed)
            composed, composer = (composed, composer) if written is None else (written, "model")
        if question.is_entitled and not composed.sentences:
            return await hand.discard()
        await self._finish(hand, composed, snippets, followups, composer)
        # Not if the model failed: the next question shall try it again.
        if composed.sentences and (self._services.writer is None or composer == "model"):
            await self._services.questions.remember(
                question.app_id, digest, question.question_id, ttl_ms=REUSE_MS
            )

    async def _rewrite_standalone(self, hand: LeasedAnswer) -> str:
        """Rewrite a follow-up as a question that is clear without the questions before it.

        The pipeline calls a model only for a question that needs it. The model may use only words of the questions.
        """
        question = hand.question
        question_text = resolve_followup(question.text, question.before)
        writer = self._services.writer
        if writer is None or question_text == clean_text(question.text):
            return question_text
        tools = self._services
        app_id = question.app_id
        chars = len(question.text) + sum(map(len, question.before))
        tokens = chars // _CHARS_A_TOKEN + _REWRITE_TOKENS
        day = tools.clock.now_ms() // _DAY_MS
        if not await tools.questions.spend_tokens(app_id, day, tokens, most=tools.daily_token_limit(app_id)):
            return question_text
        hand.model_tokens += tokens
        tools.meter.count("kiosk_provider_tokens_total", tokens, app=app_id)
        try:
            written = await run_within(writer.rewrite(question.text, question.before), _REWRITE_S)
        except (LanguageModelError, asyncio.TimeoutError) as error:
            self._log.warning("question_not_rewritten", reason=str(error) or "too late")
            return question_text
        return validate_rewriting(written, question.text, question.before) or question_text

    async def retrieve(self, query: ArchiveQuery, fq: str, boost_fq: str) -> list[Snippet]:
        """Return passages that pass the filters over their products."""
        if not fq.strip() and not boost_fq.strip():
            return list((await self._services.archive.ask(query)).snippets)
        wide = await self._services.archive.ask(replace(query, rows=max(_FILTERED_ROWS, query.rows)))
        kept: list[Snippet] = []
        # In batches: records are read only until enough passages pass the filter.
        for start in range(0, len(wide.snippets), _BATCH):
            batch = wide.snippets[start : start + _BATCH]
            ids = [snippet.product_id for snippet in batch]
            products = await load_products(self._services.records, query.app_id, ids, query.tiers)
            kept += filter_passages(batch, products, fq, boost_fq)
            # A boost may raise later passages, so some more are read before the order is trusted.
            if len(kept) >= query.rows and (not boost_fq.strip() or start >= 3 * _BATCH):
                break
        kept.sort(key=lambda snippet: -snippet.score)
        return kept[: query.rows]

    async def _retrieve_with_retries(self, question: Question, question_text: str) -> list[Snippet]:
        query = ArchiveQuery(
            question.app_id,
            question_text,
            rows=PASSAGE_ROWS,
            type=question.type,
            yearly_decay=question.yearly_decay,
            exclude=question.exclude,
            only=None if question.only is None else frozenset(question.only),
            tiers=frozenset(question.tiers),
        )
        for pause_s in (0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            try:
                return await self.retrieve(query, question.fq, question.boost_fq)
            except Unavailable:
                await asyncio.sleep(pause_s)
        return await self.retrieve(query, question.fq, question.boost_fq)

    async def _reuse_answer(self, hand: LeasedAnswer, digest: str, snippets: Sequence[Snippet]) -> bool:
        """Return the stored answer to the same question over the same passages, if any."""
        tools = self._services
        app_id = hand.question.app_id
        before = await tools.questions.recall(app_id, digest)
        recorded = await tools.questions.read(app_id, before) if before else None
        if recorded is None or recorded.answer.finish_reason != "success" or not recorded.answer.sentences:
            return False
        recorded_snippets = [snippet_from_passage(passage) for passage in recorded.answer.passages]
        composed = composed_from_answer(recorded.answer)
        tools.meter.count("kiosk_answers_reused_total")
        await self._finish(
            hand, composed, [*recorded_snippets, *snippets], recorded.answer.followups, "reused"
        )
        return True

    async def _write_within_budget(
        self, hand: LeasedAnswer, question_text: str, snippets: Sequence[Snippet], composed: ComposedAnswer
    ) -> ComposedAnswer | None:
        """Return the model's answer within the app's daily token limit; None at the limit or when the
        model fails.
        """
        question = hand.question
        tools = self._services
        day = tools.clock.now_ms() // _DAY_MS
        most = tools.daily_token_limit(question.app_id)
        sources = sum(min(len(snippet.text), _MOST_SOURCE_CHARS) for snippet in snippets)
        prompt = (_RULES_CHARS + len(question_text) + sources) // _CHARS_A_TOKEN
        if not await tools.questions.spend_tokens(question.app_id, day, prompt + _RESERVED, most=most):
            tools.meter.count("kiosk_provider_ceiling_total", app=question.app_id)
            self._log.warning("provider_ceiling_reached", app=question.app_id, most=most)
            return None
        draft = Draft(snippets)
        try:
            return await self._write_with_model(hand, question_text, snippets, draft, composed)
        finally:
            spare = _RESERVED - draft.chars // _CHARS_A_TOKEN
            hand.model_tokens += prompt + _RESERVED - spare
            tools.meter.count("kiosk_provider_tokens_total", prompt + _RESERVED - spare, app=question.app_id)
            # An answer must not fail because its unused tokens can't be given back.
            with contextlib.suppress(KioskError):
                await tools.questions.spend_tokens(question.app_id, day, -spare, most=0)

    async def _write_with_model(
        self,
        hand: LeasedAnswer,
        question_text: str,
        snippets: Sequence[Snippet],
        draft: Draft,
        composed: ComposedAnswer,
    ) -> ComposedAnswer | None:
        """Return the model's answer; None when the composed answer is better."""
        assert self._services.writer is not None
        first = True
        await hand.write_revision(stage=GENERATING)
        try:
            async with aclosing(self._services.writer.write(question_text, snippets)) as pieces:
                async for piece in pieces:
                    if await self._run_in_thread(partial(draft.feed, piece)):
                        await self._write_draft(hand, draft, snippets)
                        if first:
                            self._record_duration("kiosk_answer_first_sentence_ms", hand)
                        first = False
                    if draft.is_full:
                        break
        except LanguageModelError as error:
            self._log.warning("model_failed", reason=str(error), sentences=len(draft.kept))
            self._services.meter.count("kiosk_model_failures_total")
        if await self._run_in_thread(draft.close):
            await self._write_draft(hand, draft, snippets)
        self._services.meter.count("kiosk_model_sentences_dropped_total", draft.dropped)
        if draft.kept:
            return ComposedAnswer(tuple(draft.kept), refused=False, confidence=1.0)
        return ComposedAnswer() if draft.refused else None

    async def _write_draft(self, hand: LeasedAnswer, draft: Draft, snippets: Sequence[Snippet]) -> None:
        grown, cited = drop_uncited(
            ComposedAnswer(tuple(draft.kept), refused=False, confidence=1.0), snippets
        )
        await hand.write_revision(
            sentences=sentences_from_composed(grown),
            passages=tuple(passage_from_snippet(snippet) for snippet in cited),
        )

    async def _finish(
        self,
        hand: LeasedAnswer,
        composed: ComposedAnswer,
        snippets: Sequence[Snippet],
        followups: Sequence[str],
        composer: str,
    ) -> None:
        composed, cited = drop_uncited(composed, snippets)
        form = hand.question.format
        app_id = hand.question.app_id
        access = frozenset(hand.answer.access)
        products = await load_products(
            self._services.records, app_id, [snippet.product_id for snippet in cited], access
        )
        beside = await self._select_related(hand, snippets, products)
        affiliated = await self._select_affiliated(hand, products) if composed.sentences else ()
        await hand.finish(
            finish_reason="success",
            sentences=sentences_from_composed(composed),
            passages=add_product_fields(cited, products, form.source_fl, pictured=True),
            related=await self.add_fields(app_id, beside, form.related_resource_fl, access),
            affiliated=affiliated,
            followups=tuple(followups),
            composer=composer,
        )
        self._record_duration("kiosk_answer_ms", hand)
        if hand.question.is_counted_late and composed.sentences:
            await self._count_as_popular(hand.question)

    async def _count_as_popular(self, question: Question) -> None:
        user_key = user_key_from_question(question)
        with contextlib.suppress(KioskError):
            await self._services.questions.record_question(
                question.app_id, question.text, user_key, question.asked_at // _DAY_MS
            )

    async def add_fields(
        self,
        app_id: str,
        snippets: Sequence[Snippet],
        names: Sequence[str],
        access: frozenset[str] = NOBODY,
        *,
        pictured: bool = False,
    ) -> tuple[CitedPassage, ...]:
        """Add the requested fields of their products to passages, and perhaps their pictures."""
        if not pictured and set(names) <= _STANDARD_FIELDS:
            return tuple(passage_from_snippet(snippet) for snippet in snippets)
        ids = [snippet.product_id for snippet in snippets]
        products = await load_products(self._services.records, app_id, ids, access)
        return add_product_fields(snippets, products, names, pictured=pictured)

    async def list_related_ids(self, app_id: str, product_ids: Sequence[str]) -> list[str]:
        """Return the ids in `related_ids` of some products, without those products."""
        return collect_related_ids(await load_products(self._services.records, app_id, product_ids))

    async def _select_related(
        self, hand: LeasedAnswer, snippets: Sequence[Snippet], cited: Mapping[str, Mapping[str, Any]]
    ) -> list[Snippet]:
        """Return products to read after an answer: related ids of its sources first, then other retrieved products.

        Cost:
            one read of products, only when sources name products that were not retrieved
        """
        # Reversed, so that the best passage of each product is the one that stays.
        others = {
            snippet.product_id: snippet for snippet in reversed(snippets) if snippet.product_id not in cited
        }
        named = [
            product_id for product_id in collect_related_ids(cited) if product_id not in hand.question.exclude
        ][:_RELATED]
        missing = [product_id for product_id in named if product_id not in others]
        if missing:
            with contextlib.suppress(KioskError):
                others.update(
                    {excerpt.product_id: excerpt for excerpt in await self._load_excerpts(hand, missing)}
                )
        related = [others.pop(product_id) for product_id in named if product_id in others]
        return [*related, *sorted(others.values(), key=lambda snippet: -snippet.score)][:_RELATED]

    async def _select_affiliated(
        self, hand: LeasedAnswer, cited: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, Any], ...]:
        """Return products of partners: related ids of the sources first, then those that the question finds.

        Cost:
            nothing without the app's `affiliation_fq`; else one search of passages and one read of products
        """
        tools = self._services
        app_id = hand.question.app_id
        question_text = hand.answer.question or hand.question.text
        rules = tools.affiliation_of(app_id)
        if not rules.fq:
            return ()
        try:
            rule = parse(rules.fq)
            query = ArchiveQuery(app_id, question_text, rows=SEARCHED, per_product=1, type=None)
            snippets = await self.retrieve(query, rules.fq, "")
            ids = [*collect_related_ids(cited), *list_relevant_ids(snippets, question_text)]
            products = await load_products(tools.records, app_id, ids)
        except KioskError as error:
            # An answer without products of partners is better than none.
            self._log.warning("affiliation_missed", app=app_id, reason=error.message)
            return ()
        return select_affiliated(ids, products, rule, rules.hidden)

    async def _load_excerpts(self, hand: LeasedAnswer, product_ids: Sequence[str]) -> Sequence[Snippet]:
        """Return the beginning of the texts of some products that pass the question's filters."""
        tools = self._services
        question = hand.question
        app_id = question.app_id
        access = frozenset(hand.answer.access)
        articles = await asyncio.gather(
            *(tools.archive.article(app_id, product_id, 0, access) for product_id in product_ids)
        )
        snippets = [
            excerpt
            for article in articles
            if article is not None
            for excerpt in excerpts_from_article(article)[:1]
        ]
        products = await load_products(tools.records, app_id, product_ids, access)
        if question.type is not None:
            products = {
                name: product for name, product in products.items() if product.get("type") == question.type
            }
        return filter_passages(snippets, products, question.fq, "")

    async def _run_in_thread(self, thought: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._services.executor, thought)

    def _record_duration(self, name: str, hand: LeasedAnswer) -> None:
        self._services.meter.time(name, (self._services.clock.monotonic_s() - hand.began_s) * 1000)


def loggable_reason(error: BaseException) -> str:
    """Return the part of a failure's message that may be logged."""
    return error.message if isinstance(error, KioskError) else type(error).__name__
