"""The chain of the audit log: each row carries a hash over itself and the chain of the row before.

    chain of row n = SHA-256(chain of row n-1, line break, JSON of row n without id and chain)

A row that was changed, removed or inserted breaks the chain behind it. Whoever can write all of Redis can compute a
whole new chain; so compare the last chain with one that was noted elsewhere.
"""

from __future__ import annotations

import hashlib

import orjson

from cluster.records.administration import AuditRow
from cluster.store.ports.administration import START, AuditVerdict


def row_json(row: AuditRow) -> bytes:
    """Return a row as it is stored and hashed: sorted JSON without id and chain."""
    return orjson.dumps(row.model_dump(mode="json", exclude={"row_id", "chain"}), option=orjson.OPT_SORT_KEYS)


def next_chain(before: str, stored: bytes) -> str:
    """Return the chain of a row, from the chain before it and its stored JSON."""
    return hashlib.sha256(before.encode() + b"\n" + stored).hexdigest()


class ChainCheck:
    """Follows the chain over rows in their order."""

    def __init__(self) -> None:
        self.rows = 0
        self._first_id = self._last_id = ""
        self._chain = START

    def fits(self, row_id: str, stored: bytes, chain: str) -> bool:
        """Take the next row; return False if it does not continue the chain."""
        if next_chain(self._chain, stored) != chain:
            return False
        self.rows += 1
        self._first_id = self._first_id or row_id
        self._last_id, self._chain = row_id, chain
        return True

    def verdict(self, broken_at: str = "", reason: str = "") -> AuditVerdict:
        """Return the verdict on the rows so far."""
        return AuditVerdict(self.rows, self._first_id, self._last_id, self._chain, broken_at, reason)
