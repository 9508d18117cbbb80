"""What the ports of search promise: the road of the query log, and question banks."""

from __future__ import annotations

from cluster.records.logged_query import LoggedQuery
from cluster.records.question import BankQuestion
from cluster.store.archive.question_bank import QuestionBankContents
from cluster.store.stores import Stores
from tests.suites.doing import APP, OTHER


def a_query(text: str = "trowel", at: int = 1_000) -> LoggedQuery:
    return LoggedQuery(
        at=at, kind="search", text=text, total=3, language="en", served_by="search", engine_id="default",
        took_ms=1.5, reader="abc", typist="def",
    )  # fmt: skip


class TestQueries:
    async def test_lots_read_back_whole_and_in_order(self, stores: Stores) -> None:
        expected = [
            tuple(a_query(f"query {batch} {at} \u2028é", at) for at in range(3)) for batch in range(5)
        ]
        for batch in expected:
            await stores.queries.append(APP, batch)
        await stores.queries.append(APP, [])
        batches = await stores.queries.read(APP, "0", count=100)
        assert [batch.rows for batch in batches] == expected
        assert await stores.queries.read(OTHER, "0", count=100) == []

    async def test_reading_goes_on_behind_an_offset(self, stores: Stores) -> None:
        for at in range(5):
            await stores.queries.append(APP, [a_query(at=at)])
        first = await stores.queries.read(APP, "0", count=2)
        rest = await stores.queries.read(APP, first[-1].offset, count=100)
        assert [batch.rows[0].at for batch in (*first, *rest)] == [0, 1, 2, 3, 4]

    async def test_what_is_settled_is_forgotten_and_nothing_else(self, stores: Stores) -> None:
        for at in range(4):
            await stores.queries.append(APP, [a_query(at=at)])
        batches = await stores.queries.read(APP, "0", count=100)
        await stores.queries.trim(APP, batches[1].offset)
        await stores.queries.trim(APP, batches[0].offset)
        await stores.queries.trim(OTHER, batches[3].offset)
        left = await stores.queries.read(APP, "0", count=100)
        assert left == batches[2:]

    async def test_every_app_keeps_a_separate_salt(self, stores: Stores) -> None:
        salt = await stores.queries.salt(APP)
        assert len(salt) == 16
        assert await stores.queries.salt(APP) == salt
        assert await stores.queries.salt(OTHER) != salt


class TestQuestionBank:
    async def test_before_the_first_upload_a_bank_is_empty(self, stores: Stores) -> None:
        assert await stores.question_bank.version(APP) == 0
        bank = await stores.question_bank.load(APP)
        assert (bank.version, bank.questions) == (0, ())

    async def test_a_bank_is_replaced_whole(self, stores: Stores) -> None:
        many = [BankQuestion(question=f"question {at} \u2028", weight=at / 2) for at in range(1_234)]
        assert await stores.question_bank.replace(APP, many) == 1
        assert (await stores.question_bank.load(APP)).questions == tuple(many)
        few = [BankQuestion(question="How deep?")]
        assert await stores.question_bank.replace(APP, few) == 2
        bank = await stores.question_bank.load(APP)
        assert (bank.version, bank.questions) == (2, tuple(few))
        assert await stores.question_bank.version(APP) == 2

    async def test_a_bank_of_another_version_stays(self, stores: Stores) -> None:
        first, second = [BankQuestion(question="How deep?")], [BankQuestion(question="How wide?")]
        assert await stores.question_bank.replace(APP, first, expected=0) == 1
        assert await stores.question_bank.replace(APP, second, expected=0) == 0
        assert await stores.question_bank.load(APP) == QuestionBankContents(1, tuple(first))
        assert await stores.question_bank.replace(APP, second, expected=1) == 2

    async def test_a_bank_may_be_emptied(self, stores: Stores) -> None:
        await stores.question_bank.replace(APP, [BankQuestion(question="How deep?")])
        assert await stores.question_bank.replace(APP, []) == 2
        assert (await stores.question_bank.load(APP)).questions == ()

    async def test_each_app_has_a_separate_question_bank(self, stores: Stores) -> None:
        await stores.question_bank.replace(APP, [BankQuestion(question="How deep?")])
        assert (await stores.question_bank.load(OTHER)).questions == ()
