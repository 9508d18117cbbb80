"""Look at experiments with snapshots, and carry out what interleavings decide: promote the better snapshot, and end.

An experiment ends once one of its snapshots learned from people who were erased since. Only interleavings with
`promote_when_better` promote, in apps whose switch `automatic_models` is on. A promotion replaces the record of the
engine in one step with its history, and starts the trial that guards every promotion. The interleaving ends
afterwards. A process that is killed between both leaves an interleaving of a snapshot that serves already, which the
next look ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from actors.experiments.interleaving_report import InterleavingReport, load_interleaving_report
from actors.experiments.lifecycle import ExperimentLifecycle
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.records.experiment import Experiment
from cluster.store.stores import Stores
from jobs.refresh.automation.trial_watch import BY, build_audit_row, has_erased_people
from jobs.refresh.runs.promotion import promote_version

EVERY_S: Final = 10.0
"Pause between two looks at the experiments of an app."
LOAD: Final = 20
"The pause after a report is so many times its duration."


class InterleavingWatch:
    """Looks at the experiments of all apps; only one may work at a time."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore, clock: Clock) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock
        self._lifecycle = ExperimentLifecycle(stores, clock)
        self._due_s: dict[str, float] = {}
        "App -> when to look again."
        self._counted: dict[str, dict[str, int]] = {}
        "App -> running interleaving -> the commit of outcomes that it was counted with."
        self._log = structlog.get_logger()

    async def examine_app(self, app: App) -> None:
        """Look at the running experiments of an app; end those that are decided, or whose snapshots have erased people.

        Errors:
            Unavailable: the store or the artifact store is unreachable
        """
        started_s = self._clock.monotonic_s()
        if self._due_s.get(app.app_id, 0.0) > started_s:
            return
        book = await self._stores.experiments.read_all(app.app_id)
        promoting = []
        for experiment in book.experiments:
            if not experiment.is_running_at(self._clock.now_ms()) or await self._end_if_erased(experiment):
                continue
            if experiment.promote_when_better and app.is_automatic:
                promoting.append(experiment)
        # Rebuilt at each look, so that interleavings that ended are forgotten.
        before = self._counted.get(app.app_id, {})
        self._counted[app.app_id] = counted = {
            experiment.experiment_id: before.get(experiment.experiment_id, -1) for experiment in promoting
        }
        for experiment in promoting:
            await self._examine(experiment, counted)
        now_s = self._clock.monotonic_s()
        # A report that takes long comes seldom: at most 1/21 of the time goes into reports.
        self._due_s[app.app_id] = now_s + max(EVERY_S, LOAD * (now_s - started_s))

    async def _end_if_erased(self, experiment: Experiment) -> bool:
        """End an experiment that gives people a snapshot with erased people; return whether it was ended.

        The snapshot that an engine serves does not count: the next training replaces it.
        """
        versions = {variant.snapshot for variant in experiment.variants} - {""}
        for engine_id in experiment.engines if versions else ():
            engine = await self._stores.engines.get(experiment.app_id, engine_id)
            if engine is None:
                continue
            for version in sorted(versions - {engine.snapshot}):
                if await asyncio.to_thread(has_erased_people, self._artifacts, engine, version):
                    reason = f"{version} learned from people who were erased since"
                    await self._end(experiment, engine, reason)
                    return True
        return False

    async def _examine(self, experiment: Experiment, counted: dict[str, int]) -> None:
        engine = await self._stores.engines.get(experiment.app_id, experiment.engines[0])
        if engine is None:
            return
        # Promoted by an operator or by another trial: the lists no longer compare what was planned.
        if engine.snapshot != experiment.variants[0].snapshot:
            await self._end(experiment, engine, f"the engine serves {engine.snapshot or 'no snapshot'} now")
            return
        commit = await asyncio.to_thread(OutcomeStore(self._artifacts).commit, experiment.app_id)
        if commit.sequence == counted[experiment.experiment_id]:
            return
        report = await load_interleaving_report(
            self._stores, self._artifacts, experiment, self._clock.now_ms()
        )
        # The commit that was read before the report: newer outcomes are counted at the next look.
        counted[experiment.experiment_id] = commit.sequence
        # The report takes a while; an operator's decision in between wins.
        if report.better and await self._is_unchanged(experiment, engine):
            await self._carry_out(experiment, engine, report)

    async def _is_unchanged(self, experiment: Experiment, engine: Engine) -> bool:
        """Return whether nobody ended the interleaving or promoted another snapshot during the read."""
        current = (await self._stores.experiments.read_all(experiment.app_id)).find(experiment.experiment_id)
        serving = await self._stores.engines.get(engine.app_id, engine.engine_id)
        is_running = current is not None and current.is_running_at(self._clock.now_ms())
        return is_running and serving is not None and serving.snapshot == engine.snapshot

    async def _carry_out(self, experiment: Experiment, engine: Engine, report: InterleavingReport) -> None:
        first, second = experiment.variants
        sentence = describe_preference(report)
        evidence = {"sentence": sentence, **report.to_dict()}
        if report.better == first.slug:
            await self._end(experiment, engine, sentence, evidence)
            return
        try:
            # Promoted before the experiment ends: after a crash in between, the next look ends it.
            await promote_version(
                self._stores,
                self._artifacts,
                engine.app_id,
                engine.engine_id,
                second.snapshot,
                now_ms=self._clock.now_ms(),
                by=BY,
                evidence=evidence,
                is_watched=True,
            )
        except (Conflict, NotFound) as error:
            await self._end(experiment, engine, error.message, evidence)
            return
        await self._record(experiment, engine, "promotions.promote", sentence, evidence)
        await self._complete(experiment)

    async def _end(
        self,
        experiment: Experiment,
        engine: Engine,
        reason: str,
        evidence: dict[str, Any] | None = None,
    ) -> None:
        # Recorded only by the process that ended it.
        if await self._complete(experiment):
            await self._record(experiment, engine, "experiments.complete", reason, evidence)

    async def _complete(self, experiment: Experiment) -> bool:
        try:
            await self._lifecycle.complete(experiment.app_id, experiment.experiment_id)
        except (Invalid, NotFound):
            return False  # somebody ended it meanwhile
        return True

    async def _record(
        self,
        experiment: Experiment,
        engine: Engine,
        operation: str,
        reason: str,
        evidence: dict[str, Any] | None,
    ) -> None:
        await self._stores.audit.begin(
            build_audit_row(
                self._clock.now_ms(),
                engine,
                operation,
                reason,
                arguments={"experiment": experiment.slug},
                after=evidence,
            )
        )
        self._log.warning(
            "interleaving_ended",
            app=engine.app_id,
            experiment=experiment.slug,
            operation=operation,
            reason=reason,
        )


def describe_preference(report: InterleavingReport) -> str:
    """Return which snapshot people prefer, and how certain that is."""
    share = report.result.share
    days = report.result.first_wins + report.result.second_wins
    side = report.experiment.variants[report.better != report.experiment.variants[0].slug]
    return (
        f"interleaved lists of {report.result.people:,} deciding people: {side.snapshot or side.name} is better; "
        f"the second side won {share.value:.1%} of {days:,} days, certainly {share.low:.1%} to {share.high:.1%}"
    )
