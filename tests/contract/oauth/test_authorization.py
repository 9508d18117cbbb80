"""The page between a client and a person: what is a page, what is a redirect, and what nobody gets past."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest

from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    CALLBACK,
    ISSUER,
    ORIGIN,
    RESOURCE,
    Person,
    an_account,
    answer_of,
    http_over,
    read_page,
    visible,
)
from tests.suites.doing import require

AUTHORIZE = "/oauth/authorize/archive"


# --- who asks, and where the answer goes -----------------------------------------------------------------------


@pytest.mark.parametrize("client_id", [None, "", "c_unknown", "c_", "x", "c_" + "A" * 30_000, "c_\u00e9"])
async def test_only_the_person_sees_the_error_of_an_unknown_client(
    scene: Scene, client_id: str | None
) -> None:
    answer = await scene.person.open(AUTHORIZE, **scene.program.asks(client_id=client_id))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "not registered" in visible(answer.text)


async def test_an_id_somebody_changed_is_unknown(scene: Scene) -> None:
    good = scene.program.client_id
    # The last character holds two bits of nothing; whoever changes those gets no second name for one registration.
    last = [
        good[:-1] + letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    ]
    inside = [
        good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :] for at in range(2, len(good) - 1, 7)
    ]
    for changed in [letter for letter in last + inside if letter != good]:
        answer = await scene.person.open(AUTHORIZE, **scene.program.asks(client_id=changed))
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "uri",
    [
        None, "", "https://evil.example/", "http://localhost:33418/callback/", "http://localhost:33418/CALLBACK",
        "http://localhost:33418/callback?x", "http://localhost:33418/callback#x", "http://localhost:33418/",
        "https://localhost:33418/callback", "http://127.0.0.1:33418/callback", "http://[::1]:33418/callback",
        "http://localhost.evil.example/callback", "http://localhost@evil.example/callback", "javascript:alert(1)",
        "http://LOCALHOST:33418/callback", " http://localhost:33418/callback", "http://localhost:33418/callback\n",
        "http://localhost:33418//callback", "http://localhost:33418/callback%2f", "http://localhost:/callback",
        "http://localhost:999999/callback", "http://localhost:33418/../callback", "http:/localhost:33418/callback",
    ],
)  # fmt: skip
async def test_an_address_that_was_not_registered_gets_no_redirect(scene: Scene, uri: str | None) -> None:
    answer = await scene.person.open(AUTHORIZE, **scene.program.asks(redirect_uri=uri))
    assert answer.status_code == 400
    assert "location" not in answer.headers


@pytest.mark.parametrize("port", ["", ":1", ":80", ":50123", ":65535"])
async def test_a_loopback_address_matches_with_any_port(scene: Scene, port: str) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        await scene.program.register(redirect_uris=[f"http://{host}:3000/cb?app=1"])
        asks = scene.program.asks(redirect_uri=f"http://{host}{port}/cb?app=1")
        assert (await scene.person.open(AUTHORIZE, **asks)).status_code == 200


async def test_a_port_of_another_host_is_part_of_its_address(scene: Scene) -> None:
    await scene.program.register(redirect_uris=["https://host.example/cb"])
    asks = scene.program.asks(redirect_uri="https://host.example:444/cb")
    assert (await scene.person.open(AUTHORIZE, **asks)).status_code == 400


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_who_asks_can_not_stand_there_twice(scene: Scene, name: str) -> None:
    asks = scene.program.asks()
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in [*asks.items(), (name, "x")])
    answer = await scene.person.open(f"{AUTHORIZE}?{query}")
    assert answer.status_code == 400
    assert "location" not in answer.headers


# --- what the client is told ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "x" * 42}, "invalid_request"),
        ({"code_challenge": "x" * 44}, "invalid_request"),
        ({"code_challenge": "x" * 42 + "="}, "invalid_request"),
        ({"code_challenge": "x" * 42 + "+"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": ORIGIN}, "invalid_target"),
        ({"resource": RESOURCE + "/x"}, "invalid_target"),
        ({"resource": RESOURCE + "//"}, "invalid_target"),
        ({"state": "x" * 3001}, "invalid_request"),
    ],
)
async def test_the_client_receives_every_other_fault(
    scene: Scene, change: dict[str, str | None], error: str
) -> None:
    asks = scene.program.asks(**change)
    answer = await scene.person.open(AUTHORIZE, **asks)
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(CALLBACK + "?")
    answered = answer_of(answer)
    assert (answered["error"], answered["iss"], answered["state"]) == (error, ISSUER, asks["state"])
    assert "code" not in answered


@pytest.mark.parametrize(
    "name", ["response_type", "state", "code_challenge", "code_challenge_method", "resource", "scope"]
)
async def test_a_parameter_twice_is_an_invalid_request(scene: Scene, name: str) -> None:
    asks = scene.program.asks(scope="x")
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in [*asks.items(), (name, asks[name])])
    answer = await scene.person.open(f"{AUTHORIZE}?{query}")
    assert answer.status_code == 302
    assert answer_of(answer)["error"] == "invalid_request"


@pytest.mark.parametrize(
    "change",
    [
        {"scope": "openid email profile offline_access"}, {"scope": ""}, {"prompt": "none"}, {"nonce": "1"},
        {"resource": None}, {"resource": RESOURCE + "/"}, {"state": None}, {"state": ""}, {"audience": "x"},
    ],
)  # fmt: skip
async def test_what_clients_add_or_leave_out_is_no_fault(scene: Scene, change: dict[str, str | None]) -> None:
    assert (await scene.person.open(AUTHORIZE, **scene.program.asks(**change))).status_code == 200


async def test_the_client_learns_of_a_refusal_with_or_without_a_session(scene: Scene) -> None:
    await scene.person.open(AUTHORIZE, **scene.program.asks())
    refusal = answer_of(await scene.person.press("deny"))
    assert (refusal["error"], refusal["iss"], refusal["state"]) == ("access_denied", ISSUER, "st ate/+&=")
    await scene.consent()
    answer = await scene.person.press("deny")
    assert answer.status_code == 303
    assert answer_of(answer)["error"] == "access_denied"


async def test_the_answer_is_hung_onto_a_query_that_is_there(scene: Scene) -> None:
    callback = "https://host.example/cb?tenant=a%20b&x="
    await scene.program.register(redirect_uris=[callback])
    await scene.consent(redirect_uri=callback)
    answer = await scene.person.press("allow")
    assert answer.headers["location"].startswith(callback + "&code=")
    assert answer_of(answer)["tenant"] == "a b"


@pytest.mark.parametrize(
    "raw",
    ["a%20b", "%2B%26%3D%23", "%F0%9F%97%9E", "%FF%FE", "%00%0D%0A", "%3Cscript%3E", "%2525", "%22%27"],
)
async def test_state_comes_back_byte_for_byte(scene: Scene, raw: str) -> None:
    asks = scene.program.asks(state=None)
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in asks.items())
    await scene.person.open(f"{AUTHORIZE}?{query}&state={raw}")
    await scene.person.sign_in()
    for decision in ("deny", "allow"):
        answer = await scene.person.press(decision)
        if decision == "deny":
            scene.person.page = scene.person.seen[-2]
        query_back = urlsplit(answer.headers["location"]).query
        assert f"state={raw}" in query_back.split("&")
        assert "\n" not in answer.headers["location"]


async def test_answers_follow_the_form_with_303_and_asking_is_repeatable(scene: Scene) -> None:
    asks = scene.program.asks()
    for _ in range(3):
        assert (await scene.http.get(AUTHORIZE, params=asks)).status_code == 200
        assert (await scene.http.head(AUTHORIZE, params=asks)).content == b""
    await scene.consent()
    first, second = await scene.person.press("deny"), None
    scene.person.page = scene.person.seen[-2]
    second = await scene.person.press("allow")
    assert (first.status_code, second.status_code) == (303, 303)
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert (await scene.http.request(method, AUTHORIZE)).status_code == 405


# --- the pages ----------------------------------------------------------------------------------------------------


async def pages(scene: Scene) -> list[str]:
    """Show every page there is."""
    await scene.person.open(AUTHORIZE, **scene.program.asks())
    await scene.person.press("sign-in", username="ada", password="wrong")
    await scene.consent()
    await scene.person.open("/oauth/authorize/clients")
    await scene.person.open(AUTHORIZE, client_id="c_x")
    return [answer.text for answer in scene.person.seen if answer.status_code not in (302, 303)]


async def test_no_page_can_be_framed_kept_scripted_or_made_to_load_anything(scene: Scene) -> None:
    shown = await pages(scene)
    assert len(shown) >= 5
    for answer in scene.person.seen:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        if answer.status_code == 303:
            continue
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        # Browsers would apply it to the redirect that follows the form, which leads to the client.
        assert "form-action" not in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for text in shown:
        tags = {tag for tag, _ in read_page(text).tags}
        assert not tags & {"script", "iframe", "img", "object", "embed", "base"}
        for tag, attributes in read_page(text).tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
            for name in ("src", "href", "action"):
                target = attributes.get(name) or ""
                assert target.startswith(("/oauth/", "data:,")) or not target


async def test_every_page_can_be_read_aloud_and_used_by_keyboard(scene: Scene) -> None:
    for text in await pages(scene):
        page = read_page(text)
        tags = [tag for tag, _ in page.tags]
        assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
        assert dict(page.tags)["html"] == {"lang": "en"}
        labelled = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
        for tag, attributes in page.tags:
            if tag == "input" and attributes.get("type") != "hidden":
                assert attributes["id"] in labelled
                assert attributes["autocomplete"] in ("username", "current-password")
        assert any(attributes.get("name") == "viewport" for tag, attributes in page.tags if tag == "meta")


HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"


async def test_nothing_a_client_or_caller_sends_is_shown_as_markup(scene: Scene) -> None:
    await scene.program.register(client_name=HOSTILE, logo_uri="https://evil.example/x.png")
    asks = scene.program.asks(state=HOSTILE, scope=HOSTILE)
    page = await scene.person.open(AUTHORIZE, **asks)
    wrong = await scene.person.press("sign-in", username=HOSTILE, password=HOSTILE)
    consent = await scene.person.open(page.request.url.raw_path.decode())
    consent = await scene.person.sign_in()
    error = await scene.person.open(AUTHORIZE, client_id=HOSTILE, redirect_uri=HOSTILE)
    for answer in (page, wrong, consent, error):
        assert "<img" not in answer.text
        assert "49" not in visible(answer.text)
        assert "evil.example" not in answer.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in consent.text


async def test_a_long_name_does_not_push_the_rest_of_the_page_away(scene: Scene) -> None:
    await scene.program.register(client_name="Allow " * 16)
    shown = "Allow " * 9 + "Allow…"
    page = await scene.person.open(AUTHORIZE, **scene.program.asks())
    assert f"to connect {shown} with the archive" in visible(page.text)
    assert f"{shown} wants to use the archive" in visible((await scene.person.sign_in()).text)


async def test_a_long_host_is_shown_by_its_end(scene: Scene) -> None:
    uri = "https://claude.ai." + "a." * 60 + "evil.example/x"
    await scene.program.register(redirect_uris=[uri])
    page = await scene.person.open(AUTHORIZE, **scene.program.asks(redirect_uri=uri))
    for answer in (page, await scene.person.sign_in()):
        text = visible(answer.text)
        assert "claude.ai" not in text
        assert "…" + ("a." * 60 + "evil.example")[-59:] in text


@pytest.mark.parametrize(
    ("uri", "host", "kind"),
    [
        ("https://claude.ai/api/mcp/auth_callback", "claude.ai", "a website"),
        ("https://claude.ai.evil.example/x", "claude.ai.evil.example", "a website"),
        ("http://127.0.0.1:7/x", "127.0.0.1:7", "a program on this device"),
        ("cursor://anysphere.cursor-mcp/x", "cursor:", "a program on this device"),
    ],
)
async def test_the_person_sees_where_the_answer_goes(scene: Scene, uri: str, host: str, kind: str) -> None:
    await scene.program.register(redirect_uris=[uri])
    first = await scene.person.open(AUTHORIZE, **scene.program.asks(redirect_uri=uri))
    wrong = await scene.person.press("sign-in", username="ada", password="a wrong one")
    for page in (first, wrong):
        before = page.text.partition('name="password"')[0]
        assert 'name="form"' in before
        assert "to connect Reader with the archive" in visible(before)
        assert f"Your answer is sent to {host} {kind}" in visible(before)
        assert "Applications choose their own names." in visible(before)
    text = visible((await scene.consent(redirect_uri=uri)).text)
    assert f"Your answer is sent to {host} {kind}" in text
    assert "Reader wants to use the archive" in text
    assert "signed in as ada" in text


# --- forms, cookies, sessions ---------------------------------------------------------------------------------------


async def test_cookies_are_out_of_reach_of_scripts_and_other_sites(scene: Scene) -> None:
    await scene.consent()
    cookies = [line for answer in scene.person.seen for line in answer.headers.get_list("set-cookie")]
    assert {line.partition("=")[0] for line in cookies} == {
        "__Host-kiosk_console_browser",
        "__Host-kiosk_console_device",
        "__Host-kiosk_console_session",
    }
    for line in cookies:
        assert {"HttpOnly", "SameSite=lax", "Secure", "Path=/"} <= set(line.split("; ")), line


async def test_a_form_is_good_only_in_the_browser_it_was_shown_in(scene: Scene) -> None:
    await scene.consent()
    stolen = require(scene.person.page)
    form = read_page(stolen.text).forms[0]
    async with http_over(scene.app) as other:
        await other.get(AUTHORIZE, params=scene.program.asks())
        assert (await other.post(AUTHORIZE, data={**form, "decision": "allow"})).status_code == 403
    async with http_over(scene.app) as nobody:
        for decision in ("allow", "deny", "switch", "sign-in"):
            answer = await nobody.post(AUTHORIZE, data={**form, "decision": decision})
            assert answer.status_code == 403
            assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ORIGIN}, 303),
        ({"origin": "null"}, 303),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 303),
        ({}, 303),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": ORIGIN + ".evil.example"}, 403),
        ({"origin": ORIGIN + ":444"}, 403),
        ({"origin": "http://news.example.com"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_forms_from_other_sites_are_refused(scene: Scene, headers: dict[str, str], status: int) -> None:
    page = await scene.consent()
    data = {**read_page(page.text).forms[0], "decision": "allow"}
    answer = await scene.person.http.post(AUTHORIZE, data=data, headers=headers)
    assert answer.status_code == status


async def test_a_form_that_waited_too_long_is_shown_again(scene: Scene) -> None:
    await scene.consent()
    scene.clock.advance(601_000)
    answer = await scene.person.press("allow")
    assert answer.headers["location"].startswith(AUTHORIZE + "?")
    assert "wants to use" in visible((await scene.person.follow()).text)
    assert "code" in answer_of(await scene.person.press("allow"))


async def test_a_form_can_not_be_changed_to_ask_for_something_else(scene: Scene) -> None:
    page = await scene.consent()
    form = read_page(page.text).forms[0]["form"]
    for at in range(0, len(form), 29):
        changed = form[:at] + ("A" if form[at] != "A" else "B") + form[at + 1 :]
        answer = await scene.person.http.post(AUTHORIZE, data={"form": changed, "decision": "allow"})
        assert answer.status_code == 403
    more = {"form": form, "decision": "allow", "redirect_uri": "https://evil.example/", "client_id": "c_x"}
    answer = await scene.person.http.post(AUTHORIZE, data=more)
    assert answer.headers["location"].startswith(CALLBACK)


async def test_nobody_is_allowed_without_signing_in_and_approving(scene: Scene) -> None:
    page = await scene.person.open(AUTHORIZE, **scene.program.asks())
    assert "allow" not in read_page(page.text).decisions
    # The form of the sign-in page, sent as if it were the consent's.
    answer = await scene.person.press("allow")
    assert "code=" not in answer.headers["location"]
    await scene.consent()
    # Signed in: another client is asked for all the same.
    await scene.program.register(client_name="Second")
    again = await scene.person.open(AUTHORIZE, **scene.program.asks())
    assert "Second wants to use the archive" in visible(again.text)
    assert {"allow", "deny"} <= set(read_page(again.text).decisions)


async def test_a_person_can_change_accounts_and_a_consent_is_bound_to_who_saw_it(scene: Scene) -> None:
    await scene.services.accounts.add(an_account("grace"))
    seen_by_ada = await scene.consent()
    await scene.person.press("switch")
    page = await scene.person.follow()
    assert 'name="password"' in page.text
    scene.person.username = "grace"
    await scene.person.sign_in()
    scene.person.page = seen_by_ada
    answer = await scene.person.press("allow")
    assert answer.headers["location"].startswith(AUTHORIZE)
    assert "signed in as grace" in visible((await scene.person.follow()).text)


async def test_a_session_ends_by_itself_and_with_a_lock_or_a_new_password(scene: Scene) -> None:
    account = require(await scene.services.accounts.get("ada"))
    await scene.consent()
    scene.clock.advance(12 * 3_600_000 + 1000)
    asks = scene.program.asks()
    assert 'name="password"' in (await scene.person.open(AUTHORIZE, **asks)).text
    for change in ({"epoch": 1}, {"disabled": True}, {"user_id": "usr-other"}):
        await scene.services.accounts.put(account)
        await scene.consent()
        await scene.services.accounts.put(account.model_copy(update=change))
        assert 'name="password"' in (await scene.person.open(AUTHORIZE, **asks)).text


async def test_a_session_can_not_be_made_up(scene: Scene) -> None:
    await scene.consent()
    good = scene.person.http.cookies["__Host-kiosk_console_session"]
    for bad in ("", "x", good[:-1], good + "A", good.replace(".", ""), scene.program.client_id[2:]):
        async with http_over(scene.app) as other:
            page = await other.get(
                AUTHORIZE,
                params=scene.program.asks(),
                headers={"cookie": f"__Host-kiosk_console_session={bad}"},
            )
            assert 'name="password"' in page.text


async def test_the_person_sees_and_ends_what_they_allowed(scene: Scene) -> None:
    tokens = await scene.tokens()
    page = await scene.person.open("/oauth/authorize/clients")
    assert "Reader" in visible(page.text)
    assert (await scene.person.press("end")).status_code == 303
    assert "No application is connected" in visible((await scene.person.follow()).text)
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    assert (await scene.program.refresh(tokens["refresh_token"])).status_code == 400
    await scene.person.press("switch")
    assert 'name="password"' in (await scene.person.follow()).text
    assert "Connected applications" in visible((await scene.person.sign_in()).text)


async def test_the_list_distinguishes_clients_of_one_name_by_redirect_host(scene: Scene) -> None:
    await scene.tokens()
    scene.program.callback = "https://claude.ai.evil.example/cb"
    await scene.program.register()
    await scene.tokens()
    text = visible((await scene.person.open("/oauth/authorize/clients")).text)
    assert "Reader at localhost:33418 since" in text
    assert "Reader at claude.ai.evil.example since" in text


async def test_nobody_ends_what_others_allowed(scene: Scene) -> None:
    tokens = await scene.tokens()
    (active,) = await scene.services.grants.of_user("usr-ada")
    await scene.services.accounts.add(an_account("eve"))
    async with http_over(scene.app) as http:
        eve = Person(http, "eve")
        await eve.open("/oauth/authorize/clients")
        await eve.sign_in()
        assert "Reader" not in visible(eve.page.text if eve.page else "")
        await eve.press("end", grant=active.grant.grant_id)
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 200
