"""A run with re-rankers reads the log of answers, reports what came of it, and never fails for want of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import RERANKER, SEARCH_RERANKER
from actors.models.loading.validation import validate_snapshot
from actors.models.user_histories import DAY_S
from cluster.artifacts.logs.outcomes import COLUMNS, OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid
from cluster.records.logged_query import pseudonym
from cluster.records.run import Run
from cluster.records.served_list import ServedAnswer
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import interactions_from_segments
from jobs.refresh.learners import protocol
from jobs.refresh.recipe import parse_recipe
from jobs.refresh.runs import training_stages
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.estimate import estimate_costs, estimate_from_size
from jobs.refresh.runs.run_attempt import RunAttempt, TrainingContext
from jobs.refresh.runs.workload import DataSize
from tests.fakes import generated_market
from tests.fakes.run_stages import run_stages
from tests.fakes.simulated_lists import show_lists

APP, SALT = generated_market.APP, b"salt of the market"
RECIPE: dict[str, Any] = {
    "name": "ranked",
    "parts": {"item_knn": {"learner": "item_knn"}, "trend": {"learner": "popularity"}},
    "blend": {"weights": {"item_knn": 1.0, "trend": 0.5}, "weights_new": {"trend": 1.0}},
    "validation": {"protocol": "by_time", "seen": "allowed"},
    "reranker": {"least_lists": 100, "least_rows": 20, "trees": 60},
    "completions": None,
    "search": None,
}


def bench_in(folder: Path, events: int = 20_000) -> TrainingContext:
    artifacts = ArtifactStore.open(folder / "shelf")
    segments = SegmentStore(artifacts)
    generated_market.settle(segments, generated_market.table(events, 800, 80))
    return TrainingContext(artifacts, segments, folder / "scratch", "release", SALT)


def write_log(artifacts: ArtifactStore, lists: int, endpoint: str = "user_to_products") -> None:
    """Write served lists of which products with few events are liked, and their clicks."""
    data = interactions_from_segments(generated_market.table(20_000, 800, 80))
    since_s = data.now_s - 20 * DAY_S
    engine = train_engine(parse_recipe(RECIPE), data.pick(data.at_s < since_s))
    taken = np.bincount(data.item, minlength=data.n_items)
    likings = np.where(taken < np.median(taken), 0.4, 0.1)
    made = show_lists(engine, data, since_s, most=lists).click(lambda items, _: likings[items])
    users, items = data.readers.names.to_pylist(), data.items.names.to_pylist()
    answers, outcomes = [], []
    for row in range(len(made)):
        entries = slice(made.starts[row], made.starts[row + 1])
        # Every third search is one of an unknown person.
        has_user = endpoint != "search" or row % 3
        user = pseudonym(SALT, users[made.users[row]]) if has_user else ""
        at = int(made.at_s[row] * 1000)
        products = tuple(items[item] for item in made.items[entries].tolist())
        facts: dict[str, Any] = {"user": user, "products": products, "origins": (0,) * len(products)}
        facts["scores"] = tuple(3.5 - 0.1 * place for place in range(len(products)))
        answers.append(ServedAnswer(f"s{row}", at, endpoint, "default", **facts))
        for place in np.flatnonzero(made.clicks[entries]).tolist():
            outcomes.append(
                {
                    "at": at,
                    "type": "click",
                    "service_id": f"s{row}",
                    "engine_id": "default",
                    "places": [place + 1],
                    "product": products[place],
                }
            )
    ServedLogStore(artifacts).append(APP, answers, "1-0")
    table = pa.Table.from_pylist(outcomes, schema=COLUMNS)
    OutcomeStore(artifacts).replace_days(APP, {"2026-03-01": table}, {})


def train(bench: TrainingContext, recipe: dict[str, Any] = RECIPE) -> tuple[RunAttempt, dict[str, Any]]:
    run = Run(app_id=APP, engine_id="default", run_id="first", recipe=recipe, created_at=5)
    attempt = RunAttempt(run, bench, lambda what, share: None)
    return attempt, run_stages(attempt)


def test_a_log_with_likings_puts_the_re_ranker_into_the_snapshot(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    bench = bench_in(tmp_path)
    write_log(bench.artifacts, 3_000)
    attempt, outcome = train(bench)
    assert "re-ranker certainly better: clicks of held-out days" in outcome["chosen"]
    folder, _ = SnapshotStore(bench.artifacts).fetch(APP, "default", outcome["version"])
    learned = validate_snapshot(Snapshot.open(folder), outcome["version"])
    assert learned.reranker is not None
    assert learned.reranker.parts == ("item_knn", "trend")
    attempt.clean_up()
    again = TrainingContext(bench.artifacts, bench.segments, tmp_path / "other", "release", SALT)
    assert train(again)[1]["version"] == outcome["version"]


def test_a_log_of_searches_puts_their_re_ranker_into_the_snapshot(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    bench = bench_in(tmp_path)
    write_log(bench.artifacts, 3_000, "search")
    recipe = {**RECIPE, "search_reranker": RECIPE["reranker"]}
    attempt, outcome = train(bench, recipe)
    assert "re-ranker left out: the log has 0 usable lists" in outcome["chosen"]
    assert "re-ranker of searches certainly better: clicks of held-out days" in outcome["chosen"]
    folder, _ = SnapshotStore(bench.artifacts).fetch(APP, "default", outcome["version"])
    learned = validate_snapshot(Snapshot.open(folder), outcome["version"])
    assert learned.reranker is None
    assert learned.search_reranker is not None
    assert CheckpointStore(bench.artifacts, APP, "first").get_state(SEARCH_RERANKER) is not None
    attempt.clean_up()


def test_the_attempt_after_a_kill_reads_what_was_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightgbm")
    bench = bench_in(tmp_path)
    write_log(bench.artifacts, 3_000)
    run = Run(app_id=APP, engine_id="default", run_id="first", recipe=RECIPE, created_at=5)
    run_stages(RunAttempt(run, bench, lambda what, share: None), last="evaluate")
    kept = CheckpointStore(bench.artifacts, APP, "first").get_state(RERANKER)
    assert kept is not None
    # The log has changed since; the version must not.
    monkeypatch.setattr(
        training_stages, "learn_and_store_reranker", lambda *_: pytest.fail("it is learned twice")
    )
    _, outcome = train(bench)
    folder, _ = SnapshotStore(bench.artifacts).fetch(APP, "default", outcome["version"])
    stored = Snapshot.open(folder).parts[RERANKER]
    np.testing.assert_array_equal(stored.arrays["leaves"], kept.arrays["leaves"])


@pytest.mark.parametrize("lists", [0, 60])
def test_without_enough_log_the_blend_alone_ranks(tmp_path: Path, lists: int) -> None:
    pytest.importorskip("lightgbm")
    bench = bench_in(tmp_path)
    if lists:
        write_log(bench.artifacts, lists)
    _, outcome = train(bench)
    assert "re-ranker left out: the log has " in outcome["chosen"]
    assert "usable lists with a click, and 100 are necessary" in outcome["chosen"]
    folder, _ = SnapshotStore(bench.artifacts).fetch(APP, "default", outcome["version"])
    assert RERANKER not in Snapshot.open(folder).parts


def test_people_of_another_salt_are_unknown(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    bench = bench_in(tmp_path)
    write_log(bench.artifacts, 300)
    other = TrainingContext(bench.artifacts, bench.segments, bench.scratch, "release", b"other")
    assert "re-ranker left out: the log has 0 usable lists" in train(other)[1]["chosen"]


def test_without_lightgbm_a_run_fails_before_it_reads_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "find_spec", lambda name: None)
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    bench = TrainingContext(artifacts, SegmentStore(artifacts), tmp_path / "scratch", "release")
    with pytest.raises(Invalid, match=r"kiosk\[ranking\]"):
        train(bench)


def test_the_estimate_names_the_cost() -> None:
    size = DataSize(1_000_000, 100_000, 20_000)
    with_it, without = parse_recipe(RECIPE), parse_recipe({**RECIPE, "reranker": None})
    assert "[reranker]" in [cost.part for cost in estimate_costs(with_it, size)]
    assert "[reranker]" not in [cost.part for cost in estimate_costs(without, size)]
    estimate = estimate_from_size(with_it, size)
    assert estimate.seconds > estimate_from_size(without, size).seconds
    assert [extra["part"] for extra in estimate.to_dict()["extras"]] == ["[reranker]"]
    both = estimate_costs(with_it.with_changes({"search_reranker": {}}), size)
    assert [cost.part for cost in both if not cost.is_ranked] == ["[reranker]", "[search_reranker]"]


def test_a_recipe_without_a_re_ranker_keeps_its_form() -> None:
    fields = {name: value for name, value in RECIPE.items() if name != "reranker"}
    dumped = parse_recipe(fields).model_dump(mode="json")
    assert not {"reranker", "search_reranker"} & set(dumped)
    assert parse_recipe(fields).with_changes({"reranker": {}}).reranker is not None
