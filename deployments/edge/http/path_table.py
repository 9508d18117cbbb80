"""Maps the raw path of a request to an endpoint. Ids may hold percent-encoded bytes.

    /v1/users/_ids            fixed paths first, also with one slash at the end
    /v1/users/_status/{id}    then patterns, the longest text before an id first
    /v1/users/{id}            the last id is the rest of the path, decoded once; no id starts with `_`
    /v1/x/{id}/events         a suffix after an id may end in one slash, too

A redirect to the path without the slash would lose the body of a POST in some clients, so both paths answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from deployments.edge.http.request import Scope


class _Routed(Protocol):
    """One method on one path; a path holds any number of `{name}`."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


E = TypeVar("E", bound=_Routed)


@dataclass(slots=True)
class PathEntry(Generic[E]):
    """All endpoints of one path."""

    by_method: dict[str, E] = field(default_factory=dict)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the methods for the `Allow` header."""
        names = set(self.by_method) | {"OPTIONS"}
        return tuple(sorted(names | {"HEAD"} if "GET" in names else names))


@dataclass(frozen=True, slots=True)
class PathMatch(Generic[E]):
    """The entry of a path that exists, with the ids in the path."""

    entry: PathEntry[E]
    ids: Mapping[str, str]

    def endpoint(self, method: str) -> E | None:
        """Return the endpoint of a method; HEAD is a GET whose body is dropped."""
        return self.entry.by_method.get("GET" if method == "HEAD" else method)


class _Pattern(NamedTuple, Generic[E]):
    head: bytes
    between: tuple[bytes, ...]
    "The texts between the ids; each begins and ends with a slash, so no id holds one."
    names: tuple[str, ...]
    entry: PathEntry[E]


_NAME = re.compile(r"\{(\w+)\}")
_NO_IDS: Mapping[str, str] = {}


class PathTable(Generic[E]):
    """All paths of a surface; `slashes` tells whether an id may hold a slash that is not encoded."""

    def __init__(self, endpoints: Iterable[E], *, slashes: bool = True) -> None:
        self._slashes = slashes
        self._fixed: dict[bytes, PathMatch[E]] = {}
        entries: dict[str, PathEntry[E]] = {}
        for endpoint in endpoints:
            entry = entries.setdefault(endpoint.path, PathEntry())
            entry.by_method[endpoint.method] = endpoint
            if "{" not in endpoint.path:
                self._fixed[endpoint.path.encode()] = PathMatch(entry, _NO_IDS)
        self._paths = tuple(entries)
        patterns = []
        for path, entry in entries.items():
            head, *inner = [text.encode() for text in _NAME.split(path)[::2]]
            if inner:
                # An id may end in a slash, so only paths with a suffix after it also match with a slash at the end.
                tail = inner.pop()
                tails = (tail, tail + b"/") if tail else (b"",)
                pattern = _Pattern(head, tuple(inner), tuple(_NAME.findall(path)), entry)
                patterns.append(([*map(len, (head, *inner, tail))], head, tails, pattern))
        # `/audit/{id}/rows` comes before `/audit/{id}`, and `/apps/{id}/rules` before `/apps/{id}/{name}`.
        patterns.sort(key=lambda pattern: pattern[0], reverse=True)
        self._patterns = [pattern[1:] for pattern in patterns]
        self._reserving = {
            head for head, *_ in self._patterns if any(path.startswith(head + b"_") for path in self._fixed)
        }

    def find(self, raw_path: bytes) -> PathMatch[E] | None:
        """Return the match of a path, or None.

        Cost: 0.3 microseconds for a fixed path, 1 for one with an id.
        """
        match = self._fixed.get(raw_path)
        if match is not None:
            return match
        for head, tails, pattern in self._patterns:
            if raw_path.startswith(head) and raw_path.endswith(tails):
                size = len(tails[0]) + (bool(tails[0]) and raw_path.endswith(b"/"))
                path_match = self._identify(raw_path[len(head) : len(raw_path) - size], pattern)
                if path_match is not None:
                    return path_match
        if raw_path.endswith(b"/"):
            return self._fixed.get(raw_path[:-1])
        return None

    def suggest(self, raw_path: bytes) -> str:
        """Return the path of an endpoint that a client probably meant; empty if none is similar.

        Cost: 1 ms for a path that is not cached.
        """
        # The comparison takes time with the product of both lengths, so long paths get no suggestion.
        return _closest(self._paths, raw_path.decode("latin-1").rstrip("/")) if len(raw_path) <= 100 else ""

    def _identify(self, encoded: bytes, pattern: _Pattern[E]) -> PathMatch[E] | None:
        if pattern.between:
            parts = []
            for text in pattern.between:
                part, _, encoded = encoded.partition(text)
                parts.append(part)
            parts.append(encoded)
            if any(not part or b"/" in part for part in parts):
                return None
            ids = map(unquote_to_bytes, parts)
            named = {
                name: part.decode("utf-8", "replace") for name, part in zip(pattern.names, ids, strict=True)
            }
            return PathMatch(pattern.entry, named)
        if not encoded or (not self._slashes and b"/" in encoded):
            return None
        decoded = unquote_to_bytes(encoded) if b"%" in encoded else encoded
        if decoded.startswith(b"_") and pattern.head in self._reserving:
            # `%5Fids` decodes to the fixed path; no other id may start like that.
            return self._fixed.get(pattern.head + decoded)
        # Invalid UTF-8 becomes a replacement character, which the endpoint refuses as an invalid id.
        return PathMatch(pattern.entry, {pattern.names[0]: decoded.decode("utf-8", "replace")})


@lru_cache(1024)
def _closest(paths: tuple[str, ...], path: str) -> str:
    longer = [candidate for candidate in paths if path.count("/") > 1 and candidate.startswith(path)]
    return next(iter(longer or get_close_matches(path, paths, 1, 0.88)), "")


def raw_path(scope: Scope) -> bytes:
    """Return the path as the client sent it, before any decoding."""
    raw: Any = scope.get("raw_path")
    path = bytes(raw) if raw else scope["path"].encode("utf-8", "surrogatepass")
    return path.partition(b"?")[0]
