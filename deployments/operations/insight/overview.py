"""The overview of an installation: whether all is well, what was answered, and how old the data is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cluster.admin.schema import newest_schema
from cluster.errors import Forbidden, KioskError
from cluster.process.redis_memory import used_memory_share
from cluster.records.intake import Noun
from cluster.records.question import LATE_RECHECK
from cluster.store.data.change_log import FOLLOWING_MS, follower_lag_ms
from cluster.store.installation.leases import LEASES, LeaseReader
from cluster.store.installation.live_metrics import WINDOW_MS, LiveFigureStore
from cluster.store.installation.replica_memory import ReplicaMemoryStore
from cluster.store.installation.schema_version import SchemaStore
from deployments.edge.observation.live_metrics import duration_of_class
from deployments.operations.framework.operation import Arguments, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.installation_checks import (
    LATE_MS,
    Finding,
    check_app_memory,
    check_disk,
    check_exposed_keys,
    check_lease,
    check_redis_memory,
    check_redis_persistence,
    check_release,
)

WINDOWS = 60
RECENT = 6
"Windows that the figures of now are taken from: a minute."
LEVELS = ("ok", "warning", "bad")
"From good to bad."
MOST_APPS = 20
_NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """What all API replicas answered in the last minute, and in each window of the last ten minutes."""

    requests_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    error_share: float
    served: dict[str, int]
    times_s: list[float]
    rates: list[float]
    p99s_ms: list[float | None]


@dataclass(frozen=True, slots=True)
class AppState:
    """How far the data of an app is."""

    app_id: str
    waiting: int
    "Batches that were accepted and not applied."
    lag_ms: int
    "How far the slowest engine is behind the change log."
    changed_at: int
    "Time of the newest change; 0: none."
    engines: int
    trained_at: int
    "End of the newest successful training; 0: none."


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything of the page."""

    findings: list[Finding]
    "Empty to people who are no administrators."
    figures: LiveFigures
    apps: list[AppState]
    more_apps: int
    memory: dict[str, int]
    "`used` and `most` bytes of Redis; empty to people who are no administrators."

    @property
    def level(self) -> str:
        """Return the worst level of the findings."""
        return max((finding.level for finding in self.findings), key=LEVELS.index, default="ok")

    def to_dict(self) -> dict[str, Any]:
        return {"level": self.level, **asdict(self)}


@operation("overview.get", "GET", "/overview", scope="person")
async def read_overview(services: AdminServices, _: Arguments) -> Overview:
    """Show whether all is well, what was answered lately, and how old the data is.

    Errors:
        Forbidden: the principal has no role at all
    Cost:
        about twenty commands, and ten for each app, at most five round trips
    """
    stores = services.stores
    principal = services.principal
    visible = principal.app_ids
    if visible == ():
        raise Forbidden("this needs a role in an app")
    app_ids = sorted((await stores.access.read_all()).apps)
    apps = [app_id for app_id in app_ids if visible is None or app_id in visible]
    windows, states, (findings, memory) = await asyncio.gather(
        LiveFigureStore(stores.server).read(services.now_ms(), WINDOWS),
        asyncio.gather(*(_read_app(services, app_id) for app_id in apps[:MOST_APPS])),
        _check(services) if principal.may("viewer", "") else _nothing(),
    )
    findings += [
        Finding(
            f"log {state.app_id}",
            "warning",
            f"an engine is {state.lag_ms / 1000:.0f} s behind the change log",
        )
        for state in states
        # There are no findings for people who may not see checks, and this must not add one.
        if state.lag_ms > LATE_MS and findings
    ]
    figures = summarize_windows(windows, services.now_ms())
    return Overview(findings, figures, list(states), max(0, len(apps) - MOST_APPS), memory)


