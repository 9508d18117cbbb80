"""OAuth over memory or Redis, as the archive's clients and their people use it over plain HTTP."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.records.account import Account, Role
from cluster.store.stores import Stores
from deployments.archive.oauth.addresses import resource_of
from deployments.archive.oauth.client_identity.document_clients import DocumentClients
from deployments.archive.oauth.routes import build_oauth_routes
from deployments.archive.oauth.services import OAuthLimits, OAuthServices, open_oauth
from deployments.edge.http.server_origin import ServerOrigin
from deployments.sign_in.identity_provider import ProviderConfig

MASTER = bytes(range(32))
ORIGIN = "https://news.example.com"
RESOURCE = ORIGIN + "/mcp"
ISSUER = ORIGIN + "/archive"
CALLBACK = "http://localhost:33418/callback"
PASSWORD = "correct horse battery"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
_DIGEST = hashlib.scrypt(PASSWORD.encode(), salt=b"salt", n=1 << 8, r=8, p=1, dklen=32)
_HASH = f"scrypt$8$8$1${base64.b64encode(b'salt').decode()}${base64.b64encode(_DIGEST).decode()}"
"A quick one: how slow real ones are has a test of its own."


def an_account(username: str = "ada", role: Role = "reader") -> Account:
    """Make somebody who signs in with `PASSWORD`."""
    return Account(
        username=username, user_id=f"usr-{username}", password=_HASH, role=role, created_at=1_700_000_000_000
    )


def oauth_services(
    stores: Stores,
    clock: Clock,
    *,
    public_url: str = ORIGIN,
    limits: OAuthLimits | None = None,
    plain_sign_in: bool = False,
    provider: ProviderConfig | None = None,
    has_passwords: bool = True,
    documents: DocumentClients | None = None,
) -> OAuthServices:
    """Put the means together."""
    addresses = ServerOrigin.from_config(public_url, plain_sign_in=plain_sign_in)
    return open_oauth(
        stores, Vault(MASTER), clock, addresses, limits=limits, provider=provider, has_passwords=has_passwords,
        documents=documents,
    )  # fmt: skip


def app_over(services: OAuthServices) -> Starlette:
    """Make an application of the routes and a resource that only says whose token it got."""

    async def resource(request: Request) -> Response:
        token = request.headers.get("authorization", "").partition(" ")[2]
        person = await services.access_tokens.find_caller(token, resource_of(services.origin(request)))
        if person is None:
            return JSONResponse({}, 401)
        return JSONResponse({"user_id": person.user_id, "client": person.client_name})

    return Starlette(routes=[*build_oauth_routes(services), Route("/mcp", resource, methods=["POST"])])


class _Reader(HTMLParser):
    """Takes forms and text out of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.actions: list[str] = []
        self.decisions: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "form":
            self.forms.append({})
            self.actions.append(attributes.get("action") or "")
        elif tag == "input" and attributes.get("type") == "hidden":
            self.forms[-1][attributes["name"] or ""] = attributes.get("value") or ""
        elif tag == "button":
            self.decisions.append(attributes.get("value") or "")


def read_page(text: str) -> _Reader:
    """Read a page."""
    parser = _Reader()
    parser.feed(text)
    return parser


@dataclass
class Person:
    """A browser with a person in front of it."""

    http: httpx.AsyncClient
    username: str = "ada"
    password: str = PASSWORD
    page: httpx.Response | None = None
    seen: list[httpx.Response] = field(default_factory=list)

    async def open(self, address: str, **parameters: Any) -> httpx.Response:
        """Open a page."""
        return self._keep(await self.http.get(address, params=parameters or None))

    async def press(self, decision: str, form: int = 0, **more: str) -> httpx.Response:
        """Press a button of the page."""
        assert self.page is not None
        page = read_page(self.page.text)
        data = {**page.forms[form], **more, "decision": decision}
        return self._keep(await self.http.post(page.actions[form], data=data))

    async def sign_in(self) -> httpx.Response:
        """Fill the sign-in form in, and follow."""
        answer = await self.press("sign-in", username=self.username, password=self.password)
        return await self.follow() if answer.status_code == 303 else answer

    async def follow(self) -> httpx.Response:
        """Go where the last answer leads."""
        assert self.page is not None
        return await self.open(self.page.headers["location"])

    def _keep(self, answer: httpx.Response) -> httpx.Response:
        self.page = answer
        self.seen.append(answer)
        return answer


@dataclass
class Program:
    """A client application."""

    http: httpx.AsyncClient
    client_id: str = ""
    callback: str = CALLBACK

    async def register(self, **more: Any) -> httpx.Response:
        """Register."""
        given = {
            "client_name": "Reader",
            "redirect_uris": [self.callback],
            "token_endpoint_auth_method": "none",
        }
        body = {name: value for name, value in {**given, **more}.items() if value is not None}
        answer = await self.http.post("/oauth/register", json=body)
        if answer.status_code == 201:
            self.client_id = answer.json()["client_id"]
        return answer

    def asks(self, **more: str | None) -> dict[str, str]:
        """Write the parameters of an authorization request; None leaves one out."""
        usual: dict[str, str | None] = {
            "response_type": "code", "client_id": self.client_id, "redirect_uri": self.callback,
            "state": "st ate/+&=", "code_challenge": CHALLENGE, "code_challenge_method": "S256",
            "resource": RESOURCE,
        }  # fmt: skip
        return {name: value for name, value in {**usual, **more}.items() if value is not None}

    async def redeem(self, code: str, /, **more: str | None) -> httpx.Response:
        """Exchange a code."""
        usual: dict[str, str | None] = {
            "grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER,
            "redirect_uri": self.callback, "client_id": self.client_id, "resource": RESOURCE,
        }  # fmt: skip
        data = {name: value for name, value in {**usual, **more}.items() if value is not None}
        return await self.http.post("/oauth/token", data=data)

    async def refresh(self, token: str, /, **more: str | None) -> httpx.Response:
        """Exchange a refresh token."""
        usual: dict[str, str | None] = {
            "grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id,
            "resource": RESOURCE,
        }  # fmt: skip
        data = {name: value for name, value in {**usual, **more}.items() if value is not None}
        return await self.http.post("/oauth/token", data=data)

    async def use(self, token: str) -> int:
        """Call the resource; return the status."""
        answer = await self.http.post("/mcp", headers={"authorization": f"Bearer {token}"})
        return answer.status_code


def answer_of(redirect: httpx.Response) -> dict[str, str]:
    """Read the parameters of a redirect, each of which stands there once."""
    query = parse_qs(urlsplit(redirect.headers["location"]).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in query.values()), query
    return {name: values[0] for name, values in query.items()}


def visible(text: str) -> str:
    """Take the markup off a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", text, flags=re.S)).split())


def http_over(app: Any, origin: str = ORIGIN, address: str = "203.0.113.7") -> httpx.AsyncClient:
    """Make an HTTP client that talks to the application in this process; it is a browser of its own."""
    transport = httpx.ASGITransport(app=app, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url=origin)
