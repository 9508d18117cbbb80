"""Look at the trials of snapshots, and carry out what they decide: promote, roll back, or end.

A trial is in the record of its engine, and a decision replaces the record in one step together with the history. So a
process may be killed at any moment: the next look finds the trial again, or finds it ended. No request waits for any
of it: API replicas follow the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import structlog

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore, count_erasures_since
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Conflict, Fault, NotFound
from cluster.meter import Meter, SilentMeter
from cluster.records.administration import AuditRow
from cluster.records.apps import App
from cluster.records.engine import Engine, SnapshotTrial
from cluster.store.stores import Stores
from jobs.refresh.automation.trial_samples import TrialSamples
from jobs.refresh.automation.trial_verdict import TrialVerdict, decide_trial
from jobs.refresh.runs.promotion import promote_version, roll_back_version

BY: Final = "automatic_models"
LOAD: Final = 5
"The pause after a look is so many times its duration."


class TrialWatch:
    """Looks at the trials of all engines; only one may work at a time."""

    def __init__(
        self, stores: Stores, artifacts: ArtifactStore, clock: Clock, meter: Meter | None = None
    ) -> None:
        self._meter = meter or SilentMeter()
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock
        self._open: dict[tuple[str, str], tuple[str, TrialSamples]] = {}
        "(app, engine) -> its trial and the sums that were read of it; the next trial of the engine replaces them."
        self._due_s: dict[tuple[str, str], tuple[str, float]] = {}
        "(app, engine) -> its trial and when to look again."
        self._log = structlog.get_logger()

    async def examine_app(self, app: App) -> None:
        """Look at the trials of an app whose data changed; end those that are over, or that the app's switch stops."""
        engines = await self._stores.engines.all(app.app_id)
        with_trial = {(app.app_id, engine.engine_id) for engine in engines if engine.trial is not None}
        # Also of engines that were deleted during their trial.
        for app_id, engine_id in {*self._open, *self._due_s} - with_trial:
            if app_id == app.app_id:
                self._forget(app_id, engine_id)
        for engine in engines:
            trial = engine.trial
            if trial is None:
                continue
            if not app.is_automatic:
                await self._end(engine, trial, "the switch automatic_models is off")
            elif trial.version == engine.snapshot:
                await self._end(engine, trial, "both snapshots are the same")
            elif await asyncio.to_thread(has_erased_people, self._artifacts, engine, trial.version):
                # what a training leaves is not repaired: without the trial nobody gets the snapshot any more
                await self._end(engine, trial, f"{trial.version} learned from people who were erased since")
            else:
                await self._examine(engine, trial)

    async def _examine(self, engine: Engine, trial: SnapshotTrial) -> None:
        started_s = self._clock.monotonic_s()
        is_over = self._clock.now_ms() >= trial.ends_at
        place = engine.app_id, engine.engine_id
        due_of, due_s = self._due_s.get(place, ("", 0.0))
        if due_of == trial.trial_id and due_s > started_s and not is_over:
            return
        opened_of, samples = self._open.get(place, ("", None))
        if samples is None or opened_of != trial.trial_id:
            samples = TrialSamples(self._artifacts, engine, trial)
            self._open[place] = trial.trial_id, samples
        failures = await self._stores.engine_activity.read_failures(engine.app_id, trial.trial_id)
        if is_over or await asyncio.to_thread(samples.has_news, failures):
            try:
                verdict = await asyncio.to_thread(read_verdict, samples, trial, failures)
            except NotFound:
                return  # a file was replaced; the next look reads the new commit
            await self._carry_out(engine, trial, verdict, is_over=is_over)
        now_s = self._clock.monotonic_s()
        # The longer a look took, the later the next one: looks take a bounded share of the time.
        self._due_s[place] = trial.trial_id, now_s + LOAD * (now_s - started_s)

    def _forget(self, app_id: str, engine_id: str) -> None:
        if self._open.pop((app_id, engine_id), None) is not None:
            self._meter.remove_gauge("kiosk_trial_uneven", app=app_id, engine=engine_id)
        self._due_s.pop((app_id, engine_id), None)

    async def _carry_out(
        self, engine: Engine, trial: SnapshotTrial, verdict: TrialVerdict, *, is_over: bool
    ) -> None:
        # Read again: the log took seconds, and an administrator may have decided meanwhile.
        current = await self._stores.engines.get(engine.app_id, engine.engine_id)
        if current is None or current.trial != trial or current.snapshot != engine.snapshot:
            return  # somebody ended the trial, or promoted another version, during the read of the log
        is_uneven = verdict.outcome == "uneven"
        self._meter.gauge("kiosk_trial_uneven", float(is_uneven), app=engine.app_id, engine=engine.engine_id)
        if is_uneven:
            # nobody takes a snapshot back that hurts, so somebody has to look
            self._log.error(
                "trial_uneven", app=engine.app_id, engine=engine.engine_id, reason=verdict.sentence
            )
        is_worse = verdict.outcome in ("worse", "broken")
        try:
            if is_worse and not trial.is_candidate and trial.roll_back_when_worse:
                await self._roll_back(engine, trial, verdict)
            elif is_worse and trial.is_candidate and trial.roll_back_when_worse:
                await self._end(engine, trial, verdict.sentence, verdict)
            elif verdict.outcome == "better" and trial.is_candidate and trial.promote_when_better:
                await self._promote(engine, trial, verdict)
            elif is_over:
                await self._end(engine, trial, f"its time is over: {verdict.sentence}", verdict)
        except (Conflict, NotFound) as error:
            current = await self._stores.engines.get(engine.app_id, engine.engine_id)
            # The decision is refused, as for a version that needs shipped code: a trial without an end
            # would repeat it.
            if current is not None and current.snapshot == engine.snapshot:
                await self._end(engine, trial, error.message, verdict)

    async def _roll_back(self, engine: Engine, trial: SnapshotTrial, verdict: TrialVerdict) -> None:
        await roll_back_version(
            self._stores,
            self._artifacts,
            engine.app_id,
            engine.engine_id,
            now_ms=self._clock.now_ms(),
            by=BY,
            to=trial.version,
            reason=verdict.sentence,
            evidence=verdict.to_dict(),
        )
        await self._record(engine, trial, "promotions.roll_back", verdict.sentence, verdict)

    async def _promote(self, engine: Engine, trial: SnapshotTrial, verdict: TrialVerdict) -> None:
        await promote_version(
            self._stores,
            self._artifacts,
            engine.app_id,
            engine.engine_id,
            trial.version,
            now_ms=self._clock.now_ms(),
            by=BY,
            evidence=verdict.to_dict(),
        )
        await self._record(engine, trial, "promotions.promote", verdict.sentence, verdict)

    async def _end(
        self, engine: Engine, trial: SnapshotTrial, reason: str, verdict: TrialVerdict | None = None
    ) -> None:
        # The record first: a crash before the audit row leaves an ended trial, not a second decision.
        await end_trial(self._stores, engine.app_id, engine.engine_id, trial.trial_id)
        await self._record(engine, trial, "trials.stop", reason, verdict)

    async def _record(
        self,
        engine: Engine,
        trial: SnapshotTrial,
        operation: str,
        reason: str,
        verdict: TrialVerdict | None,
    ) -> None:
        self._forget(engine.app_id, engine.engine_id)
        await self._stores.audit.begin(
            build_audit_row(
                self._clock.now_ms(),
                engine,
                operation,
                reason,
                before={"trial": trial.model_dump(mode="json")},
                after={} if verdict is None else verdict.to_dict(),
            )
        )
        self._log.warning(
            "trial_ended", app=engine.app_id, engine=engine.engine_id, operation=operation, reason=reason
        )


