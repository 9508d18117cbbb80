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

from cluster.artifacts.artifact_store import Shelf, checksum
from cluster.artifacts.segments import SegmentShelf
from cluster.errors import Invalid
from jobs.refresh.evaluation.gate import judge
from jobs.refresh.evaluation.plots import Bar, bars, pictures
from jobs.refresh.evaluation.reports import as_markdown as report_as_markdown
from jobs.refresh.recipe import Recipe, load, parse
from jobs.refresh.runs import checkpoint
from jobs.refresh.runs.checkpoint import Checkpoints, packed, unpacked
from jobs.refresh.runs.dry_run import rehearse
from jobs.refresh.runs.estimate import Size, refuse_too_large
from jobs.refresh.runs.stages import plan_facts, plan_of, planned, splitted
from jobs.refresh.runs.sweep import (
    Variant,
    as_csv,
    as_markdown,
    assignments,
    examine_variant,
    rows,
    sweep_id,
    variants,
)
from jobs.refresh.runs.sweep_runner import attempted, let_go, write_comparison
from jobs.refresh.runs.training_source import Source, read_source
from jobs.refresh.runs.version_comparison import evaluated
from jobs.refresh.tuning.plan import plan_for
from tests.fakes import generated_market

ARRAYS = ("reader", "item", "at_s", "weight", "basket", "kind")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf.open(tmp_path / "shelf")
    segments = SegmentShelf(shelf)
    generated_market.settle(segments, generated_market.table(600, 60, 30, topics=3))
    generated_market.settle_products(segments, generated_market.products(40, 8))
    return shelf


@pytest.fixture
def source(shelf: Shelf) -> Source:
    return read_source(SegmentShelf(shelf), generated_market.APP, load("default"))


def test_a_source_is_events_offsets_and_what_products_are_like(source: Source) -> None:
    assert (len(source.data), source.products, source.embedder) == (600, 40, "made-up")
    assert source.offsets["interaction"].endswith("-600")
    content = source.data.content
    assert content.shape == (source.data.n_items, 8)
    np.testing.assert_allclose(np.linalg.norm(content, axis=1), 1.0, rtol=1e-5)


def test_content_is_read_only_where_a_part_looks_at_it(shelf: Shelf) -> None:
    source = read_source(SegmentShelf(shelf), generated_market.APP, load("fast"))
    assert source.data.content is None
    assert source.embedder == ""


def test_an_app_without_interactions_says_what_to_do(shelf: Shelf) -> None:
    with pytest.raises(
        Invalid, match=r"nothing to learn from: 0 interactions have settled.*upload interactions"
    ):
        read_source(SegmentShelf(shelf), "empty", load("fast"))


def test_a_kept_source_reads_back_as_every_attempt_sees_it(shelf: Shelf, source: Source) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "r")
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
    assert packed(unpacked(packed(first))) == packed(first)


def test_a_damaged_checkpoint_counts_as_none(shelf: Shelf, source: Source) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "r")
    kept.put("plan", {"b": 1, "a": [1.5, None]})
    assert list(kept.get("plan") or {}) == ["b", "a"]
    data = bytearray(shelf.read("runs/market/r/plan.json"))
    data[-2] ^= 1
    shelf.write("runs/market/r/plan.json", bytes(data))
    assert kept.get("plan") is None
    assert kept.source() is None
    assert kept.clear() == 1
    assert kept.get("plan") is None


def test_a_plan_reads_back_as_it_was(source: Source) -> None:
    plan = plan_for(load("fast"), source.data)
    again = plan_of(plan_facts(plan))
    assert again == plan
    assert list(again.recipe.parts) == list(plan.recipe.parts)


def test_the_test_is_newer_than_what_weights_are_chosen_by(source: Source) -> None:
    split = splitted(load("fast"), source.data, "by_time")
    assert all(trial.train.now_s < split.test.train.now_s for trial in split.validation)
    plan = planned(load("fast"), source.data, split)
    assert "validation" in plan.protocol


def test_too_little_data_to_choose_by_says_what_to_change(source: Source) -> None:
    few = source.data.pick(np.arange(len(source.data)) % 300 == 0)
    with pytest.raises(Invalid, match=r"too little data to choose weights by.*settle the recipe"):
        planned(load("fast"), few, splitted(load("fast"), few))


