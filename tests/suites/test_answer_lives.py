"""What answers live through: workers that die, stores that go away, articles that change under them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.answers.citation_recheck import LATE_MS
from actors.answers.client import QuestionClient, open_question_client
from actors.answers.leased_answer import LEASE_MS
from actors.answers.leased_questions import MAX_ATTEMPTS
from actors.answers.passage_filter import keep_readable
from actors.answers.render import WITHDRAWN
from actors.answers.repeated_questions import QuestionRepeater
from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveQuery, ArchiveResult
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.ids import new_question_id
from cluster.meter import SilentMeter
from cluster.records.question import (
    ANSWER_WITHIN_MS,
    Answer,
    CitedPassage,
    CitedSentence,
    Question,
    build_entitled_question,
)
from cluster.store.archive.user_questions import StoredQuestion
from cluster.store.stores import Stores
from tests.fakes.corner_shop import upload, withdraw
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock
from tests.suites.waiting import until

APP = "news"
QUESTION = "Who signed the treaty about the water of the river?"
OTHERWISE = "<p>The talks about the border failed in winter.</p>"
TREATY = next(article for article in ARTICLES if article["product_id"] == "river-treaty")


class Moody(ArchiveHost):
    """An archive that does what a test wants before it answers."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores, None, None, SystemClock(), SilentMeter())
        self.gate = asyncio.Event()
        self.gate.set()
        self.wrong: list[Exception] = []
        self.requests = 0

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        self.requests += 1
        await self.gate.wait()
        if self.wrong:
            raise self.wrong.pop()
        return await super().ask(query)


class House:
    """Stores and an archive, and as many processes that answer as a test wants."""

    def __init__(self, stores: Stores, clock: ManualClock, archive: Moody) -> None:
        self.stores = stores
        self.clock = clock
        self.archive = archive
        self.open: list[QuestionClient] = []

    async def worker(self) -> QuestionClient:
        """Start a process that answers; its loops are turned by hand."""
        made = open_question_client(
            self.stores, self.archive, self.clock, SilentMeter(), app_ids=lambda: (APP,)
        )
        made.queue._loops = [asyncio.get_running_loop().create_task(asyncio.sleep(3600))]
        self.open.append(made)
        return made

    async def begin(
        self, question: Question | None = None
    ) -> tuple[QuestionClient, QuestionClient, Question]:
        """Let one of two workers begin an answer, which waits for the archive until its gate is set."""
        self.archive.gate.clear()
        first, second = await self.worker(), await self.worker()
        question = question or self.question()
        await first.submit(question)
        await until(lambda: self.archive.requests == 1)
        return first, second, question

    def question(self, text: str = QUESTION, **more: Any) -> Question:
        now_ms = self.clock.now_ms()
        times = {"asked_at": now_ms, "deadline_at": now_ms + ANSWER_WITHIN_MS}
        return Question(**{"question_id": new_question_id(), "app_id": APP, "text": text, **times, **more})

    async def recorded(self, question: Question | str) -> StoredQuestion:
        question_id = question if isinstance(question, str) else question.question_id
        return require(await self.stores.questions.read(APP, question_id))

    async def shown(self, question: Question) -> dict[str, Any]:
        raw = require(await self.stores.questions.shown(APP, question.question_id))
        record: dict[str, Any] = json.loads(raw)
        return record

    async def answered(self, text: str = QUESTION, **more: Any) -> Question:
        worker, question = await self.worker(), self.question(text, **more)
        await worker.submit(question)
        await worker.queue.wait_idle()
        assert (await self.recorded(question)).answer.finished
        return question


@pytest.fixture
async def house() -> AsyncIterator[House]:
    stores, clock = memory_stores(), ManualClock(SystemClock().now_ms())
    await upload(stores, ARTICLES, app_id=APP)
    made = House(stores, clock, Moody(stores))
    yield made
    made.archive.gate.set()
    for worker in made.open:
        await worker.close()
    await made.archive.close()


def kill(worker: QuestionClient) -> None:
    """Stop a process between two instructions: nothing is released, nothing is written."""
    for task in [*worker.queue._tasks.values(), *worker.queue._loops]:
        task.cancel()
    worker.queue._hands.clear()


async def take_over(worker: QuestionClient) -> None:
    """Let a worker look for questions without a worker, and finish their answers."""
    await worker.queue.sweep()
    await worker.queue.wait_idle()


