"""The two metadata documents that clients load first: of the protected resource and of the authorization server.

Source: RFC 9728 section 2, RFC 8414 section 2, RFC 9207 section 3.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from deployments.archive.oauth.addresses import (
    AUTHORIZE_PATH,
    REGISTER_PATH,
    REVOKE_PATH,
    TOKEN_PATH,
    issuer_of,
    resource_of,
)
from deployments.archive.oauth.client_identity.assertions import ALGORITHMS
from deployments.archive.oauth.client_identity.clients import METHODS
from deployments.archive.oauth.replies import OAuthError, render_document
from deployments.archive.oauth.services import OAuthServices

GRANT_TYPES = ("authorization_code", "refresh_token")
# Without a configured address, the origin follows the name of loopback in `Host`.
_KEPT = {"cache-control": "public, max-age=300", "vary": "host"}


def build_resource_document(origin: str, title: str, archive_id: str = "") -> dict[str, Any]:
    """Return the metadata of the resource of an archive, with the server that issues its tokens."""
    resource = resource_of(origin, archive_id)
    return {
        "resource": resource,
        "authorization_servers": [issuer_of(origin)],
        "bearer_methods_supported": ["header"],
        "resource_name": title,
        "resource_documentation": f"{resource if archive_id else origin}/llms.txt",
    }


def build_server_document(origin: str, *, has_documents: bool = False) -> dict[str, Any]:
    """Return the metadata of the authorization server; `has_documents`: it accepts metadata documents of clients."""
    methods = [*METHODS, *(["private_key_jwt"] if has_documents else [])]
    algorithms = list(ALGORITHMS) if has_documents else None
    return {
        "issuer": issuer_of(origin),
        "authorization_endpoint": origin + AUTHORIZE_PATH,
        "token_endpoint": origin + TOKEN_PATH,
        "registration_endpoint": origin + REGISTER_PATH,
        "revocation_endpoint": origin + REVOKE_PATH,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{origin}/llms.txt",
        # Clients that read this register no more, so it is absent until an operator turns it on.
        "client_id_metadata_document_supported": True if has_documents else None,
    }


class MetadataEndpoint:
    """Answers requests for one of the documents."""

    def __init__(self, services: OAuthServices, kind: str) -> None:
        self._services = services
        self._kind = kind

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        origin = self._services.origin(request)
        if self._kind == "resource":
            archive_id = request.path_params.get("archive", "")
            title = self._services.find_title(archive_id)
            if title is None:
                raise OAuthError("invalid_request", "there is no such archive", 404)
            return render_document(build_resource_document(origin, title, archive_id), headers=_KEPT)
        document = build_server_document(origin, has_documents=self._services.documents.is_on)
        return render_document(document, headers=_KEPT)
