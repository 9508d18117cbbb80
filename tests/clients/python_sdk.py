"""The official Python SDK, releases 1 and 2: the whole way, told as one line of JSON. Runs in the SDK's own room.

    python python_sdk.py [auto|2026-07-28]     without an argument: the handshake

With an argument, release 2 signs in by the metadata document at DOCUMENT.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

try:
    import httpx2 as http
    from mcp.client import Client
    from mcp.shared.auth import AuthorizationCodeResult

    RELEASE = 2
except ImportError:
    import httpx as http

    RELEASE = 1

URL = os.environ["MCP_URL"]
REDIRECT = "http://localhost:42095/callback"
BROWSER = [sys.executable, str(Path(__file__).with_name("browser.py")), "--stop"]


class Storage:
    """Remembers in memory."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Person:
    """Signs in when asked to."""

    def __init__(self) -> None:
        self.answer: dict[str, str] = {}
        self.sign_ins = 0

    async def redirect(self, url: str) -> None:
        self.sign_ins += 1
        completed = subprocess.run([*BROWSER, url], capture_output=True, text=True, check=True, timeout=60)  # noqa: ASYNC221
        self.answer = {
            name: values[0] for name, values in parse_qs(urlsplit(completed.stdout.strip()).query).items()
        }

    async def callback(self) -> Any:
        if RELEASE == 1:
            return self.answer["code"], self.answer.get("state")
        return AuthorizationCodeResult(**{name: self.answer.get(name) for name in ("code", "state", "iss")})


def provider(storage: Storage, person: Person, **document: str) -> Any:
    metadata = OAuthClientMetadata(
        client_name=f"python sdk {RELEASE}",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(
        server_url=URL,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=person.redirect,
        callback_handler=person.callback,
        **document,
    )


async def main() -> None:
    storage, person, report = Storage(), Person(), {}
    auth = provider(storage, person)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(http.AsyncClient(auth=auth, timeout=30))
        streams = await stack.enter_async_context(streamable_http_client(URL, http_client=client))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        hello = await session.initialize()
        report["version"] = getattr(hello, "protocolVersion", None) or hello.protocol_version
        await session.send_ping()
        report["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        answer = structured(await session.call_tool("ask_archive", {"question": os.environ["QUESTION"]}))
        report["results"] = answer["results"]
        pair = {name: answer["results"][0][name] for name in ("product_id", "offset")}
        report["article"] = structured(await session.call_tool("get_archive_article", pair))
        report["refused"] = await refused(session, {**pair, "offset": pair["offset"] + 1})
        # Its time is up: the refresh token gets another one, and nobody is asked to sign in.
        before = storage.tokens
        auth.context.token_expiry_time = time.time() - 1
        report["again"] = structured(await session.call_tool("get_archive_article", pair))["url"]
        report["refreshed"] = storage.tokens.refresh_token != before.refresh_token
    report["sign_ins"] = person.sign_ins
    print(json.dumps(report))


async def use_stateless(mode: str) -> None:
    """Go the same way without a handshake."""
    storage, person, report = Storage(), Person(), {}
    auth = provider(storage, person, client_metadata_url=os.environ["DOCUMENT"])
    async with http.AsyncClient(auth=auth, timeout=30) as connection:
        transport = streamable_http_client(URL, http_client=connection)
        async with Client(transport, mode=mode) as client:
            discovered = await client.session.discover()
            report["supported"] = discovered.supported_versions
            report["version"] = client.protocol_version
            report["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            answer = structured(await client.call_tool("ask_archive", {"question": os.environ["QUESTION"]}))
            report["results"] = answer["results"]
            pair = {name: answer["results"][0][name] for name in ("product_id", "offset")}
            report["article"] = structured(await client.call_tool("get_archive_article", pair))
            refused = await client.call_tool("get_archive_article", {**pair, "offset": pair["offset"] + 1})
            report["refused"] = refused.content[0].text if refused.is_error else ""
            before = storage.tokens
            auth.context.token_expiry_time = time.time() - 1
            report["again"] = structured(await client.call_tool("get_archive_article", pair))["url"]
            report["refreshed"] = storage.tokens.refresh_token != before.refresh_token
    report["client_id"] = storage.client.client_id
    report["sign_ins"] = person.sign_ins
    print(json.dumps(report))


def structured(result: Any) -> Any:
    content = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
    assert json.loads(result.content[0].text) == content
    return content


async def refused(session: ClientSession, pair: dict[str, Any]) -> str:
    try:
        await session.call_tool("get_archive_article", pair)
    except Exception as error:  # noqa: BLE001 - whatever it is, its words are compared
        return str(error)
    return ""


asyncio.run(use_stateless(sys.argv[1]) if len(sys.argv) > 1 else main())
