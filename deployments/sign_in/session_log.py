"""Rows of the audit log about sessions: who signed in or out, who was refused, from where and by which way."""

from __future__ import annotations

from typing import Literal

from cluster.clock import Clock
from cluster.records.account import Account
from cluster.records.administration import AuditRow
from cluster.store.administration.audit import AuditLog
from cluster.store.installation.rate_limits import LimitStore
from deployments.edge.limits.signin_limits import APP

Surface = Literal["console", "archive"]
"The pages on which a person signs in."
REFUSED_EVERY_S = 60
"One row about refused sign-ins of an account in this time; all names without an account share one."
_UNKNOWN = "unknown"


class SessionLog:
    """Writes the rows `session.begin`, `session.refused` and `session.end`."""

    def __init__(self, audit: AuditLog, limits: LimitStore, clock: Clock) -> None:
        self._audit = audit
        self._limits = limits
        self._clock = clock

    async def add_begin(self, account: Account, surface: Surface, address: str, way: str) -> None:
        """Record a sign-in; the caller sends the session's cookie afterwards, so no session lacks its row."""
        await self._append("session.begin", account, surface, address, way)

    async def add_end(self, account: Account, surface: Surface, address: str, way: str) -> None:
        """Record a sign-out."""
        await self._append("session.end", account, surface, address, way)

    async def add_refused(self, account: Account | None, surface: Surface, address: str, reason: str) -> None:
        """Record a refused sign-in, at most once in `REFUSED_EVERY_S` for each account.

        A name without an account is not stored: people type passwords into the wrong field.
        """
        who = _UNKNOWN if account is None else account.user_id
        token = await self._limits.take(
            APP,
            who,
            "session-refused",
            rate=1 / REFUSED_EVERY_S,
            burst=1,
            want=1,
            now_ms=self._clock.now_ms(),
        )
        # Refusals cost an attacker nothing; without this bound they would fill the audit log.
        if token.granted:
            await self._append("session.refused", account, surface, address, "", reason)

    async def _append(
        self,
        operation: str,
        account: Account | None,
        surface: Surface,
        address: str,
        way: str,
        reason: str = "",
    ) -> None:
        await self._audit.append(
            AuditRow(
                at=self._clock.now_ms(),
                user_id="" if account is None else account.user_id,
                username="" if account is None else account.username,
                way=surface,
                address=address,
                operation=operation,
                outcome="refused" if reason else "done",
                reason=reason,
                arguments={"sign_in": way} if way else {},
            )
        )
