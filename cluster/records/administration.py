"""Roles of people in apps, personal tokens of the administration, and rows of its audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

AppRole = Literal["viewer", "analyst", "editor", "owner"]
APP_ROLES: tuple[AppRole, ...] = ("viewer", "analyst", "editor", "owner")
"Roles in an app, the least first; each may do what those before it may."
ROLE_TEXTS: Mapping[AppRole, str] = {
    "viewer": "sees products, rules, experiments and figures; no people and no keys",
    "analyst": "also looks users up, reads query texts and exports reports",
    "editor": "also changes products, rules, experiments, questions and trainings",
    "owner": "also changes keys, limits, engines, roles, and erases users",
}

Way = Literal["token", "console", "command line", "archive", "automatic"]
"How a person reached the administration. `archive`: a sign-in on consent pages; `automatic`: nobody, Kiosk itself."

TOKEN_PREFIX = "kat_"  # noqa: S105 - the first characters of every token, no token
"First characters of a personal token; a scanner recognises a leaked one."


class AdminToken(BaseModel):
    """A personal token as it rests in the store: everything it allows, and not the token."""

    model_config = ConfigDict(frozen=True)

    token_id: str
    sha256: str = Field(repr=False)
    hint: str
    "The visible part: prefix and last four characters."
    name: str = Field(min_length=1, max_length=80)
    user_id: str
    username: str
    epoch: int = 0
    "Epoch of the account at the creation: a new password or a lock ends the token."
    role: AppRole = "owner"
    "The most the token may do, whatever its account may."
    apps: tuple[str, ...] = ()
    "Apps it is limited to; empty: all apps of its account, and the installation."
    created_at: int
    expires_at: int
    "Milliseconds since 1970."
    parent: str = ""
    "Id of the token that asked for this one; it is revoked with it."


INVITATION_PREFIX = "kiv_"
"First characters of the token in the link of an invitation."


class Invitation(BaseModel):
    """An invitation as it rests in the store: what the account will be allowed, and not the token of its link."""

    model_config = ConfigDict(frozen=True)

    invitation_id: str
    sha256: str = Field(repr=False)
    "Of the token in the link."
    username: str = ""
    "The user name of the future account; empty: the invited person chooses it."
    role: Literal["administrator", "reader"] = "reader"
    roles: dict[str, AppRole] = Field(default_factory=dict)
    "App -> role in it."
    invited_by: str = ""
    "User id; empty: the command line."
    inviter: str
    "User name."
    created_at: int
    expires_at: int
    "Milliseconds since 1970."


class AuditRow(BaseModel):
    """One row of the audit log."""

    model_config = ConfigDict(frozen=True)

    row_id: str = ""
    "Set by the store; rows are ordered by it."
    at: int
    "Milliseconds since 1970."
    user_id: str
    username: str
    way: Way
    address: str = ""
    "Address of the client; empty for the command line."
    operation: str
    "Name of the operation, for example `keys.rotate`."
    app_id: str = ""
    "Empty for the installation."
    outcome: Literal["done", "refused", "begun"]
    """`begun`: the process or the store went away before the end was written; the change may have been made."""
    reason: str = ""
    "Why it was refused, or that its end is not known."
    arguments: dict[str, Any] = Field(default_factory=dict)
    "Without secrets."
    before: Any = None
    after: Any = None
    chain: str = ""
    """SHA-256 over this row and the chain of the row before, in hex; set by the store. A changed, removed or inserted
    row breaks the chain behind it."""
    proof: str = ""
    "HMAC-SHA-256 of the chain under a key derived from the master key, in hex; empty in rows of earlier releases."
