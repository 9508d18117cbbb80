"""The request handler: from an ASGI scope to the bytes of the reply, for every endpoint.

    find the endpoint -> admit (edge/access/admission) -> endpoint's answer -> write

`HotPathMiddleware` calls it in front of the framework, and the generated routes call it inside the framework. Both
replies are byte-equal except for the request id.

A request counts once its key is valid and its body is complete. Hot reads, other reads and writes have a limit each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cluster.clock import Clock
from cluster.errors import KioskError, TooMany, Unauthenticated, Unavailable, messages
from cluster.store.data.idempotency import IdempotencyStore
from deployments.api.http.endpoint import Endpoint
from deployments.edge.access import idempotency
from deployments.edge.access.admission import (
    KEYS_NOT_LOADED,
    AdmissionServices,
    admit,
    validate_request,
    verify_bearer_token,
)
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.compression import (
    ENCODED,
    LEAST_BYTES,
    LEAST_HOT_BYTES,
    accepts_gzip,
    gzip_in_thread,
)
from deployments.edge.http.credentials import HEADER as KEY_HEADER
from deployments.edge.http.credentials import PARAMETER, check_single_key, find_key, key_fault
from deployments.edge.http.errors import (
    UNSENT_STATUS,
    method_not_allowed_reply,
    reply_from_error,
    timeout_reply,
    unknown_path_reply,
)
from deployments.edge.http.path_table import PathMatch, PathTable, raw_path
from deployments.edge.http.replies import (
    CORS_EXPOSE,
    CORS_ORIGIN,
    NO_STORE,
    NOSNIFF,
    REVALIDATED,
    Header,
    Reply,
    matches_etag,
    preflight,
    with_warning,
)
from deployments.edge.http.request import ApiRequest, Deadline, DeadlineExceeded, Receive, Scope
from deployments.edge.http.request_log import ClientDisconnected, RequestLog, Send
from deployments.edge.observation.readiness import Readiness
from deployments.edge.observation.request_observer import HEADER as TRACE_HEADER
from deployments.edge.observation.request_observer import RequestObserver


@dataclass(slots=True)
class RequestSlots:
    """The number of requests of one kind in flight, and its limit."""

    limit: int
    in_use: int = 0


class RequestHandler:
    """An ASGI application that answers the endpoints of one table."""

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        gate: AdmissionServices,
        *,
        replays: IdempotencyStore,
        clock: Clock,
        log: RequestLog,
        most_reads: int = 256,
        most_slow_reads: int = 64,
        most_writes: int = 128,
        deadline_s: float = 30.0,
        addresses: ClientAddresses = DIRECT,
        observer: RequestObserver | None = None,
        readiness: Readiness | None = None,
        is_behind_haproxy: bool = False,
    ) -> None:
        self.endpoints = endpoints
        self._paths = PathTable(endpoints)
        self._gate = gate
        self._replays = replays
        self._clock = clock
        self._log = log
        self._deadline_s = deadline_s
        self._addresses = addresses
        self._observer = observer
        self._is_behind_haproxy = is_behind_haproxy
        self.readiness = readiness
        "Answers the readiness check of this replica; None outside of Serve."
        self.reads = RequestSlots(most_reads)
        self.slow_reads = RequestSlots(most_slow_reads)
        self.writes = RequestSlots(most_writes)
        "Hot reads, other reads, and writes; requests over the limit of a kind get status 429."
        self.busy_s = 0.0
        "Sum of the seconds spent in requests; its growth per second is the number of requests in flight."

    @property
    def in_flight(self) -> int:
        return self.reads.in_use + self.slow_reads.in_use + self.writes.in_use

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(self.find(scope), scope, receive, send)

    def find(self, scope: Scope) -> PathMatch[Endpoint] | None:
        """Return the match of a request's path; None if the path does not exist."""
        return self._paths.find(raw_path(scope))

    async def serve(
        self, match: PathMatch[Endpoint] | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request whose path is already matched."""
        request = ApiRequest(scope, receive, self._clock, self._addresses)
        endpoint = match.endpoint(request.method) if match is not None else None
        has_body = endpoint is not None and endpoint.has_body
        if (observer := self._observer) is not None:
            observer.untraced -= 1
            if has_body or observer.untraced < 0 or TRACE_HEADER in request.headers:
                name = endpoint.name if endpoint is not None else "none"
                request.trace = observer.begin(request, name, has_body=has_body)
        try:
            if endpoint is None:
                reply = self._answer_unknown_path(match, request)
            else:
                assert match is not None
                request.ids = match.ids
                reply = await self._reply(request, endpoint)
                if request.has_key and KEY_HEADER not in request.headers and request.credential.is_secret:
                    reply = _warn_of_address(reply)
                if request.trace is not None:
                    request.trace.mark("answer")
            await _write(
                reply,
                request,
                send,
                LEAST_HOT_BYTES if endpoint is not None and endpoint.hot else LEAST_BYTES,
            )
        except ClientDisconnected:
            return
        took_s = self._clock.monotonic_s() - request.started_s
        self._record(request, endpoint, reply, took_s * 1000)

    async def _reply(self, request: ApiRequest, endpoint: Endpoint) -> Reply:
        if not endpoint.has_body:
            # Reads only wait for the store, whose calls have deadlines.
            return await self._answer(request, endpoint)
        try:
            with Deadline(self._deadline_s):
                return await self._answer(request, endpoint)
        except DeadlineExceeded:
            if endpoint.rules.writes:
                # The interface gives uploads and deletes that take too long this body with status 400.
                return timeout_reply()
            slow = Unavailable("deadline exceeded", retry_after_s=1)
            return reply_from_error(slow, endpoint.family, request_id=request.request_id)

    async def _answer(self, request: ApiRequest, endpoint: Endpoint) -> Reply:
        try:
            await admit(request, endpoint.rules, self._gate)
            if request.trace is not None:
                request.trace.mark("admission")
            return await self._answer_within_limit(request, endpoint)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            reply = reply_from_error(error, endpoint.family, request_id=request.request_id)
            if self._is_behind_haproxy and isinstance(error, Unavailable):
                is_late = error.facts.get("late", False) and not endpoint.rules.writes
                if error.facts.get("unsent", False) or is_late:
                    # HAProxy sends it again, to another replica if there is one
                    return replace(reply, status=UNSENT_STATUS)
            return reply

    def _answer_unknown_path(self, match: PathMatch[Endpoint] | None, request: ApiRequest) -> Reply:
        """Answer a path or a method that does not exist; a wrong key gets status 401 first.

        HAProxy treats a 404 to a request with a key as proof that the key is valid.
        """
        # Browsers send no key with a preflight.
        if request.method == "OPTIONS":
            return preflight()
        given = request.headers.get(KEY_HEADER)
        query = request.query_string
        shown = given is not None or PARAMETER.encode() in query
        if shown:
            try:
                self._check_key(given, query)
            except KioskError as error:
                return reply_from_error(error, "message", request_id=request.request_id)
        if match is not None:
            return method_not_allowed_reply(match.entry.allowed)
        # Paths are named to callers with a key only.
        return unknown_path_reply(self._paths.suggest(raw_path(request.scope)) if shown else "")

    def _check_key(self, header: bytes | None, query: bytes) -> None:
        """Check the key of a request that reaches no endpoint.

        Errors:
            Malformed, Unauthenticated, Unavailable
        """
        if not header:
            check_single_key(query)
        keyring = self._gate.keyring
        if keyring.find(find_key(header, query)) is None:
            if not keyring.ready:
                raise Unavailable(KEYS_NOT_LOADED, retry_after_s=1)
            raise Unauthenticated(messages.INVALID_KEY, key_fault=key_fault(header, query, None))

    async def _answer_within_limit(self, request: ApiRequest, endpoint: Endpoint) -> Reply:
        """Answer a complete request with a valid key.

        Errors:
            TooMany: too many requests of this kind are in flight
        """
        places = self.writes if endpoint.rules.writes else self.reads if endpoint.hot else self.slow_reads
        if places.in_use >= places.limit:
            raise TooMany(messages.OVERLOADED, retry_after_s=1)
        places.in_use += 1
        request.admitted_s = self._clock.monotonic_s()
        try:
            key = request.headers.get(idempotency.HEADER)
            if key is None or not endpoint.rules.writes:
                return await validate_and_answer(request, endpoint)
            return await self._answer_idempotently(request, endpoint, key)
        finally:
            places.in_use -= 1
            request.answered_s = self._clock.monotonic_s()
            self.busy_s += request.answered_s - request.admitted_s

    async def _answer_idempotently(self, request: ApiRequest, endpoint: Endpoint, key: bytes) -> Reply:
        async def answer() -> Reply:
            return await validate_and_answer(request, endpoint)

        def refused(error: KioskError) -> Reply:
            return reply_from_error(error, endpoint.family, request_id=request.request_id)

        same = (endpoint.name.encode(), *_request_parts(request), request.body)
        credential = request.credential
        try:
            token = verify_bearer_token(request) if endpoint.rules.reads_token else None
        except Unauthenticated:
            # A request without a valid token shares its idempotency key with no other request;
            # `validate_request` raises the error.
            return await answer()
        owner = idempotency.KeyOwner(
            request.app_id,
            credential.key_id,
            token.user_id if token is not None else "",
            is_browser=not credential.is_secret,
        )
        return await idempotency.answer_once(
            self._replays, owner, key, same, answer, refused, lambda: request.user_keys
        )

    def _record(self, request: ApiRequest, endpoint: Endpoint | None, reply: Reply, took_ms: float) -> None:
        name = endpoint.name if endpoint is not None else "none"
        app = ""
        if request.has_key:
            credential = request.credential
            app = credential.app.app_id
            if credential.is_secret and not request.headers.get(KEY_HEADER):
                self._gate.keyring.record_exposed(credential, self._clock.now_ms())
                self._gate.meter.count("kiosk_secret_keys_in_addresses", app=app)
        if request.trace is not None:
            request.trace.mark("bytes")
        observer = self._observer
        if observer is not None and (request.trace is not None or took_ms >= observer.slow_ms):
            observer.end(request, name, reply.status, app, took_ms)
        self._log.record(request.request_id, name, reply.status, took_ms, app=app)


_REFUSED: Final = 400


async def validate_and_answer(request: ApiRequest, endpoint: Endpoint) -> Reply:
    """Answer an admitted request; link the user and the visitor that it names."""
    await validate_request(request, endpoint.rules, endpoint.schema)
    if request.trace is not None:
        request.trace.mark("parse")
    reply = await endpoint.answer(request)
    body = request.payload
    if reply.status < _REFUSED and type(body) is dict and "anonymous_id" in body:
        request.gate.link_identities(request)
    return reply


KEY_IN_ADDRESS: Final = (
    "the secret key came in the address, which proxies write into their logs; send it in the header X-API-KEY"
)


def _warn_of_address(reply: Reply) -> Reply:
    """Warn a client that sent its secret key as `api_key`."""
    return with_warning(reply, PARAMETER, KEY_IN_ADDRESS) if reply.status < 300 else reply


def _request_parts(request: ApiRequest) -> tuple[bytes, ...]:
    """Return the parts of path and query that identify a write; an API key in the query is not one."""
    ids = [f"{name}={value}".encode() for name, value in sorted(request.ids.items())]
    query = [f"{name}={value}".encode() for name, value in sorted(request.query.items()) if name != "api_key"]
    return tuple(ids + query)


_ALWAYS: Final = (CORS_ORIGIN, CORS_EXPOSE, NOSNIFF)
_USUAL: Final = (*_ALWAYS, NO_STORE)
_TAGGED: Final = (*_ALWAYS, *REVALIDATED)


async def _write(reply: Reply, request: ApiRequest, send: Send, least_gzip_bytes: int) -> None:
    request_id = (b"x-request-id", request.request_id.encode())
    if reply.etag:
        tag = (b"etag", reply.etag)
        given = request.headers.get(b"if-none-match")
        if given is not None and matches_etag(reply.etag, given):
            headers = [request_id, tag, *_TAGGED, *reply.headers]
            # A 304 has no body, and those headers for caches that a 200 would have (RFC 9110, 15.4.5).
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        usual: tuple[Header, ...] = (tag, *_TAGGED)
    else:
        usual = _USUAL
    body = reply.body
    if len(body) >= least_gzip_bytes and _takes_gzip(request):
        body = await gzip_in_thread(body)
        usual = _compressed_headers(reply.etag)
    headers = [
        reply.content_type,
        (b"content-length", b"%d" % len(body)),
        request_id,
        *usual,
        *reply.headers,
    ]
    if reply.status == 204:
        # A 204 has no length (RFC 9110, 8.6).
        del headers[1]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    # HEAD gets the headers of GET, also its `content-length` (RFC 9110, 9.3.2).
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


def _takes_gzip(request: ApiRequest) -> bool:
    given = request.headers.get(b"accept-encoding")
    return given is not None and request.method != "HEAD" and accepts_gzip(given)


def _compressed_headers(etag: bytes) -> tuple[Header, ...]:
    """Make the usual headers of a compressed answer; its tag names the content, not the bytes (RFC 9110, 8.8.1)."""
    if not etag:
        return (*_USUAL, *ENCODED)
    vary = (b"vary", b"X-API-KEY, Authorization, Accept-Encoding")
    return ((b"etag", b"W/" + etag), *_ALWAYS, REVALIDATED[0], vary, ENCODED[0])
