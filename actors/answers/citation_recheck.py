"""Check answers again when an article changes, is removed or locked: keep, revise or withdraw them.

    log of products --> answers that cite the product --> each sentence against the current passages

The rechecker checks every change twice: at once, and when every answer that could still use the old article is
finished. A sentence stays when a passage of the same article still supports it. An answer without any remaining
sentence is withdrawn: it then has a notice and no sources. One process checks all answers, under a lease.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import structlog

from actors.answers.extractive.support_scorer import MIN_SUPPORT, score_support
from actors.answers.render import answer_to_json, passage_from_snippet, snippet_from_passage
from actors.archive.messages import Snippet
from actors.archive.passages import Document, document_from_product
from actors.hosting.log_follower import LogFollower
from cluster.access_tier import may_read
from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.meter import Meter
from cluster.records.question import ANSWER_WITHIN_MS, RECHECK, Answer, CitedPassage, CitedSentence
from cluster.store.archive.user_questions import StoredQuestion
from cluster.store.data.change_log import ChangeLogEntry, Follower
from cluster.store.stores import Stores

LEASE = RECHECK
LEASE_MS = 15_000
EVERY_S = 1.0
LATE_MS = ANSWER_WITHIN_MS + 30_000
_READ = 32
_MAX_CHANGES = 20
_TRIES = 3
_NOTE_EVERY_MS = 30_000
_BOTH = (False, True)
"Answers for everybody, and entitled ones."

CurrentDocuments = Mapping[str, "Document | None"]


class CitationRechecker:
    """Follows the products of all apps and checks answers that cite them."""

    def __init__(
        self,
        stores: Stores,
        clock: Clock,
        meter: Meter,
        thinking: ThreadPoolExecutor,
        *,
        name: str,
        app_ids: Callable[[], Awaitable[Sequence[str]]],
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._meter = meter
        self._thinking = thinking
        self._name = name
        self._app_ids = app_ids
        self._noted: dict[tuple[str, str], int] = {}
        self._log = structlog.get_logger()

    async def follow(self) -> None:
        """Check answers until cancelled."""
        # a process that was just opened has other work
        await asyncio.sleep(EVERY_S)
        await LogFollower(
            self._run_under_lease,
            self._clock,
            on_miss=lambda _: None,
            on_failure=self._record_failure,
            pace_s=EVERY_S,
            retry_s=EVERY_S,
        ).run()

    async def run_once(self) -> int:
        """Check the changes since the last round; return how many answers were revised."""
        revised = 0
        for app_id in await self._app_ids():
            # Late again: an answer that was being written then may have used the old article.
            for checker, delay_ms in (("now", 0), ("late", LATE_MS)):
                for _ in range(_MAX_CHANGES):
                    changes = await self._read_changes(app_id, checker, delay_ms)
                    if not changes:
                        break
                    for change in changes:
                        revised += await self._check(app_id, change)
                    # After the checks, so that a crash in between checks the changes once more.
                    await self._stores.questions.record_checked_offset(app_id, checker, changes[-1].offset)
        return revised

    async def _run_under_lease(self) -> bool:
        """Check the changes if this process may; every round ends with a pause."""
        with contextlib.suppress(KioskError):
            if await self._stores.leases.hold(LEASE, self._name, LEASE_MS):
                await self.run_once()
        return False

    def _record_failure(self) -> None:
        self._log.exception("recheck_failed")
        self._meter.count("kiosk_answer_recheck_failures_total")

    async def _read_changes(self, app_id: str, checker: str, delay_ms: int) -> list[ChangeLogEntry]:
        """Read the next changes that are old enough; the first call starts at the end of the log."""
        log = self._stores.changes
        now_ms = self._clock.now_ms()
        offset = await self._stores.questions.checked_offset(app_id, checker)
        if not offset:
            await self._stores.questions.record_checked_offset(
                app_id, checker, await log.last(app_id, "product")
            )
            return []
        # As a follower it keeps the log from being trimmed past its place; the record lasts ten minutes.
        if now_ms - self._noted.get((app_id, checker), 0) >= _NOTE_EVERY_MS:
            await log.record_follower(app_id, Follower(f"{LEASE}-{checker}", now_ms, {"product": offset}))
            self._noted[app_id, checker] = now_ms
        changes = await log.read(app_id, {"product": offset}, count=_READ, block_ms=0)
        if not delay_ms:
            return changes
        return [change for change in changes if int(change.offset.partition("-")[0]) <= now_ms - delay_ms]

    async def _check(self, app_id: str, change: ChangeLogEntry) -> int:
        """Check the answers that cite the products of one change."""
        items: list[Any] = orjson.loads(change.payload)
        now: dict[str, Document | None] = {}
        for item in items:
            if change.op == "put":
                now[str(item["product_id"])] = document_from_product(item)
            elif change.op == "remove":
                now[str(item)] = None
        store = self._stores.questions
        citing = await asyncio.gather(
            *(
                store.list_citing(app_id, entry_id, entitled=entitled)
                for entry_id in now
                for entitled in _BOTH
            )
        )
        question_ids = dict.fromkeys(entry_id for ids in citing for entry_id in ids)
        return sum([await self._revise(app_id, entry_id, now) for entry_id in question_ids])

    async def _revise(self, app_id: str, question_id: str, now: CurrentDocuments) -> bool:
        store = self._stores.questions
        for _ in range(_TRIES):
            recorded = await store.read(app_id, question_id)
            if recorded is None or not recorded.answer.finished:
                return False
            # A task of text generation names its products: only the publisher's server starts and reads it.
            access = frozenset(recorded.answer.access)
            current = now if recorded.question.generation is not None else _readable_documents(now, access)
            revise = partial(recheck_answer, recorded.answer, current)
            answer = await asyncio.get_running_loop().run_in_executor(self._thinking, revise)
            if answer is None:
                return False
            if await store.replace_finished_answer(
                recorded.question,
                answer,
                answer_to_json(recorded.question, answer),
                # Compared with the revision that was read: an answer that changed meanwhile is read again.
                since=recorded.answer.revision,
            ):
                self._record_revision(recorded, answer)
                return True
        return False

    def _record_revision(self, recorded: StoredQuestion, answer: Answer) -> None:
        withdrawn = not answer.sentences and bool(recorded.answer.sentences)
        self._meter.count("kiosk_answers_withdrawn_total" if withdrawn else "kiosk_answers_revised_total")
        self._log.info(
            "answer_revised",
            question_id=recorded.question.question_id,
            withdrawn=withdrawn,
            sentences=len(answer.sentences),
            before=len(recorded.answer.sentences),
        )


def _readable_documents(now: CurrentDocuments, access: frozenset[str]) -> CurrentDocuments:
    """Return current documents with None for those locked by another access than those an answer was made from."""
    return {
        product_id: document if document is not None and may_read(document.access, access) else None
        for product_id, document in now.items()
    }


def recheck_answer(answer: Answer, now: CurrentDocuments) -> Answer | None:
    """Compare an answer with the current products; None when it stays as it is.

    Cost:
        1 ms a sentence and passage whose text changed
    """
    places: dict[tuple[str, int], int] = {}
    passages: list[CitedPassage] = []
    sentences: list[CitedSentence] = []
    for sentence in answer.sentences:
        supported = _find_support(sentence, answer.passages[sentence.passage], now)
        if supported is None:
            continue
        passage, start, end, support = supported
        at = places.setdefault((passage.product_id, passage.position), len(passages))
        if at == len(passages):
            passages.append(passage)
        changes = {"passage": at, "start": start, "end": end, "support": support}
        sentences.append(sentence.model_copy(update=changes))
    removed = {product_id for product_id, document in now.items() if document is None}
    related = tuple(passage for passage in answer.related if passage.product_id not in removed)
    # Follow-up questions quote the texts of all these products, and do not name theirs.
    is_any_removed = any(passage.product_id in removed for passage in (*answer.passages, *answer.related))
    followups = () if is_any_removed else answer.followups
    revised = answer.model_copy(
        update={
            "sentences": tuple(sentences),
            "passages": tuple(passages),
            "related": related,
            "followups": followups,
        }
    )
    if revised == answer:
        return None
    if not sentences and answer.sentences:
        revised = revised.model_copy(update={"composer": "withdrawn", "followups": ()})
    return revised.model_copy(update={"revision": answer.revision + 1})


def _find_support(
    sentence: CitedSentence, passage: CitedPassage, now: CurrentDocuments
) -> tuple[CitedPassage, int, int, float] | None:
    """Return the passage that supports a sentence now; None when its article was removed or differs."""
    if passage.product_id not in now:
        return passage, sentence.start, sentence.end, sentence.support
    document = now[passage.product_id]
    if document is None:
        return None
    texts = [document.text[span.start : span.end] for span in document.passages]
    # The same text first, then the nearest passages: an insertion above moves them all.
    order = sorted(range(len(texts)), key=lambda at: (texts[at] != passage.text, abs(at - passage.position)))
    for at in order:
        support = sentence.support if texts[at] == passage.text else score_support(sentence.text, texts[at])
        if support >= MIN_SUPPORT:
            quoted = passage.text[sentence.start : sentence.end]
            start = texts[at].find(quoted)
            end = start + len(quoted) if start >= 0 else min(len(texts[at]), 200)
            return _refresh_passage(passage, document, at), max(start, 0), end, support
    return None


def _refresh_passage(passage: CitedPassage, document: Document, position: int) -> CitedPassage:
    """Return the current version of a passage, with the same kinds of picture and fields."""
    place = document.passages[position]
    section = document.sections[place.section]
    snippet: Snippet = replace(
        snippet_from_passage(passage),
        position=position,
        text=document.text[place.start : place.end],
        title=document.title,
        child_title=section.title,
        child_id=section.child_id,
        authors=document.authors,
        published=document.published,
        url=section.url or document.url,
        licence=document.licence,
        start=place.start,
    )
    return passage_from_snippet(snippet, passage.picture, **passage.fields)
