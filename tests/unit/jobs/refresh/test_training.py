"""From a recipe to an engine, to a snapshot, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from actors.models.loading.snapshot import MANIFEST, Snapshot
from actors.models.loading.snapshot_models import load_snapshot_models
from actors.models.model import Batch
from actors.models.user_histories import DAY_S, UserHistories
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Conflict, Fault, Invalid
from jobs.refresh.build.fit import DataFacts, TrainedEngine, select_newest_events, train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import leave_last_out, split_by_time
from jobs.refresh.evaluation.evaluate import (
    bootstrap_interval,
    evaluate,
)
from jobs.refresh.evaluation.reports import report_comparison, report_evaluation
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.recipe import load_recipe_file as load_recipe
from jobs.refresh.runs.estimate import check_memory, estimate_costs, estimate_peak_memory
from jobs.refresh.runs.workload import DataSize
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import split_for_recipe
from jobs.refresh.tuning.variant_training import reduce_split
from tests.fakes.newest_plan import plan_on_newest


def circles(users: int = 300, items: int = 15, seed: int = 6) -> Interactions:
    """Make users who walk round a circle of items, one a day, beginning on different days; baskets of two."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        first, begins = int(rng.integers(items)), int(rng.integers(60))
        rows += [
            (
                f"r{user:03d}",
                f"i{(first + step) % items:02d}",
                DAY_S * (begins + step),
                f"{user}-{step // 2}",
            )
            for step in range(int(rng.integers(3, 12)))
        ]
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item", "at", "basket"], orient="row"), FrameColumns(basket="basket")
    )


def recipe_of(**fields: Any) -> Recipe:
    return parse_recipe(
        {
            "name": "small",
            "parts": {
                "rules": {
                    "learner": "rules",
                    "tune": {"window": [1], "fading": [{"half_life_items": 0.5}, {}]},
                },
                "ease": {"learner": "ease", "regularisation": 5.0},
                "trend": {"learner": "popularity"},
            },
            "blend": {"start": {"ease": 1.0, "trend": 1.0}},
            "baskets": {"kinds": []},
            **fields,
        }
    )


@pytest.fixture(scope="module")
def data() -> Interactions:
    return circles()


@pytest.fixture(scope="module")
def engine(data: Interactions) -> TrainedEngine:
    return _tune_and_train(recipe_of(), data)


def _tune_and_train(recipe: Recipe, data: Interactions) -> TrainedEngine:
    """Tune on the newest part of the data, then train on all of it."""
    data = select_newest_events(data, recipe.events.newest)
    return train_engine(plan_on_newest(recipe, data).recipe, data)


