from __future__ import annotations

from typing import Any

import pytest

from cluster.records.apps import AppSettings
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.question import Answer, CitedPassage, CitedSentence, Question, TextGeneration
from cluster.store.archive.log_stream import MOST_BATCHES
from deployments.archive.admission import ArchiveCaller
from deployments.archive.usage_log import PendingToolCall, UsageLog
from tests.fakes.request_handler import NOW_MS, StillClock
from tests.fakes.stores.query_log import MemoryLogStream

APP = "news"
PERSON = ArchiveCaller("usr-ida", "c-1", "Claude", "claude.ai")


@pytest.fixture
def store(clock: StillClock) -> MemoryLogStream[ArchiveCall]:
    return MemoryLogStream(clock)


def open_log(store: MemoryLogStream[ArchiveCall], clock: StillClock, **settings: Any) -> UsageLog:
    return UsageLog(store, lambda: APP, clock, find_settings=lambda app_id: AppSettings(**settings))


def question(**more: Any) -> Question:
    return Question(
        question_id="q-1",
        app_id="shop",
        text="Who won?" * 200,
        asked_at=NOW_MS - 1_200,
        deadline_at=NOW_MS,
        **more,
    )


async def test_a_question_of_the_api_is_a_row_with_cost_and_sources(
    store: MemoryLogStream[ArchiveCall], clock: StillClock
) -> None:
    log = open_log(store, clock)
    passages = tuple(CitedPassage(product_id=name, position=0, text="t") for name in ("b", "a", "b"))
    answer = Answer(
        finish_reason="success", sentences=(CitedSentence(text="Åse.", passage=0),), passages=passages
    )
    log.record_question(question(), answer, 812)
    log.record_question(question(user_id="ida"), answer)
    log.record_question(question(anonymous_id="v-1"), answer)
    log.record_question(question(), Answer(finish_reason="forbidden", blocked_reason="no tier"))
    log.record_question(question(generation=TextGeneration()), answer)
    log.record_question(question(is_automated=True), answer)
    await log.write()
    answered, of_user, of_visitor, forbidden = await store.read_all("shop", "0")
    assert (answered.tool, answered.client_name, answered.call_id) == ("ask_question", "(api)", "q-1")
    assert (answered.articles, answered.model_tokens, answered.took_ms) == (("b", "a"), 812, 1_200)
    assert (answered.reply_bytes, len(answered.question)) == (5, 500)
    assert "ida" not in str(of_user)
    assert (of_user.question, of_visitor.question) == ("", "")  # an erasure would not reach their words
    assert (forbidden.outcome, forbidden.refusal) == ("refused", "no tier")


async def test_no_text_of_a_question_is_kept_where_queries_are_not_logged(
    store: MemoryLogStream[ArchiveCall], clock: StillClock
) -> None:
    log = open_log(store, clock, query_log="off")
    usage = PendingToolCall.from_arguments("ask_archive", PERSON, {"question": "Who won?"}, 0.0)
    log.record(usage.finish(("a",), 0.4))
    log.record_question(question(), Answer(finish_reason="success"))
    await log.write()
    rows = [*await store.read_all(APP, "0"), *await store.read_all("shop", "0")]
    assert [(row.tool, row.question) for row in rows] == [("ask_archive", ""), ("ask_question", "")]
    assert (rows[0].host, "usr-ida" in str(rows)) == ("claude.ai", False)


async def test_rows_wait_while_the_queue_is_full(
    store: MemoryLogStream[ArchiveCall], clock: StillClock
) -> None:
    log = open_log(store, clock)
    for _ in range(MOST_BATCHES):
        await store.append(APP, [ArchiveCall(1, "search", "", "")])
    log.record_visit(APP, "c1", "a")
    await log.write()
    assert len(await store.read_all(APP, "0")) == MOST_BATCHES
    await store.trim(APP, (await store.newest_offset(APP)))
    await log.write()
    (visit,) = await store.read_all(APP, "0")
    assert (visit.event, visit.call_id, visit.articles) == ("visit", "c1", ("a",))


async def test_a_full_queue_of_one_app_delays_no_row_of_another(
    store: MemoryLogStream[ArchiveCall], clock: StillClock
) -> None:
    log = open_log(store, clock)
    for _ in range(MOST_BATCHES):
        await store.append(APP, [ArchiveCall(1, "search", "", "")])
    log.record_visit(APP, "c1", "a")
    log.record_visit("wine", "c2", "b")
    await log.write()
    assert [row.call_id for row in await store.read_all("wine", "0")] == ["c2"]
    await store.trim(APP, (await store.newest_offset(APP)))
    await log.write()
    assert [row.call_id for row in await store.read_all(APP, "0")] == ["c1"]
