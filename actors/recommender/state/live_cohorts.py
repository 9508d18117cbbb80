"""Popularity within cohorts of users with equal attributes, counted from the newest events, with or without training.

    shares(i) = (votes(i) + prior x base(i)) / (votes + prior)      the mean over the given attributes

`votes` are the votes of the cohort. `base` has the shares of all users, or those that the snapshot has for the cohort.
`estimate_prior` estimates the prior: the less a cohort differs from its base, the less its votes count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.cohorts import LEAST_USERS, CohortModel, estimate_prior, text_from_value
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.user_attributes import candidate_fields
from actors.recommender.state.user_contributions import ContributionArrays
from actors.recommender.state.vote_counts import DAY_MS
from actors.vectors.types import Floats, Rows

Ints = npt.NDArray[np.int64]
CohortValue = tuple[str, str]
"Field and value."

_MOST_EVENTS = 50_000
"Only the newest events are counted. Older events hardly change a share."
_HALF_LIFE_DAYS = 30.0
_EVENTS_PER_REFRESH = 2_000
"For each such number of events, the votes are counted one refresh interval later."
_LEAST_VOTE = 1e-100
"Votes below it are next to nothing, and their squares would be 0."
_MOST_FIELDS = 20
_LONGEST_VALUE = 512


@dataclass(frozen=True, slots=True)
class CohortVotes:
    """Decayed votes of users with attributes, one for each user and product.

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

    def get_overall_shares(self, count: int) -> Floats:
        """Return the shares that the first `count` rows have of all votes.

        Shapes:
            returns: float64 [count]
        """
        shares: Floats = np.zeros(count)
        counted = self.everybody[:count]
        shares[: len(counted)] = counted
        return shares


