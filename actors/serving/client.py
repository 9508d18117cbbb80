"""Typed clients of a recommender, in this process or in a Serve deployment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.engine_messages import ENGINE_MESSAGES, open_reply
from actors.serving.stored_rules import StoredRules as StoredRules
from cluster.deadline import run_within
from cluster.errors import NewerRelease, Refusal, Unavailable

ANSWER_TIMEOUT_S = 10.0
"Timeout of a deployment, including one retry. Ray replaces a lost replica in less time."


def _no_channel() -> None:
    return None


class RecommenderClient(Protocol):
    """Answers recommendation queries, with the same behaviour for every placement."""

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Return the result of the engine that the query names.

        Errors:
            NotFound: `engine is not found`
            Unavailable: the replicas of the engine do not answer or are overloaded
        """
        ...


class LocalRecommenderClient:
    """Sends queries to a host in this process (placement `embedded`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def answer(self, query: UserQuery) -> RecommendationResult:
        return unwrap(await self._host.answer(query))


class EngineChannel(Protocol):
    """A direct connection to one replica of an engine's deployment, faster than the handle."""

    async def ask(self, question: bytes, within_s: float) -> bytes:
        """Send an encoded query and return its encoded reply.

        Errors:
            ConnectionError: the replica is lost; another replica can answer the query
            Unavailable: the replica did not answer in time
        """
        ...


class RemoteRecommenderClient:
    """Sends queries to a Serve deployment (placement `dedicated`); `handle` is its deployment handle.

    `find_line` returns a channel to a replica on this machine, if there is one. Without a channel, the client uses the
    handle. `lost` has the errors of a lost replica. After such an error, or if the replica is of another release that
    can't read the query, the client sends it once more. Queries change nothing, and the handle then routes to another
    replica.
    """

    def __init__(
        self,
        handle: Any,
        *,
        lost: tuple[type[Exception], ...] = (),
        patience_s: float = ANSWER_TIMEOUT_S,
        find_line: Callable[[], EngineChannel | None] = _no_channel,
    ) -> None:
        self._find_channel = find_line
        self._answer = handle.answer
        self._retried: tuple[type[Exception], ...] = (NewerRelease, *lost)
        self._timeout_s = patience_s

    async def answer(self, query: UserQuery) -> RecommendationResult:
        until_s = time.monotonic() + self._timeout_s
        payload = ENGINE_MESSAGES.encode(query)
        channel = self._find_channel()
        if channel is not None:
            with contextlib.suppress(ConnectionError, NewerRelease):
                return open_reply(await channel.ask(payload, self._timeout_s))
        try:
            return open_reply(await self._ask(payload, until_s))
        except self._retried:
            return open_reply(await self._ask(payload, until_s))

    async def _ask(self, payload: bytes, until_s: float) -> bytes:
        left_s = max(until_s - time.monotonic(), 0.001)
        try:
            reply: bytes = await run_within(_await_response(self._answer.remote(payload)), left_s)
        except asyncio.TimeoutError:
            raise Unavailable("the engine's deployment does not answer", retry_after_s=1) from None
        return reply


async def _await_response(response: Any) -> Any:
    return await response


def unwrap(reply: RecommendationResult | Refusal) -> RecommendationResult:
    """Return a result; raise the error that a refusal carries."""
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply
