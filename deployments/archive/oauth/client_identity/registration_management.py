"""Read, change and delete a registration with its registration access token.

    GET      returns the registration
    PUT      replaces all of it, by the rules of registering
    DELETE   deletes the client, its grants and their tokens; its id is refused from then on

Source: RFC 7592.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.records.archive.archive_client import Registration, short_id
from deployments.archive.oauth.client_identity.clients import (
    client_of_registration,
    is_secret_of,
    read_client,
)
from deployments.archive.oauth.client_identity.metadata_validation import read_metadata, read_object
from deployments.archive.oauth.client_identity.registration import build_registration_document
from deployments.archive.oauth.forms import read_small_body
from deployments.archive.oauth.replies import (
    ANY_ORIGIN,
    NO_STORE,
    NOSNIFF,
    OAuthError,
    render_document,
    render_error,
)
from deployments.archive.oauth.services import OAuthServices

WRONG_TOKEN = "the registration access token is missing or is not the one of this client"  # noqa: S105 - a sentence
_CHALLENGE = 'Bearer realm="archive"'
_OURS = (
    "registration_access_token",
    "registration_client_uri",
    "client_secret_expires_at",
    "client_id_issued_at",
)
"Members that only the server sets."

_log = structlog.get_logger()


class RegistrationManagement:
    """Answers requests of a client about its registration."""

    def __init__(self, services: OAuthServices) -> None:
        self._services = services

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "register", self._services.limits.registrations)
        token = _parse_token(request)
        registration = await self._find(request.path_params["client_id"], token)
        if registration is None:
            # An unknown client and a wrong token get the same reply, so that it reveals no ids.
            challenge = f'{_CHALLENGE}, error="invalid_token"' if token else _CHALLENGE
            return render_error(
                OAuthError("invalid_token", WRONG_TOKEN, 401), {"www-authenticate": challenge}
            )
        if request.method == "DELETE":
            return await self._remove(registration)
        if request.method == "PUT":
            given = read_object(await read_small_body(request, self._services.limits.body_s))
            registration = self._change(registration, given)
            await self._write(registration)
        document = build_registration_document(
            self._services, self._services.origin(request), registration, token
        )
        return render_document(document, headers=NO_STORE)

    async def _find(self, client_id: str, token: str) -> Registration | None:
        """Return the registration of a token; None if the token is invalid, or if the registration was deleted."""
        facts = self._services.signing.registrations.open(token)
        client = read_client(self._services.signing, client_id)
        if facts is None or client is None:
            return None
        short, issued_at, redirect_uris = facts
        # A genuine token of another registration must not manage this one.
        if not hmac.compare_digest(short, short_id(client_id)):
            return None
        changed = await self._services.registrations.get(client_id)
        if changed is not None:
            return None if changed.removed else changed
        # It was never changed, so id and token hold all of it.
        return Registration(
            client_id=client_id,
            name=client.name,
            method=client.method,
            redirect_uris=tuple(redirect_uris),
            issued_at=issued_at,
        )

    def _change(self, registration: Registration, given: Mapping[str, Any]) -> Registration:
        """Replace all members that the client may set.

        Source: RFC 7592 section 2.2: the server chooses ids and secrets.
        """
        fixed = [name for name in _OURS if name in given]
        if fixed:
            raise OAuthError("invalid_client_metadata", f"an update must not hold {', '.join(fixed)}")
        if given.get("client_id") != registration.client_id:
            raise OAuthError("invalid_client_metadata", "client_id is not the one of this registration")
        secret = given.get("client_secret")
        if secret is not None and not self._is_secret(registration, secret):
            raise OAuthError("invalid_client_metadata", "client_secret is not the one of this registration")
        name, method, redirect_uris = read_metadata(given)
        changes = {"name": name, "method": method, "redirect_uris": tuple(redirect_uris)}
        return registration.model_copy(update=changes)

    def _is_secret(self, registration: Registration, secret: object) -> bool:
        registered_client = client_of_registration(registration)
        return (
            registered_client is not None
            and registered_client.method != "none"
            and isinstance(secret, str)
            and is_secret_of(self._services.signing, registered_client, secret)
        )

    async def _remove(self, registration: Registration) -> Response:
        # First the mark, after which the client gets no new grant, then the existing grants.
        await self._write(registration.model_copy(update={"removed": True}))
        client_id = registration.client_id
        now_ms = self._services.clock.now_ms()
        ended = await self._services.grants.revoke_client(client_id, now_ms=now_ms)
        _log.info("client_removed", client=short_id(client_id), grants=ended)
        return Response(None, 204, {**ANY_ORIGIN, **NOSNIFF, **NO_STORE})

    async def _write(self, registration: Registration) -> None:
        wait_s = await self._services.changes.wait_s()
        if wait_s:
            words = "too many registrations are being changed; try again later"
            raise OAuthError("temporarily_unavailable", words, 429, wait_s)
        # Another request removed the client meanwhile; a removal is final.
        if not await self._services.registrations.put(registration, now_ms=self._services.clock.now_ms()):
            raise OAuthError("invalid_token", WRONG_TOKEN, 401)


def _parse_token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
