"""Dynamic client registration without storage: the client id is the registration.
`registration_management` changes and deletes it.

Source: RFC 7591.
"""

from __future__ import annotations

from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.records.archive.archive_client import Registration, short_id
from deployments.archive.oauth.addresses import REGISTER_PATH
from deployments.archive.oauth.client_identity.clients import issue_client
from deployments.archive.oauth.client_identity.metadata_validation import read_metadata, read_object
from deployments.archive.oauth.forms import read_small_body
from deployments.archive.oauth.metadata import GRANT_TYPES
from deployments.archive.oauth.replies import NO_STORE, render_document
from deployments.archive.oauth.services import OAuthServices
from deployments.archive.oauth.signing import OAuthSigner

LONGEST_TOKEN = 4_000
"Maximum characters of a registration access token; the HTTP server refuses headers of twice that length."

_log = structlog.get_logger()


class RegistrationEndpoint:
    """Registers clients."""

    def __init__(self, services: OAuthServices) -> None:
        self._services = services

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "register", self._services.limits.registrations)
        given = read_object(await read_small_body(request, self._services.limits.body_s))
        name, method, redirect_uris = read_metadata(given)
        client = issue_client(self._services.signing, name, method, redirect_uris)
        registration = Registration(
            client_id=client.client_id,
            name=name,
            method=method,
            redirect_uris=tuple(redirect_uris),
            issued_at=self._services.clock.now_ms() // 1000,
        )
        _log.debug("client_registered", client=short_id(client.client_id), method=method)
        return render_document(
            build_registration_document(self._services, self._services.origin(request), registration),
            201,
            NO_STORE,
        )


def build_registration_document(
    services: OAuthServices, origin: str, registration: Registration, token: str = ""
) -> dict[str, Any]:
    """Return a registration for the client: what the client sent, its id and secret, and the address that manages both.

    Without a `token`, the function issues one. If the addresses are too long for a token, the client can't manage the
    registration.

    Source: RFC 7591 section 3.2.1, RFC 7592 section 3.
    """
    client_id = registration.client_id
    token = token or issue_registration_token(services.signing, registration)
    is_confidential = registration.method != "none"
    return {
        "client_id": client_id,
        "client_id_issued_at": registration.issued_at,
        "redirect_uris": list(registration.redirect_uris),
        "grant_types": list(GRANT_TYPES),
        "response_types": ["code"],
        "token_endpoint_auth_method": registration.method,
        "client_name": registration.name or None,
        "client_secret": services.signing.client_secret(client_id) if is_confidential else None,
        # Required beside a secret; 0 means never (RFC 7591, 3.2.1).
        "client_secret_expires_at": 0 if is_confidential else None,
        "registration_client_uri": f"{origin}{REGISTER_PATH}/{client_id}" if token else None,
        "registration_access_token": token or None,
    }


def issue_registration_token(signing: OAuthSigner, registration: Registration) -> str:
    """Return the token with which a client manages its registration; empty if the addresses are too long for it.

    The token contains the addresses, of which the client id has only fingerprints. The server does not store it.
    """
    facts = [short_id(registration.client_id), registration.issued_at, list(registration.redirect_uris)]
    token = signing.registrations.seal(facts)
    return token if len(token) <= LONGEST_TOKEN else ""