def test_an_evaluation_holds_segments_intervals_and_what_stands_beside(source: Source) -> None:
    report = evaluated(source.data, load("fast"), "leave_last_out", readers=50)
    everybody = report["segments"][0]
    assert everybody["name"] == "all"
    assert everybody["readers"] == report["readers_asked"] <= 50
    figure = everybody["figures"]["ndcg@10"]
    assert figure["low"] <= figure["mean"] <= figure["high"]
    assert set(report["beside"]) == {"popularity"}
    assert report["verdict"]["sentence"] == judge(report).sentence
    again = evaluated(source.data, load("fast"), "leave_last_out", readers=50)
    assert again == report
    assert "| popularity |" in report_as_markdown([report], "market/default")


def test_what_serves_is_trained_again_on_the_same_past(source: Source) -> None:
    settled = plan_for(load("fast"), source.data).recipe.model_dump(mode="json")
    report = evaluated(source.data, load("fast"), serving={"version": "v1", "recipe": settled})
    assert report["beside"]["serving"]["version"] == "v1"
    gone = {**settled, "parts": {"mine": {"learner": "gone.away:Thing"}}, "blend": {}}
    report = evaluated(source.data, load("fast"), serving={"version": "v1", "recipe": gone})
    assert "can't be trained again" in report["not_compared"]
    assert "serving" not in report["beside"]


def test_a_rehearsal_tells_rows_memory_and_time(source: Source) -> None:
    found = rehearse(load("default"), source, free_memory_mb=100_000)
    told = found.told()
    assert (told["events"], told["items"], told["fits"]) == (600, source.data.n_items, True)
    assert told["seconds"] >= 0
    assert {part["part"] for part in told["parts"]} == set(load("default").parts) - {"graph_filter"}
    assert not rehearse(load("default"), source, free_memory_mb=10).fits


def test_a_recipe_that_can_not_fit_says_which_part_and_what_to_change() -> None:
    large = Size(events=5_000_000, readers=500_000, items=200_000)
    greedy = load("default").changed({"parts.ease.items": 60_000})
    with pytest.raises(
        Invalid, match=r"limits.memory_mb allows 4,096; most of it is part ease .*lower its `items`"
    ):
        refuse_too_large(greedy, large)
    with pytest.raises(Invalid, match="this machine has left 300"):
        refuse_too_large(load("default"), large, memory_mb=300)


def test_a_checkpoint_of_another_release_is_made_anew(
    shelf: Shelf, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "older")
    monkeypatch.setattr(checkpoint, "_COLUMNS", ("reader", "item"))
    kept.put("plan", {"any": 1})
    shelf.write(
        f"runs/{generated_market.APP}/older/data.arrow", checksum(packed(source)).encode() + packed(source)
    )
    monkeypatch.undo()
    assert (kept.source(), kept.get("plan")) == (None, {"any": 1})


# --- sweeps -------------------------------------------------------------------------------------------------------


def test_a_sweep_is_every_combination() -> None:
    found = variants(load("fast"), ["parts.rules.window=5,10", "blend.k=10,20", "name=a"])
    assert [dict(variant.changes) for variant in found] == [
        {"parts.rules.window": window, "blend.k": k, "name": "a"} for window in (5, 10) for k in (10, 20)
    ]
    assert len({variant.name for variant in found}) == 4
    assert found[0].recipe.parts["rules"].window == 5  # type: ignore[union-attr]


def test_a_field_that_is_swept_is_not_tuned_as_well() -> None:
    (variant, _) = variants(load("fast"), ['parts.rules.fading={"half_life_items":2},{"half_life_items":9}'])
    assert "fading" not in variant.recipe.parts["rules"].tune
    assert load("fast").parts["rules"].tune["fading"]


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
def test_a_sweep_that_makes_no_sense_says_why(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        variants(load("fast"), [text])


def test_assignments_are_values_or_texts() -> None:
    assert assignments(["a.b=3", "c=x y", 'd={"e":1}', "f=true"]) == {
        "a.b": 3,
        "c": "x y",
        "d": {"e": 1},
        "f": True,
    }
    with pytest.raises(Invalid, match="is no FIELD=VALUE"):
        assignments(["a"])


def test_a_sweep_goes_on_where_it_was_and_writes_its_comparison(
    shelf: Shelf, source: Source, tmp_path: Path
) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "s", folder="sweeps")
    kept.put_source(source)
    found = variants(load("fast"), ["parts.rules.window=2,10"])
    results = [(variant, attempted(variant, kept)) for variant in found]
    kept.put(found[0].name, {**examine_variant(found[0], kept), "recipe": "remembered"})
    assert examine_variant(found[0], kept)["recipe"] == "remembered"
    table = rows([*results, (Variant((("parts.rules.window", 99),), load("fast")), {"error": "no, thanks"})])
    assert [row["parts.rules.window"] for row in table][-1] == 99
    assert table[0]["ndcg@10"] >= table[1]["ndcg@10"]
    places = write_comparison(shelf, generated_market.APP, "s", table, "fast", tmp_path / "out")
    assert len(places) == 4
    (first, *_) = csv.DictReader(io.StringIO((tmp_path / "out" / "comparison.csv").read_text()))
    assert float(first["ndcg@10"]) == table[0]["ndcg@10"]
    assert "| no, thanks |" in (tmp_path / "out" / "comparison.md").read_text()
    assert as_csv([]) == "\n"
    assert as_markdown([], "x").startswith("# x")


