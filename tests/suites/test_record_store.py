"""What every `RecordStore` promises."""

from __future__ import annotations

import orjson
import pytest

from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, accept, body, put, remove

STRANGE_IDS = [
    "a/b",
    "a b",
    "{curly}",
    "ü-ß-中",
    "😀",
    "a:b:c",
    "%2F",
    "a\x00b",
    "x" * 512,
    '"quoted"',
    "\u202eright",
]


async def test_a_record_reads_back_byte_for_byte(stores: Stores) -> None:
    json = body("p1", title="Trowel ü", price=1.5)
    await put(stores, RecordPut("p1", json))
    assert await stores.records.get(APP, "product", "p1") == json


async def test_an_unknown_record_is_absent(stores: Stores) -> None:
    assert await stores.records.get(APP, "product", "p1") is None


async def test_an_upload_replaces_the_whole_record(stores: Stores) -> None:
    await put(stores, RecordPut("p1", body("p1", title="old", size="L")), task_id="one")
    await put(stores, RecordPut("p1", body("p1", title="new")), task_id="two")
    assert await stores.records.get(APP, "product", "p1") == body("p1", title="new")


@pytest.mark.parametrize("record_id", STRANGE_IDS)
async def test_any_id_reads_back(stores: Stores, record_id: str) -> None:
    json = orjson.dumps({"product_id": record_id})
    await put(stores, RecordPut(record_id, json, product_type="tool"), task_id="one")
    assert await stores.records.get(APP, "product", record_id) == json
    assert await stores.records.ids(APP, "product") == [record_id]
    assert await stores.records.ids(APP, "product", "tool") == [record_id]


async def test_an_id_that_no_text_may_hold_is_absent(stores: Stores) -> None:
    assert await stores.records.get(APP, "product", "\ud800") is None


async def test_many_records_come_in_the_requested_order_with_gaps(stores: Stores) -> None:
    await put(stores, RecordPut("a", body("a")), RecordPut("b", body("b")))
    bodies = await stores.records.get_many(APP, "product", ["b", "nope", "a", "b"])
    assert bodies == [body("b"), None, body("a"), body("b")]
    assert await stores.records.get_many(APP, "product", []) == []


async def test_more_records_than_one_command_reads_come_too(stores: Stores) -> None:
    record_ids = [f"p{n}" for n in range(1203)]
    await put(stores, *(RecordPut(record_id, body(record_id)) for record_id in record_ids), task_id="many")
    assert await stores.records.get_many(APP, "product", record_ids) == [
        body(record_id) for record_id in record_ids
    ]
    assert await stores.records.ids(APP, "product") == sorted(record_ids)


async def test_ids_are_sorted(stores: Stores) -> None:
    mixed = ["b", "a", "Z", "ä", "10", "9", "中"]
    await put(stores, *(RecordPut(record_id, body(record_id)) for record_id in mixed))
    assert await stores.records.ids(APP, "product") == sorted(mixed)
    assert await stores.records.ids(APP, "user") == []


async def test_ids_of_one_type_are_only_of_that_type(stores: Stores) -> None:
    await put(
        stores,
        RecordPut("b", body("b"), product_type="book"),
        RecordPut("a", body("a"), product_type="book"),
        RecordPut("c", body("c"), product_type="bookend"),
        RecordPut("d", body("d")),
    )
    assert await stores.records.ids(APP, "product", "book") == ["a", "b"]
    assert await stores.records.ids(APP, "product", "bookend") == ["c"]
    assert await stores.records.ids(APP, "product", "boo") == []
    assert await stores.records.ids(APP, "product", "") == []


async def test_a_product_that_changes_its_type_leaves_the_old_one(stores: Stores) -> None:
    await put(stores, RecordPut("a", body("a"), product_type="book"), task_id="one")
    await put(stores, RecordPut("a", body("a"), product_type="film"), task_id="two")
    assert await stores.records.ids(APP, "product", "book") == []
    assert await stores.records.ids(APP, "product", "film") == ["a"]
    await put(stores, RecordPut("a", body("a")), task_id="three")
    assert await stores.records.ids(APP, "product", "film") == []
    assert await stores.records.ids(APP, "product") == ["a"]


async def test_the_last_of_two_records_with_one_id_wins(stores: Stores) -> None:
    twice = (RecordPut("a", body("a", n=1), "book"), RecordPut("a", body("a", n=2), "film"))
    await put(stores, *twice)
    assert await stores.records.get(APP, "product", "a") == body("a", n=2)
    assert await stores.records.ids(APP, "product", "book") == []
    assert await stores.records.ids(APP, "product", "film") == ["a"]


async def test_a_removed_record_is_gone_from_every_index(stores: Stores) -> None:
    await put(stores, RecordPut("a", body("a"), "book"), RecordPut("b", body("b"), "book"))
    await remove(stores, "a", "never-there")
    assert await stores.records.get(APP, "product", "a") is None
    assert await stores.records.ids(APP, "product") == ["b"]
    assert await stores.records.ids(APP, "product", "book") == ["b"]


async def test_a_restored_product_matches_its_old_type(stores: Stores) -> None:
    await put(stores, RecordPut("a", body("a"), "book"), task_id="one")
    await remove(stores, "a")
    await put(stores, RecordPut("a", body("a"), "book"), task_id="two")
    assert await stores.records.ids(APP, "product", "book") == ["a"]


async def test_a_noun_is_seen_from_its_first_upload_on_and_for_ever(stores: Stores) -> None:
    assert not await stores.records.seen(APP, "user")
    await accept(stores, "t", ["u1"], noun="user")
    assert await stores.records.seen(APP, "user")
    assert not await stores.records.seen(APP, "product")
    assert not await stores.records.seen(OTHER, "user")


async def test_a_delete_does_not_make_a_noun_seen(stores: Stores) -> None:
    await remove(stores, "u1", noun="user")
    assert not await stores.records.seen(APP, "user")


async def test_apps_and_nouns_do_not_see_each_other(stores: Stores) -> None:
    await put(stores, RecordPut("x", body("x")))
    assert await stores.records.get(OTHER, "product", "x") is None
    assert await stores.records.get(APP, "user", "x") is None
    assert await stores.records.ids(OTHER, "product") == []


async def test_attribute_types_are_those_accepted_so_far(stores: Stores) -> None:
    assert await stores.records.attribute_types(APP, "product") == {}
    for task_id, types in (("one", {"size": "string"}), ("two", {"weight": "number", "size": "string"})):
        await stores.intake.accept(
            APP, "product", "put", b"[]", task_id=task_id, total=0, now_ms=NOW, attribute_types=types
        )
    assert await stores.records.attribute_types(APP, "product") == {"size": "string", "weight": "number"}
    assert await stores.records.attribute_types(APP, "user") == {}
