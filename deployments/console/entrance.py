"""Who may enter the console, and with which rights."""

from __future__ import annotations

from deployments.operations.frame.principal import Principal

ANYBODY = Principal("", "", "console")
"Somebody who is not signed in."


def may_enter(principal: Principal) -> bool:
    """Return whether somebody may enter: administrators, and whoever has a role in an app."""
    return principal.is_administrator or bool(principal.roles)
