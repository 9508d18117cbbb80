"""Guardrails of experiments: decide that a variant does certain harm, pause the experiment, and leave the evidence.

    latency, errors, empty   from counters of treated requests, which each API replica adds to twice a second
    a goal                   from the figures of the people, some minutes after they are compacted

A variant breaks a guardrail when it is worse than the control by more than the tolerance, by an interval that holds
at all looks. Requests count as independent, although one client sends several: each API replica counts one request of
a client a day. It counts up to 20 while these are less than a four-hundredth of all; the small error rate pays for
them. A client is a user, or the address of users without a proof. So no client alone pauses an experiment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import structlog

from actors.experiments.assignment import TreatmentAssigner
from actors.experiments.goal_report import effect_to_dict, sums_of_variants
from actors.experiments.goal_values import ExperimentPeople, PeopleFigures
from actors.experiments.lifecycle import ExperimentLifecycle, experiment_to_dict
from actors.experiments.report_data import load_people_figures
from actors.experiments.statistics import EffectEstimate, VariantSample, compare_samples, compare_values
from actors.hosting.job_lease import JobLease
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import KioskError, Unavailable
from cluster.records.administration import AuditRow
from cluster.records.experiment import GUARDRAILS, Experiment, Variant
from cluster.store.engines.experiments import GUARD
from cluster.store.stores import Stores

ALPHA: Final = 0.01
"Largest probability that a harmless experiment is ever paused, over all its guardrails and variants."
TUNED_FOR: Final = 500
"Requests at which the intervals are narrowest: harm should end early."
LOOK_S: Final = 0.5
GOALS_S: Final = 300.0
LOAD: Final = 20
"The pause after a look at goals is so many times its duration."


@dataclass(frozen=True, slots=True)
class BrokenGuardrail:
    """The evidence that a variant does harm."""

    guardrail: str
    tolerance: float
    variant: Variant
    effect: EffectEstimate
    control: tuple[int, float]
    "Requests or people, and their mean."
    treated: tuple[int, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as JSON."""
        return {
            "guardrail": self.guardrail,
            "tolerance": self.tolerance,
            "variant": self.variant.slug,
            "effect": effect_to_dict(self.effect),
            "control": {"count": self.control[0], "mean": self.control[1]},
            "treated": {"count": self.treated[0], "mean": self.treated[1]},
        }


def check_requests(experiment: Experiment, served: Mapping[str, int]) -> BrokenGuardrail | None:
    """Return the first guardrail that the counters of treated requests show to be broken.

    `served` has the counters of `TreatmentAssigner.record`.
    """
    watched = {name: limit for name, limit in experiment.guardrails.items() if name in GUARDRAILS}
    control = experiment.variants[0]
    for variant in experiment.variants[1:]:
        for name, tolerance in watched.items():
            theirs, ours = (_sample_requests(name, served, side.variant_id) for side in (control, variant))
            effect = compare_samples(theirs, ours, alpha=_alpha(experiment), looked_at=TUNED_FOR)
            # The lower end, not the value: certain harm beyond the tolerance, at any number of looks.
            if effect.low > tolerance:
                sides = ((side.users, side.mean) for side in (theirs, ours))
                return BrokenGuardrail(name, tolerance, variant, effect, *sides)
    return None


def check_goals(
    experiment: Experiment, people: ExperimentPeople, figures: PeopleFigures
) -> BrokenGuardrail | None:
    """Return the first goal of the guardrails that a variant certainly makes worse."""
    everybody = np.ones(len(people.variants), bool)
    for values in figures.goals:
        tolerance = experiment.guardrails.get(values.goal.name)
        if tolerance is None:
            continue
        theirs, *others = sums_of_variants(experiment, people, values, everybody)
        for variant, ours in zip(experiment.variants[1:], others, strict=True):
            effect = compare_values(theirs, ours, alpha=_alpha(experiment))
            # The smallest harm in the interval: for a goal of which more is better, a certain loss of -high.
            harm = -effect.high if values.goal.better == "more" else effect.low
            # Tolerances of goals are shares of the control's mean; its sign must not turn them.
            if harm > tolerance * abs(theirs.mean):
                sides = ((side.users, side.mean) for side in (theirs, ours))
                return BrokenGuardrail(values.goal.name, tolerance, variant, effect, *sides)
    return None


def _alpha(experiment: Experiment) -> float:
    # Bonferroni over guardrails and variants: 1 % holds for the whole experiment.
    return ALPHA / max(len(experiment.guardrails) * (len(experiment.variants) - 1), 1)


def _sample_requests(name: str, served: Mapping[str, int], variant_id: str) -> VariantSample:
    def count(what: str) -> int:
        return served.get(f"{variant_id}:{GUARD}{what}", 0)

    if name == "latency":
        # n, sum and sum of squares of the milliseconds.
        return VariantSample(count("answered"), count("ms"), count("ms_ms"))
    if name == "empty":
        return VariantSample.from_conversions(count("answered") + 1, count("empty") + 1)
    # one failed request more for both, so that a control without any is comparable
    return VariantSample.from_conversions(count("answered") + count("failed") + 1, count("failed") + 1)


