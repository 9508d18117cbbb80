"""On public sets with a simulated log, the re-ranker is certainly better where clicks follow likings, else left out.

People look at places with a falling chance and click what they really took later, as in `tests.fakes.simulated_lists`.
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
from tests.fakes.simulated_lists import LISTED, Likings, serve_lists

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
}
SETS: dict[str, tuple[Callable[[], Interactions], float]] = {
    "online-retail-y1": (sets.online_retail, 3_600.0),
    "yoochoose-100k": (lambda: sets.yoochoose()[0], 0.0),  # a list beside each click of a session
}


def draw_evenly(products: Rows, _: float) -> Floats:
    """Like each product alike: places alone decide."""
    return np.full(LISTED, 0.15)


def learn(folder: str, likings: Likings | None) -> LearnedReranker:
    """Serve lists in the second half of the time, and learn from them."""
    pytest.importorskip("lightgbm")
    if not sets.has(folder):
        pytest.skip(f"public data set {folder} is not in {sets.data_folder()} (set KIOSK_TEST_DATA)")
    read, pause_s = SETS[folder]
    data, recipe = read(), parse_recipe(RECIPE)
    since_s = float(np.quantile(data.at_s, 0.5))
    engine = train_engine(recipe, data.pick(data.at_s < since_s))
    lists = serve_lists(engine, data, since_s, pause_s=pause_s, likings=likings)
    return learn_reranker(recipe, data, lists)


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
