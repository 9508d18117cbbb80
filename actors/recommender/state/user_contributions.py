"""Contributions of users to the counts, so that an erasure can undo them.

Users get codes. Flat arrays record every counted event and link the events of a user. They keep the newest events up to
a limit. Older events stay in the counts without a user, and decay.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from actors.recommender.state.compact_histories import hash_user
from actors.recommender.state.cooccurrence import SESSION_GAP_MS
from actors.recommender.state.events import EventArrays, Ints
from actors.vectors.types import Floats, ensure_capacity

_USER_BYTES = 220
"Estimated bytes of a user's id, code and last position in two dictionaries."

_FEW = 1_000
"Up to this number, codes are looked up one by one."

_ENTRY = np.dtype(
    [
        ("reader", np.int32),
        ("row", np.int32),
        ("at_ms", np.int64),
        ("weight", np.float32),
        ("votes", np.float64),
        ("kind", np.uint8),
        ("before", np.int32),
        ("slot", np.int32),
    ]
)
"""One event. `reader` is the code of the user, -1 after an erasure. `before` is the position of the user's previous
event, or -1. `slot` is the slot of the user's attributes, or -1."""


class ContributionArrays(NamedTuple):
    """Recorded events as columns.

    Shapes:
        user, row, at_ms, slot: int64 [m]; votes: float64 [m]
    """

    user: Ints
    row: Ints
    at_ms: Ints
    votes: Floats
    slot: Ints


