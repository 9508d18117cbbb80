"""The change logs: read after an offset, trimmed after compaction and after the slowest live follower."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from cluster.records.intake import Noun, Op
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.seal import salt_from_key, unseal


@dataclass(frozen=True, slots=True)
class ChangeLogEntry:
    """One entry of a change log."""

    noun: Noun
    offset: str
    "Stream entry id `<ms>-<n>`; offsets of one noun grow."
    op: Op
    payload: bytes
    """put user/product: JSON array of records. remove: JSON array of ids. put interaction: JSON array of
    normalised interactions. erase interaction: JSON array of prefixed user ids (`u:...`, `a:...`)."""
    vectors: bytes = b""
    "Only product puts: float16 [n, d] little endian, one row a record, in payload order."
    embedder: str = ""
    "Version of the embedder that made `vectors`."
    is_lost: bool = False
    "An `erase` or `remove` whose two copies are both damaged: its ids are lost."


@dataclass(frozen=True, slots=True)
class Follower:
    """A process that follows the change log of an app."""

    name: str
    at_ms: int
    "When the follower last recorded its offsets."
    offsets: Mapping[Noun, str]
    digest: Mapping[str, str] = field(default_factory=dict)
    """Digests of its state at these offsets: `records`, and `lists` of a state that was just loaded with the snapshot
    `version`. Empty for followers that answer no queries."""


FOLLOWING_MS = 60_000
"A follower that was silent for longer has ended."


def log_lag_ms(last: str, offset: str) -> int:
    """Return how much older the entry at an offset is than the last one; 0 in an empty log."""
    # A stream id begins with the time of Redis in milliseconds.
    newest, reached = (int(text.partition("-")[0] or 0) for text in (last, offset))
    return max(0, newest - reached) if newest else 0


def follower_lag_ms(last: str, offset: str, at_ms: int) -> int:
    """Return the lag of a follower; of one that had read nothing, at least how far its record is from the last entry.

    Offset 0 has no time: every app begins with followers there.
    """
    if offset.partition("-")[0] == "0":
        newest = int(last.partition("-")[0] or 0)
        return abs(newest - at_ms) if newest else 0
    return log_lag_ms(last, offset)


def find_differing(followers: Iterable[Follower], now_ms: int) -> list[str]:
    """Return the names of live followers whose state differs from that of another one at the same offsets."""
    digests: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    for follower in followers:
        # A replica that ended leaves its record; its old digest says nothing.
        if now_ms - follower.at_ms >= FOLLOWING_MS:
            continue
        digest = follower.digest
        offsets = tuple(sorted(follower.offsets.items()))
        for kind, at in (("records", offsets), ("lists", (*offsets, digest.get("version", "")))):
            if digest.get(kind):
                digests.setdefault((kind, at), {}).setdefault(digest[kind], []).append(follower.name)
    differing = [
        names
        for names_by_digest in digests.values()
        if len(names_by_digest) > 1
        for names in names_by_digest.values()
    ]
    return sorted({name for names in differing for name in names})


LIVE_MS = 10 * 60 * 1000
"A follower that recorded its offsets within this time prevents trimming behind them."
FORGOTTEN_MS = 24 * 3600 * 1000

MOST_BYTES = 16 * 1024 * 1024
"Approximate bytes of one read of one log; a single change is always returned whole."

_READ = Script.load("read_changes")
_SETTLE = Script.load("settle")
_LAST = Script.load("last_offset")
_OFFSET = re.compile(rb"\d+(-\d+)?")
_NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")


class ChangeLog:
    """The ordered stream of writes, one for each noun."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._quarantine = quarantine

    async def read(
        self, app_id: str, after: Mapping[Noun, str], *, count: int, block_ms: int
    ) -> list[ChangeLogEntry]:
        """Return changes after the offsets (`"0"` = from the start), oldest first per noun, up to `count` each.

        Waits up to `block_ms` for the first; 0 does not wait. A damaged change is returned as an empty one
        (`put` of `[]`), so that a follower can skip it.
        """
        nouns = list(after)
        changes: list[ChangeLogEntry] = []
        if nouns:
            names = [keys.change_log(app_id, noun) for noun in nouns]
            logs = await self._server.run(_READ, names, [count, MOST_BYTES, *after.values()], is_bulk=True)
            changes = [
                await self._open(app_id, noun, *entry)
                for noun, log in zip(nouns, logs, strict=True)
                for entry in log
            ]
            if not changes and block_ms > 0:
                # Only if nothing is there: a blocking read needs a connection for itself (decision 17).
                changes = await self._wait(app_id, after, block_ms)
        return changes

    async def last(self, app_id: str, noun: Noun) -> str:
        """Return the newest offset, `"0"` when the log is empty."""
        return str(await self._server.run(_LAST, [keys.change_log(app_id, noun)], []), "ascii")

    async def first(self, app_id: str, noun: Noun) -> str:
        """Return the offset after which the log is complete; `"0"` when it was never trimmed. A follower at an
        older offset has a gap and must load compacted segments."""
        offset: bytes | None = await self._server.execute_slow("HGET", keys.trimmed(app_id), noun)
        return text_of(offset) if offset is not None and _OFFSET.fullmatch(offset) else "0"

    async def record_follower(self, app_id: str, follower: Follower) -> None:
        """Record a follower; for 10 minutes no entry after its offsets is trimmed."""
        value: dict[str, object] = {"at": follower.at_ms}
        value.update(follower.offsets.items())
        if follower.digest:
            value["digest"] = follower.digest
        await self._server.execute_slow("HSET", keys.follower(app_id), follower.name, orjson.dumps(value))

    async def list_followers(self, app_id: str) -> list[Follower]:
        """Return the followers of an app by name, those that ended too; damaged entries are left out."""
        flat = await self._server.execute_slow("HGETALL", keys.follower(app_id))
        followers = []
        for name, value in split_pairs(flat):
            try:
                stored = orjson.loads(value)
                offsets = {noun: str(stored[noun]) for noun in _NOUNS if noun in stored}
                digest = {str(kind): str(text) for kind, text in stored.get("digest", {}).items()}
                followers.append(Follower(text_of(name), int(stored["at"]), offsets, digest))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return sorted(followers, key=lambda follower: follower.name)

    async def compacted_offsets(self, app_id: str) -> dict[Noun, str]:
        return await self._offsets(keys.compacted_offset(app_id))

    async def request_compaction(self, app_id: str, offsets: Mapping[Noun, str]) -> None:
        """Request that everything up to these offsets is compacted soon, without waiting for more entries."""
        if offsets:
            flat = [part for noun, offset in offsets.items() for part in (noun, offset)]
            await self._server.execute_slow("HSET", keys.compaction_request(app_id), *flat)

    async def requested_compactions(self, app_id: str) -> dict[Noun, str]:
        return await self._offsets(keys.compaction_request(app_id))

    async def _offsets(self, key: str) -> dict[Noun, str]:
        flat = await self._server.execute_slow("HGETALL", key)
        named = dict(split_pairs(flat))
        return {
            noun: text_of(named[noun.encode()])
            for noun in _NOUNS
            if _OFFSET.fullmatch(named.get(noun.encode(), b""))
        }

    async def compact(self, app_id: str, noun: Noun, offset: str, now_ms: int) -> int:
        """Record that segments contain all changes up to `offset`; trim entries that no live follower needs.

        Returns the number of trimmed entries. An older offset than the recorded one only trims.
        """
        names = [
            keys.change_log(app_id, noun),
            keys.compacted_offset(app_id),
            keys.trimmed(app_id),
            keys.follower(app_id),
        ]
        return int(await self._server.run(_SETTLE, names, [noun, offset, now_ms, LIVE_MS, FORGOTTEN_MS]))

    async def _wait(self, app_id: str, after: Mapping[Noun, str], block_ms: int) -> list[ChangeLogEntry]:
        """Wait for the first change of each log; the next read returns the changes after it."""
        noun_of = {keys.change_log(app_id, noun): noun for noun in after}
        streams = ("STREAMS", *noun_of, *after.values())
        # One entry: its size is unknown, and the next read has a bound on bytes.
        answer = await self._server.wait("XREAD", "COUNT", 1, "BLOCK", block_ms, *streams, block_ms=block_ms)
        return [
            await self._open(app_id, noun_of[text_of(name)], *entry)
            for name, log in answer or ()
            for entry in log
        ]

    async def _open(self, app_id: str, noun: Noun, at: bytes, flat: list[bytes]) -> ChangeLogEntry:
        """Read an entry; a broken one becomes an empty change, so that followers can skip it."""
        offset = text_of(at)
        fields = dict(split_pairs(flat))
        op = fields.get(b"op", b"")
        salt = salt_from_key(noun)
        payload = unseal(fields.get(b"payload", b""), salt)
        if b"copy" in fields and (payload is None or op not in (b"remove", b"erase")):
            # an erasure must survive a damaged entry, so it is written twice
            payload = unseal(fields[b"copy"], salt) if payload is None else payload
            op = b"erase" if noun == "interaction" else b"remove"
            await self._quarantine.erasure(app_id, noun, offset, is_repaired=payload is not None)
            if payload is None:
                return ChangeLogEntry(noun, offset, cast(Op, text_of(op)), b"[]", is_lost=True)
        vectors = unseal(fields[b"vectors"], salt) if b"vectors" in fields else b""
        if payload is not None and vectors is not None and op not in (b"put", b"remove", b"erase", b""):
            self._quarantine.count_unreadable(app_id, f"change-{noun}", f"{app_id}\0{noun}\0{text_of(op)}")
            return ChangeLogEntry(noun, offset, "put", b"[]")
        if payload is None or vectors is None or not op:
            await self._quarantine.change(app_id, noun, offset, fields.get(b"payload", b""))
            return ChangeLogEntry(noun, offset, "put", b"[]")
        embedder = text_of(fields.get(b"embedder", b""))
        return ChangeLogEntry(noun, offset, cast(Op, text_of(op)), payload, vectors, embedder)
