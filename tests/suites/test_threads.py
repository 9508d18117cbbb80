"""What the store of history threads promises."""

from __future__ import annotations

import asyncio

import pytest

from actors.history import threads as rules
from cluster.records.thread import UserThreads
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER

EMPTY = UserThreads()


async def ask(stores: Stores, user_id: str, question_id: str, parent_id: str | None = None) -> UserThreads:
    """Add a question and read what stands there then."""
    before = await stores.threads.read(APP, user_id)
    after = rules.add_question(before, question_id, f"{question_id}?", parent_id, NOW)
    assert await stores.threads.compare_and_set(APP, user_id, before, after)
    return await stores.threads.read(APP, user_id)


async def change(stores: Stores, user_id: str, after: UserThreads) -> UserThreads:
    """Write a value in place of what stands there."""
    before = await stores.threads.read(APP, user_id)
    assert await stores.threads.compare_and_set(APP, user_id, before, after)
    return await stores.threads.read(APP, user_id)


async def test_a_user_without_threads_has_an_empty_list(stores: Stores) -> None:
    assert await stores.threads.read(APP, "ada") == EMPTY
    assert not await stores.threads.has_new(APP, "ada")
    assert await stores.threads.watchers(APP, 0, 10) == []


async def test_threads_read_back_and_belong_to_one_reader_of_one_app(stores: Stores) -> None:
    threads = await ask(stores, "Żółw / 1", "q1")
    assert list(threads.threads) == ["q1"]
    assert threads.revision > 0
    assert await stores.threads.read(APP, "ada") == EMPTY
    assert await stores.threads.read(OTHER, "Żółw / 1") == EMPTY
    assert await stores.threads.read_many(APP, ["ada", "Żółw / 1"]) == [EMPTY, threads]


async def test_only_who_read_the_newest_may_write(stores: Stores) -> None:
    first = await ask(stores, "ada", "q1")
    second = await ask(stores, "ada", "q2")
    stale = rules.add_question(first, "q3", "?", None, NOW)
    assert not await stores.threads.compare_and_set(APP, "ada", first, stale)
    assert not await stores.threads.compare_and_set(APP, "ada", EMPTY, stale)
    assert await stores.threads.read(APP, "ada") == second


async def test_of_many_writers_at_once_one_gets_through(stores: Stores) -> None:
    before = await ask(stores, "ada", "q0")
    writes = [
        stores.threads.compare_and_set(APP, "ada", before, rules.add_question(before, f"n{at}", "", None, 1))
        for at in range(9)
    ]
    assert sum(await asyncio.gather(*writes)) == 1
    assert len((await stores.threads.read(APP, "ada")).threads) == 2


async def test_the_indicator_reads_as_the_threads_say(stores: Stores) -> None:
    threads = rules.set_subscription(await ask(stores, "ada", "q1"), "q1", on=True)
    threads = await change(stores, "ada", rules.append_update(threads, "q1", "u1", "5-0", NOW))
    assert await stores.threads.has_new(APP, "ada")
    assert not await stores.threads.has_new(APP, "bob")
    threads = await change(stores, "ada", rules.dismiss_overall(threads, NOW))
    assert not await stores.threads.has_new(APP, "ada")
    threads = await change(stores, "ada", rules.append_update(threads, "q1", "u2", "6-0", NOW))
    assert await stores.threads.has_new(APP, "ada")
    await change(stores, "ada", rules.delete_all_threads(threads))
    assert not await stores.threads.has_new(APP, "ada")


async def test_watchers_are_listed_by_the_time_of_their_change(stores: Stores) -> None:
    for name in ("ada", "bob", "cia"):
        threads = await ask(stores, name, f"{name}-1")
        if name != "bob":
            await change(stores, name, rules.set_subscription(threads, f"{name}-1", on=True))
    watchers = await stores.threads.watchers(APP, 0, 10)
    assert [watcher.user_id for watcher in watchers] == ["ada", "cia"]
    await ask(stores, "cia", "cia-2")
    assert await stores.threads.watchers(APP, watchers[-1].version, 10) == []
    threads = await stores.threads.read(APP, "ada")
    await change(stores, "ada", rules.rename_thread(threads, "ada-1", "Hoes"))
    assert [watcher.user_id for watcher in await stores.threads.watchers(APP, watchers[-1].version, 10)] == [
        "ada"
    ]
    assert [watcher.user_id for watcher in await stores.threads.watchers(APP, 0, 1)] == ["cia"]
    threads = await stores.threads.read(APP, "ada")
    await change(stores, "ada", rules.set_subscription(threads, "ada-1", on=False))
    assert [watcher.user_id for watcher in await stores.threads.watchers(APP, 0, 10)] == ["cia"]


async def test_who_is_erased_leaves_nothing_and_nobody_brings_it_back(stores: Stores) -> None:
    threads = rules.set_subscription(await ask(stores, "ada", "q1"), "q1", on=True)
    old = await change(stores, "ada", rules.append_update(threads, "q1", "u1", "5-0", NOW))
    await ask(stores, "bob", "b1")
    assert await stores.threads.erase(APP, ["ada", "nobody", "ada"]) == 1
    assert await stores.threads.read(APP, "ada") == EMPTY
    assert not await stores.threads.has_new(APP, "ada")
    assert await stores.threads.watchers(APP, 0, 10) == []
    again = await ask(stores, "ada", "q9")
    assert again.revision != old.revision
    assert not await stores.threads.compare_and_set(APP, "ada", old, old)
    assert list((await stores.threads.read(APP, "bob")).threads) == ["b1"]


async def test_erasing_a_person_erases_their_threads(stores: Stores) -> None:
    await ask(stores, "ada", "q1")
    await stores.interactions.erase(APP, ["ada"])
    assert await stores.threads.read(APP, "ada") == EMPTY


async def test_it_is_remembered_up_to_where_threads_were_judged(stores: Stores) -> None:
    assert await stores.threads.judged_offset(APP) == ""
    await stores.threads.record_judged_offset(APP, "7-1")
    assert (await stores.threads.judged_offset(APP), await stores.threads.judged_offset(OTHER)) == (
        "7-1",
        "",
    )


@pytest.mark.redis
async def test_a_flipped_byte_is_set_aside_and_announces_nothing(redis_stores: OpenStores) -> None:
    threads = rules.set_subscription(await ask(redis_stores, "ada", "q1"), "q1", on=True)
    await change(redis_stores, "ada", rules.append_update(threads, "q1", "u1", "5-0", 1))
    sealed = await redis_stores.server.execute_slow("HGET", keys.threads(APP), "ada")
    broken = sealed[:-3] + bytes([sealed[-3] ^ 1]) + sealed[-2:]
    await redis_stores.server.execute_slow("HSET", keys.threads(APP), "ada", broken)
    threads_read = await redis_stores.threads.read(APP, "ada")
    assert threads_read == UserThreads(revision=threads_read.revision)
    assert not await redis_stores.threads.has_new(APP, "ada")
    assert await redis_stores.server.execute_slow("XLEN", keys.quarantine(APP)) == 1
    assert list((await ask(redis_stores, "ada", "q2")).threads) == ["q2"]
