"""The small parts of the refresh job: checkpoints, sources, sweeps, rehearsals, pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.errors import Invalid
from jobs.refresh.evaluation.gate import check_gate
from jobs.refresh.evaluation.plots import PlotBar, draw_bars, render_reports_svg, render_svg
from jobs.refresh.evaluation.report_models import FailedEvaluation
from jobs.refresh.evaluation.reports import markdown_from_reports as report_as_markdown
from jobs.refresh.recipe import Recipe, load_recipe_file, parse_recipe
from jobs.refresh.runs import checkpoint
from jobs.refresh.runs.checkpoint import CheckpointStore, bytes_from_source, source_from_bytes
from jobs.refresh.runs.estimate import check_memory, estimate_training
from jobs.refresh.runs.measurements.sweep import (
    SweepReport,
    SweepVariant,
    build_variants,
    csv_from_rows,
    delete_sweep_data,
    evaluate_variant_once,
    markdown_from_rows,
    parse_assignments,
    result_rows,
    sweep_id,
    try_variant,
    write_comparison,
)
from jobs.refresh.runs.plan_evaluation import plan_from_dict, plan_to_dict, plan_training, split_data
from jobs.refresh.runs.training_source import TrainingSource, read_training_source
from jobs.refresh.runs.version_comparison import evaluate_recipe
from jobs.refresh.runs.workload import DataSize
from tests.fakes import generated_market
from tests.fakes.newest_plan import plan_on_newest

ARRAYS = ("reader", "item", "at_s", "weight", "basket", "kind")


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    segments = SegmentStore(artifacts)
    generated_market.settle(segments, generated_market.table(600, 60, 30, topics=3))
    generated_market.settle_products(segments, generated_market.products(40, 8))
    return artifacts


@pytest.fixture
def source(artifacts: ArtifactStore) -> TrainingSource:
    return read_training_source(SegmentStore(artifacts), generated_market.APP, load_recipe_file("default"))


def test_a_source_is_events_offsets_and_what_products_are_like(source: TrainingSource) -> None:
    assert (len(source.data), source.products, source.embedder) == (600, 40, "made-up")
    assert source.offsets["interaction"].endswith("-600")
    content = source.data.content
    assert content.shape == (source.data.n_items, 8)
    np.testing.assert_allclose(np.linalg.norm(content, axis=1), 1.0, rtol=1e-5)


def test_content_is_read_only_where_a_part_looks_at_it(artifacts: ArtifactStore) -> None:
    source = read_training_source(SegmentStore(artifacts), generated_market.APP, load_recipe_file("fast"))
    assert source.data.content is None
    assert source.embedder == ""


def test_an_app_without_interactions_has_a_remedy(artifacts: ArtifactStore) -> None:
    with pytest.raises(
        Invalid, match=r"nothing to learn from: 0 interactions are compacted.*upload interactions"
    ):
        read_training_source(SegmentStore(artifacts), "empty", load_recipe_file("fast"))


def test_a_kept_source_reads_back_as_every_attempt_sees_it(
    artifacts: ArtifactStore, source: TrainingSource
) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "r")
    first = kept.put_source(source)
    again = kept.source()
    assert again is not None
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again.data, name), getattr(source.data, name))
        np.testing.assert_array_equal(getattr(again.data, name), getattr(first.data, name))
    np.testing.assert_array_equal(again.data.content, first.data.content)
    assert (again.data.items, again.data.readers) == (source.data.items, source.data.readers)
    assert (again.offsets, again.embedder, again.products) == (
        source.offsets,
        source.embedder,
        source.products,
    )
    assert bytes_from_source(source_from_bytes(bytes_from_source(first))) == bytes_from_source(first)


def test_a_damaged_checkpoint_counts_as_none(artifacts: ArtifactStore, source: TrainingSource) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "r")
    kept.put("plan", {"b": 1, "a": [1.5, None]})
    assert list(kept.get("plan") or {}) == ["b", "a"]
    data = bytearray(artifacts.read("runs/market/r/plan.json"))
    data[-2] ^= 1
    artifacts.write("runs/market/r/plan.json", bytes(data))
    assert kept.get("plan") is None
    assert kept.source() is None
    assert kept.clear() == 1
    assert kept.get("plan") is None


def test_a_plan_reads_back_as_it_was(source: TrainingSource) -> None:
    plan = plan_on_newest(load_recipe_file("fast"), source.data)
    again = plan_from_dict(plan_to_dict(plan))
    assert again == plan
    assert list(again.recipe.parts) == list(plan.recipe.parts)


def test_the_test_is_newer_than_what_weights_are_chosen_by(source: TrainingSource) -> None:
    split = split_data(load_recipe_file("fast"), source.data, "by_time")
    assert all(trial.train.now_s < split.test.train.now_s for trial in split.validation)
    plan = plan_training(load_recipe_file("fast"), source.data, split)
    assert "validation" in plan.protocol


def test_too_little_data_to_choose_weights_has_a_remedy(source: TrainingSource) -> None:
    few = source.data.pick(np.arange(len(source.data)) % 300 == 0)
    with pytest.raises(Invalid, match=r"too little data to choose weights by.*settle the recipe"):
        plan_training(load_recipe_file("fast"), few, split_data(load_recipe_file("fast"), few))


def test_an_evaluation_holds_segments_intervals_and_what_stands_beside(source: TrainingSource) -> None:
    report = evaluate_recipe(source.data, load_recipe_file("fast"), "leave_last_out", users=50)
    everybody = report.segments[0]
    assert everybody.name == "all"
    assert everybody.users == report.users <= 50
    figure = everybody.figures["ndcg@10"]
    assert figure.low <= figure.mean <= figure.high
    assert set(report.beside) == {"popularity"}
    assert report.verdict == check_gate(report)
    again = evaluate_recipe(source.data, load_recipe_file("fast"), "leave_last_out", users=50)
    assert again == report
    assert "| popularity |" in report_as_markdown([report], "market/default")


def test_what_serves_is_trained_again_on_the_same_past(source: TrainingSource) -> None:
    settled = plan_on_newest(load_recipe_file("fast"), source.data).recipe.model_dump(mode="json")
    report = evaluate_recipe(
        source.data, load_recipe_file("fast"), serving={"version": "v1", "recipe": settled}
    )
    assert report.beside["serving"].version == "v1"
    gone = {**settled, "parts": {"mine": {"learner": "gone.away:Thing"}}, "blend": {}}
    report = evaluate_recipe(source.data, load_recipe_file("fast"), serving={"version": "v1", "recipe": gone})
    assert "can't be trained again" in report.not_compared
    assert "serving" not in report.beside


def test_a_rehearsal_tells_rows_memory_and_time(source: TrainingSource) -> None:
    estimate = estimate_training(load_recipe_file("default"), source, free_memory_mb=100_000)
    fields = estimate.to_dict()
    assert (fields["events"], fields["items"], fields["fits"]) == (600, source.data.n_items, True)
    assert fields["seconds"] >= 0
    assert {part["part"] for part in fields["parts"]} == set(load_recipe_file("default").parts) - {
        "graph_filter"
    }
    assert not estimate_training(load_recipe_file("default"), source, free_memory_mb=10).fits


def test_a_recipe_too_large_for_memory_names_the_part_and_the_remedy() -> None:
    large = DataSize(events=5_000_000, users=500_000, items=200_000)
    greedy = load_recipe_file("default").with_changes({"parts.ease.items": 60_000})
    with pytest.raises(
        Invalid, match=r"limits.memory_mb allows 4,096; most of it is part ease .*lower its `items`"
    ):
        check_memory(greedy, large)
    with pytest.raises(Invalid, match="this machine or KIOSK_MAX_TRAINING_MEMORY_MB leaves 300"):
        check_memory(load_recipe_file("default"), large, memory_mb=300)
    huge = DataSize(events=1_000_000, users=60_000, items=1_000_000, described=1_000_000)
    deep = load_recipe_file("deep")
    for name in ("parts.graph_filter", "content"):
        with pytest.raises(Invalid, match=rf"most of it is part .*{name[-7:]}.*set its `items_up_to`"):
            check_memory(deep.with_changes({f"{name}.items_up_to": 1_000_000}), huge)


def test_a_checkpoint_of_another_release_is_made_anew(
    artifacts: ArtifactStore, source: TrainingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "older")
    monkeypatch.setattr(checkpoint, "_COLUMNS", ("reader", "item"))
    kept.put("plan", {"any": 1})
    artifacts.write(
        f"runs/{generated_market.APP}/older/data.arrow",
        checksum(bytes_from_source(source)).encode() + bytes_from_source(source),
    )
    monkeypatch.undo()
    assert (kept.source(), kept.get("plan")) == (None, {"any": 1})


# --- sweeps -------------------------------------------------------------------------------------------------------


def test_a_sweep_is_every_combination() -> None:
    variants = build_variants(
        load_recipe_file("fast"), ["parts.rules.window=5,10", "blend.k=10,20", "name=a"]
    )
    assert [dict(variant.changes) for variant in variants] == [
        {"parts.rules.window": window, "blend.k": k, "name": "a"} for window in (5, 10) for k in (10, 20)
    ]
    assert len({variant.name for variant in variants}) == 4
    assert variants[0].recipe.parts["rules"].window == 5  # type: ignore[union-attr]


def test_a_field_that_is_swept_is_not_tuned_as_well() -> None:
    (variant, _) = build_variants(
        load_recipe_file("fast"), ['parts.rules.fading={"half_life_items":2},{"half_life_items":9}']
    )
    assert "fading" not in variant.recipe.parts["rules"].tune
    assert load_recipe_file("fast").parts["rules"].tune["fading"]


@pytest.mark.parametrize("field", ["dropout", "decay"])
def test_a_value_of_several_parameters_is_not_tuned_if_one_is_swept(field: str) -> None:
    deep = load_recipe_file("deep")
    (variant,) = build_variants(deep, [f"parts.transformer.{field}=0.2"])
    assert deep.parts["transformer"].tune
    assert not variant.recipe.parts["transformer"].tune
    (variant,) = build_variants(deep, ["parts.transformer.patience=3"])
    assert variant.recipe.parts["transformer"].tune == deep.parts["transformer"].tune


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("window", "is no FIELD=A,B,C"),
        ("parts.rules.windw=1,2", "there is no such field; there are"),
        ("parts.nope.window=1", "recipe has no parts.nope.window"),
        ("parts.rules.window=1,many", "valid integer"),
        ("seed=" + ",".join(map(str, range(300))), "300 combinations, 200 at most"),
        ('events.weights={"click":1},{"click":0.1}', "can't be swept"),
    ],
)
def test_an_invalid_sweep_has_a_reason(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        build_variants(load_recipe_file("fast"), [text])


def test_assignments_are_values_or_texts() -> None:
    assert parse_assignments(["a.b=3", "c=x y", 'd={"e":1}', "f=true"]) == {
        "a.b": 3,
        "c": "x y",
        "d": {"e": 1},
        "f": True,
    }
    with pytest.raises(Invalid, match="is no FIELD=VALUE"):
        parse_assignments(["a"])


def test_a_sweep_goes_on_where_it_was_and_writes_its_comparison(
    artifacts: ArtifactStore, source: TrainingSource, tmp_path: Path
) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "s", folder="sweeps")
    kept.put_source(source)
    variants = build_variants(load_recipe_file("fast"), ["parts.rules.window=2,10"])
    results = [(variant, try_variant(variant, kept)) for variant in variants]
    kept.put(variants[0].name, {**evaluate_variant_once(variants[0], kept).to_dict(), "recipe": "remembered"})
    assert evaluate_variant_once(variants[0], kept).recipe == "remembered"
    table = result_rows(
        [
            *results,
            (
                SweepVariant((("parts.rules.window", 99),), load_recipe_file("fast")),
                SweepReport(error="no, thanks"),
            ),
        ]
    )
    assert [row["parts.rules.window"] for row in table][-1] == 99
    assert table[0]["ndcg@10"] >= table[1]["ndcg@10"]
    places = write_comparison(artifacts, generated_market.APP, "s", table, "fast", tmp_path / "out")
    assert len(places) == 4
    (first, *_) = csv.DictReader(io.StringIO((tmp_path / "out" / "comparison.csv").read_text()))
    assert float(first["ndcg@10"]) == table[0]["ndcg@10"]
    assert "| no, thanks |" in (tmp_path / "out" / "comparison.md").read_text()
    assert csv_from_rows([]) == "\n"
    assert markdown_from_rows([], "x").startswith("# x")


def test_what_goes_wrong_in_a_variant_is_its_result(artifacts: ArtifactStore) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "gone", folder="sweeps")
    (variant,) = build_variants(load_recipe_file("fast"), ["seed=1"])
    assert "data of this sweep is missing" in try_variant(variant, kept).error


def test_variants_with_lists_of_other_lengths_are_compared_at_one_length(
    artifacts: ArtifactStore, source: TrainingSource
) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "lengths", folder="sweeps")
    kept.put_source(source)
    results = [
        (variant, try_variant(variant, kept))
        for variant in build_variants(load_recipe_file("fast"), ["blend.k=5,10,20"])
    ]
    table = result_rows(results)
    assert [row["error"] for row in table] == ["", "", ""]
    assert all(0 < row["ndcg@10"] <= row["high"] for row in table)
    assert [row["ndcg@10"] for row in table] == sorted((row["ndcg@10"] for row in table), reverse=True)


class Explosive:
    """A custom learner whose training fails."""

    def train(self, data: object, rng: object) -> Any:
        raise RuntimeError("two\nlines")

    def load(self, parts: object) -> Any:
        raise NotImplementedError


def test_a_learner_that_raises_anything_ends_its_variant_only(
    artifacts: ArtifactStore, source: TrainingSource, allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:Explosive")
    kept = CheckpointStore(artifacts, generated_market.APP, "explosive", folder="sweeps")
    kept.put_source(source)
    parts = {"x": {"learner": f"{__name__}:Explosive"}}
    recipe = parse_recipe({"parts": parts, "blend": {"weights": {"x": 1}, "weights_new": {}}})
    (variant,) = build_variants(recipe, ["seed=3"])
    result = try_variant(variant, kept)
    assert result.error == "RuntimeError: two\nlines"
    assert "| RuntimeError: two lines |" in markdown_from_rows(result_rows([(variant, result)]), "x")


def test_a_complete_sweep_lets_go_of_its_data_and_needs_it_no_more(
    artifacts: ArtifactStore, source: TrainingSource
) -> None:
    kept = CheckpointStore(artifacts, generated_market.APP, "complete", folder="sweeps")
    kept.put_source(source)
    (variant,) = build_variants(load_recipe_file("fast"), ["parts.rules.window=2"])
    delete_sweep_data(kept, [(variant, SweepReport(error="its worker died"))])
    assert kept.source() is not None
    delete_sweep_data(kept, [(variant, try_variant(variant, kept))])
    assert kept.source() is None
    assert not try_variant(variant, kept).error


def test_newer_data_is_another_sweep() -> None:
    variants = build_variants(load_recipe_file("fast"), ["seed=1,2"])
    assert sweep_id(variants, {"interaction": "5-0"}) == sweep_id(
        variants, {"interaction": "5-0", "product": "9-0"}
    )
    assert sweep_id(variants, {"interaction": "5-0"}) != sweep_id(variants, {"interaction": "6-0"})


# --- pictures -----------------------------------------------------------------------------------------------------


def test_pictures_are_well_formed_whatever_names_stand_in_them(source: TrainingSource) -> None:
    groups = {"<g>": {"x": PlotBar(0.5, 0.4, 0.6), '"y"': PlotBar(0.0)}, "h": {"x": PlotBar(0.2)}}
    root = ElementTree.fromstring(render_svg(draw_bars("a < b & c", groups)))
    texts = {element.text for element in root.iter() if element.text}
    assert {"a < b & c", "<g>", '"y"'} <= texts
    assert render_svg(draw_bars("nothing", {})).startswith("<svg")
    report = evaluate_recipe(source.data, load_recipe_file("fast"), "leave_last_out")
    files = render_reports_svg([report, FailedEvaluation(protocol="by_time", error="too little")])
    assert set(files) == {f"leave_last_out-{name}.svg" for name in ("figures", "segments", "calibration")}
    for text in files.values():
        ElementTree.fromstring(text)


def test_the_recipe_of_every_preset_is_sound() -> None:
    for name in ("default", "fast", "sequence", "shop", "session"):
        assert isinstance(load_recipe_file(name), Recipe)
