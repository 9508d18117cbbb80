"""What clients find before they register; each row broke somebody who found it otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.errors import Invalid
from cluster.store.stores import Stores
from deployments.edge.http.server_origin import ServerOrigin
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import ISSUER, ORIGIN, RESOURCE, app_over, http_over, oauth_services
from tests.suites.manual_clock import ManualClock

RESOURCE_PATHS = (
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/",
    "/.well-known/oauth-protected-resource",
)
SERVER_PATHS = ("/.well-known/oauth-authorization-server/archive", "/.well-known/oauth-authorization-server")


def leaves(value: Any) -> Iterator[Any]:
    """Walk a document."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("path", RESOURCE_PATHS)
async def test_the_resource_describes_itself_wherever_clients_look(scene: Scene, path: str) -> None:
    answer = await scene.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["access-control-allow-origin"] == "*"
    metadata = answer.json()
    assert metadata == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "News Archive Search",
        "resource_documentation": ORIGIN + "/llms.txt",
    }


@pytest.mark.parametrize("path", SERVER_PATHS)
async def test_the_authorization_server_describes_itself(scene: Scene, path: str) -> None:
    answer = await scene.http.get(path)
    assert answer.status_code == 200
    metadata = answer.json()
    assert metadata["issuer"] == ISSUER
    assert metadata["authorization_endpoint"] == ORIGIN + "/oauth/authorize/archive"
    assert metadata["token_endpoint"] == ORIGIN + "/oauth/token"
    assert metadata["registration_endpoint"] == ORIGIN + "/oauth/register"
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["response_modes_supported"] == ["query"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert set(metadata["token_endpoint_auth_methods_supported"]) == {
        "none", "client_secret_post", "client_secret_basic",
    }  # fmt: skip
    assert "scopes_supported" not in metadata
    assert "client_id_metadata_document_supported" not in metadata


@pytest.mark.parametrize("path", RESOURCE_PATHS + SERVER_PATHS)
async def test_no_document_holds_a_null_and_head_and_preflight_work(scene: Scene, path: str) -> None:
    assert None not in list(leaves((await scene.http.get(path)).json()))
    head = await scene.http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    asking = {"origin": "https://inspector.example", "access-control-request-method": "GET"}
    preflight = await scene.http.options(
        path, headers={**asking, "access-control-request-headers": "mcp-protocol-version"}
    )
    assert preflight.status_code == 204
    assert "MCP-Protocol-Version" in preflight.headers["access-control-allow-headers"]
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused = await scene.http.request(method, path)
        assert refused.status_code == 405
        assert "GET" in refused.headers["allow"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28", "nonsense"])
async def test_oauth_endpoints_ignore_the_protocol_version(scene: Scene, version: str) -> None:
    answer = await scene.http.get(RESOURCE_PATHS[0], headers={"mcp-protocol-version": version})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/archive",
        "/archive/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-protected-resource/other",
        "/register",
    ],
)
async def test_unknown_paths_answer_404(scene: Scene, path: str) -> None:
    assert (await scene.http.get(path)).status_code == 404


@pytest.mark.parametrize("header", ["host", "x-forwarded-host", "forwarded"])
async def test_no_header_changes_a_configured_address(scene: Scene, header: str) -> None:
    poison = "host=evil.example" if header == "forwarded" else "evil.example"
    for path in RESOURCE_PATHS + SERVER_PATHS:
        answer = await scene.http.get(path, headers={header: poison, "x-forwarded-proto": "http"})
        assert "evil" not in answer.text
        assert ORIGIN in answer.text


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:8000", "http://localhost:8000"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("localhost", "http://localhost"),
        ("evil.example", "http://127.0.0.1:8000"),
        ("localhost.evil.example:8000", "http://127.0.0.1:8000"),
        ("127.0.0.1@evil.example", "http://127.0.0.1:8000"),
        ("192.168.0.7:8000", "http://127.0.0.1:8000"),
        ("", "http://127.0.0.1:8000"),
    ],
)
async def test_without_a_configured_address_only_loopback_is_believed(
    memory_stores: Stores, host: str, origin: str
) -> None:
    app = app_over(oauth_services(memory_stores, ManualClock(), public_url=""))
    async with http_over(app, "http://x") as http:
        metadata = (await http.get(RESOURCE_PATHS[0], headers={"host": host})).json()
    assert metadata["resource"] == origin + "/mcp"
    assert metadata["authorization_servers"] == [origin + "/archive"]


def test_where_the_doors_listen_is_the_address_of_last_resort() -> None:
    assert (
        ServerOrigin.from_config("", host="0.0.0.0", port=9).origin_for_host("news") == "http://127.0.0.1:9"
    )
    assert ServerOrigin.from_config("", host="::1", port=9).origin_for_host("news") == "http://[::1]:9"
    assert (
        ServerOrigin.from_config("", host="localhost", port=9).origin_for_host("news") == "http://localhost:9"
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://news.example.com", "http://127.0.0.1.evil.example", "ftp://news.example.com", "news.example.com",
        "https://news.example.com/archive", "https://ida@news.example.com",
    ],
)  # fmt: skip
def test_a_plain_address_beyond_loopback_is_refused(address: str) -> None:
    with pytest.raises(Invalid):
        ServerOrigin.from_config(address)
