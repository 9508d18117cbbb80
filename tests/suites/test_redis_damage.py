"""Broken records: set aside, read as absent, and the rest is served; the fault tests have the figures."""

from __future__ import annotations

import pytest

from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, NOW, accept, apply, body, claim_one, put, require
from tests.suites.test_small_stores import a_key, an_app

pytestmark = pytest.mark.redis


async def flip(stores: OpenStores, key: str, place: int = -3) -> None:
    """Flip a bit of a string value, as a dying disk would."""
    value = bytearray(await stores.server.execute("GET", key))
    value[place] ^= 4
    await stores.server.execute("SET", key, bytes(value))


async def quarantined(stores: OpenStores, key: str = "") -> list[dict[bytes, bytes]]:
    entries = await stores.server.execute_slow("XRANGE", key or keys.quarantine(APP), "-", "+")
    return [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]


async def test_a_broken_record_is_absent_and_set_aside_and_its_neighbours_are_served(
    redis_stores: OpenStores,
) -> None:
    stores = redis_stores
    await put(stores, *(RecordPut(f"p{n}", body(f"p{n}"), "book") for n in range(3)))
    await flip(stores, keys.record(APP, "product", "p1"))
    assert await stores.records.get(APP, "product", "p1") is None
    assert await stores.records.get_many(APP, "product", ["p0", "p1", "p2"]) == [body("p0"), None, body("p2")]
    assert await stores.records.ids(APP, "product") == ["p0", "p2"]
    assert await stores.records.ids(APP, "product", "book") == ["p0", "p2"]
    (entry,) = await quarantined(stores)
    assert (entry[b"kind"], entry[b"noun"], entry[b"id"]) == (b"record", b"product", b"p1")
    assert entry[b"payload"][9:-3] == body("p1")[:-3]
    await put(stores, RecordPut("p1", body("p1", again=True), "book"), task_id="repair")
    assert await stores.records.get(APP, "product", "p1") == body("p1", again=True)


