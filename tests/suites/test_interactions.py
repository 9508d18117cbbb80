"""What every `InteractionStore` promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest

from cluster.errors import TooMany
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, view_interaction


def views(*numbers: int) -> list[bytes]:
    """Return the packed views of these numbers."""
    return [view_interaction(number) for number in numbers]


async def append_views(
    stores: Stores, *views: tuple[str, str, int], writer: BrowserWriteLimits | None = None
) -> None:
    """Append views, each of a user, a visitor and with a number."""
    events = [(user_id, visitor, view_interaction(number)) for user_id, visitor, number in views]
    await stores.interactions.append(APP, b"[]", events, writer)


async def recent(stores: Stores, *user_keys: str, limit: int = 200) -> list[bytes]:
    return await stores.interactions.recent(APP, user_keys, limit)


async def test_links_say_who_visitors_turned_out_to_be(stores: Stores) -> None:
    await stores.interactions.append(APP, b"[]", [("ada", "x", b""), ("bob", "y", b"")])
    visitors = ["x", "q", "y", *(f"n{n}" for n in range(1_500))]
    assert await stores.interactions.links(APP, visitors) == {"x": "ada", "y": "bob"}
    assert await stores.interactions.links(APP, []) == {}
    assert await stores.interactions.visitors(APP, ["ada", "carl"], 50) == {"ada": ["x"]}


async def test_an_append_is_one_change_with_its_payload(stores: Stores) -> None:
    payload = b'[{"type":"click"},{"type":"home_page_view"}]'
    offset = await stores.interactions.append(APP, payload, [("u1", "", view_interaction(1))])
    (change,) = await stores.changes.read(APP, {"interaction": "0"}, count=5, block_ms=0)
    assert (change.offset, change.op, change.payload) == (offset, "put", payload)


async def test_a_readers_list_is_newest_first(stores: Stores) -> None:
    await append_views(stores, ("u1", "", 1), ("u2", "", 2), ("u1", "", 3))
    await append_views(stores, ("u1", "", 4))
    assert await recent(stores, "u:u1") == views(4, 3, 1)
    assert await recent(stores, "u:u1", limit=2) == views(4, 3)
    assert await recent(stores, "u:u2") == views(2)
    assert await recent(stores, "u:nobody") == []
    assert await recent(stores) == []
    assert await stores.interactions.recent(OTHER, ["u:u1"]) == []


async def test_a_list_keeps_the_last_two_hundred(stores: Stores) -> None:
    await append_views(stores, *(("u1", "", n) for n in range(150)))
    await append_views(stores, *(("u1", "", n) for n in range(150, 450)))
    await append_views(stores, ("u1", "", 450))
    assert await recent(stores, "u:u1") == views(*range(450, 250, -1))


async def test_a_visitor_has_a_separate_recent_list(stores: Stores) -> None:
    await append_views(stores, ("", "v1", 1))
    assert await recent(stores, "a:v1") == views(1)
    assert await recent(stores, "u:v1") == []


async def test_linking_copies_the_recent_list_and_later_events_go_to_both(stores: Stores) -> None:
    await append_views(stores, ("u1", "", 1), ("", "v1", 2), ("", "v1", 3))
    await append_views(stores, ("u1", "v1", 4))
    await append_views(stores, ("", "v1", 5))
    await append_views(stores, ("u1", "", 6))
    assert await recent(stores, "u:u1") == views(6, 5, 4, 3, 2, 1)
    assert await recent(stores, "a:v1") == views(5, 4, 3, 2)


async def test_linking_within_one_call_counts_for_what_stands_before_it(stores: Stores) -> None:
    await append_views(stores, ("", "v1", 1), ("u1", "v1", 2), ("", "v1", 3), ("", "v2", 4))
    assert await recent(stores, "u:u1") == views(3, 2, 1)
    assert await recent(stores, "a:v1") == views(3, 2, 1)
    assert await recent(stores, "a:v2") == views(4)


async def test_linking_again_copies_nothing_twice(stores: Stores) -> None:
    for n in range(3):
        await append_views(stores, ("u1", "v1", n))
    assert await recent(stores, "u:u1") == views(2, 1, 0)


async def test_an_interaction_without_anything_to_keep_only_links(stores: Stores) -> None:
    await stores.interactions.append(
        APP, b"[]", [("", "v1", view_interaction(1)), ("u1", "v1", b""), ("u2", "", b"")]
    )
    await append_views(stores, ("", "v1", 2))
    assert await recent(stores, "u:u1") == views(2, 1)
    assert await recent(stores, "a:v1") == views(2, 1)
    assert await recent(stores, "u:u2") == []


async def test_a_user_gathers_several_visitors(stores: Stores) -> None:
    await append_views(stores, ("", "v1", 1))
    await append_views(stores, ("", "v2", 2))
    await append_views(stores, ("u1", "v1", 3), ("u1", "v2", 4))
    assert set(await recent(stores, "u:u1")) == set(views(1, 2, 3, 4))


async def test_a_device_that_changes_hands_takes_no_history_along(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 1))
    await append_views(stores, ("u2", "v1", 2))
    await append_views(stores, ("", "v1", 3))
    assert await recent(stores, "u:u1") == views(1)
    assert await recent(stores, "u:u2") == views(3, 2)
    assert await recent(stores, "a:v1") == views(3, 2)


async def test_a_device_may_change_hands_within_one_call(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 1), ("", "v1", 2), ("u2", "v1", 3), ("u1", "v1", 4))
    assert await recent(stores, "u:u1") == views(4, 2, 1)
    assert await recent(stores, "u:u2") == views(3)
    assert await recent(stores, "a:v1") == views(4)


async def test_user_and_visitor_read_together_come_once_and_newest_first(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 5), ("u1", "", 7), ("", "v2", 6))
    assert await recent(stores, "u:u1", "a:v1") == views(7, 5)
    assert await recent(stores, "u:u1", "a:v2") == views(7, 6, 5)
    assert await recent(stores, "u:nobody", "a:v2") == views(6)


async def test_ten_thousand_interactions_append_in_one_step(stores: Stores) -> None:
    events = [(f"u{n % 4000}", f"v{n % 4000}", view_interaction(n)) for n in range(10_000)]
    await stores.interactions.append(APP, b"[]", events)
    assert await recent(stores, "u:u1") == views(8001, 4001, 1)
    assert await recent(stores, "a:v1") == views(8001, 4001, 1)


async def test_erasing_forgets_a_user_and_the_visitors_linked_to_them(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 1), ("u1", "v2", 2), ("u2", "v3", 3), ("", "v4", 4))
    start = await stores.changes.last(APP, "interaction")
    await stores.interactions.erase(APP, ["u1", "unknown", "u1"])
    for user_key in ("u:u1", "a:v1", "a:v2"):
        assert await recent(stores, user_key) == []
    assert await recent(stores, "u:u2") == views(3)
    assert await recent(stores, "a:v4") == views(4)
    (change,) = await stores.changes.read(APP, {"interaction": start}, count=5, block_ms=0)
    assert change.op == "erase"
    assert sorted(orjson.loads(change.payload)) == ["a:v1", "a:v2", "u:u1", "u:unknown"]


async def test_erasing_unlinks_so_that_the_visitor_starts_afresh(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 1))
    await stores.interactions.erase(APP, ["u1"])
    await append_views(stores, ("", "v1", 2))
    assert await recent(stores, "u:u1") == []
    assert await recent(stores, "a:v1") == views(2)
    await stores.interactions.erase(APP, ["u1"])
    assert await recent(stores, "a:v1") == views(2)


async def test_a_visitor_who_moved_on_is_erased_with_the_new_user_only(stores: Stores) -> None:
    await append_views(stores, ("u1", "v1", 1))
    await append_views(stores, ("u2", "v1", 2))
    await stores.interactions.erase(APP, ["u1"])
    assert await recent(stores, "a:v1") == views(2)
    assert await recent(stores, "u:u2") == views(2)
    await stores.interactions.erase(APP, ["u2"])
    assert await recent(stores, "a:v1") == []


async def test_erasing_nobody_logs_nothing(stores: Stores) -> None:
    await stores.interactions.erase(APP, [])
    assert await stores.changes.last(APP, "interaction") == "0"


async def test_appending_and_erasing_at_once_leaves_no_half_link(stores: Stores) -> None:
    async def click(n: int) -> None:
        await append_views(stores, ("", "v1", n))
        await append_views(stores, (f"u{n % 3}", "v1", n))

    await asyncio.gather(
        *(click(n) for n in range(12)), *(stores.interactions.erase(APP, ["u1"]) for _ in range(4))
    )
    await stores.interactions.erase(APP, ["u0", "u1", "u2"])
    for user_key in ("u:u0", "u:u1", "u:u2", "a:v1"):
        assert await recent(stores, user_key) == []
    await append_views(stores, ("", "v1", 99))
    assert await recent(stores, "a:v1") == views(99)


async def test_a_browser_adds_few_readers_and_pushes_out_few_events(stores: Stores) -> None:
    writer = BrowserWriteLimits("here", NOW, users_per_address=2, users_per_day=3)
    for at in range(4):
        await append_views(stores, ("", f"v{at}", at), writer=writer)
    assert [len(await recent(stores, f"a:v{at}")) for at in range(4)] == [1, 1, 0, 0]
    elsewhere = replace(writer, address="there")
    for at in range(4, 7):
        await append_views(stores, ("", f"v{at}", at), writer=elsewhere)
    assert [len(await recent(stores, f"a:v{at}")) for at in range(4, 7)] == [1, 0, 0]
    proven = replace(writer, proven=frozenset({"u1"}))
    await append_views(stores, *(("u1", "", n) for n in range(100)), writer=proven)
    assert len(await recent(stores, "u:u1")) == 100
    await append_views(stores, *(("u1", "", n) for n in range(100, 200)), writer=proven)
    await append_views(stores, *(("u1", "", n) for n in range(200, 300)), writer=proven)
    kept = views(*range(299, 279, -1)) + views(*range(199, 19, -1))
    assert await recent(stores, "u:u1") == kept
    await append_views(stores, ("", "v0", 9), writer=writer)
    assert await recent(stores, "a:v0") == views(9, 0)


async def test_a_browser_links_like_a_server_but_not_without_end(stores: Stores) -> None:
    writer = BrowserWriteLimits("here", NOW, proven=frozenset({"u1", "u2"}))
    await append_views(stores, ("", "v1", 1), writer=writer)
    await append_views(stores, ("u1", "v1", 2), writer=writer)
    await append_views(stores, ("", "v1", 3), writer=writer)
    assert await recent(stores, "u:u1") == views(3, 2, 1)
    await append_views(stores, ("u2", "v1", 4), writer=writer)
    assert await recent(stores, "a:v1") == views(4)
    assert await recent(stores, "u:u2") == views(4)
    many = [("u1", f"w{n}", b"") for n in range(60)]
    await stores.interactions.append(APP, b"[]", many, writer)
    links = await stores.interactions.links(APP, [f"w{n}" for n in range(60)])
    assert len(links) == 50
    # A move is a link too: beyond the bound a visitor leaves the former user and stays unlinked.
    await stores.interactions.append(APP, b"[]", [("u3", visitor, b"") for visitor in links], writer)
    moved = [(user_id, f"x{n}", b"") for n in range(20) for user_id in ("u2", "u3")]
    await stores.interactions.append(APP, b"[]", moved, writer)
    visitors = await stores.interactions.visitors(APP, ["u1", "u2", "u3"], 100)
    assert {user_id: len(names) for user_id, names in visitors.items()} == {"u2": 1, "u3": 50}
    # A link that was refused can't move either.
    refused = [("u4", "y", b""), ("u5", "y", b"")]
    await stores.interactions.append(APP, b"[]", refused, replace(writer, users_per_address=0))
    assert await stores.interactions.links(APP, ["x0", "x19", "y"]) == {}


async def test_browsers_write_only_so_many_bytes_a_minute(stores: Stores) -> None:
    writer = BrowserWriteLimits("here", NOW, bytes_per_minute=1_000)
    payload = b"[" + b" " * 600 + b"]"
    await stores.interactions.append(APP, payload, [("", "v1", view_interaction(1))], writer)
    last = await stores.changes.last(APP, "interaction")
    with pytest.raises(TooMany):
        await stores.interactions.append(APP, payload, [("", "v1", view_interaction(2))], writer)
    assert await stores.changes.last(APP, "interaction") == last
    assert await recent(stores, "a:v1") == views(1)
    later = replace(writer, now_ms=NOW + 60_000)
    await stores.interactions.append(APP, payload, [("", "v1", view_interaction(3))], later)
