"""Look after the models of all apps: a first training with its nightly schedule, and early trainings after a drift.

Nothing is stored beside schedules and runs. An app whose default engine was ever trained, or that has a schedule, gets
no first training; so a schedule that was removed stays away. Only engines with a schedule are trained early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence, Set
from itertools import count
from typing import Any, Final, TypeVar

import polars as pl
import structlog

from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Conflict, KioskError, NotFound, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import Meter
from cluster.records.apps import App
from cluster.records.run import DAY_MS, Run, Schedule
from cluster.store.stores import Stores
from jobs.refresh.automation.drift import find_drift
from jobs.refresh.automation.first_training import (
    LEAST_EVENTS,
    LEAST_PRODUCTS,
    RECIPES,
    choose_first_recipe,
    has_enough_data,
)
from jobs.refresh.automation.interleaving_watch import InterleavingWatch
from jobs.refresh.automation.traffic_rates import VIEW_MS, list_windows, read_rates
from jobs.refresh.automation.trial_watch import BY, TrialWatch
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.estimate import estimate_from_size
from jobs.refresh.runs.local_worker import free_memory_mb
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.workload import DataSize

T = TypeVar("T")

LEASE: Final = "model supervisor"
LEASE_MS: Final = 15_000
"A look may take longer: all that two supervisors would do at once has the same ids."
EVERY_S: Final = 600.0
"Pause between two looks at an app. The first look waits as long, so that imports of a new installation end first."
LOAD: Final = 20
"The pause after a look is so many times its duration: looks take at most 5 % of the time."
HOUR_MS: Final = 3_600_000
REST_MS: Final = 6 * HOUR_MS
"An engine is not trained early within this time after any training."
COOLDOWN_MS: Final = DAY_MS
"An engine is trained early at most once in this time."
SCHEDULE: Final = "nightly"
EARLY: Final = "drift: "
"Who ordered the runs, in their records; `EARLY` stands before the reason."


class ModelSupervisor:
    """Orders trainings that nobody ordered. A lease lets one supervisor work at a time."""

    def __init__(
        self,
        stores: Stores,
        artifacts: ArtifactStore,
        clock: Clock,
        *,
        owner: str,
        meter: Meter | None = None,
    ) -> None:
        self._owner = owner
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock
        self._trials = TrialWatch(stores, artifacts, clock, meter)
        self._interleavings = InterleavingWatch(stores, artifacts, clock)
        self._due_s: dict[str, float] = {}
        self._drift_hours: dict[str, int] = {}
        "App -> the newest hour whose traffic was examined."
        self._log = structlog.get_logger()

    async def run_once(self) -> int:
        """Look at the apps that are due; return the number of trainings that were ordered, 0 without the lease."""
        if not await self._stores.leases.hold(LEASE, self._owner, LEASE_MS):
            return 0
        ordered = 0
        book = await self._stores.access.read_all()
        for app in book.apps.values():
            started_s = self._clock.monotonic_s()
            # Trials in every round, not only when the app is due: a harmful snapshot must not wait ten
            # minutes.
            await self._guard(app, self._trials.examine_app(app))
            await self._guard(app, self._interleavings.examine_app(app))
            if not app.is_automatic or self._due_s.setdefault(app.app_id, started_s + EVERY_S) > started_s:
                continue
            ordered += await self._guard(app, self.examine_app(app)) or 0
            now_s = self._clock.monotonic_s()
            self._due_s[app.app_id] = now_s + max(EVERY_S, LOAD * (now_s - started_s))
        return ordered

    async def _guard(self, app: App, look: Awaitable[T]) -> T | None:
        """Return the result of a look; None if it failed: the looks at other apps go on."""
        try:
            return await look
        except Unavailable:
            raise
        except KioskError as error:
            self._log.warning("look_refused", app=app.app_id, reason=error.message)
        except Exception:  # noqa: BLE001
            # whatever the data of an app hold
            self._log.exception("look_failed", app=app.app_id)
        return None

    async def release(self) -> None:
        """Release the lease, so that another supervisor can begin at once."""
        await self._stores.leases.release(LEASE, self._owner)

    async def examine_app(self, app: App) -> int:
        """Order the trainings that an app needs now; return their number."""
        schedules = await self._stores.schedules.all(app.app_id)
        early = await self._train_early(app.app_id, schedules) if schedules else 0
        return early + await self._train_first(app.app_id, {schedule.engine_id for schedule in schedules})

    async def _train_first(self, app_id: str, scheduled: Set[str]) -> int:
        """Order the first training of each engine that nobody trained; all engines of an app learn from its data."""
        untrained = [
            engine.engine_id
            for engine in await self._stores.engines.all(app_id)
            if not engine.snapshot and engine.engine_id not in scheduled
        ]
        if not untrained:
            return 0
        # Any run counts, also a failed one: a first training is ordered once.
        trained = {run.engine_id for run in await self._stores.runs.newest(app_id, 500)}
        untrained = [engine_id for engine_id in untrained if engine_id not in trained]
        recipe = await asyncio.to_thread(_choose_recipe, self._artifacts, app_id) if untrained else None
        if recipe is None:
            return 0
        for engine_id in untrained:
            await self._order_first(app_id, engine_id, recipe)
        return len(untrained)

    async def _order_first(self, app_id: str, engine_id: str, recipe: dict[str, Any]) -> None:
        now_ms = self._clock.now_ms()
        end = "" if engine_id == DEFAULT_ENGINE else f"-{engine_id}"
        # the run first: once it is stored, a process that dies here leaves an engine that was trained by hand
        await create_run(
            self._stores,
            app_id,
            engine_id,
            recipe,
            now_ms=now_ms,
            by=BY,
            promote=True,
            run_id=f"first-training{end}",
        )
        schedule = Schedule(
            app_id=app_id,
            name=f"{SCHEDULE}{end}",
            engine_id=engine_id,
            when="nightly",
            recipe=recipe,
            created_at=now_ms,
        )
        # Never in the place of a schedule that a person gave to another engine.
        for name in _schedule_names(schedule.name, engine_id):
            if await self._stores.schedules.add(schedule.model_copy(update={"name": name})):
                break
            # Another supervisor, or a person, was faster.
            if any(other.engine_id == engine_id for other in await self._stores.schedules.all(app_id)):
                break
        self._log.info("first_training_ordered", app=app_id, engine=engine_id, recipe=recipe["name"])

    async def _train_early(self, app_id: str, schedules: Sequence[Schedule]) -> int:
        now_ms = self._clock.now_ms()
        # Two half hours back: a click may take one (`VIEW_MS`), and is attributed later.
        hour = (now_ms - 2 * VIEW_MS) // HOUR_MS
        if self._drift_hours.get(app_id) == hour:
            return 0
        # Also if the look fails: the next hour is another chance, and a repeated failure would cost each
        # round.
        self._drift_hours[app_id] = hour
        runs = await self._stores.runs.newest(app_id, 500)
        waiting: dict[str, Schedule] = {}
        for schedule in schedules:
            if may_train_early([run for run in runs if run.engine_id == schedule.engine_id], now_ms):
                waiting.setdefault(schedule.engine_id, schedule)
        if not waiting:
            return 0
        windows = list_windows(hour * HOUR_MS)
        rates = await asyncio.to_thread(read_rates, self._artifacts, app_id, windows)
        drift = find_drift(rates[0], rates[1:])
        if drift is None:
            return 0
        ordered = 0
        for engine_id, schedule in waiting.items():
            try:
                await create_run(
                    self._stores,
                    app_id,
                    engine_id,
                    schedule.recipe,
                    now_ms=now_ms,
                    by=EARLY + drift.sentence,
                    promote=schedule.promote,
                    # The id names the hour, so two supervisors at once order one run.
                    run_id=f"drift-{engine_id}-{hour}",
                )
            except (Conflict, NotFound) as error:
                # an engine that was deleted, or that another process trains, must not hold up the others
                self._log.warning(
                    "early_training_refused", app=app_id, engine=engine_id, reason=error.message
                )
                continue
            ordered += 1
            self._log.info("early_training_ordered", app=app_id, engine=engine_id, reason=drift.sentence)
        return ordered


def _schedule_names(first: str, engine_id: str) -> Iterator[str]:
    """Yield the names of an engine's schedule, the preferred one first, without end."""
    yield first
    engine_name = f"{SCHEDULE}-{engine_id}"
    if engine_name != first:
        yield engine_name
    for number in count(2):
        yield f"{engine_name}-{number}"


