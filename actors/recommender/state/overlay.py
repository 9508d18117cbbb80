"""What was written since the recommender started to listen: products, counts, pairs, applied one change at a time.

Changes of one noun come in the order of their offsets. An offset that was applied before is skipped, so reading a
stretch of the log twice is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from actors.language.embedder import Embedder, text_of
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.cooccurrence import Neighbours, basket_pairs, sequence_pairs
from actors.recommender.state.events import Event, Events, read_items, reader_of, written_ms
from actors.recommender.state.trending import DailyVotes, DecayedCounts, PlainCounts
from actors.recommender.state.user_attributes import UserAttributes
from actors.recommender.state.user_contributions import Ledger, Notes
from actors.retrieval.logged_queries import LoggedQueries
from actors.retrieval.popular_queries import Asked
from actors.retrieval.product_texts import ProductTexts
from actors.vectors.index import VectorIndex
from actors.vectors.types import Floats, Matrix
from cluster.artifacts.segments import position
from cluster.store.ports.stores import Change

_PRODUCTS_A_STEP = 10
_EVENTS_A_STEP = 200
_READERS_A_STEP = 10
_USERS_A_STEP = 50
_PARENT_SHARE = 0.2
_USER = "u:"
_SEQUENCE_TAIL, _BASKET_TAIL = 8, 45
"A window and some: events of a running session that later ones may pair with."


class Overlay:
    """Products and what readers did with them, in memory."""

    def __init__(self, embedder: Embedder, *, ledger_limit: int = 2_000_000) -> None:
        self.catalog = Catalog()
        self.index = VectorIndex(embedder.dimensions)
        self.texts = ProductTexts(self.catalog, self.index, embedder)
        self.counts = DecayedCounts()
        self.votes = PlainCounts()
        self.together = Neighbours()
        self.baskets = Neighbours()
        self.asked = Asked()
        self.logged = LoggedQueries()
        "Searches of the query log; whoever follows that log puts its own here."
        self.offsets: dict[str, str] = {}
        "Noun -> offset of the newest change that was applied."
        self.users = UserAttributes()
        self.events = 0
        "Grows with every lot of events that counted, and when attributes of users change."
        self._embedder = embedder
        self._ledger = Ledger(ledger_limit)
        self._votes = DailyVotes()

    def apply(self, *changes: Change) -> None:
        """Apply changes, whole."""
        for _ in self.steps(changes):
            pass

    def steps(self, changes: Iterable[Change]) -> Iterator[None]:
        """Apply changes in small steps, about a millisecond each, so that answers may go in between.

        Interactions of neighbouring changes are learned together: a call with one click costs almost as much to
        learn as a hundred calls.
        """
        waiting: list[Event] = []
        try:
            for change in changes:
                if position(change.offset) <= position(self.offsets.get(change.noun, "0")):
                    continue
                # noted first: a change that fails half-way is not tried again, the next reload brings it in whole
                self.offsets[change.noun] = change.offset
                if change.noun == "interaction" and change.op == "put":
                    for events in self._events(change):
                        waiting += events
                        if len(waiting) >= _EVENTS_A_STEP:
                            self.learn(_taken(waiting))
                            yield
                    continue
                self.learn(_taken(waiting))
                if change.noun == "product":
                    yield from self._products(change)
                elif change.noun == "user":
                    yield from self._users(change)
                else:
                    yield from self._erasures(change)
        finally:
            self.learn(_taken(waiting))

    @property
    def nbytes(self) -> int:
        """Memory held, estimated."""
        parts = (self.counts, self.votes, self.together, self.baskets, self._ledger, self.users)
        shelves = self.catalog.nbytes + self.index.nbytes + self.texts.nbytes
        return shelves + sum(part.nbytes for part in parts)

    # --- products -------------------------------------------------------------------------------------------

    def put_products(self, products: Sequence[Mapping[str, Any]], vectors: Matrix | None) -> None:
        """Set products with their vectors, or have them embedded here.

        Shapes:
            vectors: float32 [m, d], rows of length 1
        """
        if vectors is None:
            vectors = self._embedder.embed([text_of(product) for product in products])
        rows = [self.catalog.put(product) for product in products]
        self.index.reserve(len(self.catalog))
        # of a product that comes twice in one lot the last vector counts, as its record does
        last = {row: at for at, row in enumerate(rows)}
        self.index.put(np.array(list(last), np.int64), vectors[list(last.values())])

    def remove_products(self, product_ids: Sequence[str]) -> None:
        """Take products out; what readers did with them stays counted, in case they come back."""
        rows = [self.catalog.remove(product_id) for product_id in product_ids]
        self.index.remove(np.array([row for row in rows if row >= 0], np.int64))

    def _products(self, change: Change) -> Iterator[None]:
        items = orjson.loads(change.payload)
        if change.op == "remove":
            for start in range(0, len(items), 10 * _PRODUCTS_A_STEP):
                self.remove_products(items[start : start + 10 * _PRODUCTS_A_STEP])
                yield
                yield from self.texts.steps()
            return
        vectors = self._vectors_of(change, len(items))
        for start in range(0, len(items), _PRODUCTS_A_STEP):
            part = slice(start, start + _PRODUCTS_A_STEP)
            self.put_products(items[part], None if vectors is None else vectors[part])
            yield
            yield from self.texts.steps()

    def _vectors_of(self, change: Change, count: int) -> Matrix | None:
        """Read the vectors that came along, when they are of our embedder."""
        shape = (count, self._embedder.dimensions)
        if change.embedder != self._embedder.version or len(change.vectors) != 2 * shape[0] * shape[1]:
            return None
        return np.frombuffer(change.vectors, "<f2").reshape(shape).astype(np.float32)

    # --- users ----------------------------------------------------------------------------------------------

    def put_users(self, users: Sequence[Mapping[str, Any]]) -> None:
        """Set the attributes of users, whether their interactions came before or come later."""
        changed = False
        for user in users:
            reader_id = _USER + str(user.get("user_id", ""))
            before = self._ledger.get_slot(reader_id)
            slot, differs = self.users.put(before, user)
            if slot != before:
                self._ledger.set_slot(reader_id, slot)
            changed = changed or differs
        self.events += changed

    def remove_users(self, user_ids: Sequence[str]) -> None:
        """Delete the attributes of users; what they did stays counted for everybody."""
        for user_id in user_ids:
            slot = self._ledger.get_slot(_USER + user_id)
            if slot >= 0:
                self._ledger.set_slot(_USER + user_id, -1)
                self.users.remove(slot)
                self.events += 1

    def _users(self, change: Change) -> Iterator[None]:
        items = orjson.loads(change.payload)
        act = self.remove_users if change.op == "remove" else self.put_users
        for start in range(0, len(items), _USERS_A_STEP):
            act(items[start : start + _USERS_A_STEP])
            yield

    # --- interactions ---------------------------------------------------------------------------------------

    def learn(self, events: Events) -> None:
        """Count events, in the order they were written.

        Cost:
            0.2 ms for one event, 2 s for 1,000,000 at once
        """
        self.index.reserve(len(self.catalog))
        if not len(events):
            return
        liked = events.pick(events.weights > 0)
        if not len(liked):
            return
        worth = self._votes.weigh(liked.readers, liked.rows, liked.at_ms, liked.weights)
        self._count(liked, worth, 1)
        context = self._context(liked)
        self._pair(Events.joined(context, liked), len(context), 1)
        self._ledger.note(liked, worth)
        self.events += 1

    def learn_searches(self, table: Any) -> None:
        """Learn settled searches (columns of `SegmentShelf.searches`)."""
        for reader_id, at_ms, body in zip(
            *(table[name].to_pylist() for name in ("reader", "at_ms", "json")), strict=True
        ):
            keywords = (orjson.loads(body).get("search") or {}).get("keywords")
            if isinstance(keywords, str):
                self.asked.add(keywords, reader_id, at_ms)

    def code_of(self, reader_id: str) -> int:
        """Give the code of a reader, for events."""
        return self._ledger.code_of(reader_id)

    def read_newest_notes(self, most: int) -> Notes:
        """Give the newest events that count, with readers, votes and slots of attributes."""
        return self._ledger.read_newest(most)

    def votes_since(self, at_ms: int) -> Floats:
        """Count the votes of events after a moment, as far as it is still known who gave them.

        Shapes:
            returns: float64 [n]
        """
        return self._ledger.votes_since(at_ms, len(self.catalog))

    def erase(self, reader_ids: Sequence[str]) -> None:
        """Take back what readers put into the counts, as far as it is still known."""
        self.asked.forget(reader_ids)
        for reader_id in reader_ids:
            slot = self._ledger.get_slot(reader_id)
            events, votes = self._ledger.take_back(reader_id)
            if slot >= 0:
                # the record of the user is deleted by a change of its own
                self._ledger.set_slot(reader_id, slot)
            if len(events):
                self._count(events, votes, -1)
                self._pair(events, 0, -1)
                self._votes.forget(int(events.readers[0]), events.rows.tolist())
                self.events += 1

    def _events(self, change: Change) -> Iterator[list[Event]]:
        items = orjson.loads(change.payload)
        self.asked.note(items, reader_of, written_ms(change.offset))
        for start in range(0, len(items), _EVENTS_A_STEP):
            yield read_items(
                items[start : start + _EVENTS_A_STEP],
                reader_code=self.code_of,
                row_of=self.catalog.row_for,
                latest_ms=written_ms(change.offset),
            )

    def _erasures(self, change: Change) -> Iterator[None]:
        readers = orjson.loads(change.payload)
        self.logged.erase(readers, written_ms(change.offset))
        for start in range(0, len(readers), _READERS_A_STEP):
            self.erase(readers[start : start + _READERS_A_STEP])
            yield

    def _count(self, events: Events, worth: Any, sign: int) -> None:
        self.counts.add(events.rows, worth * sign, events.at_ms)
        self.votes.add(events.rows, worth * sign)
        parents = self.catalog.parents[events.rows]
        has = parents >= 0
        if has.any():
            share = worth[has] * (sign * _PARENT_SHARE)
            self.counts.add(parents[has].astype(np.int64), share, events.at_ms[has])

    def _context(self, events: Events) -> Events:
        """Find what the readers of these events did just before, in the same session, as far as it can pair."""
        places: list[int] = []
        if len(self._ledger):
            buyers = set(events.readers[events.bought].tolist())
            readers, first = np.unique(events.readers, return_index=True)
            for reader, at_ms in zip(readers.tolist(), events.at_ms[first].tolist(), strict=True):
                places += self._ledger.tail(
                    reader, at_ms, _BASKET_TAIL if reader in buyers else _SEQUENCE_TAIL
                )
        return self._ledger.events(places)

    def _pair(self, events: Events, old: int, sign: int) -> None:
        self.together.add(sequence_pairs(events, old), sign)
        if events.bought.any():
            bought = events.pick(events.bought)
            self.baskets.add(basket_pairs(bought, int(np.count_nonzero(events.bought[:old]))), sign)


def _taken(waiting: list[Event]) -> Events:
    """Make events of what waits and leave nothing waiting."""
    events = Events.of(waiting)
    waiting.clear()
    return events
