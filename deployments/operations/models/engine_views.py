"""What is told of an engine: its record, how much it is asked, and how its own deployment is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.artifacts.snapshots import find_marked_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError
from cluster.records.engine import Engine, EngineStatus, Placement
from cluster.store.engines.engine_activity import EngineTraffic
from cluster.store.stores import Stores
from deployments.operations.framework.result_table import ResultLines

STALE_MS = 15_000


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine at one moment."""

    engine: Engine
    status: EngineStatus | None
    per_s: float
    "Requests a second over the last minute, wherever they were answered."
    is_fresh: bool
    "Is the status of this moment? Not while the installation is stopped."
    erased: int = 0
    "Erasures of rows that the serving snapshot learned from; the next training replaces it."

    @property
    def is_settled(self) -> bool:
        """Is it where it is meant to be, with replicas that answer there and none left elsewhere?"""
        if self.engine.moving_to is not None:
            return False
        if self.engine.placement == "door":
            return self.status is None
        return self.status is not None and self.status.state == "running"

    def to_dict(self) -> dict[str, object]:
        """Say it as JSON."""
        engine = self.engine
        status = self.status if self.is_fresh else None
        return {
            "app_id": engine.app_id,
            "engine_id": engine.engine_id,
            "placement": engine.placement,
            "moving_to": engine.moving_to,
            "snapshot": engine.snapshot,
            "erased_since": self.erased,
            "state": status.state if status else ("running" if engine.placement == "door" else "unknown"),
            "replicas": status.replicas if status else 0,
            "target_replicas": status.target if status else 0,
            "message": status.message if status else "",
            "requests_per_s": round(self.per_s, 3),
            "scaling": engine.scaling_arguments(),
            "created_at": engine.created_at,
            "explore_share": engine.exploration.share,
            "explore_pool": engine.exploration.pool,
            "repeat_after_days": engine.repeat_after_days,
        }

    def to_row(self) -> tuple[str, ...]:
        """Say it as a line of a table."""
        engine = self.engine
        status = self.status if self.is_fresh else None
        lives = engine.placement + (f" -> {engine.moving_to}" if engine.moving_to else "")
        replicas = "with the API replicas"
        if status is not None:
            most = engine.scaling.replicas_max
            replicas = f"{status.replicas} of {status.target} (at most {most})"
        elif engine.placement == "own":
            replicas = "?"
        note = (
            "" if status is None or status.state == "running" else f"{status.state} {status.message}".strip()
        )
        if self.erased:
            note = f"{note} learned from erased people, train again".strip()
        return (
            engine.app_id,
            engine.engine_id,
            lives,
            replicas,
            f"{self.per_s:.1f}",
            engine.snapshot[:24] or "none",
            note,
        )

    def _to_sentence(self) -> str:
        engine = self.engine
        if engine.moving_to:
            return f"Engine {engine.engine_id} of {engine.app_id} is asked to move to {engine.moving_to}."
        if engine.placement == "door":
            return f"Engine {engine.engine_id} of {engine.app_id} is embedded in the API replicas."
        count = self.status.replicas if self.status else 0
        return (
            f"Engine {engine.engine_id} of {engine.app_id} is dedicated: {count} replica{'s' * (count != 1)}."
        )

    def to_lines(self) -> ResultLines:
        """Return where the engine runs, how it explores, and when it repeats products."""
        settings = self.engine.exploration
        explores = "It does not explore."
        if settings.share:
            explores = (
                f"One place of {settings.share:.3g} of its lists shows one of the {settings.pool} best products "
                "behind the list."
            )
        pauses = (
            f"It leaves out the products of {'any other' if kind == '*' else kind} interactions for {days:g} days."
            for kind, days in self.engine.repeat_after_days.items()
        )
        return self._to_sentence(), explores, *pauses


async def read_engine_view(stores: Stores, engine: Engine, at_ms: int) -> EngineView:
    """Look at one engine."""
    status = (await stores.engine_activity.list_statuses(engine.app_id)).get(engine.engine_id)
    traffic_by_engine = await stores.engine_activity.read_traffic(engine.app_id, at_ms)
    return _build_view(engine, status, traffic_by_engine, at_ms)


async def read_engine_views(
    stores: Stores, app_ids: Sequence[str], at_ms: int, artifacts: ArtifactStore | None = None
) -> list[EngineView]:
    """Look at the engines of some apps; with an artifact store also at the data of their snapshots."""
    views = []
    for name in app_ids:
        statuses, traffic_by_engine, engines = await asyncio.gather(
            stores.engine_activity.list_statuses(name),
            stores.engine_activity.read_traffic(name, at_ms),
            stores.engines.all(name),
        )
        marked = {} if artifacts is None else await asyncio.to_thread(_marked_apps, artifacts, name)
        for engine in engines:
            view = _build_view(engine, statuses.get(engine.engine_id), traffic_by_engine, at_ms)
            views.append(replace(view, erased=marked.get((engine.engine_id, engine.snapshot), 0)))
    return views


def _marked_apps(artifacts: ArtifactStore, app_id: str) -> dict[tuple[str, str], int]:
    try:
        return {
            (snapshot.engine_id, snapshot.version): snapshot.erasures
            for snapshot in find_marked_snapshots(artifacts, app_id)
        }
    except KioskError:  # `kiosk doctor` says what is wrong there
        return {}


def _build_view(
    engine: Engine,
    status: EngineStatus | None,
    traffic_by_engine: Mapping[tuple[Placement, str], EngineTraffic],
    at_ms: int,
) -> EngineView:
    per_s = sum(
        engine_traffic.per_s
        for (_, engine_id), engine_traffic in traffic_by_engine.items()
        if engine_id == engine.engine_id
    )
    return EngineView(engine, status, per_s, status is not None and abs(at_ms - status.at) < STALE_MS)