def may_train_early(runs: Iterable[Run], now_ms: int) -> bool:
    """Return whether the last trainings of an engine are long enough ago."""
    for run in runs:
        rest_ms = COOLDOWN_MS if run.by.startswith(EARLY) else REST_MS
        if run.kind == "training" and now_ms - run.created_at < rest_ms:
            return False
    return True


def _choose_recipe(artifacts: ArtifactStore, app_id: str) -> dict[str, Any] | None:
    """Return the recipe of a first training; None if it would not pay."""
    rows = SegmentStore(artifacts).row_counts(app_id)
    events = rows.get("interaction", 0)
    products = rows.get("product", 0)
    if events < LEAST_EVENTS or products < LEAST_PRODUCTS:
        return None
    people, all_people = _count_people(artifacts, app_id)
    if not has_enough_data(events, people, products):
        return None
    size = DataSize(events, all_people, products, products)
    recipes = {name: load_recipe_file(name) for name in RECIPES}
    estimates = {name: estimate_from_size(recipe, size, free_memory_mb()) for name, recipe in recipes.items()}
    chosen = choose_first_recipe(estimates)
    return None if chosen is None else recipes[chosen].model_dump(mode="json")


def _count_people(artifacts: ArtifactStore, app_id: str) -> tuple[int, int]:
    """Return the people with two events or more, and all people."""

    def count(table: Any) -> pl.DataFrame:
        return pl.DataFrame(pl.from_arrow(table.select(["reader"]))).group_by("reader").agg(count=pl.len())

    parts = SegmentStream(artifacts, app_id).events(0, 1 << 62, count)
    counts = pl.concat(parts).group_by("reader").agg(pl.col("count").sum())
    return counts.filter(pl.col("count") >= 2).height, counts.height
