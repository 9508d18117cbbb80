"""Who may enter the console, and with which rights."""

from __future__ import annotations

from cluster.records.account import Account
from deployments.operations.principal import Principal

ANYBODY = Principal("", "", "console")
"Somebody who is not signed in."


def principal_from_account(account: Account, address: str) -> Principal:
    """Return the rights of an account in the console."""
    return Principal(
        username=account.username,
        user_id=account.user_id,
        way="console",
        address=address,
        is_administrator=account.role == "administrator",
        roles=getattr(account, "roles", None) or {},
    )


def may_enter(principal: Principal) -> bool:
    """Return whether somebody may enter: administrators, and whoever has a role in an app."""
    return principal.is_administrator or bool(principal.roles)