async def test_the_answer_of_a_worker_that_died_is_finished_by_another(house: House) -> None:
    first, second, question = await house.begin()
    before = (await house.shown(question))["revision"]
    kill(first)
    house.archive.gate.set()
    await second.queue.sweep()
    assert second.queue.active_count == 0, "it is still held"
    house.clock.advance(LEASE_MS)
    await take_over(second)
    record = await house.shown(question)
    assert (record["finish_reason"], record["finished"]) == ("success", True)
    assert record["revision"] > before
    assert record["sources"][0]["product_id"] == "river-treaty"
    assert (await house.recorded(question)).attempts == 2


async def test_a_takeover_is_reported_once_unless_generated(house: House) -> None:
    texts: list[str] = []

    async def begun(question: Question) -> None:
        texts.append(question.text)

    worker = await house.worker()
    worker.queue._begun = begun
    for text, more in (
        ("a reader's", {"user_id": "gina", "logged": True}),
        ("a visitor's", {}),
        ("the monitor's", {"user_id": "gina", "logged": True, "metadata": {"service_generated_by": "x"}}),
    ):
        question = house.question(text, **more)
        await house.stores.questions.ask(question, Answer(), b"{}", holder="dead", until_ms=0)
    await take_over(worker)
    assert texts == ["a reader's"]


async def test_a_worker_that_wakes_up_late_can_not_change_what_another_finished(house: House) -> None:
    sleeper, other, question = await house.begin()
    house.clock.advance(LEASE_MS)
    await other.queue.sweep()
    house.archive.gate.set()
    await other.queue.wait_idle()
    record = await house.shown(question)
    await sleeper.queue.wait_idle()
    assert await house.shown(question) == record
    assert record["finish_reason"] == "success"


async def test_a_worker_that_closes_hands_over_at_once(house: House) -> None:
    first, second, question = await house.begin()
    await first.close()
    house.archive.gate.set()
    await take_over(second)
    assert (await house.recorded(question)).answer.finish_reason == "success"


async def test_holding_on_keeps_others_away(house: House) -> None:
    first, second, _ = await house.begin()
    for _ in range(3):
        house.clock.advance(LEASE_MS - 1_000)
        await first.queue._renew_leases()
        await second.queue.sweep()
    assert (first.queue.active_count, second.queue.active_count) == (1, 0)


async def test_a_worker_does_not_claim_its_question_again_after_an_outage(house: House) -> None:
    first, second, question = await house.begin()
    house.clock.advance(LEASE_MS)
    await first.queue.sweep()
    assert (await house.recorded(question)).attempts == 1
    await first.queue._renew_leases()
    await second.queue.sweep()
    assert (first.queue.active_count, second.queue.active_count) == (1, 0)
    house.archive.gate.set()
    await first.queue.wait_idle()
    assert (await house.recorded(question)).answer.finish_reason == "success"
    assert house.archive.requests == 1


async def test_no_answer_stays_unfinished_beyond_its_deadline(house: House) -> None:
    first, second, question = await house.begin()
    kill(first)
    house.clock.advance(ANSWER_WITHIN_MS)
    await take_over(second)
    record = await house.shown(question)
    assert (record["finished"], record["finish_reason"], record["sources"]) == (True, "error", [])
    assert record["answer"]


async def test_a_question_that_kills_its_workers_is_given_up(house: House) -> None:
    house.archive.gate.clear()
    question = house.question()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        worker = await house.worker()
        if attempt == 1:
            await worker.submit(question)
        else:
            await worker.queue.sweep()
        await until(lambda attempt=attempt: house.archive.requests == attempt)
        kill(worker)
        house.clock.advance(LEASE_MS)
    last = await house.worker()
    await take_over(last)
    assert (await house.recorded(question)).answer.finish_reason == "error"
    assert house.archive.requests == MAX_ATTEMPTS


async def test_an_archive_that_is_still_loading_is_waited_for(house: House) -> None:
    house.archive.wrong = [Unavailable("loading"), Unavailable("loading")]
    question = await house.answered()
    assert (await house.recorded(question)).answer.finish_reason == "success"
    assert house.archive.requests == 3


async def test_a_fault_ends_the_answer_and_is_reported(house: House) -> None:
    house.archive.wrong = [ValueError("broken")]
    question = await house.answered()
    record = await house.shown(question)
    assert (record["finish_reason"], record["sources"]) == ("error", [])
    assert "broken" not in json.dumps(record)


