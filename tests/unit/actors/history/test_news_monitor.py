"""The monitor over memory stores, with somebody who answers as told, killed wherever it hurts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.history.loop import TrackerLoop
from actors.history.messages import GenerateUpdate, ThreadChange
from actors.history.news_monitor import FULL_RELOAD_S, LAG_MS, PAGE
from actors.history.notifier import ANSWER_TIMEOUT_MS, MAX_OPEN_QUESTIONS
from actors.history.threads import GAP_MS, MAX_PRODUCTS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import TooMany, Unavailable
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.thread import ThreadAnswer
from tests.fakes.newsroom import APP, JUDGES, Newsroom, damage, sale
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

CELLAR = (
    "Boat builders who are the owner of the old cement works at Harrow Bay have stopped: below the kiln lies a cellar "
    "that no plan shows. Archaeologists were called, and nothing will open before autumn."
)


def good(*sources: str, text: str = "A cooperative of boat builders owns it [1].") -> ThreadAnswer:
    return ThreadAnswer(True, True, sources, text)


@pytest.fixture
def room() -> Newsroom:
    clock = StillClock()
    return Newsroom(memory_stores(clock), clock)


def cellar() -> dict[str, Any]:
    return {"product_id": "cellar", "title": "Cellar found in cement works at Harrow Bay", "text": CELLAR}


async def test_significant_content_appends_an_update_and_raises_the_indicators(
    room: Newsroom,
) -> None:
    await room.watch()
    await room.upload(sale(), {"product_id": "hoe", "title": "Hoe", "text": "A hoe with a handle of ash."})
    await room.rounds()
    assert room.answerer.questions == [], "it is left alone for a moment, so that whoever answers has it too"
    await room.ripen()
    ((user_id, text, parent_id, question_id),) = room.answerer.questions
    assert (user_id, text, parent_id) == (
        "ada",
        "Who is the owner of the old cement works at Harrow Bay?",
        "q1",
    )
    assert not await room.history.has_new(APP, "ada"), "not before the answer is there"
    room.answerer.finish(good("sale"))
    await room.rounds(1)
    thread = await room.thread()
    assert thread.question_ids == ("q1", question_id)
    assert thread.has_new
    assert thread.time_ms == room.clock.now_ms()
    assert await room.history.has_new(APP, "ada")
    assert thread.news is not None
    assert (thread.news.state, thread.news.product_ids) == ("told", ("sale",))
    assert thread.news.score > 0.5
    assert "Cement works at Harrow Bay sold" in thread.news.reason


async def test_insignificant_content_starts_no_question(room: Newsroom) -> None:
    await room.watch()
    await room.upload({"product_id": "regatta", "title": "Harrow Bay regatta", "text": "Forty boats sailed."})
    old = {**sale("old"), "published_ms": room.clock.now_ms() - 90 * 86_400_000}
    await room.upload(old)
    await room.ripen()
    assert room.answerer.times == 0
    assert (await room.thread()).news is None
    assert await room.stores.threads.judged_offset(APP) == await room.stores.changes.last(APP, "product")


async def test_what_was_there_before_the_subscription_is_no_news(room: Newsroom) -> None:
    await room.upload(sale())
    await room.watch()
    await room.ripen()
    assert room.answerer.times == 0


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ThreadAnswer(True, False), "the archive still does not answer the question"),
        (good("another"), "the new answer does not rest on what is new"),
        (good("sale", text="Nobody owns it [2]"), "the new answer says what the one before said"),
    ],
)
async def test_an_answer_without_news_is_not_appended(
    room: Newsroom, reply: ThreadAnswer, reason: str
) -> None:
    await room.watch()
    room.answerer.answers["q1"] = good("before", text="Nobody owns it [1].")
    await room.upload(sale())
    await room.ripen()
    room.answerer.finish(reply)
    await room.rounds()
    thread = await room.thread()
    assert (thread.question_ids, thread.has_new) == (("q1",), False)
    assert thread.news is not None
    assert (thread.news.state, thread.news.reason) == ("dropped", reason)
    await room.upload(sale("copy"))
    await room.ripen()
    assert room.answerer.times == 1, "the same in other words is not asked about again"


async def test_news_during_an_answer_is_sent_after_it(room: Newsroom) -> None:
    await room.watch()
    await room.upload(sale())
    await room.ripen()
    await room.upload(cellar())
    await room.ripen()
    room.answerer.finish(good("sale"))
    await room.rounds()
    assert len((await room.thread()).question_ids) == 2
    assert len(room.answerer.questions) == 1, "updates of a thread keep apart"
    room.clock.pass_ms(GAP_MS)
    await room.rounds()
    assert [parent for _, _, parent, _ in room.answerer.questions] == [
        "q1",
        (await room.thread()).question_ids[1],
    ]
    room.answerer.finish(good("sale", "cellar", text="Boat builders, and archaeologists found a cellar [2]"))
    await room.rounds()
    assert len((await room.thread()).question_ids) == 3


async def test_a_kill_after_any_step_loses_and_repeats_nothing(room: Newsroom) -> None:
    await room.watch()
    await room.upload(sale())
    room.clock.pass_ms(LAG_MS)
    for step in range(12):
        room.kill()
        await room.rounds(1)
        if step == 5:
            room.answerer.finish(good("sale"))
    thread = await room.thread()
    assert len(thread.question_ids) == 2
    assert len(room.answerer.questions) == 1
    await room.history.change(ThreadChange(APP, "ada", "dismiss_thread", ("q1",)))
    await room.stores.threads.record_judged_offset(APP, "0")
    room.kill()
    await room.rounds()
    assert not await room.history.has_new(APP, "ada"), "judged again, told once"
    assert len(room.answerer.questions) == 1


async def test_what_settled_while_nobody_watched_is_judged_from_the_shelf(
    room: Newsroom, tmp_path: Path
) -> None:
    room.segments = SegmentStore(ArtifactStore.open(tmp_path))
    await room.upload(sale("before"))
    await room.watch()
    await room.rounds()
    room.kill()
    for number in range(12):
        await room.upload({"product_id": f"hoe-{number}", "title": "Hoe", "text": "A hoe."})
    await room.upload(sale("draft"))
    await room.upload(sale(), sale("draft"))
    await room.settle()
    await room.rounds(1)
    room.kill()
    assert (await room.thread()).news is None, "some of it is judged at a time"
    await room.rounds(8)
    news = (await room.thread()).news
    assert news is not None
    assert news.product_ids == ("draft", "sale"), "what was there before the subscription is none"
    await room.upload(cellar())
    room.answerer.reply = good("sale")
    await room.ripen()
    later = (await room.thread()).later or (await room.thread()).news
    assert later is not None
    assert "cellar" in later.product_ids, "behind the gap the log goes on"
    assert await room.stores.threads.judged_offset(APP) == await room.stores.changes.last(APP, "product")


async def test_a_shelf_that_can_not_be_read_stops_nobody(room: Newsroom, tmp_path: Path) -> None:
    room.segments = SegmentStore(ArtifactStore.open(tmp_path))
    await room.watch()
    await room.rounds()
    room.kill()
    await room.upload(sale())
    await room.settle()
    damage(tmp_path)
    await room.rounds()
    assert (await room.thread()).news is None
    await room.upload(cellar())
    await room.ripen()
    news = (await room.thread()).news
    assert news is not None
    assert news.product_ids == ("cellar",)


async def test_a_kill_before_acceptance_submits_the_same_question_id(room: Newsroom) -> None:
    await room.watch()
    await room.upload(sale())
    room.answerer.wrong = Unavailable("away")
    room.clock.pass_ms(LAG_MS)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await room.rounds()
        room.kill()
    noted = (await room.thread()).news
    assert noted is not None
    assert noted.state == "asked"
    room.answerer.wrong, room.answerer.reply = None, good("sale")
    await room.rounds()
    assert (await room.thread()).question_ids == ("q1", noted.question_id)


async def test_a_missing_answer_is_dropped_and_the_next_news_sent(room: Newsroom) -> None:
    await room.watch()
    await room.upload(sale())
    await room.ripen()
    room.clock.pass_ms(ANSWER_TIMEOUT_MS + 1)
    await room.rounds(1)
    news = (await room.thread()).news
    assert news is not None
    assert (news.state, news.reason) == ("dropped", "no answer came in time")
    room.answerer.reply = good("cellar")
    await room.upload(cellar())
    await room.ripen()
    assert (await room.thread()).has_new


async def test_unsubscribed_users_get_no_update(room: Newsroom) -> None:
    await room.watch("ada")
    await room.watch("bob", "q2")
    await room.watch("ada", "q3", "When does the regatta begin?")
    await room.upload(sale())
    await room.ripen()
    await room.history.change(ThreadChange(APP, "ada", "unsubscribe", ("q1",)))
    await room.history.change(ThreadChange(APP, "bob", "delete", ("q2",)))
    room.answerer.finish(good("sale"))
    await room.rounds()
    assert (await room.thread()).question_ids == ("q1",)
    assert not await room.history.has_new(APP, "ada")
    assert (await room.stores.threads.read(APP, "bob")).threads == {}
    assert room.monitor is not None
    assert room.monitor._notifier._submitted_at == {}


async def test_users_of_all_pages_are_watched_after_every_full_reload(room: Newsroom) -> None:
    for number in range(PAGE + 1):
        await room.watch(f"user-{number}")
    for _ in range(2):
        await room.rounds(1)
        assert room.monitor is not None
        assert len(room.monitor.watched_threads) == PAGE + 1
        room.clock.pass_ms(int(FULL_RELOAD_S * 1000))


async def test_a_flood_is_judged_in_bounded_rounds_with_one_question(room: Newsroom) -> None:
    await room.watch()
    for number in range(10):
        await room.upload(*(sale(f"s{number}-{n}") for n in range(50)))
    room.clock.pass_ms(LAG_MS)
    assert room.monitor is None
    await room.rounds(1)
    assert await room.stores.threads.judged_offset(APP) != await room.stores.changes.last(APP, "product")
    await room.rounds(4)
    assert await room.stores.threads.judged_offset(APP) == await room.stores.changes.last(APP, "product")
    assert len(room.answerer.questions) == 1
    news = (await room.thread()).news
    assert news is not None
    assert len(news.product_ids) == MAX_PRODUCTS


async def test_open_questions_are_bounded(room: Newsroom) -> None:
    for number in range(20):
        await room.watch(f"reader-{number}", f"q{number}")
    await room.upload(sale())
    await room.ripen()
    assert len(room.answerer.questions) == MAX_OPEN_QUESTIONS
    for _ in range(6):
        room.answerer.finish(good("sale"))
        await room.rounds(2)
    assert len(room.answerer.questions) == 20
    assert [await room.history.has_new(APP, f"reader-{number}") for number in range(20)] == [True] * 20


async def test_who_answers_may_be_too_busy(room: Newsroom) -> None:
    await room.watch()
    await room.upload(sale())
    room.answerer.wrong = TooMany("later")
    await room.ripen()
    room.answerer.wrong, room.answerer.reply = None, good("sale")
    await room.rounds()
    assert (await room.thread()).has_new


async def test_a_poisonous_record_stops_nobody(room: Newsroom) -> None:
    await room.watch()
    await room.upload({"product_id": "bad", "text": "no title, and whoever reads it stumbles"}, sale())
    await room.ripen()
    assert len(room.answerer.questions) == 1


async def test_generate_appends_whatever_comes_of_it(room: Newsroom) -> None:
    await room.watch()
    room.answerer.reply = ThreadAnswer(True, False)
    made = await room.history.generate_update(GenerateUpdate(APP, "ada", "q1"))
    assert (await room.thread()).question_ids == ("q1", made.question_id)
    assert await room.history.has_new(APP, "ada")


async def test_nothing_is_generated_for_a_thread_that_is_not_subscribed(room: Newsroom) -> None:
    await room.watch()
    await room.history.change(ThreadChange(APP, "ada", "unsubscribe", ("q1",)))
    made = await room.history.generate_update(GenerateUpdate(APP, "ada", "q1"))
    assert (made.appended, made.question_id) == (False, "")
    assert room.answerer.questions == []
    assert (await room.thread()).question_ids == ("q1",)


async def test_what_was_unsubscribed_meanwhile_names_no_question(
    room: Newsroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.watch()
    room.answerer.reply = ThreadAnswer(True, True)
    ask = room.answerer.ask

    async def ask_and_unsubscribe(*words: Any) -> None:
        await ask(*words)
        await room.history.change(ThreadChange(APP, "ada", "unsubscribe", ("q1",)))

    monkeypatch.setattr(room.answerer, "ask", ask_and_unsubscribe)
    made = await room.history.generate_update(GenerateUpdate(APP, "ada", "q1"))
    assert (made.appended, made.question_id) == (False, "")


async def test_the_loop_finds_apps_and_goes_by_their_threshold(room: Newsroom) -> None:
    settings = AppSettings(update_significance=0.99)
    await room.stores.access.put_app(
        App(app_id=APP, environment="development", settings=settings, created_at=0)
    )
    loop = TrackerLoop(room.stores, JUDGES, room.answerer, room.clock, SilentMeter(), owner="me")
    other = TrackerLoop(room.stores, JUDGES, room.answerer, room.clock, SilentMeter(), owner="other")
    await room.watch(text="Who is the owner of the old cement works at Harrow Bay and of its vineyard?")
    await room.upload(sale())
    room.clock.pass_ms(LAG_MS)
    await loop.run_once()
    assert not await other.run_once()
    state = loop.state()
    assert (state.working, state.apps, state.watched, state.waiting) == (True, 1, 1, 0)
    assert not other.state().working
    await room.stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    room.clock.pass_ms(LAG_MS)
    await loop.run_once()
    await room.upload(sale("again"))
    room.clock.pass_ms(LAG_MS)
    await loop.run_once()
    assert loop.state().waiting == 1


@pytest.mark.parametrize("departure", ["unsubscribe", "delete", "erase"])
async def test_news_of_departed_users_starts_no_question(room: Newsroom, departure: Any) -> None:
    await room.watch()
    await room.upload(sale())
    room.answerer.wrong = TooMany("later")
    await room.ripen()
    if departure == "erase":
        await room.stores.threads.erase(APP, ["ada"])
    else:
        await room.history.change(ThreadChange(APP, "ada", departure, ("q1",)))
    room.answerer.wrong = None
    await room.rounds()
    assert room.answerer.questions == []
    assert room.monitor is not None
    assert len(room.monitor.watched_threads) == 0
