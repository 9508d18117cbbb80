"""Reading the entries that `Quarantine` and the intake wrote, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.intake import QuarantineEntry
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.seals.quarantine import BROKEN, BROKEN_BATCH
from cluster.store.seals.seal import WIDTH

_BATCH_SIZE = 100
"Entries of one read: each may hold 256 KiB."
MOST_BYTES = 64 << 20
"Bytes of all payloads of one read; after an operator removes these entries, the next ones follow."
_DAMAGED = {BROKEN, BROKEN_BATCH}


class QuarantineStore:
    """Damaged values, and uploads that could not be applied."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read(self, app_id: str) -> list[QuarantineEntry]:
        """Return the newest entries of an app, or without an id those of no app, up to `MOST_BYTES`."""
        entries: list[QuarantineEntry] = []
        for key in _streams(app_id):
            end = "+"
            room = MOST_BYTES
            while room > 0:
                batch = await self._server.execute_slow("XREVRANGE", key, end, "-", "COUNT", _BATCH_SIZE)
                entries += [_entry(text_of(entry_id), flat, app_id) for entry_id, flat in batch]
                if len(batch) < _BATCH_SIZE:
                    break
                end = "(" + text_of(batch[-1][0])
                room -= sum(len(entry.payload) for entry in entries[-_BATCH_SIZE:])
        return entries

    async def remove(self, app_id: str, entry_ids: Sequence[str]) -> None:
        """Delete entries for good."""
        for key in _streams(app_id):
            await self._server.execute_slow("XDEL", key, *entry_ids)


def _streams(app_id: str) -> list[str]:
    return [keys.quarantine(app_id)] if app_id else [keys.access_quarantine(), keys.account_quarantine()]


def _entry(entry_id: str, flat: list[bytes], app_id: str) -> QuarantineEntry:
    fields = {name_of(name): value for name, value in split_pairs(flat)}
    kind, noun, name, reason = (name_of(fields.get(name, b"")) for name in ("kind", "noun", "id", "reason"))
    at = fields.get("at", b"")
    payload = fields.get("payload", b"")
    is_damaged = reason in _DAMAGED
    if is_damaged and payload[:1] not in (b"{", b"["):
        payload = payload[WIDTH:]  # its checksum
    return QuarantineEntry(
        entry_id=entry_id,
        source="store",
        app_id=app_id,
        kind=kind,
        noun=noun,
        name=name,
        reason=reason,
        at=int(at) if at.isdigit() else int(entry_id.partition("-")[0]),
        payload=payload,
        is_damaged=is_damaged,
    )
