"""The metadata that a client states about itself: in a registration, or in a document at the address that is its id.

Source: RFC 7591 section 2; draft-ietf-oauth-client-id-metadata-document, section 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from cluster.addresses.ssrf_guard import find_host
from cluster.records.archive.archive_client import AuthMethod
from deployments.archive.oauth.client_identity.assertions import ALGORITHMS, read_keys
from deployments.archive.oauth.client_identity.clients import LONGEST_NAME, METHODS, OAuthClient, clean_name
from deployments.archive.oauth.redirects import find_fault, fingerprint, is_loopback_target
from deployments.archive.oauth.replies import OAuthError

MOST_REDIRECTS = 20


def read_metadata(given: Mapping[str, Any]) -> tuple[str, AuthMethod, list[str]]:
    """Return name, method and redirect addresses of a registration.

    Errors:
        OAuthError: a member can't be registered
    """
    name = _name(given)
    method = _method(given)
    redirect_uris = _redirects(given)
    _check_grants(given, "grant_types", "authorization_code")
    _check_grants(given, "response_types", "code")
    return name, method, redirect_uris


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """A client as its document describes it."""

    client: OAuthClient
    keys_address: str = ""
    "Where the keys of a client that signs are; empty: the document holds them, or the client is public."
    algorithm: str = ""
    "The only signature of a client that signs; empty: the document names none."


def read_client_document(address: str, body: bytes) -> ClientDocument:
    """Return the client that a document at its address describes.

    Errors:
        OAuthError: the document describes no client that may connect; the description says why
    """
    given = read_object(body)
    # Byte for byte, so that no document speaks for another address.
    if given.get("client_id") != address:
        raise OAuthError("invalid_client_metadata", "client_id is not the address of the document")
    if {"client_secret", "client_secret_expires_at"} & given.keys():
        raise OAuthError("invalid_client_metadata", "a document that anybody can read holds a client_secret")
    method = given.get("token_endpoint_auth_method")
    if method not in (None, "none", "private_key_jwt"):
        raise OAuthError("invalid_client_metadata", "token_endpoint_auth_method is none or private_key_jwt")
    name = _name(given)
    if not name:
        raise OAuthError("invalid_client_metadata", "client_name is missing")
    redirect_uris = _redirects(given)
    _check_grants(given, "grant_types", "authorization_code")
    keys, keys_address, algorithm = _keys(given) if method == "private_key_jwt" else ("", "", "")
    client = OAuthClient(
        address,
        name,
        method or "none",
        frozenset(map(fingerprint, redirect_uris)),
        host=find_host(address),
        is_loopback_only=all(map(is_loopback_target, redirect_uris)),
        keys=keys,
    )
    return ClientDocument(client, keys_address, algorithm)


def _keys(given: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the keys in a document or their address, and the only algorithm of the client."""
    algorithm = given.get("token_endpoint_auth_signing_alg") or ""
    if algorithm and algorithm not in ALGORITHMS:
        raise OAuthError(
            "invalid_client_metadata", f"token_endpoint_auth_signing_alg is one of {', '.join(ALGORITHMS)}"
        )
    address = given.get("jwks_uri")
    if (address is None) == (given.get("jwks") is None):
        raise OAuthError("invalid_client_metadata", "private_key_jwt needs either jwks or jwks_uri")
    if address is None:
        return read_keys(given["jwks"], algorithm), "", algorithm
    if not isinstance(address, str):
        raise OAuthError("invalid_client_metadata", "jwks_uri is not a text")
    return "", address, algorithm


def read_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a registration.

    Errors:
        OAuthError: the body is not JSON, or not an object
    """
    try:
        # Deep nesting raises `RecursionError`, which is no `ValueError`.
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise OAuthError("invalid_client_metadata", "the body is not JSON") from error
    if not isinstance(value, dict):
        raise OAuthError("invalid_client_metadata", "the body is not a JSON object")
    return value


def _name(given: Mapping[str, Any]) -> str:
    name = given.get("client_name")
    if name is None:
        return ""
    if not isinstance(name, str):
        raise OAuthError("invalid_client_metadata", "client_name is not a text")
    if len(name) > LONGEST_NAME:
        raise OAuthError("invalid_client_metadata", f"client_name is longer than {LONGEST_NAME} characters")
    return clean_name(name)


def _method(given: Mapping[str, Any]) -> AuthMethod:
    method = given.get("token_endpoint_auth_method")
    if method is None:
        # PKCE binds every exchange. A secret that any client may request would add no protection.
        return "none"
    if method not in METHODS:
        raise OAuthError(
            "invalid_client_metadata", f"token_endpoint_auth_method is one of {', '.join(METHODS)}"
        )
    return cast(AuthMethod, method)


def _redirects(given: Mapping[str, Any]) -> list[str]:
    uris = given.get("redirect_uris")
    if not isinstance(uris, list) or not uris:
        raise OAuthError("invalid_redirect_uri", "redirect_uris is a list of at least one address")
    if len(uris) > MOST_REDIRECTS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris holds more than {MOST_REDIRECTS} addresses")
    for uri in uris:
        fault = find_fault(uri)
        if fault:
            raise OAuthError("invalid_redirect_uri", fault)
    return uris


def _check_grants(given: Mapping[str, Any], member: str, required: str) -> None:
    named = given.get(member)
    if named is not None and (not isinstance(named, list) or required not in named):
        raise OAuthError("invalid_client_metadata", f"{member} has to hold {required}")
