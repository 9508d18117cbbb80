"""What a document at the address of a client may say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployments.archive.oauth.client_identity.metadata_validation import read_client_document
from deployments.archive.oauth.replies import OAuthError
from tests.fakes.document_host import a_document

ADDRESS = "https://app.example.com/client.json"


def read(**more: Any) -> Any:
    return read_client_document(ADDRESS, json.dumps(a_document(ADDRESS, **more)).encode()).client


def test_a_document_describes_a_public_client() -> None:
    client = read(
        scope="openid", application_type="native", logo_uri="https://evil.example/", response_types=["token"],
        grant_types=["authorization_code", "urn:foreign"], token_endpoint_auth_method="none", x=1,
    )  # fmt: skip
    assert (client.client_id, client.name, client.method) == (ADDRESS, "Reader", "none")
    assert client.host == "app.example.com"
    assert client.is_loopback_only


@pytest.mark.parametrize("uri", ["http://localhost/callback", "http://localhost:1/callback"])
def test_a_loopback_redirect_matches_with_any_port(uri: str) -> None:
    client = read(redirect_uris=[uri])
    assert client.allows("http://localhost:50123/callback")
    assert client.allows("http://localhost/callback")
    assert not client.allows("http://127.0.0.1/callback")
    assert not client.allows("http://localhost/callback/")


def test_a_document_with_any_other_redirect_is_not_for_loopback_only() -> None:
    mixed = read(redirect_uris=["http://localhost/callback", "https://app.example.com/callback"])
    assert not mixed.is_loopback_only
    assert not read(redirect_uris=["cursor://anysphere.cursor-mcp/oauth"]).is_loopback_only


@pytest.mark.parametrize(
    "more",
    [
        {"client_id": None}, {"client_id": ADDRESS + "/"}, {"client_id": ADDRESS.upper()}, {"client_id": [ADDRESS]},
        {"client_name": None}, {"client_name": ""}, {"client_name": "\u200b \u202e"}, {"client_name": 7},
        {"client_name": "x" * 101}, {"redirect_uris": None}, {"redirect_uris": []}, {"redirect_uris": "http://localhost/"},
        {"redirect_uris": [7]}, {"redirect_uris": ["http://localhost/cb"] * 21},
        {"redirect_uris": ["https://app.example.com/cb", "javascript:alert(1)"]},
        {"redirect_uris": ["http://app.example.com/cb"]}, {"redirect_uris": ["https://app.example.com/cb#x"]},
        {"client_secret": "s"}, {"client_secret": ""}, {"client_secret_expires_at": 0},
        {"token_endpoint_auth_method": "client_secret_basic"}, {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "client_secret_jwt"}, {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": ["none"]}, {"token_endpoint_auth_method": "private_key_jwt"},
        {"grant_types": ["client_credentials"]}, {"grant_types": []},
        {"grant_types": "authorization_code"},
    ],
)  # fmt: skip
def test_documents_that_describe_no_client(more: dict[str, Any]) -> None:
    with pytest.raises(OAuthError):
        read(**more)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b"\xff",
        b"[" * 9_000,
        b'{"client_id": NaN}',
        b"<html>",
        b"1" * 9_000,
    ],
)
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(OAuthError):
        read_client_document(ADDRESS, body)
