"""An administrator leads experiments through their lives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.experiments.lifecycle import ExperimentLifecycle
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine
from cluster.records.experiment import Experiment, ExperimentUpdate
from cluster.store.stores import Stores
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

APP = "shop"
TWO = [{"name": "Now"}, {"name": "Blue"}]


@pytest.fixture
def stores(clock: StillClock) -> Stores:
    return memory_stores(clock)


@pytest.fixture
def lifecycle(stores: Stores, clock: StillClock) -> ExperimentLifecycle:
    return ExperimentLifecycle(stores, clock)


def draft(name: str = "Blue buttons", **fields: Any) -> dict[str, Any]:
    return {"name": name, "variants": TWO, "reports_exposure": True, **fields}


async def test_a_draft_becomes_an_experiment_with_new_ids_slugs_and_salts(
    lifecycle: ExperimentLifecycle,
) -> None:
    first, second = await lifecycle.create(APP, [draft("Żółte przyciski, 2!"), draft("Red")])
    assert (first.slug, first.status, first.revision) == ("zote-przyciski-2", "Draft", 1)
    assert [variant.slug for variant in first.variants] == ["now", "blue"]
    salts = {first.entry_salt, first.variant_salt, second.entry_salt, second.variant_salt}
    assert len(salts) == 4
    assert await lifecycle.list_experiments(APP) == [first, second]
    assert await lifecycle.get(APP, first.experiment_id) == await lifecycle.get(APP, first.slug) == first


@pytest.mark.parametrize(
    ("drafts", "words"),
    [
        ([7], "experiments.0 is invalid. An experiment is an object"),
        ([{"variants": TWO}], "experiments.0.slug is invalid"),
        ([draft(), {"name": "x"}], "experiments.1.variants is invalid. "),
        ([draft(variants=[{"name": "a"}, {"name": "a"}])], "variants need ids, names and slugs of their own"),
        ([draft(variants=[{"name": "a", "weight": 0}])], "at least one variant needs a weight above 0"),
        ([draft(variants=[{"name": "a", "weight": -1}])], "experiments.0.variants.0.weight is invalid. "),
        ([draft(variants=["a"])], "experiments.0.variants.0 is invalid. "),
        ([draft(slice=[0, 0.5])], "a slice is a part of a layer; name the layer"),
        ([draft(layer="x", slice=[0.5, 0.2])], "slice goes from a smaller to a larger number"),
        ([draft(traffic=1.5)], "experiments.0.traffic is invalid. "),
        ([draft(goal=["bought"])], "There is no interaction of type 'bought'"),
        ([draft(status="Active")], "experiments.0.status is invalid. It is not for a draft to say"),
        ([draft(colour="red")], "experiments.0.colour is invalid. "),
        ([draft(), draft()], "There are two experiments 'blue-buttons' in the file"),
    ],
)
async def test_an_invalid_draft_is_reported_and_creates_nothing(
    lifecycle: ExperimentLifecycle, drafts: list[Any], words: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await lifecycle.create(APP, drafts)
    assert words.lower() in caught.value.message.lower()
    assert await lifecycle.list_experiments(APP) == []


async def test_a_slug_is_taken_once(lifecycle: ExperimentLifecycle) -> None:
    await lifecycle.create(APP, [draft()])
    with pytest.raises(Conflict, match="blue-buttons"):
        await lifecycle.create(APP, [draft("Red"), draft()])
    assert len(await lifecycle.list_experiments(APP)) == 1


async def test_a_life_from_draft_to_archive(lifecycle: ExperimentLifecycle, clock: StillClock) -> None:
    await lifecycle.create(APP, [draft()])
    assert (await lifecycle.start(APP, "blue-buttons")).is_running_at(clock.now_ms())
    clock.pass_ms(10)
    paused = await lifecycle.pause(APP, "blue-buttons")
    assert (paused.status_at(clock.now_ms()), paused.is_running_at(clock.now_ms() + 10**9)) == (
        "Scheduled",
        False,
    )
    assert (await lifecycle.start(APP, "blue-buttons")).is_running_at(clock.now_ms())
    done = await lifecycle.complete(APP, "blue-buttons")
    assert (done.status, done.is_running_at(clock.now_ms() + 1)) == ("Completed", False)
    assert (await lifecycle.archive(APP, "blue-buttons")).status == "Archived"


async def test_what_the_clock_began_can_be_paused_and_what_it_ended_archived(
    lifecycle: ExperimentLifecycle, clock: StillClock
) -> None:
    await lifecycle.create(APP, [draft(), draft("Red")])
    now_ms = clock.now_ms()
    for slug in ("blue-buttons", "red"):
        await lifecycle.schedule(APP, slug, now_ms + 10, now_ms + 20)
    clock.pass_ms(10)
    assert (await lifecycle.get(APP, "red")).status_at(clock.now_ms()) == "Active"
    await lifecycle.pause(APP, "blue-buttons")
    clock.pass_ms(10)
    assert (await lifecycle.get(APP, "red")).status_at(clock.now_ms()) == "Completed"
    await lifecycle.archive(APP, "red")
    assert (await lifecycle.start(APP, "blue-buttons")).ends_at is None


@pytest.mark.parametrize(
    ("before", "step", "words"),
    [
        ([], "complete", "is Draft; from there it can become Active, Archived, Scheduled, not Completed"),
        ([], "pause", "is Draft; only what is Active can be paused"),
        (["start"], "archive", "is Active; from there it can become Completed, Scheduled, not Archived"),
        (["start"], "start", "is Active; from there"),
        (["start", "complete"], "start", "is Completed; from there it can become Archived, not Active"),
        (["archive"], "start", "is Archived; from there it can become nothing else, not Active"),
        (["start", "pause"], "complete", "is Scheduled; from there"),
    ],
)
async def test_illegal_steps_are_refused_and_change_nothing(
    lifecycle: ExperimentLifecycle, before: list[str], step: str, words: str
) -> None:
    await lifecycle.create(APP, [draft()])
    for earlier in before:
        await getattr(lifecycle, earlier)(APP, "blue-buttons")
    stood = await lifecycle.get(APP, "blue-buttons")
    with pytest.raises(Invalid) as caught:
        await getattr(lifecycle, step)(APP, "blue-buttons")
    assert words in caught.value.message
    assert await lifecycle.get(APP, "blue-buttons") == stood


async def test_a_schedule_needs_moments_that_make_sense(
    lifecycle: ExperimentLifecycle, clock: StillClock
) -> None:
    await lifecycle.create(APP, [draft()])
    now_ms = clock.now_ms()
    with pytest.raises(Invalid, match="is past"):
        await lifecycle.schedule(APP, "blue-buttons", now_ms)
    with pytest.raises(Invalid, match="after the start"):
        await lifecycle.schedule(APP, "blue-buttons", now_ms + 5, now_ms + 5)
    await lifecycle.start(APP, "blue-buttons")
    with pytest.raises(Invalid, match="pause it before"):
        await lifecycle.schedule(APP, "blue-buttons", now_ms + 5)


async def test_slices_of_a_layer_that_overlap_never_run_at_once(
    lifecycle: ExperimentLifecycle, clock: StillClock
) -> None:
    first = draft("first", layer="home", slice=[0, 0.5])
    second = draft("second", layer="home", slice=[0.4, 1])
    beside = draft("beside", layer="home", slice=[0.5, 1])
    elsewhere = draft("elsewhere", layer="cart", slice=[0, 1])
    await lifecycle.create(APP, [first, second, beside, elsewhere])
    await lifecycle.start(APP, "first")
    with pytest.raises(Conflict, match=r"layer home one has 0\.4 to 1 and the other 0 to 0\.5"):
        await lifecycle.start(APP, "second")
    await lifecycle.start(APP, "beside")
    await lifecycle.start(APP, "elsewhere")
    await lifecycle.pause(APP, "first")
    with pytest.raises(Conflict):
        await lifecycle.schedule(APP, "second", clock.now_ms() + 1_000)
    for slug in ("first", "beside"):
        if slug == "first":
            await lifecycle.start(APP, slug)
        await lifecycle.complete(APP, slug)
    await lifecycle.start(APP, "second")


async def test_slices_may_be_shared_at_different_times(
    lifecycle: ExperimentLifecycle, clock: StillClock
) -> None:
    await lifecycle.create(APP, [draft(name, layer="home") for name in ("may", "june", "both")])
    now_ms = clock.now_ms()
    await lifecycle.schedule(APP, "may", now_ms + 10, now_ms + 20)
    await lifecycle.schedule(APP, "june", now_ms + 20, now_ms + 30)
    with pytest.raises(Conflict):
        await lifecycle.schedule(APP, "both", now_ms + 19, now_ms + 21)


async def test_of_two_who_want_one_part_of_a_layer_at_once_one_gets_it(
    lifecycle: ExperimentLifecycle,
) -> None:
    await lifecycle.create(APP, [draft(f"n{n}", layer="home") for n in range(4)])
    done = await asyncio.gather(*(lifecycle.start(APP, f"n{n}") for n in range(4)), return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in done) == 3


async def test_what_a_variant_needs_has_to_be_there_before_it_starts(
    lifecycle: ExperimentLifecycle, stores: Stores
) -> None:
    variants = [{"name": "a"}, {"name": "b", "engine_id": "news", "boost_rule": "sale"}]
    await lifecycle.create(APP, [draft(variants=variants)])
    with pytest.raises(NotFound, match="variant b: app shop has no engine 'news'"):
        await lifecycle.start(APP, "blue-buttons")
    await stores.engines.put(Engine(app_id=APP, engine_id="news"))
    with pytest.raises(NotFound, match="has no stored rule 'sale'"):
        await lifecycle.start(APP, "blue-buttons")
    await stores.boost_rules.put(APP, [BoostRule(name="sale", boost_fq="brand:x")])
    assert (await lifecycle.start(APP, "blue-buttons")).serves


async def test_an_unknown_experiment_raises(lifecycle: ExperimentLifecycle) -> None:
    with pytest.raises(NotFound, match="app shop has no experiment 'x'; see `kiosk experiments list shop`"):
        await lifecycle.start(APP, "x")


@pytest.mark.parametrize(
    "variants",
    [TWO, [{"name": "a"}], [{"name": "a", "engine_id": "news"}, {"name": "b", "engine_id": "news"}]],
)
async def test_variants_that_serve_the_same_need_a_shop_that_reports_exposure(
    lifecycle: ExperimentLifecycle, stores: Stores, clock: StillClock, variants: list[dict[str, str]]
) -> None:
    await stores.engines.put(Engine(app_id=APP, engine_id="news"))
    await lifecycle.create(APP, [draft(variants=variants, reports_exposure=False)])
    with pytest.raises(Invalid, match="all variants serve the same, so no user would be counted"):
        await lifecycle.start(APP, "blue-buttons")
    with pytest.raises(Invalid, match="set reports_exposure if your shop reports"):
        await lifecycle.schedule(APP, "blue-buttons", clock.now_ms() + 10)
    assert (await lifecycle.get(APP, "blue-buttons")).status == "Draft"
    await lifecycle.edit(APP, "blue-buttons", ExperimentUpdate(reports_exposure=True))
    assert (await lifecycle.start(APP, "blue-buttons")).status == "Active"


@pytest.mark.parametrize(
    "variants",
    [
        [{"name": "a"}, {"name": "b", "engine_id": "news"}],
        [{"name": "a"}, {"name": "b", "configuration": {"free": 5}}],
        [{"name": "a", "engine_id": "news"}],
    ],
)
async def test_variants_that_differ_start(
    lifecycle: ExperimentLifecycle, stores: Stores, variants: list[dict[str, Any]]
) -> None:
    await stores.engines.put(Engine(app_id=APP, engine_id="news"))
    await lifecycle.create(APP, [draft(variants=variants, reports_exposure=False)])
    assert (await lifecycle.start(APP, "blue-buttons")).status == "Active"


def test_an_experiment_stored_before_the_field_loads() -> None:
    stored = {
        "app_id": APP, "experiment_id": "e", "slug": "e", "name": "e", "entry_salt": "entry-salt",
        "variant_salt": "variant-salt", "variants": [{"variant_id": "v", "name": "v", "slug": "v"}],
    }  # fmt: skip
    assert not Experiment.model_validate(stored).reports_exposure
