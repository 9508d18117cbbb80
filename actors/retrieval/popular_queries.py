"""What readers searched for: distinct readers by query, so that one of them alone can't make a suggestion.

Readers whom nobody proved count as one for each client address, and what looks like a link is never suggested.
A query counts for as long as anybody asked it within the window; forgetting a reader lowers every count they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.field_values import LONGEST
from actors.retrieval.autocomplete.text_index import CompletionHit, RowTextIndex
from actors.vectors.types import Floats, Mask, ensure_capacity
from cluster.records.links import has_link
from cluster.records.validation.upload import ORIGIN

_DAY_MS = 86_400_000
WINDOW_MS = 30 * _DAY_MS
HALF_LIFE_MS = 14 * _DAY_MS
MOST_QUERIES = 100_000
MOST_READERS = 5_000
"Readers remembered of one query; beyond that nobody needs to know exactly."
_SWEEP_MS = 600_000
"Within so long all queries are counted again, for readers fade."
_SWEPT_AT_ONCE = 2_000


class PopularQueries:
    """Queries and who asked them lately."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._readers: list[dict[str, int]] = []
        "By number of the query: reader id -> when they last asked it."
        self._queries_of: dict[str, set[int]] = {}
        self._origins: dict[str, str] = {}
        "Reader id -> where they came from, of readers without proof."
        self._texts = FieldIndex("text")
        self._readers_lately: Floats = np.zeros(0)
        self._worth: Floats = np.zeros(0)
        self._changed: set[int] = set()
        "Queries to be counted again."
        self._swept = 0
        self._swept_ms = 0

    def __len__(self) -> int:
        """Count queries."""
        return len(self._numbers)

    def record(
        self, items: Iterable[Mapping[str, Any]], reader_of: Callable[[Mapping[str, Any]], str], at_ms: int
    ) -> None:
        """Learn the searches among interactions."""
        for item in items:
            if item.get("type") == "search":
                keywords = (item.get("search") or {}).get("keywords")
                if isinstance(keywords, str):
                    self.add(keywords, reader_of(item), at_ms, item.get(ORIGIN, ""))

    def add(self, keywords: str, reader_id: str, at_ms: int, origin: str = "") -> None:
        """Learn one search; `origin` stands for a reader without proof where readers are counted."""
        text = " ".join(keywords.split())
        key = fold_text(text)
        if not key or not reader_id or len(text) > LONGEST or has_link(text):
            return
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= MOST_QUERIES:
                return
            number = self._numbers[key] = len(self._readers)
            self._readers.append({})
            self._texts.record(number, {"text": text})
        readers = self._readers[number]
        if reader_id in readers or len(readers) < MOST_READERS:
            readers[reader_id] = max(at_ms, readers.get(reader_id, 0))
            self._queries_of.setdefault(reader_id, set()).add(number)
            self._changed.add(number)
            if origin:
                self._origins[reader_id] = origin

    def delete(self, reader_ids: Sequence[str]) -> None:
        """Take back what readers searched for."""
        for reader_id in reader_ids:
            for number in self._queries_of.pop(reader_id, ()):
                self._readers[number].pop(reader_id, None)
                self._changed.add(number)
            self._origins.pop(reader_id, None)

    def look_up(self, typed: str, wanted: int, least: int, now_ms: int) -> list[CompletionHit]:
        """Find queries that at least so many different readers asked within the window."""
        counts, worth = self._counts(now_ms)
        rows: Mask = counts >= max(least, 1)
        return self._texts.look_up(typed, wanted, 0, rows, now_ms, lambda: worth)

    def plan_rebuild(self, now_ms: int) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Give the work of building the index again, when it is worth it."""
        if not self._texts.needs_rebuild:
            return None
        return self._texts, self._texts.plan_rebuild(self._counts(now_ms)[1])

    def _counts(self, now_ms: int) -> tuple[Floats, Floats]:
        """Count readers in the window, and what they are worth: at once where something changed, else little by little.

        Shapes:
            returns: float64 [queries] each, not to be changed
        """
        count = len(self._readers)
        self._readers_lately, self._worth = (
            ensure_capacity(self._readers_lately, count),
            ensure_capacity(self._worth, count),
        )
        for number in self._changed:
            self._count(number, now_ms)
        self._changed.clear()
        passed_ms = max(now_ms - self._swept_ms, 0)
        turn = min(-(-count * passed_ms // _SWEEP_MS), count, _SWEPT_AT_ONCE)
        for number in range(self._swept, self._swept + turn):
            self._count(number % count, now_ms)
        if turn:
            self._swept, self._swept_ms = (self._swept + turn) % count, now_ms
        return self._readers_lately[:count], self._worth[:count]

    def _count(self, number: int, now_ms: int) -> None:
        latest: dict[str, int] = {}
        for reader_id, at_ms in self._readers[number].items():
            if now_ms - at_ms < WINDOW_MS:
                voter = self._origins.get(reader_id, reader_id)
                latest[voter] = max(at_ms, latest.get(voter, at_ms))
        self._readers_lately[number] = len(latest)
        self._worth[number] = sum(0.5 ** (max(now_ms - at, 0) / HALF_LIFE_MS) for at in latest.values())
