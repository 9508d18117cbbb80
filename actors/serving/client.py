"""The typed way to a recommender, wherever it lives, and the stored rules a query gets before it goes there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.stored_rules import StoredRules as StoredRules
from cluster.errors import Refusal, Unavailable

ANSWER_TIMEOUT_S = 10.0
"How long a deployment may take to answer, a second try included; a replica that was lost is back sooner."


def _no_channel() -> None:
    return None


class RecommenderClient(Protocol):
    """Answers recommendation queries; the same behaviour over every placement."""

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Ask the engine named in the query.

        Errors:
            NotFound: `engine is not found`
            Unavailable: the engine's replicas are away or overloaded
        """
        ...


class LocalRecommenderClient:
    """The host lives in this process (placement `door`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def answer(self, query: UserQuery) -> RecommendationResult:
        return unwrap(await self._host.answer(query))


class EngineChannel(Protocol):
    """A way to one replica of an engine's deployment that is quicker than the handle."""

    async def ask(self, question: UserQuery, within_s: float) -> RecommendationResult | Refusal:
        """Ask and wait.

        Errors:
            ConnectionError: the replica is gone; the question may be asked elsewhere
            Unavailable: it did not answer in time
        """
        ...


class RemoteRecommenderClient:
    """The host is a Serve deployment (placement `own`); `handle` is its deployment handle.

    `find_line` names a line to a replica that is near, if there is one; whoever has none asks through the handle.

    Queries change nothing, so one whose replica died (`lost` names the errors that say so) is asked once more: by
    then the handle knows who is left.
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
        self._lost_errors = lost
        self._timeout_s = patience_s

    async def answer(self, query: UserQuery) -> RecommendationResult:
        until_s = time.monotonic() + self._timeout_s
        line = self._find_channel()
        if line is not None:
            with contextlib.suppress(ConnectionError):
                return unwrap(await line.ask(query, self._timeout_s))
        try:
            return unwrap(await self._ask(query, until_s))
        except self._lost_errors:
            return unwrap(await self._ask(query, until_s))

    async def _ask(self, query: UserQuery, until_s: float) -> RecommendationResult | Refusal:
        left_s = max(until_s - time.monotonic(), 0.001)
        try:
            reply: RecommendationResult | Refusal
            reply = await asyncio.wait_for(_await_response(self._answer.remote(query)), left_s)
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
