"""OAuth of the archive: discovery, registration, sign-in, consent, tokens, refresh, revocation, and what is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.fakes.archive_oauth import CALLBACK, CHALLENGE, PASSWORD, RESOURCE, VERIFIER, read_page
from tests.fakes.asgi import Answer
from tests.golden.caller import Caller
from tests.golden.installation import parsed

_HOST = {"host": "news.example.com"}
_FORM = {**_HOST, "content-type": "application/x-www-form-urlencoded", "origin": "https://news.example.com"}
_BETWEEN_MS = 60_000
"Pause between registrations, so that no limit is met."
_AUTHORIZE = "/oauth/authorize/archive"
_METADATA = [
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource/mcp/",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server/archive",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
]
_REGISTRATIONS: list[Any] = [
    {},
    {"redirect_uris": []},
    {"redirect_uris": ["http://evil.example/x"]},
    {"redirect_uris": ["https://a.example/cb"]},
    5,
    {"redirect_uris": [CALLBACK], "client_name": "x" * 500},
    {"redirect_uris": [CALLBACK], "grant_types": ["password"]},
    {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_basic"},
    {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt"},
    {"redirect_uris": "x"},
    {"redirect_uris": ["javascript:alert(1)"]},
    {"redirect_uris": [CALLBACK], "scope": "all"},
]


async def sign_in(caller: Caller) -> None:
    """Walk the whole way of a client, then all ways that end early."""
    for path in _METADATA:
        for method in ("GET", "OPTIONS", "POST"):
            await caller.send(method, path, headers=_HOST)
    for body in _REGISTRATIONS:
        caller.clock.pass_ms(_BETWEEN_MS)
        await caller.send("POST", "/oauth/register", json=body, headers=_HOST, what="register badly")
    caller.clock.pass_ms(_BETWEEN_MS)
    usual = {"client_name": "Reader", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    client = parsed((await caller.send("POST", "/oauth/register", json=usual, headers=_HOST)).body)
    await _refuse_authorization(caller, client["client_id"])
    await _consent(caller, client["client_id"], "deny")
    code = await _consent(caller, client["client_id"])
    await _refuse_tokens(caller, client["client_id"], code)
    tokens = await _redeem(caller, client["client_id"], await _consent(caller, client["client_id"]))
    await _use(caller, tokens["access_token"])
    fresh = await _refresh(caller, client["client_id"], tokens["refresh_token"])
    await _refresh(caller, client["client_id"], fresh["refresh_token"] + "x")
    for token in (fresh["refresh_token"], "unknown", ""):
        data = {"token": token, "client_id": client["client_id"]}
        await _post(caller, "/oauth/revoke", data, what="revoke")
    await _refresh(caller, client["client_id"], fresh["refresh_token"])
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        target = f"/oauth/register/{client['client_id']}"
        for bearer in ("", "wrong", client.get("registration_access_token", "")):
            headers = {**_HOST, "authorization": f"Bearer {bearer}"}
            await caller.send(method, target, json=usual, headers=headers, what=f"manage {method}")


def _asks(client: str, /, **more: str | None) -> str:
    usual: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": CALLBACK,
        "state": "st ate/+&=",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": RESOURCE,
        **more,
    }
    return f"{_AUTHORIZE}?{urlencode({name: value for name, value in usual.items() if value is not None})}"


async def _refuse_authorization(caller: Caller, client_id: str) -> None:
    wrong: list[dict[str, str | None]] = [
        {"response_type": "token"},
        {"client_id": "nobody"},
        {"redirect_uri": "https://evil.example"},
        {"state": None},
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"resource": "https://other.example/mcp"},
        {"redirect_uri": None},
        {"scope": "everything"},
        {"prompt": "none"},
        {"response_type": None},
    ]
    for more in wrong:
        await caller.send(
            "GET", _asks(client_id, **more), headers=_HOST, what=f"authorize {next(iter(more))}"
        )


async def _consent(caller: Caller, client_id: str, decision: str = "allow") -> str:
    """Sign in with a fresh browser and decide; return the code."""
    caller.jar = {}
    page = await caller.send("GET", _asks(client_id), headers=_HOST, what="authorize")
    answer = page
    for password in ("wrong", PASSWORD):
        data = {**_hidden(page), "username": "ada", "password": password, "decision": "sign-in"}
        answer = await _post(caller, _action(page), data, what="sign in")
    page = await caller.send("GET", answer.headers["location"], headers=_HOST, what="consent")
    answer = await _post(caller, _action(page), {**_hidden(page), "decision": decision}, what=decision)
    caller.jar = None
    return answer.headers["location"].partition("code=")[2].partition("&")[0]


async def _refuse_tokens(caller: Caller, client_id: str, code: str) -> None:
    usual = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": VERIFIER,
        "redirect_uri": CALLBACK,
        "client_id": client_id,
        "resource": RESOURCE,
    }
    wrong: list[dict[str, str]] = [
        {"grant_type": "password"},
        {"grant_type": ""},
        {"client_id": "nobody"},
        {"code": "unknown"},
        {"resource": "https://x.example"},
        {"redirect_uri": "https://x.example"},
        {"code_verifier": "w" * 64},
        {},
    ]
    for more in wrong:
        await _post(caller, "/oauth/token", {**usual, **more}, what="token badly")


async def _redeem(caller: Caller, client_id: str, code: str) -> Any:
    data = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": VERIFIER,
        "redirect_uri": CALLBACK,
        "client_id": client_id,
        "resource": RESOURCE,
    }
    return parsed((await _post(caller, "/oauth/token", data, what="token")).body)


async def _refresh(caller: Caller, client_id: str, token: str) -> Any:
    data = {
        "grant_type": "refresh_token",
        "refresh_token": token,
        "client_id": client_id,
        "resource": RESOURCE,
    }
    return parsed((await _post(caller, "/oauth/token", data, what="refresh")).body)


async def _use(caller: Caller, token: str) -> None:
    headers = {**_HOST, "authorization": f"Bearer {token}"}
    await caller.send("POST", "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)


async def _post(caller: Caller, target: str, data: dict[str, str], *, what: str) -> Answer:
    caller.clock.pass_ms(_BETWEEN_MS // 10)
    return await caller.send("POST", target, body=urlencode(data).encode(), headers=_FORM, what=what)


def _hidden(page: Answer) -> dict[str, str]:
    return read_page(page.body.decode()).forms[0]


def _action(page: Answer) -> str:
    action = urlsplit(read_page(page.body.decode()).actions[0])
    return action.path + (f"?{action.query}" if action.query else "")
