"""Cuts data into what may be learned and what is asked afterwards: never a glimpse of the future.

    leave_last_out   the last item of every reader is asked for; for sequences without a clock
    by_time          one instant for everybody: what a service really faces
    next_in_session  every next item of the sessions after an instant
    rest_of_basket   one line of a basket is given, the others are asked for

A `Trial` is complete in itself: train on `train`, score `histories`, compare with `targets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from actors.models.user_histories import Histories, spread
from actors.vectors.types import Mask, Rows
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions

Seen = Literal["out", "other_kinds", "allowed"]
"""Which items of a history may be answered: none, those that events of other kinds than the target's led to, or all."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What each of `q` readers really took.

    Shapes:
        starts: int64 [q + 1]; items: int64 [m], distinct within a reader
    """

    starts: Rows
    items: Rows

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Rows:
        """Number of targets of each reader."""
        return np.diff(self.starts)

    def owners(self) -> Rows:
        """Say whose target each one is.

        Shapes:
            returns: int64 [m]
        """
        return np.repeat(np.arange(len(self)), self.lengths)

    def pick(self, which: Rows) -> Targets:
        """Take the targets of some readers."""
        lengths = self.lengths[which]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return Targets(starts, self.items[spread(self.starts[which], lengths)])

    @classmethod
    def of_pairs(cls, owner: Rows, item: Rows, count: int) -> Targets:
        """Group pairs of reader and item; a pair counts once.

        Shapes:
            owner, item: int64 [m]
        """
        pairs = np.unique(np.stack((owner, item)), axis=1) if len(owner) else np.zeros((2, 0), np.int64)
        starts = np.searchsorted(pairs[0], np.arange(count + 1)).astype(np.int64)
        return cls(starts, pairs[1].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Trial:
    """One examination."""

    name: str
    train: Interactions
    histories: Histories
    targets: Targets
    seen: Seen
    "May items of the history be answered? `out` hides them and does not ask for them."
    kinds: tuple[str, ...] = ()
    "Event types that are asked for; all when empty."
    taken: Targets | None = None
    "With `other_kinds`: what each reader took before by events of `kinds`; only that is hidden."

    def __len__(self) -> int:
        return len(self.targets)

    def pick(self, which: Rows) -> Trial:
        """Keep some of the readers who are asked about."""
        taken = None if self.taken is None else self.taken.pick(which)
        return replace(
            self, histories=self.histories.pick(which), targets=self.targets.pick(which), taken=taken
        )

    def hidden(self) -> Targets:
        """List the known items that may not be answered, by reader."""
        if self.seen == "other_kinds" and self.taken is not None:
            return self.taken
        if self.seen == "allowed":
            return Targets(np.zeros(len(self) + 1, np.int64), np.zeros(0, np.int64))
        known = self.histories.items >= 0
        return Targets.of_pairs(self.histories.owners()[known], self.histories.items[known], len(self))

    def sample(self, most: int, rng: np.random.Generator) -> Trial:
        """Keep at most so many readers, drawn evenly."""
        if len(self) <= most:
            return self
        return self.pick(np.sort(rng.choice(len(self), most, replace=False)))


@dataclass(frozen=True, slots=True)
class Split:
    """Trials to choose by, the newest first, and one to report, which is newer than all of them."""

    validation: tuple[Trial, ...]
    test: Trial


def leave_last_out(
    data: Interactions, folds: int = 1, *, kinds: tuple[str, ...] = (), seen: Seen = "out"
) -> Split:
    """Ask for the last item of every reader; for validation, for the one before it and so on.

    With `kinds`, the last item of an event of these kinds. What follows the event is known to nobody. Readers with
    fewer events than there are trials, and one, only train.
    """
    liked = data.pick(data.weight > 0)
    return Split(
        validation=tuple(
            _last_out("leave last out, validation", liked, fold + 2, 1, kinds, seen) for fold in range(folds)
        ),
        test=_last_out("leave last out", liked, 1, 2, kinds, seen),
    )


def by_time(
    data: Interactions,
    *,
    share: float = 0.1,
    seen: Seen = "allowed",
    kinds: tuple[str, ...] = (),
    at_s: float | None = None,
    folds: int = 1,
) -> Split:
    """Split everybody at one instant: the newest `share` of the events is asked for, the shares before validate.

    `kinds` limits what is asked for, never what is learned from. `at_s` sets the instant of the test instead.

    Errors:
        Invalid: without a clock there is no common instant, or one side of it is empty
    """
    if not data.clock:
        raise Invalid("a split by time needs times; this data has none, use leave-last-out")
    if not 0 < share < 0.5:
        raise Invalid(f"the share to ask for must be between 0 and 0.5, not {share}")
    if not len(data):
        raise Invalid("there are no events to split")
    instant = float(np.quantile(data.at_s, 1 - share)) if at_s is None else at_s
    instants = [instant]
    for _ in range(folds):
        earlier = data.at_s[data.at_s <= instants[-1]]
        if not len(earlier) or len(earlier) == len(data):
            raise Invalid("all events lie on one side of the instant; there is nothing to compare")
        instants.append(float(np.quantile(earlier, 1 - share)))
    return Split(
        validation=tuple(
            trial_at(data, before, after, seen=seen, kinds=kinds, name="by time, validation")
            for after, before in pairwise(instants)
        ),
        test=trial_at(data, instant, np.inf, seen=seen, kinds=kinds, name="by time"),
    )


def trial_at(
    data: Interactions,
    instant_s: float,
    until_s: float,
    *,
    seen: Seen,
    kinds: tuple[str, ...] = (),
    name: str = "by time",
) -> Trial:
    """Ask at one instant what readers take until another; those who came later have empty histories."""
    train = data.pick(data.at_s <= instant_s)
    after = data.pick((data.at_s > instant_s) & (data.at_s <= until_s) & (data.weight > 0)).of_kinds(kinds)
    readers = np.unique(after.reader)
    owner, item = np.searchsorted(readers, after.reader), after.item
    histories = Histories.of(train, readers, instant_s)
    taken = _taken(train, readers, kinds) if seen == "other_kinds" else None
    if seen != "allowed":
        old = (histories.owners(), histories.items) if taken is None else (taken.owners(), taken.items)
        fresh = ~_contained(*old, owner, item, data.n_items)
        owner, item = owner[fresh], item[fresh]
    targets = Targets.of_pairs(owner, item, len(readers))
    trial = Trial(name, train, histories, targets, seen, kinds, taken)
    return trial.pick(np.flatnonzero(targets.lengths > 0))


def next_in_session(data: Interactions, instant_s: float, *, name: str = "next in session") -> Trial:
    """Ask for every next item of the sessions that begin after an instant; a reader is one session.

    Items that training never saw are not asked for.
    """
    bounds = data.starts()
    begins = np.where(np.diff(bounds) > 0, data.at_s[np.minimum(bounds[:-1], len(data) - 1)], np.inf)
    tested = begins > instant_s
    rows_tested = tested[data.reader]
    train, test = data.pick(~rows_tested), data.pick(rows_tested)
    known = np.zeros(data.n_items, np.bool_)
    known[train.item] = True
    test = test.pick(known[test.item])
    first = np.ones(len(test), np.bool_)
    first[1:] = test.reader[1:] != test.reader[:-1]
    begin = np.flatnonzero(first)[np.cumsum(first) - 1]
    asked = np.flatnonzero(~first)
    lengths = asked - begin[asked]
    rows = spread(begin[asked], lengths)
    histories = Histories(
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        items=test.item[rows],
        at_s=test.at_s[rows],
        weights=test.weight[rows],
        now_s=test.at_s[asked],
        n_items=data.n_items,
    )
    targets = Targets(np.arange(len(asked) + 1, dtype=np.int64), test.item[asked])
    return Trial(name, train, histories, targets, "allowed")


def last_day_sessions(data: Interactions, share: float = 0.1) -> Split:
    """Ask for every next item of the newest sessions; for validation, of those before them.

    Errors:
        Invalid: without a clock no session is the newest
    """
    if not data.clock or not len(data):
        raise Invalid("sessions are split by time; this data has none")
    test = next_in_session(data, float(np.quantile(data.at_s, 1 - share)))
    before = float(np.quantile(test.train.at_s, 1 - share))
    return Split((next_in_session(test.train, before, name="next in session, validation"),), test)


def rest_of_basket(data: Interactions, instant_s: float, rng: np.random.Generator) -> Trial:
    """Give one line of every later basket and ask for its other lines."""
    train = data.pick(data.at_s <= instant_s)
    after = data.pick(data.at_s > instant_s)
    known = np.zeros(data.n_items, np.bool_)
    known[train.item] = True
    after = after.pick(known[after.item])
    pairs = np.unique(np.stack((after.basket, after.item)), axis=1)
    baskets, owner, sizes = np.unique(pairs[0], return_inverse=True, return_counts=True)
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    given = starts + (rng.random(len(baskets)) * sizes).astype(np.int64)
    rest = np.ones(len(owner), np.bool_)
    rest[given] = False
    whole = Trial(
        "rest of basket",
        train,
        Histories.of_lists([[item] for item in pairs[1][given].tolist()], data.n_items),
        Targets.of_pairs(owner[rest], pairs[1][rest], len(baskets)),
        "out",
    )
    return whole.pick(np.flatnonzero(sizes > 1))


def _last_out(
    name: str, data: Interactions, place: int, least_before: int, kinds: tuple[str, ...], seen: Seen
) -> Trial:
    """Ask for the item at a place from the end; what comes after it is known to nobody."""
    is_target = _is_of_kinds(data, kinds)
    bounds = data.starts()
    counted = np.concatenate(([0], np.cumsum(is_target)))
    # events of `kinds` from this one on, itself included
    from_end = counted[bounds[1:]][data.reader] - counted[:-1]
    before = np.arange(len(data)) - bounds[data.reader]
    targets = np.flatnonzero(is_target & (from_end == place) & (before >= least_before))
    readers = data.reader[targets]
    asked = np.zeros(data.n_readers, np.bool_)
    asked[readers] = True
    remaining = np.where(asked[data.reader], place, place - 1)
    train = data.pick(np.where(is_target, from_end > remaining, from_end >= remaining))
    histories = Histories.of(train, readers)
    count = len(readers)
    trial = Trial(name, train, histories, Targets(np.arange(count + 1), data.item[targets]), seen, kinds)
    if seen == "other_kinds":
        trial = replace(trial, taken=_taken(train, readers, kinds))
    if seen == "allowed":
        return trial
    # a reader who took the item before can't be asked for it as something new
    hidden = trial.hidden()
    again = _contained(hidden.owners(), hidden.items, np.arange(count), trial.targets.items, data.n_items)
    return trial.pick(np.flatnonzero(~again))


def _is_of_kinds(data: Interactions, kinds: tuple[str, ...]) -> Mask:
    """Mark the events of some kinds; all when none is named."""
    if not kinds:
        return np.ones(len(data), np.bool_)
    wanted = [code for code, kind in enumerate(data.kinds) if kind in kinds]
    found: Mask = np.isin(data.kind, wanted)
    return found


def _taken(data: Interactions, readers: Rows, kinds: tuple[str, ...]) -> Targets:
    """List what readers took by events of some kinds.

    Shapes:
        readers: int64 [q], ascending
    """
    events = data.of_kinds(kinds)
    places = np.searchsorted(readers, events.reader)
    known = np.isin(events.reader, readers)
    return Targets.of_pairs(places[known], events.item[known], len(readers))


def _contained(owners: Rows, items: Rows, owner: Rows, item: Rows, n_items: int) -> Mask:
    """Say which pairs of owner and item occur among others."""
    width = n_items + 1
    found: Mask = np.isin(owner * width + item, np.unique(owners * width + items))
    return found
