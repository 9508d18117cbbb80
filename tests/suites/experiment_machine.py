"""Experiments as a state machine: any order of events, merges, forcing, steps of their lives, passing time and erasing
must leave everybody with the variant the model says, whoever answers.

The model knows persons where the store knows packed exposures: a reader id stands for a person, a person has one
variant per experiment, and nobody loses theirs but by force, by erasure, or by becoming somebody who has another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.experiments.assignment import is_eligible, select_variant
from actors.experiments.client import LocalExperimentClient
from actors.experiments.lifecycle import ExperimentLifecycle
from actors.experiments.messages import ExperimentEvent
from cluster.errors import Conflict, Invalid
from cluster.records.experiment import STEPS, Experiment, ExperimentUpdate, Status
from cluster.store.stores import Stores
from tests.fakes.request_handler import StillClock
from tests.suites.doing import APP

Result = TypeVar("Result")
USERS = st.sampled_from(["", "ada", "bob"])
VISITORS = st.sampled_from(["", "x", "y"])
SLUGS = st.sampled_from(["left", "right", "both", "alone"])
SLICES = {"left": (0.0, 0.5), "right": (0.5, 1.0), "both": (0.25, 0.75)}
TARGETS: dict[str, Status] = {
    "start": "Active", "pause": "Scheduled", "complete": "Completed", "archive": "Archived", "schedule": "Scheduled",
}  # fmt: skip


@dataclass
class Given:
    """What the model knows of one experiment's readers."""

    variant: dict[str, tuple[str, str]] = field(default_factory=dict)
    "Reader -> variant id, person."
    ids: dict[str, set[str]] = field(default_factory=dict)
    "Person -> other ids that ever carried it."


