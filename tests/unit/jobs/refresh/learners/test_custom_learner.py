"""A learner of an integrator: the example to copy holds, and failures are explained in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Invalid
from jobs.refresh.build.fit import train_engine
from jobs.refresh.cli import render_conformance
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.learners.conformance import ConformanceCheck, check_conformance
from jobs.refresh.learners.training_progress import keep_progress
from jobs.refresh.recipe import load_recipe_file, parse_recipe
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import split_for_recipe
from tests.unit.jobs.refresh.test_training import circles

EXAMPLES = Path(__file__).parents[5] / "docs" / "examples"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("my_learner", "two_towers"):
        sys.modules.pop(name, None)


def broken(learner: str) -> dict[str, ConformanceCheck]:
    return {check.promise: check for check in check_conformance(f"{__name__}:{learner}") if not check.kept}


def test_the_example_to_copy_keeps_every_promise(examples: None) -> None:
    checks = check_conformance("my_learner:NextItem", {"window": 2})
    assert [check.promise for check in checks if not check.kept] == []
    lines, fits = render_conformance(checks)
    assert fits
    assert lines[-1] == "13 of 13 promises are kept"


def test_the_example_trains_by_its_recipe_and_beats_popularity(
    examples: None, allow_learners: Callable[..., None]
) -> None:
    allow_learners("my_learner:NextItem")
    recipe, data = load_recipe_file(EXAMPLES / "my_recipe.toml"), circles()
    split = split_for_recipe(recipe, data)
    plan = make_plan(recipe, split.validation)
    assert isinstance(plan.recipe.blend.weights, dict)
    assert plan.recipe.blend.weights["next_item"] > 0
    checks = evaluate(train_engine(plan.recipe, split.test.train), split.test).figures["ndcg@10"].mean()
    assert checks > 0.5


class Notes:
    """Keeps the lines of progress; stores no state."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, text: str) -> None:
        self.lines.append(text)

    def load(self, name: str) -> ModelState | None:
        return None

    def store(self, name: str, state: ModelState) -> None:
        """Store nothing."""


def test_the_neural_example_keeps_every_promise(examples: None) -> None:
    checks = check_conformance("two_towers:TwoTowers", {"width": 8, "epochs": 20, "batch": 32})
    assert [(check.promise, check.reason) for check in checks if not check.kept] == []


def test_the_neural_example_learns_with_a_falling_loss_for_each_epoch(
    examples: None, allow_learners: Callable[..., None]
) -> None:
    allow_learners("two_towers:TwoTowers")
    blend = {"weights": {"towers": 1.0}, "weights_new": {"towers": 1.0}}
    towers = {"learner": "two_towers:TwoTowers", "config": {"width": 16, "epochs": 12}}
    recipe = parse_recipe({"name": "towers", "parts": {"towers": towers}, "blend": blend})
    split, notes = split_for_recipe(recipe, circles()), Notes()
    with keep_progress(notes):
        engine = train_engine(recipe, split.test.train)
    assert evaluate(engine, split.test).figures["ndcg@10"].mean() > 0.5
    losses = [float(line.rpartition(" ")[2]) for line in notes.lines if line.startswith("epoch ")]
    assert len(losses) == 12
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("from actors.learned.histories import Histories", "TimeDecay and apply_time_decay (were Histories"),
        (
            "from actors.learned.model import Batch, Parts",
            "import Batch from actors.models.model, ModelState",
        ),
        (
            "from jobs.refresh.events.dataset import Interactions",
            "import Interactions from jobs.refresh.data.dataset",
        ),
        ("from jobs.refresh.learner import Learner", "import Learner from jobs.refresh.learners.protocol"),
    ],
)
def test_an_import_of_a_moved_module_names_its_new_path(
    line: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "learner_of_an_old_release.py").write_text(line)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Invalid, match="the module has moved: ") as refused:
        check_conformance("learner_of_an_old_release:Old")
    assert remedy in str(refused.value)


class Popular:
    """A plain popularity model, as a data scientist writes it first."""

    def __init__(self, counts: np.ndarray | None = None) -> None:
        self.counts = counts

    def train(self, data: Any, rng: np.random.Generator) -> Popular:
        return Popular(np.bincount(data.item, minlength=data.n_items).astype(np.float32))

    def load(self, parts: ModelState) -> Popular:
        return Popular(parts.array("counts"))

    def score(self, histories: UserHistories) -> Any:
        return np.tile(self.counts, (len(histories), 1))

    def save(self) -> Any:
        return ModelState({"counts": self.counts})


class DictPopular(Popular):
    def train(self, data: Any, rng: np.random.Generator) -> Any:
        return DictPopular(super().train(data, rng).counts)

    def save(self) -> Any:
        return {"counts": self.counts}


class FlatPopular(Popular):
    def train(self, data: Any, rng: np.random.Generator) -> Any:
        return FlatPopular(super().train(data, rng).counts)

    def score(self, histories: UserHistories) -> Any:
        return self.counts


class NoModel(Popular):
    def train(self, data: Any, rng: np.random.Generator) -> Any:
        return np.bincount(data.item)


class Writes(Popular):
    def train(self, data: Any, rng: np.random.Generator) -> Any:
        data.weight[:] = 1
        return super().train(data, rng)


class Facts(Popular):
    def train(self, data: Any, rng: np.random.Generator) -> Any:
        return Facts(super().train(data, rng).counts)

    def save(self) -> Any:
        return ModelState({"counts": self.counts}, {"seen": {1, 2}})


def test_a_plain_popularity_model_passes_with_advice_only() -> None:
    checks = check_conformance(f"{__name__}:Popular")
    assert [check.promise for check in checks if check.forbids_use] == []
    lines, fits = render_conformance(checks)
    assert fits, "the exit code is 0"
    text = "\n".join(lines)
    assert "advice an empty history gets a row without preferences of its own" in text
    assert "should have common()" in text
    assert "advice users get what users like them took" in text
    assert lines[-1] == "only advice is left: it can be trained, published and served as it is"


def test_a_dict_from_save_has_a_clear_error() -> None:
    reasons = {check.reason for check in broken("DictPopular").values() if check.forbids_use}
    assert reasons == {
        "save() must return actors.vectors.snapshot_arrays.ModelState, got dict; "
        'write ModelState({"counts": array}, {"facts": "that fit JSON"})'
    }


@pytest.mark.parametrize(
    ("learner", "promise", "reason"),
    [
        ("FlatPopular", "scores are one fresh finite float32 row per history", "a row for each history"),
        ("NoModel", "input is never changed", "train(data, rng) must return a model with the methods"),
        (
            "Writes",
            "equal data and seed give equal bytes, also from read-only input",
            "copy an array before you change it",
        ),
        (
            "Facts",
            "what is saved is plain: arrays without objects, facts that fit JSON",
            "the facts of ModelState must fit JSON: Object of type set",
        ),
    ],
)
def test_failures_name_the_method_and_the_cure(learner: str, promise: str, reason: str) -> None:
    checks = broken(learner)[promise]
    assert reason in checks.reason
    assert checks.forbids_use
    lines, fits = render_conformance(list(broken(learner).values()))
    assert not fits
    assert "it can't be used yet" in lines[-1]
