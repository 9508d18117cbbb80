"""Replies as bytes: `{message, data}`, spliced around JSON that is already written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mmh3
import orjson

from cluster.errors import messages

Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")
HTML_TYPE: Header = (b"content-type", b"text/html; charset=utf-8")

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
NO_STORE: Header = (b"cache-control", b"no-store")
"For every reply that does not say otherwise: what a key reads is nobody else's."
REVALIDATED: tuple[Header, ...] = (
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"X-API-KEY, Authorization"),
)
"For replies with a tag: the caller's own cache keeps them and asks whether they changed."

_OPTIONS = orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class Reply:
    """A status, a body that is already JSON, and headers beyond the usual ones."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    content_type: Header = JSON_TYPE
    etag: bytes = b""
    "Names this content, for callers that ask again and again whether it changed; empty: nobody keeps the reply."


def dumps(value: Any) -> bytes:
    """Write a value as JSON."""
    return orjson.dumps(value, option=_OPTIONS)


def with_etag(reply: Reply) -> Reply:
    """Give a reply that is asked for often a tag of its content, so that an unchanged one need not be sent again."""
    return Reply(reply.status, reply.body, reply.headers, reply.content_type, compute_etag(reply.body))


def compute_etag(body: bytes) -> bytes:
    """Name a content by its hash, which needs no strength: who forges one cheats a cache of their own.

    Cost:
        half a microsecond for 1 kB
    """
    return b'"%s"' % mmh3.mmh3_x64_128_digest(body).hex().encode()


def matches_etag(etag: bytes, if_none_match: bytes) -> bool:
    """Say whether `If-None-Match` names a tag, as a weak one too."""
    tags = [one.strip().removeprefix(b"W/") for one in if_none_match.split(b",")]
    return etag in tags or tags == [b"*"]


def plain_reply(value: Any, status: int = 200) -> Reply:
    """Answer with a body that has no envelope."""
    return Reply(status, dumps(value))


def message_reply(message: str, status: int = 200) -> Reply:
    """Answer with a message only."""
    return Reply(status, dumps({"message": message}))


def success(data: Any, message: str = messages.SUCCESS) -> Reply:
    """Answer `{message, data}`."""
    return Reply(200, dumps({"message": message, "data": data}))


def success_json(data: bytes) -> Reply:
    """Answer `{message, data}` around a record that is stored as JSON; nothing is parsed."""
    return Reply(200, b'{"message":"success","data":' + data + b"}")


def result(name: str, found: bytes, *, took_ms: int, service_id: str, alias: str = "") -> Reply:
    """Answer a recommendation or search: `{message, data: {took, service_id, <name>}}`.

    `alias` repeats the service id under a second name (decision I7).
    """
    second = b"" if not alias else dumps(alias) + b':"' + service_id.encode() + b'",'
    return Reply(
        200,
        b'{"message":"success","data":{"took":%d,"service_id":"%s",%s"%s":%s}}'
        % (took_ms, service_id.encode(), second, name.encode(), found),
    )
