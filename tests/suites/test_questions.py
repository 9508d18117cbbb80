"""The questions' suite over memory and over a real Redis server, and what only Redis can do to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.records.question import Answer
from cluster.store import keys
from cluster.store.archive.user_questions import LIFE_MS, LOGGED_LIFE_MS, QuestionStore
from cluster.store.connect import OpenStores
from cluster.store.data.salts import Salts
from cluster.store.stores import Stores
from tests.fakes.stores.questions import MemoryQuestions
from tests.suites.doing import APP, NOW
from tests.suites.questions import QuestionSuite, a_question, citing


class TestOverMemory(QuestionSuite):
    @pytest.fixture
    def stores(self, memory_stores: Stores) -> Stores:
        return memory_stores

    @pytest.fixture
    def narrow(self, memory_stores: Stores) -> Stores:
        return replace(memory_stores, questions=MemoryQuestions(most_open=3))


@pytest.mark.redis
class TestOverRedis(QuestionSuite):
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores

    @pytest.fixture
    def narrow(self, redis_stores: OpenStores) -> Stores:
        store = redis_stores.questions
        assert isinstance(store, QuestionStore)
        return replace(
            redis_stores,
            questions=QuestionStore(redis_stores.server, store._records._quarantine, most_open=3),
        )

    async def test_questions_do_not_live_for_ever(self, redis_stores: OpenStores) -> None:
        plain, logged = a_question(), a_question(logged=True, user_id="gina")
        for question, life in ((plain, LIFE_MS), (logged, LOGGED_LIFE_MS)):
            await self.put_question(redis_stores, question)
            done = citing(2, "a-" + question.question_id)
            await redis_stores.questions.write(question, done, b"2", holder="one", until_ms=NOW)
            for name in (
                keys.question(APP, question.question_id),
                keys.question_citing(APP, done.passages[0].product_id),
            ):
                left = int(await redis_stores.server.execute("PTTL", name))
                assert life - 60_000 < left <= life
        await redis_stores.questions.count(APP, "u:gina", 3)
        await redis_stores.questions.record_question(APP, "what", "u:gina", 3)
        mark = await Salts(redis_stores.server).pseudonym(APP, "u:gina")
        for name in (
            keys.question_by(APP, "u:gina"), keys.question_count(APP, mark, 3), keys.question_frequency(APP, 3),
            keys.question_asker(APP, 3),
        ):  # fmt: skip
            assert int(await redis_stores.server.execute("PTTL", name)) > 0

    async def test_a_question_that_goes_sooner_does_not_hide_one_that_stays(
        self, redis_stores: OpenStores
    ) -> None:
        await self.put_question(redis_stores, a_question(logged=True, user_id="gina"))
        await self.put_question(redis_stores, a_question(user_id="gina"))
        left = int(await redis_stores.server.execute("PTTL", keys.question_by(APP, "u:gina")))
        assert left > LOGGED_LIFE_MS - 60_000, "all of a reader's questions can be erased"

    @pytest.mark.parametrize("name", ["asked", "answer", "shown"])
    async def test_a_flipped_byte_is_noticed(self, redis_stores: OpenStores, name: str) -> None:
        question = a_question()
        await self.put_question(redis_stores, question)
        key = keys.question(APP, question.question_id)
        sealed = bytearray(await redis_stores.server.execute("HGET", key, name))
        sealed[-3] ^= 1
        await redis_stores.server.execute("HSET", key, name, bytes(sealed))
        store = redis_stores.questions
        if name == "shown":
            assert await store.shown(APP, question.question_id) is None
        else:
            assert await store.read(APP, question.question_id) is None
            assert await redis_stores.server.execute("XLEN", keys.quarantine(APP)) == 1

    async def test_the_store_does_not_record_who_repeats_a_question(self, redis_stores: OpenStores) -> None:
        await redis_stores.questions.record_question(APP, "what", "u:gina-holt", 3)
        marks = await redis_stores.server.execute("SMEMBERS", keys.question_asker(APP, 3))
        assert marks
        assert all(b"gina" not in mark for mark in marks)

    async def test_a_large_answer_is_stored_whole(self, redis_stores: OpenStores) -> None:
        question = a_question(metadata={"page": "x" * 100_000})
        await self.put_question(redis_stores, question)
        answer = Answer(revision=2, stage="y" * 1_000_000)
        assert await redis_stores.questions.write(
            question, answer, b"z" * 1_000_000, holder="one", until_ms=NOW
        )
        recorded = await redis_stores.questions.read(APP, question.question_id)
        assert recorded is not None
        assert recorded.answer == answer
