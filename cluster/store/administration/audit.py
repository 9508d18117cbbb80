"""The audit log: a stream of the newest rows, and compressed blocks of the older ones.

    append   ... 48,998  48,999  49,000   ->   stream
    archive  the oldest 1,000 rows become one block; those of the block before leave the stream

So the stream still holds every row of the last block, and a backup that reads both keys one after the other has
every row. Nothing else removes a row.

A change is noted as begun before it is performed. The script that writes the row of its end removes the note.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from cluster.errors import Fault, Unavailable
from cluster.ids import new_request_id
from cluster.records.administration import AuditRow
from cluster.store import keys
from cluster.store.administration.audit_chain import (
    ACCEPT,
    RESTORE,
    START,
    AuditVerdict,
    ChainCheck,
    next_chain,
    row_json,
    row_order,
)
from cluster.store.administration.audit_proof import AuditProof, SealedRow
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.client.script import Script


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows of the audit log to read; an empty value selects all."""

    app_id: str = ""
    operation: str = ""
    "A name, or an area: `keys` selects `keys.rotate` too."
    username: str = ""
    since: int = 0
    until: int = 0
    "Milliseconds since 1970, both inclusive."

    def matches(self, row: AuditRow) -> bool:
        """Return whether a row is selected."""
        named = self.operation in ("", row.operation, row.operation.partition(".")[0])
        app = self.app_id in ("", row.app_id)
        person = self.username in ("", row.username)
        return named and app and person and row.at >= self.since and (not self.until or row.at <= self.until)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Rows of the audit log, the newest first."""

    rows: list[AuditRow]
    next: str
    "Cursor of the older rows; empty: there are none."


LIVE_ROWS = 50_000
"Rows in the stream before the oldest are archived; about 600 bytes each."
BLOCK_ROWS = 1_000
MOST_SCANNED = 5_000
"Rows that one page reads at most; a page behind a narrow filter can be empty and name the next one."
_PAGE = 500
_NOT_BEGUN = 2
_TRIES = 30

_log = structlog.get_logger()
_APPEND = Script.load("append_audit")
_ARCHIVE = Script.load("archive_audit")
_LAST_OFFSET = Script.load("last_offset")

StoredRow = tuple[str, bytes, str, str]
"Id, JSON, chain, proof."


class AuditLog:
    """The log of all changes by administrators. Rows are only ever added; nothing changes or removes one."""

    def __init__(
        self, server: RedisClient, *, live_rows: int = LIVE_ROWS, block_rows: int = BLOCK_ROWS
    ) -> None:
        self._server = server
        self._live_rows = live_rows
        self._block_rows = block_rows
        self._last: tuple[str, str] = ("", START)
        self._turn: asyncio.Lock | None = None
        self._proof: AuditProof | None = None
        self._is_broken = False

    def protect(self, proof: AuditProof) -> None:
        """Prove rows from now on, and compare what is sealed."""
        self._proof = proof

    async def has_proof(self) -> bool:
        """Return whether the newest row carries a proof of this installation."""
        entries = await self._server.execute_slow("XREVRANGE", keys.audit_row(), "+", "-", "COUNT", 1)
        _, _, chain, proof = _entry(entries[0]) if entries else ("", b"", "", "")
        return self._proof is not None and self._proof.is_genuine(chain, proof)

    async def begin(self, row: AuditRow) -> str:
        """Note a change that is about to be performed, and return an id for the row of its end."""
        begun_id = new_request_id()
        await self._server.execute_slow("HSET", keys.audit_begun(), begun_id, row_json(row))
        return begun_id

    async def begun(self) -> list[tuple[str, AuditRow]]:
        """Return the changes that were begun and have no end yet, with their ids."""
        flat = await self._server.execute_slow("HGETALL", keys.audit_begun())
        rows = ((name, _parse("", stored, "", "")) for name, stored in split_pairs(flat))
        return [(text_of(name), row) for name, row in rows if row is not None]

    async def append(self, row: AuditRow, *, begun_id: str = "", only_begun: bool = False) -> AuditRow:
        """Add a row and return it with its id and its chain; it ends the change that was begun under `begun_id`.

        With `only_begun` nothing is added if that change has ended already.

        Errors:
            Unavailable: too many concurrent writers
        """
        if self._turn is None:
            self._turn = asyncio.Lock()
        stored = row_json(row)
        # Each append names the row before it: concurrent ones of this process would only refuse each other.
        async with self._turn:
            for _ in range(_TRIES):
                last_id, before = self._last
                chain = next_chain(before, stored)
                signed = self._proof.sign(chain) if self._proof else ""
                done, stored_id, more = await self._server.run(
                    _APPEND,
                    [keys.audit_row(), keys.audit_begun()],
                    [last_id, stored, chain, begun_id, int(only_begun), signed],
                )
                if done == _NOT_BEGUN:
                    return row
                row_id = text_of(stored_id)
                if done or (more and text_of(more) == chain):
                    # The second: the reply to the first attempt was lost, and the client sent it again.
                    self._last = (row_id, chain)
                    if done and int(more) > self._live_rows:
                        await self._archive()
                    made = row.model_copy(update={"row_id": row_id, "chain": chain, "proof": signed})
                    if self._proof:
                        await self._seal(self._proof, made, SealedRow(last_id, before))
                        self._proof.report(made.model_dump(mode="json"))
                    return made
                # Another process appended: take that row as the one before, and try again.
                self._last = (row_id, text_of(more) if row_id else START)
        raise Unavailable("the audit log is being written by many at once", retry_after_s=1)

    async def page(self, audit_filter: AuditFilter, *, before: str = "", limit: int = 100) -> AuditPage:
        """Return the newest rows, those before a cursor. A page can be short or empty and still name a next one."""
        rows: list[AuditRow] = []
        scanned = 0
        last_id = ""
        async for row_id, stored, chain, proof in self._newest_first(before):
            if scanned >= MOST_SCANNED or len(rows) >= limit:
                return AuditPage(rows, last_id)
            scanned += 1
            last_id = row_id
            row = _parse(row_id, stored, chain, proof)
            if row is None:
                continue
            # Rows come in the order of Redis, their times from several machines: a minute covers the skew.
            if row.at < audit_filter.since - 60_000:
                break
            if audit_filter.matches(row):
                rows.append(row)
        return AuditPage(rows, "")

    async def rows(self) -> AsyncIterator[AuditRow]:
        """Yield all rows, the oldest first."""
        async for stored in self._oldest_first():
            row = _parse(*stored)
            if row is not None:
                yield row

    async def verify(self, since_chain: str = "") -> AuditVerdict:
        """Check the chain of all rows, their proofs, and the sealed row.

        A row must have `since_chain`, if it is given.

        Errors:
            Fault: the file of the sealed row was changed
        """
        # First: rows that come meanwhile are checked too, and are no reason for an alarm.
        sealed = await asyncio.to_thread(self._proof.sealed) if self._proof else None
        newest = text_of(await self._server.run(_LAST_OFFSET, [keys.audit_row()], []))
        check = ChainCheck(self._proof, sealed, since_chain)
        async for row in self._oldest_first():
            check.add(*row)
        return check.verdict(newest)

    async def _seal(self, proof: AuditProof, row: AuditRow, before: SealedRow) -> None:
        """Seal a row that this process appended, if the log leads from the sealed row to it.

        Otherwise the older seal stays, so that a removed row is missed for ever and not only until the next append.
        """
        try:
            sealed = await asyncio.to_thread(proof.sealed)
        except Fault as error:
            _log.error("audit_seal_damaged", reason=error.message)
            return
        is_accepted = row.operation in (ACCEPT, RESTORE) and row.outcome == "done"
        # Nothing was appended in between, or an operator accepted what is missing.
        if sealed is None or sealed == before or is_accepted:
            self._is_broken = False
        # Once broken, each append would read the whole log again for the same result.
        elif not self._is_broken and row_order(sealed.row_id) < row_order(row.row_id):
            self._is_broken = not await self._leads(sealed, row)
            if self._is_broken:
                _log.error("audit_log_broken", sealed_row=sealed.row_id)
        if not self._is_broken:
            await asyncio.to_thread(proof.seal, row.row_id, row.chain)

    async def _leads(self, sealed: SealedRow, row: AuditRow) -> bool:
        """Return whether the chain leads from the sealed row to a newer one."""
        start = sealed.row_id
        chain = ""
        while entries := await self._server.execute_slow(
            "XRANGE", keys.audit_row(), start, row.row_id, "COUNT", _PAGE
        ):
            for row_id, stored, stored_chain, _ in map(_entry, entries):
                is_linked = next_chain(chain, stored) == stored_chain if chain else row_id == sealed.row_id
                if not is_linked or (not chain and stored_chain != sealed.chain):
                    return (await self.verify()).is_whole
                chain = stored_chain
            start = "(" + text_of(entries[-1][0])
        # The sealed row may be archived, or a row of the log accepts that it is missed.
        return chain == row.chain or (await self.verify()).is_whole

    async def _archive(self) -> None:
        """Move the oldest rows that are not archived yet into a block."""
        blocks = int(await self._server.execute_slow("LLEN", keys.audit_archive()))
        archived = await self._last_archived(blocks)
        start = f"({archived}" if archived else "-"
        entries = await self._server.execute_slow(
            "XRANGE", keys.audit_row(), start, "+", "COUNT", self._block_rows
        )
        if len(entries) < self._block_rows:
            return
        names = [keys.audit_row(), keys.audit_archive()]
        first = text_of(entries[0][0])
        # With the number of blocks: if another process archived meanwhile, the script writes nothing.
        await self._server.run(_ARCHIVE, names, [blocks, first, pack_rows(map(_entry, entries))])

    async def _last_archived(self, blocks: int) -> str:
        if not blocks:
            return ""
        return (await self._read_block(blocks - 1))[-1][0]

    async def _read_block(self, number: int) -> list[StoredRow]:
        raw = await self._server.execute_slow("LRANGE", keys.audit_archive(), number, number)
        return unpack_rows(raw[0]) if raw else [(f"block {number}", b"", "", "")]

    async def _oldest_first(self) -> AsyncIterator[StoredRow]:
        archived = ""
        number = 0
        # The length is read anew: a block that is archived meanwhile takes its rows out of the stream.
        while number < int(await self._server.execute_slow("LLEN", keys.audit_archive())):
            for row in await self._read_block(number):
                yield row
                archived = row[0]
            number += 1
        # A damaged block has no id with "-": the stream is then read from its beginning.
        start = f"({archived}" if archived and "-" in archived else "-"
        while entries := await self._server.execute_slow(
            "XRANGE", keys.audit_row(), start, "+", "COUNT", _PAGE
        ):
            for entry in entries:
                yield _entry(entry)
            start = "(" + text_of(entries[-1][0])

    async def _newest_first(self, before: str) -> AsyncIterator[StoredRow]:
        start = f"({before}" if before else "+"
        oldest = before
        while entries := await self._server.execute_slow(
            "XREVRANGE", keys.audit_row(), start, "-", "COUNT", _PAGE
        ):
            for entry in entries:
                yield _entry(entry)
            oldest = text_of(entries[-1][0])
            start = "(" + oldest
        # The last block is still in the stream too, so its rows are skipped by their id.
        for number in reversed(range(int(await self._server.execute_slow("LLEN", keys.audit_archive())))):
            for row in reversed(await self._read_block(number)):
                if not oldest or row_order(row[0]) < row_order(oldest):
                    yield row


def pack_rows(rows: Iterable[StoredRow]) -> bytes:
    """Return rows as one compressed block."""
    lines = [
        # in one text, so that an earlier release reads the block
        orjson.dumps([row_id, stored.decode(), f"{chain}.{proof}" if proof else chain])
        for row_id, stored, chain, proof in rows
    ]
    return zlib.compress(b"\n".join(lines), 6)


def unpack_rows(block: bytes) -> list[StoredRow]:
    """Return the rows of a block; a damaged one is a single row that fits no chain."""
    try:
        lines = [orjson.loads(line) for line in zlib.decompress(block).split(b"\n")]
        parts = [(row_id, stored.encode(), *chain.partition(".")) for row_id, stored, chain in lines]
        return [(row_id, stored, chain, proof) for row_id, stored, chain, _, proof in parts]
    except (zlib.error, ValueError):
        return [("damaged block", b"", "", "")]


def _entry(entry: Any) -> StoredRow:
    fields = dict(split_pairs(entry[1]))
    chain, proof = (fields.get(name, b"").decode("ascii", "replace") for name in (b"chain", b"proof"))
    return text_of(entry[0]), fields.get(b"row", b""), chain, proof


def _parse(row_id: str, stored: bytes, chain: str, proof: str) -> AuditRow | None:
    try:
        return AuditRow.model_validate(
            {**orjson.loads(stored), "row_id": row_id, "chain": chain, "proof": proof}
        )
    except ValueError:
        return None
