"""What may be changed of an experiment, when, and what that does to those who met it."""

from __future__ import annotations

import pytest

from actors.experiments.assignment import ExperimentAssigner
from actors.experiments.lifecycle import ExperimentLifecycle, apply_edit
from actors.experiments.messages import Assignment, ExperimentEvent
from actors.experiments.report import build_report
from cluster.errors import Invalid, KioskError, NotFound
from cluster.records.experiment import Experiment, ExperimentUpdate, Exposure
from tests.fakes.request_handler import NOW_MS, StillClock
from tests.fakes.stores.memory import memory_stores

APP = "shop"
TWO = [{"name": "Now"}, {"name": "Blue"}]


def an_experiment(**fields: object) -> Experiment:
    variants = [{"variant_id": name, "name": name, "slug": name} for name in ("a", "b")]
    return Experiment.model_validate(
        {
            "app_id": APP, "experiment_id": "one", "slug": "one", "name": "one", "variants": variants, "traffic": 0.5,
            "entry_salt": "the entry salt", "variant_salt": "the variant salt", "status": "Active", **fields,
        }
    )  # fmt: skip


def test_a_draft_may_be_changed_in_everything() -> None:
    edit = ExperimentUpdate(
        name="Two",
        traffic=0.1,
        weights={"b": 3},
        ends_at=NOW_MS + 1,
        goal=("click",),
        layer="home",
        slice=(0.0, 0.5),
    )
    after = apply_edit(an_experiment(status="Draft"), edit, NOW_MS)
    assert (after.name, after.traffic, after.ends_at, after.goal) == ("Two", 0.1, NOW_MS + 1, ("click",))
    assert (after.layer, after.slice, after.variants[1].weight) == ("home", (0.0, 0.5), 3)
    assert after.weights_at == 0


@pytest.mark.parametrize(
    ("fields", "edit", "words"),
    [
        ({}, ExperimentUpdate(traffic=0.4), "one is Active; traffic can only go up from 0.5"),
        ({}, ExperimentUpdate(goal=("click",)), "one is Active; what counts as a conversion can't change"),
        ({}, ExperimentUpdate(layer="home"), "one is Active; its users would change places"),
        (
            {"status": "Scheduled"},
            ExperimentUpdate(layer="x", slice=(0.0, 0.5)),
            "one is Scheduled; its users would",
        ),
        (
            {"status": "Completed"},
            ExperimentUpdate(traffic=0.6),
            "one is Completed; only its name can be changed",
        ),
        (
            {"ends_at": NOW_MS},
            ExperimentUpdate(weights={"a": 2}),
            "one is Completed; only its name can be changed",
        ),
        (
            {},
            ExperimentUpdate(ends_at=NOW_MS),
            "2026-03-02T09:15:30.250Z is past; `complete` ends it at once",
        ),
        ({}, ExperimentUpdate(weights={"a": 0, "b": 0}), "at least one variant needs a weight above 0"),
        (
            {},
            ExperimentUpdate(weights={"a": -1}),
            "variants.0.weight: Input should be greater than or equal to 0",
        ),
        ({}, ExperimentUpdate(traffic=1.5), "traffic: Input should be less than or equal to 1"),
        ({"status": "Draft"}, ExperimentUpdate(goal=("joy",)), "goal: there is no interaction of type 'joy'"),
    ],
)
def test_what_would_spoil_it_is_refused_with_the_reason(
    fields: dict[str, object], edit: ExperimentUpdate, words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        apply_edit(an_experiment(**fields), edit, NOW_MS)
    assert refused.value.message.startswith(words)


def test_what_stays_as_it_is_is_no_change() -> None:
    running = an_experiment()
    assert (
        apply_edit(
            running, ExperimentUpdate(goal=("checkout",), layer="", weights={"a": 1}, traffic=0.5), NOW_MS
        )
        == running
    )
    assert apply_edit(an_experiment(status="Archived"), ExperimentUpdate(name="Old"), NOW_MS).name == "Old"


def test_a_variant_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound) as refused:
        apply_edit(an_experiment(), ExperimentUpdate(weights={"c": 1}), NOW_MS)
    assert refused.value.message == "one has no variant 'c'; it has a, b"


async def test_nobody_who_has_a_variant_gets_another_and_nobody_who_is_in_falls_out() -> None:
    clock = StillClock()
    stores = memory_stores(clock)
    lifecycle = ExperimentLifecycle(stores, clock)
    await lifecycle.create(APP, [{"name": "Blue", "traffic": 0.3, "reports_exposure": True, "variants": TWO}])
    await lifecycle.start(APP, "blue")

    async def ask(at: int) -> tuple[bool, str]:
        reply = await ExperimentAssigner(stores.experiments, clock).record(
            ExperimentEvent(APP, "blue", f"u{at}")
        )
        assert isinstance(reply, Assignment)
        return reply.in_experiment, reply.variant.slug

    before = {at: await ask(at) for at in range(300)}
    clock.pass_ms(1_000)
    after = await lifecycle.edit(APP, "blue", ExperimentUpdate(traffic=0.8, weights={"now": 0}))
    assert after.weights_at == clock.now_ms()
    now = {at: await ask(at) for at in range(300)}
    for at, (was_in, slug) in before.items():
        assert not was_in or now[at] == (True, slug)
    fresh = {now[at][1] for at, (was_in, _) in before.items() if not was_in and now[at][0]}
    assert fresh == {"blue"}
    assert sum(is_in for is_in, _ in now.values()) > 2 * sum(was_in for was_in, _ in before.values())


async def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    stores = memory_stores()
    lifecycle = ExperimentLifecycle(stores, StillClock())
    (made,) = await lifecycle.create(APP, [{"name": "Blue", "reports_exposure": True, "variants": TWO}])
    assert await lifecycle.edit(APP, "blue", ExperimentUpdate(name="Blue")) == made
    assert await stores.experiments.version(APP) == 1
    with pytest.raises(KioskError):
        await lifecycle.edit(APP, "red", ExperimentUpdate(name="Red"))


def test_a_report_counts_who_met_it_since_the_weights_were_changed() -> None:
    experiment = an_experiment(
        weights_at=NOW_MS,
        variants=[
            {"variant_id": "a", "name": "a", "slug": "a"},
            {"variant_id": "b", "name": "b", "slug": "b", "weight": 3},
        ],
    )
    old = [(f"u:o{n}", Exposure("ab"[n % 2], NOW_MS - 1, person=f"u:o{n}")) for n in range(400)]
    new = [(f"u:n{n}", Exposure("abbb"[n % 4], NOW_MS, person=f"u:n{n}")) for n in range(400)]
    report = build_report(experiment, [*old, *new], [], links={}, served={})
    assert [line.people for line in report.lines] == [100, 300]
    assert not report.split.mismatch
