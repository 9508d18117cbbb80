"""Damaged question banks and queries: what is whole is served, and nobody stands still before the rest."""

from __future__ import annotations

import pytest

from cluster.records.question import BankQuestion
from cluster.store import keys
from cluster.store.connect import OpenStores
from tests.suites.doing import APP
from tests.suites.test_searching import a_query

pytestmark = pytest.mark.redis


async def test_a_damaged_chunk_of_a_bank_is_skipped(redis_stores: OpenStores) -> None:
    questions = [BankQuestion(question=f"question {at}") for at in range(1_200)]
    await redis_stores.question_bank.replace(APP, questions)
    name = keys.question_bank(APP)
    chunk = bytearray(await redis_stores.server.execute("LINDEX", name, 1))
    chunk[-4] ^= 4
    await redis_stores.server.execute("LSET", name, 1, bytes(chunk))
    bank = await redis_stores.question_bank.load(APP)
    assert bank.questions == (*questions[:500], *questions[1_000:])
    await redis_stores.question_bank.replace(APP, questions)
    assert (await redis_stores.question_bank.load(APP)).questions == tuple(questions)


async def test_lots_in_each_others_places_are_damaged(redis_stores: OpenStores) -> None:
    await redis_stores.question_bank.replace(APP, [BankQuestion(question=f"{at}") for at in range(600)])
    name = keys.question_bank(APP)
    await redis_stores.server.execute("RPUSH", name, await redis_stores.server.execute("LPOP", name))
    assert (await redis_stores.question_bank.load(APP)).questions == ()


@pytest.mark.parametrize("batch", [b"", b"1deadbeef[]", b"nothing", "ünsealed"])
async def test_a_damaged_batch_of_queries_is_skipped(redis_stores: OpenStores, batch: bytes | str) -> None:
    await redis_stores.queries.append(APP, [a_query("before")])
    await redis_stores.server.execute("XADD", keys.query(APP), "*", "lot", batch)
    await redis_stores.queries.append(APP, [a_query("after")])
    batches = await redis_stores.queries.read(APP, "0", count=10)
    assert [[query.text for query in batch.rows] for batch in batches] == [["before"], [], ["after"]]


async def test_the_road_of_queries_is_bounded(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.store.archive.log_stream.MOST_BATCHES", 200)
    for at in range(200):
        await redis_stores.queries.append(APP, [a_query(str(at))])
    assert not await redis_stores.queries.append(APP, [a_query("refused")])
    batches = await redis_stores.queries.read(APP, "0", count=1_000)
    assert [batch.rows[0].text for batch in batches] == [str(at) for at in range(200)]
    await redis_stores.queries.trim(APP, batches[99].offset)
    assert await redis_stores.queries.append(APP, [a_query("accepted")])
    assert len(await redis_stores.queries.read(APP, "0", count=1_000)) == 101
