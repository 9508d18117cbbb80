"""Personal tokens: programs of a person use them to reach the administration over HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.crypto import key_hint, key_sha256, mint_token
from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.account import Account
from cluster.records.administration import APP_ROLES, TOKEN_PREFIX, AdminToken, AppRole
from deployments.operations.access.apps import app_admin
from deployments.operations.access.people import account_admin, app_role
from deployments.operations.framework.operation import Arguments, operation
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_DAY_MS = 86_400_000
DAYS = 90
MOST_DAYS = 365
MOST_TOKENS = 50
"Tokens that one account can have at a time."


@dataclass(frozen=True, slots=True)
class TokenList:
    """Personal tokens, the oldest first."""

    tokens: list[AdminToken]

    def to_dict(self) -> dict[str, Any]:
        return {"tokens": [token_to_dict(token) for token in self.tokens]}

    def to_lines(self) -> ResultLines:
        """Return a table of the tokens."""
        rows = [
            (
                token.username,
                token.name,
                token.token_id,
                token.role,
                ",".join(token.apps) or "all",
                iso_ms(token.expires_at)[:10],
            )
            for token in self.tokens
        ]
        return (
            ResultTable(
                ("user", "name", "token id", "role", "apps", "expires"),
                rows,
                "There are no tokens yet; `kiosk tokens create` makes one.",
                droppable=("apps",),
            ),
        )


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was created; its text is shown once and stored nowhere."""

    record: AdminToken
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.record.token_id})"

    def to_dict(self) -> dict[str, Any]:
        return {**token_to_dict(self.record), "token": self.text}

    def to_lines(self) -> ResultLines:
        """Return the token and its end."""
        record = self.record
        return (
            f"Token {record.token_id} stands for {record.username} until {iso_ms(record.expires_at)[:10]}.",
            f"  token  {self.text}   (shown this once)",
        )


class ListTokens(Arguments):
    """Arguments of `tokens.list`."""

    everyone: bool = Field(False, description="Tokens of all people; for administrators.")


class CreateToken(Arguments):
    """Arguments of `tokens.create`."""

    name: str = Field(min_length=1, max_length=80, description="What the token is for.")
    role: str = Field("viewer", description="Maximum role: viewer, analyst, editor or owner.")
    apps: tuple[str, ...] = Field(
        (), max_length=100, description="Apps it is limited to; empty: all of yours."
    )
    days: int = Field(DAYS, ge=1, le=MOST_DAYS, description="Days until it expires.")
    username: str = Field(
        "", max_length=64, description="The account that it stands for; only the command line may name one."
    )


class OfToken(Arguments):
    """Arguments of an operation on one token."""

    token_id: str = Field(max_length=64)


def token_to_dict(token: AdminToken) -> dict[str, Any]:
    """Return a token for JSON, without its hash."""
    return token.model_dump(mode="json", exclude={"sha256", "epoch", "parent"})


@operation("tokens.list", "GET", "/tokens", scope="person")
async def list_tokens(services: AdminServices, given: ListTokens) -> TokenList:
    """List personal tokens: yours, or those of all people for the command line and administrators who ask.

    A token that is limited to apps sees those that are limited to some of them.

    Errors:
        Forbidden: tokens of everybody, and the principal is no administrator
    """
    principal = services.principal
    store = services.stores.admin_tokens
    if given.everyone or not principal.user_id:
        principal.require("owner", "")
        return TokenList(await store.all())
    tokens = await store.of_user(principal.user_id)
    apps = set(principal.apps)
    return TokenList([token for token in tokens if not apps or (token.apps and apps.issuperset(token.apps))])


