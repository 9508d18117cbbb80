"""The door: from an ASGI scope to bytes on the wire, for every endpoint and both ways in.

    find the endpoint -> admit (edge/admission) -> endpoint's answer -> write

The fast layer calls it in front of the framework, the framework's generated routes call it from inside; what is
answered is the same to the byte but for the request id.
"""

from __future__ import annotations

from typing import Any

from cluster.clock import Clock
from cluster.errors import HouseError, Unavailable
from cluster.store.ports import IdempotencyStore
from deployments.api.endpoint import Endpoint
from deployments.api.paths import Match, Paths
from deployments.edge import cors, idempotency
from deployments.edge.admission import Gate, enter, examine
from deployments.edge.arrival import Arrival, Scope, Send
from deployments.edge.body import Gone, Receive
from deployments.edge.deadline import Deadline, TookTooLong
from deployments.edge.envelope import Reply
from deployments.edge.errors import method_not_allowed, not_found, reply_to, timed_out
from deployments.edge.tally import Tally
from deployments.edge.trace import AccessLog


class Door:
    """An ASGI application that answers the endpoints of one table."""

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        gate: Gate,
        *,
        replays: IdempotencyStore,
        clock: Clock,
        tally: Tally,
        access_log: AccessLog,
        most_in_flight: int = 256,
        deadline_s: float = 30.0,
    ) -> None:
        self.endpoints = endpoints
        self._paths = Paths(endpoints)
        self._gate = gate
        self._replays = replays
        self._clock = clock
        self._tally = tally
        self._access_log = access_log
        self._deadline_s = deadline_s
        self.most_in_flight = most_in_flight
        "Requests answered at once in front of the framework; more are refused with 503."
        self.in_flight = 0
        self.busy_s = 0.0
        "Seconds spent in requests so far, summed over them: its growth per second is how many ran at once."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self.serve(self.find(scope), scope, receive, send)

    def find(self, scope: Scope) -> Match | None:
        """Find the path of a request; None when there is none."""
        return self._paths.find(raw_path(scope))

    async def serve(self, match: Match | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose path was looked up already."""
        arrival = Arrival(scope, receive, self._clock)
        endpoint = match.endpoint(arrival.method) if match is not None else None
        self.in_flight += 1
        try:
            if endpoint is None:
                reply = _elsewhere(match, arrival.method)
            else:
                assert match is not None
                arrival.ids = match.ids
                reply = await self._reply(arrival, endpoint)
            await _write(reply, arrival, send)
        except Gone:
            return
        finally:
            self.in_flight -= 1
            took_s = self._clock.monotonic_s() - arrival.started_s
            self.busy_s += took_s
        self._note(arrival, endpoint, reply, took_s * 1000)

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for which there is no room."""
        arrival = Arrival(scope, receive, self._clock)
        full = Unavailable("over the bound of requests in flight", retry_after_s=1)
        reply = reply_to(full, "message", request_id=arrival.request_id)
        await _write(reply, arrival, send)
        self._note(arrival, None, reply, 0.0)

    async def _reply(self, arrival: Arrival, endpoint: Endpoint) -> Reply:
        if endpoint.rules.body == "ignored" and not endpoint.rules.writes:
            # Reads wait for the store only, which has deadlines of its own.
            return await self._answer(arrival, endpoint)
        try:
            with Deadline(self._deadline_s):
                return await self._answer(arrival, endpoint)
        except TookTooLong:
            if endpoint.rules.writes:
                return timed_out()
            slow = Unavailable("deadline exceeded", retry_after_s=1)
            return reply_to(slow, endpoint.family, request_id=arrival.request_id)

    async def _answer(self, arrival: Arrival, endpoint: Endpoint) -> Reply:
        try:
            await enter(arrival, endpoint.rules, self._gate)
            key = arrival.headers.get(idempotency.HEADER)
            if key is None or not endpoint.rules.writes:
                return await _examine_and_answer(arrival, endpoint)
            return await self._once(arrival, endpoint, key)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            return reply_to(error, endpoint.family, request_id=arrival.request_id)

    async def _once(self, arrival: Arrival, endpoint: Endpoint, key: bytes) -> Reply:
        async def answer() -> Reply:
            return await _examine_and_answer(arrival, endpoint)

        def refused(error: HouseError) -> Reply:
            return reply_to(error, endpoint.family, request_id=arrival.request_id)

        same = (endpoint.name.encode(), *_pairs(arrival), arrival.body)
        return await idempotency.once(
            self._replays, arrival.app_id, key, same, answer, refused, lambda: arrival.reader_ids
        )

    def _note(self, arrival: Arrival, endpoint: Endpoint | None, reply: Reply, took_ms: float) -> None:
        name = endpoint.name if endpoint is not None else "none"
        app = arrival.app_id if arrival.caller is not None else ""
        self._tally.note(name, reply.status, took_ms)
        self._access_log.note(arrival.request_id, name, reply.status, took_ms, app=app)


def raw_path(scope: Scope) -> bytes:
    """Take the path as it was sent, before anybody decoded it."""
    raw: Any = scope.get("raw_path")
    path = bytes(raw) if raw else scope["path"].encode("utf-8", "surrogatepass")
    return path.partition(b"?")[0]


async def _examine_and_answer(arrival: Arrival, endpoint: Endpoint) -> Reply:
    await examine(arrival, endpoint.rules, endpoint.schema)
    return await endpoint.answer(arrival)


def _pairs(arrival: Arrival) -> tuple[bytes, ...]:
    """What of path and query makes a write another write; a key in the query does not."""
    ids = [f"{name}={value}".encode() for name, value in sorted(arrival.ids.items())]
    query = [f"{name}={value}".encode() for name, value in sorted(arrival.query.items()) if name != "api_key"]
    return tuple(ids + query)


def _elsewhere(match: Match | None, method: str) -> Reply:
    if method == "OPTIONS":
        return cors.preflight()
    return not_found() if match is None else method_not_allowed(match.place.allowed)


async def _write(reply: Reply, arrival: Arrival, send: Send) -> None:
    headers = [
        reply.content_type,
        (b"content-length", b"%d" % len(reply.body)),
        (b"x-request-id", arrival.request_id.encode()),
        cors.ORIGIN,
        cors.EXPOSE,
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if arrival.method == "HEAD" else reply.body})
