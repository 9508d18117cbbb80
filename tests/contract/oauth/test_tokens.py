"""The token endpoint: what clients rely on, what is refused, and what a refusal costs."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any
from urllib.parse import quote

import jwt
import pytest

from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import RESOURCE, VERIFIER, Program
from tests.suites.doing import require


async def test_an_answer_has_exactly_what_clients_rely_on(scene: Scene) -> None:
    answer = await scene.program.redeem(await scene.code())
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["pragma"] == "no-cache"
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["access-control-allow-origin"] == "*"
    tokens = answer.json()
    assert set(tokens) == {"access_token", "token_type", "expires_in", "refresh_token"}
    assert tokens["token_type"] == "Bearer"
    assert (type(tokens["expires_in"]), tokens["expires_in"]) == (int, 3600)
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]+", tokens[name]) for name in ("access_token", "refresh_token"))


async def test_a_request_without_resource_is_bound_to_the_only_one(scene: Scene) -> None:
    code = await scene.code(resource=None)
    tokens = (await scene.program.redeem(code, resource=None)).json()
    assert await scene.program.use(tokens["access_token"]) == 200
    again = await scene.program.refresh(tokens["refresh_token"], resource=None)
    assert again.status_code == 200
    slash = await scene.program.refresh(again.json()["refresh_token"], resource=RESOURCE + "/")
    assert slash.status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"code": None}, 400, "invalid_request"),
        ({"code": "x"}, 400, "invalid_grant"),
        ({"code_verifier": None}, 400, "invalid_grant"),
        ({"code_verifier": "w" * 64}, 400, "invalid_grant"),
        ({"code_verifier": VERIFIER[:42]}, 400, "invalid_grant"),
        ({"code_verifier": "v" * 129}, 400, "invalid_grant"),
        ({"code_verifier": "v" * 63 + "é"}, 400, "invalid_grant"),
        ({"redirect_uri": None}, 400, "invalid_grant"),
        ({"redirect_uri": "http://localhost:1/callback"}, 400, "invalid_grant"),
        ({"resource": "https://other.example/mcp"}, 400, "invalid_target"),
        ({"grant_type": None}, 400, "invalid_request"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 400, "unsupported_grant_type"),
        ({"client_id": None}, 401, "invalid_client"),
        ({"client_id": "c_unknown"}, 401, "invalid_client"),
    ],
)
async def test_refusals_have_their_words_and_burn_the_code(
    scene: Scene, change: dict[str, str | None], status: int, error: str
) -> None:
    code = await scene.code()
    answer = await scene.program.redeem(code, **change)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert set(answer.json()) == {"error", "error_description"}
    assert answer.headers["cache-control"] == "no-store"
    tried = status == 400 and error in ("invalid_grant", "invalid_target") and change.get("code") != "x"
    assert (await scene.program.redeem(code)).status_code == (400 if tried else 200)


async def test_another_client_can_not_use_a_code_and_burns_it(scene: Scene) -> None:
    code = await scene.code()
    thief = Program(scene.http)
    await thief.register(client_name="Thief")
    assert (await thief.redeem(code)).json()["error"] == "invalid_grant"
    assert (await scene.program.redeem(code)).json()["error"] == "invalid_grant"


async def test_a_code_is_good_for_a_minute(scene: Scene) -> None:
    early, late = await scene.code(), await scene.code()
    scene.clock.advance(59_000)
    assert (await scene.program.redeem(early)).status_code == 200
    scene.clock.advance(1_000)
    assert (await scene.program.redeem(late)).json()["error"] == "invalid_grant"


async def test_codes_are_256_random_bits(scene: Scene) -> None:
    codes = {await scene.code() for _ in range(4)}
    assert len(codes) == 4
    assert all(len(base64.urlsafe_b64decode(code + "=")) == 32 for code in codes)


async def test_a_replayed_code_ends_everything_it_produced(scene: Scene) -> None:
    code = await scene.code()
    tokens = (await scene.program.redeem(code)).json()
    refreshed = (await scene.program.refresh(tokens["refresh_token"])).json()
    assert (await scene.program.redeem(code)).json()["error"] == "invalid_grant"
    await scene.heard()
    for issued in (tokens, refreshed):
        assert await scene.program.use(issued["access_token"]) == 401
        assert (await scene.program.refresh(issued["refresh_token"])).json()["error"] == "invalid_grant"


async def test_of_a_hundred_exchanges_at_once_one_wins(scene: Scene) -> None:
    code = await scene.code()
    answers = await asyncio.gather(*(scene.program.redeem(code) for _ in range(100)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 99


async def test_a_refresh_gives_new_tokens_and_takes_nothing_back(scene: Scene) -> None:
    tokens = await scene.tokens()
    fresh = (await scene.program.refresh(tokens["refresh_token"])).json()
    assert fresh["access_token"] != tokens["access_token"]
    assert fresh["refresh_token"] != tokens["refresh_token"]
    assert await scene.program.use(tokens["access_token"]) == 200
    assert await scene.program.use(fresh["access_token"]) == 200


async def test_the_refresh_token_before_is_forgiven_for_a_minute(scene: Scene) -> None:
    tokens = await scene.tokens()
    first = (await scene.program.refresh(tokens["refresh_token"])).json()
    scene.clock.advance(30_000)
    second = (await scene.program.refresh(tokens["refresh_token"])).json()
    scene.clock.advance(100_000)
    assert (await scene.program.refresh(second["refresh_token"])).status_code == 200
    assert (await scene.program.refresh(first["refresh_token"])).status_code == 200


async def test_an_old_refresh_token_ends_the_whole_family(scene: Scene) -> None:
    for wait_ms, use_successor in ((61_000, False), (1_000, True)):
        tokens = await scene.tokens()
        fresh = (await scene.program.refresh(tokens["refresh_token"])).json()
        if use_successor:
            fresh = (await scene.program.refresh(fresh["refresh_token"])).json()
        scene.clock.advance(wait_ms)
        stolen = await scene.program.refresh(tokens["refresh_token"])
        assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
        assert (await scene.program.refresh(fresh["refresh_token"])).json()["error"] == "invalid_grant"
        await scene.heard()
        assert await scene.program.use(fresh["access_token"]) == 401
        assert await scene.program.use(tokens["access_token"]) == 401


async def test_a_refused_refresh_uses_nothing_up(scene: Scene) -> None:
    tokens = await scene.tokens()
    other = Program(scene.http)
    await other.register(client_name="Other")
    token = tokens["refresh_token"]
    for answer, error in (
        (await other.refresh(token), "invalid_grant"),
        (await scene.program.refresh(token, resource="https://other.example/mcp"), "invalid_target"),
        (await scene.program.refresh(token, client_id=None), "invalid_client"),
        (await scene.program.refresh(token[:-1]), "invalid_grant"),
        (await scene.program.refresh(tokens["access_token"]), "invalid_grant"),
        (await scene.program.refresh("x"), "invalid_grant"),
    ):
        assert answer.json()["error"] == error
    assert await scene.program.use(token) == 401
    assert (await scene.program.refresh(token)).status_code == 200


async def test_refresh_tokens_slide_for_thirty_days(scene: Scene) -> None:
    token = (await scene.tokens())["refresh_token"]
    for _ in range(4):
        scene.clock.advance(29 * 24 * 3_600_000)
        answer = await scene.program.refresh(token)
        assert answer.status_code == 200
        token = answer.json()["refresh_token"]
    scene.clock.advance(31 * 24 * 3_600_000)
    assert (await scene.program.refresh(token)).json()["error"] == "invalid_grant"


async def test_a_locked_account_gets_no_tokens_from_codes_or_refreshes(scene: Scene) -> None:
    code, tokens = await scene.code(), await scene.tokens()
    account = require(await scene.services.accounts.get("ada"))
    await scene.services.accounts.put(account.model_copy(update={"disabled": True}))
    assert (await scene.program.redeem(code)).json()["error"] == "invalid_grant"
    assert (await scene.program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


# --- confidential clients ---------------------------------------------------------------------------------------


async def confidential(scene: Scene, method: str) -> dict[str, Any]:
    """Register a client with a secret."""
    answer = await scene.program.register(token_endpoint_auth_method=method)
    registration: dict[str, Any] = answer.json()
    return registration


def basic(name: str, secret: str) -> dict[str, str]:
    """Write a header as RFC 6749 wants it."""
    text = f"{quote(name, safe='')}:{quote(secret, safe='')}"
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_secret_is_taken_in_the_header_and_in_the_body(scene: Scene, method: str) -> None:
    registered = await confidential(scene, method)
    secret = registered["client_secret"]
    in_body = await scene.program.redeem(await scene.code(), client_secret=secret)
    assert in_body.status_code == 200
    data = {
        "grant_type": "refresh_token", "refresh_token": in_body.json()["refresh_token"],
    }  # fmt: skip
    header = basic(registered["client_id"], secret)
    assert (await scene.http.post("/oauth/token", data=data, headers=header)).status_code == 200


async def test_a_confidential_client_without_its_secret_is_no_client(scene: Scene) -> None:
    registered = await confidential(scene, "client_secret_basic")
    other = await scene.http.post(
        "/oauth/register",
        json={"redirect_uris": ["http://localhost/"], "token_endpoint_auth_method": "client_secret_basic"},
    )
    code = await scene.code()
    for secret in (None, "", "x", other.json()["client_secret"]):
        answer = await scene.program.redeem(code, client_secret=secret)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert "www-authenticate" not in answer.headers
    for header in (
        basic(registered["client_id"], "wrong"), basic("c_unknown", "x"), {"authorization": "Basic !!"},
        basic(registered["client_id"] + "x", registered["client_secret"]),
    ):  # fmt: skip
        data = {"grant_type": "authorization_code", "code": code}
        answer = await scene.http.post("/oauth/token", data=data, headers=header)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["www-authenticate"] == 'Basic realm="archive"'
    assert (await scene.program.redeem(code, client_secret=registered["client_secret"])).status_code == 200


# --- bodies ---------------------------------------------------------------------------------------------------------


async def test_only_forms_are_read_and_each_parameter_once(scene: Scene) -> None:
    json_body = await scene.http.post("/oauth/token", json={"grant_type": "authorization_code"})
    assert (json_body.status_code, json_body.json()["error"]) == (400, "invalid_request")
    headers = {"content-type": "application/x-www-form-urlencoded"}
    twice = f"grant_type=authorization_code&code=a&code=b&client_id={scene.program.client_id}"
    answer = await scene.http.post("/oauth/token", content=twice.encode(), headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    many = "&".join(f"a{n}=1" for n in range(100))
    assert (await scene.http.post("/oauth/token", content=many.encode(), headers=headers)).status_code == 400
    big = b"code=" + b"x" * 30_000
    assert (await scene.http.post("/oauth/token", content=big, headers=headers)).status_code == 413
    for body in (b"", b"\xff\xfe", b"%FF=%FF&client_id=%00", b"&&&", b"=", b"client_id=%ED%A0%80"):
        answer = await scene.http.post("/oauth/token", content=body, headers=headers)
        assert answer.status_code == 401


async def test_parameters_in_the_query_do_not_count(scene: Scene) -> None:
    query = {"client_id": scene.program.client_id, "grant_type": "authorization_code", "code": "x"}
    answer = await scene.http.post("/oauth/token", params=query, data={"x": "y"})
    assert answer.status_code == 401


# --- access tokens ----------------------------------------------------------------------------------------------


async def test_an_access_token_is_good_for_an_hour(scene: Scene) -> None:
    token = (await scene.tokens())["access_token"]
    scene.clock.advance(3_599_000)
    assert await scene.program.use(token) == 200
    scene.clock.advance(1_000)
    assert await scene.program.use(token) == 401


async def test_an_access_token_is_bound_to_its_resource(scene: Scene) -> None:
    token = (await scene.tokens())["access_token"]
    access_tokens = scene.services.access_tokens
    assert await access_tokens.find_caller(token, RESOURCE) is not None
    for other in (
        "https://other.example/mcp",
        RESOURCE + "/",
        "",
        RESOURCE.upper(),
        "http://news.example.com/mcp",
    ):
        assert await access_tokens.find_caller(token, other) is None


async def test_nothing_but_an_untouched_access_token_opens(scene: Scene) -> None:
    tokens = await scene.tokens()
    good = tokens["access_token"]
    head, body, signature = good.split(".")
    claims = jwt.decode(good, options={"verify_signature": False})
    none = jwt.encode(claims, None, algorithm="none")
    other_key = jwt.encode(claims, b"k" * 32, algorithm="HS256", headers={"typ": "at+jwt"})
    signing = scene.services.signing
    untyped = jwt.encode(claims, signing._access_keys[0], algorithm="HS256")
    longer = signing.issue_access({**claims, "exp": "never"})
    early = signing.issue_access({**claims, "iat": claims["iat"] + 3600, "exp": claims["exp"] + 3600})
    nobody = signing.issue_access({name: value for name, value in claims.items() if name != "sub"})
    for bad in (
        "", "x", ".", "..", "...", good + "x", good[:-2], f"{head}.{body}.", f"{head}..{signature}", none, other_key,
        untyped, longer, early, nobody, tokens["refresh_token"], good + " ", "A" * 20_000, "é" + good, "\udcff",
    ):  # fmt: skip
        assert await scene.services.access_tokens.find_caller(bad, RESOURCE) is None, bad
    person = require(await scene.services.access_tokens.find_caller(good, RESOURCE))
    assert (person.user_id, person.client_name) == ("usr-ada", "Reader")
    assert person.client_id.startswith("c-")
