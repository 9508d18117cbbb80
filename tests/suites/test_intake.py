"""What every `Intake` promises. The heart: whatever is delivered twice is applied once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from cluster.errors import TooMany
from cluster.store.data.intake import CHANGE_BYTES, RecordPut
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, accept, apply, body, claim_one, remove, require
from tests.suites.store_kinds import ALL_KINDS, open_store_kind


@pytest.fixture(params=ALL_KINDS)
async def hasty(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    """Stores that take another consumer for dead after 20 ms."""
    async with open_store_kind(request, idle_ms=20) as stores:
        yield stores


@pytest.fixture(params=ALL_KINDS)
async def narrow(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    """Stores that let three batches of an app wait."""
    async with open_store_kind(request, most_waiting=3) as stores:
        yield stores


# --- accepting ---------------------------------------------------------------------------------------------


async def test_what_is_accepted_is_claimed_as_it_was_sent(stores: Stores) -> None:
    payload = b'[{"product_id":"p1"}]'
    accepted = await stores.intake.accept(APP, "product", "put", payload, task_id="t1", total=1, now_ms=NOW)
    assert (accepted.task_id, dict(accepted.conflicts)) == ("t1", {})
    batch = await claim_one(stores)
    assert (batch.app_id, batch.noun, batch.op, batch.task_id, batch.payload, batch.deliveries) == (
        APP, "product", "put", "t1", payload, 1,
    )  # fmt: skip


async def test_batches_come_in_the_order_they_were_accepted(stores: Stores) -> None:
    for n in range(5):
        await accept(stores, f"t{n}")
    batches = await stores.intake.claim("worker", [APP], count=10, block_ms=0)
    assert [batch.task_id for batch in batches] == [f"t{n}" for n in range(5)]


async def test_a_large_batch_is_one_task_and_several_changes_of_at_most_4_mb(stores: Stores) -> None:
    names = [f"p{n}" for n in range(9)]
    records = [RecordPut(name, body(name, text="x" * 1_200_000), "tool") for name in names]
    await accept(stores, "t1", names)
    batch = await claim_one(stores)
    assert await apply(stores, batch, records)
    assert not await apply(stores, batch, records)
    changes = await stores.changes.read(APP, {"product": "0"}, count=100, block_ms=0)
    assert [len(orjson.loads(change.payload)) for change in changes] == [3, 3, 3]
    assert max(len(change.payload) for change in changes) <= CHANGE_BYTES
    logged = [record for change in changes for record in orjson.loads(change.payload)]
    assert [record["product_id"] for record in logged] == names
    assert [(change.vectors, change.embedder) for change in changes] == [(b"\0\1" * 3, "words-1")] * 3
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.succeeded) == ("finished", 9)
    assert await stores.records.count(APP, "product") == 9


async def test_clashing_attribute_types_write_nothing_and_name_themselves(stores: Stores) -> None:
    async def accept_types(task_id: str, **types: str) -> dict[str, str]:
        accepted = await stores.intake.accept(
            APP, "product", "put", b"[]", task_id=task_id, total=1, now_ms=NOW, attribute_types=types
        )
        return dict(accepted.conflicts)

    assert await accept_types("t1", size="string", weight="number") == {}
    assert await accept_types("t2", size="number", weight="number", colour="string") == {"size": "string"}
    assert await stores.tasks.get(APP, "product", "t2") is None
    assert await stores.intake.depth(APP) == 1
    assert "colour" not in await stores.records.attribute_types(APP, "product")


async def test_ten_thousand_attribute_types_are_checked(stores: Stores) -> None:
    types = {f"attribute-{n}": "string" for n in range(10_000)}
    for task_id, attribute_types, clashes in (
        ("t1", types, 0),
        ("t2", types, 0),
        ("t3", dict.fromkeys(types, "number"), 10_000),
    ):
        accepted = await stores.intake.accept(
            APP,
            "user",
            "put",
            b"[]",
            task_id=task_id,
            total=1,
            now_ms=NOW,
            attribute_types=attribute_types,
        )
        assert len(accepted.conflicts) == clashes
    assert await stores.records.attribute_types(APP, "user") == types


async def test_accepting_a_task_again_changes_nothing(stores: Stores) -> None:
    await accept(stores, "t1")
    await accept(stores, "t1")
    assert await stores.intake.depth(APP) == 1


async def test_a_full_intake_refuses(narrow: Stores) -> None:
    for n in range(3):
        await accept(narrow, f"t{n}")
    with pytest.raises(TooMany) as refused:
        await accept(narrow, "t3")
    assert refused.value.facts["retry_after_s"] > 0
    assert await narrow.intake.depth(APP) == 3
    assert await narrow.tasks.get(APP, "product", "t3") is None
    await accept(narrow, "t3", app_id=OTHER)


# --- claiming ----------------------------------------------------------------------------------------------


async def test_a_batch_goes_to_one_consumer(stores: Stores) -> None:
    await accept(stores, "t1")
    assert await stores.intake.claim("one", [APP], count=10, block_ms=0)
    assert await stores.intake.claim("two", [APP], count=10, block_ms=0) == []


async def test_a_restarted_consumer_gets_its_batches_back(stores: Stores) -> None:
    await accept(stores, "t1")
    await accept(stores, "t2")
    before = await stores.intake.claim("worker", [APP], count=10, block_ms=0)
    again = await stores.intake.claim("worker", [APP], count=10, block_ms=0)
    assert [batch.entry_id for batch in again] == [batch.entry_id for batch in before]
    assert [batch.deliveries for batch in again] == [2, 2]


async def test_a_dead_consumers_batch_is_taken_over(hasty: Stores) -> None:
    await accept(hasty, "t1")
    (claimed,) = await hasty.intake.claim("dead", [APP], count=10, block_ms=0)
    await asyncio.sleep(0.03)
    (taken,) = await hasty.intake.claim("living", [APP], count=10, block_ms=0)
    assert (taken.entry_id, taken.payload, taken.deliveries) == (claimed.entry_id, claimed.payload, 2)


async def test_a_living_consumers_batch_is_left_to_it(stores: Stores) -> None:
    await accept(stores, "t1")
    assert len(await stores.intake.claim("one", [APP], count=10, block_ms=0)) == 1
    assert await stores.intake.claim("other", [APP], count=10, block_ms=0) == []


async def test_every_app_gets_its_share(stores: Stores) -> None:
    for n in range(5):
        await accept(stores, f"t{n}")
    await accept(stores, "o1", app_id=OTHER)
    batches = await stores.intake.claim("worker", [APP, OTHER], count=2, block_ms=0)
    assert [(batch.app_id, batch.task_id) for batch in batches] == [
        (APP, "t0"),
        (APP, "t1"),
        (OTHER, "o1"),
    ]


async def test_nothing_to_claim_is_an_empty_list(stores: Stores) -> None:
    assert await stores.intake.claim("worker", [APP, OTHER], count=1, block_ms=0) == []
    assert await stores.intake.claim("worker", [APP], count=1, block_ms=5) == []
    assert await stores.intake.claim("worker", [], count=1, block_ms=5) == []


async def test_a_waiting_claim_wakes_for_a_new_batch_of_any_app(stores: Stores) -> None:
    waiting = asyncio.create_task(stores.intake.claim("worker", [APP, OTHER], count=1, block_ms=60_000))
    await asyncio.sleep(0.02)
    await accept(stores, "t1", app_id=OTHER)
    (batch,) = await asyncio.wait_for(waiting, 20)
    assert (batch.app_id, batch.task_id) == (OTHER, "t1")
    task = require(await stores.tasks.get(OTHER, "product", "t1"))
    assert task.status == "running"


async def test_a_cancelled_claim_loses_nothing(stores: Stores) -> None:
    waiting = asyncio.create_task(stores.intake.claim("worker", [APP], count=1, block_ms=5_000))
    await asyncio.sleep(0.02)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await accept(stores, "t1")
    assert (await claim_one(stores)).task_id == "t1"


# --- applying ----------------------------------------------------------------------------------------------


async def test_applying_writes_record_change_and_task_and_empties_the_intake(stores: Stores) -> None:
    await accept(stores, "t1")
    assert await stores.intake.depth(APP) == 1
    assert await apply(stores, await claim_one(stores), [RecordPut("p1", body("p1"), "tool")])
    assert await stores.records.get(APP, "product", "p1") == body("p1")
    (change,) = await stores.changes.read(APP, {"product": "0"}, count=10, block_ms=0)
    assert (change.op, change.payload) == ("put", b"[" + body("p1") + b"]")
    assert (change.vectors, change.embedder) == (b"\0\1", "words-1")
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.succeeded, task.finished_at) == ("finished", 1, NOW + 5)
    assert await stores.intake.depth(APP) == 0


async def test_a_batch_delivered_twice_is_applied_once(hasty: Stores) -> None:
    await accept(hasty, "t1")
    (first,) = await hasty.intake.claim("slow", [APP], count=1, block_ms=0)
    await asyncio.sleep(0.03)
    (second,) = await hasty.intake.claim("quick", [APP], count=1, block_ms=0)
    assert await apply(hasty, second, [RecordPut("p1", body("p1", by="quick"))])
    assert not await apply(
        hasty, first, [RecordPut("p1", body("p1", by="slow")), RecordPut("p2", body("p2"))]
    )
    assert await hasty.records.get(APP, "product", "p1") == body("p1", by="quick")
    assert await hasty.records.get(APP, "product", "p2") is None
    assert len(await hasty.changes.read(APP, {"product": "0"}, count=10, block_ms=0)) == 1
    task = require(await hasty.tasks.get(APP, "product", "t1"))
    assert (task.succeeded, task.failed) == (1, 0)


async def test_of_many_at_the_same_time_one_applies(stores: Stores) -> None:
    await accept(stores, "t1")
    batch = await claim_one(stores)
    tries = [apply(stores, batch, [RecordPut(f"p{n}", body(f"p{n}"))]) for n in range(20)]
    outcomes = await asyncio.gather(*tries, stores.intake.give_up(batch, "late", now_ms=NOW))
    assert sum(outcomes) == 1
    applied = sum(outcomes[:-1])  # nothing if the batch was given up first
    assert len(await stores.records.ids(APP, "product")) == applied
    assert len(await stores.changes.read(APP, {"product": "0"}, count=30, block_ms=0)) == applied


async def test_ten_thousand_records_apply_in_one_step(stores: Stores) -> None:
    names = [f"p{n}" for n in range(10_000)]
    await accept(stores, "t1", names)
    assert await apply(
        stores, await claim_one(stores), [RecordPut(name, body(name), "tool") for name in names]
    )
    assert len(await stores.records.ids(APP, "product", "tool")) == 10_000
    await remove(stores, *names)
    assert await stores.records.ids(APP, "product") == []
    assert await stores.records.ids(APP, "product", "tool") == []


async def test_records_that_fail_late_count_beside_those_refused_early(stores: Stores) -> None:
    await stores.intake.accept(
        APP,
        "product",
        "put",
        b"[]",
        task_id="t1",
        total=3,
        now_ms=NOW,
        errors=["data.1 is invalid. early"],
    )
    await apply(
        stores, await claim_one(stores), [RecordPut("p1", body("p1"))], failed=["data.2 is invalid. late"]
    )
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.total, task.succeeded, task.failed) == (3, 1, 2)
    assert task.errors == ("data.1 is invalid. early", "data.2 is invalid. late")


async def test_a_batch_without_a_good_record_ends_its_task_and_logs_no_change(stores: Stores) -> None:
    await accept(stores, "t1")
    assert await apply(stores, await claim_one(stores), [], failed=["data.0 is invalid. bad"])
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.failed) == ("finished", 1)
    assert await stores.changes.last(APP, "product") == "0"
    assert await stores.engines.all(APP) == []


async def test_the_first_product_makes_the_default_engine_and_users_do_not(stores: Stores) -> None:
    await accept(stores, "t1", ["u1"], noun="user")
    await apply(stores, await claim_one(stores), [RecordPut("u1", body("u1"))])
    assert await stores.engines.get(APP, "default") is None
    await accept(stores, "t2")
    await apply(stores, await claim_one(stores), [RecordPut("p1", body("p1"))], now_ms=NOW + 1)
    engine = require(await stores.engines.get(APP, "default"))
    assert (engine.app_id, engine.placement, engine.created_at) == (APP, "door", NOW + 1)
    changed = engine.model_copy(update={"placement": "own"})
    await stores.engines.put(changed)
    await accept(stores, "t3")
    await apply(stores, await claim_one(stores), [RecordPut("p2", body("p2"))])
    assert await stores.engines.get(APP, "default") == changed


async def test_users_leave_no_vectors_and_no_types(stores: Stores) -> None:
    await accept(stores, "t1", ["u1"], noun="user")
    await apply(stores, await claim_one(stores), [RecordPut("u1", body("u1"))])
    (change,) = await stores.changes.read(APP, {"user": "0"}, count=10, block_ms=0)
    assert (change.noun, change.vectors, change.embedder) == ("user", b"", "")


async def test_a_removal_applies_once_and_logs_the_ids(stores: Stores) -> None:
    await accept(stores, "t1")
    await apply(stores, await claim_one(stores), [RecordPut("p1", body("p1"))])
    await stores.intake.accept(APP, "product", "remove", b'["p1","p9"]', task_id="t2", total=2, now_ms=NOW)
    batch = await claim_one(stores)
    assert await stores.intake.apply_remove(batch, ["p1", "p9"], now_ms=NOW + 9)
    assert not await stores.intake.apply_remove(batch, ["p1", "p9"], now_ms=NOW + 10)
    changes = await stores.changes.read(APP, {"product": "0"}, count=10, block_ms=0)
    assert [(change.op, change.payload) for change in changes][1:] == [("remove", b'["p1","p9"]')]
    task = require(await stores.tasks.get(APP, "product", "t2"))
    assert (task.type, task.status, task.succeeded, task.finished_at) == (
        "delete",
        "finished",
        2,
        NOW + 9,
    )


async def test_a_poisonous_batch_is_given_up_once(stores: Stores) -> None:
    await accept(stores, "t1", ["p1", "p2"])
    batch = await claim_one(stores)
    assert await stores.intake.give_up(batch, "embedding failed", now_ms=NOW + 7)
    assert not await stores.intake.give_up(batch, "embedding failed", now_ms=NOW + 8)
    assert not await apply(stores, batch, [RecordPut("p1", body("p1"))])
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.failed, task.errors, task.finished_at) == (
        "failed", 2, ("embedding failed",), NOW + 7,
    )  # fmt: skip
    assert await stores.intake.depth(APP) == 0
    assert await stores.records.get(APP, "product", "p1") is None