async def test_more_questions_than_hands_wait_for_whoever_has_room(house: House) -> None:
    house.archive.gate.clear()
    first, second = await house.worker(), await house.worker()
    first.queue._most = 2
    questions = [house.question(f"{QUESTION} {number}") for number in range(5)]
    for question in questions:
        await first.submit(question)
    assert first.queue.active_count == 2
    house.archive.gate.set()
    await second.queue.sweep()
    assert second.queue.active_count == 3
    await first.queue.wait_idle()
    await second.queue.wait_idle()
    for question in questions:
        assert (await house.recorded(question)).answer.finish_reason == "success"


async def test_a_submitted_question_is_stored(house: House) -> None:
    parent = await house.answered(user_id="gina")
    asking = QuestionRepeater(house.stores.questions, house.clock)
    question_id = new_question_id()
    for _ in range(2):
        await asking.ask(APP, "gina", QUESTION, parent.question_id, question_id)
    outcome = require(await asking.get_progress(APP, question_id))
    assert not outcome.finished
    worker = await house.worker()
    await take_over(worker)
    outcome = require(await asking.get_progress(APP, question_id))
    assert (outcome.has_answer, outcome.sources[0]) == (True, "river-treaty")
    record = await house.shown((await house.recorded(question_id)).question)
    assert record["parent_question_id"] == parent.question_id
    assert record["metadata"] == {"service_generated_by": "answer_update_monitor"}
    assert await asking.get_progress(APP, new_question_id()) is None


# --- what is cited changes ------------------------------------------------------------------------------------------


async def _rechecked(house: House) -> int:
    return await house.open[-1].rechecker.run_once()


async def test_an_answer_whose_article_goes_is_withdrawn(house: House) -> None:
    question = await house.answered()
    await _rechecked(house)
    before = await house.shown(question)
    assert before["sources"]
    await withdraw(house.stores, ["river-treaty"], app_id=APP)
    assert await _rechecked(house) == 1
    record = await house.shown(question)
    assert (record["sources"], record["answer"], record["finish_reason"]) == ([], WITHDRAWN, "success")
    assert record["revision"] == before["revision"] + 1
    assert await _rechecked(house) == 0

    async def archive_has_heard() -> bool:
        result = await house.archive.ask(ArchiveQuery(APP, QUESTION))
        assert isinstance(result, ArchiveResult)
        return "river-treaty" not in [snippet.product_id for snippet in result.snippets]

    await until(archive_has_heard)
    # and the same question is answered anew, not with what is gone
    again = await house.shown(await house.answered())
    assert again["answer"] != before["answer"]


async def test_an_answer_whose_article_is_locked_is_withdrawn(house: House) -> None:
    question = await house.answered()
    rechecker = house.open[0].rechecker
    await rechecker.run_once()
    assert "treaty" in str(await house.shown(question))
    children = [{"id": "1", "html": "<p>Velmora and Ostrany signed a treaty, and a secret protocol.</p>"}]
    await upload(
        house.stores,
        [{**TREATY, "access": "subscriber", "children": [*TREATY["children"], *children]}],
        app_id=APP,
    )
    await rechecker.run_once()
    record = await house.shown(question)
    assert record["sources"] == []
    assert "river-treaty" not in str(record), record
    assert "secret protocol" not in str(record)


async def test_an_answer_loses_sentences_its_article_dropped(house: House) -> None:
    question = await house.answered()
    await _rechecked(house)
    children = [{**child, "html": OTHERWISE} for child in TREATY["children"]]
    await upload(house.stores, [{**TREATY, "children": children}], app_id=APP)
    assert await _rechecked(house) == 1
    assert (await house.shown(question))["answer"] == WITHDRAWN


async def test_an_answer_stays_while_its_article_supports_it(house: House) -> None:
    question = await house.answered()
    await _rechecked(house)
    before = await house.shown(question)
    await upload(house.stores, [TREATY], app_id=APP)
    assert await _rechecked(house) == 0
    first = TREATY["children"][0]
    longer = {**first, "html": "<p>It was a sunny day in the small town.</p>" + first["html"]}
    await upload(
        house.stores,
        [{**TREATY, "title": "A treaty", "children": [longer, *TREATY["children"][1:]]}],
        app_id=APP,
    )
    assert await _rechecked(house) == 1
    record = await house.shown(question)
    assert record["answer"] == before["answer"]
    assert record["sources"][0]["title"] == "A treaty"
    assert record["revision"] == before["revision"] + 1


