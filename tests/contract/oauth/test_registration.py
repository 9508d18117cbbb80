"""Dynamic registration: what real clients send, what nobody may register, and that nothing is kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import CALLBACK, ORIGIN

PY = {
    "response_types": ["code"], "client_name": "py", "redirect_uris": ["http://localhost:42095/callback"],
    "token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"],
    "application_type": "native",
}  # fmt: skip
REMOTE = {
    **PY, "scope": "openid email profile", "software_id": "2e6d", "software_version": "0.1",
    "client_uri": "https://github.com/x",
}  # fmt: skip
INSPECTOR = {**PY, "scope": "", "redirect_uris": ["http://127.0.0.1:6276/oauth/callback"]}
TS = {"redirect_uris": ["http://localhost:8090/callback"], "client_name": "ts"}


@pytest.mark.parametrize("sent", [PY, REMOTE, INSPECTOR, TS])
async def test_real_clients_get_an_id_and_what_they_sent_back(scene: Scene, sent: dict[str, Any]) -> None:
    answer = await scene.http.post("/oauth/register", json=sent)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    registration = answer.json()
    assert None not in registration.values()
    assert registration["redirect_uris"] == sent["redirect_uris"]
    assert registration["token_endpoint_auth_method"] == "none"
    assert registration["grant_types"] == ["authorization_code", "refresh_token"]
    assert registration["response_types"] == ["code"]
    assert registration["client_id_issued_at"] == scene.clock.now_ms() // 1000
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", registration["client_id"])
    assert not {"scope", "client_secret", "client_secret_expires_at", "logo_uri", "client_uri"} & set(
        registration
    )
    assert registration["registration_client_uri"] == f"{ORIGIN}/oauth/register/{registration['client_id']}"
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,4000}", registration["registration_access_token"])


async def test_every_registration_gets_a_new_client_id(scene: Scene) -> None:
    ids = [(await scene.http.post("/oauth/register", json=PY)).json()["client_id"] for _ in range(20)]
    assert len(set(ids)) == 20


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_confidential_client_gets_a_new_secret(scene: Scene, method: str) -> None:
    sent = {**PY, "token_endpoint_auth_method": method}
    first, second = [(await scene.http.post("/oauth/register", json=sent)).json() for _ in range(2)]
    assert first["token_endpoint_auth_method"] == method
    assert first["client_secret_expires_at"] == 0
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,}", first["client_secret"])
    assert (first["client_id"], first["client_secret"]) != (second["client_id"], second["client_secret"])


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback", "https://host.example:8443/cb?x=1", "https://[2001:db8::1]/cb",
        "http://localhost/cb", "http://localhost:1/cb", "http://127.0.0.1:65535/", "http://[::1]:8/cb",
        "http://localhost", "cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/x", "vscode://a.b/c",
        "https://host.example/cb?encode=1&statement=2", "https://host.example/code?x=code",
    ],
)  # fmt: skip
async def test_addresses_of_real_clients_are_taken(scene: Scene, uri: str) -> None:
    answer = await scene.program.register(redirect_uris=[CALLBACK, uri])
    assert answer.status_code == 201
    assert answer.json()["redirect_uris"] == [CALLBACK, uri]


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)", "JavaScript://x/%0aalert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd",
        "http://evil.example/cb", "http://127.0.0.1.evil.example/", "http://127.0.0.1@evil.example/",
        "http://localhost@evil.example/", "http://localhost.evil.example/", "http://evil.example:80@localhost/",
        "http://10.0.0.1/cb", "http://127.0.0.2/cb", "http://2130706433/", "http://0x7f.1/", "http://LOCALHOST\\@x/",
        "https://host.example/cb#fragment", "https://user@host.example/", "https://user:pw@host.example/",
        "https://host.example\\@evil.example/", "https://host.example/\ncb", "https://host.example/ cb",
        "https://host.example/\x00", "/relative", "//host.example/cb", "host.example/cb", "https:host.example",
        "https:///cb", "https://", "https://*.example/cb", "https://host.example/*", "*", "", "app:x", "a b:/x",
        "https://host.example:99999/", "https://ex\u00e4mple.com/", "http://localhost:port/", "blob:https://x/y",
        "view-source:https://x/", "ms-msdt:/id", "urn:ietf:wg:oauth:2.0:oob", "app://user@host/", "mailto:/x",
        "https://host.example/" + "a" * 3000, 7, None, ["https://host.example/"], "https://a.example/<script>",
        "https://[zz]/cb", "https://[1:2/cb", "app://[zz]/cb", "c:/windows", "https://host.example/cb?code=1",
        "https://host.example/cb?a=1&state", "app:/x?iss=https://host.example", "http://localhost/cb?error=x",
    ],
)  # fmt: skip
async def test_addresses_that_lead_astray_are_refused(scene: Scene, uri: Any) -> None:
    for uris in ([uri], [CALLBACK, uri]):
        answer = await scene.http.post("/oauth/register", json={**PY, "redirect_uris": uris})
        assert answer.status_code == 400
        assert answer.json()["error"] == "invalid_redirect_uri"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://host.example/"}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"https://host.example/{n}" for n in range(21)]}, "invalid_redirect_uri"),
        ({"client_name": 5}, "invalid_client_metadata"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": ["none"]}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
    ],
)
async def test_nonsense_is_refused(scene: Scene, change: dict[str, Any], error: str) -> None:
    answer = await scene.http.post("/oauth/register", json={**PY, **change})
    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"7", b'"x"', b"null", b"\xff\xfe", b"[" * 15_000, b'{"redirect_uris": NaN',
        b'{"a":' * 3000, b'{"redirect_uris": [' + b"1" * 5000 + b"]}",
    ],
)  # fmt: skip
async def test_bodies_that_are_no_object_are_refused(scene: Scene, body: bytes) -> None:
    answer = await scene.http.post("/oauth/register", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri")


async def test_a_body_over_20_kb_is_refused_while_it_arrives(scene: Scene) -> None:
    big = json.dumps({**PY, "padding": "x" * 20_000}).encode()
    answer = await scene.http.post("/oauth/register", content=big)
    assert answer.status_code == 413

    async def trickle() -> Any:
        for _ in range(30):
            yield b"x" * 1000

    assert (await scene.http.post("/oauth/register", content=trickle())).status_code == 413
    zipped = await scene.http.post("/oauth/register", content=b"x", headers={"content-encoding": "gzip"})
    assert zipped.status_code == 400


async def test_an_id_stays_short_whatever_is_registered(scene: Scene) -> None:
    uris = [f"https://host.example/{n}/" + "p" * 900 for n in range(20)]
    answer = await scene.program.register(redirect_uris=uris, client_name="\U0001f9d1" * 100)
    assert answer.status_code == 201
    assert len(answer.json()["client_id"]) < 2500
    ordinary = await scene.program.register()
    assert len(ordinary.json()["client_id"]) < 120


async def test_a_hostile_name_is_cleaned_and_nothing_else_of_it_is_kept(scene: Scene) -> None:
    sent = {
        **PY, "client_name": "Cla\u202eude\u0000\u200b \n\t <b>x</b>\ud800", "logo_uri": "http://169.254.169.254/",
        "client_uri": "javascript:alert(1)", "policy_uri": "file:///etc/passwd", "jwks_uri": "http://10.0.0.1/",
    }  # fmt: skip
    registration = (await scene.http.post("/oauth/register", content=json.dumps(sent).encode())).json()
    assert registration["client_name"] == "Claude <b>x</b>"
    assert "169.254" not in json.dumps(registration)


async def test_other_methods_are_refused_and_browsers_may_ask(scene: Scene) -> None:
    for path in ("/oauth/register", "/oauth/token", "/oauth/revoke"):
        for method in ("GET", "PUT", "DELETE", "HEAD", "OPTIONS"):
            refused = await scene.http.request(method, path)
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        asking = {"origin": "https://x.example", "access-control-request-method": "POST"}
        assert (await scene.http.options(path, headers=asking)).status_code == 204
