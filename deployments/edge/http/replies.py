"""Replies as bytes: `{message, data}` around JSON that is already serialized, and their cross-origin headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mmh3
import orjson

from cluster.errors import messages

if TYPE_CHECKING:
    from deployments.edge.http.request import ApiRequest

Header = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
NO_STORE: Header = (b"cache-control", b"no-store")
"Default for replies: caches must not store data that requires a key."
REVALIDATED: tuple[Header, ...] = (
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"X-API-KEY, Authorization"),
)
"For replies with a tag: the client caches them and revalidates."

_OPTIONS = orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class Reply:
    """A status, a serialized JSON body, and headers beyond the usual ones."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    content_type: Header = JSON_TYPE
    etag: bytes = b""
    "Tag of the content for clients that revalidate; empty: the reply is not cached."


def dumps(value: Any) -> bytes:
    """Return a value as JSON bytes."""
    return orjson.dumps(value, option=_OPTIONS)


def with_etag(reply: Reply) -> Reply:
    """Add a tag of the content to a reply, so that clients need not load it again unchanged."""
    return Reply(reply.status, reply.body, reply.headers, reply.content_type, compute_etag(reply.body))


def compute_etag(body: bytes) -> bytes:
    """Return the tag of a content: a hash.

    The hash need not be strong, because a forged tag affects only the cache of its client.

    Cost:
        half a microsecond for 1 kB
    """
    return b'"%s"' % mmh3.mmh3_x64_128_digest(body).hex().encode()


def matches_etag(etag: bytes, if_none_match: bytes) -> bool:
    """Return whether `If-None-Match` contains a tag, also as a weak one."""
    tags = [tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")]
    return etag in tags or tags == [b"*"]


def with_warning(reply: Reply, parameter: str, message: str) -> Reply:
    """Add a warning to a reply: as a header, and in `warnings` of a body that has `message` first.

    The body of a reply with a tag stays as it is, because caches compare it.
    """
    headers = (*reply.headers, (b"x-kiosk-warning", message.encode()))
    body = reply.body
    if body.startswith(b'{"message":') and not reply.etag:
        warning = dumps({"field": parameter, "message": message})
        first = b'{"message":"%s","warnings":[' % messages.SUCCESS.encode()
        if body.startswith(first):
            body = first + warning + b"," + body[len(first) :]
        else:
            body = body[:-1] + b',"warnings":[' + warning + b"]}"
    return Reply(reply.status, body, headers, reply.content_type, reply.etag)


def plain_reply(value: Any) -> Reply:
    """Return a reply without an envelope."""
    return Reply(200, dumps(value))


def message_reply(message: str) -> Reply:
    """Return a reply with a message only."""
    return Reply(200, dumps({"message": message}))


def success(data: Any, message: str = messages.SUCCESS) -> Reply:
    """Return a reply `{message, data}`."""
    return Reply(200, dumps({"message": message, "data": data}))


def success_json(data: bytes) -> Reply:
    """Return a reply `{message, data}` around a stored JSON record, without parsing it."""
    return Reply(200, b'{"message":"success","data":' + data + b"}")


def result(request: ApiRequest, service_id: str, name: str, payload: bytes) -> Reply:
    """Return the reply of a recommendation or search: `{message, data: {took, service_id, <name>}}`.

    An app may repeat the service id under a second name, for SDKs with another spelling.
    """
    alias = request.credential.app.settings.service_id_response_alias
    second = b"" if not alias else dumps(alias) + b':"' + service_id.encode() + b'",'
    return Reply(
        200,
        b'{"message":"success","data":{"took":%d,"service_id":"%s",%s"%s":%s}}'
        % (request.took_ms(), service_id.encode(), second, name.encode(), payload),
    )


# The API reads no cookies, so a page of any origin gets only what its key allows.
CORS_ORIGIN: Header = (b"access-control-allow-origin", b"*")
CORS_EXPOSE: Header = (
    b"access-control-expose-headers",
    b"X-Request-Id, Retry-After, ETag, WWW-Authenticate, X-Dry-Run, X-Kiosk-Warning",
)
_CORS_METHODS: Header = (b"access-control-allow-methods", b"GET, POST, PUT, DELETE, OPTIONS")
_CORS_HEADERS: Header = (
    b"access-control-allow-headers",
    b"Content-Type, Authorization, X-API-KEY, Idempotency-Key, If-None-Match, X-Requested-With",
)
# A day is the most that Firefox keeps; Chromium keeps two hours.
_CORS_MAX_AGE: Header = (b"access-control-max-age", b"86400")


def preflight() -> Reply:
    """Answer an OPTIONS request; browsers send it without a key, so it needs none."""
    return Reply(204, b"", (_CORS_METHODS, _CORS_HEADERS, _CORS_MAX_AGE))
