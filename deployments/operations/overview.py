"""The overview of an installation: whether all is well, what was answered, and how old the data is."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cluster.clock import iso_ms
from cluster.errors import HouseError
from cluster.store.ports.changes import Noun
from cluster.store.redis.cluster_report import RedisClusterOverview
from cluster.store.redis.live_figures import WINDOW_MS, RedisLiveFigures
from cluster.store.redis.schema import RedisSchema
from deployments.edge.live_figures import duration_of_class
from deployments.operations.operation import Arguments, Operation
from deployments.operations.services import AdminServices

WINDOWS = 60
RECENT = 6
"Windows that the figures of now are taken from: a minute."
FOLLOWING_MS = 60_000
LATE_MS = 60_000
WARNED_FROM, REFUSED_FROM = 0.8, 0.9
"Shares of the memory bound of Redis."
MOST_APPS = 20
LEASES = ("intake", "engines", "trainer", "tracker")
_NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """What one check saw."""

    check: str
    level: str
    "`ok`, `warning` or `bad`."
    words: str


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

    findings: list[HealthFinding]
    "Empty to people who are no administrators."
    figures: LiveFigures
    apps: list[AppState]
    more_apps: int
    memory: dict[str, int]
    "`used` and `most` bytes of Redis; empty to people who are no administrators."

    @property
    def level(self) -> str:
        """Return the worst level of the findings."""
        levels = {finding.level for finding in self.findings}
        return next((level for level in ("bad", "warning") if level in levels), "ok")

    def to_dict(self) -> dict[str, Any]:
        """Return the overview for JSON."""
        return {"level": self.level, **asdict(self)}


async def read_overview(services: AdminServices, _: Arguments) -> Overview:
    """Return the state of the installation, of the apps in which the principal has a role.

    Cost: about twenty commands, and ten for each app, at most five round trips.
    """
    stores, principal = services.stores, services.principal
    visible = principal.app_ids
    known = sorted((await stores.access.read_all()).apps)
    apps = [app_id for app_id in known if visible is None or app_id in visible]
    windows, states, (findings, memory) = await asyncio.gather(
        RedisLiveFigures(stores.server).read(services.now_ms(), WINDOWS),
        asyncio.gather(*(_read_app(services, app_id) for app_id in apps[:MOST_APPS])),
        _check(services) if principal.may("viewer", "") else _nothing(),
    )
    findings += [
        HealthFinding(
            f"log {one.app_id}", "warning", f"an engine is {one.lag_ms / 1000:.0f} s behind the change log"
        )
        for one in states
        if one.lag_ms > LATE_MS and findings
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


def check_persistence(facts: Mapping[str, str]) -> HealthFinding:
    """Return whether Redis keeps what it acknowledged."""
    if facts.get("aof_enabled") != "1":
        return HealthFinding("redis persistence", "bad", "the append-only file is off: a crash loses records")
    if facts.get("aof_last_write_status") != "ok":
        return HealthFinding("redis persistence", "bad", "its file can't be written; is the disk full?")
    return HealthFinding("redis persistence", "ok", "append-only file on, last write good")


def check_memory(facts: Mapping[str, str]) -> tuple[HealthFinding, dict[str, int]]:
    """Return whether Redis has room, with the used and the most bytes."""
    used, most = int(facts.get("used_memory", "0")), int(facts.get("maxmemory", "0"))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return HealthFinding("redis memory", "bad", f"policy {policy} throws records away"), {"used": used}
    if not most:
        return HealthFinding("redis memory", "warning", "Redis has no bound on its memory"), {"used": used}
    share = used / most
    words = f"{share:.0%} of {most >> 20:,} MiB used"
    level = "bad" if share >= REFUSED_FROM else "warning" if share >= WARNED_FROM else "ok"
    words += ": writes are refused" if level == "bad" else ""
    return HealthFinding("redis memory", level, words), {"used": used, "most": most}


def check_disk(usage: Any) -> HealthFinding:
    """Return whether the disk of the data directory has room."""
    share = usage.used / usage.total if usage.total else 0.0
    level = "bad" if share >= 0.95 else "warning" if share >= 0.85 else "ok"
    return HealthFinding("disk", level, f"{share:.0%} used of the disk below the data directory")


async def _check(services: AdminServices) -> tuple[list[HealthFinding], dict[str, int]]:
    """Return what an API replica can check: the store, leases of background work, releases, keys, audit log."""
    stores, now_ms = services.stores, services.now_ms()
    cluster = RedisClusterOverview(stores.server)
    try:
        memory, persistence, leases, releases = await asyncio.gather(
            stores.infos("memory"), stores.infos("persistence"),
            asyncio.gather(*(cluster.read_lease(name) for name in LEASES)),
            RedisSchema(stores.server).list_releases(now_ms),
        )  # fmt: skip
    except HouseError as error:
        return [HealthFinding("redis", "bad", error.message)], {}
    judged = [check_memory(facts) for facts in memory]
    order = ("ok", "warning", "bad")
    finding, used = max(judged, key=lambda one: order.index(one[0].level))
    worst = max(map(check_persistence, persistence), key=lambda one: order.index(one.level))
    findings = [finding, worst]
    for lease in leases:
        words = "at work" if lease.owner else "not at work: nobody holds its lease"
        findings.append(HealthFinding(lease.name, "ok" if lease.owner else "bad", words))
    if len(releases) > 1:
        words = "several releases run: " + ", ".join(one.release for one in releases)
        findings.append(HealthFinding("release", "warning", words))
    elif releases:
        findings.append(HealthFinding("release", "ok", f"{releases[0].release} runs"))
    if services.config.data_dir:
        findings.append(check_disk(await asyncio.to_thread(shutil.disk_usage, services.config.data_dir)))
    findings.append(await _check_exposed(services))
    return findings, used


async def _check_exposed(services: AdminServices) -> HealthFinding:
    exposed, book = await asyncio.gather(services.stores.access.exposed(), services.stores.access.read_all())
    fresh = {name: at for name, at in exposed.items() if services.now_ms() - at < 30 * 86_400_000}
    live = {key.key_id: key.app_id for key in book.keys.values()}
    found = [f"{live[name]} on {iso_ms(at)[:10]}" for name, at in fresh.items() if name in live]
    if not found:
        return HealthFinding("secret keys", "ok", "none came in an address within 30 days")
    return HealthFinding("secret keys", "warning", f"came in an address: {', '.join(sorted(found)[:5])}")


async def _nothing() -> tuple[list[HealthFinding], dict[str, int]]:
    return [], {}


async def _read_app(services: AdminServices, app_id: str) -> AppState:
    stores = services.stores
    (waiting, engines, runs, followers), newest = await asyncio.gather(
        asyncio.gather(
            stores.intake.depth(app_id), stores.engines.all(app_id), stores.runs.newest(app_id, 10),
            RedisClusterOverview(stores.server).list_followers(app_id),
        ),
        asyncio.gather(*(stores.changes.last(app_id, noun) for noun in _NOUNS)),
    )  # fmt: skip
    last = dict(zip(_NOUNS, (_time_of(text) for text in newest), strict=True))
    lags = [
        max(0, last[noun] - _time_of(one.offsets[noun]))
        for one in followers
        if services.now_ms() - one.at_ms < FOLLOWING_MS
        for noun in _NOUNS
        if noun in one.offsets and last[noun]
    ]
    ended = [run.finished_at or 0 for run in runs if run.status == "finished"]
    return AppState(
        app_id, waiting, max(lags, default=0), max(last.values()), len(engines), max(ended, default=0)
    )


def _time_of(offset: str) -> int:
    """Return the time in an offset of the change log, in milliseconds since 1970."""
    return int(offset.partition("-")[0] or 0)


OPERATIONS = (
    Operation(
        "overview.get", "Show whether all is well, what was answered lately, and how old the data is.", "viewer",
        "GET", "/overview", Arguments, read_overview, scope="person",
        example_result={
            "level": "ok",
            "findings": [{"check": "redis memory", "level": "ok", "words": "3% of 6,144 MiB used"}],
            "figures": {
                "requests_per_s": 41.5, "p50_ms": 2.1, "p99_ms": 14.7, "error_share": 0.0,
                "served": {"personal": 1840, "trending": 210}, "times_s": [1_760_000_000.0], "rates": [41.5],
                "p99s_ms": [14.7],
            },
            "apps": [
                {"app_id": "bookshop", "waiting": 0, "lag_ms": 12, "changed_at": 1_760_000_000_000, "engines": 1,
                 "trained_at": 1_759_990_000_000},
            ],
            "more_apps": 0,
            "memory": {"used": 201_326_592, "most": 6_442_450_944},
        },
    ),
)  # fmt: skip
