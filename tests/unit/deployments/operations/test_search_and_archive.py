"""Use cases of search, questions, the question bank and the archive; no report names a person."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from cluster.records.account import Code, Grant
from cluster.records.archive.archive_client import CHECK_CLIENT, ArchiveCall, short_id
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import Answer, BankQuestion, CitedPassage, CitedSentence, Question
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation import result_to_json
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.result_cache import AT_ONCE, MOST_OF_APP, ResultCache
from deployments.operations.framework.services import AdminConfig
from deployments.operations.insight import search_activity
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.archive_oauth import an_account
from tests.fakes.corner_shop import APP, DAY_MS, NOW_MS
from tests.fakes.request_handler import StillClock
from tests.suites.waiting import until


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    async with open_admin_shop(tmp_path) as opened:
        opened.services = replace(opened.services, config=AdminConfig(archive_app=APP))
        yield opened


def a_query(text: str, total: int, **more: Any) -> LoggedQuery:
    return LoggedQuery(
        **{"at": NOW_MS - 1000, "kind": "search", "text": text, "total": total, "took_ms": 4.0, **more}
    )


async def test_searches_are_reported_from_both_halves_of_the_log(shop: AdminShop) -> None:
    log = QueryLogStore(shop.services.artifacts, shop.corner.clock)
    log.append(APP, [a_query("bread knife", 2), a_query("bread knife", 2, took_ms=90.0)], "0")
    await shop.services.stores.queries.append(APP, [a_query("bred knife", 0), a_query("bread knife", 2)])
    activity = await shop.perform("search.report", role="analyst")
    report = activity.report
    assert [(line.text, line.queries) for line in report.top] == [("bread knife", 3), ("bred knife", 1)]
    assert [line.text for line in report.missing] == ["bred knife"]
    assert activity.suggestions == {"bred knife": "bread knife"}
    assert (report.slow[0].text, report.slow[0].slowest_ms) == ("bread knife", 90.0)
    assert {"slow", "suggestions", "is_shortened", "top"} <= set(activity.to_dict())
    await shop.services.stores.queries.append(APP, [a_query("later", 1)])
    assert await shop.perform("search.report", role="analyst") is activity
    with pytest.raises(Forbidden):
        await shop.perform("search.report", role="viewer")
    with pytest.raises(Invalid, match="there is no kind 'x'"):
        await shop.perform("search.report", kind="x")
    with pytest.raises(Invalid, match="no span of time"):
        await shop.perform("search.report", since="always")


async def test_too_many_queries_shorten_the_period(shop: AdminShop, monkeypatch: pytest.MonkeyPatch) -> None:
    log = QueryLogStore(shop.services.artifacts, shop.corner.clock)
    for ago in (3, 2, 1):
        log.append(APP, [a_query(f"day {ago}", 1, at=NOW_MS - ago * DAY_MS)] * 10, str(ago))
    monkeypatch.setattr(search_activity, "MOST_QUERIES", 25)
    activity = await shop.perform("search.report", since="30d")
    assert activity.is_shortened
    assert [line.text for line in activity.report.top] == ["day 1", "day 2"]


async def test_a_period_is_compared_with_the_one_before(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = QueryLogStore(shop.services.artifacts, shop.corner.clock)
    week = [
        a_query(f"{ago}", ago % 2, at=NOW_MS - ago * DAY_MS, took_ms=float(ago)) for ago in range(19, 0, -1)
    ]
    log.append(APP, week[:13], "0")
    await shop.services.stores.queries.append(APP, week[13:])
    activity = await shop.perform("search.report", since="7d", compare=True)
    assert (activity.report.queries, activity.report.unfound) == (7, 3)
    before = activity.to_dict()["before"]
    assert (before["queries"], before["unfound"], before["kinds"][0]["p99_ms"]) == (7, 4, 14.0)
    assert before["until"] + 1 == activity.report.since
    assert "before" not in (await shop.perform("search.report", since="7d")).to_dict()
    monkeypatch.setattr(search_activity, "MOST_QUERIES", 3)
    assert (await shop.perform("search.report", since="6d", compare=True)).before is None


async def _ask(shop: AdminShop, text: str, at: int, answer: Answer) -> None:
    question = Question(
        question_id=f"q-{at}", app_id=APP, text=text, asked_at=at, deadline_at=at + 1, user_id="gina-the-user"
    )
    await shop.services.stores.questions.ask(question, answer, b"{}", holder="t", until_ms=at)


async def test_questions_are_listed_with_sentences_and_sources_and_without_people(shop: AdminShop) -> None:
    answered = Answer(
        finish_reason="success",
        sentences=(CitedSentence(text="It is zinc.", passage=0),),
        passages=(CitedPassage(product_id="watering-can", position=0, text="A can of zinc.", title="Can"),),
    )
    await _ask(shop, "what is the can made of", 1, answered)
    await _ask(shop, "who is the king", 2, Answer(finish_reason="success"))
    await _ask(shop, "why", 3, Answer())
    shown = await shop.perform("questions.list", role="analyst")
    assert [(question.text, question.state) for question in shown.questions] == [
        ("why", "waiting"), ("who is the king", "unanswered"), ("what is the can made of", "answered"),
    ]  # fmt: skip
    document = result_to_json(shown)
    assert "gina" not in json.dumps(document)
    last = document["questions"][2]
    assert last["sources"][last["sentences"][0]["source"]]["product_id"] == "watering-can"
    (only,) = (await shop.perform("questions.list", state="unanswered")).questions
    assert only.text == "who is the king"
    first = await shop.perform("questions.list", limit=1)
    rest = await shop.perform("questions.list", limit=5, start=first.next_start)
    assert [question.text for question in rest.questions] == ["who is the king", "what is the can made of"]
    with pytest.raises(Forbidden):
        await shop.perform("questions.list", role="viewer")


async def test_the_question_bank_is_edited_one_by_one(shop: AdminShop) -> None:
    await shop.perform("bank.add", question="Is it zinc?", weight=2.0)
    await shop.perform("bank.add", question="Is it oak?")
    with pytest.raises(Conflict, match="already"):
        await shop.perform("bank.add", question="Is it oak?")
    await shop.perform("bank.edit", question="Is it oak?", new_question="Is it OAK?", weight=5.0)
    with pytest.raises(Conflict):
        await shop.perform("bank.edit", question="Is it OAK?", new_question="Is it zinc?")
    bank = await shop.perform("bank.list", role="viewer", contains="oak")
    assert [(question.question, question.weight) for question in bank.questions] == [("Is it OAK?", 5.0)]
    assert bank.total == 1
    with pytest.raises(NotFound):
        await shop.perform("bank.remove", questions=["Is it zinc?", "no"])
    await shop.perform("bank.remove", questions=["Is it zinc?"])
    assert (await shop.perform("bank.list")).total == 1
    with pytest.raises(Forbidden):
        await shop.perform("bank.add", role="analyst", question="x")


async def test_a_change_of_the_question_bank_undoes_no_upload(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = shop.services.stores.question_bank
    replace_bank = bank.replace

    async def replace_late(app_id: str, questions: Sequence[BankQuestion], **fields: Any) -> int:
        monkeypatch.undo()
        await replace_bank(app_id, [BankQuestion(question="Is it oak?")])
        return await replace_bank(app_id, questions, **fields)

    monkeypatch.setattr(bank, "replace", replace_late)
    await shop.perform("bank.add", question="Is it zinc?")
    questions = (await bank.load(APP)).questions
    assert [question.question for question in questions] == ["Is it oak?", "Is it zinc?"]


async def test_clients_are_allowed_refused_slowed_and_forgotten(shop: AdminShop) -> None:
    call = ArchiveCall(
        at=NOW_MS - 1, tool="ask", client="c-1", client_name="Bot", question="who", skill_used="news"
    )
    await shop.services.stores.archive_calls.append(
        APP, [call, replace(call, outcome="refused", refusal="rate")]
    )
    await shop.perform("clients.deny", client="Bot")
    await shop.perform("clients.rate", client="Bot", calls_per_minute=12)
    listed = await shop.perform("clients.list", role="viewer")
    assert [(rule.client, rule.decision, rule.calls_per_minute) for rule in listed.rules] == [
        ("Bot", "deny", 12)
    ]
    assert [(client.name, client.refused) for client in listed.seen] == [("Bot", 1)]
    report = await shop.perform("archive.report", role="analyst")
    assert (report.skills, report.refusals) == ([("news", 2)], [("rate", 1)])
    await shop.perform("clients.allow", client="Bot")
    row = shop.audit.rows[-1]
    assert (row.before["decision"], row.after["decision"]) == ("deny", "allow")
    await shop.perform("clients.forget", client="Bot")
    with pytest.raises(NotFound, match="no rule"):
        await shop.perform("clients.forget", client="Bot")
    with pytest.raises(Invalid, match="1 to 200 characters"):
        await shop.perform("clients.deny", client=" ")
    with pytest.raises(Forbidden):
        await shop.perform("clients.deny", role="editor", client="x")
    with pytest.raises(Forbidden):
        await shop.perform("archive.report", role="viewer")


async def test_connected_applications_are_counted_and_disconnected(shop: AdminShop) -> None:
    stores = shop.services.stores
    await stores.accounts.add(an_account("ada"))
    await stores.accounts.add(an_account("bob"))
    for username in ("ada", "bob"):
        facts: dict[str, Any] = {
            "grant_id": f"g-{username}", "client_id": "long-id", "client_name": "Reader", "resource": "r",
            "user_id": f"usr-{username}", "username": username, "created_at": NOW_MS,
        }  # fmt: skip
        code = Code(**facts, redirect_uri="https://x.example", challenge="c", expires_at=NOW_MS + 1000)
        await stores.grants.put_code(username, code)
        await stores.grants.redeem(username, Grant(**facts), f"refresh-{username}", now_ms=NOW_MS)
    (application,) = (await shop.perform("connections.list", role="viewer")).applications
    assert (application.name, application.people, application.client_id) == ("Reader", 2, short_id("long-id"))
    assert "ada" not in json.dumps(application.to_dict())
    with pytest.raises(Forbidden):
        await shop.perform("connections.end", role="editor", client_id=application.client_id)
    assert (await shop.perform("connections.end", client_id=application.client_id)).facts["ended"] == 2
    assert (await shop.perform("connections.list")).applications == ()
    with pytest.raises(NotFound):
        await shop.perform("connections.end", client_id=application.client_id)
    shop.services = replace(shop.services, config=AdminConfig(archive_app="news"))
    with pytest.raises(NotFound, match="agents do not read shop; they read news"):
        await shop.perform("connections.list")


async def test_an_administrator_chooses_the_app_that_agents_read(shop: AdminShop) -> None:
    shop.services = replace(shop.services, config=AdminConfig(archive_app="news"))
    ada = Principal("ada", "1", "console", is_administrator=True)
    administration = Administration(shop.services, OPERATIONS, shop.audit, shop.corner.clock)
    before = await administration.perform(ada, "archive.app", {})
    assert result_to_json(before) == {"app_id": "news", "is_chosen": False}
    with pytest.raises(Forbidden):
        await shop.perform("archive.choose")
    assert (await shop.perform("archive.app", role="viewer")).app_id == "news"
    guest = Principal("guest", "2", "console")
    for given in ({}, {"app_id": APP}):
        with pytest.raises(Forbidden):
            await administration.perform(guest, "archive.app", given)
    assert shop.corner.keyring.default_archive_app("news") == "news"
    chosen = await administration.perform(ada, "archive.choose", {"app_id": APP})
    assert (chosen.app_id, chosen.is_chosen) == (APP, True)
    assert (await administration.perform(ada, "archive.app", {})).app_id == APP
    assert (await shop.perform("connections.list")).applications == ()
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.default_archive_app("news") == APP
    other = (await shop.services.stores.access.read_all()).apps[APP].model_copy(update={"app_id": "second"})
    await shop.services.stores.access.put_app(other.model_copy(update={"archive_since": 0}))
    await administration.perform(ada, "archive.choose", {"app_id": "second"})
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.default_archive_app("news") == "second"


async def test_checks_of_the_house_are_no_traffic_and_articles_have_titles(shop: AdminShop) -> None:
    check_call = {"at": NOW_MS - 5, "tool": "ask_archive", "client": "c", "question": "Is it up?"}
    await shop.services.stores.archive_calls.append(
        APP,
        [
            ArchiveCall(**check_call, client_name=CHECK_CLIENT),
            ArchiveCall(**{**check_call, "client_name": "Claude", "articles": ("hand-fork", "gone")}),
        ],
    )
    report = await shop.perform("archive.report", role="analyst")
    assert (report.calls, report.checks, report.question_calls) == (1, 1, 1)
    assert [line.name for line in report.clients] == ["Claude"]
    assert [line.name for line in (await shop.perform("clients.list")).seen] == ["Claude"]
    assert report.titles == {"hand-fork": "Steel hand fork"}
    titles = {line["product_id"]: line["title"] for line in report.to_dict()["articles"]}
    assert titles == {"hand-fork": "Steel hand fork", "gone": ""}


async def test_parts_of_the_archive_report_are_files_and_outsiders_get_none(shop: AdminShop) -> None:
    call = ArchiveCall(
        at=NOW_MS - 9, tool="ask_archive", client="c", client_name="=Claude", question="who won", skill_used="news",
        articles=("hand-fork",), call_id="c1", reply_bytes=900, marked=True, coverage=0.9,
    )  # fmt: skip
    missed = replace(call, question="who lost the race", call_id="c2", articles=(), coverage=0.0)
    again = replace(missed, question="who lost the races", call_id="c3")
    visit = replace(call, at=NOW_MS - 5, event="visit")
    other = replace(missed, call_id="c4")
    rows = [call, missed, other, again, visit, replace(visit, at=NOW_MS - 4), replace(visit, call_id="gone")]
    await shop.services.stores.archive_calls.append(APP, rows)
    report = await shop.perform("archive.report", role="analyst")
    assert (report.visits, report.repeated_visits, report.other_visits, report.links) == (1, 1, 1, 1)
    assert [(group.question, group.calls, group.examples) for group in report.groups] == [
        ("who lost the race", 3, ("who lost the races",))
    ]
    assert report.to_dict()["citations"]["yield"] == 1.0
    assert report.cost["reply_bytes"] == 3_600

    async def read(by: str, form: str) -> bytes:
        download = await shop.perform("archive.export", role="analyst", by=by, form=form)
        return b"".join([chunk async for chunk in download.chunks])

    for by in ("agent", "skill", "tool", "article", "day", "unanswered"):
        written, stored = await read(by, "csv"), pl.read_parquet(io.BytesIO(await read(by, "parquet")))
        frame = pl.read_csv(io.BytesIO(written))
        assert frame.columns == stored.columns
        assert frame.height == stored.height == 1
        assert frame["calls"].to_list() == stored["calls"].to_list()
    assert (await read("agent", "csv")).splitlines()[1].startswith(b"'=Claude,4,4,0,0,3,1,1,")
    exports = [shop.perform("archive.export", since=f"{days}d") for days in range(1, MOST_OF_APP + 3)]
    done = await asyncio.gather(*exports, return_exceptions=True)
    assert sum(isinstance(outcome, TooMany) for outcome in done) == 2
    with pytest.raises(Forbidden):
        await shop.perform("archive.export", role="viewer")
    with pytest.raises(Invalid):
        await shop.perform("archive.export", by="person")


async def test_an_experiment_with_questions_has_its_report_alone(shop: AdminShop) -> None:
    variants = [{"name": "now"}, {"name": "longer", "configuration": {"snippet_words": 300}}]
    drafts = [{"name": "Snippets", "slug": "snippets", "method": "question", "variants": variants}]
    await shop.perform("experiments.create", experiments=drafts)
    await shop.perform("experiments.start", experiment="snippets")
    view = await shop.perform("experiments.questions", role="analyst", experiment="snippets")
    assert [line["questions"] for line in view.to_dict()["variants"]] == [0, 0]
    assert any("It is open" in line for line in view.to_lines() if isinstance(line, str))
    with pytest.raises(Invalid, match="kiosk experiments questions"):
        await shop.perform("experiments.report", experiment="snippets")


async def test_results_are_computed_once_and_kept_for_a_while() -> None:
    clock = StillClock()
    cache, computed = ResultCache(clock), []

    async def compute() -> int:
        computed.append(1)
        await asyncio.sleep(0)
        return len(computed)

    assert await asyncio.gather(*(cache.get("a", compute) for _ in range(5))) == [1] * 5
    clock.pass_ms(29_000)
    assert await cache.get("a", compute) == 1
    clock.pass_ms(2_000)
    assert await cache.get("a", compute) == 2
    cache.drop("a")
    assert await cache.get("a", compute) == 3

    async def fail() -> int:
        raise Invalid("no")

    for _ in range(2):
        with pytest.raises(Invalid):
            await cache.get("b", fail)
    await asyncio.sleep(0)
    assert await cache.get("b", compute) == 4


async def test_changed_arguments_do_not_compute_everything_at_once() -> None:
    clock = StillClock()
    cache, running, most, computed = ResultCache(clock), 0, 0, 0
    go_on = asyncio.Event()

    async def compute() -> None:
        nonlocal running, most, computed
        running += 1
        computed += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1

    futures = [asyncio.ensure_future(cache.get(("report", "shop", top), compute)) for top in range(50)]
    other = asyncio.ensure_future(cache.get(("report", "news", 1), compute))
    await until(lambda: running == AT_ONCE and any(future.done() for future in futures))
    assert sum(future.done() for future in futures) == 50 - MOST_OF_APP
    assert not other.done()
    # However long reports take, they are computed once, and the limits count them.
    clock.pass_ms(60_000)
    again = asyncio.ensure_future(cache.get(("report", "shop", 0), compute))
    with pytest.raises(TooMany):
        await cache.get(("report", "shop", 99), compute)
    go_on.set()
    done = await asyncio.gather(*futures, other, again, return_exceptions=True)
    clock.pass_ms(29_000)
    await cache.get(("report", "shop", 0), compute)
    assert computed == MOST_OF_APP + 1
    assert sum(isinstance(outcome, TooMany) for outcome in done) == 50 - MOST_OF_APP
    assert most == AT_ONCE
    await cache.get(("report", "shop", 49), compute)
