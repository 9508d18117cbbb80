"""The recording of old-era answers: raw requests, with the raw answers of the release before both eras were served.

python -m tests.contract.mcp_eras.old_answers     writes the file again; only before a change, never after it
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract import test_mcp
from tests.fakes.archive import HOST, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import call

PATH = Path(__file__).with_name("old_answers.jsonl.gz")
_DOCUMENTS = (
    "/.well-known/mcp-server-card", "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server/archive", "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration", "/oauth/token", "/oauth/register", "/oauth/revoke",
)  # fmt: skip
_QUESTIONS = (
    {"question": "river water rules"}, {"question": "comet", "context": "the sky", "skill_used": "digest"},
    {"question": "brackets and sums", "unknown": [1]}, {"question": "river", "context": None},
)  # fmt: skip


def list_requests() -> Iterator[dict[str, Any]]:
    """Return method, target, headers, body and sign-in of each request, in order."""
    for row in (*test_mcp.TRANSPORT, *test_mcp.ENVELOPE, *test_mcp.METHODS):
        raw = row.body if isinstance(row.body, bytes) else json.dumps(row.body).encode()
        yield _request(row.method, row.target, raw if row.method == "POST" else b"", row.headers, row.token)
    for arguments in _QUESTIONS:
        yield _post(test_mcp.call_of("ask_archive", arguments, "q"))
    for version in ("2024-11-05", "2025-11-25", "2026-07-28", "2099-01-01", ""):
        proposal = {**test_mcp.INITIALIZE, "protocolVersion": version}
        yield _post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": proposal})
    for params in (None, {}, {"cursor": "x"}, {"_meta": {"progressToken": 1}}, {"_meta": 7}):
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        yield _post(message if params is None else {**message, "params": params})
    for name in ("search", "fetch"):
        yield _post(test_mcp.call_of(name, {"query": "river", "id": "x"}))
    for path in _DOCUMENTS:
        for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
            yield _request(method, path, b"", {}, "")


async def ask(corner: ArchiveCorner, request: dict[str, Any]) -> dict[str, Any]:
    """Send a recorded request and return its answer, without the random part of a header."""
    headers = {name: value.encode("latin-1") for name, value in request["headers"].items()}
    headers.setdefault("host", HOST.encode())
    headers["x-request-id"] = b"recorded-1"
    if request["signed_in"] and "authorization" not in headers:
        headers["authorization"] = f"Bearer {corner.token()}".encode()
    if "x-scheme" in headers:
        headers["authorization"] = headers["x-scheme"] + f" {corner.token()}".encode()
    body = base64.b64decode(request["body"])
    answer = await call(corner.app, request["method"], request["target"], headers=headers, body=body)
    return {
        "status": answer.status,
        "headers": answer.headers,
        "names": list(answer.names),
        "body": base64.b64encode(answer.body).decode(),
    }


async def follow_pairs(corner: ArchiveCorner) -> list[dict[str, Any]]:
    """Return the requests for the articles of the results, whose offsets depend on keys only."""
    requests = []
    for result in await corner.ask("river water rules comet brackets"):
        pair = {"product_id": result["product_id"], "offset": result["offset"]}
        requests.append(_post(test_mcp.call_of("get_archive_article", pair)))
        requests.append(_post(test_mcp.call_of("get_archive_article", {**pair, "skill_used": "digest"}, "a")))
    return requests


def read() -> list[dict[str, Any]]:
    """Return the recording."""
    with gzip.open(PATH, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _post(message: Any) -> dict[str, Any]:
    return _request("POST", "/mcp", json.dumps(message).encode(), {}, None)


def _request(
    method: str, target: str, body: bytes, headers: dict[str, str | bytes], token: str | None
) -> dict[str, Any]:
    sent = {
        name: value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in headers.items()
    }
    if token:
        sent["authorization"] = f"Bearer {token}"
    return {
        "method": method,
        "target": target,
        "headers": sent,
        "body": base64.b64encode(body).decode(),
        "signed_in": token is None,
    }


async def _record() -> None:
    corner = await open_archive_corner()
    requests = [*list_requests(), *await follow_pairs(corner)]
    lines = [
        json.dumps({"request": request, "answer": await ask(corner, request)}) + "\n" for request in requests
    ]
    with PATH.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        out.write("".join(lines).encode())


if __name__ == "__main__":
    asyncio.run(_record())
