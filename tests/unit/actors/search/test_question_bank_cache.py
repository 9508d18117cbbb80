from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from actors.search import question_bank_cache
from actors.search.question_bank_cache import QuestionBankCache
from cluster.errors import Unavailable
from cluster.records.question import BankQuestion
from cluster.store.archive.question_bank import QuestionBankContents
from tests.fakes.stores.query_log import MemoryQuestionBank


class Store:
    """A store that counts its readers and may be away."""

    def __init__(self) -> None:
        self.bank = MemoryQuestionBank()
        self.loads = 0
        self.away = False

    async def replace(self, app_id: str, questions: Sequence[BankQuestion]) -> int:
        return await self.bank.replace(app_id, questions)

    async def version(self, app_id: str) -> int:
        if self.away:
            raise Unavailable("away")
        return await self.bank.version(app_id)

    async def load(self, app_id: str) -> QuestionBankContents:
        self.loads += 1
        await asyncio.sleep(0)
        return await self.bank.load(app_id)


def questions(*texts: str) -> list[BankQuestion]:
    return [BankQuestion(question=text) for text in texts]


async def complete(bank_cache: QuestionBankCache, app_id: str = "shop") -> list[str]:
    return [question.question for question in await bank_cache.complete(app_id, "what", 9)]


async def test_a_bank_is_indexed_once_a_version_however_many_ask() -> None:
    store = Store()
    bank_cache = QuestionBankCache(store)
    await store.replace("shop", questions("what a"))
    assert await asyncio.gather(*(complete(bank_cache) for _ in range(5))) == [["what a"]] * 5
    assert await complete(bank_cache) == ["what a"]
    assert store.loads == 1
    await store.replace("shop", questions("what b"))
    assert await complete(bank_cache) == ["what b"]
    assert store.loads == 2


async def test_while_the_store_is_away_the_last_bank_is_used() -> None:
    store = Store()
    bank_cache = QuestionBankCache(store)
    await store.replace("shop", questions("what a"))
    await complete(bank_cache)
    store.away = True
    assert await complete(bank_cache) == ["what a"]
    with pytest.raises(Unavailable):
        await complete(bank_cache, "other")


async def test_the_bank_nobody_asks_for_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_bank_cache, "MAX_CACHED_QUESTIONS", 2)
    store = Store()
    bank_cache = QuestionBankCache(store)
    for app_id in ("a", "b", "c"):
        await store.replace(app_id, questions("what is it"))
        await complete(bank_cache, app_id)
    await complete(bank_cache, "c")
    await complete(bank_cache, "b")
    assert store.loads == 3
    await complete(bank_cache, "a")
    assert store.loads == 4
