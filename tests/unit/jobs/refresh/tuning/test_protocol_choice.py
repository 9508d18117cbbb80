"""The protocol that `auto` chooses: by time where users end in baskets, with its reason, dates and what is relevant."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import polars as pl
import pytest

from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.evaluation.reports import describe_split, markdown_from_reports, protocol_note
from jobs.refresh.recipe import Recipe, load_recipe_file, parse_recipe
from jobs.refresh.runs.plan_evaluation import evaluate_plan, plan_training, split_data
from jobs.refresh.tuning.split_selection import split_for_recipe
from tests.benchmarks import quality_sets as sets

BEGIN_S = 1_600_000_000.0
DAY_S = 86_400.0


def small_recipe() -> Recipe:
    return parse_recipe(
        {
            "parts": {"trend": {"learner": "popularity"}, "repeats": {"learner": "repeats"}},
            "blend": {"start": {"trend": 1.0}},
        }
    )


def orders(users: int, *, at_once: bool, days: float = 30) -> Interactions:
    """Make users with six orders of three products; `at_once`: the lines of an order have one time."""
    rng = np.random.default_rng(3)
    rows = [
        (
            f"u{user}", f"p{rng.integers(40)}",
            BEGIN_S + (order * days + user % 30) * DAY_S + (0 if at_once else line * 60),
        )
        for user in range(users) for order in range(6) for line in range(3)
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=["reader", "item", "at"], orient="row")
    return interactions_from_frame(
        table.with_columns(pl.from_epoch(pl.col("at").cast(pl.Int64), time_unit="s")), FrameColumns()
    )


@pytest.mark.parametrize("at_once", [True, False])
def test_fewer_users_suffice_for_a_split_by_time_where_they_end_in_baskets(at_once: bool) -> None:
    data = orders(120, at_once=at_once)
    split = split_for_recipe(small_recipe(), data)
    assert split.test.protocol == ("by_time" if at_once else "leave_last_out")
    assert {trial.protocol for trial in split.validation} == {split.test.protocol}
    if at_once:
        assert "100% of the users end with several products at one instant" in split.test.reason
        assert protocol_note(split.test.protocol, data) == ""
    else:
        assert split.test.reason.endswith("a split by time needs 200")


def test_too_few_users_are_still_validated_by_their_last_product_and_the_reason_is_given() -> None:
    split = split_for_recipe(small_recipe(), orders(20, at_once=True))
    assert split.test.protocol == "leave_last_out"
    assert split.test.reason.endswith("have later events; a split by time needs 30")


def test_the_head_of_a_report_has_protocol_dates_and_what_is_relevant() -> None:
    recipe, data = small_recipe(), orders(120, at_once=True)
    split = split_data(recipe, data)
    plan = plan_training(recipe, data, split)
    report = evaluate_plan(plan, split.test)
    facts = report.split
    assert split.test.period_s is not None
    days = [datetime.fromtimestamp(at_s, timezone.utc).date().isoformat() for at_s in split.test.period_s]
    assert [facts["from"][:10], facts["until"][:10]] == days
    assert facts["protocol"] == "by_time"
    assert f"from {days[0]} to {days[1]}" in facts["sentence"]
    assert "every product that the user takes after the split is relevant" in facts["sentence"]
    text = markdown_from_reports([report.model_copy(update={"protocol": "auto"})], "shop/default")
    assert text.splitlines()[4] == facts["sentence"]
    assert text.index(facts["sentence"]) < text.index("| users |")


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("leave_last_out", "only the last product of each user is relevant"),
        ("next_in_session", "only the next product of the session is relevant"),
    ],
)
def test_every_protocol_has_what_is_relevant(protocol: str, words: str) -> None:
    split = split_data(small_recipe(), orders(60, at_once=False, days=0.1), protocol)
    facts = describe_split(split.test)
    assert words in facts["sentence"]
    assert facts["from"] is not None
    assert facts["reason"] == "", "nothing was chosen"


def test_a_recipe_limits_types_and_repeats_of_sessions() -> None:
    data = orders(60, at_once=False, days=0.1)
    validation = {"protocol": "next_in_session", "seen": "out", "kinds": data.kinds}
    recipe = parse_recipe({**small_recipe().model_dump(mode="json"), "validation": validation})
    split = split_for_recipe(recipe, data)
    for trial in (split.test, *split.validation):
        assert (trial.seen, trial.kinds) == ("out", data.kinds)


def test_data_without_times_has_no_dates() -> None:
    table = pl.DataFrame({"reader": ["a"] * 9 + ["b"] * 9, "item": [str(at) for at in range(18)]})
    split = split_data(small_recipe(), interactions_from_frame(table, FrameColumns(at=None)))
    facts = describe_split(split.test)
    assert (facts["from"], facts["protocol"]) == (None, "leave_last_out")
    assert "the events have no times" in facts["reason"]


def test_a_shop_with_few_customers_is_validated_by_time_and_keeps_repeat_purchases() -> None:
    if not sets.has("online-retail-y1"):
        pytest.skip(f"public data set online-retail-y1 is not in {sets.data_folder()} (set KIOSK_TEST_DATA)")
    data = sets.online_retail()
    few = np.arange(data.n_readers) % 5 == 0
    recipe = load_recipe_file("shop")
    split = split_for_recipe(recipe, data.pick(few[data.reader]))
    assert split.test.protocol == "by_time"
    assert split.test.seen == "allowed", "customers of this shop buy the same products again"
    assert split.test.period_s is not None
    assert facts_day(split.test.period_s[1]) == "2010-12-09"


def facts_day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, timezone.utc).date().isoformat()
