"""Choice of the validation split: by time, leave last out, or next item in the session."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import (
    EvaluationSplit,
    SeenItemPolicy,
    TrainingSplit,
    leave_last_out,
    split_by_time,
    split_last_sessions,
)
from jobs.refresh.data.unordered_baskets import ENDS_IN_BASKETS, shared_last_timestamp_share
from jobs.refresh.recipe import Recipe

PURCHASE = "checkout"

_ENOUGH_BUYERS = 0.1
"Minimum share of buyers among the active users."
_REPEATING = 0.2
"Share of repeats among the targets from which lists may repeat products."
_TIED = 0.05
"Share of events with the time of the user's previous event from which a clock is coarse."
_PRECEDED_SHARE = 0.05
"Minimum share of purchases with an earlier event of another type."
_SITTING_S = 6 * 3_600.0
"Upper bound of the length of one session."
_PAUSE_S = 1_800.0
"Longest pause within a session: a history that ended less than this before the instant goes on."
_MOST_USERS = 0.5
"Share of users whose only session is cut, above which a split by time is not realistic."
_ENOUGH_USERS = 200
"Least number of users with a history in a split by time, and of users with several purchases."
_FEWEST_USERS = 30
"Least number of users with a history in a split by time where users end in baskets."


def split_for_recipe(recipe: Recipe, data: Interactions) -> TrainingSplit:
    """Split data with the protocol of the recipe; `auto` chooses the protocol that suits the data."""
    validation = recipe.validation
    protocol = validation.protocol
    if protocol == "leave_last_out":
        return _leave_last_out(recipe, data)
    if protocol == "next_in_session":
        seen = "allowed" if validation.seen == "auto" else validation.seen
        pauses = validation.repeat_after_days
        return split_last_sessions(data, validation.share, seen=seen, kinds=validation.kinds, pauses=pauses)
    if protocol == "by_time":
        return _by_time(recipe, data)
    return _choose_protocol(recipe, data)


def _choose_protocol(recipe: Recipe, data: Interactions) -> TrainingSplit:
    """Return the split that asks what the engine serves, with the reason.

    In data of baskets the last item of a user is chance, so fewer users suffice for a split by time.
    """
    if not data.clock:
        return _with_reason(_leave_last_out(recipe, data), "the events have no times")
    share = shared_last_timestamp_share(data)
    has_baskets = share >= ENDS_IN_BASKETS
    try:
        split = _by_time(recipe, data)
    except Invalid as error:
        return _with_reason(_leave_last_out(recipe, data), error.message)
    # The validation decides, not the test: a run must not look at the test to choose its protocol.
    users = int(np.count_nonzero(split.validation[0].histories.lengths > 0))
    least = _FEWEST_USERS if has_baskets else _ENOUGH_USERS
    if users < least:
        reason = f"only {users:,} users with a history have later events; a split by time needs {least:,}"
        return _with_reason(_leave_last_out(recipe, data), reason)
    if cuts_single_sessions(split.validation[0]):
        reason = "most users have a single session, which a split by time would cut"
        return _with_reason(_leave_last_out(recipe, data), reason)
    baskets = f"{share:.0%} of the users end with several products at one instant, as in one basket"
    return _with_reason(
        split, baskets if has_baskets else f"{users:,} users with a history have later events"
    )


def _with_reason(split: TrainingSplit, reason: str) -> TrainingSplit:
    """Return a split with the reason for its protocol."""
    validation = tuple(replace(trial, reason=reason) for trial in split.validation)
    return TrainingSplit(validation, replace(split.test, reason=reason))


def _by_time(recipe: Recipe, data: Interactions) -> TrainingSplit:
    validation = recipe.validation
    split = partial(
        split_by_time, data, share=validation.share, kinds=validation.kinds, folds=validation.folds
    )
    pauses = validation.repeat_after_days
    if validation.seen != "auto":
        return split(seen=validation.seen, pauses=pauses)
    # Only a split that allows repeats can count them.
    repeated = split(seen="allowed")
    # Few targets repeat the history, so lists without its products lose little.
    if _repeat_share(repeated.validation[0]) < _REPEATING:
        return split(seen="out", pauses=pauses)
    return split(seen="allowed", pauses=pauses) if pauses else repeated


def _leave_last_out(recipe: Recipe, data: Interactions) -> TrainingSplit:
    """Return the split that leaves the last item out, or the last purchase if enough users buy after other events.

    A view or a cart event often precedes the purchase, so items of other event types remain valid targets.
    """
    validation = recipe.validation
    kinds = validation.kinds
    if not kinds and validation.seen in ("auto", "other_kinds"):
        kinds = _target_kinds(data)
    seen = validation.seen if validation.seen != "auto" else _choose_seen_policy(data, kinds)
    pauses = validation.repeat_after_days
    return leave_last_out(data, validation.folds, kinds=kinds, seen=seen, pauses=pauses)


def _target_kinds(data: Interactions) -> tuple[str, ...]:
    """Return the purchase types if enough users have several purchases and events of other types, else nothing."""
    liked = data.pick(data.weight > 0)
    bought = liked.of_kinds((PURCHASE,))
    if not len(bought) or len(bought) == len(liked):
        return ()
    # Row counts of each user: int [n_users + 1] of starts, so their differences are the lengths.
    several = np.count_nonzero(np.diff(bought.starts()) >= 2)
    active = np.count_nonzero(np.diff(liked.starts()) >= 3)
    # Purchases are what a shop wants to predict, if there are enough of them to judge by.
    return (PURCHASE,) if several >= max(_ENOUGH_USERS, _ENOUGH_BUYERS * active) else ()


def _choose_seen_policy(data: Interactions, kinds: tuple[str, ...]) -> SeenItemPolicy:
    """Choose which items of a history may be recommended, from the share of repeats in the targets."""
    if not kinds:
        return "out"
    every = leave_last_out(data, kinds=kinds, seen="allowed").validation[0]
    fresh = leave_last_out(data, kinds=kinds, seen="other_kinds").validation[0]
    # (targets - targets without repeats) / targets: the share of repeats.
    if len(fresh) <= (1 - _REPEATING) * len(every):
        return "allowed"
    return "other_kinds" if _repeat_share(fresh) >= _PRECEDED_SHARE else "out"


def cuts_single_sessions(trial: EvaluationSplit) -> bool:
    """Return true if the split instant is within the only session of most users.

    In such data all targets follow the history within seconds, while a live engine gets each event before the next
    request. Leave last out is then the realistic split, unless users repeat items: it excludes repeats.
    """
    with_history = select_users_with_history(trial)
    histories = with_history.histories
    if not len(with_history) or trial.seen == "allowed":
        return False
    # first, last: float [n_users], times of each history's ends; histories here have at least one event.
    first = histories.at_s[histories.starts[:-1]]
    last = histories.at_s[histories.starts[1:] - 1]
    # A history within one sitting that was still going on at the instant: its session is cut.
    short = (histories.now_s - first <= _SITTING_S) & (histories.now_s - last <= _PAUSE_S)
    return bool(short.mean() > _MOST_USERS)


def is_coarse_clock(data: Interactions) -> bool:
    """Return true if many events have the same time as the user's previous event but are not in one basket.

    A clock of seconds or days does not order such events; the log order may.
    """
    if not data.clock or len(data) < 2:
        return False
    # Rows are sorted by user and time, so a row with its predecessor's user is that user's next event.
    follows = data.reader[1:] == data.reader[:-1]
    ties = follows & (data.at_s[1:] == data.at_s[:-1]) & (data.basket[1:] != data.basket[:-1])
    # A share among events that have a predecessor, without dividing by 0.
    return bool(float(ties.mean()) > _TIED * float(follows.mean()))


def _repeat_share(trial: EvaluationSplit) -> float:
    """Return the share of targets that are in the history, over users with a history."""
    with_history = trial.pick(np.flatnonzero(trial.histories.lengths > 0))
    seen = with_history.histories.seen()
    owner = with_history.targets.owners()
    if not len(owner):
        return 0.0
    return float(np.asarray(seen[owner, with_history.targets.items]).mean())


def select_users_with_history(trial: EvaluationSplit) -> EvaluationSplit:
    """Return the split of the users with a history."""
    return trial.pick(np.flatnonzero(trial.histories.lengths > 0))
