"""The chain of the audit log, and its proofs: each row carries a hash over itself and the chain of the row before.

    chain of row n = SHA-256(chain of row n-1, line break, JSON of row n without id, chain and proof)
    proof of row n = HMAC-SHA-256(key derived from the master key, chain of row n)

A row that was changed, removed or inserted breaks the chain behind it. Somebody who can write all of Redis can compute
a whole new chain, but no proof. A proof covers every row before its own. So rows of earlier releases, and rows under a
lost master key, need none once a proven row follows.

Rows at the end may be removed with their proofs. A file outside Redis finds that: see `audit_proof`.

A row that accepts faults is itself a target. It must fit its place in the chain, and it names a digest of the faults
that it accepts. It excuses a missing sealed row only if it is not older than that row. So it covers no later change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from cluster.records.administration import AuditRow
from cluster.store.administration.audit_proof import AuditProof, SealedRow

START = "0" * 64
"Replaces the chain before the first row."


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Result of a check of the audit log."""

    rows: int
    "Rows whose chain holds, counted from the first."
    first_id: str = ""
    last_id: str = ""
    chain: str = START
    "Of the last row that holds; note it elsewhere to prove later that nothing before it changed."
    broken_at: str = ""
    "Id of the first row that does not fit; empty: the log is whole."
    reason: str = ""
    proven_from: str = ""
    "Id of the first row with a proof under the master key; it and all rows before it are proven."
    since_rows: int = 0
    "Rows after the row with the given chain."
    faults: str = ""
    "Digest of the rows that do not fit, accepted ones included; empty: every row fits."

    @property
    def is_whole(self) -> bool:
        """Return whether every row fits."""
        return not self.reason

    def to_dict(self) -> dict[str, Any]:
        return {"whole": self.is_whole, **asdict(self)}


ACCEPT = "audit.accept"
"Operation of a row by which an operator accepts the faults whose digest the row names."
RESTORE = "backup.restore"
"Operation of a row after a restore: the log may be older than the sealed row."
RESEAL = "master_key.reseal"
"Operation of a row at the change of the master key, after a check of the log under both keys."
CLOCK_SKEW_MS = 300_000
"Largest difference between the clocks of Redis and of the machine that accepts a missing row."


def row_json(row: AuditRow) -> bytes:
    """Return a row as it is stored and hashed: sorted JSON without id, chain and proof."""
    plain = row.model_dump(mode="json", exclude={"row_id", "chain", "proof"})
    return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)


def next_chain(before: str, stored: bytes) -> str:
    """Return the chain of a row, from the chain before it and its stored JSON."""
    return hashlib.sha256(before.encode() + b"\n" + stored).hexdigest()


class ChainCheck:
    """Follows the chain over rows in their order, to the end: a later row may accept what was wrong before it."""

    def __init__(
        self, proof: AuditProof | None = None, sealed: SealedRow | None = None, since: str = ""
    ) -> None:
        """`sealed` is a row that must be in the log; `since` is a chain that must be."""
        self.rows = 0
        self.since_rows = -1
        self._proof = proof
        self._sealed = sealed
        self._since = since
        self._first_id = self._last_id = self._proven_from = ""
        self._chain = START
        self._fault: tuple[int, str, str] | None = None
        self._unproven: tuple[int, str, str] | None = None
        self._faults = ""

    def add(self, row_id: str, stored: bytes, chain: str, proof: str = "") -> None:
        """Take the next row."""
        # chain_n = SHA-256(chain_{n-1} + line break + row_n)
        fits = next_chain(self._chain, stored) == chain
        if not fits:
            self._note(row_id, "the row does not continue the chain of the row before")
            # Ids and both chains too: acceptance covers this fault only, not another one at the same row.
            place = f"{self._faults} {row_id} {self._chain} {chain}\n"
            self._faults = hashlib.sha256(place.encode() + stored).hexdigest()
        is_proven = self._proof is not None and self._proof.is_genuine(chain, proof)
        # The proof covers the chain alone: a row that does not fit may carry chain and proof of another row.
        done = _read_done(stored) if fits and is_proven else {}
        operation = done.get("operation")
        if operation in (ACCEPT, RESEAL):
            # An accepting row is proven and continues the chain, so it vouches for unproven rows before it.
            self._unproven = None
            if _accepted_faults(done) == self._faults:
                self._fault = None
        if is_proven:
            self._proven_from = self._proven_from or row_id
        # Rows before the first proof are of earlier releases; after it, each writer has the key.
        elif self._proven_from and self._unproven is None:
            reason = "the row was written without the key of the audit log, by an earlier release or by somebody else"
            self._unproven = (self.rows, row_id, reason)
        sealed = self._sealed
        if sealed is not None:
            # The time is in the chain, the id is not: an older row under a new id accepts nothing.
            sealed_ms = row_order(sealed.row_id)[0]
            is_later = (
                row_order(row_id) > row_order(sealed.row_id)
                and done.get("at", 0) >= sealed_ms - CLOCK_SKEW_MS
            )
            is_accepted = operation in (ACCEPT, RESTORE) and is_later
            if is_accepted or (row_id, chain) == (sealed.row_id, sealed.chain):
                self._sealed = None
        self.rows += 1
        self.since_rows += self.since_rows >= 0
        if chain == self._since:
            self.since_rows = 0
        self._first_id = self._first_id or row_id
        self._last_id = row_id
        self._chain = chain

    def verdict(self, newest: str = "") -> AuditVerdict:
        """Return the verdict on all rows; `newest` is the id of a row that must be among them."""
        # Redis remembers the last id that it gave, also after the row was removed.
        if row_order(self._last_id) < row_order(newest):
            self._note(newest, "the newest rows were removed")
        # Tuples order by the number of rows before the fault: the earliest one is reported.
        fault = min(filter(None, (self._fault, self._unproven)), default=None)
        if fault is None and self._sealed is not None:
            reason = "the sealed row is not in the log: rows were removed, or the log was written anew"
            fault = (self.rows, self._sealed.row_id, reason)
        if fault is None and self._since and self.since_rows < 0:
            fault = (self.rows, self._last_id or "0-0", "no row has the given chain")
        rows, broken_at, reason = fault or (self.rows, "", "")
        return AuditVerdict(
            rows,
            self._first_id,
            self._last_id,
            self._chain,
            broken_at,
            reason,
            proven_from=self._proven_from,
            since_rows=max(0, self.since_rows),
            faults=self._faults,
        )

    def _note(self, row_id: str, reason: str) -> None:
        self._fault = self._fault or (self.rows, row_id, reason)


def row_order(row_id: str) -> tuple[int, int]:
    """Return an id of a row as numbers, by which ids are ordered."""
    left, _, right = row_id.partition("-")
    return (int(left), int(right or 0)) if left.isdigit() else (0, 0)


def _read_done(stored: bytes) -> dict[str, Any]:
    """Return a row about something that was done; empty for any other row."""
    try:
        row = orjson.loads(stored)
        return row if row["outcome"] == "done" else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _accepted_faults(row: Mapping[str, Any]) -> str | None:
    """Return the digest of the faults that a row accepts: what its verdict on the rows before it names."""
    verdict = row.get("after")
    if row["operation"] == RESEAL and isinstance(verdict, dict):
        verdict = verdict.get("audit")
        if not (isinstance(verdict, dict) and verdict.get("whole")):
            return None
    return str(verdict.get("faults", "")) if isinstance(verdict, dict) else None