class LiveCohorts:
    """Votes of users with attributes, counted again after a change."""

    def __init__(self, overlay: Overlay, refresh_ms: int = 0) -> None:
        self._overlay = overlay
        self._refresh_ms = refresh_ms
        self._votes = _empty_votes()

    def __len__(self) -> int:
        """Return the number of users with attributes."""
        return len(self._overlay.users)

    def count_votes(self, now_ms: int) -> CohortVotes:
        """Return votes that are at most one refresh interval old. The interval grows with the number of votes.

        Cost:
            8 ms for 50,000 events, at most once in 5 s; nothing without new events
        """
        now = self._votes
        overlay = self._overlay
        versions = (overlay.events_version, len(overlay.catalog))
        refresh_ms = self._refresh_ms * (1 + len(now.votes) // _EVENTS_PER_REFRESH)
        # Also after the clock went back, or votes counted in the future would stay.
        if now.versions != versions and not 0 <= now_ms - now.counted_at_ms < refresh_ms:
            now = self._votes = _count_votes(
                overlay.read_newest_contributions(_MOST_EVENTS), versions, now_ms
            )
        return now

    def resolve_values(
        self, profile: Mapping[str, Any], learned: CohortModel | None
    ) -> tuple[CohortValue, ...]:
        """Return the values of a profile that a user or the snapshot has."""
        return tuple(sorted({value for _, value in self._resolve(profile, learned) if value is not None}))

    def list_unknown_values(
        self, profile: Mapping[str, Any], learned: CohortModel | None
    ) -> Iterator[tuple[str, str]]:
        """Yield each key of a profile that forms no cohort, and the reason."""
        for name, value in self._resolve(profile, learned):
            if value is None:
                yield name, self._explain_unknown(name, learned)

    def estimate_shares(
        self,
        values: tuple[CohortValue, ...],
        votes: CohortVotes,
        model: ServingModel | None,
        count: int,
    ) -> Floats | None:
        """Return the mean of the shares of the cohorts of these values; None if too few users have interactions.

        Shapes:
            returns: float64 [count]
        """
        estimates = [
            shares
            for field, text in values
            if (shares := self._estimate_value_shares(field, text, votes, model, count)) is not None
        ]
        # share(p) = mean over the known attributes of share_a(p) (equation 15)
        return np.mean(estimates, axis=0) if estimates else None

    def _estimate_value_shares(
        self, field: str, text: str, votes: CohortVotes, model: ServingModel | None, count: int
    ) -> Floats | None:
        learned = None if model is None else model.learned.cohorts
        row = -1 if learned is None else learned.find_row(field, text)
        if model is not None and learned is not None and row >= 0:
            of_value = self._select_votes(field, text, votes, model.learned_until_ms, count)
            expected = model.expand_to_rows(learned.shares[row], count)
            return (
                _estimate_blend(votes, of_value, expected, learned.get_mass(row))
                if len(of_value)
                else expected
            )
        of_value = self._select_votes(field, text, votes, 0, count)
        if not _has_enough_users(votes.slots[of_value]):
            return None
        return _estimate_blend(votes, of_value, votes.get_overall_shares(count), np.inf)

    def _select_votes(self, field: str, text: str, votes: CohortVotes, after_ms: int, count: int) -> Rows:
        value = self._overlay.users.find(field, text)
        if value is None:
            return np.zeros(0, np.int64)
        chosen = (votes.at_ms > after_ms) & (votes.rows < count)
        return np.flatnonzero(chosen & self._overlay.users.match_slots(votes.slots, value))

    def _resolve(
        self, profile: Mapping[str, Any], learned: CohortModel | None
    ) -> Iterator[tuple[str, CohortValue | None]]:
        for name, value in list(profile.items())[:_MOST_FIELDS]:
            resolved = None
            for field in candidate_fields(name):
                text = text_from_value(value, field)
                if text and len(text) <= _LONGEST_VALUE:
                    is_learned = learned is not None and learned.find_row(field, text) >= 0
                    if is_learned or self._overlay.users.find(field, text) is not None:
                        resolved = field, text
                        break
            yield name, resolved

    def _explain_unknown(self, name: str, learned: CohortModel | None) -> str:
        fields = candidate_fields(name)
        users = self._overlay.users
        if any(
            users.has_values(field) or (learned is not None and field in learned.fields) for field in fields
        ):
            return "no user has this value"
        return "no user has this attribute, or it has too many values"


def _has_enough_users(slots: Rows) -> bool:
    """Return whether the votes come from enough different users."""
    # Enough users are usually among the first votes: sorting all slots is the rare case.
    few = slots[: 50 * LEAST_USERS]
    return len(set(few.tolist())) >= LEAST_USERS or len(np.unique(slots)) >= LEAST_USERS


def _estimate_blend(votes: CohortVotes, chosen: Rows, expected: Floats, most_prior: float) -> Floats:
    cohort_votes = votes.votes[chosen]
    counts: Floats = np.bincount(votes.rows[chosen], cohort_votes, len(expected)).astype(np.float64)
    total = float(cohort_votes.sum())
    squares = float(cohort_votes @ cohort_votes)
    prior = min(estimate_prior(counts, squares, expected), most_prior)
    # decayed votes are less evidence: `whole` is the number of undecayed votes with the same evidence
    whole = total * total / squares
    # share_a = (N' / N votes_a + m base) / (N' + m), N' = N^2 / sum of squared votes (equation 15)
    shares: Floats = (counts * (whole / total) + prior * expected) / (whole + prior)
    return shares


def _count_votes(notes: ContributionArrays, versions: tuple[int, int], now_ms: int) -> CohortVotes:
    """Count at most one vote for each user and product. A vote halves every 30 days."""
    if not len(notes.row):
        return _empty_votes(versions, now_ms)
    # Both are below 2^31, so one integer holds the pair.
    key = notes.user << 31 | notes.row
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    last = order[np.append(first[1:], len(key)) - 1]
    # `reduceat` sums each run up to the next start, so `first` must be ascending, without empty runs.
    votes = np.minimum(np.add.reduceat(notes.votes[order], first), 1.0)
    at_ms = notes.at_ms[last]
    rows = notes.row[last]
    slots = notes.slot[last]
    # Relative to the newest vote: a common factor cancels in shares, and no clock is needed.
    votes *= np.exp2((at_ms - at_ms.max()) / (_HALF_LIFE_DAYS * DAY_MS))
    everybody = np.bincount(rows, votes)
    # Votes of users without attributes count in `everybody` alone.
    described = np.flatnonzero((slots >= 0) & (votes > _LEAST_VOTE))
    return CohortVotes(
        versions,
        now_ms,
        slots[described],
        rows[described],
        at_ms[described],
        votes[described],
        # The votes may add up to 0: the shares are then 0 and not NaN.
        everybody / max(float(everybody.sum()), 1e-12),
    )


def _empty_votes(versions: tuple[int, int] = (-1, -1), now_ms: int = 0) -> CohortVotes:
    none = np.zeros(0, np.int64)
    nothing = np.zeros(0)
    return CohortVotes(versions, now_ms, none, none, none, nothing, nothing)