@operation(
    "tokens.create",
    "POST",
    "/tokens",
    scope="person",
    secret_results={"token"},
)
async def create_token(services: AdminServices, given: CreateToken) -> NewToken:
    """Make a personal token, which is shown once.

    It allows no more than its account, and no more than the token that asks for it.

    Errors:
        Invalid: no such role, or no account was named on the command line
        NotFound: no such app or account
        Forbidden: the principal may not give this role, these apps or this account away
        Conflict: the account has the most tokens already
    """
    role = app_role(given.role)
    now_ms = services.now_ms()
    account = await _owner(services, given)
    _refuse_exceeding(services.principal, role, given.apps, "create")
    app_ids = {app.app_id for app in await app_admin(services).apps()}
    for app_id in given.apps:
        if app_id not in app_ids:
            raise NotFound(f"there is no app named {app_id}")
    live = [
        issued
        for issued in await services.stores.admin_tokens.of_user(account.user_id)
        if issued.expires_at > now_ms
    ]
    # The authenticator remembers tokens for a second, so this one may be revoked by now.
    parent = services.principal.token_id
    if parent and not any((issued.token_id, issued.epoch) == (parent, account.epoch) for issued in live):
        raise Forbidden("the token that asks for another one was revoked meanwhile")
    if len(live) >= MOST_TOKENS:
        raise Conflict(f"{account.username} has {MOST_TOKENS} tokens, the most; revoke one first")
    expires_at = now_ms + given.days * _DAY_MS
    if services.principal.expires_at:
        # A stolen token must not make another one that outlives it.
        expires_at = min(expires_at, services.principal.expires_at)
    text = mint_token(TOKEN_PREFIX)
    record = AdminToken(
        token_id="tok-" + secrets.token_hex(6),
        sha256=key_sha256(text),
        hint=key_hint(text),
        name=given.name,
        user_id=account.user_id,
        username=account.username,
        epoch=account.epoch,
        role=role,
        apps=given.apps,
        created_at=now_ms,
        expires_at=expires_at,
        parent=parent,
    )
    await services.stores.admin_tokens.add(record, now_ms=now_ms)
    return NewToken(record, text)


@operation(
    "tokens.revoke",
    "DELETE",
    "/tokens/{token_id}",
    scope="person",
)
async def revoke_token(services: AdminServices, given: OfToken) -> PlainResult:
    """Revoke a personal token; it is refused within a second.

    Administrators revoke any.

    Tokens that it created are revoked too: whoever stole it may have created some.

    Errors:
        NotFound: no such token, or somebody else's
    """
    token = await _find(services, given)
    # Children first, the oldest last: whatever fails halfway, the token that remains is the one to revoke again.
    for token_id in reversed(
        _with_children(await services.stores.admin_tokens.of_user(token.user_id), token)
    ):
        await services.stores.admin_tokens.remove(token_id)
    line = f"Token {token.token_id} of {token.username} is revoked."
    return PlainResult({"revoked": True, **token_to_dict(token)}, (line,))


def _with_children(tokens: Sequence[AdminToken], first: AdminToken) -> list[str]:
    """Return the ids of a token and of all that were created with it, directly or not."""
    token_ids = [first.token_id]
    for parent in token_ids:
        token_ids += [
            token.token_id for token in tokens if token.parent == parent and token.token_id not in token_ids
        ]
    return token_ids


async def _find(services: AdminServices, given: OfToken) -> AdminToken:
    principal = services.principal
    for token in await services.stores.admin_tokens.all():
        if token.token_id != given.token_id:
            continue
        if token.user_id == principal.user_id:
            _refuse_exceeding(principal, token.role, token.apps, "revoke")
            return token
        if principal.may("owner", ""):
            return token
    raise NotFound(f"there is no token {given.token_id}; see `kiosk tokens list`")


async def _owner(services: AdminServices, given: CreateToken) -> Account:
    """Return the account that the token stands for."""
    principal = services.principal
    if principal.way != "command line":
        if given.username and given.username.lower() != principal.username:
            raise Forbidden("nobody can create a token that stands for somebody else")
        return await account_admin(services).find(principal.username)
    if not given.username:
        raise Invalid("name the account that the token stands for; see `kiosk users list`")
    account = await account_admin(services).find(given.username)
    if account.disabled:
        raise Conflict(f"{account.username} is locked; `kiosk users enable {account.username}` unlocks it")
    return account


def _refuse_exceeding(principal: Principal, role: AppRole, apps: tuple[str, ...], verb: str) -> None:
    """Refuse to create or revoke with a token one that allows more than it.

    Errors:
        Forbidden: the other token allows more
    """
    if APP_ROLES.index(role) > APP_ROLES.index(principal.ceiling):
        raise Forbidden(f"a token of the role {principal.ceiling} can't {verb} one of the role {role}")
    if principal.apps and not (apps and set(apps) <= set(principal.apps)):
        raise Forbidden(f"a token for {', '.join(principal.apps)} can {verb} tokens for these apps only")
