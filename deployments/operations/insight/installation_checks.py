"""Checks of an installation that `kiosk doctor` and the overview of the console share, with their words."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cluster.clock import iso_ms
from cluster.process.disk_guard import used_share
from cluster.process.redis_memory import REFUSED_FROM, WARNED_FROM, used_memory_share
from cluster.records.apps import IN_BROWSER, App
from cluster.store.administration.apps_and_keys import AppAndKeyStore
from cluster.store.installation.replica_memory import ABOVE_BUDGET_MB, ReplicaMemory
from cluster.store.installation.schema_version import RunningRelease, StoredSchema

Level = Literal["ok", "warning", "bad"]

EXPOSED_FOR_MS = 30 * 24 * 3_600_000
LATE_MS = 60_000
"A follower of the change log that is so far behind answers from old data."
FEW_RELOADS = 5
"Reloads within ten minutes that are no fault, as in the alert `KioskAppsReloaded`."
_SHOWN_APPS = 5
_FOR_THE_LOG = "is the actor alive? `kiosk cluster up` starts what is missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw, and what to do about it."""

    check: str
    level: Level
    words: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def check_redis_persistence(facts: Mapping[str, str]) -> Finding:
    """Return whether Redis keeps what it acknowledged, by its `INFO persistence`."""
    if facts.get("aof_enabled") != "1":
        advice = "`CONFIG SET appendonly yes` and write it into redis.conf: without it a crash loses records"
        return Finding("redis persistence", "bad", "the append-only file is off", advice)
    if facts.get("aof_last_write_status") != "ok":
        advice = "is the disk full? writes go on by themselves"
        return Finding("redis persistence", "bad", "its file can't be written", advice)
    return Finding("redis persistence", "ok", "append-only file on, last write good")


