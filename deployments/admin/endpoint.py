"""The ASGI application of the administration: finds, authenticates, performs, replies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Malformed, TooMany, Unavailable, messages
from deployments.admin.arguments import PREFIX, AnyOperation, collect_arguments, takes_body
from deployments.admin.authentication import Authenticator
from deployments.edge.http.body_pace import FILE, FORM, UploadSlots
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.errors import method_not_allowed_reply, reply_from_error, unknown_path_reply
from deployments.edge.http.path_table import PathMatch, PathTable, raw_path
from deployments.edge.http.replies import NO_STORE, NOSNIFF, Header, Reply, success
from deployments.edge.http.request import DeadlineExceeded, Scope
from deployments.edge.http.request_log import HEADER as REQUEST_ID
from deployments.edge.http.request_log import ClientDisconnected, RequestLog, RequestRecorder, send_reply
from deployments.operations.framework.operation import Download, result_to_json
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal

MOST_BYTES = 1 << 20
MOST_IN_FLIGHT = 32
MOST_OF_PERSON = 8
"Requests of one person at once: slow bodies of one must not take all places."
LONGEST_VALUE = 512
"Characters of a value in a path."
OPERATION_S = 60.0
UPLOAD_S = 7_200.0
"Enough for the largest file at the slowest pace."


AdminMatch = PathMatch[AnyOperation]


@dataclass(slots=True)
class AdminEndpointServices:
    """What the endpoint depends on."""

    administration: Administration[Any]
    authenticator: Authenticator
    clock: Clock
    log: RequestLog
    addresses: ClientAddresses = DIRECT
    uploads: UploadSlots = field(default_factory=UploadSlots)


class AdminEndpoint:
    """Answers every path below `/v1/admin`."""

    def __init__(self, services: AdminEndpointServices) -> None:
        self._services = services
        self._recorder = RequestRecorder(services.clock, services.log)
        self._paths = PathTable(services.administration.operations.values(), slashes=False)
        self._in_flight = 0
        self._of_person: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        path = self._find(scope)
        operation = None if path is None else path.endpoint(request.method)
        name = f"admin.{operation.name}" if operation is not None else "admin.none"

        async def answer(request_id: str) -> int:
            reply = await self._reply(request, path, operation, request_id)
            if isinstance(reply, Download):
                return await _send_download(reply, request, request_id, send)
            return await _send(reply, request, request_id, send)

        await self._recorder.run(name, _header(scope, REQUEST_ID), answer)

    def _find(self, scope: Scope) -> AdminMatch | None:
        """Return the match of a path; a slash in a value is `%2F`."""
        below = raw_path(scope).removeprefix(PREFIX.encode()).strip(b"/")
        match = self._paths.find(b"/" + below)
        is_valid = match is not None and all(map(_is_value, match.ids.values()))
        return match if is_valid else None

    async def _reply(
        self, request: Request, path: AdminMatch | None, operation: AnyOperation | None, request_id: str
    ) -> Reply | Download:
        if request.method == "OPTIONS" and path is not None:
            return Reply(204, b"", ((b"allow", ", ".join(_allowed(path)).encode()),))
        try:
            if self._in_flight >= MOST_IN_FLIGHT:
                raise TooMany(messages.OVERLOADED, retry_after_s=1)
            self._in_flight += 1
            try:
                return await self._answer(request, path, operation)
            finally:
                self._in_flight -= 1
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            reply = reply_from_error(error, "message", request_id=request_id)
            if isinstance(error, KioskError) and error.facts.get("bearer"):
                challenge: Header = (b"www-authenticate", b'Bearer realm="kiosk administration"')
                reply = Reply(reply.status, reply.body, (*reply.headers, challenge))
            return reply

    async def _answer(
        self, request: Request, path: AdminMatch | None, operation: AnyOperation | None
    ) -> Reply | Download:
        services = self._services
        address = services.addresses.find(request.scope)
        principal = await services.authenticator.authenticate(request, address)
        if path is None:
            return unknown_path_reply()
        if operation is None:
            return method_not_allowed_reply(_allowed(path))
        who = principal.user_id
        if self._of_person[who] >= MOST_OF_PERSON:
            raise TooMany("too many requests of this account at once", retry_after_s=1)
        self._of_person[who] += 1
        try:
            return await self._perform(request, path, operation, principal)
        finally:
            self._of_person[who] -= 1
            # Otherwise the table would keep an entry for every account that ever called.
            if not self._of_person[who]:
                del self._of_person[who]

    async def _perform(
        self, request: Request, path: AdminMatch, operation: AnyOperation, principal: Principal
    ) -> Reply | Download:
        administration = self._services.administration
        if operation.scope != "app" or "app_id" in path.ids:  # before the body is read
            await administration.authorize(principal, operation, path.ids)
        body = await _read(request) if takes_body(operation) else b""
        given = collect_arguments(operation, path.ids, request.query_params, body)
        work = administration.perform
        if not operation.stream_field:
            return await _reply_within(operation, work(principal, operation.name, given), OPERATION_S)
        given[operation.stream_field] = _stream(request)
        with self._services.uploads.take(principal.user_id):
            return await _reply_within(operation, work(principal, operation.name, given), UPLOAD_S)


async def _reply_within(operation: AnyOperation, work: Awaitable[Any], limit_s: float) -> Reply | Download:
    """Return the reply of an operation; a change that takes longer goes on."""
    try:
        result = await run_within(work, limit_s)
    except asyncio.TimeoutError:
        goes_on = " and goes on; look at its result later" if operation.changes else ""
        raise Unavailable(f"the operation takes long{goes_on}", told=True, retry_after_s=10) from None
    return result if isinstance(result, Download) else success(result_to_json(result))


def build_admin_routes(services: AdminEndpointServices) -> list[BaseRoute]:
    """Return the routes of the administration."""
    endpoint = AdminEndpoint(services)
    return [
        Route(PREFIX, endpoint=endpoint),
        Route(PREFIX + "/{rest:path}", endpoint=endpoint),
    ]


def _is_value(text: str) -> bool:
    return len(text) <= LONGEST_VALUE and text.isprintable()


def _allowed(path: AdminMatch) -> tuple[str, ...]:
    return tuple(sorted(path.entry.allowed, key=("HEAD", "OPTIONS").count))


def _header(scope: Mapping[str, Any], name: bytes) -> bytes | None:
    return next((value for given, value in scope["headers"] if given == name), None)


async def _read(request: Request) -> bytes:
    try:
        return await FORM.read(request, MOST_BYTES)
    except DeadlineExceeded:
        raise Unavailable("the body did not arrive in time", told=True, retry_after_s=1) from None


async def _stream(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; the operation bounds its size.

    Errors:
        Malformed: the body is compressed
        Unavailable: the client sends too slowly
        ClientDisconnected: the client disconnected
    """
    encoding = _header(request.scope, b"content-encoding")
    if encoding and encoding.strip().lower() not in (b"", b"identity"):
        raise Malformed("Content-Encoding is not supported; send the file as it is.")
    receive = FILE.bound(request.receive)
    more = True
    while more:
        try:
            message = await receive()
        except DeadlineExceeded:
            raise Unavailable("the rest of the file did not arrive in time", told=True) from None
        if message["type"] != "http.request":
            raise ClientDisconnected
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _send(reply: Reply, request: Request, request_id: str, send: Any) -> int:
    headers = [
        reply.content_type,
        (b"content-length", b"%d" % len(reply.body)),
        (REQUEST_ID, request_id.encode()),
        NOSNIFF,
        NO_STORE,
        *reply.headers,
    ]
    if reply.status == 204:
        # A 204 has no body, hence neither type nor length (RFC 9110, 8.6).
        headers = headers[2:]
    return await send_reply(reply, headers, request.method, send)


async def _send_download(download: Download, request: Request, request_id: str, send: Any) -> int:
    disposition = f'attachment; filename="{download.filename}"'
    headers = [
        (b"content-type", download.media_type.encode()),
        (b"content-disposition", disposition.encode()),
        (REQUEST_ID, request_id.encode()),
        NOSNIFF,
        NO_STORE,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if request.method != "HEAD":
        async for chunk in download.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return 200