async def test_a_broken_record_among_many_is_set_aside_too(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p0", body("p0")), RecordPut("p1", body("p1")))
    await flip(redis_stores, keys.record(APP, "product", "p0"), place=0)
    assert await redis_stores.records.get_many(APP, "product", ["p0", "p1"]) == [None, body("p1")]
    assert len(await quarantined(redis_stores)) == 1


async def test_a_record_under_a_wrong_key_is_broken(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p1", body("p1")))
    value = await redis_stores.server.execute("GET", keys.record(APP, "product", "p1"))
    await redis_stores.server.execute("SET", keys.record(APP, "product", "p2"), value)
    assert await redis_stores.records.get(APP, "product", "p2") is None


async def test_what_was_repaired_meanwhile_is_not_set_aside(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p1", body("p1")))
    key = keys.record(APP, "product", "p1")
    good = await redis_stores.server.execute("GET", key)
    await flip(redis_stores, key)
    broken = await redis_stores.server.execute("GET", key)
    await redis_stores.server.execute("SET", key, good)
    await redis_stores.records._quarantine.record(APP, "product", "p1", broken)  # type: ignore[attr-defined]
    assert await redis_stores.records.get(APP, "product", "p1") == body("p1")
    assert await quarantined(redis_stores) == []


async def test_a_broken_batch_ends_its_task_and_does_not_stop_the_next(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await stores.server.execute(
        "XADD", keys.intake(APP), "*", "noun", "product", "op", "put", "task", "t0", "payload", b"1deadbeef[]"
    )
    await accept(stores, "t1")
    assert (await claim_one(stores)).task_id == "t1"
    assert await stores.intake.depth(APP) == 1
    (entry,) = await quarantined(stores)
    assert (entry[b"kind"], entry[b"id"]) == (b"batch", b"t0")


async def test_a_batch_broken_after_it_was_accepted_fails_its_task(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await accept(stores, "t1", ["p1", "p2"])
    ((entry_id, fields),) = await stores.server.execute("XRANGE", keys.intake(APP), "-", "+")
    fields[7] = fields[7][:-4] + b"!!!!"
    await stores.server.execute("XDEL", keys.intake(APP), entry_id)
    ms, n = entry_id.split(b"-")
    await stores.server.execute("XADD", keys.intake(APP), b"%s-%d" % (ms, int(n) + 1), *fields)
    assert await stores.intake.claim("worker", [APP], count=5, block_ms=0) == []
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.failed) == ("failed", 2)
    assert "checksum" in task.errors[0]


async def test_a_broken_change_is_skipped_and_its_followers_get_past_it(redis_stores: OpenStores) -> None:
    stores = redis_stores
    log = keys.change_log(APP, "product")
    await put(stores, RecordPut("p1", body("p1")), task_id="one")
    await stores.server.execute(
        "XADD", log, "*", "op", "put", "payload", b"1deadbeef[]", "vectors", b"", "embedder", ""
    )
    await stores.server.execute("XADD", log, "*", "nonsense", "x")
    await put(stores, RecordPut("p2", body("p2")), task_id="two")
    changes = await stores.changes.read(APP, {"product": "0"}, count=10, block_ms=0)
    assert [change.payload for change in changes] == [
        b"[" + body("p1") + b"]", b"[]", b"[]", b"[" + body("p2") + b"]",
    ]  # fmt: skip
    assert changes[-1].offset == await stores.changes.last(APP, "product")
    assert [entry[b"kind"] for entry in await quarantined(stores)] == [b"change", b"change"]


async def test_a_broken_key_is_absent_and_the_other_keys_work(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await stores.access.put_app(an_app())
    for name in ("1" * 64, "2" * 64):
        await stores.access.put_key(a_key(name))
    sealed = await stores.server.execute("HGET", keys.access_key(), "1" * 64)
    await stores.server.execute("HSET", keys.access_key(), "1" * 64, sealed.replace(b"secret", b"sekret"))
    assert list((await stores.access.read_all()).keys) == ["2" * 64]
    assert list((await stores.access.read_all()).apps) == [APP]
    assert len(await quarantined(stores, keys.access_quarantine())) == 1


async def test_a_broken_engine_is_absent_and_made_again_by_the_next_product(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await put(stores, RecordPut("p1", body("p1")), task_id="one")
    await stores.server.execute("HSET", keys.engine(APP), "default", b"1deadbeef{}")
    assert await stores.engines.all(APP) == []
    await put(stores, RecordPut("p2", body("p2")), task_id="two")
    assert await stores.engines.get(APP, "default") is not None


async def test_a_quarantine_keeps_at_most_256_kib_of_a_batch(redis_stores: OpenStores) -> None:
    payload = b"[" + b"1," * 300_000 + b"1]"
    await redis_stores.intake.accept(APP, "user", "put", payload, task_id="t1", total=1, now_ms=NOW)
    await redis_stores.intake.give_up(await claim_one(redis_stores), "poison", now_ms=NOW)
    (entry,) = await quarantined(redis_stores)
    assert entry[b"payload"] == payload[: 256 * 1024]


async def test_applying_without_a_group_still_works(redis_stores: OpenStores) -> None:
    await accept(redis_stores, "t1")
    batch = await claim_one(redis_stores)
    await redis_stores.server.execute("XGROUP", "DESTROY", keys.intake(APP), "intake")
    again = await claim_one(redis_stores)
    assert (again.entry_id, again.payload) == (batch.entry_id, batch.payload)
    assert await apply(redis_stores, again, [RecordPut("p1", body("p1"))])


async def test_a_batch_whose_task_lost_a_field_is_given_up(redis_stores: OpenStores) -> None:
    await accept(redis_stores, "t1", ["p1", "p2", "p3"])
    await redis_stores.server.execute_slow("HDEL", keys.task(APP, "t1"), "succeeded")
    await redis_stores.intake.give_up(await claim_one(redis_stores), "it fails", now_ms=NOW)
    assert await redis_stores.intake.depth(APP) == 0
    assert await redis_stores.server.execute_slow("HGET", keys.task(APP, "t1"), "failed") == b"3"
