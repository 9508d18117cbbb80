from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.errors import Invalid
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import (
    EvaluationSplit,
    leave_last_out,
    split_by_time,
    split_last_sessions,
    split_next_in_session,
)
from tests.fakes.basket_split import split_baskets


def data_of(rows: list[tuple[str, str, float]], **options: str) -> Interactions:
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item", "at"], orient="row"), FrameColumns(**options)
    )


def histories_and_targets(trial: EvaluationSplit) -> list[tuple[list[str], list[str]]]:
    """Name history and targets of every user of a trial."""
    names = trial.train.items.names.to_pylist()
    pairs = []
    for at in range(len(trial)):
        history = trial.histories.items[slice(*trial.histories.starts[at : at + 2])]
        targets = trial.targets.items[slice(*trial.targets.starts[at : at + 2])]
        pairs.append(([names[item] for item in history], sorted(names[item] for item in targets)))
    return pairs


def test_the_last_item_is_the_test_and_the_one_before_validates() -> None:
    data = data_of([("a", item, at) for at, item in enumerate("vwxyz")] + [("b", "v", 0), ("b", "w", 1)])
    split = leave_last_out(data, folds=2)
    assert histories_and_targets(split.test) == [(["v", "w", "x", "y"], ["z"])]
    assert [histories_and_targets(trial) for trial in split.validation] == [
        [(["v", "w", "x"], ["y"])],
        [(["v", "w"], ["x"])],
    ]


def test_what_comes_after_the_question_trains_nothing() -> None:
    data = data_of([(user, item, at) for user in "ab" for at, item in enumerate("vwxyz")])
    for place, trial in enumerate(
        (leave_last_out(data, 2).test, *leave_last_out(data, 2).validation), start=1
    ):
        for at, user in enumerate(np.unique(data.reader)):
            rows = trial.train.item[trial.train.reader == user]
            assert rows.tolist() == data.item[data.reader == user][:-place].tolist()
            assert trial.targets.items[at] == data.item[data.reader == user][-place]


def test_a_user_who_repeats_the_last_item_is_not_evaluated() -> None:
    data = data_of([("a", item, at) for at, item in enumerate("xyx")])
    assert len(leave_last_out(data).test) == 0


def test_one_instant_splits_everybody() -> None:
    rows = [
        ("a", "v", 1),
        ("a", "w", 2),
        ("b", "v", 3),
        ("b", "x", 9),
        ("c", "v", 10),
        ("a", "v", 11),
        ("a", "y", 12),
    ]
    trial = split_by_time(data_of(rows), at_s=8.0, seen="allowed").test
    assert trial.train.at_s.max() <= 8
    assert histories_and_targets(trial) == [(["v", "w"], ["v", "y"]), (["v"], ["x"]), ([], ["v"])]


def test_seen_items_are_not_targets_when_excluded() -> None:
    rows = [("a", "v", 1), ("b", "v", 2), ("a", "v", 11), ("a", "y", 12), ("b", "v", 13)]
    trial = split_by_time(data_of(rows), at_s=8.0, seen="out").test
    assert histories_and_targets(trial) == [(["v"], ["y"])]


def test_validation_trials_end_where_the_next_begins() -> None:
    rng = np.random.default_rng(2)
    data = data_of([(f"r{rng.integers(9)}", f"i{rng.integers(9)}", float(at)) for at in range(500)])
    split = split_by_time(data, share=0.2, folds=2, seen="allowed")
    ends = [trial.train.at_s.max() for trial in (split.test, *split.validation)]
    assert ends == sorted(ends, reverse=True)
    assert [len(trial.train) for trial in (split.test, *split.validation)] == [400, 320, 256]


def test_kinds_limit_the_targets_but_not_the_training_data() -> None:
    frame = pl.DataFrame(
        {
            "reader": ["a"] * 4,
            "item": list("vwxy"),
            "at": [1.0, 2.0, 11.0, 12.0],
            "kind": ["view", "buy", "view", "buy"],
        }
    )
    trial = split_by_time(
        interactions_from_frame(frame, FrameColumns(kind="kind")), at_s=8.0, kinds=("buy",)
    ).test
    assert histories_and_targets(trial) == [(["v", "w"], ["y"])]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_absurd_share_is_refused(share: float) -> None:
    with pytest.raises(Invalid, match="between 0 and"):
        split_by_time(data_of([("a", "x", 1), ("a", "y", 2)]), share=share)


def test_a_split_by_time_needs_times() -> None:
    data = interactions_from_frame(pl.DataFrame({"reader": ["a"], "item": ["x"]}), FrameColumns(at=None))
    with pytest.raises(Invalid, match="needs times"):
        split_by_time(data)


def test_events_of_one_moment_can_not_be_split() -> None:
    with pytest.raises(Invalid, match="one side"):
        split_by_time(data_of([("a", "x", 5), ("b", "y", 5)]))


