"""The state of an installation as Redis has it, for any machine that reaches Redis. Reads only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cluster.admin.schema import newest_schema
from cluster.records.intake import Noun
from cluster.records.question import LATE_RECHECK
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import FOLLOWING_MS, find_differing, follower_lag_ms, log_lag_ms
from cluster.store.installation.identity import IdentityStore, StoredIdentity
from cluster.store.installation.leases import LEASES, LeaseHolder, LeaseReader
from cluster.store.installation.replica_memory import ReplicaMemory, ReplicaMemoryStore
from cluster.store.installation.schema_version import RunningRelease, SchemaStore, StoredSchema

_NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")


@dataclass(frozen=True, slots=True)
class EngineOverview:
    """One engine and its placement."""

    app_id: str
    engine_id: str
    placement: str
    "`shared` by the API replicas, or `dedicated`."
    state: str
    "Of a dedicated one; empty while nothing is known."
    replicas: int
    target: int
    message: str
    seen_ms: int


@dataclass(frozen=True, slots=True)
class LogState:
    """The change log of one noun of an app. A lag is the age difference of two entries, in milliseconds."""

    app_id: str
    noun: str
    last: str
    compacted: str
    followers: int
    follower_lag_ms: int
    "Of the slowest live follower, without one that is late on purpose."
    uncompacted_ms: int


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """Everything that was read."""

    identity: StoredIdentity
    schema: StoredSchema
    newest_schema: int
    "The newest schema of this release."
    releases: tuple[RunningRelease, ...]
    leases: tuple[LeaseHolder, ...]
    engines: tuple[EngineOverview, ...]
    logs: tuple[LogState, ...]
    waiting: dict[str, int]
    "Accepted batches that were not applied yet, by app."
    differing: dict[str, list[str]]
    "Replicas whose state differs from that of another one at the same offset, by app; apps without any are absent."
    memory: tuple[ReplicaMemory, ...]
    "What the loaded apps of each API replica take of its memory budget."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


async def read_cluster(stores: OpenStores, now_ms: int) -> ClusterReport:
    """Read the state of an installation; a dozen commands, and a dozen more for each app."""
    server = stores.server
    overview = LeaseReader(server)
    schema = SchemaStore(server)
    apps = sorted((await stores.access.read_all()).apps)
    engines: list[EngineOverview] = []
    logs: list[LogState] = []
    differing: dict[str, list[str]] = {}
    for app_id in apps:
        engines += await _read_engines(stores, app_id)
        logs += await _read_logs(stores, app_id, now_ms)
        if names := find_differing(await stores.changes.list_followers(app_id), now_ms):
            differing[app_id] = names
    return ClusterReport(
        await IdentityStore(server).read(),
        await schema.read(),
        newest_schema(),
        tuple(await schema.list_releases(now_ms)),
        tuple([await overview.read_lease(name) for name in LEASES]),
        tuple(engines),
        tuple(logs),
        {app_id: await stores.intake.depth(app_id) for app_id in apps},
        differing,
        tuple(await ReplicaMemoryStore(server).read(now_ms)),
    )


async def _read_engines(stores: OpenStores, app_id: str) -> list[EngineOverview]:
    statuses = await stores.engine_activity.list_statuses(app_id)
    overviews = []
    for engine in sorted(await stores.engines.all(app_id), key=lambda stored: stored.engine_id):
        status = statuses.get(engine.engine_id)
        placement = "dedicated" if engine.placement == "own" else "shared"
        overviews.append(
            EngineOverview(app_id, engine.engine_id, placement, "", 0, 0, "", 0)
            if status is None
            else EngineOverview(
                app_id,
                engine.engine_id,
                placement,
                status.state,
                status.replicas,
                status.target,
                status.message,
                status.at,
            )
        )
    return overviews


async def _read_logs(stores: OpenStores, app_id: str, now_ms: int) -> list[LogState]:
    live = [
        follower
        for follower in await stores.changes.list_followers(app_id)
        if now_ms - follower.at_ms < FOLLOWING_MS
    ]
    compacted = await stores.changes.compacted_offsets(app_id)
    states = []
    for noun in _NOUNS:
        last = await stores.changes.last(app_id, noun)
        followers = [follower for follower in live if noun in follower.offsets]
        lags = [
            follower_lag_ms(last, follower.offsets[noun], follower.at_ms)
            for follower in followers
            if follower.name != LATE_RECHECK
        ]
        settled = compacted.get(noun, "0")
        # nothing compacted yet: the age of the first entry would take a read of it
        uncompacted = log_lag_ms(last, settled) if settled != "0" else 0
        states.append(
            LogState(app_id, noun, last, settled, len(followers), max(lags, default=0), uncompacted)
        )
    return states