def test_what_goes_wrong_in_a_variant_is_its_result(shelf: Shelf) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "gone", folder="sweeps")
    (variant,) = variants(load("fast"), ["seed=1"])
    assert "data of this sweep is gone" in attempted(variant, kept)["error"]


def test_variants_with_lists_of_other_lengths_are_compared_at_one_length(
    shelf: Shelf, source: Source
) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "lengths", folder="sweeps")
    kept.put_source(source)
    results = [(variant, attempted(variant, kept)) for variant in variants(load("fast"), ["blend.k=5,10,20"])]
    table = rows(results)
    assert [row["error"] for row in table] == ["", "", ""]
    assert all(0 < row["ndcg@10"] <= row["high"] for row in table)
    assert [row["ndcg@10"] for row in table] == sorted((row["ndcg@10"] for row in table), reverse=True)


class Explosive:
    """A learner of somebody else that can't learn."""

    def train(self, data: object, rng: object) -> Any:
        raise RuntimeError("two\nlines")

    def load(self, parts: object) -> Any:
        raise NotImplementedError


def test_a_learner_that_raises_anything_ends_its_variant_only(
    shelf: Shelf, source: Source, allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:Explosive")
    kept = Checkpoints(shelf, generated_market.APP, "explosive", folder="sweeps")
    kept.put_source(source)
    parts = {"x": {"learner": f"{__name__}:Explosive"}}
    recipe = parse({"parts": parts, "blend": {"weights": {"x": 1}, "weights_new": {}}})
    (variant,) = variants(recipe, ["seed=3"])
    found = attempted(variant, kept)
    assert found["error"] == "RuntimeError: two\nlines"
    assert "| RuntimeError: two lines |" in as_markdown(rows([(variant, found)]), "x")


def test_a_complete_sweep_lets_go_of_its_data_and_needs_it_no_more(shelf: Shelf, source: Source) -> None:
    kept = Checkpoints(shelf, generated_market.APP, "complete", folder="sweeps")
    kept.put_source(source)
    (variant,) = variants(load("fast"), ["parts.rules.window=2"])
    let_go(kept, [(variant, {"error": "its worker died"})])
    assert kept.source() is not None
    let_go(kept, [(variant, attempted(variant, kept))])
    assert kept.source() is None
    assert "error" not in attempted(variant, kept)


def test_newer_data_is_another_sweep() -> None:
    found = variants(load("fast"), ["seed=1,2"])
    assert sweep_id(found, {"interaction": "5-0"}) == sweep_id(
        found, {"interaction": "5-0", "product": "9-0"}
    )
    assert sweep_id(found, {"interaction": "5-0"}) != sweep_id(found, {"interaction": "6-0"})


# --- pictures -----------------------------------------------------------------------------------------------------


def test_pictures_are_well_formed_whatever_names_stand_in_them(source: Source) -> None:
    drawn = bars("a < b & c", {"<g>": {"x": Bar(0.5, 0.4, 0.6), '"y"': Bar(0.0)}, "h": {"x": Bar(0.2)}})
    root = ElementTree.fromstring(drawn)
    texts = {element.text for element in root.iter() if element.text}
    assert {"a < b & c", "<g>", '"y"'} <= texts
    assert bars("nothing", {}).startswith("<svg")
    report = evaluated(source.data, load("fast"), "leave_last_out")
    files = pictures([report, {"protocol": "by_time", "error": "too little"}])
    assert set(files) == {"leave_last_out-figures.svg", "leave_last_out-segments.svg"}
    for text in files.values():
        ElementTree.fromstring(text)


def test_the_recipe_of_every_preset_is_sound() -> None:
    for name in ("default", "fast", "sequence", "shop", "session"):
        assert isinstance(load(name), Recipe)
