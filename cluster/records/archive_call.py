"""One call of an archive tool, as the publisher's report counts it: which client, on whose behalf, about what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import orjson

Outcome = Literal["answered", "refused"]


@dataclass(frozen=True, slots=True)
class ArchiveCall:
    """A call and what became of it. It names no person: a publisher counts clients, not readers."""

    at: int
    "Milliseconds since 1970."
    tool: str
    client: str
    "Id of the client, short."
    client_name: str
    "What the client calls itself: a stranger's text."
    skill_used: str = ""
    question: str = ""
    "Its first few hundred characters."
    articles: tuple[str, ...] = ()
    "Products whose passages were found, or whose text was read; best first, each once."
    outcome: Outcome = "answered"
    refusal: str = ""
    "Why it was refused."
    took_ms: float = 0.0
    coverage: float | None = None
    "How much of the question the best passage holds, 0 to 1; None: nothing was asked, or by an earlier release."

    def json(self) -> bytes:
        """Write it."""
        return orjson.dumps(asdict(self))

    @classmethod
    def parse(cls, text: bytes) -> ArchiveCall | None:
        """Read what `json` wrote; None for anything else. Names of a newer release are skipped."""
        try:
            given = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(given, dict):
            return None
        known: dict[str, Any] = {one.name: given[one.name] for one in fields(cls) if one.name in given}
        known["articles"] = tuple(known.get("articles", ()))
        try:
            return cls(**known)
        except TypeError:
            return None
