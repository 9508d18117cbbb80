"""What every `ChangeLog` promises."""

from __future__ import annotations

import asyncio

from cluster.records.intake import Noun
from cluster.store.data.change_log import Follower
from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, body, put

TEN_MINUTES = 10 * 60 * 1000


async def write(stores: Stores, count: int, noun: Noun = "product") -> list[str]:
    """Write changes; return their offsets."""
    start = await stores.changes.last(APP, noun)
    for n in range(count):
        await put(stores, RecordPut(f"p{n}", body(f"p{n}")), noun=noun, task_id=f"{noun}-{start}-{n}")
    return [
        change.offset for change in await stores.changes.read(APP, {noun: start}, count=count, block_ms=0)
    ]


async def test_an_empty_log_starts_and_ends_at_zero(stores: Stores) -> None:
    assert await stores.changes.last(APP, "product") == "0"
    assert await stores.changes.first(APP, "product") == "0"
    assert await stores.changes.read(APP, {"product": "0"}, count=5, block_ms=0) == []
    assert await stores.changes.compacted_offsets(APP) == {}


async def test_changes_come_after_the_offset_oldest_first(stores: Stores) -> None:
    offsets = await write(stores, 5)
    assert await stores.changes.last(APP, "product") == offsets[-1]
    changes = await stores.changes.read(APP, {"product": offsets[1]}, count=2, block_ms=0)
    assert [change.offset for change in changes] == offsets[2:4]
    assert [change.payload for change in changes] == [b"[" + body("p2") + b"]", b"[" + body("p3") + b"]"]
    assert await stores.changes.read(APP, {"product": offsets[-1]}, count=5, block_ms=0) == []


async def test_one_read_returns_several_nouns_each_after_its_offset(stores: Stores) -> None:
    products = await write(stores, 2)
    users = await write(stores, 2, "user")
    clicked = await stores.interactions.append(APP, b'[{"type":"click"}]', [])
    after: dict[Noun, str] = {"product": products[0], "user": "0", "interaction": "0"}
    changes = await stores.changes.read(APP, after, count=10, block_ms=0)
    payloads = {
        noun: [change.offset for change in changes if change.noun == noun]
        for noun in ("product", "user", "interaction")
    }
    assert payloads == {"product": products[1:], "user": users, "interaction": [clicked]}


async def test_what_somebody_waits_for_is_remembered_by_noun(stores: Stores) -> None:
    assert await stores.changes.requested_compactions(APP) == {}
    await stores.changes.request_compaction(APP, {"product": "3-0", "interaction": "4-1"})
    await stores.changes.request_compaction(APP, {"product": "5-0"})
    assert await stores.changes.requested_compactions(APP) == {"product": "5-0", "interaction": "4-1"}
    assert await stores.changes.requested_compactions(OTHER) == {}


async def test_each_app_has_a_separate_log(stores: Stores) -> None:
    await write(stores, 1)
    assert await stores.changes.read(OTHER, {"product": "0"}, count=5, block_ms=0) == []
    assert await stores.changes.last(OTHER, "product") == "0"


async def test_a_waiting_reader_wakes_for_a_change(stores: Stores) -> None:
    after: dict[Noun, str] = {"product": "0", "interaction": "0"}
    waiting = asyncio.create_task(stores.changes.read(APP, after, count=5, block_ms=60_000))
    await asyncio.sleep(0.02)
    offset = await stores.interactions.append(APP, b"[]", [])
    (change,) = await asyncio.wait_for(waiting, 20)
    assert (change.noun, change.offset) == ("interaction", offset)


async def test_a_reader_that_waits_in_vain_gets_nothing(stores: Stores) -> None:
    assert await stores.changes.read(APP, {"product": "0"}, count=5, block_ms=10) == []
    assert await stores.changes.read(APP, {}, count=5, block_ms=10) == []


async def test_many_readers_wait_at_once(stores: Stores) -> None:
    waiting = [
        asyncio.create_task(stores.changes.read(APP, {"interaction": "0"}, count=5, block_ms=5_000))
        for _ in range(20)
    ]
    await asyncio.sleep(0.05)
    offset = await stores.interactions.append(APP, b"[]", [])
    for changes in await asyncio.gather(*waiting):
        assert [change.offset for change in changes] == [offset]


