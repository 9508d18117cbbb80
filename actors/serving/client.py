"""Typed clients of a recommender, in this process or in a Serve deployment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.engine_messages import ENGINE_MESSAGES, open_reply
from actors.serving.replay.logged_requests import encode_request as encode_request
from actors.serving.stored_rules import PREVIEW as PREVIEW
from actors.serving.stored_rules import Preview as Preview
from actors.serving.stored_rules import StoredRules as StoredRules
from actors.serving.treatments import apply_treatments as apply_treatments
from cluster.deadline import run_within
from cluster.errors import NewerRelease, Refusal, Unavailable

ANSWER_TIMEOUT_S = 10.0
"Timeout of a deployment, including one retry. Ray replaces a lost replica in less time."
FIRST_TRY_S = 3.0
"Timeout of the first try over the handle. A machine without power closes no connection, so its replica stays silent."
SILENCE_S = 15.0
"After such a silence, a replica on this machine gets all queries for so long."


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

    The handle may know for ten seconds nothing of a machine that lost its power. So a query whose first try gets no
    answer is sent once more, over a channel that `find_spare` returns if there is one.
    """

    def __init__(
        self,
        handle: Any,
        *,
        lost: tuple[type[Exception], ...] = (),
        patience_s: float = ANSWER_TIMEOUT_S,
        first_try_s: float = FIRST_TRY_S,
        find_line: Callable[[], EngineChannel | None] = _no_channel,
        find_spare: Callable[[], EngineChannel | None] = _no_channel,
    ) -> None:
        self._find_channel = find_line
        self._find_spare = find_spare
        self._first_try_s = first_try_s
        self._silent_until_s = 0.0
        self._answer = handle.answer
        self._retried: tuple[type[Exception], ...] = (NewerRelease, *lost)
        self._timeout_s = patience_s

    async def answer(self, query: UserQuery) -> RecommendationResult:
        now_s = time.monotonic()
        until_s = now_s + self._timeout_s
        payload = ENGINE_MESSAGES.encode(query)
        channel = self._find_channel()
        if channel is None and now_s < self._silent_until_s:
            channel = self._find_spare()
        if channel is not None:
            with contextlib.suppress(ConnectionError, NewerRelease):
                return open_reply(await channel.ask(payload, self._timeout_s))
        try:
            return open_reply(await self._ask(payload, min(until_s, time.monotonic() + self._first_try_s)))
        except self._retried:
            pass
        except asyncio.TimeoutError:
            self._silent_until_s = time.monotonic() + SILENCE_S
            if (channel := self._find_spare()) is not None:
                with contextlib.suppress(ConnectionError, NewerRelease):
                    return open_reply(await channel.ask(payload, _seconds_until(until_s)))
        try:
            return open_reply(await self._ask(payload, until_s))
        except asyncio.TimeoutError:
            raise Unavailable("the engine's deployment does not answer", retry_after_s=1) from None

    async def _ask(self, payload: bytes, until_s: float) -> bytes:
        if time.monotonic() >= until_s:
            raise asyncio.TimeoutError
        reply: bytes = await run_within(
            _await_response(self._answer.remote(payload)), _seconds_until(until_s)
        )
        return reply


def _seconds_until(until_s: float) -> float:
    return max(until_s - time.monotonic(), 0.001)


async def _await_response(response: Any) -> Any:
    return await response


def unwrap(reply: RecommendationResult | Refusal) -> RecommendationResult:
    """Return a result; raise the error that a refusal carries."""
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply
