"""`kiosk doctor mcp`: the way every client goes, step by step, and what one would trip over.

    endpoint -> discovery -> registration -> sign-in -> PKCE -> token -> list -> call -> refresh -> end

A step that fails ends the walk: what comes after it would only fail for the same reason.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from cluster.errors import KioskError
from cluster.records.archive.archive_client import CHECK_CLIENT
from cluster.records.archive.named_archive import mcp_path
from deployments.cli.doctor.http_session import HttpResponse, HttpSession
from deployments.operations.insight.installation_checks import Finding


class FormParser(HTMLParser):
    """The form on a page."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.choices: set[str] = set()
        self.feed(html.decode("utf-8", "replace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect forms, fields and buttons."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given.get("action", "")
        elif tag == "input":
            self.fields[given.get("name", "")] = given.get("value", "")
        elif tag == "button":
            self.choices.add(given.get("value", ""))


REDIRECT = "http://127.0.0.1:33418/callback"
TOOLS = ["ask_archive", "get_archive_article", "check_citations"]
ALL_TOOLS = [*TOOLS, "search", "fetch"]
"Those of the stateless revision; `KIOSK_ARCHIVE_CONNECTORS` shows them to all clients."
END_S = 2.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class McpCheckFailed(KioskError):
    """A client would trip here. Facts: `advice`."""

    code = "tripped"


@dataclass
class McpCheck:
    """One walk; what a step finds out the later ones use."""

    address: str
    username: str
    password: str
    question: str = "What happened lately?"
    archive_id: str = ""
    "App of a named archive; empty for the default one."
    session: HttpSession = field(default_factory=HttpSession)
    server: dict[str, Any] = field(default_factory=dict)
    client_id: str = ""
    code: str = ""
    verifier: str = ""
    tokens: dict[str, Any] = field(default_factory=dict)
    pair: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint_url(self) -> str:
        """The endpoint."""
        return self.address + mcp_path(self.archive_id)

    @property
    def resource_path(self) -> str:
        """Path of the metadata of the protected resource."""
        return "/.well-known/oauth-protected-resource" + mcp_path(self.archive_id)

    def run(self) -> Iterator[Finding]:
        """Go as far as the way leads."""
        lasting = {name for name, _ in self.checks()}
        for name, step in self.steps():
            try:
                words = step()
            except McpCheckFailed as error:
                yield Finding(name, "bad", error.message, error.facts.get("advice", ""))
                if name in lasting:
                    continue
                return
            except KioskError as error:
                yield Finding(name, "bad", error.message, "`kiosk status` says how the parts are")
                return
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                # Steps read answers as a client does, which expects their members without a check.
                words = f"the answer has an unexpected form ({type(error).__name__}: {error})"
                yield Finding(name, "bad", words, "does a proxy answer instead?")
                if name in lasting:
                    continue
                return
            yield Finding(name, "warning" if words.startswith("! ") else "ok", words.removeprefix("! "))

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Return the steps in their order."""
        return (
            ("address", self._address),
            ("endpoint", self._endpoint),
            ("discovery", self._discovery),
            ("registration", self._registration),
            ("sign-in", self._sign_in),
            ("PKCE and token", self._token),
            ("initialize and list", self._list),
            ("call", self._call),
            ("refresh", self._refresh),
            ("end of access", self._end),
        )

    def checks(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Return the steps after which the walk goes on, whatever they find."""
        return ()

    def _address(self) -> str:
        parts = urlsplit(self.address)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise McpCheckFailed(
                "clients refuse plain http beyond loopback", advice="put TLS in front, set KIOSK_PUBLIC_URL"
            )
        if parts.hostname in _LOOPBACK:
            return f"! {self.endpoint_url}, for clients on this machine; others need KIOSK_PUBLIC_URL and TLS"
        return self.endpoint_url

    def _endpoint(self) -> str:
        heard = self.session.send("GET", self.endpoint_url, headers={"Accept": "text/event-stream"})
        require(
            heard.status == 405,
            f"GET answered {heard.status}, clients expect 405",
            "does a proxy answer instead?",
        )
        require(
            "www-authenticate" not in heard.headers,
            "the 405 asks for sign-in",
            "a proxy adds WWW-Authenticate",
        )
        heard = self._post({"jsonrpc": "2.0", "id": 0, "method": "ping"}, token="")
        require(
            heard.status == 401,
            f"a call without a token answered {heard.status}, not 401",
            "does a proxy sign in?",
        )
        expected = f'Bearer resource_metadata="{self.address}{self.resource_path}"'
        challenge = heard.headers.get("www-authenticate", "nothing")
        require(
            challenge == expected,
            f"the 401 points to {challenge}",
            f"KIOSK_PUBLIC_URL must be {self.address}",
        )
        heard = self._post({}, token="", origin="https://stranger.example")
        require(
            heard.status == 403,
            f"a stranger's page got {heard.status}, not 403",
            "a proxy drops the Origin header",
        )
        return "405, 401 and 403 as clients expect them"

    def _discovery(self) -> str:
        resource = self._document(self.resource_path)
        issuer = f"{self.address}/archive"
        require(
            resource.get("resource") == self.endpoint_url, f"resource is {resource.get('resource')}", PUBLIC
        )
        require(
            resource.get("authorization_servers") == [issuer],
            "another authorization server is named",
            PUBLIC,
        )
        self.server = self._document("/.well-known/oauth-authorization-server/archive")
        require(self.server.get("issuer") == issuer, f"issuer is {self.server.get('issuer')}", PUBLIC)
        require("S256" in self.server.get("code_challenge_methods_supported", ()), "S256 is not announced")
        for name in (
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
        ):
            require(
                str(self.server.get(name)).startswith(self.address),
                f"{name} is {self.server.get(name)}",
                PUBLIC,
            )
        heard = self.session.send("GET", f"{self.address}/.well-known/openid-configuration/archive")
        require(
            heard.status == 404,
            f"openid-configuration answered {heard.status}",
            "clients would insist on OpenID",
        )
        return "resource, issuer and endpoints agree"

    def _registration(self) -> str:
        metadata = {
            "client_name": CHECK_CLIENT,
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        heard = self.session.send("POST", self.server["registration_endpoint"], message=metadata)
        client = heard.parse_json()
        require(heard.status == 201 and isinstance(client, dict), f"registration answered {heard.status}")
        require(None not in client.values(), "the answer holds null, which TypeScript clients refuse")
        require(client.get("redirect_uris") == [REDIRECT], "the redirect address did not come back")
        self.client_id = client["client_id"]
        return "a public client with a loopback address is taken"

    def _sign_in(self) -> str:
        # 64 characters, within the 43 to 128 of RFC 7636, 4.1.
        self.verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            # Characters that one encoding too many or too few would change.
            "state": "a/b+c=",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": self.endpoint_url,
        }
        start = self.server["authorization_endpoint"]
        # With `plain`, the challenge is the verifier, so whoever reads this address could redeem the code.
        plain = self.session.send("GET", f"{start}?{urlencode({**query, 'code_challenge_method': 'plain'})}")
        require(
            "error=invalid_request" in plain.headers.get("location", ""), "a plain challenge is not refused"
        )
        url = f"{start}?{urlencode(query)}"
        heard = self._submit_pages(url)
        redirect = {
            name: values[0] for name, values in parse_qs(urlsplit(heard.headers["location"]).query).items()
        }
        require("code" in redirect, f"the redirect says {redirect.get('error', 'nothing')}")
        require(redirect.get("state") == query["state"], "state came back changed")
        # RFC 9207: without `iss`, a client of several servers can send the code of one to another.
        require(redirect.get("iss") == self.server["issuer"], f"iss is {redirect.get('iss')}")
        self.code = redirect["code"]
        return "page, account and consent; code, state and iss come back"

    def _token(self) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": self.code,
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "code_verifier": self.verifier,
            "resource": self.endpoint_url,
        }
        self.tokens = self._exchange(form)
        again = self.session.send("POST", self.server["token_endpoint"], form=form)
        require(again.status == 400, f"the code works twice ({again.status})")
        # A replayed code ends what it produced, as it should; so a second sign-in goes on from here.
        self._sign_in()
        self.tokens = self._exchange({**form, "code": self.code, "code_verifier": self.verifier})
        return f"good for {self.tokens['expires_in']} s; a code works once"

    def _list(self) -> str:
        client = {"name": CHECK_CLIENT, "version": "1"}
        proposal = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        hello = self._result("initialize", proposal)
        # A server that does not speak the proposed version answers with one of its own, and the client
        # decides.
        require(hello.get("protocolVersion") == "2024-11-05", f"it speaks {hello.get('protocolVersion')}")
        heard = self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        # The MCP specification wants 202 without a body: a notification gets no JSON-RPC answer.
        require(heard.status == 202 and not heard.body, f"a notification answered {heard.status}")
        names = [tool["name"] for tool in self._result("tools/list", {})["tools"]]
        require(names in (TOOLS, ALL_TOOLS), f"the tools are {', '.join(names) or 'none'}")
        return f"{hello['serverInfo']['title']} {hello['serverInfo']['version']}, {len(names)} tools"

    def _call(self) -> str:
        results = self._tool("ask_archive", {"question": self.question})["results"]
        if not results:
            return "! the archive found nothing; is it filled? `kiosk ingest archive`, KIOSK_ARCHIVE_APP"
        self.pair = {name: results[0][name] for name in ("product_id", "offset")}
        article = self._tool("get_archive_article", self.pair)
        made_up = self._rpc("tools/call", {"name": TOOLS[1], "arguments": {**self.pair, "offset": 0}})
        require("error" in made_up, "a made-up pair is answered")
        if not article["citation_format"].startswith("["):
            return f"! {len(results)} results, but no web address to cite: articles need a `url`"
        return f"{len(results)} results, one read; cited as {article['citation_format']}"

    def _refresh(self) -> str:
        before = self.tokens
        form = {"grant_type": "refresh_token", "client_id": self.client_id, "resource": self.endpoint_url}
        self.tokens = self._exchange({**form, "refresh_token": before["refresh_token"]})
        require(self.tokens["refresh_token"] != before["refresh_token"], "the refresh token does not rotate")
        if self.pair:
            self._tool("get_archive_article", self.pair)
        return "rotates; results from before stay readable"

    def _end(self) -> str:
        form = {"token": self.tokens["refresh_token"], "client_id": self.client_id}
        heard = self.session.send("POST", self.server["revocation_endpoint"], form=form)
        require(heard.status == 200, f"revocation answered {heard.status}")
        until = time.monotonic() + END_S
        while self._post({"jsonrpc": "2.0", "id": 0, "method": "ping"}).status != 401:
            require(time.monotonic() < until, f"a revoked token still works after {END_S:g} s")
            time.sleep(0.1)
        return "a revoked connection is refused everywhere within a second"

    def _submit_pages(self, url: str) -> HttpResponse:
        """Sign in and allow until the redirect to the client comes."""
        heard = self.session.send("GET", url)
        for _ in range(6):
            location = urljoin(url, heard.headers.get("location", ""))
            if location.startswith(REDIRECT):
                return heard
            if heard.status in (302, 303):
                url = location
                heard = self.session.send("GET", url)
                continue
            require(heard.status == 200, f"the sign-in page answered {heard.status}", _PAGE)
            # Browsers apply `form-action` to redirects too, so it would stop the way from the consent to the
            # client.
            policy = heard.headers.get("content-security-policy", "")
            require(
                "form-action" not in policy,
                "the page's policy blocks the way back (form-action)",
                "a proxy adds it",
            )
            page = FormParser(heard.body)
            form = dict(page.fields)
            if "password" in form:
                form |= {"username": self.username, "password": self.password, "decision": "sign-in"}
            else:
                form["decision"] = "allow"
            url = urljoin(url, page.action)
            heard = self.session.send("POST", url, form=form, headers={"Origin": self.address})
        raise McpCheckFailed("signing in leads round in circles", advice="are cookies dropped on the way?")

    def _exchange(self, form: dict[str, str]) -> dict[str, Any]:
        heard = self.session.send("POST", self.server["token_endpoint"], form=form)
        tokens = heard.parse_json()
        if heard.status != 200 or not isinstance(tokens, dict):
            why = tokens.get("error_description", "") if isinstance(tokens, dict) else ""
            raise McpCheckFailed(f"the token endpoint answered {heard.status} {why}")
        require(type(tokens.get("expires_in")) is int, "expires_in is no integer")
        require("refresh_token" in tokens, "there is no refresh token: every hour a sign-in")
        require("no-store" in heard.headers.get("cache-control", ""), "tokens may be cached on the way")
        return tokens

    def _document(self, path: str) -> dict[str, Any]:
        heard = self.session.send("GET", self.address + path)
        document = heard.parse_json()
        require(
            heard.status == 200 and isinstance(document, dict),
            f"{path} answered {heard.status}",
            "is it routed here?",
        )
        require(None not in document.values(), f"{path} holds null")
        return dict(document)

    def _tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self._result("tools/call", {"name": name, "arguments": arguments})
        require(
            json.loads(result["content"][0]["text"]) == result["structuredContent"],
            f"{name} gives two answers",
        )
        return dict(result["structuredContent"])

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = self._rpc(method, params)
        require("result" in answer, f"{method}: {answer.get('error', {}).get('message', 'no answer')}")
        return dict(answer["result"])

    def _rpc(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        heard = self._post({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        message = heard.parse_json()
        require(heard.status == 200 and isinstance(message, dict), f"{method} answered {heard.status}")
        require(message.get("id") == 0, "the id 0 does not come back")
        return dict(message)

    def _post(self, message: Any, *, token: str | None = None, origin: str = "") -> HttpResponse:
        chosen = self.tokens.get("access_token", "") if token is None else token
        headers = {"Accept": "application/json, text/event-stream"}
        if chosen:
            headers["Authorization"] = f"Bearer {chosen}"
        if origin:
            headers["Origin"] = origin
        return self.session.send("POST", self.endpoint_url, message=message, headers=headers)


PUBLIC = "KIOSK_PUBLIC_URL must be exactly what clients type, without a path"
_PAGE = "is the account locked? `kiosk users list`"


def require(good: bool, words: str, advice: str = "") -> None:
    """Go on if a client can.

    Errors:
        McpCheckFailed: a client would trip
    """
    if not good:
        raise McpCheckFailed(words, advice=advice)