async def test_settling_trims_what_stands_on_the_shelf(stores: Stores) -> None:
    offsets = await write(stores, 5)
    assert await stores.changes.compact(APP, "product", offsets[2], NOW) == 3
    assert await stores.changes.compacted_offsets(APP) == {"product": offsets[2]}
    left = await stores.changes.read(APP, {"product": "0"}, count=10, block_ms=0)
    assert [change.offset for change in left] == offsets[3:]
    assert await stores.changes.first(APP, "product") == offsets[2]
    assert await stores.changes.last(APP, "product") == offsets[-1]


async def test_a_log_trimmed_empty_remembers_where_it_ended(stores: Stores) -> None:
    offsets = await write(stores, 2)
    await stores.changes.compact(APP, "product", offsets[-1], NOW)
    assert await stores.changes.last(APP, "product") == offsets[-1]
    assert await stores.changes.first(APP, "product") == offsets[-1]
    (later,) = await write(stores, 1)
    assert later not in offsets


async def test_the_slowest_live_follower_holds_the_log_back(stores: Stores) -> None:
    offsets = await write(stores, 5)
    await stores.changes.record_follower(APP, Follower("slow", NOW, {"product": offsets[0]}))
    await stores.changes.record_follower(APP, Follower("quick", NOW, {"product": offsets[4], "user": "0"}))
    assert await stores.changes.compact(APP, "product", offsets[3], NOW + TEN_MINUTES) == 1
    assert await stores.changes.compacted_offsets(APP) == {"product": offsets[3]}
    assert await stores.changes.first(APP, "product") == offsets[0]
    await stores.changes.record_follower(APP, Follower("slow", NOW + TEN_MINUTES, {"product": offsets[1]}))
    assert await stores.changes.compact(APP, "product", offsets[3], NOW + TEN_MINUTES) == 1


async def test_followers_are_listed_with_their_offsets_and_digests(stores: Stores) -> None:
    digest = {"records": "12-3", "lists": "", "version": "v"}
    await stores.changes.record_follower(APP, Follower("b", NOW, {"product": "5-0", "user": "0"}, digest))
    await stores.changes.record_follower(APP, Follower("a", NOW + 1, {"product": "4-0"}))
    first, second = await stores.changes.list_followers(APP)
    assert (first.name, first.at_ms, first.offsets, first.digest) == (
        "a",
        NOW + 1,
        {"product": "4-0"},
        {},
    )
    assert (second.offsets, second.digest) == ({"product": "5-0", "user": "0"}, digest)
    # the offsets of a follower with a digest hold the log back, too
    offsets = await write(stores, 2)
    await stores.changes.record_follower(APP, Follower("a", NOW, {"product": offsets[0]}, digest))
    await stores.changes.record_follower(APP, Follower("b", NOW, {"product": offsets[1]}, digest))
    assert await stores.changes.compact(APP, "product", offsets[1], NOW) == 1


async def test_a_silent_follower_stops_counting_after_ten_minutes(stores: Stores) -> None:
    offsets = await write(stores, 3)
    await stores.changes.record_follower(APP, Follower("gone", NOW, {"product": "0"}))
    assert await stores.changes.compact(APP, "product", offsets[1], NOW + TEN_MINUTES) == 0
    assert await stores.changes.compact(APP, "product", offsets[1], NOW + TEN_MINUTES + 1) == 2


async def test_nothing_behind_the_settled_offset_is_trimmed_for_quick_followers(stores: Stores) -> None:
    offsets = await write(stores, 3)
    await stores.changes.record_follower(APP, Follower("quick", NOW, {"product": offsets[2]}))
    assert await stores.changes.compact(APP, "product", offsets[0], NOW) == 1
    assert await stores.changes.compact(APP, "product", "0", NOW) == 0
    assert len(await stores.changes.read(APP, {"product": "0"}, count=5, block_ms=0)) == 2


async def test_the_settled_offset_never_goes_back(stores: Stores) -> None:
    offsets = await write(stores, 3)
    await stores.changes.compact(APP, "product", offsets[2], NOW)
    await stores.changes.compact(APP, "product", offsets[0], NOW)
    assert await stores.changes.compacted_offsets(APP) == {"product": offsets[2]}


async def test_offsets_are_compared_as_numbers(stores: Stores) -> None:
    await stores.changes.compact(APP, "product", "9-9", NOW)
    await stores.changes.compact(APP, "product", "10-2", NOW)
    await stores.changes.compact(APP, "product", "10-10", NOW)
    await stores.changes.compact(APP, "product", "10-9", NOW)
    assert await stores.changes.compacted_offsets(APP) == {"product": "10-10"}
