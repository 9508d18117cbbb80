"""The person or token that calls, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deployments.operations.frame.operation import Arguments, operation
from deployments.operations.frame.services import AdminServices


@dataclass(frozen=True, slots=True)
class Me:
    """Who the principal is and what that person may do."""

    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.facts


@operation("me.get", "GET", "/me", scope="person")
async def read_me(services: AdminServices, _: Arguments) -> Me:
    """Show who you are here and what you may do."""
    principal = services.principal
    return Me(
        {
            "username": principal.username,
            "user_id": principal.user_id,
            "way": principal.way,
            "administrator": principal.may("owner", ""),
            "roles": {app_id: principal.role_in(app_id) for app_id in principal.app_ids or ()},
            "ceiling": principal.ceiling,
            "apps": list(principal.apps),
            "expires_at": principal.expires_at,
        }
    )
