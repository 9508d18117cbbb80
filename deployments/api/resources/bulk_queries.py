"""The bulk endpoint: several queries in one call, each answered as if sent alone, in the same order.

    bulk -> for every request: find its endpoint in the table -> access, robot, rate -> validate_request -> answer

The table determines the allowed endpoints: queries of search, recommendation, ask and qa with one slash in their name.
Each request costs one token of the key's rate; the token of the call pays for the first one. A request without a token
waits for one (`PATIENCE_S`), so that a call of a hundred requests fits into the default rate. If no token comes in
time, the entry of the request contains the seconds to wait.

Published in `docs/reference/rest.md`, section Bulk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.errors import TooMany, Unavailable
from deployments.api.http.endpoint import Endpoint
from deployments.api.http.request_handler import validate_and_answer
from deployments.api.wire.bulk import Bulk, BulkItem
from deployments.edge.access.admission import (
    AdmissionRules,
    AdmissionServices,
    check_access,
    refresh_credential,
)
from deployments.edge.http.errors import reply_from_error, unknown_path_reply
from deployments.edge.http.replies import Reply, dumps
from deployments.edge.http.request import ApiRequest, Deadline, DeadlineExceeded, body_too_large

GROUPS = frozenset({"search", "recommendation", "ask", "qa"})
AT_ONCE = 8
"Requests of one call that run at the same time."
DEADLINE_S = 25.0
"Seconds after the call's arrival after which no further request is answered; answered ones keep their replies."
PATIENCE_S = 5.0
"Seconds after the call's arrival in which its requests wait for tokens; 100 need 2 s of the default rate."
MOST_WAITING = 16
"Calls of one replica whose requests may wait for tokens at the same time."
_SHORTEST_S = 0.02
_LONGEST_S = 0.25


@dataclass(slots=True)
class _WaitBudget:
    """The time until which the requests of one call wait for tokens; None while none has waited."""

    until_s: float | None = None


class BulkResource:
    """The bulk endpoint."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self._table: Mapping[str, Endpoint] = {
            endpoint.path.removeprefix("/v1/"): endpoint for endpoint in table if _is_query(endpoint)
        }
        self._waiting = 0

    async def answer(self, request: ApiRequest) -> Reply:
        """Answer all requests."""
        body: Bulk = request.parsed
        room = asyncio.Semaphore(AT_ONCE)
        patience = _WaitBudget()

        async def one(at: int, item: BulkItem) -> Reply:
            async with room:
                return await self._answer_item(request, item, patience, first=not at)

        tasks = [asyncio.ensure_future(one(at, item)) for at, item in enumerate(body.requests)]
        try:
            replies = await asyncio.gather(*tasks)
        finally:
            # When one task raises, `gather` leaves the others running.
            for task in tasks:
                task.cancel()
            # A call holds one place, whichever of its requests waited first.
            self._waiting -= patience.until_s is not None
        return _join_replies(replies)

    async def _answer_item(
        self, request: ApiRequest, item: BulkItem, patience: _WaitBudget, *, first: bool
    ) -> Reply:
        endpoint = self._table.get(item.api_name)
        if endpoint is None:
            return unknown_path_reply()
        # The scope brings the headers and the address; the body is set below, so nothing is received again.
        inner = ApiRequest(request.scope, request.receive, request.clock, request.addresses)
        # One id for all, so that a line of the log leads to the whole call.
        inner.request_id = request.request_id
        inner.gate = request.gate
        left_s = DEADLINE_S - (request.clock.monotonic_s() - request.started_s)
        try:
            with Deadline(max(0.0, left_s)):
                # A key that was revoked during the call is refused for the remaining requests.
                inner.credential = refresh_credential(request.credential, request.gate)
                inner.has_key = True
                await self._admit(inner, endpoint.rules, request.gate, patience, spend=not first)
                inner.body = dumps(item.body)
                most_bytes = endpoint.rules.browser_bytes
                if len(inner.body) > most_bytes and not inner.credential.is_secret:
                    raise body_too_large(most_bytes)
                return await validate_and_answer(inner, endpoint)
        except DeadlineExceeded:
            error: Exception = Unavailable("deadline exceeded", retry_after_s=1)
        except Exception as caught:  # noqa: BLE001 - as at the door: whatever one request raises is its own reply
            error = caught
        return reply_from_error(error, endpoint.family, request_id=request.request_id)

    async def _admit(
        self,
        inner: ApiRequest,
        rules: AdmissionRules,
        gate: AdmissionServices,
        patience: _WaitBudget,
        *,
        spend: bool,
    ) -> None:
        """Admit one request, and wait for its token if one is expected in time."""
        while True:
            try:
                return await check_access(inner, rules, gate, spend=spend)
            except TooMany as error:
                wait_s = max(error.facts.get("wait_s", PATIENCE_S), _SHORTEST_S)
                if not self._may_wait(patience, wait_s):
                    raise
            await asyncio.sleep(min(wait_s, _LONGEST_S))

    def _may_wait(self, patience: _WaitBudget, wait_s: float) -> bool:
        """Return whether a request may wait that long; the first one that waits reserves a place for its call."""
        now_s = asyncio.get_running_loop().time()
        if patience.until_s is None:
            if self._waiting >= MOST_WAITING:
                return False
            self._waiting += 1
            patience.until_s = now_s + PATIENCE_S
        return now_s + wait_s <= patience.until_s


def _is_query(endpoint: Endpoint) -> bool:
    version, _, name = endpoint.path.removeprefix("/").partition("/")
    group, slash, rest = name.partition("/")
    asks = group in GROUPS and (not endpoint.rules.writes or group == "ask")
    is_single = bool(slash) and "/" not in rest and "{" not in rest
    return endpoint.method == "POST" and version == "v1" and asks and is_single


def _join_replies(replies: Sequence[Reply]) -> Reply:
    """Return replies as a JSON list; their bodies are already JSON."""
    entries = [
        b'{"error":%s,"status_code":%d,"body":%s%s}'
        % (_json_bool(reply.status >= 400), reply.status, reply.body, _retry_seconds(reply))
        for reply in replies
    ]
    wrong = any(reply.status >= 400 for reply in replies)
    return Reply(200, b'{"errors":%s,"data":[%s]}' % (_json_bool(wrong), b",".join(entries)))


def _retry_seconds(reply: Reply) -> bytes:
    """Return the seconds to wait, which a single reply has in its header `Retry-After`."""
    if reply.status < 400:
        return b""
    return next(
        (b',"retry_after_s":' + value for name, value in reply.headers if name == b"retry-after"), b""
    )


def _json_bool(value: bool) -> bytes:
    return b"true" if value else b"false"
