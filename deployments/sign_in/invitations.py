"""Acceptance of invitations: a new account with a password of the invited person, or roles for the signed-in one.

    find      the invitation of a link, while it is open and its inviter may still grant what it grants
    accept    removes the invitation, then creates the account; of concurrent attempts one succeeds
    join      removes the invitation, then adds its roles to the account of a session

Each attempt is counted by the limits of sign-in attempts, and each acceptance has a row in the audit log.
"""

from __future__ import annotations

from cluster.admin.accounts import AccountAdmin
from cluster.clock import Clock
from cluster.crypto import is_token, key_sha256
from cluster.errors import Conflict, Forbidden, NotFound, TooMany
from cluster.records.account import Account
from cluster.records.administration import APP_ROLES, INVITATION_PREFIX, AuditRow, Invitation
from cluster.store.stores import Stores
from deployments.edge.limits.signin_limits import SignInLimits

CLOSED = "This invitation is not valid. It was used or revoked, or it expired. Ask for a new one."
TAKEN = (
    "The user name {name} is taken. Choose another one, or sign in to that account and open the link again."
)
OTHER = "This invitation is for {name}. Sign out, or sign in as {name}."
THROTTLED = "too many attempts; try again later"
_LIMITED = "invitation"


class Invitations:
    """Accepts invitations."""

    def __init__(self, stores: Stores, limits: SignInLimits, clock: Clock) -> None:
        self._stores = stores
        self._accounts = AccountAdmin(stores.accounts, stores.grants)
        self._limits = limits
        self._clock = clock

    async def find(self, token: str, address: str) -> Invitation:
        """Return the open invitation of a token.

        Errors:
            NotFound: there is none
            TooMany: the address tried too many tokens
        """
        invitation = None
        if is_token(token, INVITATION_PREFIX):
            invitation = await self._stores.invitations.find(key_sha256(token))
        if invitation is None or not await self._is_open(invitation):
            # Only wrong tokens count here, so that guesses are limited and reloading a right link is not.
            await self._count(_LIMITED, address)
            raise NotFound(CLOSED)
        return invitation

    async def accept(self, token: str, username: str, password: str, address: str) -> Account:
        """Create the account of an invitation and return it; without a password one is generated that nobody knows.

        Errors:
            NotFound: the token has no open invitation
            Invalid: the user name or the password is not allowed
            Conflict: the user name is taken; the invitation stays open
            TooMany: too many attempts
        """
        invitation = await self.find(token, address)
        await self._count(invitation.invitation_id, address)
        username = invitation.username or username.strip().lower()
        if await self._stores.accounts.get(username) is not None:
            raise Conflict(TAKEN.format(name=username))
        # Before the invitation is removed: a refused name or password leaves it open.
        new = await self._accounts.prepare(username, invitation.role, password, self._clock.now_ms())
        account = new.model_copy(update={"roles": dict(invitation.roles)})
        begun_id = await self._begin(invitation, account, address)
        if not await self._stores.invitations.remove(invitation.sha256):
            await self._end(invitation, account, address, begun_id, "the invitation was used meanwhile")
            raise NotFound(CLOSED)
        if not await self._stores.accounts.add(account):
            # The invitation is open again, so that the person can choose another name.
            await self._stores.invitations.add(invitation, now_ms=self._clock.now_ms())
            await self._end(invitation, account, address, begun_id, "the user name was taken meanwhile")
            raise Conflict(TAKEN.format(name=username))
        await self._end(invitation, account, address, begun_id)
        return account

    async def join(self, token: str, account: Account, address: str) -> Account:
        """Add the roles of an invitation to an account; a greater role of the account stays.

        Errors:
            NotFound: the token has no open invitation
            Forbidden: the invitation names another account
            TooMany: too many attempts
        """
        invitation = await self.find(token, address)
        await self._count(invitation.invitation_id, address)
        if invitation.username not in ("", account.username):
            raise Forbidden(OTHER.format(name=invitation.username))
        begun_id = await self._begin(invitation, account, address)
        if not await self._stores.invitations.remove(invitation.sha256):
            await self._end(invitation, account, address, begun_id, "the invitation was used meanwhile")
            raise NotFound(CLOSED)
        # After the removal: a process that is killed in between never gives the roles twice.
        changed = await self._accounts.update(account.username, lambda stored: _add_roles(stored, invitation))
        await self._end(invitation, changed, address, begun_id)
        return changed

    async def _is_open(self, invitation: Invitation) -> bool:
        """Return whether an invitation can be accepted: a lock or a lost role of its inviter ends it, too."""
        if invitation.expires_at <= self._clock.now_ms():
            return False
        if not invitation.invited_by:
            return True
        inviter = await self._stores.accounts.get(invitation.inviter)
        if inviter is None or inviter.disabled or inviter.user_id != invitation.invited_by:
            return False
        if invitation.role == "administrator" or not invitation.roles:
            return inviter.role == "administrator"
        return all(inviter.owns(app_id) for app_id in invitation.roles)

    async def _count(self, name: str, address: str) -> None:
        wait_s = await self._limits.wait_s(name, address)
        if wait_s:
            raise TooMany(THROTTLED, retry_after_s=wait_s)

    async def _begin(self, invitation: Invitation, account: Account, address: str) -> str:
        reason = "its end was not written; the invitation may have been accepted"
        return await self._stores.audit.begin(self._row(invitation, account, address, "begun", reason))

    async def _end(
        self, invitation: Invitation, account: Account, address: str, begun_id: str, refused: str = ""
    ) -> None:
        outcome = "refused" if refused else "done"
        await self._stores.audit.append(
            self._row(invitation, account, address, outcome, refused), begun_id=begun_id
        )

    def _row(
        self, invitation: Invitation, account: Account, address: str, outcome: str, reason: str = ""
    ) -> AuditRow:
        return AuditRow.model_validate(
            {
                "at": self._clock.now_ms(),
                "user_id": account.user_id,
                "username": account.username,
                "way": "console",
                "address": address,
                "operation": "invitations.accept",
                "outcome": outcome,
                "reason": reason,
                "arguments": {
                    "invitation_id": invitation.invitation_id,
                    "inviter": invitation.inviter,
                    "role": invitation.role,
                    "roles": dict(invitation.roles),
                },
            }
        )


def _add_roles(account: Account, invitation: Invitation) -> dict[str, object]:
    if "administrator" in (account.role, invitation.role):
        return {"role": "administrator", "roles": {}}
    roles = dict(account.roles)
    for app_id, role in invitation.roles.items():
        roles[app_id] = max(role, roles.get(app_id, role), key=APP_ROLES.index)
    return {"roles": roles}