class UserContributions:
    """Codes of users, and the contribution of each user to the counts."""

    def __init__(self, limit: int = 2_000_000) -> None:
        self._limit = limit
        self._codes: dict[str, int] = {}
        self._hashes = array("q")
        self._count = 0
        self._last: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        self._entries = np.zeros(0, _ENTRY)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes + len(self._codes) * _USER_BYTES + 8 * len(self._hashes)

    def get_code(self, user_key: str) -> int:
        """Return the code of a user, a new one for a new user. No code is used twice."""
        code = self._codes.get(user_key)
        if code is None:
            code = self._codes[user_key] = len(self._hashes)
            self._hashes.append(hash_user(user_key))
        return code

    def hash_users(self, codes: Ints) -> Ints:
        """Return the hashes of users (`hash_user`) by code; 0 for codes that `get_code` never returned.

        Shapes:
            codes: int64 [m]; returns: int64 [m]
        """
        # The way below copies the hashes of all users, which does not pay for a few codes.
        if len(codes) < _FEW:
            hashes = self._hashes
            return np.array([hashes[code] if code < len(hashes) else 0 for code in codes.tolist()], np.int64)
        # A copy: while numpy holds the buffer, `append` to the array raises BufferError.
        every = np.append(np.frombuffer(self._hashes, np.int64), 0)
        return every[np.minimum(codes, len(self._hashes))]

    def record(self, events: EventArrays, votes: Floats) -> None:
        """Record events and their votes.

        Shapes:
            votes: float64 [m], one for each event
        """
        start = self._count
        end = self._count + len(events)
        self._entries = ensure_capacity(self._entries, end)
        new = self._entries[start:end]
        new["reader"] = events.users
        new["row"] = events.rows
        new["at_ms"] = events.at_ms
        new["weight"] = events.weights
        new["votes"] = votes
        new["kind"] = events.kinds
        users = events.users.tolist()
        # Each event points to the one before of the same user: deleting a user needs no scan.
        new["before"] = self._link_events(start, users)
        new["slot"] = [self._slots.get(user, -1) for user in users] if self._slots else -1
        self._count = end
        if end > self._limit:
            self._drop_oldest()

    def get_attribute_slot(self, user_key: str) -> int:
        """Return the slot of a user's attributes; -1 when there is none."""
        return self._slots.get(self._codes.get(user_key, -1), -1)

    def set_attribute_slot(self, user_key: str, slot: int) -> None:
        """Set the slot of the attributes of a user and of all events of the user; -1 for none."""
        code = self.get_code(user_key)
        if slot < 0:
            self._slots.pop(code, None)
        else:
            self._slots[code] = slot
        at = self._last.get(code, -1)
        # A user without events and attributes leaves no code behind: `get_code` above may just have made
        # it.
        if at < 0 and slot < 0:
            del self._codes[user_key]
        while at >= 0:
            self._entries[at]["slot"] = slot
            at = int(self._entries[at]["before"])

    def read_newest(self, most: int) -> ContributionArrays:
        """Return the newest events that count, oldest first."""
        notes = self._entries[max(0, self._count - most) : self._count]
        alive = notes["reader"] >= 0
        user, row, at_ms, slot = (
            notes[name][alive].astype(np.int64) for name in ("reader", "row", "at_ms", "slot")
        )
        return ContributionArrays(user, row, at_ms, notes["votes"][alive], slot)

    def read_session_tail(self, user: int, now_ms: int, most: int) -> list[int]:
        """Return the positions of the user's last events in the running session, oldest first, at most `most`."""
        places: list[int] = []
        at = self._last.get(user, -1)
        while at >= 0 and len(places) < most:
            # `item` gives a plain tuple, which is faster to unpack than a record of numpy.
            _, _, at_ms, _, _, _, before, _ = self._entries.item(at)
            if now_ms - at_ms > SESSION_GAP_MS:
                break
            places.append(at)
            now_ms = at_ms
            at = before
        return places[::-1]

    def read_events(self, places: list[int]) -> EventArrays:
        """Return recorded events by position."""
        notes = self._entries[np.array(places, np.int64)]
        return EventArrays(
            notes["reader"].astype(np.int64),
            notes["row"].astype(np.int64),
            notes["at_ms"].copy(),
            notes["weight"].astype(np.float64),
            notes["kind"].copy(),
        )

    def count_votes_since(self, at_ms: int, count: int) -> Floats:
        """Return the sum of votes by row of recorded events after a time.

        Shapes:
            returns: float64 [count]
        """
        notes = self._entries[: self._count]
        # By the time of the event, not of its arrival.
        late = notes[(notes["at_ms"] > at_ms) & (notes["reader"] >= 0)]
        sums: Floats = np.bincount(late["row"], late["votes"], count)[:count].astype(np.float64)
        return sums

    def remove_user(self, user_key: str) -> tuple[EventArrays, Floats]:
        """Delete a user; return the recorded events of the user, oldest first, and their votes.

        Shapes:
            returns: events and float64 [m]
        """
        code = self._codes.pop(user_key, -1)
        self._slots.pop(code, None)
        at = self._last.pop(code, -1)
        places: list[int] = []
        while at >= 0:
            places.append(at)
            at = int(self._entries[at]["before"])
        places.reverse()
        taken = self.read_events(places)
        votes = self._entries["votes"][places]
        # Marked, not moved: other users' chains point to positions behind these.
        self._entries["reader"][places] = -1
        return taken, votes

    def _link_events(self, start: int, users: list[int]) -> list[int]:
        """Return the position of the previous event of the same user for every new event."""
        last = self._last
        before: list[int] = []
        for at, user in enumerate(users, start):
            before.append(last.get(user, -1))
            last[user] = at
        return before

    def _drop_oldest(self) -> None:
        """Keep the newer half. Users without a kept event and without attributes lose their code."""
        # Half at once, so the cost of a copy is spread over as many new events.
        keep = np.flatnonzero(self._entries["reader"][: self._count] >= 0)[-(self._limit // 2) :]
        kept = self.read_events(keep.tolist())
        votes = self._entries["votes"][keep]
        present = set(kept.users.tolist())
        slots = self._slots
        # The hashes of forgotten users stay: a code is a position among them, and is never used again.
        self._codes = {
            user_key: code for user_key, code in self._codes.items() if code in present or code in slots
        }
        self._count = 0
        self._last = {}
        self.record(kept, votes)
