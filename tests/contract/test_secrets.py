"""Secrets that pass through reach no log line and no reply."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.fakes.asgi import call
from tests.fakes.request_handler import BROWSER, open_corner
from tests.fakes.tokens import token_of

CANARY = "CANARY7f31"


@pytest.mark.parametrize("way", ["framework", "front"])
@pytest.mark.parametrize("broken", [False, True])
async def test_canaries_in_every_place_leave_no_trace(
    way: str, broken: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    corner = await open_corner(share=1.0)
    app = build_application(corner.handler, version="0")
    entry = HotPathMiddleware(app, lambda: corner.handler) if way == "front" else app
    token = token_of({"user_id": f"{CANARY}-reader"}, corner.secret())
    if broken:
        corner.recommender.wrong = RuntimeError(f"{CANARY} {corner.secret()}")
    secrets = [CANARY, corner.secret(), corner.publishable(), token, corner.secret()[8:20]]
    replies = []
    with structlog.testing.capture_logs() as lines:
        for method, path in (
            ("GET", "/v1/users/x"), ("POST", "/v1/users"), ("POST", "/v1/interactions"), ("DELETE", "/v1/interactions"),
            ("POST", "/v1/recommendation/user_to_products"), ("GET", "/v1/nowhere"), ("PUT", "/v1/users"),
        ):  # fmt: skip
            for key, query in (
                (corner.secret(), f"note={CANARY}"), (CANARY, f"api_key={CANARY}"),
                (None, f"api_key={corner.secret()}"), (None, f"api_key={corner.publishable()}&x={CANARY}"),
            ):  # fmt: skip
                headers: dict[str, str | bytes] = {
                    "User-Agent": f"{BROWSER} {CANARY}", "Authorization": f"Bearer {token}", "Cookie": CANARY,
                    "Idempotency-Key": CANARY + str(len(replies)), "X-Forwarded-For": CANARY,
                    "X-Request-Id": f"a {CANARY}",
                }  # fmt: skip
                if key is not None:
                    headers["X-API-KEY"] = key
                body = json.dumps(
                    {"user_hash": CANARY, "jwt_token": CANARY, "data": CANARY, "rows": CANARY}
                ).encode()
                replies.append(await call(entry, method, f"{path}?{query}", headers=headers, body=body))
        replies.append(await call(entry, "POST", "/v1/users", headers=corner.headers(), body=CANARY.encode()))
        robots = {"User-Agent": f"curl {CANARY}"}
        target = f"/v1/interactions?api_key={corner.publishable()}"
        replies.append(await call(entry, "POST", target, headers=robots, body=b"{}"))
        replies.append(
            await call(
                entry, "POST", "/v1/recommendation/user_to_products", headers=corner.headers(), body=b"{}"
            )
        )
    logging.getLogger().removeHandler(handler)
    assert len(lines) >= len(replies)
    output = capsys.readouterr()
    everything = "".join((str(lines), heard.getvalue(), output.out, output.err))
    everything += "".join(f"{reply.headers} {reply.body!r}" for reply in replies)
    assert [secret for secret in secrets if secret in everything] == []
    assert {reply.status for reply in replies} >= {400, 401, 403, 404, 405, 422}
    assert (500 in {reply.status for reply in replies}) == broken
