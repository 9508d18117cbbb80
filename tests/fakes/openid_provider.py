"""An OpenID provider that runs in the test and speaks HTTP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from cluster.clock import SystemClock

CLIENT, SECRET = "kiosk", "the client's secret"
EMAIL = "ada@example.com"


class Provider:
    """An OpenID provider that signs everybody in; `claims` and `key` change what its tokens say."""

    def __init__(self) -> None:
        self.issuer = ""
        self.key: Any = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing: Any = None
        "Signs instead of the key that is published."
        self.algorithm = "RS256"
        self.claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        "Those that are valid: each is used once."
        self.sends_id_token_at_refresh = True
        self.is_away = False
        "Whether it answers requests for tokens with 503."
        self.refreshes = 0
        "Requests with one."
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.describe),
                Route("/keys", self.publish),
                Route("/authorize", self.authorize),
                Route("/token", self.redeem, methods=["POST"]),
            ]
        )

    async def describe(self, _: Request) -> Response:
        """Discovery."""
        return JSONResponse(
            {
                "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
            }
        )  # fmt: skip

    async def publish(self, _: Request) -> Response:
        """The public keys."""
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def authorize(self, request: Request) -> Response:
        """Sign the person in and send a code back."""
        parameters = dict(request.query_params)
        assert parameters["response_type"] == "code"
        assert "openid" in parameters["scope"].split()
        assert parameters["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = parameters
        return RedirectResponse(f"{parameters['redirect_uri']}?code={code}&state={parameters['state']}", 303)

    async def redeem(self, request: Request) -> Response:
        """Exchange a code."""
        if self.is_away:
            return Response("", 503)
        form = dict(await request.form())
        if form.get("grant_type") == "refresh_token":
            return self.refresh(str(form.get("refresh_token")))
        authorized = self.codes.pop(str(form.get("code")), None)
        basic = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        verifier = str(form.get("code_verifier", ""))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if (
            authorized is None
            or request.headers["authorization"] != basic
            or authorized["code_challenge"] != challenge
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self.answer(authorized["nonce"], has_refresh="offline_access" in authorized["scope"])

    def refresh(self, token: str) -> Response:
        """Exchange a refresh token for the next one."""
        self.refreshes += 1
        if token not in self.refresh_tokens:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.refresh_tokens.remove(token)
        return self.answer("", has_refresh=True, has_id_token=self.sends_id_token_at_refresh)

    def answer(self, nonce: str, *, has_refresh: bool, has_id_token: bool = True) -> Response:
        """Return an ID token, and a refresh token."""
        now_s = SystemClock().now_ms() // 1000
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": "248289761001", "nonce": nonce, "iat": now_s,
            "exp": now_s + 300, "email": EMAIL, "email_verified": True, **self.claims,
        }  # fmt: skip
        key = self.signing or self.key
        token = jwt.encode({"alg": self.algorithm, "kid": "one"}, claims, key, algorithms=[self.algorithm])
        answer = {"access_token": "x", "token_type": "Bearer"}
        if has_id_token:
            answer["id_token"] = token
        if has_refresh:
            answer["refresh_token"] = f"refresh-{self.refreshes}-{len(self.refresh_tokens)}"
            self.refresh_tokens.add(answer["refresh_token"])
        return JSONResponse(answer)


@asynccontextmanager
async def serving(provider: Provider) -> AsyncIterator[None]:
    """Run the provider on a loopback port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(provider.app, log_config=None, lifespan="off"))
        listening.listen()
        provider.issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        yield
        server.should_exit = True
        await running
