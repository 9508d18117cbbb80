"""From a question to its finished answer, in stages that show; whoever works on it may die after any of them.

    Fetching related content    passages by words and meaning, sieved by the question's filters
    Verifying possible answers  the same question over the same passages was answered before? else compose
    Generating summary          a language model writes from the passages, each sentence checked before it shows
    finished                    success (with or without sources) or error

Without a model the composed answer is the answer; with one it is what remains when the model fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import orjson
import structlog

from actors.answers.answer_lease import InHand
from actors.answers.archive.client import ArchiveClient
from actors.answers.archive.messages import ArchiveQuery, Snippet
from actors.answers.draft import Draft
from actors.answers.extractive.answer_composer import Composed, compose
from actors.answers.extractive.followups import checked_rewriting, follow_up, related
from actors.answers.extractive.injection_filter import cleaned
from actors.answers.passage_filter import products_of, sift
from actors.answers.pictures import picture_of
from actors.answers.render import (
    composed_of,
    excerpts_of,
    kept_sentences,
    only_cited,
    passage_of,
    snippet_of,
)
from cluster.clock import Clock
from cluster.errors import HouseError, Unavailable
from cluster.meter import Meter
from cluster.query.fields import Projection
from cluster.records.question import FETCHING, GENERATING, VERIFYING, CitedPassage, Question
from cluster.store.ports.stores import QuestionStore, RecordStore

ROWS = 12
"Passages an answer is made from."
_SIEVED = 400
"Passages looked at when a filter leaves few."
_LOT = 24
_RELATED = 5
SAME_MS = 7 * 86_400_000
_DAY_MS = 86_400_000
_CHARS_A_TOKEN = 3
"Of a prompt and of what is written, on the careful side: the provider's own count comes too late."
_MOST_SOURCE_CHARS = 2_000
_RULES_CHARS = 1_500
"Of what the model is told beside question and sources."
_RESERVED = 1_000
"Tokens set aside for what the model writes, until it is known."
_REWRITE_S = 3.0
"How long a model may take to rewrite a follow-up question."
_REWRITE_TOKENS = 400
"Tokens of rules and reply of a rewriting."
_ALWAYS_THERE = frozenset({"title", "product_id", "snippet"})

T = TypeVar("T")


class ModelFailed(Exception):
    """The language model gave no (more) text: late, broken, refused. The reason is safe to log."""


class Writer(Protocol):
    """A language model that writes from passages."""

    @property
    def name(self) -> str:
        """What writes: part of what makes two answers the same."""
        ...

    def write(self, question: str, snippets: Sequence[Snippet]) -> AsyncGenerator[str, None]:
        """Write an answer, in pieces as they arrive.

        Errors:
            ModelFailed
        """
        ...


@runtime_checkable
class Rewriter(Protocol):
    """A language model that rewrites follow-up questions as standalone ones."""

    async def rewrite(self, question: str, before: Sequence[str]) -> str:
        """Rewrite a question; `before` oldest first.

        Errors:
            ModelFailed
        """
        ...


def no_bound(app_id: str) -> int:
    """Let an app spend as much as it likes."""
    return 0


@dataclass(frozen=True, slots=True)
class Tools:
    """What answering works with."""

    questions: QuestionStore
    archive: ArchiveClient
    records: RecordStore
    clock: Clock
    meter: Meter
    thinking: ThreadPoolExecutor
    writer: Writer | None = None
    tokens_of: Callable[[str], int] = no_bound
    "App -> tokens of the model its answers may cost on a day; 0: no bound."


class Answering:
    """Answers questions one at a time; holds nothing of them."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._log = structlog.get_logger()

    async def answer(self, hand: InHand) -> None:
        """Bring a question to its end.

        Errors:
            Lost: somebody else has it
            HouseError: it could not be answered now
        """
        question = hand.question
        asked = await self._standalone(question) if question.before else question.text
        rewritten = {"question": asked} if question.before and asked != cleaned(question.text) else {}
        await hand.show(stage=FETCHING, **rewritten)
        found = await self._fetch(question, asked)
        await hand.show(stage=VERIFYING)
        digest = digest_of(asked, question, found, self._tools.writer)
        if await self._same(hand, digest, found):
            return
        composed = await self._think(
            partial(compose, asked, found, language=question.language, now_ms=self._tools.clock.now_ms())
        )
        followups = await self._think(partial(related, asked, found))
        composer = "extractive"
        if self._tools.writer is not None and found:
            written = await self._paid(hand, asked, found, composed)
            composed, composer = (composed, composer) if written is None else (written, "model")
        await self._finish(hand, composed, found, followups, composer)
        if composed.sentences and (self._tools.writer is None or composer == "model"):
            await self._tools.questions.remember(
                question.app_id, digest, question.question_id, ttl_ms=SAME_MS
            )

    async def _standalone(self, question: Question) -> str:
        """Rewrite a follow-up so that it is understood without the questions before it.

        A model is asked only for a question that needs it, and what it writes must keep to the questions' words.
        """
        asked, writer = follow_up(question.text, question.before), self._tools.writer
        if not isinstance(writer, Rewriter) or asked == cleaned(question.text):
            return asked
        tools, app_id = self._tools, question.app_id
        chars = len(question.text) + sum(map(len, question.before))
        tokens, day = chars // _CHARS_A_TOKEN + _REWRITE_TOKENS, tools.clock.now_ms() // _DAY_MS
        if not await tools.questions.spend_tokens(app_id, day, tokens, most=tools.tokens_of(app_id)):
            return asked
        tools.meter.count("kiosk_provider_tokens_total", tokens, app=app_id)
        try:
            written = await asyncio.wait_for(writer.rewrite(question.text, question.before), _REWRITE_S)
        except (ModelFailed, asyncio.TimeoutError) as error:
            self._log.warning("question_not_rewritten", reason=str(error) or "too late")
            return asked
        return checked_rewriting(written, question.text, question.before) or asked

    async def retrieve(self, query: ArchiveQuery, fq: str, boost_fq: str) -> list[Snippet]:
        """Find passages, sieved by filters over their products."""
        if not fq.strip() and not boost_fq.strip():
            return list((await self._tools.archive.ask(query)).snippets)
        wide = await self._tools.archive.ask(replace(query, rows=max(_SIEVED, query.rows)))
        kept: list[Snippet] = []
        for start in range(0, len(wide.snippets), _LOT):
            lot = wide.snippets[start : start + _LOT]
            ids = [one.product_id for one in lot]
            products = await products_of(self._tools.records, query.app_id, ids)
            kept += sift(lot, products, fq, boost_fq)
            if len(kept) >= query.rows and (not boost_fq.strip() or start >= 3 * _LOT):
                break
        kept.sort(key=lambda one: -one.score)
        return kept[: query.rows]

    async def _fetch(self, question: Question, asked: str) -> list[Snippet]:
        query = ArchiveQuery(
            question.app_id,
            asked,
            rows=ROWS,
            type=question.type,
            yearly_decay=question.yearly_decay,
            exclude=question.exclude,
            only=None if question.only is None else frozenset(question.only),
        )
        for pause_s in (0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            try:
                return await self.retrieve(query, question.fq, question.boost_fq)
            except Unavailable:
                await asyncio.sleep(pause_s)
        return await self.retrieve(query, question.fq, question.boost_fq)

    async def _same(self, hand: InHand, digest: str, found: Sequence[Snippet]) -> bool:
        """Give the answer that was made of exactly this before."""
        tools, app_id = self._tools, hand.question.app_id
        before = await tools.questions.recall(app_id, digest)
        recorded = await tools.questions.read(app_id, before) if before else None
        if recorded is None or recorded.answer.finish_reason != "success" or not recorded.answer.sentences:
            return False
        snippets = [snippet_of(one) for one in recorded.answer.passages]
        composed = composed_of(recorded.answer)
        tools.meter.count("kiosk_answers_reused_total")
        await self._finish(hand, composed, [*snippets, *found], recorded.answer.followups, "reused")
        return True

    async def _paid(
        self, hand: InHand, asked: str, found: Sequence[Snippet], composed: Composed
    ) -> Composed | None:
        """Let the model write within what the app may spend today; None when nothing is left, or nothing came of it."""
        question, tools = hand.question, self._tools
        day, most = tools.clock.now_ms() // _DAY_MS, tools.tokens_of(question.app_id)
        sources = sum(min(len(one.text), _MOST_SOURCE_CHARS) for one in found)
        prompt = (_RULES_CHARS + len(asked) + sources) // _CHARS_A_TOKEN
        if not await tools.questions.spend_tokens(question.app_id, day, prompt + _RESERVED, most=most):
            tools.meter.count("kiosk_provider_ceiling_total", app=question.app_id)
            self._log.warning("provider_ceiling_reached", app=question.app_id, most=most)
            return None
        draft = Draft(found)
        try:
            return await self._written(hand, asked, found, draft, composed)
        finally:
            spare = _RESERVED - draft.chars // _CHARS_A_TOKEN
            tools.meter.count("kiosk_provider_tokens_total", prompt + _RESERVED - spare, app=question.app_id)
            with contextlib.suppress(HouseError):
                await tools.questions.spend_tokens(question.app_id, day, -spare, most=0)

    async def _written(
        self, hand: InHand, asked: str, found: Sequence[Snippet], draft: Draft, composed: Composed
    ) -> Composed | None:
        """Let the model write; None when what was composed is better than what came of it."""
        assert self._tools.writer is not None
        first = True
        await hand.show(stage=GENERATING)
        try:
            async with aclosing(self._tools.writer.write(asked, found)) as pieces:
                async for piece in pieces:
                    if await self._think(partial(draft.feed, piece)):
                        await self._grow(hand, draft, found)
                        if first:
                            self._took("kiosk_answer_first_sentence_ms", hand)
                        first = False
                    if draft.is_full:
                        break
        except ModelFailed as error:
            self._log.warning("model_failed", reason=str(error), sentences=len(draft.kept))
            self._tools.meter.count("kiosk_model_failures_total")
        if await self._think(draft.close):
            await self._grow(hand, draft, found)
        self._tools.meter.count("kiosk_model_sentences_dropped_total", draft.dropped)
        if draft.kept:
            return Composed(tuple(draft.kept), refused=False, confidence=1.0)
        return Composed() if draft.refused else None

    async def _grow(self, hand: InHand, draft: Draft, found: Sequence[Snippet]) -> None:
        grown, cited = only_cited(Composed(tuple(draft.kept), refused=False, confidence=1.0), found)
        await hand.show(sentences=kept_sentences(grown), passages=tuple(passage_of(one) for one in cited))

    async def _finish(
        self,
        hand: InHand,
        composed: Composed,
        found: Sequence[Snippet],
        followups: Sequence[str],
        composer: str,
    ) -> None:
        composed, cited = only_cited(composed, found)
        form, app_id = hand.question.format, hand.question.app_id
        products = await products_of(self._tools.records, app_id, [one.product_id for one in cited])
        beside = await self._beside(hand.question, found, products)
        await hand.finish(
            finish_reason="success",
            sentences=kept_sentences(composed),
            passages=_filled(cited, products, form.source_fl, pictured=True),
            related=await self.with_fields(app_id, beside, form.related_resource_fl),
            followups=tuple(followups),
            composer=composer,
        )
        self._took("kiosk_answer_ms", hand)

    async def with_fields(
        self, app_id: str, snippets: Sequence[Snippet], names: Sequence[str], *, pictured: bool = False
    ) -> tuple[CitedPassage, ...]:
        """Keep passages with the fields of their products that the format asks for, and perhaps their pictures."""
        if not pictured and set(names) <= _ALWAYS_THERE:
            return tuple(passage_of(one) for one in snippets)
        ids = [one.product_id for one in snippets]
        products = await products_of(self._tools.records, app_id, ids)
        return _filled(snippets, products, names, pictured=pictured)

    async def related_ids(self, app_id: str, product_ids: Sequence[str]) -> list[str]:
        """Name what the `related_ids` of some products name, themselves left out."""
        return _related_ids(await products_of(self._tools.records, app_id, product_ids))

    async def _beside(
        self, question: Question, found: Sequence[Snippet], cited: Mapping[str, Mapping[str, Any]]
    ) -> list[Snippet]:
        """Choose what is worth reading beside an answer: what its sources name as related, then what was found.

        Cost:
            only where sources name products that were not found: one read of those
        """
        others = {one.product_id: one for one in reversed(found) if one.product_id not in cited}
        named = [one for one in _related_ids(cited) if one not in question.exclude][:_RELATED]
        missing = [one for one in named if one not in others]
        if missing:
            with contextlib.suppress(HouseError):
                others.update({one.product_id: one for one in await self._beginnings(question, missing)})
        related = [others.pop(one) for one in named if one in others]
        return [*related, *sorted(others.values(), key=lambda one: -one.score)][:_RELATED]

    async def _beginnings(self, question: Question, product_ids: Sequence[str]) -> Sequence[Snippet]:
        """Read how the texts of some products begin, as far as the question's filters let them through."""
        tools, app_id = self._tools, question.app_id
        articles = await asyncio.gather(*(tools.archive.article(app_id, one, 0) for one in product_ids))
        snippets = [one for article in articles if article is not None for one in excerpts_of(article)[:1]]
        products = await products_of(tools.records, app_id, product_ids)
        if question.type is not None:
            products = {name: one for name, one in products.items() if one.get("type") == question.type}
        return sift(snippets, products, question.fq, "")

    async def _think(self, thought: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._tools.thinking, thought)

    def _took(self, name: str, hand: InHand) -> None:
        self._tools.meter.time(name, (self._tools.clock.monotonic_s() - hand.began_s) * 1000)


def _related_ids(products: Mapping[str, Mapping[str, Any]]) -> list[str]:
    named = (name for product in products.values() for name in product.get("related_ids") or ())
    return [name for name in dict.fromkeys(named) if name not in products]


def _filled(
    snippets: Sequence[Snippet],
    products: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    *,
    pictured: bool,
) -> tuple[CitedPassage, ...]:
    """Keep passages with fields of their products, and perhaps their pictures."""
    pick, found = Projection.of(names), []
    for one in snippets:
        product = products.get(one.product_id, {})
        picture = picture_of(product) if pictured else None
        found.append(passage_of(one, picture, **pick(product)))
    return tuple(found)


def digest_of(asked: str, question: Question, found: Sequence[Snippet], writer: Writer | None) -> str:
    """Stand for everything an answer is made of: the question, the passages found, who writes."""
    made_of: list[Any] = [
        " ".join(asked.casefold().split()),
        question.language,
        writer.name if writer is not None else "",
        [[one.product_id, one.position, one.text] for one in found],
    ]
    return hashlib.sha256(orjson.dumps(made_of)).hexdigest()


def reason_of(error: BaseException) -> str:
    """Say of a failure what may be logged."""
    return error.message if isinstance(error, HouseError) else type(error).__name__
