"""Shorthand for the suites: the usual upload, delete and interaction in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import orjson

from cluster.records.intake import Noun
from cluster.records.interaction import RecentEvent
from cluster.store.data.intake import Batch, RecordPut
from cluster.store.stores import Stores

APP = "shop"
OTHER = "other-shop"
NOW = 1_700_000_000_000

Value = TypeVar("Value")


def require(value: Value | None) -> Value:
    """Return a value that must be there."""
    assert value is not None
    return value


def body(record_id: str, **fields: object) -> bytes:
    """A small record."""
    return orjson.dumps({"product_id": record_id, **fields})


async def accept(
    stores: Stores,
    task_id: str,
    record_ids: Sequence[str] = ("p1",),
    *,
    noun: Noun = "product",
    app_id: str = APP,
) -> None:
    """Queue an upload of records that are nothing but an id."""
    payload = b"[" + b",".join(body(record_id) for record_id in record_ids) + b"]"
    accepted = await stores.intake.accept(
        app_id, noun, "put", payload, task_id=task_id, total=len(record_ids), now_ms=NOW
    )
    assert not accepted.conflicts


async def claim_one(stores: Stores, consumer: str = "worker", app_id: str = APP) -> Batch:
    """Take the one batch that is there."""
    (batch,) = await stores.intake.claim(consumer, [app_id], count=10, block_ms=0)
    return batch


async def apply(
    stores: Stores,
    batch: Batch,
    records: Sequence[RecordPut],
    *,
    failed: Sequence[str] = (),
    now_ms: int = NOW + 5,
) -> bool:
    """Apply a batch with the given records."""
    return await stores.intake.apply_put(
        batch,
        records,
        change_payload=b"[" + b",".join(record.json for record in records) + b"]",
        vectors=b"\0\1" * len(records),
        embedder="words-1",
        failed=failed,
        now_ms=now_ms,
    )


async def put(
    stores: Stores, *records: RecordPut, noun: Noun = "product", app_id: str = APP, task_id: str = ""
) -> None:
    """Bring records all the way in."""
    task_id = task_id or "task-of-" + "-".join(record.record_id for record in records)
    await accept(stores, task_id, [record.record_id for record in records], noun=noun, app_id=app_id)
    assert await apply(stores, await claim_one(stores, app_id=app_id), records)


async def remove(stores: Stores, *record_ids: str, noun: Noun = "product", app_id: str = APP) -> None:
    """Take records all the way out."""
    payload = orjson.dumps(record_ids)
    task_id = "removal-of-" + "-".join(record_ids)
    await stores.intake.accept(
        app_id, noun, "remove", payload, task_id=task_id, total=len(record_ids), now_ms=NOW
    )
    assert await stores.intake.apply_remove(await claim_one(stores, app_id=app_id), record_ids, now_ms=NOW)


def view_interaction(n: int, product_id: str = "p1", kind: str = "product_detail_page_view") -> bytes:
    """The n-th thing somebody did, packed."""
    return RecentEvent(kind, (product_id,), NOW + n).pack()
