"""What users with equal attributes take, counted from the newest events: cohorts before any training, and after it.

    shares(i) = (own votes(i) + prior x base(i)) / (own votes + prior)      the mean over the given attributes

`base` is what everybody takes, or what the snapshot learned of the cohort; the prior is estimated from the votes
(`estimated_prior`): the less a cohort differs from its base, the less its own votes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.learned.cohorts import LEAST_USERS, Cohorts, estimated_prior, text_of_value
from actors.recommender.champion import Champion
from actors.recommender.ledger import Notes
from actors.recommender.overlay import Overlay
from actors.recommender.trending import DAY_MS
from actors.recommender.user_attributes import names_of
from actors.vectors.types import Floats, Rows

Ints = npt.NDArray[np.int64]
CohortValue = tuple[str, str]
"Field and value."

_MOST_EVENTS = 50_000
"The newest events are counted: of more, older ones hardly change a share."
_HALF_LIFE_DAYS = 30.0
_EVENTS_PER_REFRESH = 2_000
"For each so many events, votes are counted a refresh of the global signals later."
_MOST_FIELDS = 20
_LONGEST_VALUE = 512


@dataclass(frozen=True, slots=True)
class CohortVotes:
    """One vote per user and product, decayed; those of users with attributes.

    Shapes:
        slots, rows, at_ms: int64 [m]; votes: float64 [m]; everybody: float64 [rows], shares that sum to 1
    """

    versions: tuple[int, int]
    counted_at_ms: int
    slots: Rows
    rows: Rows
    at_ms: Ints
    votes: Floats
    everybody: Floats

    def shares_of_all(self, count: int) -> Floats:
        """Give everybody's shares of the first `count` rows."""
        shares: Floats = np.zeros(count)
        known = self.everybody[:count]
        shares[: len(known)] = known
        return shares