class ExperimentMachine(RuleBasedStateMachine):
    """Drives two clients over one store, and the model beside them."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._clock = StillClock()
        self._stores, self._close = self._do(self.open())
        self._lifecycle = ExperimentLifecycle(self._stores, self._clock)
        self._clients = [LocalExperimentClient(self._stores.experiments, self._clock) for _ in range(2)]
        self.given: dict[str, Given] = {}
        self.seen: dict[str, Experiment] = {}

    async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
        """Open empty stores."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close them."""
        self._do(self._close())
        self._loop.close()

    @initialize()
    def make(self) -> None:
        """Four experiments, three of which share a layer."""
        variants = [{"name": name, "variant_id": name} for name in ("a", "b", "c")]
        drafts: list[dict[str, Any]] = [
            {
                "name": name,
                "layer": "home",
                "slice": list(part),
                "variants": variants,
                "reports_exposure": True,
                "variant_salt": "salt " + name,
            }
            for name, part in SLICES.items()
        ]
        drafts.append(
            {
                "name": "alone",
                "traffic": 0.7,
                "reports_exposure": True,
                "variants": variants,
                "entry_salt": "the entry salt",
            }
        )
        for experiment in self._do(self._lifecycle.create(APP, drafts)):
            self.given[experiment.slug] = Given()
        self._look()

    @rule(slug=SLUGS, step=st.sampled_from(sorted(TARGETS)))
    def step(self, slug: str, step: str) -> None:
        """An administrator takes a step, legal or not."""
        before, now_ms = self.seen[slug], self._clock.now_ms()
        stands = before.status_at(now_ms)
        legal = TARGETS[step] in STEPS[stands] or (step == "schedule" and stands == "Scheduled")
        if step == "pause":
            legal = stands == "Active"
        if step == "schedule" and stands == "Active":
            legal = False
        arguments = (now_ms + 1_050,) if step == "schedule" else ()
        try:
            after = self._do(getattr(self._lifecycle, step)(APP, slug, *arguments))
        except Invalid:
            assert not legal
        except Conflict:
            assert legal
            assert slug in SLICES
            assert any(
                self.seen[other].status_at(now_ms) in ("Active", "Scheduled")
                for other in SLICES
                if other != slug
            )
        else:
            assert legal
            assert after.status == TARGETS[step]
        # a change is in force half a second later, and a schedule still lies ahead then
        self._clock.pass_ms(1_000)
        self._look()

    @rule(slug=SLUGS, traffic=st.sampled_from([0.4, 0.7, 1.0]), weight=st.sampled_from([0, 1, 3]))
    def edit(self, slug: str, traffic: float, weight: int) -> None:
        """An administrator changes traffic and weights, perhaps while it runs; nobody's variant may change by that."""
        before, now_ms = self.seen[slug], self._clock.now_ms()
        stands = before.status_at(now_ms)
        same = traffic == before.traffic and weight == before.variants[1].weight
        legal = same or stands == "Draft" or (stands in ("Active", "Scheduled") and traffic >= before.traffic)
        try:
            after = self._do(
                self._lifecycle.edit(APP, slug, ExperimentUpdate(traffic=traffic, weights={"b": weight}))
            )
        except Invalid:
            assert not legal
        else:
            assert legal
            assert (after.traffic, after.variants[1].weight) == (traffic, weight)
        self._clock.pass_ms(1_000)
        self._look()

    @rule(ms=st.sampled_from([1, 60, 1_000]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self._clock.pass_ms(ms)

    @rule(slug=SLUGS, user=USERS, visitor=VISITORS, at=st.integers(0, 1), times=st.integers(1, 3))
    def event(self, slug: str, user: str, visitor: str, at: int, times: int) -> None:
        """Somebody meets an experiment, perhaps several times at once."""
        if not user and not visitor:
            return
        event = ExperimentEvent(APP, slug, user, visitor)
        replies = self._do(_together([self._clients[(at + n) % 2].record(event) for n in range(times)]))
        assert len({(reply.in_experiment, reply.variant.variant_id) for reply in replies}) == 1
        experiment, given, user_keys = self.seen[slug], self.given[slug], event.user_keys
        running = experiment.is_running_at(self._clock.now_ms())
        assigned = next(
            (given.variant[user_key] for user_key in user_keys if user_key in given.variant), None
        )
        if assigned is None and running and is_eligible(experiment, user_keys[0]):
            assigned = (select_variant(experiment, user_keys[0]).variant_id, user_keys[0])
        if assigned is None:
            assert (replies[0].in_experiment, replies[0].variant.variant_id) == (False, "a")
            return
        assert (replies[0].in_experiment, replies[0].variant.variant_id) == (running, assigned[0])
        if running:
            self._remember(given, user_keys, assigned)

    @rule(slug=SLUGS, user=USERS, visitor=VISITORS, name=st.sampled_from("abc"))
    def force(self, slug: str, user: str, visitor: str, name: str) -> None:
        """Somebody is shown a certain variant."""
        if not user and not visitor:
            return
        event = ExperimentEvent(APP, slug, user, visitor, variant_name=name)
        reply = self._do(self._clients[0].record(event))
        running = self.seen[slug].is_running_at(self._clock.now_ms())
        assert (reply.in_experiment, reply.variant.variant_id) == (running, name)
        if running:
            given = self.given[slug]
            assigned = next(
                (given.variant[user_key] for user_key in event.user_keys if user_key in given.variant), None
            )
            self._remember(given, event.user_keys, (name, assigned[1] if assigned else event.user_keys[0]))

    @rule(user=st.sampled_from(["ada", "bob"]))
    def erase(self, user: str) -> None:
        """A person wants to be forgotten."""
        self._do(self._stores.interactions.erase(APP, [user]))
        for given in self.given.values():
            user_key = "u:" + user
            person = given.variant[user_key][1] if user_key in given.variant else user_key
            for name in {user_key, person, *given.ids.pop(person, set())}:
                given.variant.pop(name, None)

    @invariant()
    def the_store_knows_what_the_model_knows(self) -> None:
        """Nobody has another variant, and nobody is remembered who should not be."""
        for slug, given in self.given.items():
            rows = self._do(_all(self._stores, self.seen[slug].experiment_id))
            assert {
                user_key: (exposure.variant_id, exposure.person) for user_key, exposure in rows
            } == given.variant

    @invariant()
    def no_two_experiments_of_a_layer_share_a_reader(self) -> None:
        """Whoever runs beside another one has another part of the layer."""
        now_ms = self._clock.now_ms()
        running = {slug for slug in SLICES if slug in self.seen and self.seen[slug].is_running_at(now_ms)}
        assert not ("both" in running and len(running) > 1)

    def _remember(self, given: Given, user_keys: tuple[str, ...], assigned: tuple[str, str]) -> None:
        for user_key in user_keys:
            if given.variant.get(user_key) != assigned or user_key not in given.variant:
                given.variant[user_key] = assigned
            if user_key != assigned[1]:
                given.ids.setdefault(assigned[1], set()).add(user_key)

    def _look(self) -> None:
        self.seen = {
            experiment.slug: experiment for experiment in self._do(self._lifecycle.list_experiments(APP))
        }

    def _do(self, work: Awaitable[Result]) -> Result:
        async def run() -> Result:
            return await work

        return self._loop.run_until_complete(run())


async def _together(work: list[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*work))


async def _all(stores: Stores, experiment_id: str) -> list[tuple[str, Any]]:
    return [row async for row in stores.experiments.exposures(APP, experiment_id)]
