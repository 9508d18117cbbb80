"""Entitled answers: the asker's token opens what locked articles answer, and nobody and nothing else ever does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.records.question import entitled_answer_id
from tests.contract.test_ask import Desk
from tests.contract.test_ask_access import (
    ABSENT,
    ACCESS,
    LOCKED,
    everything_shown,
    open_interface,
    token_with,
)
from tests.fakes.corner_shop import upload

QUESTION = "Who signed the treaty about the water of the river?"
"Only an article for `subscriber` answers it."
ACCESSES = {"tiers": ["subscriber"]}
_STORE_CALLS = (
    "shown", "shown_many", "read", "list_citing", "list_popular", "record_question", "recall", "remember", "write",
)  # fmt: skip


@pytest.fixture
async def client() -> AsyncIterator[Desk]:
    async with open_interface(LOCKED) as opened:
        yield opened


async def finish(client: Desk, question_id: str, token: Any = None, **more: Any) -> dict[str, Any]:
    """Poll as a browser does until the answer is finished; the revision never falls."""
    seen = 0
    for _ in range(3_000):
        reply = await client.get(f"questions/{question_id}/answer", browser=True, token=token, **more)
        assert reply.status == 200, reply.body
        record: dict[str, Any] = reply.json()["data"]
        assert record["revision"] >= seen
        assert "_access" not in record
        seen = record["revision"]
        if record["finished"]:
            return record
        await asyncio.sleep(0.01)
    raise AssertionError("the answer was never finished")


def cited(record: dict[str, Any]) -> list[str]:
    return [source["product_id"] for source in record["sources"]]


async def test_the_token_of_the_asker_opens_the_answer_from_locked_articles(client: Desk) -> None:
    token = token_with(client, **ACCESSES)
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    record = await finish(client, question_id, token)
    assert cited(record) == ["river-treaty"]
    assert record["question_id"] == question_id
    assert "signed a treaty" in record["answer"]
    reply = await client.post("answers", {"question_ids": [question_id]}, browser=True, token=token)
    assert reply.json()["data"] == [{**record, "metadata": {}}], "only the poll repeats the claims"
    formatted = {"question_ids": [question_id], "cite_start": "(", "cite_end": ")", "source_fl": ["url"]}
    reply = await client.post("answers", formatted, browser=True, token=token)
    assert reply.json()["data"][0]["sources"][0]["url"] == "https://news.example/river-treaty"


@pytest.mark.parametrize(
    "reading",
    [
        None,
        {"tiers": []},
        {"tiers": ["gold", "open", "Subscriber"]},
        {"tiers": "subscriber"},
        {"tiers": ["subscriber"], "user_id": "harry"},
        {"tiers": ["subscriber"], "exp": 1},
    ],
)
async def test_everybody_else_reads_the_answer_that_open_articles_give(client: Desk, reading: Any) -> None:
    token = token_with(client, **ACCESSES)
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    await finish(client, question_id, token)
    async with open_interface(ABSENT) as absent:
        open_id = await absent.post_question(QUESTION, browser=True, token=token)
        expected = await finish(absent, open_id)
    assert expected.pop("metadata") == {}
    other = None if reading is None else {**token_with(client), **reading}
    record = await finish(client, question_id, other)
    claims = record.pop("metadata")
    assert record == {**expected, "question_id": question_id}
    assert claims in ({}, ACCESSES), "the claims of the token that asked"
    record["metadata"] = {}
    if other is None or other["exp"] > 1:
        body = {"question_ids": [question_id]}
        reply = await client.post("answers", body, browser=True, token=other)
        assert reply.json()["data"] == [record]
        reply = await client.post("answers", {**body, "cite_start": "["}, browser=True, token=other)
        assert cited(reply.json()["data"][0]) == cited(record)
    reply = await client.post("answers", {"question_ids": [question_id]})
    assert reply.json()["data"] == [record], "a secret key opens nothing without a token"


async def test_an_answer_closes_when_the_token_ends_and_opens_again_with_the_next(client: Desk) -> None:
    token = token_with(client, **ACCESSES)
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    assert cited(await finish(client, question_id, token))
    client.corner.clock.pass_ms(60_000)
    assert not cited(await finish(client, question_id, token))
    assert not cited(await finish(client, question_id, token_with(client)))
    assert cited(await finish(client, question_id, token_with(client, tiers=["gold", "subscriber"])))


async def test_an_answer_closes_when_all_tokens_of_its_asker_are_ended(client: Desk) -> None:
    access, keyring = client.corner.stores.access, client.corner.keyring
    now_s = client.corner.clock.now_ms() // 1000
    token, later = (token_with(client, **ACCESSES, iat=now_s + age_s) for age_s in (0, 1))
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    assert cited(await finish(client, question_id, token))
    await access.end_tokens("shop", "gina", now_s * 1_000)
    assert cited(await finish(client, question_id, token)), "the replica has not polled yet"
    await keyring.refresh()
    assert not cited(await finish(client, question_id, token)), "a poll reads the open answer"
    assert cited(await finish(client, question_id, later))
    refused = (401, {"message": "Invalid JWT token: ended"})
    body = {"question_ids": [question_id]}
    for ended in (token, token_with(client, **ACCESSES)):
        reply = await client.post("answers", body, browser=True, token=ended)
        assert (reply.status, reply.json()) == refused
        reply = await client.post("search", {"q": "treaty"}, browser=True, token=ended)
        assert (reply.status, reply.json()) == refused
        reply = await client.post("questions", {"question": QUESTION}, browser=True, token=ended)
        assert (reply.status, reply.json()) == refused
    for valid in (later, {**token, "user_id": "harry"}):
        assert (await client.post("answers", body, browser=True, token=valid)).status == 200


async def test_no_request_can_name_an_entitled_answer(client: Desk) -> None:
    token = token_with(client, **ACCESSES)
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    await finish(client, question_id, token)
    name = entitled_answer_id(question_id, "gina")
    assert await client.corner.stores.questions.shown("shop", name)
    for reply in (
        await client.get(f"questions/{name}/answer"),
        await client.post("answers", {"question_ids": [name]}),
        await client.post("questions", {"question": "Why?", "parent_question_id": name}),
    ):
        assert reply.status == 422


async def test_the_memory_of_answers_keeps_entitled_ones_apart(client: Desk) -> None:
    token = token_with(client, **ACCESSES)
    await finish(client, await client.post_question(QUESTION, browser=True, token=token), token)
    other = {**token, "user_id": "harry"}
    again = await client.post_question(QUESTION, browser=True, token=other)
    assert cited(await finish(client, again, other)) == ["river-treaty"]
    stored = await client.corner.stores.questions.read("shop", entitled_answer_id(again, "harry"))
    assert stored is not None
    assert (stored.answer.composer, stored.answer.access) == ("reused", ("subscriber",))
    for reading in (None, token_with(client, tiers=["gold"])):
        fresh = await client.post_question(QUESTION, browser=True, token=reading)
        assert not cited(await finish(client, fresh, reading))


async def test_lists_reports_and_suggestions_show_nothing_of_entitled_answers() -> None:
    async with open_interface(LOCKED) as locked, open_interface(ABSENT) as absent:
        for client in (locked, absent):
            for name in ("gina", "harry", "ida", "jo"):
                token = {**token_with(client, tiers=["subscriber", "gold"]), "user_id": name}
                question_id = await client.post_question(QUESTION, browser=True, token=token)
                await finish(client, question_id, token)
        shown = await everything_shown(locked)
        assert shown == await everything_shown(absent)
        assert QUESTION not in str([entry[-1] for entry in shown]), "no open article answers it"
        recent = await locked.corner.stores.questions.list_recent("shop", start=0, count=100)
        assert len(recent) == 4
        assert not any(stored.question.is_entitled or stored.answer.passages for stored in recent)


async def test_a_question_that_open_articles_answer_counts_as_popular(client: Desk) -> None:
    text = "How long did the flood of the river last?"
    for name in ("gina", "harry", "ida"):
        token = {**token_with(client, **ACCESSES), "user_id": name}
        question_id = await client.post_question(text, browser=True, token=token)
        record = await finish(client, question_id)
    popular = await client.post("trending_questions", {}, browser=True)
    assert (text in popular.json()["data"]["related_questions"]) == bool(record["sources"])
    assert record["sources"]


async def test_an_article_that_changes_its_lock_leaves_the_answer(client: Desk) -> None:
    token = token_with(client, **ACCESSES)
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    await finish(client, question_id, token)
    rechecker = client.corner.asking.rechecker
    await rechecker.run_once()
    article = next(entry for entry in LOCKED if entry["product_id"] == "river-treaty")
    await upload(client.corner.stores, [{**article, "access": "gold"}], app_id="shop")
    assert await rechecker.run_once()
    assert not cited(await finish(client, question_id, token))
    assert "signed a treaty" not in (await finish(client, question_id, token))["answer"]


async def test_an_article_that_is_locked_leaves_the_questions_about_it() -> None:
    opened = [{**entry, "access": "open"} for entry in LOCKED if entry["product_id"] in ACCESS]
    others = [entry for entry in LOCKED if entry["product_id"] not in ACCESS]
    async with open_interface([*others, *opened]) as client:
        for visitor in ("a", "b", "c"):
            question_id = await client.post_question(QUESTION, anonymous_id=visitor)
            record = await finish(client, question_id)
        assert "river-treaty" in cited(record)
        about = {"product_id": "river-treaty"}
        popular = (await client.post("related_questions", about, browser=True)).json()["data"]
        assert popular["related_questions"][0] == QUESTION
        rechecker = client.corner.asking.rechecker
        await rechecker.run_once()
        await upload(
            client.corner.stores, [entry for entry in LOCKED if entry["product_id"] in ACCESS], app_id="shop"
        )
        assert await rechecker.run_once()
        nothing = (await client.post("related_questions", about, browser=True)).json()["data"]
        assert nothing["related_questions"] == []


async def count_work(client: Desk) -> list[tuple[str, int]]:
    """Return how often each method of store and archive is called for somebody without a token."""
    calls: Counter[str] = Counter()
    questions = client.corner.stores.questions

    def counted(name: str, call: Any) -> Any:
        def count(*given: Any, **more: Any) -> Any:
            calls[name] += 1
            return call(*given, **more)

        return count

    token = token_with(client, **ACCESSES)
    stored = await client.post_question(QUESTION, browser=True, token=token)
    await finish(client, stored, token)
    await client.corner.asking.queue.wait_idle()
    for part, names in ((questions, _STORE_CALLS), (client.corner.archive, ("ask", "article"))):
        for name in names:
            setattr(part, name, counted(name, getattr(part, name)))
    unproven = await client.post_question(QUESTION, browser=True)
    await client.corner.asking.queue.wait_idle()
    for question_id in (unproven, stored):
        await client.get(f"questions/{question_id}/answer", browser=True)
        for extra in ({}, {"cite_start": "("}):
            await client.post("answers", {"question_ids": [question_id], **extra}, browser=True)
    for product_id in ("river-treaty", "river-flood"):
        await client.post("related_questions", {"product_id": product_id}, browser=True)
    await client.post("trending_questions", {}, browser=True)
    await client.post("autocomplete", {"q": "who"}, browser=True)
    return sorted(calls.items())


async def test_locked_articles_add_no_work_for_those_without_a_token() -> None:
    async with open_interface(LOCKED) as locked, open_interface(ABSENT) as absent:
        work = await count_work(locked)
        assert work == await count_work(absent)
        assert dict(work)["ask"] >= 2, "a question was stored and searched"
