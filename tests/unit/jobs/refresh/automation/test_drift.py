from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from jobs.refresh.automation.drift import Drift, find_drift
from jobs.refresh.automation.traffic_rates import HEAD, count_answers, count_popular

DAYS = 14


def draw_day(random: np.random.Generator, rate: float, lists: int = 2_000) -> dict[str, tuple[int, int]]:
    """Return a day whose click rate also differs from other days by chance, as real days do."""
    today = rate * random.normal(1.0, 0.08)
    return {"click rate": (int(random.binomial(lists, min(max(today, 0.0), 1.0))), lists)}


def test_days_that_differ_as_days_do_are_no_drift() -> None:
    random = np.random.default_rng(7)
    alarms = sum(
        find_drift(draw_day(random, 0.08), [draw_day(random, 0.08) for _ in range(DAYS)]) is not None  # type: ignore[misc]
        for _ in range(2_000)
    )
    assert alarms <= 6


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_a_click_rate_far_from_that_of_the_days_before_is_drift(rate: float) -> None:
    random = np.random.default_rng(8)
    drift = find_drift(draw_day(random, rate), [draw_day(random, 0.08) for _ in range(DAYS)])  # type: ignore[misc]
    assert drift is not None
    assert drift.signal == "click rate"
    assert drift.now == pytest.approx(rate, rel=0.5)
    assert drift.sentence.startswith("click rate changed from ")


def test_little_traffic_and_few_days_say_nothing() -> None:
    day = {"click rate": (80, 1_000)}
    assert find_drift({"click rate": (0, 299)}, [day] * DAYS) is None
    assert find_drift({"click rate": (0, 1_000)}, [day] * 4) is None
    assert find_drift({"click rate": (0, 1_000)}, [{"click rate": (9, 99)}] * DAYS) is None
    assert find_drift({"click rate": (0, 1_000)}, [day] * 5) == Drift("click rate", 0.08, 0.0)
    assert find_drift({"click rate": (65, 1_000)}, [day] * DAYS) is None  # certain, but too small to matter


def test_a_few_hits_after_days_without_any_are_no_drift() -> None:
    none = {"coverage": (0, 5_000)}
    assert find_drift({"coverage": (1, 5_000)}, [none] * DAYS) is None
    assert find_drift({"coverage": (10, 5_000)}, [none] * DAYS) is None
    assert find_drift({"coverage": (40, 5_000)}, [none] * DAYS) == Drift("coverage", 0.0, 0.008)


def test_a_window_does_not_choose_its_popular_products() -> None:
    rows = [(window, f"p{number}", 1) for window in range(1, 4) for number in range(HEAD)]
    rows += [(0, "p1", 3), (0, "new", 5), (2, "a flash sale", 1_000)]
    events = pl.DataFrame(rows, schema=["window", "product", "count"], orient="row")
    assert count_popular(events, 5)[1:] == [(99, 100), (100, 1_100), (99, 100), (0, 0)]
    assert count_popular(events, 5)[0][1] == 8


def test_answers_are_counted_with_their_clicks_and_places() -> None:
    answers = pl.DataFrame(
        {
            "service_id": ["a", "b", "c", "d"],
            "endpoint": ["search", "user_to_products", "ask_search", "search"],
            "start": [0, 0, 0, 10],
            "products": [[f"p{number}" for number in range(HEAD + 3)], ["p1", "p2"], ["p1"], ["p1"]],
        }
    )
    outcomes = pl.DataFrame(
        {"service_id": ["a", "a", "c", "b"], "type": ["click", "view", "click", "checkout"]}
    )
    assert count_answers(answers, outcomes) == (2, 1, HEAD + 5, 3)
