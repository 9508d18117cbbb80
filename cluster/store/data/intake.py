"""The queue of accepted batches, one stream for each app.

    accept      API replica    stream entry + task, in one script
    claim       intake actor   entries claimed before, entries of a dead consumer, new entries
    apply_*     intake actor   records + change + end of the task + entry deleted, in one script
    give_up     intake actor   quarantine + end of the task + entry deleted, in one script

The entry proves that a batch was not applied yet: the applying scripts delete it first and write nothing
if it was absent. So any number of actors may receive, compute and apply a batch any number of times, with one
effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import orjson
import structlog

from cluster.clock import Clock
from cluster.errors import KioskError, TooMany
from cluster.ids import DEFAULT_ENGINE, record_key_from_id
from cluster.records.engine import Engine
from cluster.records.erasure import RemovedRecords
from cluster.records.intake import Noun, Op
from cluster.records.logged_query import pseudonym
from cluster.store import keys
from cluster.store.client.error_replies import NoGroup
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.data.interactions import DELETED_MS, MOST_DELETED, read_deleted
from cluster.store.data.records import type_prefix
from cluster.store.data.salts import Salts
from cluster.store.data.tasks import LIFE_S
from cluster.store.seals import quarantine
from cluster.store.seals.seal import salt_from_key, seal, unseal


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
    # Each record has a vector of the same length, or none has one.
    # `records` is not empty here: an empty array is below the bound.
    width = len(vectors) // len(records)
    starts = [0]
    size = 0
    for at, record in enumerate(records):
        size += len(record.json) + 1
        # Never an empty entry: one record may be larger than the bound alone.
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


GROUP = "intake"
IDLE_MS = 10_000
"A consumer that did not renew a batch for this long counts as dead."
MOST_BYTES = 48 * 1024 * 1024
"Approximate payload of one claim, bounded for time and memory; a single batch is always returned whole."
MOST_GROUPS = 16
"Blocking reads of one claim."
LOOK_EVERY_MS = 250
MOST_WAITING = 10_000
"Batches of an app that may wait before the API replica refuses more."

_BULK_BYTES = 1 << 20
_THREAD_BYTES = 1 << 13
"A delete of at least so many bytes of ids is hashed in a thread."

_log = structlog.get_logger()
_ACCEPT = Script.load("accept")
_CLAIM = Script.load("claim")
_START = Script.load("start")
_APPLY_PUT = Script.load("apply_put")
_APPLY_REMOVE = Script.load("apply_remove")
_GIVE_UP = Script.load("give_up")


class Intake:
    """The queue of accepted batches between API replicas and the intake actor."""

    def __init__(
        self, server: RedisClient, clock: Clock, *, idle_ms: int = IDLE_MS, most_waiting: int = MOST_WAITING
    ) -> None:
        self._server = server
        self._salts = Salts(server)
        self._clock = clock
        self._idle_ms = idle_ms
        self._most_waiting = most_waiting

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
        names = [
            keys.attribute_types(app_id, noun),
            keys.intake(app_id),
            keys.task(app_id, task_id),
            keys.noun_seen(app_id, noun),
            keys.task_open(app_id),
        ]
        args: list[Argument] = [
            self._most_waiting,
            noun,
            op,
            task_id,
            # The salt binds the payload to its task: a mixed-up entry fails its checksum.
            seal(payload, salt_from_key(task_id)),
            "upload" if op == "put" else "delete",
            total,
            len(errors),
            orjson.dumps(list(errors)),
            now_ms,
            LIFE_S,
        ]
        types = attribute_types or {}
        args.append(2 * len(types))
        for name, kind in types.items():
            args += (name, kind)
        if op == "remove":
            # With the batch, not when it is applied: an ingest that continues meanwhile must see it.
            names.append(keys.deleted_records(app_id, noun))
            salt = await self._salts.get(app_id)
            args += (now_ms - DELETED_MS, MOST_DELETED)
            hashed = partial(_list_pseudonyms, salt, noun, payload)
            # 10,000 hashes take 50 ms, in which the event loop would answer nobody
            args += hashed() if len(payload) < _THREAD_BYTES else await asyncio.to_thread(hashed)
        # a large upload on the common connection would delay the short commands of other requests
        is_bulk = len(payload) > _BULK_BYTES
        verdict, *facts = await self._server.run(_ACCEPT, names, args, is_bulk=is_bulk)
        if verdict == b"full":
            raise TooMany("too many uploads are waiting", retry_after_s=5)
        clashes = {text_of(name): text_of(kind) for name, kind in split_pairs(facts)}
        return IntakeReceipt(task_id, clashes)

    async def deleted_since(self, app_id: str, noun: Noun, since_ms: int) -> RemovedRecords:
        """Return whose deletes were accepted from a time on, at most 30 days ago."""
        return await read_deleted(
            self._server, self._salts, app_id, keys.deleted_records(app_id, noun), since_ms
        )

    async def claim(self, consumer: str, app_ids: Sequence[str], *, count: int, block_ms: int) -> list[Batch]:
        """Claim and return batches, and set their tasks to `running`. The order is: batches that this
        consumer already holds, batches that a dead consumer left idle for 10 s, new batches. Waits up to
        `block_ms` for a new batch.

        `count` holds for each app, so that all apps get their share. The next call returns a claimed batch
        again if it was neither applied nor given up. Broken batches are given up by this call and not
        returned.
        """
        # Without waiting: a wait holds a connection, and most calls find batches.
        batches = await self._claim_present(consumer, app_ids, count)
        if not batches and block_ms > 0 and app_ids:
            batches = await self._claim_coming(consumer, app_ids, block_ms)
        tasks = [keys.task(batch.app_id, batch.task_id) for batch in batches]
        # A script of a Redis Cluster may name keys of one slot only.
        for some in self._server.group(tasks) if tasks else ():
            await self._server.run(_START, some, [])
        return batches

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
        with the first product. `set_aside` are the records that `failed` names, in its order; they go to
        quarantine with their reason.
        """
        app_id = batch.app_id
        noun = batch.noun
        names = self._keys_of(batch)
        # The script finds keys by place: seven common ones, the engines, then one for each record.
        names.append(keys.engine(app_id))
        args: list[Argument] = self._facts_of(batch, now_ms)
        salt = salt_from_key(noun)
        entries = [
            (seal(payload, salt), seal(part, salt))
            for payload, part in split_change(records, change_payload, vectors)
        ]
        args += (
            *entries[0],
            embedder,
            len(failed),
            orjson.dumps(list(failed)),
            _default_engine(app_id, now_ms) if noun == "product" else b"",
        )
        for record in records:
            key = keys.record(app_id, noun, record.record_id)
            names.append(key)
            args += (
                record.record_id,
                seal(record.json, salt_from_key(key)),
                b"" if record.product_type is None else type_prefix(record.product_type),
            )
        # Behind the records: the script knows their number from its keys.
        args += (part for entry in entries[1:] for part in entry)
        # The script deletes the entry first, so of two that apply one batch only one writes.
        applied = await self._server.run(_APPLY_PUT, names, args, is_bulk=True) is not None
        if applied and set_aside:
            await self._set_aside(batch, failed, set_aside, now_ms)
        return applied

    async def apply_remove(self, batch: Batch, record_ids: Sequence[str], *, now_ms: int) -> bool:
        """Delete records in one atomic step, as `apply_put` writes them."""
        names = self._keys_of(batch)
        names += (keys.record(batch.app_id, batch.noun, record_id) for record_id in record_ids)
        args: list[Argument] = self._facts_of(batch, now_ms)
        args += (seal(orjson.dumps(list(record_ids)), salt_from_key(batch.noun)), *record_ids)
        return await self._server.run(_APPLY_REMOVE, names, args) is not None

    async def give_up(self, batch: Batch, reason: str, *, now_ms: int) -> bool:
        """Move an invalid batch to quarantine and fail its task; return whether the batch still existed."""
        # Stream, task and open tasks: a batch that is given up touches no record.
        names = [*self._keys_of(batch)[:3], keys.quarantine(batch.app_id)]
        args: list[Argument] = self._facts_of(batch, now_ms)
        args += (
            reason,
            batch.payload[: quarantine.MOST_BYTES],
            orjson.dumps([reason]),
            quarantine.CAP,
        )
        return bool(await self._server.run(_GIVE_UP, names, args))

    async def depth(self, app_id: str) -> int:
        """Count the batches that wait or are claimed."""
        return int(await self._server.execute_slow("XLEN", keys.intake(app_id)))

    async def _set_aside(
        self, batch: Batch, reasons: Sequence[str], records: Sequence[bytes], now_ms: int
    ) -> None:
        """Write refused records to the quarantine. The batch is applied already, so this must not fail."""
        stream = keys.quarantine(batch.app_id)
        try:
            # The quarantine is bounded: one bad upload must not push out the rows of others.
            # Not strict: the records are cut to the bound, the reasons are not.
            for reason, record in zip(reasons, records[: quarantine.MOST_A_BATCH], strict=False):
                await self._server.execute_slow(
                    "XADD",
                    stream,
                    "MAXLEN",
                    "~",
                    quarantine.CAP,
                    "*",
                    "kind",
                    "record",
                    "noun",
                    batch.noun,
                    "id",
                    batch.task_id,
                    "reason",
                    reason,
                    "at",
                    now_ms,
                    "payload",
                    record[: quarantine.MOST_BYTES],
                )
        except KioskError as error:
            _log.warning("quarantine_failed", app=batch.app_id, reason=error.message)

    def _keys_of(self, batch: Batch) -> list[str]:
        """Return the keys that every applying script begins with."""
        app_id = batch.app_id
        noun = batch.noun
        return [
            keys.intake(app_id),
            keys.task(app_id, batch.task_id),
            keys.task_open(app_id),
            keys.change_log(app_id, noun),
            keys.record_ids(app_id, noun),
            keys.product_type(app_id),
            keys.product_type_ids(app_id),
        ]

    def _facts_of(self, batch: Batch, now_ms: int) -> list[Argument]:
        """Return the arguments that every applying script begins with."""
        return [GROUP, batch.entry_id, batch.task_id, now_ms, LIFE_S, batch.noun]

    async def _claim_present(self, consumer: str, app_ids: Sequence[str], count: int) -> list[Batch]:
        app_of = {keys.intake(app_id): app_id for app_id in app_ids}
        args: list[Argument] = [GROUP, consumer, count, self._idle_ms, MOST_BYTES]
        batches: list[Batch] = []
        for names in self._server.group(list(app_of)):
            answer = await self._server.run(_CLAIM, names, args, is_bulk=True)
            for name, entries in zip(names, answer, strict=True):
                for entry_id, fields, deliveries in entries:
                    batches += await self._open(app_of[name], entry_id, fields, deliveries)
        return batches

    async def _claim_coming(self, consumer: str, app_ids: Sequence[str], block_ms: int) -> list[Batch]:
        """Wait for the first new batch of any app."""
        app_of = {keys.intake(app_id): app_id for app_id in app_ids}
        groups = self._server.group(list(app_of))
        if len(groups) > MOST_GROUPS:
            # In a cluster a blocking read names keys of one slot only; if there are too many slots, the
            # client polls them in turn.
            await asyncio.sleep(min(block_ms, LOOK_EVERY_MS) / 1000)
            return await self._claim_present(consumer, app_ids, 1)
        try:
            answer = await self._await_first(consumer, groups, block_ms)
        except NoGroup:
            # Redis was emptied since `_claim_present` created the groups; it creates them again.
            return await self._claim_present(consumer, app_ids, 1)
        batches: list[Batch] = []
        for name, entries in answer or ():
            for entry_id, fields in entries:
                batches += await self._open(app_of[text_of(name)], entry_id, fields, 1)
        return batches

    async def _await_first(self, consumer: str, groups: list[list[str]], block_ms: int) -> list[Any]:
        """Wait until one of the reads returns.

        If a second read claimed entries meanwhile, Redis assigned them to this consumer, and its next claim
        returns them.
        """
        head = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", 1, "BLOCK", block_ms, "STREAMS")
        # `>` returns entries that no consumer has yet; an id would return this consumer's pending ones.
        reads = [
            asyncio.ensure_future(self._server.wait(*head, *names, *([">"] * len(names)), block_ms=block_ms))
            for names in groups
        ]
        try:
            # Not `gather`: a quiet slot would hold back the batches of a busy one.
            await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
            return [entry for read in reads if read.done() for entry in (read.result() or ())]
        finally:
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)

    async def _open(
        self, app_id: str, entry_id: bytes, flat: list[bytes] | None, deliveries: int
    ) -> list[Batch]:
        """Read a stream entry as a batch; give up a broken one at once."""
        # The entry is gone; unless it is acknowledged, each claim would return it.
        if flat is None:
            await self._server.execute_slow("XACK", keys.intake(app_id), GROUP, entry_id)
            return []
        fields = dict(split_pairs(flat))
        noun, op, task_id = (_text(fields, name) for name in (b"noun", b"op", b"task"))
        sealed = fields.get(b"payload", b"")
        payload = unseal(sealed, salt_from_key(task_id))
        batch = Batch(
            app_id=app_id,
            entry_id=text_of(entry_id),
            noun=cast(Noun, noun),
            op=cast(Op, op),
            task_id=task_id,
            # Of a broken batch the raw bytes: the quarantine keeps them for people.
            payload=sealed if payload is None else payload,
            deliveries=deliveries,
        )
        if payload is None:
            await self.give_up(batch, quarantine.BROKEN_BATCH, now_ms=self._clock.now_ms())
            return []
        if noun not in ("user", "product") or op not in ("put", "remove"):
            # the intake of a newer release applies it; its lease on the batch ends by itself
            _log.warning("batch_unreadable", app=app_id, noun=noun, op=op, reason=quarantine.UNREADABLE)
            return []
        return [batch]


def _text(fields: dict[bytes, bytes], name: bytes) -> str:
    return name_of(fields.get(name, b""))


def _default_engine(app_id: str, now_ms: int) -> bytes:
    """Return the engine that the first product of an app creates, as the engine store writes it."""
    engine = Engine(app_id=app_id, engine_id=DEFAULT_ENGINE, created_at=now_ms)
    return seal(engine.model_dump_json().encode(), salt_from_key(keys.engine(app_id), DEFAULT_ENGINE))


def _list_pseudonyms(salt: bytes, noun: Noun, payload: bytes) -> list[str]:
    """Return the keyed hashes of the ids in the payload of a delete."""
    return [pseudonym(salt, record_key_from_id(noun, record_id)) for record_id in orjson.loads(payload)]