class LiveCohorts:
    """Votes of users with attributes, counted again when something changed."""

    def __init__(self, overlay: Overlay, refresh_ms: int = 0) -> None:
        self._overlay = overlay
        self._refresh_ms = refresh_ms
        self._votes = _no_votes()

    def __len__(self) -> int:
        """Count users with attributes."""
        return len(self._overlay.users)

    def at(self, now_ms: int) -> CohortVotes:
        """Give the votes, at most the refresh interval old, which grows with their number.

        Cost:
            8 ms for 50,000 events, once in 5 s while events come; else nothing
        """
        now = self._votes
        overlay = self._overlay
        versions = (overlay.events, len(overlay.catalog))
        refresh_ms = self._refresh_ms * (1 + len(now.votes) // _EVENTS_PER_REFRESH)
        if now.versions != versions and not 0 <= now_ms - now.counted_at_ms < refresh_ms:
            now = self._votes = _count(overlay.newest_notes(_MOST_EVENTS), versions, now_ms)
        return now

    def values_of(self, profile: Mapping[str, Any], learned: Cohorts | None) -> tuple[CohortValue, ...]:
        """List the values of a profile that some user has, or that the snapshot knows."""
        return tuple(sorted({value for _, value in self._found(profile, learned) if value is not None}))

    def unknown_values(
        self, profile: Mapping[str, Any], learned: Cohorts | None
    ) -> Iterator[tuple[str, str]]:
        """Name the keys of a profile that form no cohort, with the reason."""
        for name, value in self._found(profile, learned):
            if value is None:
                yield name, self._why_unknown(name, learned)

    def shares(
        self,
        values: tuple[CohortValue, ...],
        votes: CohortVotes,
        champion: Champion | None,
        count: int,
    ) -> Floats | None:
        """Estimate what users with all these values take; None when too few of them did anything.

        Shapes:
            returns: float64 [count]
        """
        found = [
            shares
            for field, text in values
            if (shares := self._shares_of(field, text, votes, champion, count)) is not None
        ]
        return np.mean(found, axis=0) if found else None

    def _shares_of(
        self, field: str, text: str, votes: CohortVotes, champion: Champion | None, count: int
    ) -> Floats | None:
        learned = None if champion is None else champion.learned.cohorts
        row = -1 if learned is None else learned.row_of(field, text)
        after_ms = 0
        if champion is not None and learned is not None and field in learned.fields and row >= 0:
            after_ms = champion.learned_until_ms
        of_value = self._of_value(field, text, votes, after_ms, count)
        if champion is not None and learned is not None and row >= 0:
            base = champion.by_row(learned.shares[row], count)
            return _blend(votes, of_value, base, learned.mass_of(row)) if len(of_value) else base
        if not _are_enough(votes.slots[of_value]):
            return None
        return _blend(votes, of_value, votes.shares_of_all(count), np.inf)

    def _of_value(self, field: str, text: str, votes: CohortVotes, after_ms: int, count: int) -> Rows:
        value = self._overlay.users.find(field, text)
        if value is None:
            return np.zeros(0, np.int64)
        chosen = (votes.at_ms > after_ms) & (votes.rows < count)
        return np.flatnonzero(chosen & self._overlay.users.having(votes.slots, value))

    def _found(
        self, profile: Mapping[str, Any], learned: Cohorts | None
    ) -> Iterator[tuple[str, CohortValue | None]]:
        for name, value in list(profile.items())[:_MOST_FIELDS]:
            text = text_of_value(value)
            found = None
            if text and len(text) <= _LONGEST_VALUE:
                for field in names_of(name):
                    is_learned = learned is not None and learned.row_of(field, text) >= 0
                    if is_learned or self._overlay.users.find(field, text) is not None:
                        found = field, text
                        break
            yield name, found

    def _why_unknown(self, name: str, learned: Cohorts | None) -> str:
        fields = names_of(name)
        users = self._overlay.users
        if any(users.knows(field) or (learned is not None and field in learned.fields) for field in fields):
            return "no user has this value"
        return "no user has this attribute, or it has too many values"


def _are_enough(slots: Rows) -> bool:
    """Check whether so many votes are of several users."""
    few = slots[: 50 * LEAST_USERS]
    return len(set(few.tolist())) >= LEAST_USERS or len(np.unique(slots)) >= LEAST_USERS


def _blend(votes: CohortVotes, chosen: Rows, base: Floats, most_prior: float) -> Floats:
    own = votes.votes[chosen]
    counts: Floats = np.bincount(votes.rows[chosen], own, len(base)).astype(np.float64)
    total, squares = float(own.sum()), float(own @ own)
    prior = min(estimated_prior(counts, squares, base), most_prior)
    # faded votes are worth fewer: so many whole ones say as much
    whole = total * total / squares
    shares: Floats = (counts * (whole / total) + prior * base) / (whole + prior)
    return shares


def _count(notes: Notes, versions: tuple[int, int], now_ms: int) -> CohortVotes:
    """Count one vote per reader and product, at most 1, halved every 30 days."""
    if not len(notes.row):
        return _no_votes(versions, now_ms)
    key = notes.reader << 31 | notes.row
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    last = order[np.append(first[1:], len(key)) - 1]
    votes = np.minimum(np.add.reduceat(notes.votes[order], first), 1.0)
    at_ms, rows, slots = notes.at_ms[last], notes.row[last], notes.slot[last]
    votes *= np.exp2((at_ms - at_ms.max()) / (_HALF_LIFE_DAYS * DAY_MS))
    everybody = np.bincount(rows, votes)
    described = np.flatnonzero((slots >= 0) & (votes > 0))
    return CohortVotes(
        versions,
        now_ms,
        slots[described],
        rows[described],
        at_ms[described],
        votes[described],
        everybody / max(float(everybody.sum()), 1e-12),
    )


def _no_votes(versions: tuple[int, int] = (-1, -1), now_ms: int = 0) -> CohortVotes:
    none, nothing = np.zeros(0, np.int64), np.zeros(0)
    return CohortVotes(versions, now_ms, none, none, none, nothing, nothing)
