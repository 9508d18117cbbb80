"""Send quarantined entries through validation and intake again.

    row, record     validated as an upload of one                   then the intake, as after an upload
    batch           validated as an upload of all its records, or a removal of ids
    anything else   can't be replayed; `find_obstacle` returns the reason and the alternative

A replay overwrites stored records only with `overwrite`: they may be newer than the entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson

from cluster.clock import Clock
from cluster.errors import Conflict, KioskError, TooMany, Unavailable, Unprocessable
from cluster.ids import new_task_id
from cluster.records.intake import Noun, Op, QuarantineEntry
from cluster.records.validation.accepted_uploads import AcceptedRecords, RecordNoun, TypeCheck
from cluster.records.validation.upload import parse_upload
from cluster.store.stores import Stores

ReplayStatus = Literal["replayed", "refused", "skipped", "waiting"]

WAIT_S = 60.0
_POLL_S = 0.05
_MAX_TRIES = 5
_NOUNS = ("user", "product")
_TYPES_CHANGED = "attribute types change while the record is checked; replay it again"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of replaying one entry."""

    status: ReplayStatus
    reason: str = ""
    is_removable: bool = False
    "The entry can be deleted: it was applied, or the intake quarantined it again."


def find_obstacle(entry: QuarantineEntry) -> str:
    """Return why an entry can't be replayed and what helps instead; empty when it can be tried."""
    if entry.kind == "erasure":
        return "forget again who was erased then, with `kiosk forget`"
    if entry.kind == "change":
        return "the records stand in the store; upload them again, and every engine reads them"
    if not entry.noun and entry.source == "ingest":
        return "an earlier release did not note the app; ingest the file again"
    if entry.noun not in (*_NOUNS, "interaction") or (
        entry.noun == "interaction" and entry.source == "store"
    ):
        return f"only users, products and interactions are replayed; make this {entry.noun or 'entry'} anew"
    if _read_payload(entry) is None:
        return "it was cut off or is no JSON; upload or ingest it again"
    return ""


