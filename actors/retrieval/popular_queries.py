"""Queries with the distinct users who sent them, so that one user alone can't create a suggestion.

Users without a verified id count once for each client address. Queries that look like links are never suggested.
Only users who sent a query within the window count; deleting a user lowers the counts of all their queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.completed_values import LONGEST
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.text_index import CompletionHit, RowTextIndex
from actors.vectors.types import Floats, Mask, ensure_capacity
from cluster.records.logged_query import has_link
from cluster.records.validation.upload import ORIGIN

_DAY_MS = 86_400_000
WINDOW_MS = 30 * _DAY_MS
HALF_LIFE_MS = 14 * _DAY_MS
MOST_QUERIES = 100_000
MOST_USERS = 5_000
"Users counted for one query."
_SWEEP_MS = 600_000
"Time within which all queries are counted again, because users leave the window."
_SWEPT_AT_ONCE = 2_000


class PopularQueries:
    """Counts recent users by query and suggests popular queries."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        "By number of the query: its folded text; empty if the number is free."
        self._free_numbers: list[int] = []
        self._users: list[dict[str, int]] = []
        "By number of the query: user id -> when the user last sent it, in ms."
        self._queries_of: dict[str, set[int]] = {}
        self._origins: dict[str, str] = {}
        "User id -> client address, of users without a verified id."
        self._texts = FieldIndex("text")
        self._user_counts: Floats = np.zeros(0)
        self._weights: Floats = np.zeros(0)
        self._changed: set[int] = set()
        "Queries to be counted again."
        self._swept = 0
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return self._texts.nbytes + 500 * len(self._users) + 150 * len(self._queries_of)

    def record(
        self, items: Iterable[Mapping[str, Any]], user_of: Callable[[Mapping[str, Any]], str], at_ms: int
    ) -> None:
        """Count the searches among interactions."""
        for item in items:
            if item.get("type") == "search":
                keywords = (item.get("search") or {}).get("keywords")
                if isinstance(keywords, str):
                    self.add(keywords, user_of(item), at_ms, item.get(ORIGIN, ""))

    def add(self, keywords: str, user_id: str, at_ms: int, origin: str = "") -> None:
        """Count one search; users without a verified id are counted by `origin`."""
        text = " ".join(keywords.split())
        key = fold_text(text)
        # A link is what a spammer wants others to see; a text of any length would fill the memory.
        if not key or not user_id or len(text) > LONGEST or has_link(text):
            return
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= MOST_QUERIES:
                return
            number = self._assign_number(key)
            self._texts.record(number, {"text": text})
        users = self._users[number]
        if user_id in users or len(users) < MOST_USERS:
            # The larger time: interactions may arrive late and out of order.
            users[user_id] = max(at_ms, users.get(user_id, 0))
            self._queries_of.setdefault(user_id, set()).add(number)
            self._changed.add(number)
            if origin:
                self._origins[user_id] = origin

    def _assign_number(self, key: str) -> int:
        if self._free_numbers:
            number = self._free_numbers.pop()
        else:
            number = len(self._users)
            self._users.append({})
            self._keys.append("")
        self._keys[number] = key
        self._numbers[key] = number
        return number

    def delete(self, user_ids: Sequence[str]) -> None:
        """Remove the searches of users."""
        for user_id in user_ids:
            for number in self._queries_of.pop(user_id, ()):
                self._users[number].pop(user_id, None)
                self._changed.add(number)
            self._origins.pop(user_id, None)

    def look_up(self, typed: str, limit: int, least: int, now_ms: int) -> list[CompletionHit]:
        """Find queries that at least `least` different users sent within the window."""
        counts, weights = self._counts(now_ms)
        rows: Mask = counts >= max(least, 1)
        return self._texts.look_up(typed, limit, 0, rows, now_ms, lambda: weights)

    def plan_rebuild(self, now_ms: int) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Return the index and a function that rebuilds it in another thread; None if no rebuild is needed."""
        if not self._texts.needs_rebuild:
            return None
        return self._texts, self._texts.plan_rebuild(self._counts(now_ms)[1])

    def _counts(self, now_ms: int) -> tuple[Floats, Floats]:
        """Count users in the window, and add up their decayed weights: changed queries now, others little by little.

        Shapes:
            returns: float64 [queries] each, not to be changed
        """
        count = len(self._users)
        self._user_counts = ensure_capacity(self._user_counts, count)
        self._weights = ensure_capacity(self._weights, count)
        for number in self._changed:
            self._count(number, now_ms)
        self._changed.clear()
        passed_ms = max(now_ms - self._swept_ms, 0)
        # A share of the queries for the time that passed, so no single look-up counts all of them.
        # Rounded up: look-ups in quick succession would otherwise never count a whole query.
        turn = min(-(-count * passed_ms // _SWEEP_MS), count, _SWEPT_AT_ONCE)
        for number in range(self._swept, self._swept + turn):
            self._count(number % count, now_ms)
        if turn:
            self._swept = (self._swept + turn) % count
            self._swept_ms = now_ms
        return self._user_counts[:count], self._weights[:count]

    def _count(self, number: int, now_ms: int) -> None:
        latest: dict[str, int] = {}
        expired: list[str] = []
        until_ms = now_ms - WINDOW_MS
        users = self._users[number]
        for user_id, at_ms in users.items():
            if at_ms > until_ms:
                # Invented ids cost nothing, addresses do: such users count once for each address.
                voter = self._origins.get(user_id, user_id)
                latest[voter] = max(at_ms, latest.get(voter, at_ms))
            else:
                expired.append(user_id)
        for user_id in expired:
            self._remove_search(user_id, number)
        if not users and self._keys[number]:
            self._remove_query(number)
        self._user_counts[number] = len(latest)
        self._weights[number] = sum(0.5 ** (max(now_ms - at, 0) / HALF_LIFE_MS) for at in latest.values())

    def _remove_search(self, user_id: str, number: int) -> None:
        """Remove a search that left the window, so that others count in its place."""
        del self._users[number][user_id]
        queries = self._queries_of[user_id]
        queries.remove(number)
        if not queries:
            del self._queries_of[user_id]
            self._origins.pop(user_id, None)

    def _remove_query(self, number: int) -> None:
        """Remove a query without users, and free its number."""
        del self._numbers[self._keys[number]]
        self._keys[number] = ""
        self._free_numbers.append(number)
        self._texts.record(number, None)
