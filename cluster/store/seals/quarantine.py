"""The quarantine: broken values are moved away, so that the rest can be served and an operator can inspect them."""

from __future__ import annotations

import structlog

from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.meter import Meter
from cluster.records.intake import Noun
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script

CAP = 10_000
"Approximate number of entries in a quarantine."
MOST_BYTES = 256 * 1024
"Bytes of a payload that are stored."
MOST_A_BATCH = 100
"Refused records of one batch that are stored."

LOST_ERASURE = "an erasure can't be read: forget again whoever was erased then"
"Reason of an entry of kind `erasure`; `kiosk doctor` looks for it."

MOST_NOTED = 10_000
"Unreadable records a process remembers, so that it logs each once."
UNREADABLE = "a newer release wrote it"
BROKEN = "checksum does not match"
BROKEN_BATCH = "the batch's checksum does not match"
_RECORD = Script.load("set_aside_record")
_FIELD = Script.load("set_aside_field")

_log = structlog.get_logger()


class Quarantine:
    """Moves broken values away. Never fails: if the move fails, the value still reads as absent and the next read
    tries again."""

    def __init__(self, server: RedisClient, clock: Clock, meter: Meter) -> None:
        self._server = server
        self._clock = clock
        self._meter = meter
        self._noted: set[str] = set()

    async def record(self, app_id: str, noun: Noun, record_id: str, sealed: bytes) -> None:
        """Move a record, and remove it from the id indexes."""
        self._note(app_id, "record", noun)
        await self._move(
            _RECORD,
            [
                keys.record(app_id, noun, record_id),
                keys.record_ids(app_id, noun),
                keys.product_type(app_id),
                keys.product_type_ids(app_id),
                keys.quarantine(app_id),
            ],
            [record_id, sealed, noun, BROKEN, self._clock.now_ms(), CAP, MOST_BYTES],
        )

    async def field(self, app_id: str, hash_key: str, quarantine_key: str, name: str, value: bytes) -> None:
        """Move one field of a hash of records (apps, keys, engines)."""
        noun = hash_key.rpartition(":")[2]
        self._note(app_id, "record", noun)
        args: list[str | int | bytes] = [name, value, noun, BROKEN, self._clock.now_ms(), CAP]
        await self._move(_FIELD, [hash_key, quarantine_key], args)

    def count_unreadable(self, app_id: str, noun: str, name: str) -> None:
        """Count a whole record that only a newer release can read, and log it once. It stays where it is."""
        self._meter.count("kiosk_store_unreadable", noun=noun)
        # Once for each record: a follower that reads it every second must not fill the log.
        if name not in self._noted and len(self._noted) < MOST_NOTED:
            self._noted.add(name)
            _log.warning("record_unreadable", app=app_id, noun=noun, reason=UNREADABLE)

    async def change(self, app_id: str, noun: str, offset: str, payload: bytes) -> None:
        """Copy a broken change; the log is never rewritten, followers skip the entry."""
        self._note(app_id, "change", noun)
        await self._add(app_id, "change", noun, offset, BROKEN, payload)

    async def _add(self, app_id: str, kind: str, noun: str, name: str, reason: str, payload: bytes) -> None:
        try:
            await self._server.execute_slow(
                "XADD",
                keys.quarantine(app_id),
                "MAXLEN",
                "~",
                CAP,
                "*",
                "kind",
                kind,
                "noun",
                noun,
                "id",
                name,
                "reason",
                reason,
                "at",
                self._clock.now_ms(),
                "payload",
                payload[:MOST_BYTES],
            )
        except KioskError as error:
            _log.warning("quarantine_failed", app=app_id, reason=error.message)

    async def erasure(self, app_id: str, noun: str, offset: str, *, is_repaired: bool) -> None:
        """Record a damaged erasure in the change log; if its second copy is whole, it is carried out."""
        reason = "damaged, read from its second copy" if is_repaired else LOST_ERASURE
        self._meter.count("kiosk_store_quarantined", kind="erasure")
        _log.error("erasure_damaged", app=app_id, noun=noun, offset=offset, reason=reason)
        if is_repaired:
            return
        entries = await self._server.execute_slow(
            "XREVRANGE", keys.quarantine(app_id), "+", "-", "COUNT", 100
        )
        if any(offset.encode() in flat and b"erasure" in flat for _, flat in entries):
            return  # every follower of the log reads this entry
        await self._add(app_id, "erasure", noun, offset, reason, b"")

    def _note(self, app_id: str, kind: str, noun: str) -> None:
        self._meter.count("kiosk_store_quarantined", kind=kind)
        _log.error("record_quarantined", app=app_id, kind=kind, noun=noun, reason=BROKEN)

    async def _move(self, script: Script, key_names: list[str], args: list[str | int | bytes]) -> None:
        try:
            await self._server.run(script, key_names, args)
        except KioskError as error:
            _log.warning("quarantine_failed", reason=error.message)
