"""Salted hashing.

The assigner, and the way to it while it is away.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from actors.experiments.assignment import (
    MAX_AGE_S,
    ExperimentAssigner,
    hash_position,
    is_eligible,
    select_variant,
)
from actors.experiments.client import ACTOR_RETRY_S, ActorExperimentClient, LocalExperimentClient
from actors.experiments.lifecycle import ExperimentLifecycle
from actors.experiments.messages import EXPERIMENT_MESSAGES, Assignment, ExperimentEvent
from cluster.errors import NotFound, Unavailable, messages
from cluster.records.experiment import Experiment, Variant
from cluster.store.engines.experiments import ExperimentBook
from cluster.store.stores import Stores
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import APP
from tests.suites.test_experiments import an_experiment

VECTORS = [
    ("salt", "u:ada", 0.8538240338385897),
    ("salt", "a:ada", 0.7497199796638994),
    ("", "", 0.006748622698109608),
    ("entry-5f0c", "u:Łukasz", 0.577488983969),
]


def experiment(weights: tuple[float, ...] = (1, 1), **about: object) -> Experiment:
    variants = tuple(
        Variant(variant_id=f"v{at}", name=f"V{at}", slug=f"v{at}", weight=weight)
        for at, weight in enumerate(weights)
    )
    given = {"entry_salt": "entry-salt-1", "variant_salt": "variant-salt-1", **about}
    return Experiment(
        app_id="shop", experiment_id="e1", slug="e1", name="E1", status="Active", variants=variants, **given
    )


@pytest.mark.parametrize(("salt", "user_key", "position"), VECTORS)
def test_places_are_the_published_ones(salt: str, user_key: str, position: float) -> None:
    assert hash_position(salt, user_key) == position


@pytest.mark.parametrize("weights", [(1, 1), (9, 1), (50, 30, 20), (1, 0, 3), (1,) * 7])
def test_readers_are_split_by_weight(weights: tuple[float, ...]) -> None:
    compared = experiment(weights)
    count = 40_000
    got = Counter(select_variant(compared, f"u:{number}").variant_id for number in range(count))
    expected = [count * weight / sum(weights) for weight in weights if weight]
    seen = [got[f"v{at}"] for at, weight in enumerate(weights) if weight]
    assert sum(seen) == count
    if len(seen) > 1:
        assert stats.chisquare(seen, expected).pvalue > 1e-4


def test_salts_are_independent_of_each_other() -> None:
    places = np.array(
        [[hash_position(salt, f"u:{number}") for salt in ("a-1", "a-2", "b")] for number in range(20_000)]
    )
    for left, right in itertools.combinations(range(3), 2):
        table = np.histogram2d(places[:, left], places[:, right], bins=10)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_experiments_of_one_layer_never_share_a_reader() -> None:
    first = experiment(layer="page", slice=(0.0, 0.4))
    second = experiment(layer="page", slice=(0.4, 1.0), entry_salt="another-salt")
    takers = [(is_eligible(first, f"u:{n}"), is_eligible(second, f"u:{n}")) for n in range(5_000)]
    assert all(sum(pair) == 1 for pair in takers)
    assert 0.36 < np.mean([pair[0] for pair in takers]) < 0.44


def test_more_traffic_keeps_everybody_who_took_part() -> None:
    small, large = experiment(traffic=0.2), experiment(traffic=0.5)
    user_keys = [f"u:{number}" for number in range(5_000)]
    before = {user_key for user_key in user_keys if is_eligible(small, user_key)}
    after = {user_key for user_key in user_keys if is_eligible(large, user_key)}
    assert before < after
    assert all(select_variant(small, user_key) == select_variant(large, user_key) for user_key in before)


def test_a_paused_variant_takes_nobody() -> None:
    compared = experiment()
    paused = compared.model_copy(
        update={
            "variants": (compared.variants[0], compared.variants[1].model_copy(update={"status": "Paused"}))
        }
    )
    assert {select_variant(paused, f"u:{number}").slug for number in range(100)} == {"v0"}


EVENT = ExperimentEvent(APP, "one", "ada", "x")


@pytest.fixture
def stores(clock: StillClock) -> Stores:
    return memory_stores(clock)


async def put(stores: Stores, *slugs: str, **fields: Any) -> None:
    for slug in slugs:
        version = await stores.experiments.version(APP)
        assert await stores.experiments.compare_and_set(an_experiment(slug, **fields), version) is not None


async def given(assigner: ExperimentAssigner, event: ExperimentEvent) -> Assignment:
    return await assigner.record(event)


async def test_whoever_asks_gets_the_same_variant(stores: Stores, clock: StillClock) -> None:
    await put(stores, "one")
    assigners = [ExperimentAssigner(stores.experiments, clock) for _ in range(3)]
    replies = [await given(assigner, EVENT) for assigner in assigners for _ in range(2)]
    assert {(reply.in_experiment, reply.variant.variant_id) for reply in replies} == {
        (True, replies[0].variant.variant_id)
    }
    ((_, exposure), _) = [row async for row in stores.experiments.exposures(APP, "id-one")]
    assert (exposure.person, exposure.at_ms) == ("u:ada", clock.now_ms())


async def test_a_new_experiment_is_visible_at_once(stores: Stores, clock: StillClock) -> None:
    assigner = ExperimentAssigner(stores.experiments, clock)
    with pytest.raises(NotFound, match=messages.EXPERIMENT_NOT_FOUND):
        await assigner.record(EVENT)
    await put(stores, "one")
    assert (await given(assigner, EVENT)).in_experiment


async def test_a_change_is_in_force_within_a_moment(stores: Stores, clock: StillClock) -> None:
    assigner = ExperimentAssigner(stores.experiments, clock)
    await put(stores, "one")
    assert (await given(assigner, EVENT)).in_experiment
    await ExperimentLifecycle(stores, clock).complete(APP, "one")
    clock.pass_ms(int(MAX_AGE_S * 1000))
    over = await given(assigner, EVENT)
    assert not over.in_experiment


async def test_after_a_quiet_hour_all_who_come_at_once_see_the_newest(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one")
    slow: Any = _Away(stores)
    assigner = ExperimentAssigner(slow, clock)
    await given(assigner, EVENT)
    await ExperimentLifecycle(stores, clock).complete(APP, "one")
    clock.pass_ms(3_600_000)
    replies = await asyncio.gather(*(given(assigner, EVENT) for _ in range(5)))
    assert [reply.in_experiment for reply in replies] == [False] * 5


async def test_who_has_a_variant_keeps_it_while_it_is_over_and_nobody_new_is_remembered(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one", ends_at=clock.now_ms() + 5)
    assigner = ExperimentAssigner(stores.experiments, clock)
    before = await given(assigner, replace(EVENT, variant_name="b"))
    clock.pass_ms(5)
    assert await given(assigner, EVENT) == Assignment(False, before.variant)
    assert await given(assigner, ExperimentEvent(APP, "one", "bob", variant_name="b")) == Assignment(
        False, before.variant
    )
    assert (await given(assigner, ExperimentEvent(APP, "one", "bob"))).variant.variant_id == "a"


async def test_the_event_time_counts_unless_it_is_implausible(stores: Stores, clock: StillClock) -> None:
    now_ms = clock.now_ms()
    await put(stores, "one", starts_at=now_ms - 100)
    assigner = ExperimentAssigner(stores.experiments, clock)
    for name, at_ms in (("good", now_ms - 50), ("future", now_ms + 1), ("early", now_ms - 101)):
        await given(assigner, ExperimentEvent(APP, "one", name, at_ms=at_ms))
    times = {
        user_key: exposure.at_ms async for user_key, exposure in stores.experiments.exposures(APP, "id-one")
    }
    assert times == {"u:good": now_ms - 50, "u:future": now_ms, "u:early": now_ms}


async def test_readers_outside_of_the_traffic_see_the_control_and_are_not_remembered(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one", traffic=0)
    reply = await given(ExperimentAssigner(stores.experiments, clock), EVENT)
    assert (reply.in_experiment, reply.variant.variant_id) == (False, "a")
    assert [row async for row in stores.experiments.exposures(APP, "id-one")] == []


class _Away:
    """A store that is away from some moment on."""

    def __init__(self, stores: Stores) -> None:
        self.there = True
        self._store: Any = stores.experiments

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            await asyncio.sleep(0)
            if not self.there:
                raise Unavailable("away", retry_after_s=1)
            return await getattr(self._store, name)(*args)

        return call


async def test_while_the_store_is_away_an_event_is_refused_with_a_time_to_come_back(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one")
    away: Any = _Away(stores)
    client = LocalExperimentClient(away, clock)
    await client.record(EVENT)
    away.there = False
    with pytest.raises(Unavailable) as caught:
        await client.record(EVENT)
    assert caught.value.facts["retry_after_s"] == 1


async def test_while_the_store_is_away_what_is_served_still_follows_the_hash(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one", variants=_TREATED)
    away: Any = _Away(stores)
    treatments = LocalExperimentClient(away, clock).treatments
    before = await treatments.assign(APP, "default", ["u:ada"], through="user_to_products")
    away.there = False
    clock.pass_ms(10_000)
    assert await treatments.assign(APP, "default", ["u:ada"], through="user_to_products") == before
    fresh = LocalExperimentClient(away, clock).treatments
    assert await fresh.assign(APP, "default", ["u:ada"], through="user_to_products") == ()


# --- what we serve ourselves ------------------------------------------------------------------------------------

_TREATED = [
    {"variant_id": "a", "name": "a", "slug": "a"},
    {"variant_id": "b", "name": "b", "slug": "b", "engine_id": "news"},
]


async def test_only_running_experiments_that_change_what_we_serve_are_met(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "codeonly")
    await put(stores, "one", variants=_TREATED)
    await put(stores, "draft", variants=_TREATED, status="Draft")
    await put(stores, "elsewhere", variants=_TREATED, engines=("books",))
    treatments = LocalExperimentClient(stores.experiments, clock).treatments
    (met,) = await treatments.assign(APP, "default", ["u:ada", "a:x"], through="autocomplete", device="phone")
    assert met.experiment_id == "id-one"
    rows = [row async for row in stores.experiments.exposures(APP, "id-one")]
    assert {user_key for user_key, _ in rows} == {"u:ada", "a:x"}
    assert {(exposure.through, exposure.device, exposure.variant_id) for _, exposure in rows} == {
        ("autocomplete", "phone", met.variant.variant_id)
    }
    assert await treatments.assign(APP, "default", [], through="autocomplete") == ()
    assert await treatments.assign("other", "default", ["u:ada"], through="autocomplete") == ()


async def test_a_forced_variant_is_what_is_served(stores: Stores, clock: StillClock) -> None:
    await put(stores, "one", variants=_TREATED)
    client = LocalExperimentClient(stores.experiments, clock)
    for name in ("a", "b", "a"):
        await client.record(replace(EVENT, variant_name=name))
        (met,) = await client.treatments.assign(APP, "default", ["a:x"], through="user_to_products")
        assert met.variant.variant_id == name


async def test_what_was_served_is_counted_and_handed_over_once(stores: Stores, clock: StillClock) -> None:
    await put(stores, "one", variants=[{**_TREATED[0], "boost_rule": "r"}])
    treatments = LocalExperimentClient(stores.experiments, clock).treatments
    met = await treatments.assign(APP, "default", ["u:ada"], through="user_to_products")
    for took_ms, failed in ((0.4, False), (5.0, False), (5.1, False), (2_000, False), (3, True)):
        treatments.record(met, took_ms, failed=failed)
    await treatments.flush()
    await treatments.flush()
    assert await stores.experiments.served(APP, "id-one") == {
        "a:1": 1,
        "a:5": 1,
        "a:10": 1,
        "a:over": 1,
        "a:failed": 1,
    }


async def test_counts_wait_for_a_store_that_is_away(stores: Stores, clock: StillClock) -> None:
    await put(stores, "one", variants=_TREATED)
    away: Any = _Away(stores)
    treatments = LocalExperimentClient(away, clock).treatments
    met = await treatments.assign(APP, "default", ["u:ada"], through="user_to_products")
    treatments.record(met, 1, failed=False)
    away.there = False
    await treatments.flush()
    away.there = True
    await treatments.flush()
    assert sum((await stores.experiments.served(APP, "id-one")).values()) == 1


async def test_the_book_is_read_again_only_when_its_version_moved(stores: Stores, clock: StillClock) -> None:
    reads = 0
    store: Any = _Away(stores)
    read_all = store.read_all

    async def counted(app_id: str) -> ExperimentBook:
        nonlocal reads
        reads += 1
        book: ExperimentBook = await read_all(app_id)
        return book

    store.read_all = counted
    await put(stores, "one", variants=_TREATED)
    treatments = LocalExperimentClient(store, clock).treatments
    for _ in range(20):
        await treatments.assign(APP, "default", ["u:ada"], through="user_to_products")
        clock.pass_ms(1_000)
    assert reads == 1
    await put(stores, "two")
    await treatments.assign(APP, "default", ["u:ada"], through="user_to_products")
    assert reads == 2


# --- the actor --------------------------------------------------------------------------------------------------


class _Lost(Exception):
    pass


class _Handle:
    """A handle whose actor answers, hangs or is lost."""

    def __init__(self, assigner: ExperimentAssigner) -> None:
        self.mood = "well"
        self.calls = 0
        self._assigner = assigner
        self.record = self

    async def remote(self, payload: bytes) -> bytes:
        self.calls += 1
        if self.mood == "lost":
            raise _Lost
        if self.mood == "hanging":
            await asyncio.sleep(60)
        event = EXPERIMENT_MESSAGES.decode(payload)
        return EXPERIMENT_MESSAGES.encode(await self._assigner.record(event))


@pytest.mark.parametrize("mood", ["lost", "hanging"])
async def test_while_the_actor_is_away_the_answer_is_the_same(
    stores: Stores, clock: StillClock, mood: str
) -> None:
    await put(stores, "one")
    handle = _Handle(ExperimentAssigner(stores.experiments, clock))

    async def find() -> Any:
        return handle

    local = LocalExperimentClient(stores.experiments, clock)
    client = ActorExperimentClient(find, local, clock, lost=(_Lost,), patience_s=0.02)
    first = await client.record(EVENT)
    await asyncio.sleep(0)
    assert await client.record(EVENT) == first
    assert handle.calls == 1
    handle.mood = mood
    assert [await client.record(EVENT) for _ in range(3)] == [first] * 3
    assert handle.calls == 2, "an actor that is away is left alone"
    handle.mood = "well"
    clock.pass_ms(int(ACTOR_RETRY_S * 1000))
    await client.record(EVENT)
    await asyncio.sleep(0)
    assert await client.record(EVENT) == first
    assert handle.calls == 3
    await client.close()


async def test_a_door_decides_by_itself_and_asks_the_actor_while_it_has_lost_the_store(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one")
    handle = _Handle(ExperimentAssigner(stores.experiments, clock))
    away: Any = _Away(stores)

    async def find() -> Any:
        return handle

    local = LocalExperimentClient(away, clock)
    client = ActorExperimentClient(find, local, clock, lost=(_Lost,), local_first=True)
    first = await client.record(EVENT)
    assert handle.calls == 0
    away.there = False
    with pytest.raises(Unavailable):
        await client.record(EVENT)
    await asyncio.sleep(0)
    assert await client.record(EVENT) == first
    assert handle.calls == 1
    handle.mood = "lost"
    with pytest.raises(Unavailable):
        await client.record(EVENT)
    await client.close()


async def test_an_actor_that_was_never_started_is_looked_for_now_and_then(
    stores: Stores, clock: StillClock
) -> None:
    await put(stores, "one")
    looked = 0

    async def find() -> None:
        nonlocal looked
        looked += 1

    client = ActorExperimentClient(find, LocalExperimentClient(stores.experiments, clock), clock)
    for _ in range(5):
        assert (await client.record(EVENT)).in_experiment
        await asyncio.sleep(0)
    assert looked == 1
    clock.pass_ms(int(ACTOR_RETRY_S * 1000))
    await client.record(EVENT)
    await asyncio.sleep(0)
    assert looked == 2
    with pytest.raises(NotFound):
        await client.record(ExperimentEvent(APP, "nothing", "ada"))
    await client.close()
