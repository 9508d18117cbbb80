"""The protocols of accounts, of grants and of client registrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.records.account import Account, Code, Grant
from cluster.records.registration import Registration


@dataclass(frozen=True, slots=True)
class Revocations:
    """Grants, and clients with all of theirs, that ended within the life of an access token."""

    version: int
    grant_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActiveGrant:
    """A grant in use, and when it was refreshed last."""

    grant: Grant
    used_at: int


RedeemOutcome = Literal["begun", "used", "gone"]
"""What became of a code: it is a grant now; it had been tried before and what it produced is revoked; or there
is no such code, or its owner was locked out since."""

RotateOutcome = Literal["rotated", "crowded", "stolen", "gone"]
"""What became of a refresh: done; too many at once inside the grace; an old token came back and the grant is
revoked; or there is no such grant."""


class AccountStore(Protocol):
    """People who may sign in."""

    async def get(self, username: str) -> Account | None: ...

    async def all(self) -> list[Account]:
        """All accounts, sorted by name."""
        ...

    async def add(self, account: Account) -> bool:
        """Make an account; False when the name is taken."""
        ...

    async def put(self, account: Account) -> None:
        """Replace an account."""
        ...

    async def session_mark(self, user_id: str) -> str:
        """Read the mark that a person's browser sessions carry; empty until the first sign-out."""
        ...

    async def end_sessions(self, user_id: str, mark: str) -> None:
        """End all browser sessions of a person: from now on sessions carry this mark, which was never used."""
        ...

    async def remove(self, account: Account) -> bool:
        """Remove an account, the mark of its sessions, and broken ones of that name that were set aside.

        False when there was none."""
        ...


class GrantStore(Protocol):
    """Codes and grants. Every step is atomic; times are given by the caller."""

    async def put_code(self, sha256: str, code: Code) -> None: ...

    async def code(self, sha256: str) -> Code | None:
        """Read a code, used or not; forgotten after ten minutes."""
        ...

    async def redeem(self, sha256: str, grant: Grant, refresh_sha256: str, *, now_ms: int) -> RedeemOutcome:
        """Turn an unused code into a grant with its first refresh token."""
        ...

    async def burn(self, sha256: str, *, now_ms: int) -> None:
        """Use a code up without a grant; one that was used before revokes what it produced."""
        ...

    async def grant(self, grant_id: str) -> Grant | None: ...

    async def rotate(
        self, grant_id: str, presented_sha256: str, next_sha256: str, *, now_ms: int, grace_ms: int
    ) -> RotateOutcome:
        """Exchange a refresh token for the next one.

        A token of the previous round is forgiven for `grace_ms`, as long as none of its successors was used.
        """
        ...

    async def revoke(self, grant_id: str, *, now_ms: int) -> bool:
        """End a grant; False when there was none."""
        ...

    async def revoke_user(self, user_id: str, *, now_ms: int) -> int:
        """End all grants of a person, and codes on their way; returns how many grants."""
        ...

    async def revoke_client(self, client_id: str, *, now_ms: int) -> int:
        """End all grants of a client, at once for whoever holds access tokens; returns how many grants."""
        ...

    async def of_user(self, user_id: str) -> list[ActiveGrant]:
        """Grants of a person, the last used first."""
        ...

    async def version(self) -> int:
        """Read the counter that every revocation increments."""
        ...

    async def revocations(self) -> Revocations: ...


class RegistrationStore(Protocol):
    """Registrations that clients changed or removed."""

    async def get(self, client_id: str) -> Registration | None:
        """Read one; None: the client id is all there is."""
        ...

    async def put(self, registration: Registration, *, now_ms: int) -> bool:
        """Write a change or a removal; False when the client was removed before."""
        ...

    async def touch(self, client_id: str, *, now_ms: int) -> None:
        """Note that a client whose registration is kept was used, which keeps it from making room for others."""
        ...
