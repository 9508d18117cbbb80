"""Personal tokens and the audit log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cluster.ids import new_request_id
from cluster.records.administration import AdminToken, AuditRow, Invitation
from cluster.store.administration.admin_tokens import AdminTokenStore, InvitationStore
from cluster.store.administration.audit import AuditFilter, AuditLog, AuditPage
from cluster.store.administration.audit_chain import START, AuditVerdict, ChainCheck, next_chain, row_json
from cluster.store.administration.audit_proof import AuditProof


class MemoryAdminTokens(AdminTokenStore):
    """`AdminTokenStore` in a dictionary."""

    def __init__(self) -> None:
        self._tokens: dict[str, AdminToken] = {}

    async def add(self, token: AdminToken, *, now_ms: int) -> None:
        self._tokens = {name: stored for name, stored in self._tokens.items() if stored.expires_at > now_ms}
        self._tokens[token.sha256] = token

    async def find(self, sha256: str) -> AdminToken | None:
        return self._tokens.get(sha256)

    async def all(self) -> list[AdminToken]:
        return sorted(self._tokens.values(), key=lambda token: (token.created_at, token.token_id))

    async def of_user(self, user_id: str) -> list[AdminToken]:
        return [token for token in await self.all() if token.user_id == user_id]

    async def remove(self, token_id: str) -> bool:
        return bool(self._drop([token for token in self._tokens.values() if token.token_id == token_id]))

    async def remove_user(self, user_id: str) -> int:
        return self._drop(await self.of_user(user_id))

    def _drop(self, tokens: list[AdminToken]) -> int:
        for token in tokens:
            del self._tokens[token.sha256]
        return len(tokens)


class MemoryInvitations(InvitationStore):
    """`InvitationStore` in a dictionary."""

    def __init__(self) -> None:
        self._invitations: dict[str, Invitation] = {}

    async def add(self, invitation: Invitation, *, now_ms: int) -> None:
        kept = {name: stored for name, stored in self._invitations.items() if stored.expires_at > now_ms}
        self._invitations = {**kept, invitation.sha256: invitation}

    async def find(self, sha256: str) -> Invitation | None:
        return self._invitations.get(sha256)

    async def all(self) -> list[Invitation]:
        return sorted(
            self._invitations.values(),
            key=lambda invitation: (invitation.created_at, invitation.invitation_id),
        )

    async def remove(self, sha256: str) -> bool:
        return self._invitations.pop(sha256, None) is not None


class MemoryAudit(AuditLog):
    """`AuditLog` in a list."""

    def __init__(self) -> None:
        self._rows: list[AuditRow] = []
        self._begun: dict[str, AuditRow] = {}
        self._proof: AuditProof | None = None

    def protect(self, proof: AuditProof) -> None:
        self._proof = proof

    async def has_proof(self) -> bool:
        return bool(self._rows and self._rows[-1].proof)

    async def begin(self, row: AuditRow) -> str:
        begun_id = new_request_id()
        self._begun[begun_id] = row
        return begun_id

    async def begun(self) -> list[tuple[str, AuditRow]]:
        return list(self._begun.items())

    async def append(self, row: AuditRow, *, begun_id: str = "", only_begun: bool = False) -> AuditRow:
        if only_begun and begun_id not in self._begun:
            return row
        self._begun.pop(begun_id, None)
        before = self._rows[-1].chain if self._rows else START
        row_id, chain = f"{len(self._rows) + 1}-0", next_chain(before, row_json(row))
        proof = self._proof.sign(chain) if self._proof else ""
        self._rows.append(row.model_copy(update={"row_id": row_id, "chain": chain, "proof": proof}))
        if self._proof:
            self._proof.seal(row_id, chain)
            self._proof.report(self._rows[-1].model_dump(mode="json"))
        return self._rows[-1]

    async def page(self, audit_filter: AuditFilter, *, before: str = "", limit: int = 100) -> AuditPage:
        end = len(self._rows) if not before else int(before.partition("-")[0]) - 1
        older = [row for row in reversed(self._rows[:end]) if audit_filter.matches(row)]
        rows = older[:limit]
        return AuditPage(rows, rows[-1].row_id if len(older) > limit else "")

    async def rows(self) -> AsyncIterator[AuditRow]:
        for row in list(self._rows):
            yield row

    async def verify(self, since_chain: str = "") -> AuditVerdict:
        check = ChainCheck(self._proof, self._proof.sealed() if self._proof else None, since_chain)
        for row in self._rows:
            check.add(row.row_id, row_json(row), row.chain, row.proof)
        return check.verdict()
