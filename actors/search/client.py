"""The way to the question banks of all apps, as this process holds them.

Indexed once a version, the least used forgotten. The store is asked for the version with every request, so an upload
counts at once at every door; while the store is away the last bank that was read goes on being asked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.language.folding import fold_text, fold_typed
from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words
from actors.search.question_bank import QuestionBankIndex
from cluster.errors import Unavailable
from cluster.records.bank_question import BankQuestion
from cluster.store.ports.question_bank import QuestionBankStore

MOST_QUESTIONS_HELD = 200_000
"Of all apps together; beyond that the bank nobody asked for longest goes. About 2 KB each."
_MANY = 20_000
"Questions from which on a look-up is worth a thread."


@dataclass(frozen=True, slots=True)
class _CachedBank:
    version: int
    index: QuestionBankIndex


class QuestionBankClient:
    """Completes questions of banks."""

    def __init__(self, store: QuestionBankStore) -> None:
        self._store = store
        self._held: OrderedDict[str, _CachedBank] = OrderedDict()
        self._making: dict[str, asyncio.Task[_CachedBank]] = {}

    async def complete(self, app_id: str, typed: str, rows: int) -> list[BankQuestion]:
        """Find questions of an app's bank for what was typed, best first.

        Errors:
            Unavailable: the store is away and the bank was never read
        Cost:
            one read of a counter; after an upload the first who asks waits for the index
        """
        bank = await self._bank(app_id)
        if len(bank) > _MANY:
            return await asyncio.to_thread(bank.look_up, typed, rows)
        return bank.look_up(typed, rows)

    async def suggest(
        self, app_id: str, typed: str, rows: int, beside: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Complete with questions as a field of completions does, without texts that are listed already.

        Errors:
            Unavailable: the store is away and the bank was never read
        """
        known, text = {fold_text(one) for one in beside}, fold_typed(typed)
        found = [one.question for one in await self.complete(app_id, typed, rows)]
        return [_completion(one, text) for one in found if fold_text(one) not in known]

    async def _bank(self, app_id: str) -> QuestionBankIndex:
        """Give the bank as it is now."""
        held = self._held.get(app_id)
        try:
            version = await self._store.version(app_id)
            if held is None or held.version != version:
                held = await self._make(app_id)
        except Unavailable:
            if held is None:
                raise
        self._held[app_id] = held
        self._held.move_to_end(app_id)
        self._make_room()
        return held.index

    async def _make(self, app_id: str) -> _CachedBank:
        """Read and index a bank; who asks meanwhile waits for the same work."""
        making = self._making.get(app_id)
        if making is None:
            making = self._making[app_id] = asyncio.get_running_loop().create_task(self._read(app_id))
            making.add_done_callback(lambda _: self._making.pop(app_id, None))
        return await asyncio.shield(making)

    async def _read(self, app_id: str) -> _CachedBank:
        bank = await self._store.load(app_id)
        return _CachedBank(bank.version, await asyncio.to_thread(QuestionBankIndex.of, bank.questions))

    def _make_room(self) -> None:
        while (
            len(self._held) > 1 and sum(len(one.index) for one in self._held.values()) > MOST_QUESTIONS_HELD
        ):
            self._held.popitem(last=False)


def _completion(text: str, typed: str) -> dict[str, Any]:
    shown = highlight(text, match_typed_words(fold_text(text), typed))
    return {
        "text": shown.text,
        "text_with_markups": shown.text_with_markups,
        "text_with_inverted_markups": shown.text_with_inverted_markups,
    }
