"""Invitations: one-time links through which a person makes an account with the roles that somebody granted.

    create   a link with a token, shown once; the store keeps its SHA-256 for 72 hours
    list     open and expired invitations
    revoke   the link stops working at once

`deployments.sign_in.invitations` accepts them.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.crypto import key_sha256, mint_token
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.account import is_username
from cluster.records.administration import INVITATION_PREFIX, AppRole, Invitation
from deployments.operations.access.apps import app_admin
from deployments.operations.access.people import account_role, app_role
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_HOUR_MS = 3_600_000
HOURS = 72
MOST_HOURS = 168
MOST_INVITATIONS = 100
"Open invitations of one inviter."
ADDRESS = "/console/invitation"


@dataclass(frozen=True, slots=True)
class InvitationList:
    """Invitations that nobody accepted yet, the oldest first."""

    invitations: list[Invitation]
    now_ms: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "invitations": [invitation_to_dict(invitation, self.now_ms) for invitation in self.invitations]
        }

    def to_lines(self) -> ResultLines:
        """Return a table of the invitations."""
        rows = [
            (
                invitation.invitation_id,
                invitation.username or "-",
                invitation.role,
                ", ".join(f"{app_id}={role}" for app_id, role in invitation.roles.items()) or "-",
                invitation.inviter,
                "expired" if invitation.expires_at <= self.now_ms else iso_ms(invitation.expires_at)[:19],
            )
            for invitation in self.invitations
        ]
        table = ResultTable(
            ("invitation", "name", "role", "roles in apps", "invited by", "expires"),
            rows,
            "There are no invitations.",
        )
        return (table,)


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation with the token of its link; the token is shown once and stored nowhere."""

    record: Invitation
    token: str
    public_url: str
    "Address of the installation; empty: it is not set."

    def __repr__(self) -> str:
        return f"NewInvitation({self.record.invitation_id})"

    @property
    def path(self) -> str:
        """Return the link below the address of the installation."""
        return f"{ADDRESS}?token={self.token}"

    def to_dict(self) -> dict[str, Any]:
        facts = invitation_to_dict(self.record, self.record.created_at)
        return {**facts, "link": self.public_url.rstrip("/") + self.path}

    def to_lines(self) -> ResultLines:
        """Return the link, and how long it works."""
        record = self.record
        link = self.to_dict()["link"]
        hours = (record.expires_at - record.created_at) // _HOUR_MS
        lines = (
            f"Invitation {record.invitation_id} works once, for {hours} hours.",
            f"  link  {link}   (shown this once)",
        )
        hint = "Put the address of the installation before it, or set KIOSK_PUBLIC_URL."
        return lines if self.public_url else (*lines, hint)


class Invite(Arguments):
    """Arguments of `invitations.create`."""

    username: str = Field(
        "", max_length=64, description="User name of the account; empty: the invited person chooses it."
    )
    role: str = Field("reader", description="reader or administrator.")
    roles: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="App -> viewer, analyst, editor or owner. Administrators own every app without one.",
    )
    hours: int = Field(HOURS, ge=1, le=MOST_HOURS, description="Hours until the link expires.")


class InviteToApp(OfApp):
    """Arguments of `invitations.create_for_app`."""

    username: str = Field(
        "", max_length=64, description="User name of the account; empty: the invited person chooses it."
    )
    role: str = Field("viewer", description="viewer, analyst, editor or owner.")
    hours: int = Field(HOURS, ge=1, le=MOST_HOURS, description="Hours until the link expires.")


class OfInvitation(Arguments):
    """Arguments of an operation on one invitation."""

    invitation_id: str = Field(max_length=64)


class OfAppInvitation(OfApp):
    """Arguments of an operation on one invitation of an app."""

    invitation_id: str = Field(max_length=64)


def invitation_to_dict(invitation: Invitation, now_ms: int) -> dict[str, Any]:
    """Return an invitation for JSON, without its hash and the id of the inviter."""
    facts = invitation.model_dump(mode="json", exclude={"sha256", "invited_by"})
    return {**facts, "expired": invitation.expires_at <= now_ms}


@operation("invitations.list", "GET", "/invitations", "owner", scope="installation")
async def list_invitations(services: AdminServices, _: Arguments) -> InvitationList:
    """List invitations that nobody accepted yet."""
    return InvitationList(await services.stores.invitations.all(), services.now_ms())


