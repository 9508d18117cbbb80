"""Splits of interactions into training data, histories and later targets.

    leave_last_out         the target is the last item of each user; for sequences without a clock
    split_by_time          the targets are all later items, with one instant for all users, as in production
    split_next_in_session  the target is each next item of the sessions after an instant

An `EvaluationSplit` holds all three: train on `train`, score `histories`, compare with `targets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from actors.models.user_histories import UserHistories
from actors.vectors.row_selection import distinct_pairs, distinct_values, expand_runs
from actors.vectors.types import Floats, Mask, Rows
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions

SeenItemPolicy = Literal["out", "other_kinds", "allowed", "paused"]
"""Items of a history that may be recommended.

out           none
other_kinds   those without an event of the target types
allowed       all
paused        those whose pause after each event has ended (`repeat_after_days`; a type without a pause never ends)
"""

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Targets:
    """Target items of `q` users.

    Shapes:
        starts: int64 [q + 1]; items: int64 [m], distinct within a user
    """

    starts: Rows
    items: Rows

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Rows:
        """Return the number of targets of each user.

        Shapes:
            returns: int64 [q]
        """
        return np.diff(self.starts)

    def owners(self) -> Rows:
        """Return the user of each target.

        Shapes:
            returns: int64 [m]
        """
        return np.repeat(np.arange(len(self)), self.lengths)

    def pick(self, which: Rows) -> Targets:
        """Return the targets of some users.

        Shapes:
            which: int64 [m], positions of users
        """
        lengths = self.lengths[which]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return Targets(starts, self.items[expand_runs(self.starts[which], lengths)])

    @classmethod
    def from_pairs(cls, owner: Rows, item: Rows, count: int) -> Targets:
        """Return the targets from pairs of user and item, without duplicates.

        Shapes:
            owner, item: int64 [m]
        """
        owners, items = distinct_pairs(owner, item)
        # the pairs are sorted by user, so this finds where the targets of each user begin
        starts = np.searchsorted(owners, np.arange(count + 1)).astype(np.int64)
        return cls(starts, items)


@dataclass(frozen=True, slots=True)
class EvaluationSplit:
    """Training data, and the histories and targets of the evaluated users."""

    name: str
    train: Interactions
    histories: UserHistories
    targets: Targets
    seen: SeenItemPolicy
    "Policy for items of the history; `out` excludes them from the lists and from the targets."
    kinds: tuple[str, ...] = ()
    "Event types of the targets; all if empty."
    taken: Targets | None = None
    "With `other_kinds` or pauses: the items of each user's history that lists exclude; only these are excluded."
    protocol: str = ""
    "by_time, leave_last_out or next_in_session."
    period_s: tuple[float, float] | None = None
    "Times of the first and the last target in seconds since 1970; None if the data has no times."
    reason: str = ""
    "Why this protocol was chosen; empty if the recipe names it."
    people: Rows | None = None
    """int64 [q], the person of each evaluated user, where a person is evaluated several times. Intervals and tests draw
    people, not their events."""

    def __len__(self) -> int:
        return len(self.targets)

    def pick(self, which: Rows) -> EvaluationSplit:
        """Return the split of some of its users.

        Shapes:
            which: int64 [m], positions of users
        """
        return replace(
            self,
            histories=self.histories.select(which),
            targets=self.targets.pick(which),
            taken=None if self.taken is None else self.taken.pick(which),
            people=None if self.people is None else self.people[which],
        )

    def excluded_items(self) -> Targets:
        """Return the items of each user that lists must not contain."""
        if self.taken is not None:
            return self.taken
        if self.seen == "allowed":
            return Targets(np.zeros(len(self) + 1, np.int64), np.zeros(0, np.int64))
        is_trained = self.histories.items >= 0
        return Targets.from_pairs(
            self.histories.owners()[is_trained], self.histories.items[is_trained], len(self)
        )

    def exclude_seen(self) -> EvaluationSplit:
        """Return the split in which lists and targets have no item of the history; users without targets are left out.

        The training data stays, so models of this split score the other one.
        """
        if self.seen == "out":
            return self
        owner = self.targets.owners()
        items = self.targets.items
        again = _contains_pairs(
            self.histories.owners(), self.histories.items, owner, items, self.histories.n_items
        )
        targets = Targets.from_pairs(owner[~again], items[~again], len(self))
        unseen = replace(self, targets=targets, seen="out", taken=None)
        return unseen.pick(np.flatnonzero(targets.lengths > 0))

    def sample(self, most: int, rng: np.random.Generator) -> EvaluationSplit:
        """Return a uniform sample of at most `most` users."""
        if len(self) <= most:
            return self
        return self.pick(np.sort(rng.choice(len(self), most, replace=False)))


@dataclass(frozen=True, slots=True)
class TrainingSplit:
    """Validation splits, the newest first, and a test split that is newer than all of them."""

    validation: tuple[EvaluationSplit, ...]
    test: EvaluationSplit


def leave_last_out(
    data: Interactions,
    folds: int = 1,
    *,
    kinds: tuple[str, ...] = (),
    seen: SeenItemPolicy = "out",
    pauses: Mapping[str, float] | None = None,
) -> TrainingSplit:
    """Return splits whose target is the last item of each user; validation splits take earlier items.

    With `kinds`, the target is the item of the last event of these types. Later events are dropped. The events of
    users without enough events for a target are training data. `pauses` are days by type of interaction after which
    an item of the history may be a target again; without times they have no effect.
    """
    liked = data.pick(data.weight > 0)
    rule = _SeenItemRule(seen, kinds, pauses or {})
    return TrainingSplit(
        validation=tuple(
            _leave_out_at("leave last out, validation", liked, fold + 2, 1, rule) for fold in range(folds)
        ),
        test=_leave_out_at("leave last out", liked, 1, 2, rule),
    )


def split_by_time(
    data: Interactions,
    *,
    share: float = 0.1,
    seen: SeenItemPolicy = "allowed",
    kinds: tuple[str, ...] = (),
    at_s: float | None = None,
    folds: int = 1,
    pauses: Mapping[str, float] | None = None,
) -> TrainingSplit:
    """Return splits at one instant for all users: the newest `share` is the test, earlier shares validate.

    `kinds` limits the targets, not the training data. `at_s` sets the instant of the test explicitly. `pauses` are days
    by type of interaction after which an item of the history may be a target again.

    Errors:
        Invalid: the data has no times, `share` is out of range, or one side of the instant is empty
    """
    if not data.clock:
        raise Invalid("a split by time needs times; this data has none, use leave-last-out")
    if not 0 < share < 0.5:
        raise Invalid(f"the share to ask for must be between 0 and 0.5, not {share}")
    if not len(data):
        raise Invalid("there are no events to split")
    instant = float(np.quantile(data.at_s, 1 - share)) if at_s is None else at_s
    instants = [instant]
    # The targets of a fold end where those of the newer split begin, so no target is used twice.
    for _ in range(folds):
        earlier = data.at_s[data.at_s <= instants[-1]]
        if not len(earlier) or len(earlier) == len(data):
            raise Invalid("all events lie on one side of the instant; there is nothing to compare")
        instants.append(float(np.quantile(earlier, 1 - share)))
    return TrainingSplit(
        validation=tuple(
            split_at(data, before, after, seen=seen, kinds=kinds, name="by time, validation", pauses=pauses)
            for after, before in pairwise(instants)
        ),
        test=split_at(data, instant, np.inf, seen=seen, kinds=kinds, name="by time", pauses=pauses),
    )


def split_at(
    data: Interactions,
    instant_s: float,
    until_s: float,
    *,
    seen: SeenItemPolicy,
    kinds: tuple[str, ...] = (),
    name: str = "by time",
    pauses: Mapping[str, float] | None = None,
) -> EvaluationSplit:
    """Return a split with the items between two instants as targets; new users have empty histories.

    `pauses` are days by type of interaction; an item whose pauses have ended at the first instant may be a target.
    """
    train = data.pick(data.at_s <= instant_s)
    after = data.pick((data.at_s > instant_s) & (data.at_s <= until_s) & (data.weight > 0)).of_kinds(kinds)
    # Ascending, as `searchsorted` needs in the next line.
    users = distinct_values(after.reader)
    owner = np.searchsorted(users, after.reader)
    item = after.item
    # One instant for all users, as in production: no history knows what others did afterwards.
    histories = UserHistories.of(train, users, instant_s)
    rule = _SeenItemRule(seen, kinds, pauses or {})
    taken = rule.select_taken(train, users, histories.now_s)
    if seen != "allowed" or taken is not None:
        old = (histories.owners(), histories.items) if taken is None else (taken.owners(), taken.items)
        # A list leaves these items out, so no list could have them as a hit.
        fresh = ~_contains_pairs(*old, owner, item, data.n_items)
        owner = owner[fresh]
        item = item[fresh]
    targets = Targets.from_pairs(owner, item, len(users))
    period_s = (float(after.at_s.min()), float(after.at_s.max())) if len(after) else None
    policy = rule.policy_for(train)
    trial = EvaluationSplit(name, train, histories, targets, policy, kinds, taken, "by_time", period_s)
    return trial.pick(np.flatnonzero(targets.lengths > 0))


def split_next_in_session(
    data: Interactions,
    instant_s: float,
    *,
    seen: SeenItemPolicy = "allowed",
    kinds: tuple[str, ...] = (),
    name: str = "next in session",
    pauses: Mapping[str, float] | None = None,
) -> EvaluationSplit:
    """Return a split whose target is each next item of the sessions after an instant; a user is one session.

    A target has an event with a positive weight, of `kinds` if there are any. Items that are not in the training data
    are no targets. `pauses` are days by type of interaction within which an item of the session is no target again. A
    session with several targets is evaluated as often, as one of `people`.
    """
    bounds = data.starts()
    # A session without events has no first row. Its index is clamped only to be valid, and is not used.
    begins = np.where(np.diff(bounds) > 0, data.at_s[np.minimum(bounds[:-1], len(data) - 1)], np.inf)
    # Sessions stay whole: one that began before the instant is training data to its end.
    tested = begins > instant_s
    rows_tested = tested[data.reader]
    train = data.pick(~rows_tested)
    test = data.pick(rows_tested)
    is_trained = np.zeros(data.n_items, np.bool_)
    is_trained[train.item] = True
    # No model can name an item that it never saw; such targets would only lower all figures alike.
    test = test.pick(is_trained[test.item])
    first = np.ones(len(test), np.bool_)
    first[1:] = test.reader[1:] != test.reader[:-1]
    # Shape [m]: the first event of the session of each event.
    begin = np.flatnonzero(first)[np.cumsum(first) - 1]
    # A dislike or a refund is part of the history, but no list should be rewarded for its item.
    positions = np.flatnonzero(~first & (test.weight > 0) & test.mark_kinds(kinds))
    # Each such event but the first is a target once, and all events before it are its history.
    lengths = positions - begin[positions]
    rows = expand_runs(begin[positions], lengths)
    histories = UserHistories(
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        items=test.item[rows],
        at_s=test.at_s[rows],
        weights=test.weight[rows],
        now_s=test.at_s[positions],
        n_items=data.n_items,
    )
    targets = Targets(np.arange(len(positions) + 1, dtype=np.int64), test.item[positions])
    at_s = histories.now_s
    owners = histories.owners()
    rule = _SeenItemRule(seen, kinds, pauses or {})
    pauses_s = rule.list_pauses_s(data)
    taken = None
    if pauses_s is not None:
        counts = histories.at_s > histories.now_s[owners] - pauses_s[test.kind[rows]]
        taken = Targets.from_pairs(owners[counts], histories.items[counts], len(targets))
    trial = EvaluationSplit(
        name,
        train,
        histories,
        targets,
        rule.policy_for(data),
        kinds,
        taken,
        protocol="next_in_session",
        period_s=(float(at_s.min()), float(at_s.max())) if len(at_s) else None,
        people=test.reader[positions],
    )
    return trial if trial.seen == "allowed" and taken is None else _drop_hidden_targets(trial)


def split_last_sessions(
    data: Interactions,
    share: float = 0.1,
    *,
    seen: SeenItemPolicy = "allowed",
    kinds: tuple[str, ...] = (),
    pauses: Mapping[str, float] | None = None,
) -> TrainingSplit:
    """Return splits whose targets are the next items of the newest sessions; the sessions before them validate.

    Errors:
        Invalid: the data has no times, or no events
    """
    if not data.clock or not len(data):
        raise Invalid("sessions are split by time; this data has none")
    split = partial(split_next_in_session, seen=seen, kinds=kinds, pauses=pauses)
    test = split(data, float(np.quantile(data.at_s, 1 - share)))
    before = float(np.quantile(test.train.at_s, 1 - share))
    validation = split(test.train, before, name="next in session, validation")
    return TrainingSplit((validation,), test)


@dataclass(frozen=True, slots=True)
class _SeenItemRule:
    """Which items of a history lists exclude."""

    seen: SeenItemPolicy
    kinds: tuple[str, ...]
    pauses: Mapping[str, float]
    "Days by type of interaction; `*` is any other type."

    def policy_for(self, data: Interactions) -> SeenItemPolicy:
        """Return the policy that a split of the data has."""
        if self.seen == "out" and self.pauses and data.clock:
            return "paused"
        return self.seen

    def select_taken(self, data: Interactions, users: Rows, now_s: Floats) -> Targets | None:
        """Return the excluded items of the users; None if all or no items of the history are excluded.

        Shapes:
            users: int64 [q], ascending; now_s: float64 [q], when each list is made
        """
        kind_pauses_s = self.list_pauses_s(data)
        if kind_pauses_s is None:
            return None
        pauses_s = kind_pauses_s[data.kind]
        # Users who are not tested land on another one; the next line compares and drops them.
        places = np.minimum(np.searchsorted(users, data.reader), max(len(users) - 1, 0))
        counts = users[places] == data.reader if len(users) else np.zeros(len(data), np.bool_)
        if counts.any():
            counts &= data.at_s > now_s[places] - pauses_s
        return Targets.from_pairs(places[counts], data.item[counts], len(users))

    def list_pauses_s(self, data: Interactions) -> Floats | None:
        """Return how long each type of event of the data excludes its items; None if all or no items are excluded.

        Shapes:
            returns: float64 [kinds]
        """
        has_pauses = bool(self.pauses) and data.clock
        return (
            self._pause_seconds(data.kinds, has_pauses) if has_pauses or self.seen == "other_kinds" else None
        )

    def _pause_seconds(self, kinds: tuple[str, ...], has_pauses: bool) -> Floats:
        """Return how long each type of event excludes its items: infinity for ever, minus infinity never.

        Shapes:
            returns: float64 [kinds]
        """
        never_ends = {"out": kinds, "paused": kinds, "other_kinds": self.kinds or kinds}.get(self.seen, ())
        pauses = self.pauses if has_pauses else {}
        usual = {kind: np.inf if kind in never_ends else -np.inf for kind in kinds}
        if "*" in pauses:
            usual = dict.fromkeys(kinds, pauses["*"] * _DAY_S)
        return np.array([pauses[kind] * _DAY_S if kind in pauses else usual[kind] for kind in kinds])


def _leave_out_at(
    name: str, data: Interactions, place: int, least_before: int, rule: _SeenItemRule
) -> EvaluationSplit:
    """Return the split whose target is the item at a position from the end; later events are dropped."""
    is_target = data.mark_kinds(rule.kinds)
    bounds = data.starts()
    # Prefix sums: the number of target events between two positions is a difference of two entries.
    counted = np.concatenate(([0], np.cumsum(is_target)))
    # number of events of `kinds` from this event on, including it
    from_end = counted[bounds[1:]][data.reader] - counted[:-1]
    before = np.arange(len(data)) - bounds[data.reader]
    targets = np.flatnonzero(is_target & (from_end == place) & (before >= least_before))
    users = data.reader[targets]
    is_tested = np.zeros(data.n_readers, np.bool_)
    is_tested[users] = True
    # A user who is not tested keeps the event that would have been the target.
    remaining = np.where(is_tested[data.reader], place, place - 1)
    train = data.pick(np.where(is_target, from_end > remaining, from_end >= remaining))
    histories = UserHistories.of(train, users)
    count = len(users)
    at_s = data.at_s[targets]
    trial = EvaluationSplit(
        name,
        train,
        histories,
        Targets(np.arange(count + 1), data.item[targets]),
        rule.policy_for(data),
        rule.kinds,
        rule.select_taken(train, users, at_s),
        protocol="leave_last_out",
        period_s=(float(at_s.min()), float(at_s.max())) if data.clock and count else None,
    )
    return trial if trial.seen == "allowed" and trial.taken is None else _drop_hidden_targets(trial)


def _drop_hidden_targets(trial: EvaluationSplit) -> EvaluationSplit:
    """Return the split without users whose single target is an excluded item of their history."""
    hidden = trial.excluded_items()
    users = np.arange(len(trial))
    again = _contains_pairs(
        hidden.owners(), hidden.items, users, trial.targets.items, trial.histories.n_items
    )
    return trial.pick(np.flatnonzero(~again))


def _contains_pairs(owners: Rows, items: Rows, owner: Rows, item: Rows, n_items: int) -> Mask:
    """Mark the pairs of `owner` and `item` that occur in `owners` and `items`."""
    # One more than the items: the item -1 (unknown) then has no key of another pair.
    width = n_items + 1
    keys = distinct_values(owners * width + items)
    sought = owner * width + item
    if not len(keys):
        return np.zeros(len(sought), np.bool_)
    is_contained: Mask = keys[np.minimum(np.searchsorted(keys, sought), len(keys) - 1)] == sought
    return is_contained
