"""The question banks of all apps, cached in this process.

A bank is indexed once for each version; the least recently used ones are evicted. Each request reads the version from
the store, so every API replica uses an upload at once. While the store is unavailable, the last version is used.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.language.folding import fold_text, fold_typed
from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words
from actors.retrieval.autocomplete.lookup import CompletionIndex
from cluster.errors import Unavailable
from cluster.records.question import BankQuestion
from cluster.store.archive.question_bank import QuestionBankStore


@dataclass(frozen=True, slots=True)
class QuestionBankIndex:
    """The questions of a bank by weight, and their index."""

    questions: tuple[BankQuestion, ...]
    index: CompletionIndex

    def __len__(self) -> int:
        return len(self.questions)

    @classmethod
    def of(cls, questions: Iterable[BankQuestion]) -> QuestionBankIndex:
        """Index a bank; a question that occurs twice has its larger weight.

        Cost:
            10,000 questions: 0.5 s
        """
        heaviest: dict[str, BankQuestion] = {}
        for question in questions:
            heaviest_question = heaviest.get(question.question)
            if heaviest_question is None or question.weight > heaviest_question.weight:
                heaviest[question.question] = question
        # among equally near texts the earlier one is found first
        ordered = tuple(sorted(heaviest.values(), key=lambda question: -question.weight))
        weights = np.array([question.weight for question in ordered], np.float64)
        return cls(ordered, CompletionIndex.of([question.question for question in ordered], weights))

    def look_up(self, typed: str, rows: int) -> list[BankQuestion]:
        """Find questions for a typed text, best first: fewer typos first, then larger weight."""
        text = fold_typed(typed)
        if not text or not rows or not self.questions:
            return []
        hits = self.index.look_up(text, rows)
        return [self.questions[at] for at in hits.texts[:rows].tolist()]


MAX_CACHED_QUESTIONS = 200_000
"Questions of all banks in memory, about 2 KB each; beyond that the least recently used bank is evicted."
_MANY = 20_000
"Questions from which on a look-up runs in a thread."


@dataclass(frozen=True, slots=True)
class _CachedBank:
    version: int
    index: QuestionBankIndex


class QuestionBankCache:
    """Completes questions from the banks of all apps."""

    def __init__(self, store: QuestionBankStore) -> None:
        self._store = store
        self._banks: OrderedDict[str, _CachedBank] = OrderedDict()
        self._loading: dict[str, asyncio.Task[_CachedBank]] = {}

    async def complete(self, app_id: str, typed: str, rows: int) -> list[BankQuestion]:
        """Find questions of an app's bank for a typed text, best first.

        Errors:
            Unavailable: the store does not answer, and the bank is not cached
        Cost:
            one read of a counter; the first request after an upload waits for the index
        """
        bank = await self._bank(app_id)
        if len(bank) > _MANY:
            return await asyncio.to_thread(bank.look_up, typed, rows)
        return bank.look_up(typed, rows)

    async def suggest(
        self, app_id: str, typed: str, rows: int, beside: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Complete questions in the form of a field's completions, without the texts in `beside`.

        Errors:
            Unavailable: the store does not answer, and the bank is not cached
        """
        listed = {fold_text(question) for question in beside}
        text = fold_typed(typed)
        questions = [question.question for question in await self.complete(app_id, typed, rows)]
        return [_completion(question, text) for question in questions if fold_text(question) not in listed]

    async def _bank(self, app_id: str) -> QuestionBankIndex:
        """Return the current version of a bank."""
        cached = self._banks.get(app_id)
        try:
            version = await self._store.version(app_id)
            # By version and not by time: an upload is visible at the next request.
            if cached is None or cached.version != version:
                cached = await self._load(app_id)
        except Unavailable:
            if cached is None:
                raise
        self._banks[app_id] = cached
        # The order of use, from which `_evict` takes the oldest.
        self._banks.move_to_end(app_id)
        self._evict()
        return cached.index

    async def _load(self, app_id: str) -> _CachedBank:
        """Read and index a bank; concurrent requests share the work."""
        loading = self._loading.get(app_id)
        if loading is None:
            loading = self._loading[app_id] = asyncio.get_running_loop().create_task(self._read(app_id))
            # Also after an error: the next request then tries again, and does not get the old error.
            loading.add_done_callback(lambda _: self._loading.pop(app_id, None))
        # Shielded: one caller that gives up must not cancel the load of the others.
        return await asyncio.shield(loading)

    async def _read(self, app_id: str) -> _CachedBank:
        bank = await self._store.load(app_id)
        return _CachedBank(bank.version, await asyncio.to_thread(QuestionBankIndex.of, bank.questions))

    def _evict(self) -> None:
        while (
            # A single bank stays whatever its size, or each request would index it again.
            len(self._banks) > 1
            and sum(len(bank.index) for bank in self._banks.values()) > MAX_CACHED_QUESTIONS
        ):
            self._banks.popitem(last=False)


def _completion(text: str, typed: str) -> dict[str, Any]:
    shown = highlight(text, match_typed_words(fold_text(text), typed))
    return {
        "text": shown.text,
        "text_with_markups": shown.text_with_markups,
        "text_with_inverted_markups": shown.text_with_inverted_markups,
    }
