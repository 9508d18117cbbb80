"""Endpoints, and the table that maps a raw path to an endpoint. Ids may hold slashes and percent-encoded bytes.

    /v1/users/_ids            fixed paths first, also with one slash at the end
    /v1/users/_status/{id}    then patterns, the longest prefix first
    /v1/users/{id}            the id is the rest of the path, decoded once; no id starts with `_`
    /v1/x/{id}/events         a suffix after an id may end in one slash, too

A redirect to the path without the slash would lose the body of a POST in some clients, so both paths answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

from deployments.edge.access.admission import AdmissionRules, validate_request
from deployments.edge.http.envelope import Reply
from deployments.edge.http.errors import Family
from deployments.edge.http.request import ApiRequest

Answer = Callable[[ApiRequest], Awaitable[Reply]]
Schema = Callable[[ApiRequest], Any]
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class EndpointTexts:
    """Texts of an endpoint for the documentation; models are pydantic models, type adapters or JSON schemas."""

    summary: str
    tag: str
    body: Any = None
    replies: Mapping[int, Any] = field(default_factory=dict)
    "Status -> model, in addition to those that every endpoint has."
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    "Query parameter -> JSON schema."
    needs_user: bool = False
    "Whether a publishable key also needs a user token."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    A path holds at most one `{name}`. Without a suffix it matches the rest of the path, slashes included.
    """

    name: str
    method: str
    path: str
    rules: AdmissionRules
    family: Family
    answer: Answer
    about: EndpointTexts
    schema: Schema | None = None
    hot: bool = False
    "Whether `HotLayer` answers it in front of the framework."
    has_body: bool = field(init=False)
    "Whether it writes or reads a body; others only read from the store."

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_body", self.rules.writes or self.rules.body != "ignored")


async def validate_and_answer(request: ApiRequest, endpoint: Endpoint) -> Reply:
    """Answer an admitted request; link the user and the visitor that it names.

    Errors:
        HouseError: the endpoint refuses the request
    """
    await validate_request(request, endpoint.rules, endpoint.schema)
    if request.trace is not None:
        request.trace.mark("parse")
    reply = await endpoint.answer(request)
    body = request.payload
    if reply.status < _REFUSED and type(body) is dict and "anonymous_id" in body:
        request.gate.link_identities(request)
    return reply


@dataclass(slots=True)
class PathEntry:
    """All endpoints of one path."""

    by_method: dict[str, Endpoint] = field(default_factory=dict)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the methods for the `Allow` header."""
        names = set(self.by_method) | {"OPTIONS"}
        return tuple(sorted(names | {"HEAD"} if "GET" in names else names))


@dataclass(frozen=True, slots=True)
class PathMatch:
    """The entry of a path that exists, with the id in the path."""

    entry: PathEntry
    ids: Mapping[str, str]

    def endpoint(self, method: str) -> Endpoint | None:
        """Return the endpoint of a method; HEAD is a GET whose body is dropped."""
        return self.entry.by_method.get("GET" if method == "HEAD" else method)


@lru_cache(1024)
def _closest(paths: tuple[str, ...], path: str) -> str:
    longer = [candidate for candidate in paths if path.count("/") > 1 and candidate.startswith(path)]
    return next(iter(longer or get_close_matches(path, paths, 1, 0.88)), "")


_NO_IDS: Mapping[str, str] = {}


class PathTable:
    """All paths of a request handler."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        endpoints = tuple(endpoints)
        self._paths = tuple(dict.fromkeys(endpoint.path for endpoint in endpoints))
        self._fixed: dict[bytes, PathMatch] = {}
        patterns: dict[tuple[bytes, str, bytes], PathEntry] = {}
        for endpoint in endpoints:
            head, brace, rest = endpoint.path.partition("{")
            if not brace:
                match = self._fixed.setdefault(endpoint.path.encode(), PathMatch(PathEntry(), _NO_IDS))
                match.entry.by_method[endpoint.method] = endpoint
            else:
                name, _, tail = rest.partition("}")
                place = patterns.setdefault((head.encode(), name, tail.encode()), PathEntry())
                place.by_method[endpoint.method] = endpoint
        # An id may end in a slash, so only paths with a suffix after the id also match with a slash at the end.
        self._patterns = sorted(
            (
                (head, name, (tail, tail + b"/") if tail else (b"",), place)
                for (head, name, tail), place in patterns.items()
            ),
            key=lambda entry: (len(entry[0]), len(entry[2][0])),
            reverse=True,
        )
        self._reserving = {
            head for head, *_ in self._patterns if any(path.startswith(head + b"_") for path in self._fixed)
        }

    def find(self, raw_path: bytes) -> PathMatch | None:
        """Return the match of a path, or None.

        Cost: 0.3 microseconds for a fixed path, 1 for one with an id.
        """
        match = self._fixed.get(raw_path)
        if match is not None:
            return match
        for head, name, tails, place in self._patterns:
            if raw_path.startswith(head) and raw_path.endswith(tails):
                size = len(tails[0]) + (bool(tails[0]) and raw_path.endswith(b"/"))
                path_match = self._identify(raw_path[len(head) : len(raw_path) - size], head, name, place)
                if path_match is not None:
                    return path_match
        if raw_path.endswith(b"/"):
            return self._fixed.get(raw_path[:-1])
        return None

    def suggest(self, raw_path: bytes) -> str:
        """Return the path of an endpoint that a client probably meant; empty if none is similar.

        Cost: 1 ms for a path that is not cached.
        """
        return _closest(self._paths, raw_path.decode("latin-1").rstrip("/")) if len(raw_path) <= 100 else ""

    def _identify(self, encoded: bytes, head: bytes, name: str, place: PathEntry) -> PathMatch | None:
        if not encoded:
            return None
        decoded = unquote_to_bytes(encoded) if b"%" in encoded else encoded
        if decoded.startswith(b"_") and head in self._reserving:
            # `%5Fids` decodes to the fixed path; no other id may start like that.
            return self._fixed.get(head + decoded)
        # Invalid UTF-8 becomes a replacement character, which the endpoint refuses as an invalid id.
        return PathMatch(place, {name: decoded.decode("utf-8", "replace")})
