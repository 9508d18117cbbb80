"""An answer written by a language model, with a deadline for everything.

connect     until somebody listens
first       until the first piece of text
between     until the next piece: bytes that are no text do not count, so dripping gains nothing
total       until the end
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from actors.answers.llm.model_breaker import LanguageModelBreaker
from actors.answers.llm.prompt import (
    build_answer_messages,
    build_generation_messages,
    build_rewrite_messages,
)
from actors.answers.llm.provider_endpoint import GuardedTransport, InternalAddressError, LanguageModelConfig
from actors.answers.llm.stream import ChatStreamParser, InvalidModelReply, parse_reply
from actors.archive.messages import Snippet
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.meter import Meter
from cluster.tracing import PROCESS

_MAX_REWRITE_TOKENS = 120
"Maximal tokens of a rewritten question."
_TURN_S = 2.0
"Maximal wait of an answer for a free slot; afterwards the composed answer is used."

_Messages = list[dict[str, str]]


class LanguageModelError(Exception):
    """The language model returned no (more) text: late, broken, refused. The reason is safe to log."""


class LanguageModelWriter:
    """A language model that writes from passages, behind any server that has the OpenAI chat interface."""

    def __init__(
        self,
        terms: LanguageModelConfig,
        clock: Clock,
        meter: Meter,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._terms = terms.validate()
        self._clock = clock
        self._meter = meter
        self.breaker = LanguageModelBreaker(clock, meter)
        self._turns = asyncio.Semaphore(terms.at_once)
        self._client = httpx.AsyncClient(
            transport=transport or GuardedTransport(may_be_internal=terms.may_be_internal),
            timeout=httpx.Timeout(terms.total_s, connect=terms.connect_s, pool=terms.connect_s),
            # A redirect could send key and question to another host; a
            # proxy of the environment could read them.
            follow_redirects=False,
            trust_env=False,
        )

    @property
    def name(self) -> str:
        """Return the name of the model: a part of the digest of reusable answers."""
        return self._terms.name

    async def close(self) -> None:
        await self._client.aclose()

    async def write(self, question: str, snippets: Sequence[Snippet]) -> AsyncGenerator[str, None]:
        """Write an answer, in pieces as they arrive.

        Errors:
            LanguageModelError: late, broken, refused, or given up on for now
        """
        messages = build_answer_messages(question, snippets, _new_fence())
        async with aclosing(self._complete(messages, self._terms.most_tokens)) as pieces:
            async for piece in pieces:
                yield piece

    async def generate(self, instructions: str, snippets: Sequence[Snippet]) -> AsyncGenerator[str, None]:
        """Write what instructions ask for, from the passages and nothing else, in pieces as they arrive.

        Errors:
            LanguageModelError: late, broken, refused, or given up on for now
        """
        messages = build_generation_messages(instructions, snippets, _new_fence())
        async with aclosing(self._complete(messages, self._terms.most_tokens)) as pieces:
            async for piece in pieces:
                yield piece

    async def rewrite(self, question: str, before: Sequence[str]) -> str:
        """Rewrite a follow-up as a question that is clear without context; `before` oldest first.

        Errors:
            LanguageModelError: late, broken, refused, or given up on for now
        """
        messages = build_rewrite_messages(question, before, _new_fence())
        async with aclosing(self._complete(messages, _MAX_REWRITE_TOKENS)) as pieces:
            return "".join([piece async for piece in pieces])

    async def _complete(self, messages: _Messages, most_tokens: int) -> AsyncGenerator[str, None]:
        """Send messages and give the reply in pieces as they arrive.

        Errors:
            LanguageModelError
        """
        if not self.breaker.can_call():
            raise LanguageModelError("given up on for now")
        wrote = False
        failure = ""
        facts = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self._terms.name}
        span = PROCESS.begin("llm", kind="client", attributes=facts)
        try:
            async with self._acquire_turn(), aclosing(self._read_pieces(messages, most_tokens)) as pieces:
                async for piece in pieces:
                    wrote = True
                    yield piece
        except _Failures as error:
            self.breaker.record_failure()
            failure = _loggable_reason(error)
            # `from None`: errors of the client may carry the address with its secrets.
            raise LanguageModelError(failure) from None
        except (GeneratorExit, asyncio.CancelledError, LanguageModelError) as error:
            # the user has enough, or there was no call yet: only the first is a success of the provider
            if wrote:
                self.breaker.record_success()
            else:
                self.breaker.record_cancelled()
            failure = "too many at once" if isinstance(error, LanguageModelError) else "cancelled"
            raise
        else:
            self.breaker.record_success()
        finally:
            if span is not None:
                span.end(failure)

    @asynccontextmanager
    async def _acquire_turn(self) -> AsyncIterator[None]:
        has_turn = False

        async def take() -> None:
            nonlocal has_turn
            await self._turns.acquire()
            has_turn = True

        try:
            await run_within(take(), _TURN_S)
            yield
        except asyncio.TimeoutError:
            # The time-out came out of the block, not from the wait for a turn.
            if has_turn:
                raise
            raise LanguageModelError("too many at once") from None
        finally:
            # Also if a cancellation arrived together with the turn.
            if has_turn:
                self._turns.release()

    async def _read_pieces(self, messages: _Messages, most_tokens: int) -> AsyncGenerator[str, None]:
        terms = self._terms
        clock = self._clock
        began_s = clock.monotonic_s()
        limit_s = began_s + terms.first_s
        async with aclosing(self._read_packets(messages, most_tokens)) as packets:
            while True:
                # The sooner of both: the next piece, or the end of the whole reply.
                left_s = min(limit_s, began_s + terms.total_s) - clock.monotonic_s()
                try:
                    piece = await run_within(packets.__anext__(), max(left_s, 0.001))
                except StopAsyncIteration:
                    return
                # Only text moves the limit: packets without any could keep a reply open for ever.
                if piece:
                    limit_s = clock.monotonic_s() + terms.between_s
                    yield piece

    async def _read_packets(self, messages: _Messages, most_tokens: int) -> AsyncGenerator[str, None]:
        """Give the text of each packet; empty for packets without any."""
        terms = self._terms
        events = ChatStreamParser()
        read = 0
        url = terms.url.rstrip("/") + "/chat/completions"
        body = self._body(messages, most_tokens)
        async with self._client.stream("POST", url, headers=self._headers(), json=body) as reply:
            if reply.status_code != 200:
                raise InvalidModelReply(f"status {reply.status_code}")
            # Packets are read undecoded and counted, so a small compressed one can't unpack to more than the
            # bound.
            if reply.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
                raise InvalidModelReply("compressed, though that was not asked for")
            streams = "text/event-stream" in reply.headers.get("content-type", "")
            received = b""
            async for packet in reply.aiter_raw():
                read += len(packet)
                if read > terms.most_bytes:
                    raise InvalidModelReply("too long")
                if streams:
                    yield "".join(events.feed(packet))
                    if events.is_done:
                        return
                else:
                    received += packet
                    yield ""
            if not streams:
                yield parse_reply(received)
            elif not events.is_done:
                raise InvalidModelReply("broken off")

    def _headers(self) -> dict[str, str]:
        # a few compressed bytes may expand to gigabytes before they are counted
        headers = {"accept": "text/event-stream", "accept-encoding": "identity", "user-agent": "kiosk"}
        return {**headers, "authorization": f"Bearer {self._terms.key}"} if self._terms.key else headers

    def _body(self, messages: _Messages, most_tokens: int) -> dict[str, Any]:
        return {
            "model": self._terms.model,
            "stream": True,
            "temperature": 0,
            "max_tokens": most_tokens,
            "messages": messages,
        }


def _new_fence() -> str:
    # Random for each prompt, so that no article can contain the mark that ends its quotation.
    return f"<<{secrets.token_hex(8)}>>"


_Failures = (
    httpx.HTTPError,
    httpx.StreamError,
    httpx.InvalidURL,
    InvalidModelReply,
    InternalAddressError,
    asyncio.TimeoutError,
    OSError,
)


def _loggable_reason(error: BaseException) -> str:
    """Return a reason without text of the provider, which may contain secrets."""
    if isinstance(error, InvalidModelReply):
        return str(error)
    if isinstance(error, InternalAddressError):
        return "an internal address"
    return "too late" if isinstance(error, asyncio.TimeoutError) else type(error).__name__