def check_differing(differing: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Return the apps whose replicas answer from different states."""
    for app_id, names in differing.items():
        yield Finding(
            f"replicas {app_id}",
            "bad",
            f"{len(names)} replicas at the same offset of the log hold different states: {', '.join(names)}",
            "restart the API replicas one by one; docs/guides/monitoring.md#kioskreplicasdiffer",
        )


def check_redis_memory(facts: Mapping[str, str]) -> Finding:
    """Return whether Redis has a bound and room below it, and throws no record away, by its `INFO memory`."""
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        advice = "`CONFIG SET maxmemory-policy noeviction`: records may not vanish"
        return Finding("redis memory", "bad", f"policy {policy} throws records away", advice)
    if facts.get("maxmemory", "0") == "0":
        advice = (
            "`CONFIG SET maxmemory` to what it may use: without a bound, writes of strangers end in its death"
        )
        return Finding("redis memory", "warning", "no bound", advice)
    share = used_memory_share(facts)
    words = f"{share:.0%} of {int(facts['maxmemory']) >> 20:,} MiB used, never throws records away"
    if share >= REFUSED_FROM:
        return Finding("redis memory", "bad", f"{words}: writes are refused", "raise KIOSK_REDIS_MEMORY_MB")
    if share >= WARNED_FROM:
        advice = f"raise KIOSK_REDIS_MEMORY_MB: writes are refused from {REFUSED_FROM:.0%} on"
        return Finding("redis memory", "warning", words, advice)
    return Finding("redis memory", "ok", words)


def check_app_memory(replicas: Sequence[ReplicaMemory]) -> Finding:
    """Return whether the apps that are used fit the memory budget of the API replicas."""
    if not replicas:
        return Finding("app memory", "ok", "no API replica has reported yet")
    largest = max(replicas, key=lambda memory: memory.counted_bytes)
    budget_mb = largest.budget_bytes >> 20
    largest_budget = max(memory.budget_bytes for memory in replicas)
    reloads = sum((Counter(memory.reloads) for memory in replicas), Counter[str]())
    words = (
        f"{largest.counted_bytes >> 20:,} of {budget_mb:,} MiB for {largest.apps} apps in the fullest API replica, "
        f"{reloads.total()} reloads in ten minutes"
    )
    advice = "raise KIOSK_MEMORY_MB (`kiosk up --memory`), or give busy apps dedicated engines"
    large = {app_id: size for memory in replicas for app_id, size in memory.large_apps.items()}
    if large:
        names = ", ".join(f"{app_id} ({size >> 20:,} MiB)" for app_id, size in sorted(large.items()))
        is_reserved = max(large.values()) <= largest_budget + (ABOVE_BUDGET_MB << 20)
        words = f"{words}; larger than the budget alone: {names}"
        if not is_reserved:
            words += ", which is more than Ray reserves"
        return Finding("app memory", "warning" if is_reserved else "bad", words, advice)
    if reloads.total() > FEW_RELOADS:
        names = ", ".join(f"{app_id} {count}x" for app_id, count in reloads.most_common(_SHOWN_APPS))
        return Finding("app memory", "warning", f"{words}: not all used apps fit ({names})", advice)
    return Finding("app memory", "ok", words)


def check_app_storage(stored: Sequence[tuple[App, int]]) -> Finding:
    """Return whether each app stores less than its bound; `stored` holds apps with their measured bytes."""
    shares = {
        app.app_id: size / (app.settings.max_storage_mb << 20)
        for app, size in stored
        if app.settings.max_storage_mb
    }
    near = [(app, size) for app, size in stored if shares.get(app.app_id, 0.0) >= WARNED_FROM]
    near.sort(key=lambda pair: -shares[pair[0].app_id])
    if not near:
        largest = max((size for _, size in stored), default=0)
        return Finding("app storage", "ok", f"the largest app stores {largest >> 20:,} MB")
    words = ", ".join(
        f"{app.app_id} stores {size >> 20:,} of at most {app.settings.max_storage_mb:,} MB"
        for app, size in near[:_SHOWN_APPS]
    )
    fullest = near[0][0]
    double_mb = 2 * fullest.settings.max_storage_mb
    advice = f"delete data, or `kiosk apps switch {fullest.app_id} max_storage_mb={double_mb}`"
    if shares[fullest.app_id] >= 1:
        return Finding("app storage", "bad", f"{words}: writes are refused", advice)
    return Finding("app storage", "warning", words, advice)


def check_disk(path: Path, limit: float) -> Finding:
    """Return whether the disk below a directory has room; without the directory, that of the nearest one above it.

    `limit` is the used share from which writes are refused.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        share = used_share(path)
        free = shutil.disk_usage(path).free / 2**30
    except OSError as error:
        return Finding("disk", "warning", f"it can't be looked at: {error.strerror or error}")
    words = f"{share:.0%} used, {free:.1f} GiB free"
    if share >= limit:
        return Finding(
            "disk", "bad", f"{words}: writes are refused", "free some space; writing goes on by itself"
        )
    if share >= limit - 0.1 or free < 2:
        return Finding("disk", "warning", words, f"writes are refused from {limit:.0%} on")
    return Finding("disk", "ok", words)


def check_lease(name: str, owner: str, remaining_ms: int) -> Finding:
    """Return whether a process holds a lease of background work."""
    if not owner:
        return Finding(f"lease {name}", "bad", "nobody holds it", _FOR_THE_LOG)
    return Finding(f"lease {name}", "ok", f"held by {owner}, {remaining_ms / 1000:.1f} s left")


def check_release(stored: StoredSchema, schema: int, releases: Sequence[RunningRelease]) -> Finding:
    """Return whether the running releases fit the schema of the data; `schema` is the one of this release."""
    running = ", ".join(release.label for release in releases)
    words = f"data has schema {stored.number}, this release {schema}; runs: {running or 'nothing'}"
    if stored.oldest > schema:
        return Finding("release", "bad", words, f"use a release with schema {stored.oldest} on this machine")
    if not releases:
        return Finding("release", "bad", words, "no API replica was seen for 30 s: `kiosk cluster up`")
    return Finding("release", "ok", words)


async def check_exposed_keys(access: AppAndKeyStore, now_ms: int) -> Finding:
    """Return whether a live secret key came where others can read it.

    That is an address (`?api_key=`), which proxies and browsers write down, and a page of another origin, which hands
    the key to everybody who opens it.
    """
    exposed = await access.list_exposed_keys()
    book = await access.read_all()
    exposed_keys: tuple[list[str], list[str]] = [], []
    for key in book.keys.values():
        for list_, name in zip(exposed_keys, (key.key_id, IN_BROWSER + key.key_id), strict=True):
            at_ms = exposed.get(name)
            if at_ms is not None and now_ms - at_ms < EXPOSED_FOR_MS:
                list_.append(f"{key.key_id} of {key.app_id} on {iso_ms(at_ms)[:16]}")
    in_addresses = sorted(exposed_keys[0])
    in_browsers = sorted(exposed_keys[1])
    words = [f"came as ?api_key=: {', '.join(in_addresses)}"] if in_addresses else []
    advice = ["send it as the header X-API-KEY: proxies write addresses down"] if in_addresses else []
    if in_browsers:
        words.append(f"came from a web page: {', '.join(in_browsers)}")
        advice.append(
            "give pages the publishable key, and refuse this one there: "
            "`kiosk apps switch APP secret_key_in_browser=refuse`"
        )
    if not words:
        return Finding("secret keys", "ok", "none came in an address or from a web page within 30 days")
    return Finding(
        "secret keys", "warning", "; ".join(words), "; ".join([*advice, "then `kiosk keys rotate`"])
    )