class GuardrailWatcher:
    """Pauses experiments whose guardrails are broken; runs in each API replica, beside the requests."""

    def __init__(
        self,
        stores: Stores,
        artifacts: ArtifactStore | None,
        treatments: TreatmentAssigner,
        clock: Clock,
        *,
        owner: str,
        list_apps: Callable[[], Iterable[str]],
    ) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._treatments = treatments
        self._clock = clock
        self._list_apps = list_apps
        self._lease = JobLease(stores.leases, "guardrails", owner, clock, ttl_ms=60_000)
        self._goals_s = clock.monotonic_s() + GOALS_S
        self._lifecycle = ExperimentLifecycle(stores, clock)
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Look until the task is cancelled. A failure is logged, and the next look tries again."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.run_once()
            except KioskError as error:
                self._log.warning("guardrails_not_checked", reason=error.message)
            except Exception:  # noqa: BLE001
                # one experiment that can't be read must not leave the others unwatched
                self._log.exception("guardrails_failed")

    async def run_once(self) -> int:
        """Check the experiments that this replica served since the last look; return how many were paused.

        Cost:
            nothing without treated requests of a guarded experiment; else one write and one read an experiment
        """
        paused = 0
        for app_id, experiment_id in self._treatments.take_guarded():
            # Own counts first, or the read below would miss them.
            await self._treatments.flush_experiment(app_id, experiment_id)
            experiment = await self._treatments.find(app_id, experiment_id)
            if experiment is not None and experiment.is_running_at(self._clock.now_ms()):
                broken = check_requests(
                    experiment, await self._stores.experiments.served(app_id, experiment_id)
                )
                paused += broken is not None and await self.pause(experiment, broken)
        if self._artifacts is not None and self._clock.monotonic_s() >= self._goals_s:
            started_s = self._clock.monotonic_s()
            try:
                # Goals are read from files, which is dear: one replica of all does it.
                if await self._lease.renew():
                    paused += await self._check_goals_of_apps(self._artifacts)
            finally:  # a look that fails is as expensive as another one
                took_s = self._clock.monotonic_s() - started_s
                self._goals_s = self._clock.monotonic_s() + max(GOALS_S, LOAD * took_s)
        return paused

    async def _check_goals_of_apps(self, artifacts: ArtifactStore) -> int:
        paused = 0
        for app_id in self._list_apps():
            book = await self._stores.experiments.read_all(app_id)
            for experiment in book.experiments:
                has_goals = experiment.guardrails.keys() - GUARDRAILS.keys()
                if has_goals and experiment.is_running_at(self._clock.now_ms()):
                    paused += await self._check_goals_of(artifacts, experiment)
        return paused

    async def _check_goals_of(self, artifacts: ArtifactStore, experiment: Experiment) -> bool:
        """Return whether the goals of an experiment paused it; one that can't be read leaves the others watched."""
        try:
            people, figures = await load_people_figures(self._stores, artifacts, experiment)
            broken = await asyncio.to_thread(check_goals, experiment, people, figures)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001
            # whatever the data of an app hold
            self._log.exception("goals_not_checked", app=experiment.app_id, experiment=experiment.slug)
            return False
        return broken is not None and await self.pause(experiment, broken)

    async def pause(self, experiment: Experiment, broken: BrokenGuardrail) -> bool:
        """Pause an experiment with a row in the audit log; return whether this call did it.

        Another replica may pause it at the same moment: one of the two does.
        """
        app_id = experiment.app_id
        name = experiment.experiment_id
        now_ms = self._clock.now_ms()
        # Read anew: the evidence was computed from an older record.
        before = await self._lifecycle.get(app_id, name)
        if not before.is_running_at(now_ms):
            return False
        row = AuditRow(
            at=now_ms,
            user_id="",
            username="guardrail",
            way="automatic",
            app_id=app_id,
            operation="experiments.pause",
            outcome="begun",
            arguments={"app_id": app_id, "experiment": before.slug, "evidence": broken.to_dict()},
            before=experiment_to_dict(before, now_ms),
        )
        # Noted before the change: after a crash in between, the log still shows that it was begun.
        begun_id = await self._stores.audit.begin(row)
        try:
            after = await self._lifecycle.pause(app_id, name, f"{broken.guardrail} of {broken.variant.slug}")
        except KioskError as error:
            refused = row.model_copy(update={"outcome": "refused", "reason": error.message})
            await self._stores.audit.append(refused, begun_id=begun_id)
            if isinstance(error, Unavailable):
                raise
            return False
        done = {"outcome": "done", "after": experiment_to_dict(after, self._clock.now_ms())}
        await self._stores.audit.append(row.model_copy(update=done), begun_id=begun_id)
        self._log.warning("experiment_paused", app=app_id, experiment=before.slug, guardrail=broken.guardrail)
        return True
