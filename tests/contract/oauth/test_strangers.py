"""What anybody may register leads nobody astray, and what ended stays ended, copies included."""

from __future__ import annotations

import pytest

from cluster.errors import Invalid
from cluster.records.archive.archive_client import ClientRule
from cluster.store.stores import Stores
from deployments.archive.admission import ClientAdmission
from deployments.archive.oauth.addresses import resource_of
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    ISSUER,
    ORIGIN,
    Person,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
    read_page,
    visible,
)
from tests.suites.manual_clock import ManualClock

AUTHORIZE = "/oauth/authorize/archive"
CLIENTS = "/oauth/authorize/clients"
ELSEWHERE = "https://evil.example/cb"


# --- the redirector -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri", [ELSEWHERE, "https://claude.ai/api/mcp/auth_callback", "cursor://anysphere.cursor-mcp/x"]
)
async def test_an_error_leads_no_stranger_away_without_a_click(scene: Scene, uri: str) -> None:
    await scene.program.register(redirect_uris=[uri])
    asks = scene.program.asks(redirect_uri=uri, response_type="bad")
    page = await scene.person.open(AUTHORIZE, **asks)
    assert page.status_code == 200
    assert "location" not in page.headers
    assert "refresh" not in page.headers
    assert "Continue to" in visible(page.text)
    (target,) = [attributes["href"] for tag, attributes in read_page(page.text).tags if tag == "a"]
    assert target is not None
    assert target.startswith(uri + "?error=unsupported_response_type&")
    assert f"iss={ISSUER.replace(':', '%3A').replace('/', '%2F')}" in target
    tags = [tag for tag, _ in read_page(page.text).tags]
    assert not {"script", "iframe", "img", "base"} & set(tags)
    assert not [
        attributes
        for tag, attributes in read_page(page.text).tags
        if tag == "meta" and "http-equiv" in attributes
    ]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:7/cb", "http://localhost/cb", "http://[::1]:9/cb?x=1"])
async def test_loopback_clients_get_errors_at_once(scene: Scene, uri: str) -> None:
    await scene.program.register(redirect_uris=[uri])
    answer = await scene.person.open(AUTHORIZE, **scene.program.asks(redirect_uri=uri, response_type="bad"))
    assert answer.status_code == 302
    assert answer_of(answer)["error"] == "unsupported_response_type"


async def test_who_is_signed_in_is_redirected_as_the_specification_has_it(scene: Scene) -> None:
    await scene.program.register(redirect_uris=[ELSEWHERE])
    await scene.consent(redirect_uri=ELSEWHERE)
    answer = await scene.person.open(
        AUTHORIZE, **scene.program.asks(redirect_uri=ELSEWHERE, response_type="bad")
    )
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(ELSEWHERE + "?error=unsupported_response_type&")


# --- schemes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "smb://evil.example/x", "ldap://evil.example/x", "nntp://evil.example/x", "shell://x", "itms-services://x",
        "app-settings://x", "x-apple.systempreferences:/x", "steam://run/1", "zoommtg://x", "facetime://x",
        "android-app://x", "chrome-extension://x/y", "moz-extension://x/y", "app:/x", "microsoft.windows.camera:/x",
        "com.apple.mobilesafari:/x", "ms.settings:/x", "a.b:/x", "javascript.x:alert(1)",
    ],
)  # fmt: skip
async def test_schemes_that_start_something_are_refused(scene: Scene, uri: str) -> None:
    answer = await scene.program.register(redirect_uris=[uri])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "uri",
    [
        "com.example.app:/cb", "com.example.my-app://x/cb", "org.mozilla.x:/cb", "cursor://anysphere.cursor-mcp/cb",
        "vscode://vscode.mcp/cb", "vscode-insiders://vscode.mcp/cb", "windsurf://x/cb", "claude://x/cb", "zed://x/cb",
    ],
)  # fmt: skip
async def test_schemes_of_applications_are_taken(scene: Scene, uri: str) -> None:
    assert (await scene.program.register(redirect_uris=[uri])).status_code == 201