class QuarantineReplayer:
    """Replays entries of one app; the intake applies them."""

    def __init__(self, stores: Stores, app_id: str, clock: Clock) -> None:
        self._stores = stores
        self._app_id = app_id
        self._clock = clock

    async def replay(
        self, entry: QuarantineEntry, *, overwrite: bool = False, damaged: bool = False
    ) -> ReplayResult:
        """Replay one entry.

        `overwrite` replaces or removes the stored record. `damaged` also replays entries with a wrong checksum.
        """
        if reason := find_obstacle(entry):
            return ReplayResult("skipped", reason)
        # A wrong checksum means that some byte changed: such a value must not come back unseen.
        if entry.is_damaged and not damaged:
            return ReplayResult("skipped", "its checksum is wrong: look at it, then replay it with --damaged")
        payload = _read_payload(entry)
        if entry.kind == "batch" and _are_ids(payload):
            return await self._remove(cast(Noun, entry.noun), payload, overwrite)
        records = payload if entry.kind == "batch" else [payload]
        body = orjson.dumps({"data": records})
        try:
            if entry.noun == "interaction":
                # An interaction without a time of its own happened about when it was quarantined, not today.
                return await self._append(body, payload, entry.at or self._clock.now_ms())
            accepted = parse_upload(
                cast(RecordNoun, entry.noun), body, now_ms=self._clock.now_ms(), is_detailed=True
            )
        # No verdict on the entry: the same replay may succeed later.
        except (Unavailable, TooMany):
            raise
        except KioskError as error:
            return ReplayResult("refused", _error_text(error))
        return await self._put(cast(Noun, entry.noun), accepted, overwrite)

    async def _append(self, body: bytes, interaction: Any, now_ms: int) -> ReplayResult:
        if not (interaction.get("user_id") or interaction.get("anonymous_id")):
            return ReplayResult("refused", "neither user_id nor anonymous_id")
        accepted = parse_upload("interaction", body, now_ms=now_ms, is_detailed=True)
        links = ((user_id, visitor_id, b"") for user_id, visitor_id in accepted.links)
        await self._stores.interactions.append(self._app_id, accepted.payload, (*accepted.recents, *links))
        return ReplayResult("replayed", is_removable=True)

    async def _put(self, noun: Noun, accepted: AcceptedRecords, overwrite: bool) -> ReplayResult:
        record_ids = [record.record_id for record in accepted.records]
        if kept := await self._find_existing(noun, record_ids, overwrite):
            return kept
        attribute_types: dict[str, str] = {}
        for _ in range(_MAX_TRIES):
            type_check = accepted.check_types(attribute_types)
            if type_check.messages:
                return ReplayResult("refused", type_check.messages[0])
            clashes = await self._submit(noun, "put", type_check)
            if isinstance(clashes, ReplayResult):
                return clashes
            # Another upload gave an attribute a type meanwhile: the record is checked against it and sent
            # again.
            attribute_types |= clashes
        raise Conflict(_TYPES_CHANGED)

    async def _remove(self, noun: Noun, record_ids: Sequence[str], overwrite: bool) -> ReplayResult:
        if kept := await self._find_existing(noun, record_ids, overwrite):
            return kept
        result = await self._accept(noun, "remove", orjson.dumps(list(record_ids)), len(record_ids), {})
        assert isinstance(result, ReplayResult), "a removal relies on no attribute types"
        return result

    async def _find_existing(
        self, noun: Noun, record_ids: Sequence[str], overwrite: bool
    ) -> ReplayResult | None:
        if overwrite:
            return None
        stored = await self._stores.records.get_many(self._app_id, noun, list(record_ids))
        count = sum(record is not None for record in stored)
        if not count:
            return None
        words = (
            f"{count} of {len(record_ids)} records stand in the store; --overwrite replaces or removes them"
        )
        return ReplayResult("skipped", words)

    async def _submit(self, noun: Noun, op: Op, type_check: TypeCheck) -> ReplayResult | dict[str, str]:
        return await self._accept(
            noun, op, type_check.payload, len(type_check.records), type_check.attribute_types
        )

    async def _accept(
        self, noun: Noun, op: Op, payload: bytes, total: int, attribute_types: Any
    ) -> ReplayResult | dict[str, str]:
        """Hand a batch to the intake and wait for its end; return the conflicting types when the intake refuses it."""
        task_id = new_task_id()
        took = await self._stores.intake.accept(
            self._app_id,
            noun,
            op,
            payload,
            task_id=task_id,
            total=total,
            now_ms=self._clock.now_ms(),
            attribute_types=attribute_types,
        )
        if took.conflicts:
            return dict(took.conflicts)
        return await self._wait_for_task(noun, task_id)

    async def _wait_for_task(self, noun: Noun, task_id: str) -> ReplayResult:
        # Monotonic: a wall clock that is set back would prolong the wait.
        until_s = self._clock.monotonic_s() + WAIT_S
        while self._clock.monotonic_s() < until_s:
            task = await self._stores.tasks.get(self._app_id, noun, task_id)
            if task is not None and task.status in ("finished", "failed"):
                if not task.failed:
                    return ReplayResult("replayed", is_removable=True)
                reason = task.errors[-1] if task.errors else "it could not be applied"
                return ReplayResult("refused", f"{reason} (the intake set it aside anew)", is_removable=True)
            await asyncio.sleep(_POLL_S)
        # The intake has it, and will apply it or quarantine it again.
        return ReplayResult("waiting", f"the intake has it as task {task_id}", is_removable=True)


def _read_payload(entry: QuarantineEntry) -> Any:
    """Parse the payload: an object, or an array of a batch; None for anything else."""
    try:
        value = orjson.loads(entry.payload)
    except orjson.JSONDecodeError:
        return None
    if entry.kind == "batch":
        return value if isinstance(value, list) and value else None
    return value if isinstance(value, dict) else None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _error_text(error: KioskError) -> str:
    messages = error.facts.get("messages", ()) if isinstance(error, Unprocessable) else ()
    return "; ".join(messages[:3]) or error.message
