from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from actors.search import client
from actors.search.client import QuestionBankClient
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


async def complete(client: QuestionBankClient, app_id: str = "shop") -> list[str]:
    return [question.question for question in await client.complete(app_id, "what", 9)]


async def test_a_bank_is_indexed_once_a_version_however_many_ask() -> None:
    store = Store()
    client = QuestionBankClient(store)
    await store.replace("shop", questions("what a"))
    assert await asyncio.gather(*(complete(client) for _ in range(5))) == [["what a"]] * 5
    assert await complete(client) == ["what a"]
    assert store.loads == 1
    await store.replace("shop", questions("what b"))
    assert await complete(client) == ["what b"]
    assert store.loads == 2


async def test_while_the_store_is_away_the_last_bank_is_used() -> None:
    store = Store()
    client = QuestionBankClient(store)
    await store.replace("shop", questions("what a"))
    await complete(client)
    store.away = True
    assert await complete(client) == ["what a"]
    with pytest.raises(Unavailable):
        await complete(client, "other")


async def test_the_bank_nobody_asks_for_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_CACHED_QUESTIONS", 2)
    store = Store()
    bank_client = QuestionBankClient(store)
    for app_id in ("a", "b", "c"):
        await store.replace(app_id, questions("what is it"))
        await complete(bank_client, app_id)
    await complete(bank_client, "c")
    await complete(bank_client, "b")
    assert store.loads == 3
    await complete(bank_client, "a")
    assert store.loads == 4
