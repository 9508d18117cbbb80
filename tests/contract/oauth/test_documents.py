"""Clients that connect by the address of their metadata document, over a real HTTPS host."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from cluster.errors import Invalid
from cluster.store.stores import Stores
from deployments.archive.oauth.client_identity import document_clients
from deployments.archive.oauth.client_identity.document_clients import DocumentClients, read_pinned_documents
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    ISSUER,
    ORIGIN,
    Person,
    Program,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
    read_page,
    visible,
)
from tests.fakes.certificates import Authority
from tests.fakes.document_host import JSON_HEAD, PUBLIC, DocumentHost, a_document, reply
from tests.suites.manual_clock import ManualClock

AUTHORIZE = "/oauth/authorize/archive"
ADDRESS = "https://app.example.com/client.json"
LOCAL = "http://localhost:8000"


@pytest.fixture
def host(trusted_authority: Authority) -> Iterator[DocumentHost]:
    with closing(DocumentHost(trusted_authority)) as host:
        yield host


OpenScene = Callable[..., Scene]


@pytest.fixture
async def open_scene(memory_stores: Stores, host: DocumentHost) -> AsyncIterator[OpenScene]:
    """Opens an archive that accepts documents, with one reader."""
    await memory_stores.accounts.add(an_account())
    await memory_stores.accounts.add(an_account("bob"))
    opened: list[httpx.AsyncClient] = []

    def open_scene(
        mode: str = "fetch", public_url: str = ORIGIN, pinned: dict[str, Any] | None = None, **client: Any
    ) -> Scene:
        clock = ManualClock()
        documents = DocumentClients(mode, pinned or {}, clock, host.client(**client))
        services = oauth_services(memory_stores, clock, public_url=public_url, documents=documents)
        app = app_over(services)
        opened.extend([http_over(app, public_url), http_over(app, public_url)])
        return Scene(clock, services, app, opened[-2], Person(opened[-1]), Program(opened[-2], ADDRESS))

    yield open_scene
    for http in opened:
        await http.aclose()


@pytest.fixture
def scene(open_scene: OpenScene) -> Scene:
    """An archive that fetches documents."""
    return open_scene()


async def consent(scene: Scene, **asks: str | None) -> httpx.Response:
    """Lead the person to whatever stands behind the sign-in."""
    page = await scene.person.open(AUTHORIZE, **scene.program.asks(**asks))
    return await scene.person.sign_in() if 'name="password"' in page.text else page


async def allow(scene: Scene) -> str:
    """Let the person allow the client; return its code."""
    await consent(scene)
    return answer_of(await scene.person.press("allow"))["code"]


def assert_refused(page: httpx.Response, text: str) -> None:
    """Every refusal is a page with 400, and no redirect."""
    assert page.status_code == 400, page.text
    assert page.headers["content-type"].startswith("text/html")
    assert "location" not in page.headers
    assert text in visible(page.text), visible(page.text)


# --- the switch ------------------------------------------------------------------------------------------------


async def test_metadata_names_documents_only_while_they_are_accepted(open_scene: OpenScene) -> None:
    path = "/.well-known/oauth-authorization-server/archive"
    off, on = [(await open_scene(mode).http.get(path)).json() for mode in ("off", "fetch")]
    algorithms = on.pop("token_endpoint_auth_signing_alg_values_supported")
    assert on.pop("revocation_endpoint_auth_signing_alg_values_supported") == algorithms
    assert "RS256" in algorithms
    assert not {"none", "HS256"} & set(algorithms)
    for name in ("token_endpoint", "revocation_endpoint"):
        methods = on[f"{name}_auth_methods_supported"]
        assert methods.pop() == "private_key_jwt"
    assert on.pop("client_id_metadata_document_supported") is True
    assert on == off


async def test_an_address_is_an_unknown_client_while_documents_are_off(
    open_scene: OpenScene, host: DocumentHost
) -> None:
    scene = open_scene("off")
    host.serve(ADDRESS)
    assert_refused(await scene.person.open(AUTHORIZE, **scene.program.asks()), "not registered here")
    answer = await scene.program.redeem("x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert host.connected == []


async def test_registered_clients_connect_as_before(scene: Scene, host: DocumentHost) -> None:
    await scene.program.register()
    assert (await scene.program.redeem(await scene.code())).status_code == 200
    assert host.connected == []


# --- the whole way ---------------------------------------------------------------------------------------------


async def test_a_client_connects_by_its_document(scene: Scene, host: DocumentHost) -> None:
    host.serve(ADDRESS)
    page = await consent(scene)
    assert page.status_code == 200, page.text
    text = visible(page.text)
    assert "app.example.com wants to use the archive" in text
    assert "It calls itself Reader ; nobody has checked that name" in text
    assert "localhost:33418" in text
    code = answer_of(await scene.person.press("allow"))["code"]
    tokens = (await scene.program.redeem(code)).json()
    assert await scene.program.use(tokens["access_token"]) == 200
    refreshed = (await scene.program.refresh(tokens["refresh_token"])).json()
    assert await scene.program.use(refreshed["access_token"]) == 200
    assert len(host.requests) == 1, "token, refresh and resource use what the code and tokens carry"


async def test_the_request_carries_nothing_of_a_person(scene: Scene, host: DocumentHost) -> None:
    await consent(scene, client_id=host.serve(ADDRESS + "?v=1"))
    lines = host.requests[0].decode().split("\r\n")
    assert lines[0] == "GET /client.json?v=1 HTTP/1.1"
    assert sorted(line.lower() for line in lines[1:] if line) == [
        "accept-encoding: identity", "accept: application/json", "connection: close", "host: app.example.com",
        "user-agent: kiosk",
    ]  # fmt: skip


async def test_a_loopback_redirect_may_have_any_port(scene: Scene, host: DocumentHost) -> None:
    host.serve(ADDRESS, redirect_uris=["http://127.0.0.1/cb"])
    scene.program.callback = "http://127.0.0.1:50123/cb"
    assert (await consent(scene)).status_code == 200
    assert (await scene.person.press("allow")).headers["location"].startswith(scene.program.callback)


@pytest.mark.parametrize(
    ("redirects", "is_warned"),
    [
        (["http://localhost/callback"], True),
        (["http://localhost/callback", "https://app.example.com/cb"], False),
    ],
)
async def test_only_documents_of_loopback_redirects_get_a_warning(
    scene: Scene, host: DocumentHost, redirects: list[str], is_warned: bool
) -> None:
    host.serve(ADDRESS, redirect_uris=redirects)
    page = await consent(scene)
    assert ("Any program on this device" in visible(page.text)) == is_warned


async def test_the_page_escapes_the_texts_of_a_document(open_scene: OpenScene, host: DocumentHost) -> None:
    host.serve(ADDRESS, client_name="<img src=x onerror=alert(1)>{{7*7}}")
    page = await consent(open_scene())
    assert not [tag for tag, _ in read_page(page.text).tags if tag == "img"]
    assert "{{7*7}}" in page.text


async def test_each_request_shows_a_consent_page_with_the_hosts_of_that_moment(
    scene: Scene, host: DocumentHost
) -> None:
    host.serve(ADDRESS, redirect_uris=["https://app.example.com/cb"])
    scene.program.callback = "https://app.example.com/cb"
    assert "trust app.example.com" in visible((await consent(scene)).text)
    await scene.person.press("allow")
    host.serve(ADDRESS, redirect_uris=["https://moved.example.com/cb"])
    scene.clock.advance(61_000)
    assert_refused(await consent(scene), "wants the answer at an address it did not register")
    scene.program.callback = "https://moved.example.com/cb"
    page = await consent(scene)
    assert "allow" in read_page(page.text).decisions
    assert "trust moved.example.com" in visible(page.text)


async def test_the_list_shows_and_ends_clients_by_host(scene: Scene, host: DocumentHost) -> None:
    host.serve(ADDRESS)
    tokens = (await scene.program.redeem(await allow(scene))).json()
    text = visible((await scene.person.open("/oauth/authorize/clients")).text)
    assert "app.example.com calls itself Reader at localhost:33418" in text
    await scene.person.press("end")
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    answer = await scene.program.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def test_a_code_belongs_to_the_address_that_was_allowed(scene: Scene, host: DocumentHost) -> None:
    host.serve(ADDRESS)
    code = await allow(scene)
    answer = await scene.program.redeem(code, client_id="https://other.example.com/client.json")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert (await scene.program.redeem(code)).status_code == 400, "a failed attempt burns the code"


# --- clients that sign -----------------------------------------------------------------------------------------

KEY = RSAKey.generate_key(2048)
KEY_SET = {"keys": [KEY.as_dict(private=False)]}
SIGNING = {"token_endpoint_auth_method": "private_key_jwt"}


def assertion(scene: Scene, jti: str, key: RSAKey = KEY, **claims: Any) -> dict[str, str]:
    """Sign an assertion of the client."""
    now_s = scene.clock.now_ms() // 1000
    body = {"iss": ADDRESS, "sub": ADDRESS, "aud": ISSUER, "exp": now_s + 60, "jti": jti, **claims}
    return {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": jwt.encode({"alg": "RS256"}, body, key),
    }


@pytest.mark.parametrize("keys", ["jwks", "jwks_uri"])
async def test_a_client_that_signs_connects(scene: Scene, host: DocumentHost, keys: str) -> None:
    place = host.serve("https://other.example.com/keys.json", KEY_SET)
    host.serve(ADDRESS, **SIGNING, **{keys: KEY_SET if keys == "jwks" else place})
    code = await allow(scene)
    fetched = len(host.requests)
    for refused in (
        {},
        assertion(scene, "x", RSAKey.generate_key(2048)),
        {**assertion(scene, "x"), "client_assertion_type": "x"},
    ):
        answer = await scene.program.redeem(code, **refused)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    tokens = (await scene.program.redeem(code, client_id=None, **assertion(scene, "1"))).json()
    assert await scene.program.use(tokens["access_token"]) == 200
    assert (await scene.program.refresh(tokens["refresh_token"])).status_code == 401
    used = await scene.program.refresh(tokens["refresh_token"], **assertion(scene, "1"))
    assert "used before" in used.json()["error_description"]
    endpoint = assertion(scene, "2", aud=f"{ORIGIN}/oauth/token")
    tokens = (await scene.program.refresh(tokens["refresh_token"], **endpoint)).json()
    revocation = {"token": tokens["refresh_token"], "client_id": ADDRESS}
    assert (await scene.http.post("/oauth/revoke", data=revocation)).status_code == 401
    assert (
        await scene.http.post("/oauth/revoke", data={**revocation, **assertion(scene, "3")})
    ).status_code == 200
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    assert len(host.requests) == fetched, "the code and the grant hold the keys"


async def test_parallel_uses_of_one_assertion_yield_one_answer(scene: Scene, host: DocumentHost) -> None:
    host.serve(ADDRESS, jwks=KEY_SET, **SIGNING)
    code = await allow(scene)
    tokens = (await scene.program.redeem(code, **assertion(scene, "1"))).json()
    proof = assertion(scene, "2")
    answers = await asyncio.gather(
        *(scene.program.refresh(tokens["refresh_token"], **proof) for _ in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 7


async def test_an_assertion_does_not_replace_the_code_of_its_client(scene: Scene, host: DocumentHost) -> None:
    for grant in ("authorization_code", "refresh_token"):
        data = {"grant_type": grant, "code": "x", "refresh_token": "x", **assertion(scene, grant)}
        answer = await scene.http.post("/oauth/token", data=data)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert host.connected == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "needs either jwks or jwks_uri"),
        ({"jwks": KEY_SET, "jwks_uri": "https://other.example.com/keys.json"}, "needs either jwks or jwks_uri"),
        ({"jwks": {"keys": [{"kty": "oct", "k": "eA"}]}}, "no public key"),
        ({"jwks_uri": 7}, "jwks_uri is not a text"),
        ({"jwks_uri": "http://other.example.com/keys.json"}, "has an address that is not an https address"),
        ({"jwks_uri": "https://127.1/keys.json"}, "has an address that does not name a host"),
        ({"jwks_uri": "https://inside.example.com/keys.json"}, "is not a public host"),
        ({"jwks_uri": "https://other.example.com/absent.json"}, "answers 404 instead of 200"),
        ({"jwks_uri": "https://other.example.com/empty.json"}, "no key set"),
        ({"jwks": KEY_SET, "token_endpoint_auth_signing_alg": "HS256"}, "token_endpoint_auth_signing_alg is one of"),
    ],
)  # fmt: skip
async def test_documents_of_clients_that_can_not_sign(
    open_scene: OpenScene, host: DocumentHost, more: dict[str, Any], text: str
) -> None:
    host.serve(
        "https://other.example.com/empty.json",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/jwk-set+json\r\n\r\n{}",
    )
    host.serve(ADDRESS, **SIGNING, **more)
    scene = open_scene(look_up=lambda name, port: ["10.0.0.1"] if name.startswith("inside") else [PUBLIC])
    assert_refused(await consent(scene), text)
    assert set(host.connected) == {PUBLIC}


async def test_document_and_keys_share_one_deadline(open_scene: OpenScene, host: DocumentHost) -> None:
    def late(secured: Any) -> None:
        host.is_closing.wait(0.7)
        secured.sendall(reply(KEY_SET))

    def late_document(secured: Any) -> None:
        host.is_closing.wait(0.7)
        secured.sendall(reply(a_document(ADDRESS, jwks_uri="https://other.example.com/k", **SIGNING)))

    host.serve(ADDRESS, late_document)
    host.serve("https://other.example.com/k", late)
    assert_refused(await consent(open_scene(within_s=1.0)), "does not answer in time")


def test_a_pinned_client_that_signs_brings_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "pinned.json"
    path.write_text(json.dumps(a_document(ADDRESS, jwks=KEY_SET, **SIGNING)))
    assert read_pinned_documents(path)[ADDRESS].keys
    path.write_text(json.dumps(a_document(ADDRESS, jwks_uri="https://other.example.com/k", **SIGNING)))
    with pytest.raises(Invalid, match="put its keys into jwks"):
        read_pinned_documents(path)


# --- nobody signed in ------------------------------------------------------------------------------------------


async def test_a_visitor_makes_the_server_fetch_nothing_and_go_nowhere(
    scene: Scene, host: DocumentHost
) -> None:
    host.serve(ADDRESS)
    for asks in (
        {},
        {"redirect_uri": "https://evil.example/"},
        {"response_type": "token"},
        {"code_challenge": None},
    ):
        page = await scene.person.open(AUTHORIZE, **scene.program.asks(**asks))
        assert page.status_code == 200
        assert "to connect app.example.com with the archive" in visible(page.text)
    declined = await scene.person.press("deny")
    assert "location" not in declined.headers
    assert "Nothing was connected" in visible(declined.text)
    for method in ("token", "revoke"):
        await scene.http.post(f"/oauth/{method}", data={"client_id": ADDRESS, "token": "x", "code": "x"})
    await scene.program.redeem("x")
    await scene.program.refresh("x")
    assert await scene.program.use("x") == 401
    assert host.connected == []


async def test_a_wrong_password_fetches_nothing(scene: Scene, host: DocumentHost) -> None:
    scene.person.password = "wrong horse battery"
    page = await consent(scene)
    assert 'name="password"' in page.text
    assert "app.example.com" in visible(page.text)
    assert host.connected == []


async def test_a_request_with_a_doubled_parameter_does_not_wait_for_a_sign_in(scene: Scene) -> None:
    address = str(scene.http.build_request("GET", AUTHORIZE, params=scene.program.asks()).url)
    assert_refused(await scene.person.open(address + "&state=2"), "repeats a parameter")
    assert_refused(await scene.person.open(address + "&x=" + "y" * 8_000), "sends too much")


# --- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "https://app.example.com", "https://app.example.com/", "https://app.example.com/x#y",
        "https://me@app.example.com/x", "https://app.example.com/a/../x", "https://app.example.com/%2E%2e/x",
        "https://2130706433/x", "https://0x7f000001/x", "https://app.example.com\\x/y", "https://" + "x" * 2000,
    ],
)  # fmt: skip
async def test_a_bad_address_is_refused_before_any_sign_in(
    scene: Scene, host: DocumentHost, address: str
) -> None:
    page = await scene.person.open(AUTHORIZE, **scene.program.asks(client_id=address))
    assert_refused(page, "The address of the application’s description")
    assert host.connected == []


INSIDE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "::1", "fc00::1", "fe80::1", "2001:db8::1",
    "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::",
]  # fmt: skip


@pytest.mark.parametrize("inside", INSIDE)
async def test_a_name_that_leads_inside_is_not_followed(
    open_scene: OpenScene, host: DocumentHost, inside: str
) -> None:
    look_ups: list[str] = []

    def look_up(name: str, port: int) -> list[str]:
        look_ups.append(name)
        return ["93.184.216.34", inside]

    host.serve(ADDRESS)
    assert_refused(await consent(open_scene(look_up=look_up)), "is not a public host")
    assert look_ups == ["app.example.com"]
    assert host.connected == []


async def test_one_look_up_decides_the_address_of_the_connection(
    open_scene: OpenScene, host: DocumentHost
) -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    host.serve(ADDRESS)
    assert (await consent(open_scene(look_up=lambda name, port: next(answers)))).status_code == 200
    assert host.connected == ["93.184.216.34"]
    assert next(answers) == ["127.0.0.1"]


async def test_loopback_is_for_servers_that_advertise_loopback(
    open_scene: OpenScene, host: DocumentHost
) -> None:
    address = host.serve(f"https://localhost:{host.port}/client.json")
    real: dict[str, Any] = {"look_up": lambda name, port: ["127.0.0.1"]}
    scene = open_scene(**real)
    assert_refused(await consent(scene, client_id=address), "is not a public host")
    scene = open_scene(public_url=LOCAL, **real)
    scene.program.callback = "http://localhost:33418/callback"
    assert (await consent(scene, client_id=address, resource=None)).status_code == 200


async def test_a_server_on_loopback_still_speaks_to_no_private_host(open_scene: OpenScene) -> None:
    scene = open_scene(public_url=LOCAL, look_up=lambda name, port: ["10.0.0.1"])
    assert_refused(await consent(scene, resource=None), "is not a public host")


async def test_the_certificate_is_checked_against_the_name(scene: Scene, host: DocumentHost) -> None:
    address = host.serve("https://foreign.example.com/client.json")
    assert_refused(await consent(scene, client_id=address), "has a certificate that is not valid")
    assert host.requests == []


async def test_a_foreign_authority_is_not_trusted(
    open_scene: OpenScene, host: DocumentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "stranger").file))
    host.serve(ADDRESS)
    assert_refused(await consent(open_scene()), "has a certificate that is not valid")


GOOD = json.dumps(a_document(ADDRESS)).encode()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://other.example.com/x\r\n\r\n", "answers 302 instead of 200"),
        (reply(GOOD, b"HTTP/1.1 301 Moved\r\nLocation: /y\r\nContent-Type: application/json\r\n"), "answers 301"),
        (reply(GOOD, b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"), "answers 404"),
        (reply(GOOD, b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"), "answers 201"),
        (reply(GOOD, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"), "something else than JSON"),
        (reply(GOOD, b"HTTP/1.1 200 OK\r\nContent-Type: application/jsonp\r\n"), "something else than JSON"),
        (reply(GOOD, b"HTTP/1.1 200 OK\r\nContent-Type: text/x+json\r\n"), "something else than JSON"),
        (reply(GOOD, b"HTTP/1.1 200 OK\r\n"), "something else than JSON"),
        (reply(GOOD, JSON_HEAD + b"Content-Encoding: gzip\r\n"), "compressed"),
        (reply(b" " * 10_001), "more than 10000 bytes"),
        (JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"2710\r\n" + b" " * 10_000
         + b"\r\n5\r\n     \r\n0\r\n\r\n", "more than 10000 bytes"),
        (JSON_HEAD + b"\r\n" + b" " * 20_000, "more than 10000 bytes"),
        (JSON_HEAD + b"X: " + b"y" * 40_000 + b"\r\n\r\n", "does not answer as a web server"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000, "too many bytes"),
        (b"SSH-2.0-OpenSSH\r\n", "does not answer as a web server"),
        (b"", "does not answer as a web server"),
        (JSON_HEAD + b"Content-Length: 9000\r\n\r\n{}", "does not answer as a web server"),
        (reply(b"<html>"), "the body is not JSON"),
        (reply({"client_id": ADDRESS + "/"}), "client_id is not the address of the document"),
    ],
)  # fmt: skip
async def test_answers_of_a_host_that_describe_no_client(
    scene: Scene, host: DocumentHost, answer: bytes, text: str
) -> None:
    host.serve(ADDRESS, answer)
    host.serve("https://other.example.com/x")
    assert_refused(await consent(scene), text)
    host.serve(ADDRESS)
    assert (await consent(scene)).status_code == 200, "neither errors nor invalid documents are cached"
    assert len(host.requests) == 2


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/client-metadata+JSON"])
async def test_kinds_of_json(scene: Scene, host: DocumentHost, kind: str) -> None:
    host.serve(ADDRESS, reply(GOOD, b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n" % kind.encode()))
    assert (await consent(scene)).status_code == 200


async def test_a_document_in_chunks_of_the_largest_size(scene: Scene, host: DocumentHost) -> None:
    body = GOOD + b" " * (10_000 - len(GOOD))
    host.serve(ADDRESS, JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2710\r\n" + body + b"\r\n0\r\n\r\n")
    assert (await consent(scene)).status_code == 200


async def test_a_name_that_nobody_has(open_scene: OpenScene) -> None:
    def look_up(name: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    assert_refused(await consent(open_scene(look_up=look_up)), "is not known under its name")


async def test_a_request_of_a_foreign_redirect_gets_no_redirect(
    open_scene: OpenScene, host: DocumentHost
) -> None:
    host.serve(ADDRESS)
    for uri in ("https://evil.example/", "http://localhost:33418/callback/", None):
        assert_refused(await consent(open_scene(), redirect_uri=uri), "an address it did not register")


# --- cache, pinned documents, times ----------------------------------------------------------------------------


@pytest.mark.parametrize(("header", "life_s"), [(b"max-age=600", 600), (b"max-age=1", 60), (b"no-store", 60)])
async def test_a_document_is_cached_per_address(
    scene: Scene, host: DocumentHost, header: bytes, life_s: int
) -> None:
    host.serve(ADDRESS, reply(GOOD, JSON_HEAD + b"Cache-Control: %s\r\n" % header))
    for advance_s, requests in ((0, 1), (life_s - 1, 1), (2, 2)):
        scene.clock.advance(advance_s * 1000)
        await consent(scene)
        assert len(host.requests) == requests
    await consent(scene, client_id=host.serve(ADDRESS + "?2"))
    assert len(host.requests) == 3


async def test_the_cache_has_a_bound(
    scene: Scene, host: DocumentHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_clients, "MOST_CACHED", 2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert (
            await consent(scene, client_id=host.serve(f"https://app.example.com/{name}"))
        ).status_code == 200
    assert [request.split()[1] for request in host.requests] == [b"/a", b"/b", b"/c", b"/b"]


async def test_a_person_looks_up_only_so_many_applications(scene: Scene, host: DocumentHost) -> None:
    for number in range(document_clients.FETCHES.burst):
        assert (await consent(scene, client_id=host.serve(f"{ADDRESS}?{number}"))).status_code == 200
    assert_refused(await consent(scene), "Too many applications")
    scene.clock.advance(5_000)
    host.serve(ADDRESS)
    assert (await consent(scene)).status_code == 200


async def test_a_pinned_document_is_not_fetched(
    open_scene: OpenScene, host: DocumentHost, tmp_path: Path
) -> None:
    other = "https://other.example.com/client.json"
    (tmp_path / "one.json").write_text(json.dumps(a_document(ADDRESS)))
    (tmp_path / "two.json").write_text(json.dumps([a_document(other, client_name="Other")]))
    pinned = read_pinned_documents(tmp_path)
    assert pinned == {
        **read_pinned_documents(tmp_path / "one.json"),
        **read_pinned_documents(tmp_path / "two.json"),
    }
    for mode in ("pinned", "fetch"):
        scene = open_scene(mode, pinned=pinned)
        assert "Other" in visible((await consent(scene, client_id=other)).text)
        code = await allow(scene)
        assert (await scene.program.redeem(code)).status_code == 200
    assert_refused(
        await consent(open_scene("pinned"), client_id=other), "does not know the application of other"
    )
    assert host.connected == []


@pytest.mark.parametrize(
    "text", ["", "{", "7", "[7]", '{"client_id": 7}', json.dumps(a_document("http://a.example/x"))]
)
def test_a_file_of_no_documents_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pinned.json"
    path.write_text(text)
    with pytest.raises(Invalid, match=r"pinned\.json"):
        read_pinned_documents(path)
    with pytest.raises(Invalid, match="absent"):
        read_pinned_documents(tmp_path / "absent")


async def test_a_slow_host_delays_nothing_but_its_page(open_scene: OpenScene, host: DocumentHost) -> None:
    def drip(secured: Any) -> None:
        secured.sendall(JSON_HEAD + b"\r\n")
        while not host.is_closing.wait(0.05):
            secured.sendall(b" ")

    host.serve(ADDRESS, drip)
    scene = open_scene(within_s=1.0)
    await scene.person.open(AUTHORIZE, **scene.program.asks())
    began_s = time.monotonic()
    slow = asyncio.create_task(scene.person.sign_in())
    longest_s = 0.0
    while not slow.done():
        before_s = time.monotonic()
        await asyncio.sleep(0.01)
        assert await scene.program.use("x") == 401
        longest_s = max(longest_s, time.monotonic() - before_s)
    assert_refused(await slow, "does not answer in time")
    assert time.monotonic() - began_s < 2.5
    assert longest_s < 0.5


async def test_hung_look_ups_are_few(open_scene: OpenScene, host: DocumentHost) -> None:
    def look_up(name: str, port: int) -> list[str]:
        host.is_closing.wait(3.0)
        return []

    scene = open_scene(look_up=look_up, within_s=0.3)
    await consent(scene)
    pages = [await consent(scene) for _ in range(2)]
    assert_refused(pages[0], "does not answer in time")
    assert_refused(pages[1], "too many others are")
    async with http_over(scene.app) as http:
        bob = Person(http, "bob")
        await bob.open(AUTHORIZE, **scene.program.asks())
        assert_refused(await bob.sign_in(), "does not answer in time")
