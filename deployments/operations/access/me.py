"""The person or token that calls, and what it may do."""

from __future__ import annotations

from deployments.operations.framework.operation import Arguments, operation
from deployments.operations.framework.result_table import PlainResult
from deployments.operations.framework.services import AdminServices


@operation("me.get", "GET", "/me", scope="person")
async def read_me(services: AdminServices, _: Arguments) -> PlainResult:
    """Show who you are here and what you may do."""
    principal = services.principal
    return PlainResult(
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
