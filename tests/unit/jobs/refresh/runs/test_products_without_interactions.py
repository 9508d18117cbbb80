"""A catalog without events: what can be built is built, and what was left out is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.autocomplete.snapshot_format import COMPLETIONS
from actors.retrieval.snapshot_format import SEARCH
from actors.serving import dispatch
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid
from cluster.records.interaction import RecentEvent
from cluster.records.run import Run
from jobs.refresh.evaluation.gate import check_gate
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.run_attempt import RunAttempt, TrainingContext
from tests.fakes import generated_market
from tests.fakes.corner_shop import NOW_MS, interaction_change, view
from tests.fakes.run_stages import run_stages


@pytest.fixture
def bench(tmp_path: Path) -> TrainingContext:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    segments = SegmentStore(artifacts)
    generated_market.settle_products(segments, generated_market.products(40, 128))
    return TrainingContext(artifacts, segments, tmp_path / "scratch", "release")


def build_run() -> Run:
    recipe = load_recipe_file("default").model_dump(mode="json")
    return Run(app_id=generated_market.APP, engine_id="default", run_id="one", recipe=recipe, created_at=5)


def trained(bench: TrainingContext, serving: dict[str, Any] | None = None) -> dict[str, Any]:
    return run_stages(RunAttempt(build_run(), bench, lambda what, share: None, serving))


def test_search_and_completions_are_built_and_the_rest_is_named(
    bench: TrainingContext, tmp_path: Path
) -> None:
    outcome = trained(bench)
    folder, _ = SnapshotStore(bench.artifacts).fetch(generated_market.APP, "default", outcome["version"])
    snapshot = Snapshot.open(folder)
    assert {COMPLETIONS, SEARCH} <= set(snapshot.parts)
    assert "built search and meaning and completions" in outcome["verdict"]
    assert "left out recommendations" in outcome["verdict"]
    report = ReportStore(bench.artifacts).get(generated_market.APP, "default", outcome["version"])
    assert report is not None
    assert check_gate(report).allowed


def test_a_snapshot_of_data_before_an_erasure_is_not_published(bench: TrainingContext) -> None:
    run = build_run()
    run_stages(RunAttempt(run, bench, lambda what, share: None), last="train")
    (product, *_) = bench.segments.load(run.app_id).products
    bench.segments.erase(run.app_id, "product", [orjson.loads(product.json)["product_id"]])
    # as an attempt on another machine does, which can't delete the files of this one
    CheckpointStore(bench.artifacts, run.app_id, run.run_id).clear()
    version = trained(bench)["version"]
    facts = SnapshotStore(bench.artifacts).manifest(run.app_id, run.engine_id, version).facts
    assert facts["erasures"] == bench.segments.erasures(run.app_id).count == 1


def test_it_serves_searches_and_leaves_ranking_to_what_happens(
    bench: TrainingContext, tmp_path: Path
) -> None:
    version = trained(bench)["version"]
    folder, _ = SnapshotStore(bench.artifacts).fetch(generated_market.APP, "default", version)
    products = [{"product_id": f"p{number}", "title": f"Thing {number}"} for number in range(40)]
    shops = [Recommender(HashingEmbedder()), Recommender(HashingEmbedder())]
    for shop in shops:
        shop.overlay.put_products(products, None)
    learned = validate_snapshot(Snapshot.open(folder), version)
    shops[0].set_serving_model("default", ServingModel(learned, shops[0].overlay.catalog.product_ids), NOW_MS)
    assert shops[0].default_engine_state.serving_version == version
    clicks = [view(f"u{n}", f"p{n % 7}", ago_ms=1_000 * n) for n in range(60)]
    query = UserQuery("user_to_products", "a", "default", user_id="r", rows=10)
    recent = [RecentEvent("click", ("p3",), NOW_MS - 5).pack()]
    lists = []
    for shop in shops:
        shop.apply(interaction_change(clicks, f"{NOW_MS}-0"))
        lists.append([row["product_id"] for row in dispatch.answer(shop, query, recent, (), NOW_MS).products])
    assert lists[0] == lists[1]
    assert len(lists[0]) == 10


def test_it_takes_the_place_of_nothing_that_learned_from_readers(bench: TrainingContext) -> None:
    with pytest.raises(Invalid, match="nothing to learn from"):
        trained(bench, {"version": "old", "recipe": {"blend": {"weights": {"ease": 1.0}}}})


def test_an_app_without_products_has_a_remedy(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path / "none")
    with pytest.raises(Invalid, match="upload interactions"):
        trained(TrainingContext(artifacts, SegmentStore(artifacts), tmp_path / "scratch", "release"))
