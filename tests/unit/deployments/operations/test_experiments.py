"""Use cases of experiments over the corner shop, and the sample size that they suggest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from actors.experiments.assignment import ExperimentCache, TreatmentAssigner
from actors.experiments.sample_size import estimate_sample_size
from actors.experiments.statistics import VariantSample, compare_samples
from actors.intake.segment_rows import build_compaction_batch
from actors.recommender.messages import UserQuery
from actors.serving.treatments import apply_treatments
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.clock import iso_ms
from cluster.errors import Forbidden, Invalid, NotFound
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine, Promotion
from cluster.records.experiment import Experiment
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.seals.record_seal import parse_record, record_json
from tests.fakes.admin_shop import AdminShop
from tests.fakes.corner_shop import APP, NOW_MS
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot

DRAFT = {
    "name": "Paywall",
    "slug": "paywall",
    "reports_exposure": True,
    "variants": [{"name": "three"}, {"name": "five"}],
}


async def test_an_experiment_is_made_run_reported_and_concluded(shop: AdminShop) -> None:
    await shop.perform("experiments.create", experiments=[DRAFT])
    assert (await shop.perform("experiments.get", experiment="paywall")).status == "Draft"
    assert (await shop.perform("experiments.start", experiment="paywall")).status == "Active"
    edited = await shop.perform("experiments.edit", experiment="paywall", weights={"five": 3})
    assert [variant.weight for variant in edited.experiment.variants] == [1, 3]
    report = await shop.perform("experiments.report", role="viewer", experiment="paywall")
    assert [line.people for line in report.lines] == [0, 0]
    assert not report.split.mismatch
    assert (await shop.perform("experiments.pause", experiment="paywall")).status == "Scheduled"
    assert (await shop.perform("experiments.start", experiment="paywall")).status == "Active"
    assert (await shop.perform("experiments.complete", experiment="paywall")).status == "Completed"
    assert (await shop.perform("experiments.archive", experiment="paywall")).status == "Archived"
    changes = [row for row in shop.audit.rows if row.operation == "experiments.complete"]
    assert (changes[0].before["status"], changes[0].after["status"]) == ("Active", "Completed")


async def test_goals_and_guardrails_are_described_or_named(shop: AdminShop) -> None:
    margin = {"name": "margin", "types": ["checkout"], "value": "custom_context.margin", "per": ["checkout"]}
    draft = {**DRAFT, "goals": ["revenue", margin], "primary": "margin", "guardrails": ["latency", "revenue"]}
    (made,) = (await shop.perform("experiments.create", experiments=[draft])).experiments
    assert [goal.name for goal in made.goals] == ["revenue", "margin"]
    assert made.guardrails == {"latency": 50, "revenue": 0}
    await shop.perform("experiments.start", experiment="paywall")
    edited = await shop.perform("experiments.edit", experiment="paywall", guardrails={"latency": 20})
    assert edited.experiment.guardrails == {"latency": 20, "revenue": 0}
    with pytest.raises(Invalid, match="no guardrail 'speed'"):
        await shop.perform("experiments.edit", experiment="paywall", guardrails={"speed": 20})
    report = await shop.perform("experiments.report", experiment="paywall")
    assert [goal.goal.name for goal in report.goals] == ["margin", "conversion", "revenue"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"goals": ["income"]}, "goals"),
        ({"goals": [{"name": "x", "types": ["purchase"]}]}, "no interaction of type 'purchase'"),
        ({"goals": [{"name": "x", "types": ["click"], "value": "custom_context.a.b"}]}, "value"),
        ({"goals": [{"name": "x", "types": ["click"], "per": ["click"]}]}, "A ratio needs a value"),
        ({"goals": [{"name": "conversion", "types": ["click"]}]}, "choose another name"),
        ({"goals": ["revenue", "revenue"]}, "names of their own"),
        ({"primary": "revenue"}, "not among the goals"),
        ({"segments": ["user.a.b"]}, "segments"),
        ({"guardrails": {"latency": -1}}, "guardrails"),
        ({"guardrails": {"speed": 1}}, "no guardrail 'speed'"),
        ({"paused_by": "latency"}, "not for a draft"),
    ],
)
async def test_drafts_whose_goals_make_no_sense_are_refused(
    shop: AdminShop, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await shop.perform("experiments.create", experiments=[{**DRAFT, **fields}])


async def test_a_plan_measures_what_is_not_given(shop: AdminShop) -> None:
    with pytest.raises(Invalid, match="no conversion in the last 14 days"):
        await shop.perform("experiments.plan", relative_lift=0.1)
    rng, day_ms, now_ms = np.random.default_rng(6), 86_400_000, shop.corner.clock.now_ms()
    items = []
    for number in range(1_400):
        activity = rng.gamma(2.0, 0.5)
        items.append((number, "like", now_ms - day_ms, None))
        for before_ms in (day_ms, 20 * day_ms):
            if rng.random() < 0.3 * activity:
                items.append((number, "checkout", now_ms - before_ms, round(40 * activity, 2)))
    payload = orjson.dumps(
        [
            {"type": kind, "user_id": f"p{number}", "timestamp": iso_ms(at), "product_ids": ["p"]}
            | ({} if revenue is None else {"revenue": revenue})
            for number, kind, at, revenue in items
        ]
    )
    offset = f"{now_ms}-0"
    batch = build_compaction_batch("interaction", [ChangeLogEntry("interaction", offset, "put", payload)])
    segments = SegmentStore(shop.services.artifacts)
    segments.append(APP, "interaction", batch.table, first=offset, last=offset)
    recent = [item for item in items if item[2] == now_ms - day_ms]
    rate = sum(kind == "checkout" for _, kind, _, _ in recent) / 1_400
    plan = await shop.perform("experiments.plan", role="viewer", relative_lift=0.1)
    given = await shop.perform("experiments.plan", relative_lift=0.1, rate=rate, people_per_day=100)
    assert plan.to_dict()["assumed"] == {**given.to_dict()["assumed"], "measured": True} | {
        "spread": plan.spread
    }
    assert (plan.size, plan.people_per_day, plan.is_measured) == (given.size, 100, True)
    value = await shop.perform("experiments.plan", relative_lift=0.1, goal="revenue")
    assert value.mean == pytest.approx(sum(revenue or 0 for *_, revenue in recent) / 1_400)
    assert 0.1 < value.correlation < 0.9
    plain = await shop.perform(
        "experiments.plan", relative_lift=0.1, mean=value.mean, spread=value.spread, people_per_day=100
    )
    assert value.size.per_variant == pytest.approx(
        plain.size.per_variant * (1 - value.correlation**2), rel=0.1
    )
    assert "Measured over the last 14 days" in value.to_lines()[1]


async def test_refusals_of_experiments(shop: AdminShop) -> None:
    with pytest.raises(Forbidden):
        await shop.perform("experiments.create", role="analyst", experiments=[DRAFT])
    with pytest.raises(NotFound, match="no experiment 'x'"):
        await shop.perform("experiments.get", experiment="x")
    await shop.perform("experiments.create", experiments=[DRAFT])
    with pytest.raises(Invalid, match="at least one thing"):
        await shop.perform("experiments.edit", experiment="paywall")
    with pytest.raises(Invalid, match="only what is Active can be paused"):
        await shop.perform("experiments.pause", experiment="paywall")
    with pytest.raises(Invalid, match="relative_lift is 0"):
        await shop.perform("experiments.plan", rate=0.1, relative_lift=0)
    with pytest.raises(Invalid, match="would be 1 or more"):
        await shop.perform("experiments.plan", rate=0.6, relative_lift=1)
    with pytest.raises(Invalid, match="not both"):
        await shop.perform("experiments.plan", rate=0.6, mean=1, spread=1, relative_lift=0.1)
    with pytest.raises(Invalid, match="go together"):
        await shop.perform("experiments.plan", mean=1, relative_lift=0.1)
    with pytest.raises(Invalid, match="no goal 'income'"):
        await shop.perform("experiments.plan", goal="income", relative_lift=0.1)


@pytest.mark.parametrize(("rate", "lift"), [(1e-7, 1e-7), (1e-300, 1e-9), (5e-324, 1.0), (0.1, 1e-15)])
def test_differences_that_nobody_finds_have_a_size_that_can_be_written(rate: float, lift: float) -> None:
    size = estimate_sample_size(rate, lift, people_per_day=1e-300)
    assert (size.per_variant, size.total, size.days) == (None, None, None)
    assert 0 < size.fixed_per_variant <= 10**15
    assert estimate_sample_size(0.2, 0.15, people_per_day=5e-324).days == 10**9


def test_the_sample_size_finds_the_difference_with_the_power_it_promises() -> None:
    rate, lift = 0.2, 0.15
    people = estimate_sample_size(rate, lift, power=0.8).per_variant
    assert people is not None
    rng = np.random.default_rng(0)
    control, treated = (rng.binomial(people, probability, 2000) for probability in (rate, rate * (1 + lift)))
    decided = sum(
        compare_samples(
            VariantSample.from_conversions(people, int(before)),
            VariantSample.from_conversions(people, int(after)),
        ).low
        > 0
        for before, after in zip(control, treated, strict=True)
    )
    assert 0.77 < decided / 2000 < 0.83


def test_the_sample_size_grows_with_variants_and_power() -> None:
    plain = estimate_sample_size(0.04, 0.1)
    assert plain.fixed_per_variant == 39_473
    assert plain.per_variant is not None
    assert plain.total == 2 * plain.per_variant > 2 * plain.fixed_per_variant
    more = estimate_sample_size(0.04, 0.1, variants=4, people_per_day=1000)
    assert more.per_variant is not None
    assert more.per_variant > plain.per_variant
    assert more.days == -(-4 * more.per_variant // 1000)
    assert estimate_sample_size(0.001, 0.0001).per_variant is None


async def test_a_replica_of_a_release_without_interleaving_gives_everybody_the_first_side(
    shop: AdminShop,
) -> None:
    stores = shop.services.stores
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v1"))
    await stores.engines.put(Engine(app_id=APP, engine_id="rival", snapshot="v2"))
    await shop.perform("experiments.interleave", name="Sides", rival_engine="rival")
    (experiment,) = (await stores.experiments.read_all(APP)).experiments
    assert experiment.method == "interleave"
    # that release keeps the field without knowing what it means
    record = orjson.loads(record_json(experiment))
    record["a_field_of_later"] = record.pop("method")
    earlier = parse_record(Experiment, orjson.dumps(record))
    assert earlier.model_extra == {"a_field_of_later": "interleave"}
    other = memory_stores(shop.services.clock)
    await other.experiments.compare_and_set(earlier.model_copy(update={"revision": 0}), 0)
    cache = ExperimentCache(other.experiments, shop.services.clock)
    assigner = TreatmentAssigner(other.experiments, cache, shop.services.clock)
    for number in range(500):
        query = UserQuery("user_to_products", APP, "default", user_id=f"p{number}", rows=5)
        treatments = await assigner.assign(APP, "default", query.user_keys, through=query.kind)
        assert [treatment.variant.slug for treatment in treatments] == ["first"]
        treated = apply_treatments(query, treatments, shop.services.now_ms())
        assert (treated.engine_id, treated.snapshot, treated.interleaving) == ("default", "v1", None)


async def test_snapshots_are_listed_outside_the_event_loop(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    list_versions = SnapshotStore.versions

    def list_slowly(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return list_versions(*args)

    monkeypatch.setattr(SnapshotStore, "versions", list_slowly)
    variants = [{"name": "old"}, {"name": "new", "snapshot": "v2"}]
    await shop.perform("experiments.create", experiments=[{**DRAFT, "variants": variants}])
    starts: tuple[tuple[str, dict[str, int]], ...] = (
        ("start", {}),
        ("schedule", {"starts_at": NOW_MS + 1000}),
    )
    for step, times in starts:
        with pytest.raises(NotFound, match="no snapshot 'v2'"):
            await shop.perform(f"experiments.{step}", experiment="paywall", **times)
    assert threads
    assert threading.main_thread() not in threads


async def test_only_a_snapshot_of_the_engine_is_promoted_and_the_report_names_the_promotion(
    shop: AdminShop, tmp_path: Path
) -> None:
    stores = shop.services.stores
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v1"))
    await stores.engines.put(Engine(app_id=APP, engine_id="rival", snapshot="v2"))
    version = publish_ring_snapshot(SnapshotStore(shop.services.artifacts), tmp_path / "new", APP, seed=6)
    given = {"name": "New", "snapshot": version, "promote_when_better": True}
    with pytest.raises(Invalid, match="only a snapshot of the same engine can be promoted"):
        await shop.perform("experiments.interleave", **{**given, "rival_engine": "rival"})
    with pytest.raises(Invalid, match="needs the environment production and automatic_models=true"):
        await shop.perform("experiments.interleave", **given)
    settings = AppSettings(automatic_models=True)
    app = App(app_id=APP, environment="production", created_at=0, settings=settings)
    await stores.access.put_app(app)
    await shop.perform("experiments.interleave", **given)
    view = await shop.perform("experiments.interleaving", experiment="new")
    assert view.to_lines()[-1] == f"It promotes {version} once users certainly prefer it."
    entry = Promotion(
        app_id=APP, engine_id="default", version=version, before="v1", at_ms=NOW_MS,
        evidence={"experiment_id": view.report.experiment.experiment_id},
    )  # fmt: skip
    assert await stores.promotions.promote(entry)
    await shop.perform("experiments.complete", experiment="new")
    view = await shop.perform("experiments.interleaving", experiment="new")
    assert (view.to_dict()["promoted_at"], view.to_dict()["promote_when_better"]) == (iso_ms(NOW_MS), True)
    assert view.to_lines()[-1] == f"It promoted {version} at {iso_ms(NOW_MS)[:16]} UTC."
