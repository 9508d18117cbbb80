"""Revocation: a client revokes a token, and the server ends the whole grant.

Source: RFC 7009; unknown tokens are no error.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from deployments.archive.oauth.credentials import authenticate_client
from deployments.archive.oauth.forms import read_form
from deployments.archive.oauth.replies import NO_STORE, OAuthError, render_document
from deployments.archive.oauth.services import OAuthServices


class RevocationEndpoint:
    """Revokes tokens."""

    def __init__(self, services: OAuthServices) -> None:
        self._services = services

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "token", self._services.limits.token_calls)
        form = await read_form(request, self._services.limits.body_s)
        client = await authenticate_client(request, form, self._services, "revocation")
        token = form.once("token")
        if token is None:
            raise OAuthError("invalid_request", "token is missing")
        grant_id = self._services.signing.refresh_grant(token) or self._services.bearer.grant_of(token)
        grant = await self._services.grants.grant(grant_id) if grant_id else None
        if grant is not None and grant.client_id == client.client_id:
            await self._services.grants.revoke(grant.grant_id, now_ms=self._services.clock.now_ms())
        return render_document({}, headers=NO_STORE)