@operation(
    "invitations.create", "POST", "/invitations", "owner", scope="installation", secret_results={"link"}
)
async def create_invitation(services: AdminServices, given: Invite) -> NewInvitation:
    """Invite a person by a link that works once; it is shown once.

    Errors:
        Invalid: the user name or a role is not allowed, or an administrator gets roles in apps
        NotFound: no such app
        Conflict: there is an account of this name, or the inviter has the most open invitations
    """
    role = account_role(given.role)
    roles = {app_id: app_role(text) for app_id, text in given.roles.items()}
    if role == "administrator" and roles:
        raise Invalid("an administrator owns every app; leave the roles in apps out")
    username = given.username.lower()
    if username and await services.stores.accounts.get(username) is not None:
        raise Conflict(f"there is already somebody named {username}; grant roles to that account")
    return await _add(services, username, role, roles, given.hours)


@operation("invitations.revoke", "DELETE", "/invitations/{invitation_id}", "owner", scope="installation")
async def revoke_invitation(services: AdminServices, given: OfInvitation) -> PlainResult:
    """Revoke an invitation.

    Its link stops working at once.

    Errors:
        NotFound: there is none, or somebody accepted it
    """
    return await _remove(services, given.invitation_id, "")


@operation("invitations.list_of_app", "GET", "/apps/{app_id}/invitations", "owner")
async def list_app_invitations(services: AdminServices, given: OfApp) -> InvitationList:
    """List invitations to one app that nobody accepted yet.

    Those that grant a role in this app and nothing else.

    Errors:
        NotFound: no such app
    """
    await app_admin(services).app(given.app_id)
    invitations = await services.stores.invitations.all()
    return InvitationList(
        [invitation for invitation in invitations if is_for_app(invitation, given.app_id)], services.now_ms()
    )


@operation(
    "invitations.create_for_app", "POST", "/apps/{app_id}/invitations", "owner", secret_results={"link"}
)
async def create_app_invitation(services: AdminServices, given: InviteToApp) -> NewInvitation:
    """Invite a person to one app by a link that works once; it is shown once.

    Whether the user name is taken is not revealed.

    Errors:
        Invalid: the user name or the role is not allowed
        NotFound: no such app
        Conflict: the inviter has the most open invitations
    """
    roles = {given.app_id: app_role(given.role)}
    return await _add(services, given.username.lower(), "reader", roles, given.hours)


@operation("invitations.revoke_for_app", "DELETE", "/apps/{app_id}/invitations/{invitation_id}", "owner")
async def revoke_app_invitation(services: AdminServices, given: OfAppInvitation) -> PlainResult:
    """Revoke an invitation to one app.

    Errors:
        NotFound: there is none of this app, or somebody accepted it
    """
    return await _remove(services, given.invitation_id, given.app_id)


def is_for_app(invitation: Invitation, app_id: str) -> bool:
    """Return whether an invitation grants a role in this app and nothing else."""
    return invitation.role == "reader" and set(invitation.roles) == {app_id}


async def _add(
    services: AdminServices, username: str, role: Any, roles: dict[str, AppRole], hours: int
) -> NewInvitation:
    if username and not is_username(username):
        raise Invalid(
            f"{username!r} can't be a user name: up to 64 letters, digits and . _ @ + -, the first a letter or a digit"
        )
    for app_id in roles:
        await app_admin(services).app(app_id)
    principal = services.principal
    now_ms = services.now_ms()
    invitations = await services.stores.invitations.all()
    open_now = [
        invitation
        for invitation in invitations
        if invitation.invited_by == principal.user_id and invitation.expires_at > now_ms
    ]
    if len(open_now) >= MOST_INVITATIONS:
        raise Conflict(f"you have {MOST_INVITATIONS} open invitations, the most; revoke one first")
    token = mint_token(INVITATION_PREFIX)
    record = Invitation(
        invitation_id="inv-" + secrets.token_hex(6),
        sha256=key_sha256(token),
        username=username,
        role=role,
        roles=roles,
        invited_by=principal.user_id,
        inviter=principal.username,
        created_at=now_ms,
        expires_at=now_ms + hours * _HOUR_MS,
    )
    await services.stores.invitations.add(record, now_ms=now_ms)
    return NewInvitation(record, token, services.config.public_url)


async def _remove(services: AdminServices, invitation_id: str, app_id: str) -> PlainResult:
    store = services.stores.invitations
    for invitation in await store.all():
        is_visible = not app_id or is_for_app(invitation, app_id)
        # Somebody may accept it at this moment: of a removal and an acceptance, one succeeds.
        if invitation.invitation_id == invitation_id and is_visible and await store.remove(invitation.sha256):
            facts = {"invitation_id": invitation_id, "revoked": True}
            return PlainResult(facts, (f"Invitation {invitation_id} is revoked.",))
    raise NotFound(f"there is no open invitation {invitation_id}")
