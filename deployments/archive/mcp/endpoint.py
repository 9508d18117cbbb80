"""`POST /mcp` and `POST /mcp/{archive}`: the endpoint reads one JSON-RPC message and writes one answer, as bytes.

    POST? (405) -> origin (403) -> bearer token (401) -> body -> JSON (-32700) -> shape (-32603)
    -> notification (202) -> version header -> client's rule -> method

For clients of the handshake, every reply after the token check has status 200 or 202, also after an internal error.
A batch, or a request without an id, gets -32603 and `id: null`. Requests of revision 2026-07-28 get 400 and 404 as
well, see `stateless_validation`. Clients stop for good at a 5xx, so there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from cluster.clock import Clock
from cluster.errors import KioskError, Malformed, TooLarge, Unavailable
from cluster.tracing import current_trace
from deployments.archive.admission import ArchiveCaller, ClientAdmission
from deployments.archive.citations.citation_tools import CitationTools
from deployments.archive.licence_terms import LicenceTerms
from deployments.archive.mcp import transport
from deployments.archive.mcp.jsonrpc import PARSE_ERROR, RpcCall, RpcError, read_message
from deployments.archive.mcp.methods import BUSY, VERSIONS, McpMethods, rpc_error_from
from deployments.archive.mcp.stateless_methods import StatelessMethods
from deployments.archive.mcp.stateless_validation import validate_stateless_request
from deployments.archive.mcp.transport import AllowedOrigins
from deployments.archive.oauth.addresses import resource_of
from deployments.archive.signatures.message_signatures import SignedRequest
from deployments.archive.signatures.signed_agents import SignedAgents
from deployments.edge.http.replies import Reply
from deployments.edge.http.request import Deadline, DeadlineExceeded, Receive, Scope, read_body
from deployments.edge.http.request_log import HEADER, RequestLog, RequestRecorder, Send
from deployments.edge.http.server_origin import ServerOrigin

MOST_BYTES = 1 << 20
BODY_S = 10.0
"Seconds in which a body must arrive."
MOST_AT_ONCE = 64
"Calls in flight at once; more get a reply that tells the client to retry, before HAProxy refuses them."
_NAME = "mcp"


class TokenVerifier(Protocol):
    """Finds the user of a token."""

    async def find_caller(self, token: str, resource: str) -> ArchiveCaller | None:
        """Return the user of a token that is valid for a resource."""
        ...


@dataclass(frozen=True, slots=True)
class McpArchive:
    """What the endpoint needs of one archive."""

    archive_id: str
    "App of a named archive; empty for the default one."
    methods: McpMethods
    stateless: StatelessMethods
    gate: ClientAdmission
    citations: CitationTools
    terms: LicenceTerms
    members_only: bool = False


class ArchiveFinder(Protocol):
    """Finds archives by the name in their path."""

    async def find(self, archive_id: str) -> McpArchive | None:
        """Return an archive, the default one for an empty name; None if there is none of this name."""
        ...


class McpEndpoint:
    """The endpoint as an ASGI application; the path parameter `archive` names an archive beside the default one."""

    def __init__(
        self,
        *,
        archives: ArchiveFinder,
        tokens: TokenVerifier,
        addresses: ServerOrigin,
        origins: AllowedOrigins,
        clock: Clock,
        log: RequestLog,
        agents: SignedAgents | None = None,
    ) -> None:
        """`agents` identifies agents by signatures of requests; None: signatures are ignored."""
        self._archives = archives
        self._agents = agents
        self._tokens = tokens
        self._addresses = addresses
        self._origins = origins
        self._clock = clock
        self._recorder = RequestRecorder(clock, log)
        self._body_s = BODY_S
        self._most_at_once = MOST_AT_ONCE
        self._at_once = 0
        self.busy_s = 0.0
        "Sum of the seconds spent in requests."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method: str = scope["method"]
        headers = _Headers(scope)
        server_origin = self._addresses.origin_for_host((headers.one(b"host") or b"").decode("latin-1"))
        origin = headers.one(b"origin")
        allowed = origin if origin is not None and self._origins.allows(origin, server_origin) else None

        async def answer(request_id: str) -> int:
            reply = self._refuse(method, headers, origin, allowed)
            if reply is None:
                archive = await self._archives.find(scope.get("path_params", {}).get("archive", ""))
                if archive is None:
                    # No token is valid for it. A 404 would tell HAProxy that the token was checked.
                    reply = transport.unauthorized_reply(server_origin)
                else:
                    reply = await self._reply(archive, headers, receive, server_origin, request_id)
            return await transport.write_reply(reply, method, allowed, request_id, send)

        await self._recorder.run(_NAME, headers.one(HEADER), answer)

    @staticmethod
    def _refuse(method: str, headers: _Headers, origin: bytes | None, allowed: bytes | None) -> Reply | None:
        # Before the token check: clients probe for a stream by GET and read 405 as "none", but 401 as a
        # sign-in.
        if method != "POST":
            asks_first = method == "OPTIONS" and headers.one(b"access-control-request-method") is not None
            return (
                transport.preflight_reply()
                if asks_first and allowed is not None
                else transport.wrong_method_reply()
            )
        # By DNS rebinding, a foreign page could reach a server that only its visitor can reach.
        if origin is not None and allowed is None:
            return transport.wrong_origin_reply()
        return None

    async def _reply(
        self, archive: McpArchive, headers: _Headers, receive: Receive, server_origin: str, request_id: str
    ) -> Reply:
        token = headers.token()
        archive_id = archive.archive_id
        if token is None:
            return transport.unauthorized_reply(server_origin, archive_id)
        try:
            person = await self._tokens.find_caller(token, resource_of(server_origin, archive_id))
        except Unavailable as error:
            # The token can't be checked now; a 401 would send users to the sign-in page.
            return await self._unauthorized(archive, headers, receive, error)
        if person is None:
            return transport.unauthorized_reply(server_origin, archive_id)
        # After the token check, so that nobody without a token makes the server verify signatures.
        if self._agents is not None and headers.one(b"signature-input") is not None:
            person = await self._agents.identify(person, headers.describe_request(server_origin))
        # After the token check, so that a caller without a token can't fill the memory with bodies.
        message = await self._message(headers, receive)
        if message is None:
            return transport.accepted_reply()
        if isinstance(message, RpcError):
            return transport.error_reply(message)
        # The time counts from this line: the token is valid, and the message is complete.
        begun_s = self._clock.monotonic_s()
        self._at_once += 1
        try:
            reply = await self._answer(archive, message, headers, person, request_id, begun_s)
            more = archive.terms.list_headers()
            return replace(reply, headers=(*reply.headers, *more)) if more else reply
        finally:
            self._at_once -= 1
            self.busy_s += self._clock.monotonic_s() - begun_s

    async def _answer(
        self,
        archive: McpArchive,
        call: RpcCall,
        headers: _Headers,
        person: ArchiveCaller,
        request_id: str,
        begun_s: float,
    ) -> Reply:
        methods: McpMethods = archive.methods
        if call.is_stateless:
            methods = archive.stateless
            fault = archive.stateless.find_fault(call)
            if fault is not None:
                return transport.error_reply(fault)
        elif call.method != "initialize" and not _is_supported(headers.one(b"mcp-protocol-version")):
            words = f"Unsupported MCP-Protocol-Version; supported are {', '.join(VERSIONS)}"
            return transport.error_reply(RpcError(words, id=call.id))
        # The other methods answer from memory, whatever else is in flight.
        if self._at_once > self._most_at_once and call.method == "tools/call":
            busy = BUSY.format(seconds=1)
            methods.record_refused(call, person, busy, begun_s)
            return transport.result_reply(methods.render_refusal(call, RpcError(busy, id=call.id)))
        try:
            rule = archive.gate.check(person)
            if call.method == "tools/call":
                await archive.gate.spend(rule, person)
        except KioskError as error:
            methods.record_refused(call, person, error.message, begun_s)
            problem = rpc_error_from(error, call.id, request_id)
            return transport.result_reply(methods.render_refusal(call, problem))
        trace = current_trace()
        if trace is None:
            return transport.result_reply(await methods.answer(call, person, request_id, begun_s))
        with trace.stage("method", attributes={"mcp.call": methods.trace_name(call)}):
            return transport.result_reply(await methods.answer(call, person, request_id, begun_s))

    async def _message(self, headers: _Headers, receive: Receive) -> RpcCall | RpcError | None:
        body = b""
        try:
            with Deadline(self._body_s):
                body = await read_body(
                    receive,
                    announced=headers.one(b"content-length"),
                    encoding=headers.one(b"content-encoding"),
                    most_bytes=MOST_BYTES,
                )
            message = read_message(body)
        except TooLarge:
            message = RpcError(f"The request is larger than {MOST_BYTES >> 10} kB; send less")
        except Malformed as error:
            message = RpcError("Parse error", PARSE_ERROR, error.message)
        except DeadlineExceeded:
            message = RpcError("The request did not arrive in time; send it again")
        return validate_stateless_request(message, body, headers.one)

    async def _unauthorized(
        self, archive: McpArchive, headers: _Headers, receive: Receive, error: Unavailable
    ) -> Reply:
        message = await self._message(headers, receive)
        if message is None:
            return transport.accepted_reply()
        problem = rpc_error_from(error, message.id, "")
        if isinstance(message, RpcCall) and message.is_stateless:
            return transport.result_reply(archive.stateless.render_refusal(message, problem))
        return transport.error_reply(problem)


def _is_supported(version: bytes | None) -> bool:
    return version is None or version.decode("latin-1").strip() in VERSIONS


class _Headers:
    """Headers of one request; a header with several different values counts as invalid."""

    __slots__ = ("_all", "_scope")

    def __init__(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in headers and headers[name] != value:
                value = headers[name] + b", " + value
            headers[name] = value
        self._all = headers
        self._scope = scope

    def one(self, name: bytes) -> bytes | None:
        """Return a header; None if it is absent."""
        return self._all.get(name)

    def token(self) -> str | None:
        """Return the bearer token; None if there is none, or if its value is invalid."""
        scheme, _, token = (self._all.get(b"authorization") or b"").strip(b" \t").partition(b" ")
        # Blanks only, as HAProxy does: another text of a token must not become a proven one.
        token = token.strip(b" ")
        # A comma stands between two different headers that `__init__` joined.
        if scheme.lower() != b"bearer" or not token or b" " in token or b"," in token:
            return None
        # latin-1 takes every byte: a damaged token gets a 401 and no decoding error.
        return token.decode("latin-1")

    def describe_request(self, origin: str) -> SignedRequest:
        """Return what a signature may cover of this request to an origin."""
        path = self._scope.get("raw_path") or self._scope["path"].encode()
        query = self._scope.get("query_string", b"")
        return SignedRequest(
            self._scope["method"], origin, path.decode("latin-1"), query.decode("latin-1"), self.one
        )