def _load_engine(snapshot: Snapshot) -> TrainedEngine:
    """Return the engine of an opened snapshot."""
    facts = snapshot.manifest.facts
    learned = load_snapshot_models(snapshot)
    return TrainedEngine(
        parse_recipe(facts["recipe"]),
        learned.blend,
        snapshot.items,
        DataFacts(**facts["data"]),
        learned.baskets,
        learned.cohorts,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- plan and fit ------------------------------------------------------------------------------------------------


def test_a_plan_answers_every_question_and_is_a_recipe_again(data: Interactions) -> None:
    steps: list[str] = []
    plan = plan_on_newest(recipe_of(), data, steps.append)
    assert plan.recipe.blend.weights != "auto"
    assert all(not part.tune for part in plan.recipe.parts.values())
    assert plan.figure >= max(plan.single.values()) - 1e-9
    assert plan.single["rules"] > plan.single["ease"] > 0
    assert parse_recipe(plan.recipe.model_dump(mode="json")) == plan.recipe
    assert steps[0] == "tune rules"
    assert steps[-1] == "choose weights"


def test_a_plan_beats_its_start_on_readers_it_never_saw(data: Interactions) -> None:
    split = split_by_time(data, seen="out")
    planned = train_engine(make_plan(recipe_of(), split.validation).recipe, split.test.train)
    started = train_engine(
        recipe_of(
            parts={"ease": {"learner": "ease", "regularisation": 5.0}, "trend": {"learner": "popularity"}},
            blend={"weights": {"ease": 1.0, "trend": 1.0}, "weights_new": {"trend": 1.0}},
        ),
        split.test.train,
    )
    rng = np.random.default_rng(0)
    compared = report_comparison(evaluate(started, split.test), evaluate(planned, split.test), "ndcg@10", rng)
    assert compared.low > 0


def test_readers_without_a_history_get_what_everybody_takes(
    engine: TrainedEngine, data: Interactions
) -> None:
    scores = engine.score(UserHistories.of(data, np.array([-1])))[0]
    counted = PopularityLearner(PopularityRecipe()).train(data, np.random.default_rng(0)).common()
    np.testing.assert_array_equal(np.argsort(-scores), np.argsort(-counted))


def test_open_questions_can_not_be_fitted(data: Interactions) -> None:
    with pytest.raises(Invalid, match="make a plan first"):
        train_engine(recipe_of(), data)


def test_parts_for_smaller_catalogs_are_left_out(data: Interactions) -> None:
    parts = {"ease": {"learner": "ease", "items_up_to": 3}, "trend": {"learner": "popularity"}}
    plan = plan_on_newest(recipe_of(parts=parts, blend={"start": {"ease": 1.0, "trend": 1.0}}), data)
    assert list(plan.recipe.parts) == ["trend"]
    only = recipe_of(parts={"ease": parts["ease"]}, blend={})
    with pytest.raises(Invalid, match="no part of recipe small is meant for 15 items"):
        plan_on_newest(only, data)


def test_too_little_data_has_a_clear_error() -> None:
    frame = pl.DataFrame({"reader": ["a", "b"], "item": ["x", "y"], "at": [1.0, 2.0]})
    with pytest.raises(Invalid, match="too little data"):
        plan_on_newest(recipe_of(), interactions_from_frame(frame))


def test_the_protocol_follows_the_data(data: Interactions) -> None:
    recipe = load_recipe("default")
    assert split_for_recipe(recipe, circles(3_000)).test.name == "by time"
    assert split_for_recipe(recipe, circles(30)).test.name == "leave last out"
    assert split_for_recipe(recipe, replace(data, clock=False)).test.name == "leave last out"
    with pytest.raises(Invalid, match="needs times"):
        split_for_recipe(recipe.with_changes({"validation.protocol": "by_time"}), replace(data, clock=False))


def test_repeats_are_allowed_where_they_are_usual() -> None:
    rng = np.random.default_rng(1)
    rows = [
        (f"r{user}", f"i{user % 5}" if rng.random() < 0.7 else f"i{rng.integers(5, 30)}", float(day))
        for day in range(100)
        for user in rng.integers(0, 400, 60)
    ]
    shop = interactions_from_frame(pl.DataFrame(rows, ["reader", "item", "at"], orient="row"))
    assert split_for_recipe(load_recipe("default"), shop).test.seen == "allowed"
    assert split_for_recipe(load_recipe("default"), circles(3_000)).test.seen == "out"


def test_tuning_sees_no_more_events_than_it_may(data: Interactions) -> None:
    recipe = recipe_of(validation={"tune_events": 500, "tune_readers": 20})
    trial = reduce_split(recipe, leave_last_out(data).test)
    assert len(trial) == 20
    assert 200 < len(trial.train) < 800


def test_only_the_newest_events_train_with_a_limit(data: Interactions) -> None:
    engine = _tune_and_train(recipe_of(events={"newest": 400}), data)
    assert engine.facts.events == 400


class Dizzy:
    """Scores that are no numbers."""

    def score(self, histories: UserHistories) -> Batch:
        return np.full((len(histories), histories.n_items), np.nan, np.float32)


def test_scores_that_are_no_numbers_are_refused_with_what_to_do(data: Interactions) -> None:
    with pytest.raises(Invalid, match="conform"):
        evaluate(Dizzy(), leave_last_out(data).test)


# --- snapshots ---------------------------------------------------------------------------------------------------


def test_equal_recipe_data_and_seed_give_equal_bytes(tmp_path: Path, engine: TrainedEngine) -> None:
    write_model_snapshot(engine, tmp_path / "one", written_at_ms=5)
    write_model_snapshot(_tune_and_train(recipe_of(), circles()), tmp_path / "two", written_at_ms=5)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


class BuiltMeanwhile(dict[str, ModelState]):
    """Extras during whose writing another process completes the same snapshot."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"extra-mine": ModelState({})})
        self._folder = folder

    def items(self) -> Any:
        self._folder.mkdir(exist_ok=True)
        (self._folder / "manifest.json").write_bytes(b"theirs")
        return super().items()


def test_of_two_who_build_one_snapshot_the_first_stays(tmp_path: Path, engine: TrainedEngine) -> None:
    with pytest.raises(Conflict, match="already"):
        write_model_snapshot(
            engine, tmp_path / "one", written_at_ms=5, extras=BuiltMeanwhile(tmp_path / "one")
        )
    assert (tmp_path / "one" / "manifest.json").read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_version_names_what_was_learned_not_when(tmp_path: Path, engine: TrainedEngine) -> None:
    first = write_model_snapshot(engine, tmp_path / "one", written_at_ms=5)
    later = write_model_snapshot(engine, tmp_path / "two", written_at_ms=6, sequence=2)
    other = write_model_snapshot(
        _tune_and_train(recipe_of(), circles(seed=7)), tmp_path / "three", written_at_ms=5
    )
    assert first.facts["version"] == later.facts["version"] != other.facts["version"]


def test_a_snapshot_scores_as_the_engine_it_was_built_from(
    tmp_path: Path, engine: TrainedEngine, data: Interactions
) -> None:
    write_model_snapshot(
        engine,
        tmp_path / "s",
        written_at_ms=5,
        origin=SnapshotOrigin({"interaction": "9-1"}, "hashing-128-1", "0.1"),
    )
    snapshot = Snapshot.open(tmp_path / "s")
    again = _load_engine(snapshot)
    histories = UserHistories.of(data, np.arange(-1, 40))
    np.testing.assert_array_equal(again.score(histories), engine.score(histories))
    assert again.baskets is not None
    assert engine.baskets is not None
    np.testing.assert_array_equal(again.baskets.score(histories), engine.baskets.score(histories))
    assert again.recipe == engine.recipe
    assert again.facts == engine.facts
    assert again.items == engine.items
    assert snapshot.manifest.facts["offsets"] == {"interaction": "9-1"}
    assert snapshot.size == sum(
        len(content) for name, content in files_of(tmp_path / "s").items() if name != MANIFEST
    )


def test_arrays_are_mapped_not_read(tmp_path: Path, engine: TrainedEngine) -> None:
    write_model_snapshot(engine, tmp_path / "s", written_at_ms=5)
    part = next(iter(Snapshot.open(tmp_path / "s").parts.values()))
    for array in part.arrays.values():
        assert isinstance(array, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_every_damaged_file_is_noticed(tmp_path: Path, engine: TrainedEngine) -> None:
    write_model_snapshot(engine, tmp_path / "s", written_at_ms=5)
    for name, content in files_of(tmp_path / "s").items():
        path = tmp_path / "s" / name
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 4
        for damaged in (bytes(flipped), content[:-1], content + b"x"):
            path.write_bytes(damaged)
            with pytest.raises(Fault, match="damaged"):
                Snapshot.open(tmp_path / "s")
        path.unlink()
        with pytest.raises(Fault, match=f"{os.path.basename(name)}: it is missing"):
            Snapshot.open(tmp_path / "s")
        path.write_bytes(content)
    Snapshot.open(tmp_path / "s")


def test_a_snapshot_is_never_written_over_another(tmp_path: Path, engine: TrainedEngine) -> None:
    write_model_snapshot(engine, tmp_path / "s", written_at_ms=5)
    before = files_of(tmp_path / "s")
    with pytest.raises(Conflict, match="there is a snapshot already: s"):
        write_model_snapshot(engine, tmp_path / "s", written_at_ms=6)
    assert files_of(tmp_path / "s") == before


class Careless:
    """A custom learner whose model can't be saved."""

    def train(self, data: Interactions, rng: np.random.Generator) -> Careless:
        return self

    def load(self, parts: ModelState) -> Careless:
        return self

    def score(self, histories: UserHistories) -> Batch:
        return np.zeros((len(histories), histories.n_items), np.float32)

    def save(self) -> ModelState:
        return ModelState({"names": np.array(["a", None], object)})


def test_objects_are_never_written_and_nothing_is_left_behind(
    tmp_path: Path, data: Interactions, allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:Careless")
    recipe = recipe_of(
        parts={"mine": {"learner": f"{__name__}:Careless"}},
        blend={"weights": {"mine": 1.0}, "weights_new": {}},
    )
    with pytest.raises(Fault, match="mine/names holds objects"):
        write_model_snapshot(train_engine(recipe, data), tmp_path / "s", written_at_ms=5)
    assert list(tmp_path.iterdir()) == []


# --- evaluation --------------------------------------------------------------------------------------------------


def test_a_report_tells_segments_apart_with_intervals(data: Interactions) -> None:
    split = split_by_time(data, seen="out")
    engine = train_engine(make_plan(recipe_of(), split.validation).recipe, split.test.train)
    report = report_evaluation(evaluate(engine, split.test), np.random.default_rng(0))
    assert [segment.name for segment in report.segments][:2] == ["all", "new"]
    by_history = [segment.users for segment in report.segments if segment.name in ("new", "light", "heavy")]
    assert report.segments[0].users == sum(by_history) == len(split.test)
    for segment in report.segments:
        for figure in segment.figures.values():
            assert figure.low <= figure.mean <= figure.high
    ndcg = {segment.name: segment.figures["ndcg@10"].mean for segment in report.segments}
    assert ndcg["light"] > ndcg["new"]
    assert 0 < report.coverage <= 1


def test_targets_are_judged_by_their_popularity(data: Interactions, engine: TrainedEngine) -> None:
    trial = leave_last_out(data).test
    examined = evaluate(engine, trial)
    counts = np.bincount(trial.train.item, minlength=trial.histories.n_items)
    target = trial.targets.items
    popular = examined.by_target["popular targets"]["ndcg@10"]
    others = examined.by_target["other targets"]["ndcg@10"]
    # each user has one target, so the groups divide the users
    chosen = np.sort(counts)[::-1]
    least = chosen[np.searchsorted(np.cumsum(chosen), counts.sum() / 2)]
    assert (
        np.count_nonzero(counts[target] > least) <= len(popular) <= np.count_nonzero(counts[target] >= least)
    )
    unseen = examined.by_target.get("new targets", {"ndcg@10": np.zeros(0)})["ndcg@10"]
    assert len(unseen) == np.count_nonzero(counts[target] == 0)
    together = np.concatenate((popular, others, unseen))
    assert len(together) == len(trial)
    np.testing.assert_allclose(np.sort(together), np.sort(examined.figures["ndcg@10"]))
    assert 0 < examined.gini < 1


def test_figures_do_not_depend_on_blocks(
    data: Interactions, engine: TrainedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = leave_last_out(data).test
    whole = evaluate(engine, trial)
    monkeypatch.setattr("jobs.refresh.evaluation.evaluate._BLOCK_BYTES", 300)
    parts = evaluate(engine, trial)
    for name, values in whole.figures.items():
        np.testing.assert_allclose(parts.figures[name], values)
    assert (parts.coverage, parts.gini) == (whole.coverage, whole.gini)
    for kind, figures in whole.by_target.items():
        np.testing.assert_allclose(parts.by_target[kind]["ndcg@10"], figures["ndcg@10"])


def test_an_interval_is_as_wide_as_in_theory() -> None:
    values = np.random.default_rng(0).normal(0, 1, 2_000)
    low, high = bootstrap_interval(values, np.random.default_rng(1))
    assert high - low == pytest.approx(2 * 1.96 / 2_000**0.5, rel=0.1)


def test_only_the_same_trial_can_be_compared(data: Interactions, engine: TrainedEngine) -> None:
    split = leave_last_out(data)
    first, other = evaluate(engine, split.test), evaluate(engine, split.validation[0])
    with pytest.raises(Invalid, match="same trial"):
        report_comparison(first, other, "ndcg@10", np.random.default_rng(0))
    with pytest.raises(Invalid, match="no figure 'ndgc'"):
        report_comparison(first, first, "ndgc", np.random.default_rng(0))
    same = report_comparison(first, first, "ndcg@10", np.random.default_rng(0))
    assert (same.after - same.before, same.low, same.high) == (0, 0, 0)


def test_a_trial_that_asks_nobody_is_refused(data: Interactions, engine: TrainedEngine) -> None:
    with pytest.raises(Invalid, match="nobody can be asked"):
        evaluate(engine, leave_last_out(data).test.pick(np.zeros(0, np.int64)))


# --- estimates ---------------------------------------------------------------------------------------------------


def test_what_can_not_fit_is_refused_with_advice() -> None:
    recipe = recipe_of(parts={"ease": {"learner": "ease", "items": 60_000}}, blend={})
    with pytest.raises(
        Invalid,
        match=r"needs about 15,\d{3} MB, limits.memory_mb allows 4,096.*part ease.*lower its `items`",
    ):
        check_memory(recipe, DataSize(1_000_000, 50_000, 60_000))
    check_memory(recipe, DataSize(1_000_000, 50_000, 5_000))


def test_costs_grow_with_what_there_is_to_learn() -> None:
    recipe = load_recipe("default")
    small, large = DataSize(10_000, 1_000, 1_000), DataSize(1_000_000, 50_000, 10_000)
    for few, many in zip(estimate_costs(recipe, small), estimate_costs(recipe, large), strict=True):
        assert many.seconds > few.seconds
        assert many.memory >= few.memory
    assert estimate_peak_memory(estimate_costs(recipe, large), large) > estimate_peak_memory(
        estimate_costs(recipe, small), small
    )
    settled = recipe_of(
        parts={"rules": {"learner": "rules"}}, blend={"weights": {"rules": 1.0}, "weights_new": {}}
    )
    assert [cost.trainings for cost in estimate_costs(settled, small)] == [1]


def one_sitting(step_s: float, *, end_together: bool) -> Interactions:
    """Make users who go round the circle in one go, all until the same minute or each on a day of a year."""
    rng = np.random.default_rng(3)
    rows = []
    for user in range(400):
        first, steps = int(rng.integers(30)), int(rng.integers(8, 14))
        ends = 1_000.0 * DAY_S + step_s * float(rng.random())
        ends += 0.0 if end_together else DAY_S * float(rng.integers(365))
        rows += [
            (f"r{user:03d}", f"i{(first + step) % 30:02d}", ends - step_s * (steps - step))
            for step in range(steps)
        ]
    return interactions_from_frame(pl.DataFrame(rows, ["reader", "item", "at"], orient="row"))


@pytest.mark.parametrize(
    ("step_s", "end_together", "protocol"),
    [(1.0, True, "leave last out"), (20.0, False, "leave last out"), (DAY_S, True, "by time")],
    ids=["all end in one minute", "one session for each user", "one step a day"],
)
def test_a_split_by_time_needs_clocks_that_separate_events(
    step_s: float, end_together: bool, protocol: str
) -> None:
    split = split_for_recipe(recipe_of(), one_sitting(step_s, end_together=end_together))
    assert split.validation[0].name == f"{protocol}, validation"