def summarize_windows(windows: Sequence[Mapping[str, int]], now_ms: int) -> LiveFigures:
    """Return rates and percentiles of windows, the oldest first; the last one, unfinished, is left out."""
    whole = windows[:-1]
    recent: Counter[str] = Counter()
    for window in whole[-RECENT:]:
        recent.update(window)
    first = now_ms // WINDOW_MS - len(whole)
    requests = recent["requests"]
    return LiveFigures(
        requests_per_s=requests * 1000 / (WINDOW_MS * RECENT),
        p50_ms=find_percentile(recent, 0.5),
        p99_ms=find_percentile(recent, 0.99),
        error_share=recent["errors"] / requests if requests else 0.0,
        served={
            name.partition(":")[2]: count
            for name, count in recent.most_common()
            if name.startswith("served:")
        },
        times_s=[(first + at) * WINDOW_MS / 1000 for at in range(len(whole))],
        rates=[window.get("requests", 0) * 1000 / WINDOW_MS for window in whole],
        p99s_ms=[find_percentile(window, 0.99) for window in whole],
    )


def find_percentile(window: Mapping[str, int], share: float) -> float | None:
    """Return a percentile of the durations in milliseconds; None without any."""
    classes = sorted((int(name[3:]), count) for name, count in window.items() if name.startswith("ms:"))
    total = sum(count for _, count in classes)
    passed = 0
    for number, count in classes:
        passed += count
        if passed >= share * total:
            return round(duration_of_class(number), 3)
    return None


async def _check(services: AdminServices) -> tuple[list[Finding], dict[str, int]]:
    """Return what an API replica can check: the store, leases of background work, releases, disk and keys."""
    stores = services.stores
    now_ms = services.now_ms()
    config = services.config
    cluster = LeaseReader(stores.server)
    schema = SchemaStore(stores.server)
    try:
        memory, persistence, leases, stored, releases, keys = await asyncio.gather(
            stores.infos("memory"),
            stores.infos("persistence"),
            asyncio.gather(*(cluster.read_lease(name) for name in LEASES)),
            schema.read(),
            schema.list_releases(now_ms),
            check_exposed_keys(stores.access, now_ms),
        )
        app_memory = await ReplicaMemoryStore(stores.server).read(now_ms)
    except KioskError as error:
        return [Finding("redis", "bad", error.message)], {}
    fullest = max(memory, key=used_memory_share)
    findings = [
        _find_worst(map(check_redis_memory, memory)),
        _find_worst(map(check_redis_persistence, persistence)),
        *(check_lease(lease.name, lease.owner, lease.remaining_ms) for lease in leases),
        check_release(stored, newest_schema(), releases),
    ]
    if (of_apps := check_app_memory(app_memory)).level != "ok":
        findings.append(of_apps)
    if config.data_dir:
        findings.append(await asyncio.to_thread(check_disk, config.data_dir, config.disk_limit))
    sizes = {"used": int(fullest.get("used_memory", "0")), "most": int(fullest.get("maxmemory", "0"))}
    return [*findings, keys], {name: size for name, size in sizes.items() if size}


def _find_worst(findings: Iterable[Finding]) -> Finding:
    """Return the worst finding of several masters of Redis."""
    return max(findings, key=lambda finding: LEVELS.index(finding.level))


async def _nothing() -> tuple[list[Finding], dict[str, int]]:
    return [], {}


async def _read_app(services: AdminServices, app_id: str) -> AppState:
    stores = services.stores
    (waiting, engines, runs, followers), newest = await asyncio.gather(
        asyncio.gather(
            stores.intake.depth(app_id),
            stores.engines.all(app_id),
            stores.runs.newest(app_id, 10),
            stores.changes.list_followers(app_id),
        ),
        asyncio.gather(*(stores.changes.last(app_id, noun) for noun in _NOUNS)),
    )
    last = dict(zip(_NOUNS, newest, strict=True))
    lags = [
        follower_lag_ms(last[noun], follower.offsets[noun], follower.at_ms)
        for follower in followers
        if services.now_ms() - follower.at_ms < FOLLOWING_MS and follower.name != LATE_RECHECK
        for noun in _NOUNS
        if noun in follower.offsets
    ]
    ended = [run.finished_at or 0 for run in runs if run.status == "finished"]
    return AppState(
        app_id, waiting, max(lags, default=0), max(map(_time_of, newest)), len(engines), max(ended, default=0)
    )


def _time_of(offset: str) -> int:
    """Return the time in an offset of the change log, in milliseconds since 1970."""
    return int(offset.partition("-")[0] or 0)
