"""Every learner of the house, and one as a data scientist would bring it, under the promises of all learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.als import AlsLearner, AlsRecipe
from jobs.refresh.learners.conformance import PROMISES, check_conformance
from jobs.refresh.learners.neighbours.baskets import BasketsLearner, BasketsRecipe
from jobs.refresh.learners.neighbours.content_knn import ContentKnnLearner, ContentKnnRecipe
from jobs.refresh.learners.neighbours.ease import EaseLearner, EaseRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe, SequentialRulesLearner
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe, Learner
from jobs.refresh.learners.registry import build_learner
from jobs.refresh.learners.repeat import RepeatLearner, RepeatsRecipe
from jobs.refresh.learners.session_knn import SessionKnnLearner, SessionKnnRecipe
from tests.suites.learners import LearnerSuite

DECAYED = {"half_life_days": 2.0, "fading": TimeDecay(half_life_items=3.0, half_life_days=2.0)}


class TestEase(LearnerSuite):
    @pytest.fixture(params=[{}, DECAYED, {"items": 12, "keep": 4}], ids=["plain", "decayed", "pruned"])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return EaseLearner(EaseRecipe(regularisation=1.0, **request.param))


class TestRules(LearnerSuite):
    @pytest.fixture(params=[{}, DECAYED, {"power": 0.5, "keep": 2, "gap_minutes": 3_000}])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return SequentialRulesLearner(RulesRecipe(**request.param))


class TestItemKnn(LearnerSuite):
    @pytest.fixture(params=[{}, DECAYED, {"neighbours": 1, "shrinkage": 0}])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return ItemKnnLearner(ItemKnnRecipe(**request.param))


class TestContentKnn(LearnerSuite):
    @pytest.fixture
    def learner(self) -> Learner:
        return ContentKnnLearner(ContentKnnRecipe(neighbours=4))


class TestSessionKnn(LearnerSuite):
    @pytest.fixture(params=[{}, {"sessions": 12, "longest": 3, "neighbours": 5}, {"gap_minutes": 3_000}])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return SessionKnnLearner(SessionKnnRecipe(**request.param))


class TestPopularity(LearnerSuite):
    @pytest.fixture(params=[{}, {"half_life_days": None}])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return PopularityLearner(PopularityRecipe(**request.param))


class TestRepeats(LearnerSuite):
    @pytest.fixture
    def learner(self) -> Learner:
        return RepeatLearner(RepeatsRecipe())


class TestBaskets(LearnerSuite):
    @pytest.fixture
    def learner(self) -> Learner:
        return BasketsLearner(BasketsRecipe())


class TestAls(LearnerSuite):
    @pytest.fixture(params=[{}, DECAYED])
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        return AlsLearner(AlsRecipe(factors=4, **request.param))


@dataclass(frozen=True)
class Follower:
    """A model of one's own: what came directly after the last item."""

    counts: np.ndarray

    def score(self, histories: UserHistories) -> Batch:
        scores = np.zeros((len(histories), histories.n_items), np.float32)
        for row in range(len(histories)):
            seen = [item for item in histories.items[slice(*histories.starts[row : row + 2])] if item >= 0]
            if seen:
                scores[row] = self.counts[seen[-1]]
        return scores

    def save(self) -> ModelState:
        return ModelState({"counts": self.counts}, {"made_by": "a data scientist"})


class Markov:
    """A learner of one's own, without a single import from the house but types."""

    def __init__(self, floor: float = 0.0) -> None:
        self.floor = floor

    def train(self, data: Interactions, rng: np.random.Generator) -> Follower:
        counts = np.full((data.n_items, data.n_items), self.floor, np.float32)
        same = data.reader[1:] == data.reader[:-1]
        np.add.at(counts, (data.item[:-1][same], data.item[1:][same]), 1)
        return Follower(counts)

    def load(self, parts: ModelState) -> Follower:
        return Follower(parts.array("counts"))


class TestCustomLearner(LearnerSuite):
    @pytest.fixture
    def learner(self, allow_learners: Callable[..., None]) -> Learner:
        allow_learners(f"{__name__}:Markov")
        return build_learner(CustomLearnerRecipe(learner=f"{__name__}:Markov", config={"floor": 0.0}))


class Careless(Markov):
    """Breaks what is easily broken."""

    def train(self, data: Interactions, rng: np.random.Generator) -> Follower:
        model = super().train(data, rng)
        data.weight[:] = 0
        return Follower(model.counts / np.float32(0) + np.random.default_rng().random())

    def load(self, parts: ModelState) -> Follower:
        raise RuntimeError("not today")


def test_a_learner_that_keeps_the_protocol_passes() -> None:
    checks = check_conformance(f"{__name__}:Markov", {"floor": 0.0})
    assert [check.promise for check in checks] == list(PROMISES)
    assert all(check.kept for check in checks), checks


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_learner_that_breaks_the_protocol_gets_the_place() -> None:
    broken = {
        check.promise: check.reason for check in check_conformance(f"{__name__}:Careless") if not check.kept
    }
    assert "different arrays" in broken[
        "equal data and seed give equal bytes, also from read-only input"
    ] or ("read-only" in broken["equal data and seed give equal bytes, also from read-only input"])
    assert "weight was changed" in broken["input is never changed"]
    assert "not today" in broken["a loaded model scores as the saved one, also from read-only arrays"]
    assert "NaN or infinite" in broken["scores are one fresh finite float32 row per history"]


def test_what_is_no_learner_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(Invalid, match=r"package\.module:Class"):
        check_conformance("no class")
    with pytest.raises(Invalid, match="can't be used"):
        check_conformance("no.such.module:Thing")
    with pytest.raises(Invalid, match="needs the methods train"):
        check_conformance("collections:OrderedDict")
