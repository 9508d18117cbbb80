"""The overlay: products, counts and item pairs in memory, updated by applying the change log.

Changes of one noun come in the order of their offsets. The overlay skips an offset that it applied before, so it may
read a part of the log twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from actors.language.hashing_embedder import Embedder, embedding_text
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.compact_histories import CompactHistories, hash_user
from actors.recommender.state.cooccurrence import CooccurrenceTable, build_basket_pairs, build_sequence_pairs
from actors.recommender.state.events import (
    EventArrays,
    EventTuple,
    offset_time_ms,
    parse_interactions,
    user_key_from_item,
)
from actors.recommender.state.user_attributes import UserAttributes
from actors.recommender.state.user_contributions import ContributionArrays, UserContributions
from actors.recommender.state.vote_counts import DailyVotes, DecayedCounts, PlainCounts
from actors.retrieval.logged_queries import LoggedQueries
from actors.retrieval.popular_queries import PopularQueries
from actors.retrieval.product_search import ProductSearch
from actors.vectors.index import VectorIndex
from actors.vectors.types import Floats, Matrix
from cluster.artifacts.segments import position_from_offset
from cluster.store.data.change_log import ChangeLogEntry

# Sizes of steps of about a millisecond, so that a request waits for one at most.
_PRODUCTS_A_STEP = 10
_EVENTS_A_STEP = 200
_ERASURES_A_STEP = 10
_USERS_A_STEP = 50
_PARENT_SHARE = 0.2
_USER = "u:"
_SEQUENCE_TAIL = 8
_BASKET_TAIL = 45
"Events of a running session that later events can pair with: a window and a few more."


class Overlay:
    """Products of an app and the interactions with them, in memory."""

    def __init__(self, embedder: Embedder, *, ledger_limit: int = 2_000_000) -> None:
        self.catalog = Catalog()
        self.index = VectorIndex(embedder.dimensions)
        self.texts = ProductSearch(self.catalog, self.index, embedder)
        self.catalog.subscribe(self.texts.record)
        self.counts = DecayedCounts()
        self.votes = PlainCounts()
        self.cooccurrence = CooccurrenceTable()
        self.baskets = CooccurrenceTable()
        self.popular_queries = PopularQueries()
        self.logged_queries = LoggedQueries()
        "Searches of the query log. The follower of that log replaces this object."
        self.offsets: dict[str, str] = {}
        "Noun -> offset of the newest change that was applied."
        self.loaded_offsets: dict[str, str] = {}
        "Noun -> offset of the compacted state that was loaded."
        self.position = ""
        """The offsets that the log of answers keeps, so that a replay finds this state again: of products and
        interactions as loaded, then of products, interactions and users as applied."""
        self.is_damaged = False
        "Whether damaged segments were left out of the load."
        self.users = UserAttributes()
        self.histories = CompactHistories()
        self.events_version = 0
        "Increases when events are counted and when attributes of users change."
        self.erasures = 0
        "Number of erasures of users that were applied."
        self._embedder = embedder
        self._contributions = UserContributions(ledger_limit)
        self._votes = DailyVotes()

    def apply(self, *changes: ChangeLogEntry) -> None:
        for _ in self.apply_in_steps(changes):
            pass

    def apply_in_steps(self, changes: Iterable[ChangeLogEntry]) -> Iterator[None]:
        """Apply changes in steps of about a millisecond, so that the host can answer requests between steps.

        Interactions of adjacent changes are counted together: one click costs almost as much as a hundred.
        """
        waiting: list[EventTuple] = []
        try:
            for change in changes:
                if position_from_offset(change.offset) <= position_from_offset(
                    self.offsets.get(change.noun, "0")
                ):
                    continue
                # recorded first: a change that fails half-way is not retried; the next reload applies it completely
                self.offsets[change.noun] = change.offset
                if change.noun == "interaction" and change.op == "put":
                    for events in self._read_events(change):
                        waiting += events
                        if len(waiting) >= _EVENTS_A_STEP:
                            self.add_events(_drain_events(waiting))
                            yield
                    continue
                # Before any other noun: an erasure must find the events that stand before it in the log.
                self.add_events(_drain_events(waiting))
                if change.noun == "product":
                    yield from self._apply_products(change)
                elif change.noun == "user":
                    yield from self._apply_users(change)
                else:
                    yield from self._apply_erasures(change)
        finally:
            # Also after an error: offsets of these events are recorded, so no later call would count them.
            self.add_events(_drain_events(waiting))
            self.record_position()

    def record_position(self) -> None:
        """Record the offsets of this state. In the middle of changes, the position is that before them."""
        loaded = self.loaded_offsets
        offsets = self.offsets
        nouns = ("product", "interaction", "user")
        self.position = ",".join(
            [*(loaded.get(noun, "0") for noun in nouns[:2]), *(offsets.get(noun, "0") for noun in nouns)]
        )

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory of the overlay, in bytes."""
        counts = (self.counts, self.votes, self.cooccurrence, self.baskets)
        catalog_bytes = (
            self.catalog.nbytes + self.index.nbytes + self.texts.nbytes + self.popular_queries.nbytes
        )
        people = (self._contributions, self.histories, self.users)
        return catalog_bytes + sum(part.nbytes for part in (*counts, *people))

    def put_products(self, products: Sequence[Mapping[str, Any]], vectors: Matrix | None) -> None:
        """Add or replace products with their vectors; without vectors, embed the products.

        Shapes:
            vectors: float32 [m, d], rows of length 1
        """
        if vectors is None:
            vectors = self._embedder.embed([embedding_text(product) for product in products])
        rows = [self.catalog.put(product) for product in products]
        self.index.reserve(len(self.catalog))
        # for a product that comes twice, the last vector and the last record count
        last = {row: at for at, row in enumerate(rows)}
        self.index.put(np.array(list(last), np.int64), vectors[list(last.values())])

    def remove_products(self, product_ids: Sequence[str]) -> None:
        """Remove products. Their interactions stay counted, because a product can come back."""
        rows = [self.catalog.remove(product_id) for product_id in product_ids]
        self.index.remove(np.array([row for row in rows if row >= 0], np.int64))

    def _apply_products(self, change: ChangeLogEntry) -> Iterator[None]:
        items = orjson.loads(change.payload)
        if change.op == "remove":
            for start in range(0, len(items), 10 * _PRODUCTS_A_STEP):
                self.remove_products(items[start : start + 10 * _PRODUCTS_A_STEP])
                yield
                yield from self.texts.index_steps()
            return
        vectors = self._read_vectors(change, len(items))
        for start in range(0, len(items), _PRODUCTS_A_STEP):
            part = slice(start, start + _PRODUCTS_A_STEP)
            self.put_products(items[part], None if vectors is None else vectors[part])
            yield
            yield from self.texts.index_steps()

    def _read_vectors(self, change: ChangeLogEntry, count: int) -> Matrix | None:
        """Return the vectors of a change; None if another embedder made them or one is missing."""
        shape = (count, self._embedder.dimensions)
        # Vectors travel as float16, two bytes a number.
        if change.embedder != self._embedder.version or len(change.vectors) != 2 * shape[0] * shape[1]:
            return None
        return np.frombuffer(change.vectors, "<f2").reshape(shape).astype(np.float32)

    def put_users(self, users: Sequence[Mapping[str, Any]]) -> None:
        """Set the attributes of users. Their interactions may come before or after."""
        changed = False
        for user in users:
            user_key = _USER + str(user.get("user_id", ""))
            before = self._contributions.get_attribute_slot(user_key)
            slot, differs = self.users.put(before, user)
            if slot != before:
                self._contributions.set_attribute_slot(user_key, slot)
            changed = changed or differs
        self.events_version += changed

    def remove_users(self, user_ids: Sequence[str]) -> None:
        """Delete the attributes of users. Their interactions stay counted."""
        for user_id in user_ids:
            slot = self._contributions.get_attribute_slot(_USER + user_id)
            if slot >= 0:
                self._contributions.set_attribute_slot(_USER + user_id, -1)
                self.users.remove(slot)
                self.events_version += 1

    def _apply_users(self, change: ChangeLogEntry) -> Iterator[None]:
        items = orjson.loads(change.payload)
        act = self.remove_users if change.op == "remove" else self.put_users
        for start in range(0, len(items), _USERS_A_STEP):
            act(items[start : start + _USERS_A_STEP])
            yield

    def load_histories(self, events: EventArrays) -> None:
        """Keep many events as histories of their users; `add_event_counts` counts them."""
        self.histories.add_many(self._contributions.hash_users(events.users), events)

    def add_events(self, events: EventArrays) -> None:
        """Count events in the order of the change log, and keep them as histories of their users.

        Cost:
            0.2 ms for one event, 2 s for 1,000,000 at once
        """
        if len(events):
            self.histories.record(self._contributions.hash_users(events.users), events)
        self.add_event_counts(events)

    def add_event_counts(self, events: EventArrays) -> None:
        """Count events in the order of the change log."""
        self.index.reserve(len(self.catalog))
        if not len(events):
            return
        # Dislikes turn the profile of their user, but lower no product for others.
        liked = events.select(events.weights > 0)
        if not len(liked):
            return
        # max over a day of max(w, 0): one user can't make a trend (equation 3)
        worth = self._votes.weigh(liked.users, liked.rows, liked.at_ms, liked.weights)
        self._add_counts(liked, worth, 1)
        context = self._read_session_context(liked)
        self._add_pairs(EventArrays.concatenate(context, liked), len(context), 1)
        # With the vote as counted, so an erasure subtracts exactly what was added.
        self._contributions.record(liked, worth)
        self.events_version += 1

    def add_searches(self, table: Any) -> None:
        """Count compacted searches (columns of `SegmentStore.searches`)."""
        for user_key, at_ms, body in zip(
            *(table[name].to_pylist() for name in ("reader", "at_ms", "json")), strict=True
        ):
            keywords = (orjson.loads(body).get("search") or {}).get("keywords")
            if isinstance(keywords, str):
                self.popular_queries.add(keywords, user_key, at_ms)

    def get_user_code(self, user_key: str) -> int:
        """Return the code of a user, a new one for a new user."""
        return self._contributions.get_code(user_key)

    def read_newest_contributions(self, most: int) -> ContributionArrays:
        """Return the newest counted events with users, votes and attribute slots."""
        return self._contributions.read_newest(most)

    def count_votes_since(self, at_ms: int) -> Floats:
        """Return the votes by row of stored contributions after a time.

        Shapes:
            returns: float64 [n]
        """
        return self._contributions.count_votes_since(at_ms, len(self.catalog))

    def erase(self, user_keys: Sequence[str]) -> None:
        """Undo the stored contributions of users to all counts."""
        self.erasures += 1
        self.popular_queries.delete(user_keys)
        for user_key in user_keys:
            # Even if no counted event is left: the history keeps events that the counts forgot.
            self.histories.erase(hash_user(user_key))
            slot = self._contributions.get_attribute_slot(user_key)
            events, votes = self._contributions.remove_user(user_key)
            if slot >= 0:
                # another change deletes the record of the user
                self._contributions.set_attribute_slot(user_key, slot)
            if len(events):
                self._add_counts(events, votes, -1)
                self._add_pairs(events, 0, -1)
                self._votes.delete(int(events.users[0]), events.rows.tolist())
                self.events_version += 1

    def _read_events(self, change: ChangeLogEntry) -> Iterator[list[EventTuple]]:
        items = orjson.loads(change.payload)
        self.popular_queries.record(items, user_key_from_item, offset_time_ms(change.offset))
        for start in range(0, len(items), _EVENTS_A_STEP):
            yield parse_interactions(
                items[start : start + _EVENTS_A_STEP],
                user_code=self.get_user_code,
                row_of=self.catalog.get_or_add_row,
                latest_ms=offset_time_ms(change.offset),
            )

    def _apply_erasures(self, change: ChangeLogEntry) -> Iterator[None]:
        user_keys = orjson.loads(change.payload)
        self.logged_queries.erase(user_keys, offset_time_ms(change.offset))
        for start in range(0, len(user_keys), _ERASURES_A_STEP):
            self.erase(user_keys[start : start + _ERASURES_A_STEP])
            yield

    def _add_counts(self, events: EventArrays, worth: Any, sign: int) -> None:
        self.counts.add(events.rows, worth * sign, events.at_ms)
        self.votes.add(events.rows, worth * sign)
        parents = self.catalog.parents[events.rows]
        has = parents >= 0
        if has.any():
            share = worth[has] * (sign * _PARENT_SHARE)
            self.counts.add(parents[has].astype(np.int64), share, events.at_ms[has])

    def _read_session_context(self, events: EventArrays) -> EventArrays:
        """Return earlier events of the same users and sessions that new events can pair with."""
        places: list[int] = []
        if len(self._contributions):
            # Only baskets look back so far; all others read the short tail.
            buyers = set(events.users[events.bought].tolist())
            users, first = np.unique(events.users, return_index=True)
            for user, at_ms in zip(users.tolist(), events.at_ms[first].tolist(), strict=True):
                places += self._contributions.read_session_tail(
                    user, at_ms, _BASKET_TAIL if user in buyers else _SEQUENCE_TAIL
                )
        return self._contributions.read_events(places)

    def _add_pairs(self, events: EventArrays, old: int, sign: int) -> None:
        self.cooccurrence.add(build_sequence_pairs(events, old), sign)
        if events.bought.any():
            bought = events.select(events.bought)
            self.baskets.add(build_basket_pairs(bought, int(np.count_nonzero(events.bought[:old]))), sign)


def _drain_events(waiting: list[EventTuple]) -> EventArrays:
    """Return the waiting events as arrays and empty the list."""
    events = EventArrays.of(waiting)
    waiting.clear()
    return events
