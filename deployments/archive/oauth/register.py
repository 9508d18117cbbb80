"""Dynamic client registration that keeps nothing: the id is the registration.

Source: RFC 7591.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import structlog
from starlette.requests import Request
from starlette.responses import Response

from deployments.archive.oauth.clients import LONGEST_NAME, METHODS, Method, clean_name, mint_client, short_id
from deployments.archive.oauth.forms import body_of
from deployments.archive.oauth.means import OAuthMeans
from deployments.archive.oauth.metadata import GRANT_TYPES
from deployments.archive.oauth.redirects import fault_of
from deployments.archive.oauth.replies import NO_STORE, Refused, answer

MOST_REDIRECTS = 20

_log = structlog.get_logger()


class Register:
    """Registers clients."""

    def __init__(self, means: OAuthMeans) -> None:
        self._means = means

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._means.knock(request, "register", self._means.limits.registrations)
        return self._register(_object(await body_of(request, self._means.limits.body_s)))

    def _register(self, given: Mapping[str, Any]) -> Response:
        name, method, redirect_uris = _name(given), _method(given), _redirects(given)
        _check_grants(given)
        client = mint_client(self._means.signing, name, method, redirect_uris)
        document: dict[str, Any] = {
            "client_id": client.client_id,
            "client_id_issued_at": self._means.clock.now_ms() // 1000,
            "redirect_uris": redirect_uris,
            "grant_types": list(GRANT_TYPES),
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "client_name": name or None,
        }
        if method != "none":
            document["client_secret"] = self._means.signing.client_secret(client.client_id)
            document["client_secret_expires_at"] = 0
        _log.debug("client_registered", client=short_id(client.client_id), method=method)
        return answer(document, 201, NO_STORE)


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused("invalid_client_metadata", "the body is not JSON") from error
    if not isinstance(value, dict):
        raise Refused("invalid_client_metadata", "the body is not a JSON object")
    return value


def _name(given: Mapping[str, Any]) -> str:
    name = given.get("client_name")
    if name is None:
        return ""
    if not isinstance(name, str):
        raise Refused("invalid_client_metadata", "client_name is not a text")
    if len(name) > LONGEST_NAME:
        raise Refused("invalid_client_metadata", f"client_name is longer than {LONGEST_NAME} characters")
    return clean_name(name)


def _method(given: Mapping[str, Any]) -> Method:
    method = given.get("token_endpoint_auth_method")
    if method is None:
        # Every exchange is bound by PKCE, and a secret that anybody may fetch would protect nothing more.
        return "none"
    if method not in METHODS:
        raise Refused("invalid_client_metadata", f"token_endpoint_auth_method is one of {', '.join(METHODS)}")
    return cast(Method, method)


def _redirects(given: Mapping[str, Any]) -> list[str]:
    uris = given.get("redirect_uris")
    if not isinstance(uris, list) or not uris:
        raise Refused("invalid_redirect_uri", "redirect_uris is a list of at least one address")
    if len(uris) > MOST_REDIRECTS:
        raise Refused("invalid_redirect_uri", f"redirect_uris holds more than {MOST_REDIRECTS} addresses")
    for uri in uris:
        fault = fault_of(uri)
        if fault:
            raise Refused("invalid_redirect_uri", fault)
    return uris


def _check_grants(given: Mapping[str, Any]) -> None:
    for member, wanted in (("grant_types", "authorization_code"), ("response_types", "code")):
        named = given.get(member)
        if named is not None and (not isinstance(named, list) or wanted not in named):
            raise Refused("invalid_client_metadata", f"{member} has to hold {wanted}")
