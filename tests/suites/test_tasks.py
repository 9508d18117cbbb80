"""What every `TaskStore` promises."""

from __future__ import annotations

from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores
from tests.fakes.stores.intake import MemoryIntake
from tests.suites.doing import APP, NOW, OTHER, accept, apply, body, claim_one, require


async def test_a_task_goes_from_queued_over_running_to_finished(stores: Stores) -> None:
    async def status() -> str | None:
        task = await stores.tasks.get(APP, "product", "t1")
        return task.status if task else None

    assert await status() is None
    await accept(stores, "t1")
    assert await status() == "queued"
    batch = await claim_one(stores)
    assert await status() == "running"
    await apply(stores, batch, [RecordPut("p1", body("p1"))])
    assert await status() == "finished"


async def test_a_task_tells_what_it_was_given(stores: Stores) -> None:
    await stores.intake.accept(
        APP, "user", "put", b"[]", task_id="t1", total=7, now_ms=NOW, errors=["data.3 is invalid. bad"]
    )
    task = require(await stores.tasks.get(APP, "user", "t1"))
    assert (task.task_id, task.noun, task.type, task.total, task.succeeded, task.failed) == (
        "t1", "user", "upload", 7, 0, 1,
    )  # fmt: skip
    assert (task.errors, task.created_at, task.finished_at) == (("data.3 is invalid. bad",), NOW, None)


async def test_a_task_of_the_other_noun_or_app_is_unknown(stores: Stores) -> None:
    await accept(stores, "t1")
    assert await stores.tasks.get(APP, "user", "t1") is None
    assert await stores.tasks.get(OTHER, "product", "t1") is None
    assert await stores.tasks.get(APP, "product", "t2") is None


async def test_ten_thousand_errors_are_kept(stores: Stores) -> None:
    errors = [f"data.{n} is invalid. The record is 'ü'." for n in range(10_000)]
    await stores.intake.accept(
        APP, "product", "put", b"[]", task_id="t1", total=10_000, now_ms=NOW, errors=errors
    )
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert list(task.errors) == errors


async def test_the_watchdog_ignores_waiting_claimed_and_finished_tasks(stores: Stores) -> None:
    await accept(stores, "held")
    await claim_one(stores)
    await accept(stores, "waiting")
    assert await stores.tasks.end_lost(APP, before_ms=NOW + 1000, now_ms=NOW + 1000) == 0
    for batch in await stores.intake.claim("worker", [APP], count=10, block_ms=0):
        await apply(stores, batch, [RecordPut("p1", body("p1"))])
    assert await stores.tasks.end_lost(APP, before_ms=NOW + 1000, now_ms=NOW + 1000) == 0
    task = require(await stores.tasks.get(APP, "product", "held"))
    assert task.status == "finished"


async def test_the_watchdog_ends_a_task_whose_batch_is_gone(stores: Stores) -> None:
    await accept(stores, "t1", ["p1", "p2"])
    await accept(stores, "t2")
    await lose_batches(stores)
    assert await stores.tasks.end_lost(APP, before_ms=NOW, now_ms=NOW + 60_000) == 0
    assert await stores.tasks.end_lost(APP, before_ms=NOW + 1, now_ms=NOW + 60_000) == 2
    assert await stores.tasks.end_lost(APP, before_ms=NOW + 1, now_ms=NOW + 60_000) == 0
    task = require(await stores.tasks.get(APP, "product", "t1"))
    assert (task.status, task.failed, task.finished_at) == ("failed", 2, NOW + 60_000)
    assert "lost" in task.errors[0]


async def lose_batches(stores: Stores) -> None:
    """Make the app's batches disappear the way only damage can."""
    if isinstance(stores, OpenStores):
        await stores.server.execute_slow("XTRIM", keys.intake(APP), "MAXLEN", 0)
        return
    assert isinstance(stores.intake, MemoryIntake)
    for batch in await stores.intake.claim("thief", [APP], count=10, block_ms=0):
        stores.intake._take_out(batch)
