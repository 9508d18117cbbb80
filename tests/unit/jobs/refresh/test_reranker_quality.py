"""On public sets with a simulated log, re-rankers are certainly better where clicks follow likings, else left out.

People look at places with a falling chance and click what they really took later, as in `tests.fakes.simulated_lists`.
Searches are for a word of what they took, as in `tests.fakes.simulated_searches`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.rerank import LearnedReranker, learn_reranker
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.recipe import parse_recipe
from tests.benchmarks import quality_sets as sets
from tests.fakes.simulated_lists import Likings, serve_lists
from tests.fakes.simulated_searches import serve_searches

pytestmark = [pytest.mark.data, pytest.mark.timeout(300), pytest.mark.slow]

RECIPE: dict[str, Any] = {
    "parts": {
        "rules": {
            "learner": "rules",
            "window": 20,
            "damping": 0.3,
            "back": 0.6,
            "half_life_days": 14.0,
            "fading": {"half_life_items": 20.0},
        },
        "item_knn": {"learner": "item_knn", "fading": {"half_life_items": 20.0}},
        "repeats": {"learner": "repeats"},
        "trend": {"learner": "popularity"},
    },
    "blend": {
        "weights": {"rules": 1.0, "item_knn": 0.5, "repeats": 0.3, "trend": 0.1},
        "weights_new": {"trend": 1.0},
    },
    "validation": {"seen": "allowed"},
    "reranker": {},
    "search_reranker": {},
}
SETS: dict[str, tuple[Callable[[], Interactions], float]] = {
    "online-retail-y1": (sets.online_retail, 3_600.0),
    "yoochoose-100k": (lambda: sets.yoochoose()[0], 0.0),  # a list beside each click of a session
}
SEARCH_SETS: dict[str, tuple[Callable[[], Interactions], Callable[[], dict[str, str]], float]] = {
    "online-retail-y1": (sets.online_retail, sets.titles, 3_600.0),
    "ml-latest-small": (sets.movielens_small, sets.films, 0.0),
}


def draw_evenly(products: Rows, _: float) -> Floats:
    """Like each product alike: places alone decide."""
    return np.full(len(products), 0.15)


def learn(folder: str, likings: Likings | None) -> LearnedReranker:
    """Serve lists in the second half of the time, and learn from them."""
    pytest.importorskip("lightgbm")
    require(folder)
    read, pause_s = SETS[folder]
    data, recipe = read(), parse_recipe(RECIPE)
    since_s = float(np.quantile(data.at_s, 0.5))
    engine = train_engine(recipe, data.pick(data.at_s < since_s))
    lists = serve_lists(engine, data, since_s, pause_s=pause_s, likings=likings)
    assert recipe.reranker is not None
    return learn_reranker(recipe, recipe.reranker, data, lists)


def require(folder: str) -> None:
    if not sets.has(folder):
        pytest.skip(f"public data set {folder} is not in {sets.data_folder()} (set KIOSK_TEST_DATA)")


def learn_searches(folder: str, likings: Likings | None) -> LearnedReranker:
    """Serve searches in the second half of the time, and learn from them."""
    pytest.importorskip("lightgbm")
    require(folder)
    read, titles, pause_s = SEARCH_SETS[folder]
    data, recipe = read(), parse_recipe(RECIPE)
    since_s = float(np.quantile(data.at_s, 0.5))
    engine = train_engine(recipe, data.pick(data.at_s < since_s))
    lists = serve_searches(engine, data, titles(), since_s, pause_s=pause_s, likings=likings, most=6_000)
    assert recipe.search_reranker is not None
    return learn_reranker(recipe, recipe.search_reranker, data, lists)


@pytest.mark.parametrize("folder", SETS)
def test_it_is_better_on_later_days(folder: str, record_property: Callable[[str, object], None]) -> None:
    learned = learn(folder, None)
    later, interactions = learned.facts["later_days"], learned.facts["interactions"]
    record_property("later_days", later)
    record_property("interactions", interactions)
    assert learned.reranker is not None
    assert later["low"] > 0
    assert interactions["low"] > 0


@pytest.mark.parametrize("folder", SETS)
def test_places_alone_teach_nothing(folder: str) -> None:
    learned = learn(folder, draw_evenly)
    assert learned.reranker is None
    assert learned.facts["later_days"]["low"] <= 0 <= learned.facts["later_days"]["high"]


@pytest.mark.parametrize("folder", SEARCH_SETS)
def test_searches_are_better_on_later_days(
    folder: str, record_property: Callable[[str, object], None]
) -> None:
    learned = learn_searches(folder, None)
    record_property("later_days", learned.facts["later_days"])
    assert learned.reranker is not None
    assert learned.facts["later_days"]["low"] > 0


@pytest.mark.parametrize("folder", SEARCH_SETS)
def test_places_of_searches_alone_teach_nothing(folder: str) -> None:
    learned = learn_searches(folder, draw_evenly)
    assert learned.reranker is None
    assert learned.facts["later_days"]["low"] <= 0 <= learned.facts["later_days"]["high"]
