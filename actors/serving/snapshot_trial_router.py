"""Answers of an engine that compares two snapshots on people: each person gets the snapshot that the trial draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import structlog

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.rerank.exploration import is_in_trial
from actors.serving.model_registry import ModelRegistry
from cluster.clock import Clock
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.records.engine import Engine, SnapshotTrial
from cluster.store.stores import Stores

_FAILURES_S = 1.0
"Pause between two writes of counted failures."

Answer = Callable[[UserQuery], Awaitable[RecommendationResult]]


class SnapshotTrialRouter:
    """Draws the snapshot of each answer, and counts answers that one of two snapshots could not give."""

    def __init__(self, stores: Stores, clock: Clock, meter: Meter) -> None:
        self._stores = stores
        self._clock = clock
        self._meter = meter
        self._failures: Counter[tuple[str, str, str]] = Counter()
        "Failed answers that are not stored yet: app, trial, version."
        self._failures_s = -_FAILURES_S
        self._log = structlog.get_logger()

    async def answer(
        self, engine: Engine, query: UserQuery, models: ModelRegistry, answer: Answer
    ) -> RecommendationResult:
        """Answer from the snapshot that the trial of the engine draws for the user; if it fails, from the other one."""
        trial = cast(SnapshotTrial, engine.trial)
        is_loaded = models.is_version_loaded(engine.engine_id, trial.version)
        version = trial.version if is_loaded and is_in_trial(trial, query) else ""
        try:
            return await answer(replace(query, snapshot=version))
        except KioskError:
            raise
        except Exception:
            # whatever a model raises, a trial must not fail a request that the other snapshot can answer
            if not is_loaded:
                raise
            other = "" if version else trial.version
            result = await answer(replace(query, snapshot=other))
            # a query that both refuse counts for neither: whoever has one could force a rollback with it
            await self._record_failure(engine, version or engine.snapshot)
            return result

    async def _record_failure(self, engine: Engine, version: str) -> None:
        """Count a failed answer; written at most once a second, because every answer may fail."""
        trial = cast(SnapshotTrial, engine.trial)
        key = engine.app_id, trial.trial_id, version
        self._failures[key] += 1
        # One stack trace for each batch is enough: every answer may fail in the same way.
        if self._failures[key] == 1 and len(self._failures) == 1:
            self._log.exception("trial_answer_failed", engine=engine.engine_id, version=version)
        self._meter.count("kiosk_trial_failures_total", engine=engine.engine_id)
        now_s = self._clock.monotonic_s()
        if now_s - self._failures_s >= _FAILURES_S:
            self._failures_s = now_s
            failures = self._failures
            self._failures = Counter()
            try:
                while failures:
                    key, count = next(iter(failures.items()))
                    await self._stores.engine_activity.add_failures(*key, count)
                    # Only then: what is stored must not count again with the next batch.
                    del failures[key]
            except Unavailable:
                self._failures.update(failures)
