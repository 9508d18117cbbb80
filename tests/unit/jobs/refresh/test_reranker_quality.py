"""On public sets with a simulated log, re-rankers are certainly better where clicks follow likings, else left out.

People look at places with a falling chance and click what they really took later, as in `tests.fakes.simulated_lists`.
Searches are for a word of what they took, as in `tests.fakes.simulated_searches`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.reranker_training import LearnedReranker, learn_reranker
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.recipe import parse_recipe
from tests.benchmarks import quality_sets as sets
from tests.fakes.simulated_lists import Likings, ShownLists, show_lists
from tests.fakes.simulated_searches import ShownSearches, show_searches

pytestmark = [pytest.mark.data, pytest.mark.timeout(300), pytest.mark.slow]

RECIPE = parse_recipe(
    {
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
)


@dataclass(frozen=True)
class PublicSet:
    """How a set is read; a list is served before each event that follows a pause."""

    read: Callable[[], Interactions]
    pause_s: float
    read_titles: Callable[[], dict[str, str]] | None = None


@dataclass(frozen=True)
class Market:
    """A set with an engine that learned from the first half of its time, and what it showed in the second half."""

    public_set: PublicSet
    data: Interactions
    since_s: float
    engine: TrainedEngine

    @cached_property
    def lists(self) -> ShownLists:
        return show_lists(self.engine, self.data, self.since_s, pause_s=self.public_set.pause_s)

    @cached_property
    def searches(self) -> ShownSearches:
        assert self.public_set.read_titles is not None
        titles, pause_s = self.public_set.read_titles(), self.public_set.pause_s
        return show_searches(self.engine, self.data, titles, self.since_s, pause_s=pause_s, most=6_000)

    def learn_from_lists(self, likings: Likings | None) -> LearnedReranker:
        """Let people click lists, and learn from that."""
        assert RECIPE.reranker is not None
        return learn_reranker(RECIPE, RECIPE.reranker, self.data, self.lists.click(likings))

    def learn_from_searches(self, likings: Likings | None) -> LearnedReranker:
        """Let people click what searches gave, and learn from that."""
        assert RECIPE.search_reranker is not None
        return learn_reranker(RECIPE, RECIPE.search_reranker, self.data, self.searches.click(likings))


SETS = {
    "online-retail-y1": PublicSet(sets.online_retail, 3_600.0, sets.titles),
    "yoochoose-100k": PublicSet(lambda: sets.yoochoose()[0], 0.0),  # a list beside each click of a session
    "ml-latest-small": PublicSet(sets.movielens_small, 0.0, sets.films),
}
of_lists = pytest.mark.parametrize("market", ["online-retail-y1", "yoochoose-100k"], indirect=True)
of_searches = pytest.mark.parametrize("market", ["online-retail-y1", "ml-latest-small"], indirect=True)


@pytest.fixture(scope="module")
def market(request: pytest.FixtureRequest) -> Market:
    pytest.importorskip("lightgbm")
    folder: str = request.param
    if not sets.has(folder):
        pytest.skip(f"public data set {folder} is not in {sets.data_folder()} (set KIOSK_TEST_DATA)")
    data = SETS[folder].read()
    since_s = float(np.quantile(data.at_s, 0.5))
    return Market(SETS[folder], data, since_s, train_engine(RECIPE, data.pick(data.at_s < since_s)))


def draw_evenly(products: Rows, _: float) -> Floats:
    """Like each product alike: places alone decide."""
    return np.full(len(products), 0.15)


@of_lists
def test_it_is_better_on_later_days(market: Market, record_property: Callable[[str, object], None]) -> None:
    learned = market.learn_from_lists(None)
    later, interactions = learned.facts["later_days"], learned.facts["interactions"]
    record_property("later_days", later)
    record_property("interactions", interactions)
    assert learned.reranker is not None
    assert later["low"] > 0
    assert interactions["low"] > 0


@of_lists
def test_places_alone_teach_nothing(market: Market) -> None:
    learned = market.learn_from_lists(draw_evenly)
    assert learned.reranker is None
    assert learned.facts["later_days"]["low"] <= 0 <= learned.facts["later_days"]["high"]


@of_searches
def test_searches_are_better_on_later_days(
    market: Market, record_property: Callable[[str, object], None]
) -> None:
    learned = market.learn_from_searches(None)
    record_property("later_days", learned.facts["later_days"])
    assert learned.reranker is not None
    assert learned.facts["later_days"]["low"] > 0


@of_searches
def test_places_of_searches_alone_teach_nothing(market: Market) -> None:
    learned = market.learn_from_searches(draw_evenly)
    assert learned.reranker is None
    assert learned.facts["later_days"]["low"] <= 0 <= learned.facts["later_days"]["high"]
