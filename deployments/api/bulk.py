"""Several queries in one call: each is answered as if it had come alone, and stands in its own place.

    bulk -> for every request: find its endpoint in the table -> reach, robot, rate -> examine -> answer

Which endpoints can be asked is read off the table: queries of search, recommendation, ask and qa with one slash in
their name. A request costs one token of the key's rate, the first one the token the call itself paid.

Source: reference 8.10, endpoint 47
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from cluster.errors import Unavailable
from deployments.api.endpoint import Endpoint, examine_and_answer
from deployments.api.wire.bulk import Bulk, BulkItem
from deployments.api.wire.faults import unprocessable
from deployments.edge.admission import find_live, reach
from deployments.edge.arrival import Arrival
from deployments.edge.caller import Caller
from deployments.edge.deadline import Deadline, TookTooLong
from deployments.edge.envelope import Reply, dumps
from deployments.edge.errors import not_found, reply_to

GROUPS = frozenset({"search", "recommendation", "ask", "qa"})
AT_ONCE = 8
"Requests of one call that are answered at the same time."
DEADLINE_S = 25.0
"So long after the call arrived a request may still be answered; the others keep their answers."


class BulkCalls:
    """Endpoint 47."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._table: Mapping[str, Endpoint] = {
            endpoint.path.removeprefix("/v1/"): endpoint for endpoint in table if _is_query(endpoint)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """What can be asked, in order."""
        return tuple(sorted(self._table))

    def read(self, request: Arrival) -> Bulk:
        """Read the body."""
        try:
            return Bulk.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable(error) from error

    async def answer(self, request: Arrival) -> Reply:
        """Answer all of them."""
        asked: Bulk = request.parsed
        room = asyncio.Semaphore(AT_ONCE)

        async def one(at: int, item: BulkItem) -> Reply:
            async with room:
                return await self._alone(request, item, first=not at)

        tasks = [asyncio.ensure_future(one(at, item)) for at, item in enumerate(asked.requests)]
        try:
            replies = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return _joined(replies)

    async def _alone(self, request: Arrival, item: BulkItem, *, first: bool) -> Reply:
        endpoint = self._table.get(item.api_name)
        if endpoint is None:
            return not_found()
        inner = Arrival(request.scope, request.receive, request.clock, request.addresses)
        inner.request_id = request.request_id
        inner.gate = request.gate
        left_s = DEADLINE_S - (request.clock.monotonic_s() - request.started_s)
        try:
            with Deadline(max(0.0, left_s)):
                # A key that was revoked since the call began opens nothing more.
                inner.caller = Caller(find_live(request.credential, request.gate))
                await reach(inner, endpoint.rules, request.gate, spend=not first)
                inner.body = dumps(item.body)
                return await examine_and_answer(inner, endpoint)
        except TookTooLong:
            error: Exception = Unavailable("deadline exceeded", retry_after_s=1)
        except Exception as caught:  # noqa: BLE001 - as at the door: whatever one request raises is its own reply
            error = caught
        return reply_to(error, endpoint.family, request_id=request.request_id)


def _is_query(endpoint: Endpoint) -> bool:
    version, _, name = endpoint.path.removeprefix("/").partition("/")
    group, slash, rest = name.partition("/")
    asks = group in GROUPS and (not endpoint.rules.writes or group == "ask")
    one_slash = bool(slash) and "/" not in rest and "{" not in rest
    return endpoint.method == "POST" and version == "v1" and asks and one_slash


def _joined(replies: Sequence[Reply]) -> Reply:
    """Put replies behind each other; their bodies are JSON already."""
    entries = [
        b'{"error":%s,"status_code":%d,"body":%s}' % (_truth(reply.status >= 400), reply.status, reply.body)
        for reply in replies
    ]
    wrong = any(reply.status >= 400 for reply in replies)
    return Reply(200, b'{"errors":%s,"data":[%s]}' % (_truth(wrong), b",".join(entries)))


def _truth(value: bool) -> bytes:
    return b"true" if value else b"false"
