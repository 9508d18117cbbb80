"""What passes with time in Redis: every key that should end has a life, and no other has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.records.engine import Engine
from cluster.records.question import Answer, Question
from cluster.store import keys
from cluster.store.client.script import Script
from cluster.store.connect import OpenStores
from cluster.store.data import intake, interactions
from cluster.store.data.append_plan import MANY, BrowserWriteLimits
from cluster.store.data.change_log import Follower
from cluster.store.data.intake import RecordPut
from cluster.store.data.salts import Salts
from cluster.store.engines import shown_products
from tests.suites.doing import APP, NOW, accept, apply, body, claim_one, view_interaction
from tests.suites.test_small_stores import a_key, an_app

pytestmark = pytest.mark.redis

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


async def life_ms(stores: OpenStores, key: str) -> int:
    return int(await stores.server.execute("PTTL", key))


async def test_a_task_lives_a_day_from_its_last_change(redis_stores: OpenStores) -> None:
    await accept(redis_stores, "t1")
    key = keys.task(APP, "t1")
    assert DAY - MINUTE < await life_ms(redis_stores, key) <= DAY
    await redis_stores.server.execute("PEXPIRE", key, 5000)
    await apply(redis_stores, await claim_one(redis_stores), [RecordPut("p1", body("p1"))])
    assert DAY - MINUTE < await life_ms(redis_stores, key) <= DAY


async def test_a_task_that_is_forgotten_is_not_born_again_by_its_batch(redis_stores: OpenStores) -> None:
    await accept(redis_stores, "t1")
    batch = await claim_one(redis_stores)
    await redis_stores.server.execute("DEL", keys.task(APP, "t1"))
    assert await apply(redis_stores, batch, [RecordPut("p1", body("p1"))])
    assert await redis_stores.tasks.get(APP, "product", "t1") is None
    assert await redis_stores.server.execute("ZCARD", keys.task_open(APP)) == 0


async def test_recent_lists_live_400_days_from_the_last_interaction(redis_stores: OpenStores) -> None:
    await redis_stores.interactions.append(APP, b"[]", [("u1", "v1", view_interaction(1))])
    for user_key in ("u:u1", "a:v1"):
        assert 400 * DAY - MINUTE < await life_ms(redis_stores, keys.recent(APP, user_key)) <= 400 * DAY


async def test_a_strangers_list_lives_a_day_until_they_return(redis_stores: OpenStores) -> None:
    stores, key = redis_stores, keys.recent(APP, "a:v1")
    writer = BrowserWriteLimits("here", NOW, users_per_address=2)
    await stores.interactions.append(APP, b"[]", [("", "v1", view_interaction(1))], writer)
    assert DAY - MINUTE < await life_ms(stores, key) <= DAY
    await stores.server.execute("PEXPIRE", key, DAY - 29 * MINUTE)
    await stores.interactions.append(APP, b"[]", [("", "v1", view_interaction(2))], writer)
    assert await life_ms(stores, key) <= DAY - 29 * MINUTE
    await stores.server.execute("PEXPIRE", key, DAY - 31 * MINUTE)
    await stores.interactions.append(APP, b"[]", [("", "v1", view_interaction(3))], writer)
    assert 400 * DAY - MINUTE < await life_ms(stores, key) <= 400 * DAY
    await stores.server.execute("PEXPIRE", key, 100 * DAY)
    await stores.interactions.append(APP, b"[]", [("", "v1", view_interaction(4))], writer)
    assert 400 * DAY - MINUTE < await life_ms(stores, key) <= 400 * DAY
    # the address may keep no further reader for long
    await stores.interactions.append(APP, b"[]", [("", "v2", view_interaction(1))], writer)
    assert await stores.server.execute("EXISTS", keys.recent(APP, "a:v2")) == 0
    counts = keys.stranger(APP, writer.day)
    assert DAY < await life_ms(stores, counts) <= 2 * DAY
    proven = BrowserWriteLimits("here", NOW, proven=frozenset({"u1"}), bytes_per_minute=1_000)
    await stores.interactions.append(APP, b"[]", [("u1", "", view_interaction(1))], proven)
    assert 400 * DAY - MINUTE < await life_ms(stores, keys.recent(APP, "u:u1")) <= 400 * DAY
    assert MINUTE < await life_ms(stores, keys.browser_bytes(APP, NOW // MINUTE)) <= 2 * MINUTE


async def test_a_list_that_is_pushed_to_by_the_hundred_has_a_life_whatever_became_of_it(
    redis_stores: OpenStores,
) -> None:
    stores = redis_stores
    many = [(f"u{n % 100}", "", view_interaction(n)) for n in range(MANY)]
    await stores.interactions.append(APP, b"[]", many)
    left, gone, erased = (keys.recent(APP, user_key) for user_key in ("u:u1", "u:u2", "u:u3"))
    for name in (left, gone, erased):
        assert 400 * DAY - MINUTE < await life_ms(stores, name) <= 400 * DAY
    await stores.server.execute("PEXPIRE", left, 100 * DAY)
    await stores.server.execute("DEL", gone)
    await stores.interactions.erase(APP, ["u3"])
    await stores.interactions.append(APP, b"[]", many)
    assert (
        99 * DAY < await life_ms(stores, left) <= 100 * DAY
    )  # renewed a moment ago, as far as anybody knows
    for name in (gone, erased):
        assert 400 * DAY - MINUTE < await life_ms(stores, name) <= 400 * DAY
    await stores.interactions.append(APP, b"[]", many[:5])
    assert 400 * DAY - MINUTE < await life_ms(stores, left) <= 400 * DAY


async def test_a_flying_write_lives_a_minute_and_an_answer_a_day(redis_stores: OpenStores) -> None:
    key = keys.idempotency(APP, "token")
    await redis_stores.idempotency.begin(APP, "token", "body")
    assert 55_000 < await life_ms(redis_stores, key) <= MINUTE
    await redis_stores.idempotency.finish(APP, "token", 200, b"{}")
    assert DAY - MINUTE < await life_ms(redis_stores, key) <= DAY


async def test_nothing_stays_pending_that_was_applied_or_given_up(redis_stores: OpenStores) -> None:
    stores = redis_stores
    for n in range(3):
        await accept(stores, f"t{n}")
    first, second, third = await stores.intake.claim("worker", [APP], count=5, block_ms=0)
    assert (await stores.server.execute("XPENDING", keys.intake(APP), "intake"))[0] == 3
    await apply(stores, first, [RecordPut("p1", body("p1"))])
    await stores.intake.apply_remove(second, ["p1"], now_ms=NOW)
    await stores.intake.give_up(third, "poison", now_ms=NOW)
    assert (await stores.server.execute("XPENDING", keys.intake(APP), "intake"))[0] == 0
    assert await stores.server.execute("ZCARD", keys.task_open(APP)) == 0


async def test_the_watchdog_lets_go_of_forgotten_tasks(redis_stores: OpenStores) -> None:
    await accept(redis_stores, "t1")
    await redis_stores.server.execute("DEL", keys.task(APP, "t1"))
    assert await redis_stores.tasks.end_lost(APP, before_ms=NOW + 1, now_ms=NOW) == 0
    assert await redis_stores.server.execute("ZCARD", keys.task_open(APP)) == 0


async def test_no_recent_list_grows_beyond_two_hundred(redis_stores: OpenStores) -> None:
    for start in (0, 150, 300):
        await redis_stores.interactions.append(
            APP, b"[]", [("u1", "v1", view_interaction(start + n)) for n in range(150)]
        )
    for user_key in ("u:u1", "a:v1"):
        assert await redis_stores.server.execute("LLEN", keys.recent(APP, user_key)) == 200


async def test_a_visitor_who_links_while_their_user_is_erased_is_erased_too(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = redis_stores
    await stores.interactions.append(APP, b"[]", [("u1", "v1", view_interaction(1))])
    run, runs = stores.server.run, 0

    async def run_late(script: Script, *args: Any, **kwargs: Any) -> Any:
        nonlocal runs
        if script.name == "erase_interactions":
            runs += 1
            if runs == 1:
                await stores.interactions.append(APP, b"[]", [("u1", "v2", view_interaction(2))])
        return await run(script, *args, **kwargs)

    monkeypatch.setattr(stores.server, "run", run_late)
    await stores.interactions.erase(APP, ["u1"])
    assert runs == 2
    assert await stores.interactions.recent(APP, ["a:v2"]) == []
    assert await stores.server.execute_slow("KEYS", "*:linked:*") == []


async def test_pages_buckets_and_leases_have_their_lives(redis_stores: OpenStores) -> None:
    await redis_stores.shown_products.record(APP, "u:1", "page", ["a"])
    salts = Salts(redis_stores.server)
    marks = [await salts.pseudonym(APP, name) for name in ("u:1", "page")]
    assert 29 * MINUTE < await life_ms(redis_stores, keys.page(APP, *marks)) <= 30 * MINUTE
    await redis_stores.limits.take(APP, "k1", "query", rate=1, burst=1, want=1, now_ms=NOW)
    assert 59 * MINUTE < await life_ms(redis_stores, keys.limit(APP, "k1", "query")) <= 60 * MINUTE
    await redis_stores.leases.hold("settle", "one", 5000)
    assert 4000 < await life_ms(redis_stores, keys.lease("settle")) <= 5000


async def test_nothing_else_ends_and_no_key_is_unknown(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await stores.access.put_app(an_app())
    await stores.access.put_key(a_key())
    await stores.engines.put(Engine(app_id=APP, engine_id="news"))
    await stores.intake.accept(
        APP, "product", "put", b"[]", task_id="t1", total=1, now_ms=NOW, attribute_types={"size": "string"}
    )
    await apply(stores, await claim_one(stores), [RecordPut("p1", body("p1"), "book")])
    await accept(stores, "t2")
    await stores.intake.give_up(await claim_one(stores), "poison", now_ms=NOW)
    await accept(stores, "t3")
    offset = await stores.interactions.append(APP, b"[]", [("u1", "v1", view_interaction(1))])
    await stores.changes.record_follower(APP, Follower("host", NOW, {"interaction": offset}))
    await stores.changes.compact(APP, "interaction", offset, NOW)
    mortal = {keys.task(APP, f"t{n}") for n in (1, 2, 3)} | {
        keys.recent(APP, "u:u1"),
        keys.recent(APP, "a:v1"),
    }
    immortal = {
        keys.access_app(), keys.access_key(), keys.access_version(), keys.attribute_types(APP, "product"),
        keys.change_log(APP, "interaction"), keys.change_log(APP, "product"), keys.engine(APP), keys.follower(APP),
        keys.intake(APP), keys.link(APP), keys.linked(APP, "u1"), keys.noun_seen(APP, "product"),
        keys.product_type(APP), keys.product_type_ids(APP), keys.quarantine(APP), keys.record(APP, "product", "p1"),
        keys.record_ids(APP, "product"), keys.compacted_offset(APP), keys.task_open(APP), keys.trimmed(APP),
    }  # fmt: skip
    names = {key.decode() for key in await stores.server.execute_slow("KEYS", "*")}
    assert names == mortal | immortal
    assert {key for key in names if await life_ms(stores, key) > 0} == mortal


async def test_strangers_leave_few_and_short_pages(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_products, "STRANGERS_PAGES", 3)
    many = [f"p{n}" for n in range(1_000)]
    for n in range(6):
        await redis_stores.shown_products.record(APP, f"a:{n}", "page", many, is_strangers=True)
    shown = [len(await redis_stores.shown_products.read(APP, f"a:{n}", "page")) for n in range(6)]
    assert shown == [200, 200, 200, 0, 0, 0]
    await redis_stores.shown_products.record(APP, "a:1", "page", ["q"], is_strangers=True)
    assert (await redis_stores.shown_products.read(APP, "a:1", "page"))[-2:] == ["p999", "q"]
    await redis_stores.shown_products.record(APP, "u:1", "page", many)
    assert len(await redis_stores.shown_products.read(APP, "u:1", "page")) == 1_000
    assert 29 * MINUTE < await life_ms(redis_stores, keys.page_count(APP)) <= 30 * MINUTE


async def test_a_strangers_question_lives_two_days(redis_stores: OpenStores) -> None:
    for question_id, is_strangers, days in (("q1", True, 2), ("q2", False, 30)):
        question = Question(
            question_id=question_id, app_id=APP, text="Why?", asked_at=NOW, deadline_at=NOW + 1,
            anonymous_id="v1", is_strangers=is_strangers,
        )  # fmt: skip
        assert await redis_stores.questions.ask(question, Answer(), b"{}", holder="x", until_ms=NOW)
        life = await life_ms(redis_stores, keys.question(APP, question_id))
        assert days * DAY - MINUTE < life <= days * DAY
    assert await redis_stores.questions.count_stranger(APP, "here", 1, each=1, total=1)
    assert await life_ms(redis_stores, keys.stranger(APP, 1)) > DAY
    assert await redis_stores.questions.spend_tokens(APP, 1, 10, most=0)
    assert await life_ms(redis_stores, keys.provider_tokens(APP, 1)) > DAY


async def test_only_the_newest_deleted_users_are_remembered(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "MOST_DELETED", 3)
    for number in range(5):
        await redis_stores.interactions.erase(APP, [f"u{number}"])
        await asyncio.sleep(0.002)  # the order of one millisecond is that of the hashes
    deleted = await redis_stores.interactions.deleted_since(APP, 0)
    assert [deleted.has_any_of({"user_id": f"u{number}"}) for number in range(5)] == [False] * 2 + [True] * 3
    monkeypatch.setattr(interactions, "DELETED_MS", 1)
    await asyncio.sleep(0.002)
    await redis_stores.interactions.erase(APP, ["u5"])
    deleted = await redis_stores.interactions.deleted_since(APP, 0)
    assert [deleted.has_any_of({"user_id": f"u{number}"}) for number in range(6)] == [False] * 5 + [True]


async def test_only_the_newest_deleted_records_are_remembered(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_DELETED", 3)
    for number in range(5):
        await redis_stores.intake.accept(
            APP, "product", "remove", b'["p%d"]' % number, task_id=f"d{number}", total=1, now_ms=number + 1,
            attribute_types={"size": "number"},
        )  # fmt: skip
    deleted = await redis_stores.intake.deleted_since(APP, "product", 0)
    assert [deleted.has_any_of({"product_id": f"p{number}"}) for number in range(5)] == [False] * 2 + [
        True
    ] * 3
    late = 5 + intake.DELETED_MS
    await redis_stores.intake.accept(APP, "product", "remove", b'["p5"]', task_id="d5", total=1, now_ms=late)
    deleted = await redis_stores.intake.deleted_since(APP, "product", 0)
    assert [deleted.has_any_of({"product_id": f"p{number}"}) for number in range(6)] == [False] * 5 + [True]
    assert not await redis_stores.intake.deleted_since(APP, "user", 0)
