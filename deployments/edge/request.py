"""A request with the results of its admission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cluster import ids
from cluster.clock import Clock
from cluster.tracing import RequestTrace
from deployments.edge.body import Receive
from deployments.edge.caller import Caller, Credential, UserToken
from deployments.edge.client_address import DIRECT, ClientAddresses
from deployments.edge.client_address import HEADER as FORWARDED
from deployments.edge.credentials import parse_query
from deployments.edge.request_log import HEADER, request_id_from

Scope = Mapping[str, Any]
Send = Callable[[Any], Awaitable[None]]


class ApiRequest:
    """One HTTP request during its processing.

    `payload` is the parsed JSON of the body, `parsed` the result of the endpoint's schema. Both are None until
    admission sets them. `gate` are the services that admitted it, for the requests inside a bulk call.
    """

    __slots__ = (
        "_fields", "addresses", "body", "caller", "clock", "gate", "headers", "ids", "method", "parsed", "payload",
        "query_string", "receive", "request_id", "scope", "started_s", "trace",
    )  # fmt: skip

    def __init__(
        self, scope: Scope, receive: Receive, clock: Clock, addresses: ClientAddresses = DIRECT
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.clock = clock
        self.addresses = addresses
        self.started_s = clock.monotonic_s()
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query_string: bytes = scope.get("query_string", b"")
        self.request_id = request_id_from(self.headers.get(HEADER))
        self.ids: Mapping[str, str] = {}
        self.body = b""
        self.payload: Any = None
        self.parsed: Any = None
        self.caller: Caller | None = None
        self.gate: Any = None
        self.trace: RequestTrace | None = None
        self._fields: dict[str, str] | None = None

    @property
    def credential(self) -> Credential:
        """The key of the request. Only after admission."""
        assert self.caller is not None
        return self.caller.credential

    @property
    def token(self) -> UserToken | None:
        """The user token, if it is valid."""
        return self.caller.token if self.caller is not None else None

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
        """Keys of the request's user (`u:...`, `a:...`), the most certain first. Only after admission parsed the
        body."""
        fields: Mapping[str, Any] = self.payload if isinstance(self.payload, dict) else {}
        named = [
            ids.user_reader(self.token.user_id) if self.token is not None and self.token.user_id else "",
            *(
                mark(text)
                for mark, text in (
                    (ids.user_reader, fields.get("user_id")),
                    (ids.anonymous_reader, fields.get("anonymous_id")),
                )
                if isinstance(text, str) and text
            ),
        ]
        return tuple(dict.fromkeys(name for name in named if name))

    @property
    def ip(self) -> str:
        """Address of the client; the client's headers can't change it."""
        return self.addresses.find(self.scope, self.headers.get(FORWARDED))

    @property
    def user_agent(self) -> str:
        """The user agent as sent."""
        return self.headers.get(b"user-agent", b"").decode("latin-1")

    def took_ms(self) -> int:
        """Milliseconds since the request arrived."""
        return int((self.clock.monotonic_s() - self.started_s) * 1000)
