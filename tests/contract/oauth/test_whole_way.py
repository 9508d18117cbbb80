"""The whole way of a client: discovery, registration, sign-in, consent, tokens, use, refresh."""

from __future__ import annotations

from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import ISSUER, ORIGIN, RESOURCE, answer_of, read_page, visible


async def test_a_client_comes_from_an_address_to_an_answer(scene: Scene) -> None:
    resource = (await scene.http.get("/.well-known/oauth-protected-resource/mcp")).json()
    issuer = resource["authorization_servers"][0]
    server = (await scene.http.get("/.well-known/oauth-authorization-server/archive")).json()
    assert (resource["resource"], issuer, server["issuer"]) == (RESOURCE, ISSUER, ISSUER)

    page = await scene.person.open(server["authorization_endpoint"], **scene.program.asks())
    assert page.status_code == 200
    assert 'name="password"' in page.text
    page = await scene.person.sign_in()
    assert "Reader wants to use the archive" in visible(page.text)
    assert "localhost:33418" in page.text
    assert {"allow", "deny"} <= set(read_page(page.text).decisions)
    redirect = await scene.person.press("allow")
    assert redirect.status_code == 303
    assert redirect.headers["location"].startswith("http://localhost:33418/callback?")
    answer = answer_of(redirect)
    assert answer.pop("code")
    assert answer == {"state": "st ate/+&=", "iss": ISSUER}

    tokens = await scene.tokens()
    assert await scene.program.use(tokens["access_token"]) == 200
    answered = await scene.program.refresh(tokens["refresh_token"])
    assert answered.status_code == 200
    assert await scene.program.use(answered.json()["access_token"]) == 200
    assert await scene.program.use(tokens["access_token"]) == 200
    assert server["token_endpoint"] == ORIGIN + "/oauth/token"
