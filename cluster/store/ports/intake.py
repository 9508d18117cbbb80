"""The protocol of the queue of accepted batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cluster.store.ports.changes import Noun, Op


@dataclass(frozen=True, slots=True)
class Batch:
    """One accepted upload or delete, waiting in the intake."""

    app_id: str
    entry_id: str
    "Stream entry id; acknowledged by the script that applies the batch."
    noun: Noun
    op: Op
    task_id: str
    payload: bytes
    "put: JSON array of normalised records. remove: JSON array of ids."
    deliveries: int = 1


@dataclass(frozen=True, slots=True)
class RecordPut:
    """One record ready to be written."""

    record_id: str
    json: bytes
    product_type: str | None = None
    "Only products: fills the per-type id index."


CHANGE_BYTES = 4 << 20
"Bytes of the records in one entry of the change log: a follower reads and applies an entry whole."


def split_change(
    records: Sequence[RecordPut], change_payload: bytes, vectors: bytes
) -> list[tuple[bytes, bytes]]:
    """Return payload and vectors of the change-log entries of a batch, each at most `CHANGE_BYTES` or one record.

    Shapes:
        change_payload: JSON array of the records; vectors: equally many bytes for each record, or none
    """
    if len(change_payload) <= CHANGE_BYTES:
        return [(change_payload, vectors)]
    width = len(vectors) // len(records)
    starts, size = [0], 0
    for at, record in enumerate(records):
        size += len(record.json) + 1
        if size >= CHANGE_BYTES and at > starts[-1]:
            starts.append(at)
            size = len(record.json) + 1
    return [
        (
            b"[" + b",".join(record.json for record in records[start:stop]) + b"]",
            vectors[start * width : stop * width],
        )
        for start, stop in zip(starts, [*starts[1:], len(records)], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class IntakeReceipt:
    """The result of accepting a batch: the task, or the conflicting attribute types."""

    task_id: str
    conflicts: Mapping[str, str] = field(default_factory=dict)
    "Attribute name -> type already registered by other records. Not empty: nothing was written."


class Intake(Protocol):
    """The queue of accepted batches between API replicas and the intake actor."""

    async def accept(
        self,
        app_id: str,
        noun: Noun,
        op: Op,
        payload: bytes,
        *,
        task_id: str,
        total: int,
        now_ms: int,
        attribute_types: Mapping[str, str] | None = None,
        errors: Sequence[str] = (),
    ) -> IntakeReceipt:
        """Queue a batch and create its task in one step; durable when it returns.

        `attribute_types` are the types this batch relies on. Unknown names are registered; if a type conflicts,
        nothing is written and the receipt names it. `errors` are records already refused: they count as failed in the
        task and are part of `total`. Accepting the same `task_id` again changes nothing, so a retry is safe.

        Errors:
            TooMany: too many batches of the app are waiting
        """
        ...

    async def claim(self, consumer: str, app_ids: Sequence[str], *, count: int, block_ms: int) -> list[Batch]:
        """Claim and return batches, and set their tasks to `running`. The order is: batches that this
        consumer already holds, batches that a dead consumer left idle for 10 s, new batches. Waits up to
        `block_ms` for a new batch.

        `count` holds for each app, so that all apps get their share. The next call returns a claimed batch
        again if it was neither applied nor given up. Broken batches are given up by this call and not
        returned.
        """
        ...

    async def apply_put(
        self,
        batch: Batch,
        records: Sequence[RecordPut],
        *,
        change_payload: bytes,
        vectors: bytes,
        embedder: str,
        failed: Sequence[str],
        now_ms: int,
        set_aside: Sequence[bytes] = (),
    ) -> bool:
        """Write records, change-log entries (`split_change`) and task progress, and acknowledge, in one atomic step.

        Returns False and writes nothing when the batch was already applied. Creates the `default` engine
        with the first product. `quarantine_rows` are the records that `failed` names, in its order; they
        go to quarantine with their reason.
        """
        ...

    async def apply_remove(self, batch: Batch, record_ids: Sequence[str], *, now_ms: int) -> bool:
        """Delete records in one atomic step, as `apply_put` writes them."""

    async def give_up(self, batch: Batch, reason: str, *, now_ms: int) -> bool:
        """Move an invalid batch to quarantine and fail its task; return whether the batch still existed."""

    async def depth(self, app_id: str) -> int:
        """Count the batches that wait or are claimed."""