def test_every_next_item_of_later_sessions_is_a_target() -> None:
    rows = [
        ("old", "x", 1),
        ("old", "y", 2),
        ("old", "z", 3),
        ("new", "x", 9),
        ("new", "?", 10),
        ("new", "y", 11),
    ]
    rows += [("new", "z", 12), ("late", "z", 20)]
    trial = split_next_in_session(data_of(rows), 5.0)
    assert histories_and_targets(trial) == [(["x"], ["y"]), (["x", "y"], ["z"])]
    assert {trial.train.readers.name(code) for code in trial.train.reader} == {"old"}


def test_targets_of_a_session_name_their_session() -> None:
    rows = [("old", item, at) for at, item in enumerate("xyz")]
    rows += [(session, item, 9.0 + at) for session in ("new", "next") for at, item in enumerate("xyz")]
    trial = split_next_in_session(data_of(rows), 5.0)
    assert trial.people is not None
    names = [trial.train.readers.name(code) for code in trial.people.tolist()]
    assert names == ["new", "new", "next", "next"]
    assert trial.pick(np.array([1, 2])).people.tolist() == trial.people[1:3].tolist()  # type: ignore[union-attr]


def test_a_session_recommends_again_only_after_the_pause() -> None:
    day = 86_400.0
    rows = [("old", item, at) for at, item in enumerate("xyz")]
    rows += [("new", item, day * at) for at, item in ((9, "x"), (10, "x"), (13, "x"), (14, "y"))]
    trial = split_next_in_session(data_of(rows), 5.0, pauses={"*": 2.0})
    assert histories_and_targets(trial) == [(["x", "x"], ["x"]), (["x", "x", "x"], ["y"])]
    hidden = trial.excluded_items()
    assert hidden.lengths.tolist() == [0, 1], "the third x is a day old when y is next"
    plain = split_next_in_session(data_of(rows), 5.0)
    assert (len(plain), plain.taken) == (3, None)


def session_of(*events: tuple[str, str, float]) -> Interactions:
    """Return the training session x, y, z and a later session of these items with their types and weights."""
    rows = [("old", item, float(at), "click", 1.0) for at, item in enumerate("xyz")]
    rows += [("new", item, 9.0 + at, kind, weight) for at, (item, kind, weight) in enumerate(events)]
    frame = pl.DataFrame(rows, ["reader", "item", "at", "kind", "weight"], orient="row")
    return interactions_from_frame(frame, FrameColumns(kind="kind", weight="weight"))


def test_what_a_session_dislikes_or_refunds_is_history_and_no_target() -> None:
    data = session_of(("x", "click", 1.0), ("y", "dislike", -1.0), ("z", "click", 1.0), ("z", "refund", 0.0))
    assert histories_and_targets(split_next_in_session(data, 5.0)) == [(["x", "y"], ["z"])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(["x"], ["y"]), (["x", "y"], ["x"]), (["x", "y", "x"], ["y"])]),
        ({"kinds": ("checkout",)}, [(["x"], ["y"]), (["x", "y", "x"], ["y"])]),
        ({"seen": "out"}, [(["x"], ["y"])]),
        ({"seen": "other_kinds", "kinds": ("checkout",)}, [(["x"], ["y"])]),
        ({"seen": "other_kinds", "kinds": ("click",)}, []),
    ],
)
def test_a_session_may_limit_types_and_repeats(options: Any, expected: list[Any]) -> None:
    data = session_of(
        ("x", "click", 1.0), ("y", "checkout", 1.0), ("x", "click", 1.0), ("y", "checkout", 1.0)
    )
    assert histories_and_targets(split_next_in_session(data, 5.0, **options)) == expected


def test_newest_sessions_are_split_off_for_test_and_validation() -> None:
    rows = [(f"s{at:03d}", item, at * 10.0 + step) for at in range(100) for step, item in enumerate("xyz")]
    split = split_last_sessions(data_of(rows), 0.1)
    assert split.validation[0].train.at_s.max() < split.test.train.at_s.max() < 1_000
    assert len(split.test) == 20


def test_one_line_of_a_basket_is_given_and_the_rest_are_targets() -> None:
    rows = [("a", item, 1.0, "p") for item in "xyz"]
    rows += [("b", "x", 9.0, "q"), ("b", "y", 9.0, "q"), ("b", "x", 9.0, "q"), ("c", "z", 9.0, "r")]
    frame = pl.DataFrame(rows, ["reader", "item", "at", "basket"], orient="row")
    trial = split_baskets(
        interactions_from_frame(frame, FrameColumns(basket="basket")), 5.0, np.random.default_rng(1)
    )
    [(given, rest)] = histories_and_targets(trial)
    assert sorted(given + rest) == ["x", "y"]


def test_sampling_keeps_readers_whole() -> None:
    data = data_of([(f"r{user}", f"i{at}", float(at)) for user in range(20) for at in range(4)])
    trial = leave_last_out(data).test
    sample = trial.sample(5, np.random.default_rng(1))
    assert len(sample) == 5
    assert sample.histories.lengths.tolist() == [3] * 5
    assert trial.sample(50, np.random.default_rng(1)) is trial
