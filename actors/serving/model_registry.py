"""Loads and replaces the snapshot that each engine of an app serves, as the record of the engine names it.

    refresh   reads the records, about once a second, never in a request
    load      artifact store to this machine, every byte and every array checked               in a thread
    bind      to the rows of the catalog, pages touched                                        in a thread
    swap      one reference; running queries keep the old one

A snapshot that fails its checks is refused and logged, and the serving snapshot stays. The snapshot that served before
stays mapped, so a rollback needs no load.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import structlog

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.recommender import text_engine_order
from actors.recommender.state.serving_model import ServingModel
from cluster.artifacts.snapshots import SnapshotStore
from cluster.clock import Clock
from cluster.errors import Fault, KioskError, Unavailable
from cluster.ids import DEFAULT_ENGINE, VERSION_MARK
from cluster.meter import Meter
from cluster.records.engine import Engine
from cluster.store.refreshing_cache import EngineRecordsCache

LOOK_S = 0.6
"Pause between reads of the records, in seconds. Shorter than their lifetime, so that requests find fresh ones."

_AGAIN_S = 30.0
"A snapshot that was refused is tried again after so long."
_PINNED_FOR_S = 600.0
"A version without a query for so long is released."
MOST_PINNED = 8
"Versions of an app that are loaded beside the serving ones: each has arrays as long as the catalog."
_IDLE_S = 30.0
"A version without a query for so long makes room for another one."

AdoptSnapshot = Callable[[str, LoadedSnapshot | None], Awaitable[None]]
"Binds a snapshot to the catalog and lets it serve an engine; None: the live components alone."


class SnapshotLoader:
    """Snapshots in the artifact store."""

    def __init__(self, snapshots: SnapshotStore) -> None:
        self._snapshots = snapshots

    def load(self, app_id: str, engine_id: str, version: str) -> LoadedSnapshot:
        """Fetch a version to this machine and load its models. Blocks; call it from a thread.

        Errors:
            NotFound: there is no such version
            Fault: it is damaged
            Invalid: it needs a learner that is not installed here
        Cost:
            0.6 s per GB where the artifact store is on this machine
        """
        folder, manifest = self._snapshots.fetch(app_id, engine_id, version)
        try:
            return validate_snapshot(Snapshot.open(folder, manifest), version)
        except Fault:
            # False: the folder is the artifact store itself, where a second read would find the same
            # damage.
            if not self._snapshots.discard_copy(folder):
                raise
        # this node's copy went bad, and another one may be good
        folder, manifest = self._snapshots.fetch(app_id, engine_id, version)
        return validate_snapshot(Snapshot.open(folder, manifest), version)


class ModelRegistry:
    """Follows the engines of one app that queries have named."""

    def __init__(
        self,
        app_id: str,
        engine_records: EngineRecordsCache,
        models: SnapshotLoader | None,
        serving: Callable[[str], str],
        silenced: Callable[[str], Mapping[str, str]],
        adopt: AdoptSnapshot,
        clock: Clock,
        meter: Meter,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`has_room` returns whether the memory budget allows a version more, for a trial of snapshots."""
        self._has_room = has_room
        self._app_id = app_id
        self._engine_records = engine_records
        self._loader = models
        self.serving_version = serving
        "Names the version that serves an engine; empty for the live parts alone."
        self._disabled_parts = silenced
        self._reported: set[tuple[str, str, str]] = set()
        self._adopt_snapshot = adopt
        self._clock = clock
        self._meter = meter
        self.engine_ids: set[str] = set()
        "The engines whose first snapshot serves or was refused."
        self._pinned: dict[str, float] = {}
        "Time at which each pinned version was last requested, in seconds."
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._background: dict[str, asyncio.Task[object]] = {}
        "Loads that no query waits for."
        self._refused: dict[tuple[str, str], float] = {}
        self._small: set[str] = set()
        "Trials for which the memory budget has no room here."
        self._alarmed: set[str] = set()
        "Engines whose gauge reports a refused snapshot."
        self._loaded: OrderedDict[tuple[str, str], LoadedSnapshot] = OrderedDict()
        self._log = structlog.get_logger().bind(app=app_id)

    async def hold_version(self, engine_id: str, version: str) -> str:
        """Keep a version loaded beside the serving one; return the name under which it answers.

        That is the name of the engine when the version is refused: users then get the serving snapshot. A version is
        also refused while `MOST_PINNED` others are in use.
        """
        pinned = f"{engine_id}{VERSION_MARK}{version}"
        if pinned not in self._pinned and not await self._make_room(pinned, version):
            return engine_id
        self._pinned[pinned] = self._clock.monotonic_s()
        if pinned not in self.engine_ids:
            await self.ensure_loaded(pinned)
        return pinned if self.serving_version(pinned) == version else engine_id

    def is_version_loaded(self, engine_id: str, version: str) -> bool:
        """Return whether a version is loaded beside the serving one and can answer at once."""
        pinned = f"{engine_id}{VERSION_MARK}{version}"
        return pinned in self._pinned and self.serving_version(pinned) == version

    def find_loaded(self, engine_id: str, version: str) -> str | None:
        """Return the name under which a version of an engine answers; an empty version is the serving one.

        None while it is not loaded or was refused. The first call starts the load, and nobody waits for it.
        """
        if engine_id not in self.engine_ids:
            self._start_load(engine_id, self.ensure_loaded(engine_id))
            return None
        if version in ("", self.serving_version(engine_id)):
            return engine_id
        pinned = f"{engine_id}{VERSION_MARK}{version}"
        if pinned not in self.engine_ids:
            self._start_load(pinned, self.hold_version(engine_id, version))
            return None
        if self.serving_version(pinned) != version:
            return None
        self._pinned[pinned] = self._clock.monotonic_s()
        return pinned

    def _start_load(self, name: str, load: Coroutine[Any, Any, object]) -> None:
        """Run a load in the background, each once at a time."""
        if name in self._background:
            # A coroutine that is never awaited would warn; closed, it ends without a step.
            load.close()
            return
        task = self._background[name] = asyncio.get_running_loop().create_task(load)
        task.add_done_callback(lambda _: self._background.pop(name, None))

    async def ensure_loaded(self, engine_id: str) -> None:
        """Follow an engine from now on; returns when its snapshot serves or was refused."""
        load = self._loads.get(engine_id)
        if load is None or (load.done() and load.exception() is not None):  # a failed load is tried again
            load = self._loads[engine_id] = asyncio.get_running_loop().create_task(
                self._load_first(engine_id)
            )
        # Other queries wait for the same load: one that is cancelled must not end it.
        await asyncio.shield(load)

    def bind_to_catalog(self, product_ids: list[str]) -> list[tuple[str, ServingModel]]:
        """Bind the serving snapshots to a catalog that was loaded again. Runs in a thread."""
        serving_models = []
        for engine_id in sorted(self.engine_ids):
            learned = self._loaded.get((engine_id, self.serving_version(engine_id)))
            if learned is not None:
                serving_models.append((engine_id, ServingModel(learned, product_ids)))
        return serving_models

    async def refresh(self) -> None:
        """Follow the records once.

        Errors:
            Unavailable: the store is unreachable; the serving version continues
        """
        if self._loader is None or not self.engine_ids:
            return
        await self._release_versions()
        records = await self._engine_records.refresh(self._app_id)
        for engine_id in self._alarmed - records.keys():  # an engine that was deleted refuses nothing more
            self._end_alarm(engine_id)
        for engine_id in self.engine_ids - self._pinned.keys() - records.keys() - {DEFAULT_ENGINE}:
            await self._forget_engine(engine_id)
        await self._load_text_engine(records)
        for pinned in self._pinned.keys() & self.engine_ids:
            if pinned in self._pinned:  # a state that was loaded again may lack it
                await self._follow_version(pinned, pinned.partition(VERSION_MARK)[2])
        for engine in records.values():
            if engine.engine_id in self.engine_ids:
                await self._follow_record(engine)
                await self._follow_trial(engine)
                self._report_disabled_parts(engine.engine_id)

    async def load_first(self) -> None:
        """Load what every replica has: the snapshot of the default engine, and the one that brings the text index.

        So the text index does not depend on the engines that requests have named here.
        """
        await self.ensure_loaded(DEFAULT_ENGINE)
        if self._loader is not None:
            with contextlib.suppress(Unavailable):
                await self._load_text_engine(await self._engine_records.read(self._app_id))

    async def _load_text_engine(self, records: Mapping[str, Engine]) -> None:
        """Load the first engine that has a snapshot."""
        first = min(
            (engine_id for engine_id, engine in records.items() if engine.snapshot),
            key=text_engine_order,
            default="",
        )
        if first:
            await self.ensure_loaded(first)

    def close(self) -> None:
        """Stop to report on this app."""
        for engine_id in self.engine_ids:
            self._meter.remove_gauge("kiosk_snapshot_refused", app=self._app_id, engine=engine_id)

    async def run(self) -> None:
        """Follow the records until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.refresh()
            except Unavailable:
                self._meter.count("kiosk_engine_look_misses_total")
            except Exception:  # noqa: BLE001
                # whatever the fault of one snapshot, the next one must be loaded
                self._log.exception("engine_look_failed")

    async def _load_first(self, engine_id: str) -> None:
        _, pin, version = engine_id.partition(VERSION_MARK)
        if pin:
            await self._load_version(engine_id, version)
        elif self._loader is not None:
            try:
                engine = await self._engine_records.read_engine(self._app_id, engine_id)
            except Unavailable:
                engine = None
            if engine is not None:
                await self._follow_record(engine)
        # Last, also when the version was refused: queries are answered by the live parts meanwhile.
        self.engine_ids.add(engine_id)

    async def _follow_record(self, engine: Engine) -> None:
        await self._follow_version(engine.engine_id, engine.snapshot)

    async def _follow_version(self, engine_id: str, version: str) -> None:
        """Let a version serve that does not, unless it was refused a moment ago."""
        if version == self.serving_version(engine_id):
            self._end_alarm(engine_id)
            return
        # Without the pause each refresh would load and refuse the same broken files again.
        refused_s = self._refused.get((engine_id, version))
        if refused_s is None or self._clock.monotonic_s() - refused_s >= _AGAIN_S:
            await self._load_version(engine_id, version)

    async def _follow_trial(self, engine: Engine) -> None:
        """Load the other version of a trial, before a request needs it, if the memory budget allows."""
        trial = engine.trial
        if trial is None or trial.version == engine.snapshot:
            return
        pinned = f"{engine.engine_id}{VERSION_MARK}{trial.version}"
        if pinned in self._pinned or self._has_room():
            await self.hold_version(engine.engine_id, trial.version)
        elif trial.trial_id not in self._small:
            self._small.add(trial.trial_id)
            self._log.warning("trial_without_memory", engine=engine.engine_id, version=trial.version)

    async def _make_room(self, pinned: str, version: str) -> bool:
        """Return whether one more version may be loaded; release the one that nobody used for the longest time."""
        now_s = self._clock.monotonic_s()
        if len(self._pinned) < MOST_PINNED:
            return True
        # The version whose last query is the longest ago.
        idle = min(self._pinned, key=self._pinned.__getitem__)
        if self._pinned[idle] <= now_s - _IDLE_S:
            # Before the release, which waits: other callers must find the place taken.
            self._pinned[pinned] = now_s
            await self._release_version(idle)
            return True
        if now_s - self._refused.get((pinned, version), -_AGAIN_S) >= _AGAIN_S:
            reason = f"{MOST_PINNED} other versions of this app are in use beside the serving ones"
            self._refuse(pinned, version, Unavailable(reason))
        return False

    async def _release_versions(self) -> None:
        """Release held versions whose experiments are over."""
        oldest_s = self._clock.monotonic_s() - _PINNED_FOR_S
        for pinned in list(self._pinned):
            # while another version was released, this one may have been requested, or released to make room
            if self._pinned.get(pinned, oldest_s) < oldest_s:
                await self._release_version(pinned)

    async def _forget_engine(self, engine_id: str) -> None:
        """Release the snapshot of an engine that was deleted."""
        self.engine_ids.discard(engine_id)
        self._loads.pop(engine_id, None)
        for key in [key for key in self._loaded if key[0] == engine_id]:
            del self._loaded[key]
        await self._adopt_snapshot(engine_id, None)

    async def _release_version(self, pinned: str) -> None:
        version = pinned.partition(VERSION_MARK)[2]
        del self._pinned[pinned]
        self.engine_ids.discard(pinned)
        self._loads.pop(pinned, None)
        self._loaded.pop((pinned, version), None)
        self._refused.pop((pinned, version), None)
        await self._adopt_snapshot(pinned, None)

    async def _load_version(self, engine_id: str, version: str) -> None:
        """Load a version and serve it, unless its checks fail."""
        started_s = self._clock.monotonic_s()
        try:
            learned = await asyncio.to_thread(self._fetch, engine_id, version) if version else None
            await self._adopt_snapshot(engine_id, learned)
        except Exception as error:  # noqa: BLE001
            # custom models may raise anything; the serving snapshot stays
            self._refuse(engine_id, version, error)
            return
        if learned is not None:
            self._keep_loaded(engine_id, learned)
        self._refused.pop((engine_id, version), None)
        took_ms = round((self._clock.monotonic_s() - started_s) * 1000)
        self._log.info("snapshot_adopted", engine=engine_id, version=version, took_ms=took_ms)
        self._meter.time("kiosk_snapshot_adopt_ms", took_ms, engine=engine_id)
        self._end_alarm(engine_id)

    def _fetch(self, engine_id: str, version: str) -> LoadedSnapshot:
        """Return a checked snapshot. Runs in a thread."""
        if self._loader is None:
            raise Fault("there is no artifact store to load snapshots from")
        learned = self._loaded.get((engine_id, version))
        if learned is None:
            learned = self._loader.load(self._app_id, engine_id.partition(VERSION_MARK)[0], version)
        return learned

    def _keep_loaded(self, engine_id: str, learned: LoadedSnapshot) -> None:
        """Keep what serves and, for each engine, one version that served before."""
        key = (engine_id, learned.snapshot.version)
        self._loaded[key] = learned
        self._loaded.move_to_end(key)
        spare = [key for key in self._loaded if self.serving_version(key[0]) != key[1]]
        engines = max(1, len(self._loads) - len(self._pinned))
        for key in spare[: max(0, len(spare) - engines)]:
            del self._loaded[key]

    def _report_disabled_parts(self, engine_id: str) -> None:
        """Log once which models of the serving snapshot failed."""
        for part, error in self._disabled_parts(engine_id).items():
            if (engine_id, self.serving_version(engine_id), part) not in self._reported:
                self._reported.add((engine_id, self.serving_version(engine_id), part))
                self._log.error("part_silenced", engine=engine_id, part=part, error=error)
                self._meter.count("kiosk_parts_silenced_total", engine=engine_id)

    def _refuse(self, engine_id: str, version: str, error: Exception) -> None:
        self._refused[engine_id, version] = self._clock.monotonic_s()
        message = error.message if isinstance(error, KioskError) else repr(error)
        self._log.error(
            "snapshot_refused",
            engine=engine_id,
            version=version,
            reason=message,
            serving=self.serving_version(engine_id),
        )
        self._meter.count("kiosk_snapshots_refused_total", engine=engine_id)
        if VERSION_MARK not in engine_id:
            self._alarmed.add(engine_id)
            self._meter.gauge("kiosk_snapshot_refused", 1, app=self._app_id, engine=engine_id)

    def _end_alarm(self, engine_id: str) -> None:
        if engine_id in self._alarmed:
            self._alarmed.discard(engine_id)
            self._meter.gauge("kiosk_snapshot_refused", 0, app=self._app_id, engine=engine_id)