def build_audit_row(
    at_ms: int,
    engine: Engine,
    operation: str,
    reason: str,
    *,
    arguments: Mapping[str, str] = MappingProxyType({}),
    before: Mapping[str, Any] = MappingProxyType({}),
    after: dict[str, Any] | None = None,
) -> AuditRow:
    """Return the row of an automatic change of an engine; a process with the key of the audit log proves it."""
    return AuditRow(
        at=at_ms,
        user_id="",
        username=BY,
        way="automatic",
        operation=operation,
        app_id=engine.app_id,
        outcome="done",
        reason=reason,
        arguments={"app_id": engine.app_id, "engine_id": engine.engine_id, **arguments},
        before={"snapshot": engine.snapshot, **before},
        after=after,
    )


def read_verdict(samples: TrialSamples, trial: SnapshotTrial, failures: dict[str, int]) -> TrialVerdict:
    """Return what a trial shows now. Blocks."""
    serving, other = samples.read(failures)
    if trial.is_candidate:
        return decide_trial(other, serving, trial.share)
    return decide_trial(serving, other, 1 - trial.share)


def has_erased_people(artifacts: ArtifactStore, engine: Engine, version: str) -> bool:
    """Return whether a snapshot of an engine learned from people who were erased since. Blocks.

    Errors:
        Unavailable: the artifact store is unreachable
    """
    try:
        log = SegmentStore(artifacts).erasures(engine.app_id)
        if not log.count:
            return False
        manifest = SnapshotStore(artifacts).manifest(engine.app_id, engine.engine_id, version)
    except (Fault, NotFound):
        return False  # a damaged manifest must not end the watch, and nothing of a deleted snapshot is served
    return count_erasures_since(manifest, log) > 0


async def end_trial(stores: Stores, app_id: str, engine_id: str, trial_id: str) -> Engine | None:
    """End a trial without a decision, if it is the one of its engine; return the engine."""

    def end(engine: Engine) -> Engine:
        is_same = engine.trial is not None and engine.trial.trial_id == trial_id
        return engine.model_copy(update={"trial": None}) if is_same else engine

    return await stores.engines.change(app_id, engine_id, end)