# --- sessions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [AUTHORIZE, CLIENTS])
async def test_a_copied_cookie_ends_with_the_sign_out(scene: Scene, place: str) -> None:
    await scene.consent()
    copied = scene.person.http.cookies["__Host-kiosk_console_session"]
    asks = scene.program.asks()
    async with http_over(scene.app) as thief:
        before = await thief.get(
            AUTHORIZE, params=asks, headers={"cookie": f"__Host-kiosk_console_session={copied}"}
        )
        assert "signed in as ada" in visible(before.text)
        if place == CLIENTS:
            await scene.person.open(CLIENTS)
        await scene.person.press("switch")
        for path in (AUTHORIZE, CLIENTS):
            after = await thief.get(
                path, params=asks, headers={"cookie": f"__Host-kiosk_console_session={copied}"}
            )
            assert 'name="password"' in after.text
    # whoever signs in again is signed in
    assert "signed in as ada" in visible((await scene.consent()).text)


async def test_only_who_is_signed_in_ends_sessions(scene: Scene) -> None:
    await scene.consent()
    async with http_over(scene.app) as other:
        eve = Person(other, "eve")
        await scene.services.accounts.add(an_account("eve"))
        await eve.open(CLIENTS)
        await eve.sign_in()
        await eve.press("switch")
    assert "signed in as ada" in visible((await scene.person.open(AUTHORIZE, **scene.program.asks())).text)


# --- rules by host ------------------------------------------------------------------------------------------------


async def _may_call(scene: Scene, gate: ClientAdmission, uri: str, name: str) -> bool:
    scene.program.callback = uri
    await scene.program.register(client_name=name)
    tokens = await scene.tokens()
    person = await scene.services.access_tokens.find_caller(tokens["access_token"], resource_of(ORIGIN))
    assert person is not None
    try:
        gate.check(person)
    except Invalid:
        return False
    return True


async def test_a_client_is_let_in_by_the_host_its_answers_go_to_whatever_it_calls_itself(
    scene: Scene, memory_stores: Stores
) -> None:
    rules = memory_stores.client_rules
    await rules.put("news", ClientRule(client="*", decision="deny"))
    await rules.put("news", ClientRule(client="host:Claude.ai"))
    gate = ClientAdmission(rules, memory_stores.limits, lambda: "news", scene.clock)
    await gate.read()
    assert await _may_call(scene, gate, "https://claude.ai/api/mcp/auth_callback", "Anything")
    assert await _may_call(scene, gate, "https://claude.ai:8443/x", "")
    for uri in ("https://claude.ai.evil.example/x", ELSEWHERE, "http://localhost:7/x"):
        for name in ("Claude", "claude.ai", "host:claude.ai", "Host: claude.ai", "*", "c-0123456789abcdef"):
            assert not await _may_call(scene, gate, uri, name), (uri, name)
    await rules.put("news", ClientRule(client="host:localhost"))
    await rules.put("news", ClientRule(client="host:cursor"))
    await gate.read()
    assert await _may_call(scene, gate, "http://localhost:9999/x", "mine")
    assert await _may_call(scene, gate, "cursor://anysphere.cursor-mcp/x", "mine")
    assert not await _may_call(scene, gate, "http://127.0.0.1:9999/x", "mine")


# --- plain http ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [AUTHORIZE, CLIENTS])
@pytest.mark.parametrize("host", ["192.168.1.5:8000", "news.example.com", "", "localhost.evil.example"])
async def test_the_sign_in_form_is_refused_over_plain_http(
    memory_stores: Stores, path: str, host: str
) -> None:
    app = app_over(oauth_services(memory_stores, ManualClock(), public_url=""))
    async with http_over(app) as http:
        for method in ("GET", "POST"):
            answer = await http.request(method, path, headers={"host": host})
            assert answer.status_code == 403
            assert 'name="password"' not in answer.text
            assert "KIOSK_PUBLIC_URL" in answer.text
        allowed = await http.get(CLIENTS, headers={"host": "localhost:8000"})
        assert 'name="password"' in allowed.text


async def test_a_setting_declares_the_network_safe(memory_stores: Stores) -> None:
    app = app_over(oauth_services(memory_stores, ManualClock(), public_url="", plain_sign_in=True))
    async with http_over(app) as http:
        answer = await http.get(CLIENTS, headers={"host": "192.168.1.5:8000"})
        assert 'name="password"' in answer.text
