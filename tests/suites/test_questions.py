"""What the store of questions promises."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from cluster.errors import TooMany
from cluster.records.question import Answer, CitedPassage, Question, build_entitled_question
from cluster.store import keys
from cluster.store.archive.user_questions import LIFE_MS, LOGGED_LIFE_MS, QuestionStore
from cluster.store.connect import OpenStores
from cluster.store.data.salts import Salts
from cluster.store.stores import Stores
from tests.fakes.stores.questions import MemoryQuestions
from tests.suites.doing import APP, NOW, OTHER, require

LEASE = 5_000


def a_question(text: str = "who owns the mill", **more: Any) -> Question:
    given = {"question_id": str(uuid.uuid4()), "app_id": APP, "asked_at": NOW, "deadline_at": NOW + 60_000}
    return Question(**{**given, "text": text, **more})


def an_answer(revision: int, **more: Any) -> Answer:
    return Answer(revision=revision, **more)


def citing(revision: int, *product_ids: str) -> Answer:
    passages = tuple(
        CitedPassage(product_id=product_id, position=0, text="words") for product_id in product_ids
    )
    return Answer(revision=revision, finish_reason="success", passages=passages)


async def put_question(stores: Stores, question: Question, holder: str = "one") -> bool:
    return await stores.questions.ask(
        question, Answer(), b'{"revision":1}', holder=holder, until_ms=NOW + LEASE
    )


def _questions_of_three(stores: Stores) -> QuestionStore | MemoryQuestions:
    """Make a store over the same data that lets three questions wait."""
    if not isinstance(stores, OpenStores):
        return MemoryQuestions(most_open=3)
    assert isinstance(stores.questions, QuestionStore)
    return QuestionStore(stores.server, stores.questions._records._quarantine, most_open=3)


async def test_a_question_reads_back_and_its_record_as_it_was_shown(stores: Stores) -> None:
    question = a_question(metadata={"page": {"n": [1, None]}}, before=("x",), user_id="gina")
    assert await put_question(stores, question)
    recorded = require(await stores.questions.read(APP, question.question_id))
    assert (recorded.question, recorded.answer, recorded.attempts) == (question, Answer(), 1)
    assert await stores.questions.shown(APP, question.question_id) == b'{"revision":1}'


async def test_another_app_sees_nothing(stores: Stores) -> None:
    question = a_question()
    await put_question(stores, question)
    assert await stores.questions.shown(OTHER, question.question_id) is None
    assert await stores.questions.read(OTHER, question.question_id) is None
    assert await stores.questions.shown_many(APP, ["x", question.question_id]) == [
        None,
        b'{"revision":1}',
    ]


async def test_asking_again_under_the_same_id_changes_nothing(stores: Stores) -> None:
    question = a_question()
    await put_question(stores, question)
    assert not await put_question(stores, question.model_copy(update={"text": "other"}), "two")
    recorded = require(await stores.questions.read(APP, question.question_id))
    assert recorded.question.text == question.text
    assert await stores.questions.count_waiting(APP) == 1


async def test_only_the_holder_writes_and_the_revision_only_grows(stores: Stores) -> None:
    question, store = a_question(), stores.questions
    await put_question(stores, question)
    until = NOW + LEASE

    async def write(revision: int, holder: str) -> bool:
        answer = an_answer(revision, stage=f"by {holder}")
        return await store.write(question, answer, b"%d" % revision, holder=holder, until_ms=until)

    assert await write(2, "one")
    assert not await write(2, "one")
    assert not await write(1, "one")
    assert not await write(3, "two")
    assert await write(7, "one")
    assert await store.shown(APP, question.question_id) == b"7"


async def test_final_is_final(stores: Stores) -> None:
    question, store = a_question(), stores.questions
    await put_question(stores, question)
    done = an_answer(2, finish_reason="success")
    assert await store.write(question, done, b"2", holder="one", until_ms=NOW)
    assert await store.count_waiting(APP) == 0
    later = an_answer(3, finish_reason="error")
    assert not await store.write(question, later, b"3", holder="one", until_ms=NOW)
    assert (
        await store.claim(APP, question.question_id, holder="two", now_ms=NOW + 99_999, until_ms=NOW) is None
    )
    assert not await store.renew(APP, question.question_id, holder="one", until_ms=NOW)
    assert await store.shown(APP, question.question_id) == b"2"


async def test_a_question_whose_holder_died_is_taken_over_once(stores: Stores) -> None:
    question, store = a_question(), stores.questions
    await put_question(stores, question)
    await store.write(question, an_answer(4), b"4", holder="one", until_ms=NOW + LEASE)
    assert await store.list_due(APP, now_ms=NOW + LEASE - 1, count=10) == []
    late = NOW + LEASE
    assert await store.list_due(APP, now_ms=late, count=10) == [question.question_id]
    assert await store.list_due(OTHER, now_ms=late, count=10) == []
    taken = await store.claim(APP, question.question_id, holder="two", now_ms=late, until_ms=late + LEASE)
    assert taken is not None
    assert (taken.question, taken.answer.revision, taken.attempts) == (question, 4, 2)
    assert (
        await store.claim(APP, question.question_id, holder="three", now_ms=late, until_ms=late + LEASE)
        is None
    )
    # the former holder wakes up and can't hurt
    assert not await store.write(question, an_answer(9), b"9", holder="one", until_ms=late)
    assert not await store.renew(APP, question.question_id, holder="one", until_ms=late)
    assert await store.write(question, an_answer(5), b"5", holder="two", until_ms=late)


async def test_a_renewed_question_is_not_due_and_a_released_one_at_once(stores: Stores) -> None:
    question, store = a_question(), stores.questions
    await put_question(stores, question)
    assert await store.renew(APP, question.question_id, holder="one", until_ms=NOW + 50_000)
    assert await store.list_due(APP, now_ms=NOW + LEASE, count=10) == []
    await store.release(APP, question.question_id, holder="two")
    assert await store.list_due(APP, now_ms=NOW + LEASE, count=10) == []
    await store.release(APP, question.question_id, holder="one")
    assert await store.list_due(APP, now_ms=NOW, count=10) == [question.question_id]


async def test_too_many_open_questions_are_refused_and_finished_ones_need_no_room(stores: Stores) -> None:
    narrow = replace(stores, questions=_questions_of_three(stores))
    for _ in range(3):
        await put_question(narrow, a_question())
    with pytest.raises(TooMany):
        await put_question(narrow, a_question())
    blocked = a_question()
    done = an_answer(1, finish_reason="forbidden")
    assert await narrow.questions.ask(blocked, done, b"no", holder="one", until_ms=NOW)
    assert await narrow.questions.count_waiting(APP) == 3


async def test_a_finished_answer_is_listed_by_its_citations_and_revised_once(stores: Stores) -> None:
    question, store = a_question(), stores.questions
    await put_question(stores, question)
    assert not await store.replace_finished_answer(question, citing(2, "a"), b"2", since=1)
    assert await store.write(question, citing(2, "a", "b", "a"), b"2", holder="one", until_ms=NOW)
    assert await store.list_citing(APP, "a") == [question.question_id] == await store.list_citing(APP, "b")
    assert await store.list_citing(OTHER, "a") == []
    assert await store.replace_finished_answer(question, citing(3, "b"), b"3", since=2)
    assert not await store.replace_finished_answer(question, citing(3), b"x", since=2)
    assert await store.shown(APP, question.question_id) == b"3"


async def test_entitled_answers_are_in_no_list_and_go_with_their_person(stores: Stores) -> None:
    question, store = a_question(user_id="gina"), stores.questions
    entitled = build_entitled_question(question, frozenset(("gold",)), None)
    for record in (question, entitled):
        await put_question(stores, record)
    assert await store.write(question, citing(2, "a"), b"2", holder="one", until_ms=NOW)
    assert await store.list_citing(APP, "a", entitled=True) == []
    assert await store.write(entitled, citing(2, "a", "b"), b"2", holder="one", until_ms=NOW)
    assert await store.list_citing(APP, "a") == [question.question_id]
    assert await store.list_citing(APP, "b") == []
    assert await store.list_citing(APP, "b", entitled=True) == [entitled.question_id]
    recent = await store.list_recent(APP, start=0, count=10)
    assert [stored.question.question_id for stored in recent] == [question.question_id]
    assert await store.erase(APP, ["u:gina"]) == 2
    assert await store.shown(APP, entitled.question_id) is None


async def test_a_discarded_question_is_gone_and_not_due(stores: Stores) -> None:
    question, other, store = a_question(user_id="gina"), a_question(user_id="gina"), stores.questions
    for record in (question, other):
        await put_question(stores, record)
    for _ in range(2):
        await store.discard(question)
    assert await store.read(APP, question.question_id) is None
    assert not await store.renew(APP, question.question_id, holder="one", until_ms=NOW)
    assert await store.count_waiting(APP) == 1
    assert await store.erase(APP, ["u:gina"]) == 1


async def test_what_was_answered_before_is_remembered(stores: Stores) -> None:
    assert await stores.questions.recall(APP, "d") is None
    await stores.questions.remember(APP, "d", "q-1", ttl_ms=60_000)
    assert await stores.questions.recall(APP, "d") == "q-1"
    assert await stores.questions.recall(OTHER, "d") is None


async def test_questions_of_a_day_are_counted_by_reader(stores: Stores) -> None:
    count = stores.questions.count
    assert [await count(APP, "u:g", 1) for _ in range(3)] == [1, 2, 3]
    assert (await count(APP, "u:g", 2), await count(APP, "a:g", 1), await count(OTHER, "u:g", 1)) == (
        1,
        1,
        1,
    )


async def test_frequent_questions_need_several_users(stores: Stores) -> None:
    store = stores.questions
    for user_key in ("u:1", "u:2", "u:2", "a:3"):
        await store.record_question(APP, "what is mulch", user_key, 7)
    for user_key in ("u:1", "u:1", "u:1", "u:1"):
        await store.record_question(APP, "my secret", user_key, 7)
    await store.record_question(APP, "when to plant", "u:1", 7)
    await store.record_question(APP, "when to plant", "u:2", 8)
    popular = await store.list_popular(APP, [8, 7], min_users=2, rows=5)
    assert popular == ["what is mulch", "when to plant"]
    assert await store.list_popular(APP, [8, 7], min_users=2, rows=1) == ["what is mulch"]
    assert await store.list_popular(APP, [9], min_users=1, rows=5) == []
    assert await store.list_popular(OTHER, [7], min_users=1, rows=5) == []


async def test_recent_questions_are_listed_newest_first(stores: Stores) -> None:
    questions = [a_question(f"question {at}", asked_at=1_000 + at, user_id="ada") for at in range(4)]
    for stored in questions:
        await put_question(stores, stored)
    recent = await stores.questions.list_recent(APP, start=0, count=3)
    assert [answered.question.text for answered in recent] == ["question 3", "question 2", "question 1"]
    assert len(await stores.questions.list_recent(APP, start=3, count=3)) == 1
    assert await stores.questions.list_recent(OTHER, start=0, count=3) == []
    await stores.questions.erase(APP, ["u:ada"])
    assert await stores.questions.list_recent(APP, start=0, count=3) == []


async def test_a_readers_questions_can_be_forgotten(stores: Stores) -> None:
    store = stores.questions
    hers = [a_question(user_id="gina"), a_question(anonymous_id="anon")]
    foreign, nameless = a_question(user_id="anon"), a_question()
    for question in (*hers, foreign, nameless):
        await put_question(stores, question)
    assert await store.erase(APP, ["u:gina", "a:anon", "u:nobody"]) == 2
    assert [await store.read(APP, question.question_id) for question in hers] == [None, None]
    assert await store.read(APP, foreign.question_id) is not None
    assert await store.count_waiting(APP) == 2
    assert await store.erase(APP, ["u:gina"]) == 0


async def test_erasing_a_user_erases_their_questions_and_answers(stores: Stores) -> None:
    erased, foreign = a_question(user_id="gina"), a_question(user_id="omar")
    for question in (erased, foreign):
        await put_question(stores, question)
    await stores.interactions.erase(APP, ["gina"])
    assert await stores.questions.shown(APP, erased.question_id) is None
    assert await stores.questions.read(APP, erased.question_id) is None
    assert await stores.questions.shown(APP, foreign.question_id) is not None


async def test_how_far_changes_were_checked_is_kept(stores: Stores) -> None:
    assert await stores.questions.checked_offset(APP, "now") == ""
    await stores.questions.record_checked_offset(APP, "now", "5-0")
    assert await stores.questions.checked_offset(APP, "now") == "5-0"
    assert await stores.questions.checked_offset(APP, "late") == ""
    assert await stores.questions.checked_offset(OTHER, "now") == ""


async def test_strangers_ask_only_so_often_a_day(stores: Stores) -> None:
    async def asks(address: str, day: int = 1) -> bool:
        return await stores.questions.count_stranger(APP, address, day, each=2, total=3)

    assert [await asks("here") for _ in range(3)] == [True, True, False]
    assert [await asks("there") for _ in range(2)] == [True, False]
    assert await asks("here", 2)
    free = stores.questions.count_stranger(APP, "here", 1, each=0, total=0)
    assert await free


async def test_the_models_tokens_have_a_ceiling_a_day(stores: Stores) -> None:
    spend = stores.questions.spend_tokens
    assert await spend(APP, 1, 600, most=1_000)
    assert not await spend(APP, 1, 600, most=1_000)
    assert await spend(APP, 1, -300, most=0)
    assert await spend(APP, 1, 600, most=1_000)
    assert await spend(APP, 2, 1_000, most=1_000)
    assert await spend(APP, 1, 10_000, most=0)


async def test_the_same_reader_counts_once_in_a_week(stores: Stores) -> None:
    for day in (10, 11, 12):
        await stores.questions.record_question(APP, "Why?", "u:gina", day)
    await stores.questions.record_question(APP, "Why?", "u:omar", 12)
    days = range(12, 5, -1)
    assert await stores.questions.list_popular(APP, days, min_users=3, rows=5) == []
    await stores.questions.record_question(APP, "Why?", "u:rose", 12)
    assert await stores.questions.list_popular(APP, days, min_users=3, rows=5) == ["Why?"]


# --- in Redis alone ------------------------------------------------------------------------------------------------


@pytest.mark.redis
async def test_questions_do_not_live_for_ever(redis_stores: OpenStores) -> None:
    plain, logged = a_question(), a_question(logged=True, user_id="gina")
    for question, life in ((plain, LIFE_MS), (logged, LOGGED_LIFE_MS)):
        await put_question(redis_stores, question)
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


@pytest.mark.redis
async def test_a_question_that_goes_sooner_does_not_hide_one_that_stays(redis_stores: OpenStores) -> None:
    await put_question(redis_stores, a_question(logged=True, user_id="gina"))
    await put_question(redis_stores, a_question(user_id="gina"))
    left = int(await redis_stores.server.execute("PTTL", keys.question_by(APP, "u:gina")))
    assert left > LOGGED_LIFE_MS - 60_000, "all of a reader's questions can be erased"


@pytest.mark.parametrize("name", ["asked", "answer", "shown"])
@pytest.mark.redis
async def test_a_flipped_byte_is_noticed(redis_stores: OpenStores, name: str) -> None:
    question = a_question()
    await put_question(redis_stores, question)
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


@pytest.mark.redis
async def test_the_store_does_not_record_who_repeats_a_question(redis_stores: OpenStores) -> None:
    await redis_stores.questions.record_question(APP, "what", "u:gina-holt", 3)
    marks = await redis_stores.server.execute("SMEMBERS", keys.question_asker(APP, 3))
    assert marks
    assert all(b"gina" not in mark for mark in marks)


@pytest.mark.redis
async def test_a_large_answer_is_stored_whole(redis_stores: OpenStores) -> None:
    question = a_question(metadata={"page": "x" * 100_000})
    await put_question(redis_stores, question)
    answer = Answer(revision=2, stage="y" * 1_000_000)
    assert await redis_stores.questions.write(question, answer, b"z" * 1_000_000, holder="one", until_ms=NOW)
    recorded = require(await redis_stores.questions.read(APP, question.question_id))
    assert recorded.answer == answer
