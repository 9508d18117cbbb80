"""A request: its body, its deadline, and the results of its admission.

The announced length of a body is checked before reading, the received length while reading. A compressed body is
refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any

from cluster import ids
from cluster.clock import Clock
from cluster.errors import Malformed, TooLarge, messages
from cluster.tracing import RequestTrace
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.credentials import Credential, UserToken, parse_query
from deployments.edge.http.request_log import HEADER, ClientDisconnected, request_id_from


class DeadlineExceeded(Exception):
    """The block did not finish in time and was cancelled."""


class Deadline:
    """Cancels the current task if the block takes longer than `limit_s`, and raises `DeadlineExceeded`.

    Cancellations from outside remain cancellations. Unlike `cluster.deadline` it creates no task.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._fired = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None, "a deadline needs a task to cancel"
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timer is not None
        self._timer.cancel()
        # From Python 3.11 on a task counts its cancellations. Ours is handled; another one goes on.
        if self._fired and kind is asyncio.CancelledError and not getattr(self._task, "uncancel", int)():
            raise DeadlineExceeded from None

    def _fire(self) -> None:
        assert self._task is not None
        self._fired = True
        self._task.cancel()


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


async def read_body(
    receive: Receive, *, announced: bytes | None, encoding: bytes | None, most_bytes: int
) -> bytes:
    """Read and return a whole body.

    Errors:
        TooLarge: the announced or received body exceeds `most_bytes`; no more than that is kept in memory
        Malformed: a compressed body (a small one may expand to any size), or a length that is not a number
        ClientDisconnected: the client disconnected
    """
    if encoding and encoding.strip().lower() not in (b"", b"identity"):
        raise Malformed("Content-Encoding is not supported; send the body as it is.")
    if announced is not None:
        # `int` also takes a sign, `_` and blanks. A proxy that reads them otherwise ends the body elsewhere.
        if not announced.isdigit():
            raise Malformed(messages.MALFORMED)
        # The first digits of a very long number are enough to refuse it.
        if len(announced) > 18 or int(announced) > most_bytes:
            raise body_too_large(most_bytes)
    message = await receive()
    if message["type"] != "http.request":
        raise ClientDisconnected
    first: bytes = message.get("body", b"")
    # Again, because a body in chunks announces no length.
    if len(first) > most_bytes:
        raise body_too_large(most_bytes)
    # Most bodies are one message, which is returned without a copy.
    if not message.get("more_body", False):
        return first
    return await _read_on(receive, bytearray(first), most_bytes)


async def _read_on(receive: Receive, body: bytearray, most_bytes: int) -> bytes:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise body_too_large(most_bytes)
        if not message.get("more_body", False):
            return bytes(body)


def body_too_large(most_bytes: int) -> TooLarge:
    """Return the error for a body of more bytes; most bounds of publishable keys are below a megabyte."""
    size = f"{most_bytes >> 20} MB" if most_bytes >> 20 else f"{most_bytes >> 10} kB"
    return TooLarge(f"The request body is larger than {size}.")


Scope = Mapping[str, Any]


class ApiRequest:
    """One HTTP request during its processing.

    `payload` is the parsed JSON of the body, `parsed` the result of the endpoint's schema. Both are None until
    admission sets them. `gate` are the services that admitted it, for the requests inside a bulk call.

    Units: `started_s`, `admitted_s` and `answered_s` are seconds of the clock; 0 until that moment
    """

    __slots__ = (
        "_fields",
        "addresses",
        "admitted_s",
        "answered_s",
        "body",
        "clock",
        "credential",
        "gate",
        "has_key",
        "headers",
        "ids",
        "is_automated",
        "method",
        "parsed",
        "payload",
        "query_string",
        "receive",
        "request_id",
        "scope",
        "started_s",
        "token",
        "trace",
    )

    def __init__(
        self, scope: Scope, receive: Receive, clock: Clock, addresses: ClientAddresses = DIRECT
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.clock = clock
        self.addresses = addresses
        self.started_s = clock.monotonic_s()
        self.admitted_s = self.answered_s = 0.0
        self.method: str = scope["method"]
        # Of a repeated header the last one counts; admission refuses keys and tokens that differ.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query_string: bytes = scope.get("query_string", b"")
        self.request_id = request_id_from(self.headers.get(HEADER))
        self.ids: Mapping[str, str] = {}
        self.body = b""
        self.payload: Any = None
        self.parsed: Any = None
        self.has_key = False
        "Whether admission found a valid key."
        self.credential: Credential
        "The key of the request. Unset before admission."
        self.token: UserToken | None = None
        "The user token, if it is valid."
        self.gate: Any = None
        self.is_automated = False
        "A publishable key came with a user agent that looks like a robot's."
        self.trace: RequestTrace | None = None
        self._fields: dict[str, str] | None = None

    @property
    def app_id(self) -> str:
        """The app that the request may access."""
        return self.credential.app.app_id

    @property
    def query(self) -> dict[str, str]:
        """The query parameters."""
        if self._fields is None:
            self._fields = parse_query(self.query_string)
        return self._fields

    @property
    def user_keys(self) -> tuple[str, ...]:
        """Keys of the request's user (`u:...`, `a:...`), the most certain first; available after admission parsed the
        body.
        """
        token = self.token
        named = [ids.user_key_from_id(token.user_id)] if token is not None and token.user_id else []
        if isinstance(self.payload, dict):
            user_id = self.payload.get("user_id")
            anonymous_id = self.payload.get("anonymous_id")
            if isinstance(user_id, str) and user_id:
                named.append(ids.user_key_from_id(user_id))
            if isinstance(anonymous_id, str) and anonymous_id:
                named.append(ids.user_key_from_anonymous_id(anonymous_id))
        return tuple(dict.fromkeys(named))

    @property
    def ip(self) -> str:
        """Address of the client; the client's headers can't change it."""
        return self.addresses.find(self.scope)

    @property
    def user_agent(self) -> str:
        """The user agent as sent."""
        return self.headers.get(b"user-agent", b"").decode("latin-1")

    def took_ms(self) -> int:
        """Milliseconds since the request arrived."""
        return int((self.clock.monotonic_s() - self.started_s) * 1000)