async def test_changes_before_the_first_turn_are_nobodys_news_and_late_ones_are_seen_again(
    house: House,
) -> None:
    worker = await house.worker()
    await worker.rechecker.run_once()
    await withdraw(house.stores, ["river-treaty"], app_id=APP)
    await worker.rechecker.run_once()
    # an answer that was under way while the article went, as a slow worker would write it
    stale = await _citing(house)
    assert await worker.rechecker.run_once() == 0
    house.clock.advance(LATE_MS + 1_000_000_000_000)
    assert await worker.rechecker.run_once() == 1
    assert (await house.recorded(stale)).answer.sentences == ()


async def _citing(house: House) -> Question:
    question = house.question("slow")
    passage = CitedPassage(product_id="river-treaty", position=0, text="Velmora signed.")
    done = Answer(
        revision=2,
        finish_reason="success",
        sentences=(CitedSentence(text="Velmora signed.", passage=0, start=0, end=15),),
        passages=(passage,),
    )
    await house.stores.questions.ask(
        question, Answer(), b"{}", holder="slow", until_ms=house.clock.now_ms() + 9
    )
    assert await house.stores.questions.write(question, done, b"{}", holder="slow", until_ms=0)
    return question


async def entitled_question(house: House, **more: Any) -> Question:
    """Lock the article of the answer, and return the question of a user whose token opens it."""
    await upload(house.stores, [{**TREATY, "access": "gold"}], app_id=APP)
    question = house.question(user_id="gina", logged=True, **more)
    return build_entitled_question(question, frozenset(("gold", "registered")), None)


async def test_an_entitled_answer_begins_when_the_open_one_is_finished(house: House) -> None:
    entitled = await entitled_question(house)
    question = entitled.model_copy(
        update={"question_id": entitled.open_question_id, "open_question_id": "", "tiers": ()}
    )
    worker = await house.worker()
    house.archive.gate.clear()
    await worker.submit(question, entitled)
    await until(lambda: house.archive.requests == 1)
    assert worker.queue.active_count == 2, "both are held"
    before = await house.recorded(entitled)
    house.archive.gate.set()
    await worker.queue._tasks[question.question_id]
    assert (await house.recorded(question)).answer.finished
    assert (await house.recorded(entitled)).answer == before.answer
    await worker.queue.wait_idle()
    assert (await house.recorded(entitled)).answer.access == ("gold",)


async def test_an_entitled_answer_survives_its_worker_and_is_in_no_history(house: House) -> None:
    first, second, question = await house.begin(await entitled_question(house))
    texts: list[str] = []

    async def begun(taken: Question) -> None:
        texts.append(taken.text)

    second.queue._begun = begun
    kill(first)
    house.archive.gate.set()
    house.clock.advance(LEASE_MS)
    await take_over(second)
    stored = await house.recorded(question)
    assert (stored.answer.finish_reason, stored.answer.access, stored.attempts) == ("success", ("gold",), 2)
    assert texts == []


async def test_an_entitled_answer_that_fails_is_gone(house: House) -> None:
    question = await entitled_question(house)
    worker = await house.worker()
    house.archive.wrong.append(RuntimeError("a fault"))
    answered: list[Question] = []
    worker.queue._answered = lambda entitled, answer, tokens: answered.append(entitled)
    await worker.submit(question)
    await worker.queue.wait_idle()
    assert await house.stores.questions.read(APP, question.question_id) is None
    assert (worker.queue.active_count, answered) == (0, [])


async def test_the_stored_product_decides_what_an_entitled_answer_may_rest_on(house: House) -> None:
    question = await entitled_question(house)
    query = ArchiveQuery(APP, QUESTION, tiers=frozenset(question.tiers))
    snippets = (await house.archive.ask(query)).snippets
    before, access = await keep_readable(house.stores.records, question, snippets)
    assert (before, access) == (list(snippets), ("gold",))
    assert "river-treaty" in {snippet.product_id for snippet in before}
    for changed, product_ids in (("silver", False), ("open", True), ("registered", True)):
        await upload(house.stores, [{**TREATY, "access": changed}], app_id=APP)
        after, access = await keep_readable(house.stores.records, question, snippets)
        assert ("river-treaty" in {snippet.product_id for snippet in after}) == product_ids
        assert access == (("registered",) if changed == "registered" else ())
