"""Tokens that an app's server signed for its users: end those of one user."""

from __future__ import annotations

from pydantic import Field

from cluster.clock import iso_ms
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import PlainResult
from deployments.operations.framework.services import AdminServices


class EndTokens(OfApp):
    """Whose tokens end."""

    user_id: str = Field(min_length=1, max_length=512, description="The user that the tokens name.")


@operation(
    "users.end_tokens", "POST", "/apps/{app_id}/users/one/end-tokens", "editor", secret_fields={"user_id"}
)
async def end_tokens(services: AdminServices, given: EndTokens) -> PlainResult:
    """End all tokens of a user that were issued before now.

    Every API replica refuses them within a second. Tokens issued later work, if they have `iat`.

    Errors:
        NotFound: there is no such app
    """
    await require_app(services.stores, given.app_id)
    now_ms = services.now_ms()
    await services.stores.access.end_tokens(given.app_id, given.user_id, now_ms)
    until = iso_ms(now_ms)
    line = f"Tokens that {given.app_id} issued for this user until {until} are refused within a second."
    return PlainResult({"app_id": given.app_id, "issued_until": until}, (line,))
