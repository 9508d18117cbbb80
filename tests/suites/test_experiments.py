"""What the store of experiments promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from cluster.records.experiment import Experiment, Exposure
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.engines.experiments import GUARD
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, require


def an_experiment(slug: str = "one", **fields: Any) -> Experiment:
    """Two variants, half and half."""
    variants = [{"variant_id": name, "name": name, "slug": name} for name in ("a", "b")]
    return Experiment.model_validate(
        {
            "app_id": APP, "experiment_id": f"id-{slug}", "slug": slug, "name": slug, "status": "Active",
            "variants": variants, "entry_salt": f"entry {slug}", "variant_salt": f"variant {slug}", "created_at": NOW,
            **fields,
        }
    )  # fmt: skip


def met(variant_id: str, at_ms: int = NOW, **fields: Any) -> Exposure:
    """Meet a variant."""
    return Exposure(variant_id, at_ms, **fields)


async def test_the_counters_of_guardrails_are_cleared_alone(stores: Stores) -> None:
    await stores.experiments.record_served(APP, "one", {"a:10": 3, f"a:{GUARD}ms": 30, "b:failed": 1})
    await stores.experiments.clear_guard_counts(APP, "one")
    await stores.experiments.clear_guard_counts(APP, "two")
    assert await stores.experiments.served(APP, "one") == {"a:10": 3, "b:failed": 1}


async def test_an_experiment_reads_back_by_id_and_slug(stores: Stores) -> None:
    assert await stores.experiments.version(APP) == 0
    written = require(await stores.experiments.compare_and_set(an_experiment(name="Żółw"), 0))
    assert written.revision == 1
    book = await stores.experiments.read_all(APP)
    assert (book.version, book.experiments) == (1, (written,))
    assert book.find("id-one") == book.find("one") == written
    assert book.find("One") is None
    assert await stores.experiments.version(APP) == 1
    assert (await stores.experiments.read_all(OTHER)).experiments == ()


async def test_only_who_saw_the_newest_book_may_write(stores: Stores) -> None:
    first = require(await stores.experiments.compare_and_set(an_experiment(), 0))
    assert await stores.experiments.compare_and_set(an_experiment("two"), 0) is None
    assert await stores.experiments.compare_and_set(an_experiment(), 1) is None
    second = await stores.experiments.compare_and_set(first.model_copy(update={"name": "changed"}), 1)
    assert second is not None
    assert await stores.experiments.compare_and_set(first, 2) is None
    assert (await stores.experiments.read_all(APP)).experiments == (second,)


async def test_of_many_writers_at_once_one_gets_through(stores: Stores) -> None:
    made = await asyncio.gather(
        *(stores.experiments.compare_and_set(an_experiment(f"n{n}"), 0) for n in range(10))
    )
    assert len([written for written in made if written is not None]) == 1


async def test_a_slug_belongs_to_one_experiment_until_it_is_given_up(stores: Stores) -> None:
    first = require(await stores.experiments.compare_and_set(an_experiment(), 0))
    other = an_experiment(experiment_id="id-other")
    assert await stores.experiments.compare_and_set(other, 1) is None
    assert (
        await stores.experiments.compare_and_set(first.model_copy(update={"slug": "renamed"}), 1) is not None
    )
    assert await stores.experiments.compare_and_set(other, 2) is not None


async def test_a_variant_once_taken_stays(stores: Stores) -> None:
    experiment = an_experiment()
    first = await stores.experiments.assign(experiment, ["u:ada"], met("a", device="phone"), "take")
    assert first == met("a", device="phone", person="u:ada")
    assert await stores.experiments.assign(experiment, ["u:ada"], met("b", NOW + 1), "take") == first
    assert await stores.experiments.assign(experiment, ["u:ada"], None, "take") == first
    assert await stores.experiments.assign(experiment, ["u:bob"], None, "take") is None
    assert await stores.experiments.assign(an_experiment("two"), ["u:ada"], None, "read") is None


async def test_reading_gives_nothing_to_anybody(stores: Stores) -> None:
    experiment = an_experiment()
    assert await stores.experiments.assign(experiment, ["u:ada"], met("a"), "read") is None
    await stores.experiments.assign(experiment, ["a:x"], met("a"), "take")
    exposure = await stores.experiments.assign(experiment, ["u:ada", "a:x"], None, "read")
    assert exposure == met("a", person="a:x")
    assert await stores.experiments.assign(experiment, ["u:ada"], None, "read") is None


async def test_a_visitor_who_signs_in_stays_the_same_person(stores: Stores) -> None:
    experiment = an_experiment()
    visitor = await stores.experiments.assign(experiment, ["a:x"], met("a"), "take")
    assert await stores.experiments.assign(experiment, ["u:ada", "a:x"], met("b"), "take") == visitor
    assert await stores.experiments.assign(experiment, ["u:ada"], met("b"), "take") == visitor


async def test_what_the_user_had_wins_over_what_the_visitor_had(stores: Stores) -> None:
    experiment = an_experiment()
    user = await stores.experiments.assign(experiment, ["u:ada"], met("a"), "take")
    await stores.experiments.assign(experiment, ["a:x"], met("b"), "take")
    assert await stores.experiments.assign(experiment, ["u:ada", "a:x"], met("b"), "take") == user
    assert await stores.experiments.assign(experiment, ["a:x"], met("b"), "take") == user


async def test_a_forced_variant_replaces_what_was_given(stores: Stores) -> None:
    experiment = an_experiment()
    await stores.experiments.assign(experiment, ["a:x"], met("a"), "take")
    forced = await stores.experiments.assign(experiment, ["u:ada", "a:x"], met("b", forced=True), "force")
    assert forced == met("b", forced=True, person="a:x")
    assert await stores.experiments.assign(experiment, ["a:x"], met("a"), "take") == forced


async def test_strangers_add_only_so_many_exposures_a_day(stores: Stores) -> None:
    experiment = an_experiment()
    writer = BrowserWriteLimits("here", NOW, users_per_address=2, users_per_day=3)
    for at in range(4):
        given = require(await stores.experiments.assign(experiment, [f"a:{at}"], met("a"), "take", writer))
        assert given.variant_id == "a"
    elsewhere = replace(writer, address="there")
    for at in range(4, 7):
        await stores.experiments.assign(experiment, [f"a:{at}"], met("b"), "take", elsewhere)
    kept = [
        await stores.experiments.assign(experiment, [f"a:{at}"], None, "read") is not None for at in range(7)
    ]
    assert kept == [True, True, False, False, True, False, False]
    await stores.experiments.assign(experiment, ["a:0"], met("b"), "take", writer)
    assert await stores.experiments.assign(experiment, ["u:ada"], met("b"), "take") is not None


async def test_a_variant_that_is_no_more_counts_as_none(stores: Stores) -> None:
    experiment = an_experiment()
    await stores.experiments.assign(experiment, ["u:ada"], met("gone"), "take")
    exposure = require(await stores.experiments.assign(experiment, ["u:ada"], met("b"), "take"))
    assert exposure.variant_id == "b"


async def test_of_parallel_calls_for_user_and_visitor_all_get_one_variant(stores: Stores) -> None:
    experiment = an_experiment()
    calls = [
        stores.experiments.assign(experiment, ["u:ada", "a:x"], met("ab"[n % 2], NOW + n), "take")
        for n in range(20)
    ]
    assert len(set(await asyncio.gather(*calls))) == 1


async def test_reader_ids_may_hold_anything(stores: Stores) -> None:
    experiment = an_experiment()
    user_keys = ["u:5:u:ada\x1f\n'\"", "a:Łukasz 🌷 " + "x" * 500]
    first = await stores.experiments.assign(experiment, user_keys[1:], met("a"), "take")
    assert await stores.experiments.assign(experiment, user_keys, met("b"), "take") == first
    assert [row async for row in stores.experiments.exposures(APP, experiment.experiment_id)] != []
    assert await stores.experiments.erase_exposures(APP, [user_keys[0]]) == 0, "no such experiment yet"
    await stores.experiments.compare_and_set(experiment, 0)
    assert await stores.experiments.erase_exposures(APP, [user_keys[0]]) == 2


async def test_all_exposures_can_be_gone_through(stores: Stores) -> None:
    experiment = an_experiment()
    for n in range(1_200):
        await stores.experiments.assign(experiment, [f"u:{n}"], met("ab"[n % 2], NOW + n), "take")
    exposures = {
        user_key: exposure async for user_key, exposure in stores.experiments.exposures(APP, "id-one")
    }
    assert exposures == {f"u:{n}": met("ab"[n % 2], NOW + n, person=f"u:{n}") for n in range(1_200)}


async def test_with_a_person_all_their_ids_are_forgotten_and_nobody_elses(stores: Stores) -> None:
    experiment = await stores.experiments.compare_and_set(an_experiment(), 0)
    two = await stores.experiments.compare_and_set(an_experiment("two"), 1)
    assert experiment is not None
    assert two is not None
    await stores.experiments.assign(experiment, ["a:x"], met("a"), "take")
    await stores.experiments.assign(experiment, ["u:ada", "a:x"], None, "take")
    await stores.experiments.assign(experiment, ["u:ada", "a:y"], None, "take")
    await stores.experiments.assign(two, ["u:ada"], met("b"), "take")
    await stores.experiments.assign(two, ["u:bob"], met("b"), "take")
    await stores.interactions.erase(APP, ["ada"])
    left = [row async for row in stores.experiments.exposures(APP, "id-one")]
    assert left == []
    assert [user_key async for user_key, _ in stores.experiments.exposures(APP, "id-two")] == ["u:bob"]


async def test_counts_of_what_was_served_add_up(stores: Stores) -> None:
    await stores.experiments.record_served(APP, "id-one", {"a:count": 2, "a:under_10": 1})
    await stores.experiments.record_served(APP, "id-one", {"a:count": 3})
    assert await stores.experiments.served(APP, "id-one") == {"a:count": 5, "a:under_10": 1}
    assert await stores.experiments.served(APP, "id-two") == {}
