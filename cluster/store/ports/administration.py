"""The protocols of personal tokens and of the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from cluster.records.administration import AdminToken, AuditRow, Invitation
from cluster.store.audit_proof import AuditProof

START = "0" * 64
"Replaces the chain before the first row."


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
        app, person = self.app_id in ("", row.app_id), self.username in ("", row.username)
        return named and app and person and row.at >= self.since and (not self.until or row.at <= self.until)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Rows of the audit log, the newest first."""

    rows: list[AuditRow]
    next: str
    "Cursor of the older rows; empty: there are none."


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
        """Return the verdict for JSON."""
        return {"whole": self.is_whole, **asdict(self)}


class AdminTokenStore(Protocol):
    """Personal tokens of the administration, under their SHA-256."""

    async def add(self, token: AdminToken, *, now_ms: int) -> None:
        """Store a token; those that have expired are removed."""
        ...

    async def find(self, sha256: str) -> AdminToken | None:
        """Return the token with a hash, expired or not."""
        ...

    async def all(self) -> list[AdminToken]:
        """Return all tokens, the oldest first."""
        ...

    async def of_user(self, user_id: str) -> list[AdminToken]:
        """Return the tokens of an account, the oldest first."""
        ...

    async def remove(self, token_id: str) -> bool:
        """Remove a token; return False when there was none."""
        ...

    async def remove_user(self, user_id: str) -> int:
        """Remove all tokens of an account; return their number."""
        ...


class InvitationStore(Protocol):
    """Open invitations, under the SHA-256 of the tokens of their links."""

    async def add(self, invitation: Invitation, *, now_ms: int) -> None:
        """Store an invitation; those that have expired are removed."""
        ...

    async def find(self, sha256: str) -> Invitation | None:
        """Return the invitation with a hash, expired or not."""
        ...

    async def all(self) -> list[Invitation]:
        """Return all invitations, the oldest first."""
        ...

    async def remove(self, sha256: str) -> bool:
        """Remove an invitation; of concurrent callers one gets True."""
        ...


class AuditLog(Protocol):
    """The log of all changes by administrators. Rows are only ever added; nothing changes or removes one."""

    async def begin(self, row: AuditRow) -> str:
        """Note a change that is about to be performed, and return an id for the row of its end."""
        ...

    async def begun(self) -> list[tuple[str, AuditRow]]:
        """Return the changes that were begun and have no end yet, with their ids."""
        ...

    async def append(self, row: AuditRow, *, begun_id: str = "", only_begun: bool = False) -> AuditRow:
        """Add a row and return it with its id and its chain; it ends the change that was begun under `begun_id`.

        With `only_begun` nothing is added if that change has ended already.
        """
        ...

    async def page(self, wanted: AuditFilter, *, before: str = "", limit: int = 100) -> AuditPage:
        """Return the newest rows, those before a cursor. A page can be short or empty and still name a next one."""
        ...

    def rows(self) -> AsyncIterator[AuditRow]:
        """Yield all rows, the oldest first."""
        ...

    async def verify(self, since_chain: str = "") -> AuditVerdict:
        """Check the chain of all rows, their proofs, and the sealed row.

        A row must have `since_chain`, if it is given.

        Errors:
            Fault: the file of the sealed row was changed
        """
        ...

    def protect(self, proof: AuditProof) -> None:
        """Prove rows from now on, and compare what is sealed."""
        ...

    async def has_proof(self) -> bool:
        """Return whether the newest row carries a proof of this installation."""
        ...
