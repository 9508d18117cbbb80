"""The protocols of accounts, of grants and of client registrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.records.account import Account, Code, Grant
from cluster.records.archive_client import Registration


@dataclass(frozen=True, slots=True)
class Revocations:
    """Grants, and clients with all their grants, that ended within the lifetime of an access token."""

    version: int
    grant_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActiveGrant:
    """A grant in use, and the time of its last refresh."""

    grant: Grant
    used_at: int


RedeemOutcome = Literal["begun", "used", "gone"]
"""The result of redeeming a code: a new grant; a replay, whose first grant is now revoked; or no such code,
also when its owner was locked out since."""

RotateOutcome = Literal["rotated", "crowded", "stolen", "gone"]
"""The result of a refresh: done; too many within the grace period; reuse of an old token, which revokes the
grant; or no such grant."""


class AccountStore(Protocol):
    """The accounts of an installation."""

    async def get(self, username: str) -> Account | None: ...

    async def all(self) -> list[Account]:
        """Return all accounts, sorted by name."""
        ...

    async def add(self, account: Account) -> bool:
        """Create an account; return False when the name is taken."""
        ...

    async def put(self, account: Account) -> None:
        """Replace an account."""
        ...

    async def update(self, username: str, change: Callable[[Account], Account]) -> Account | None:
        """Replace an account by what `change` makes of it, and return it; None: there is no such account.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.

        Errors:
            HouseError: what `change` raises; nothing is written
        """
        ...

    async def session_mark(self, user_id: str) -> str:
        """Return the mark in an account's browser sessions; empty until the first sign-out."""
        ...

    async def end_sessions(self, user_id: str, mark: str) -> None:
        """End all browser sessions of an account: from now on its sessions carry this mark, which must be new."""
        ...

    async def remove(self, account: Account) -> bool:
        """Remove an account, the mark of its sessions, and quarantined accounts of that name.

        Returns False when there was none."""
        ...


class GrantStore(Protocol):
    """Codes and grants. Every step is atomic; the caller passes the times."""

    async def put_code(self, sha256: str, code: Code) -> None: ...

    async def code(self, sha256: str) -> Code | None:
        """Return a code, used or not; deleted after ten minutes."""
        ...

    async def redeem(self, sha256: str, grant: Grant, refresh_sha256: str, *, now_ms: int) -> RedeemOutcome:
        """Exchange an unused code for a grant with its first refresh token, and return the result."""
        ...

    async def burn(self, sha256: str, *, now_ms: int) -> None:
        """Use a code up without a grant; if the code was used before, revoke the grant it produced."""
        ...

    async def grant(self, grant_id: str) -> Grant | None: ...

    async def rotate(
        self, grant_id: str, presented_sha256: str, next_sha256: str, *, now_ms: int, grace_ms: int
    ) -> RotateOutcome:
        """Exchange a refresh token for the next one, and return the result.

        A token of the previous rotation stays valid for `grace_ms`, as long as none of its successors was used.
        """
        ...

    async def revoke(self, grant_id: str, *, now_ms: int) -> bool:
        """End a grant; return False when there was none."""
        ...

    async def revoke_user(self, user_id: str, *, now_ms: int) -> int:
        """End all grants of an account, and its pending codes; return the number of grants."""
        ...

    async def revoke_client(self, client_id: str, *, now_ms: int) -> int:
        """End all grants of a client and, at once, its access tokens; return the number of grants."""
        ...

    async def of_user(self, user_id: str) -> list[ActiveGrant]:
        """Return the grants of an account, the last used first."""
        ...

    async def version(self) -> int:
        """Return the counter that every revocation increments."""
        ...

    async def revocations(self) -> Revocations: ...


class RegistrationStore(Protocol):
    """Registrations that clients changed or removed."""

    async def get(self, client_id: str) -> Registration | None:
        """Return a stored registration; None: the client id contains the registration."""
        ...

    async def put(self, registration: Registration, *, now_ms: int) -> bool:
        """Write a change or a removal; return False when the client was removed before."""
        ...

    async def touch(self, client_id: str, *, now_ms: int) -> None:
        """Record that a client with a stored registration was used, so that it is not evicted first."""
        ...
