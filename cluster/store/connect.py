"""Opening the stores of one process over one Redis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from cluster.clock import Clock, SystemClock
from cluster.meter import Meter, SilentMeter
from cluster.store.ports.stores import Stores
from cluster.store.redis.access import RedisAccess
from cluster.store.redis.accounts import RedisAccounts, RedisGrants
from cluster.store.redis.address import Address
from cluster.store.redis.administration import RedisAdminTokens, RedisInvitations
from cluster.store.redis.archive_admin import RedisArchiveCalls, RedisClientRules
from cluster.store.redis.audit import RedisAudit
from cluster.store.redis.boost_rules import RedisRules, RedisRuleVersions
from cluster.store.redis.changes import RedisChanges
from cluster.store.redis.client import HOT_S, SLOW_S, RedisClient
from cluster.store.redis.cluster_client import ClusterClient
from cluster.store.redis.discovery import locator
from cluster.store.redis.engine_watch import RedisEngineWatch
from cluster.store.redis.engines import RedisEngines
from cluster.store.redis.erasures import RedisErasures
from cluster.store.redis.experiments import RedisExperiments
from cluster.store.redis.idempotency import RedisIdempotency
from cluster.store.redis.imports import RedisImports
from cluster.store.redis.intake import IDLE_MS, MOST_WAITING, RedisIntake
from cluster.store.redis.interactions import RedisInteractions
from cluster.store.redis.leases import RedisLeases
from cluster.store.redis.library_client import LibraryClient
from cluster.store.redis.limits import RedisLimits
from cluster.store.redis.multiplexed_client import MultiplexedClient
from cluster.store.redis.multiplexer import text_of
from cluster.store.redis.pagination import RedisPages
from cluster.store.redis.promotions import RedisPromotions
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.quarantine_reader import QuarantineReader
from cluster.store.redis.query_log import RedisQueries
from cluster.store.redis.question_bank import RedisQuestionBank
from cluster.store.redis.questions import RedisQuestions
from cluster.store.redis.records import RedisRecords
from cluster.store.redis.registrations import RedisRegistrations
from cluster.store.redis.runs import RedisRuns
from cluster.store.redis.schedules import RedisSchedules
from cluster.store.redis.schema import RedisSchema
from cluster.store.redis.tasks import RedisTasks
from cluster.store.redis.threads import RedisThreads
from cluster.store.redis.usage import RedisUsage


@dataclass(frozen=True, slots=True)
class OpenStores(Stores):
    """`Stores` over an open connection; used from one event loop and closed there.

    They connect on first use. `await` them to wait up to two seconds for the connection, or use `async with`,
    which also closes. An unreachable Redis is no error here: calls raise `Unavailable` until Redis answers.
    """

    server: RedisClient
    check: Callable[[Stores], Awaitable[Any]] | None = None
    "Called when they are opened; what it raises closes them."

    @property
    def stores(self) -> Stores:
        """Return these stores, for callers that close them elsewhere."""
        return self

    async def close(self) -> None:
        """Close all connections."""
        await self.server.close()

    async def info(self, section: str = "default") -> dict[str, str]:
        """Return the report (`INFO`) of the server, or of the first master of a cluster, as name -> text."""
        return (await self.infos(section))[0]

    async def infos(self, section: str) -> list[dict[str, str]]:
        """Return the report of every master, as name -> text."""
        return [_facts(text_of(reply)) for reply in await self.server.everywhere("INFO", section)]

    async def configuration(self, pattern: str) -> dict[str, str]:
        """Return settings of the server (`CONFIG GET`), as name -> text."""
        flat = [text_of(item) for item in await self.server.execute_slow("CONFIG", "GET", pattern)]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def __await__(self) -> Generator[Any, None, OpenStores]:
        return self._opened().__await__()

    async def __aenter__(self) -> OpenStores:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self) -> OpenStores:
        await self.server.ready()
        if self.check is not None:
            try:
                await self.check(self)
            except BaseException:
                await self.close()
                raise
        return self


def open_client(
    address: Address,
    *,
    clock: Clock,
    meter: Meter,
    hot_s: float = HOT_S,
    slow_s: float = SLOW_S,
    is_serving: bool = True,
) -> RedisClient:
    """Return the client for an address: multiplexed if requests wait for it, else the client over
    redis-py.
    """
    if not is_serving:
        return LibraryClient(address, slow_s=slow_s)
    if address.kind == "cluster":
        return ClusterClient(address, clock=clock, meter=meter, hot_s=hot_s, slow_s=slow_s)
    return MultiplexedClient(address, locator(address), clock=clock, meter=meter, hot_s=hot_s, slow_s=slow_s)


def open_stores(
    url: str,
    *,
    meter: Meter | None = None,
    clock: Clock | None = None,
    hot_s: float = HOT_S,
    slow_s: float = SLOW_S,
    idle_ms: int = IDLE_MS,
    most_waiting: int = MOST_WAITING,
    is_serving: bool = True,
) -> OpenStores:
    """Open all ports over one Redis.

    `is_serving` means that requests wait for these stores; commands, jobs and actors use redis-py instead.
    `hot_s` and `slow_s` are the deadlines, in seconds, of short reads and of all other commands. `idle_ms` is
    the time after which a consumer may take over another consumer's batches. `most_waiting` bounds an app's
    intake.

    Errors:
        Invalid: not a Redis URL
    """
    clock = clock or SystemClock()
    meter = meter or SilentMeter()
    server = open_client(
        Address.parse(url), clock=clock, meter=meter, hot_s=hot_s, slow_s=slow_s, is_serving=is_serving
    )
    quarantine = Quarantine(server, clock, meter)
    interactions, changes = RedisInteractions(server, clock), RedisChanges(server, quarantine)
    return OpenStores(
        access=RedisAccess(server, quarantine),
        records=RedisRecords(server, quarantine),
        intake=RedisIntake(server, clock, idle_ms=idle_ms, most_waiting=most_waiting),
        tasks=RedisTasks(server),
        interactions=interactions,
        changes=changes,
        engines=RedisEngines(server, quarantine),
        engine_watch=RedisEngineWatch(server),
        boost_rules=RedisRules(server, quarantine),
        rule_versions=RedisRuleVersions(server),
        limits=RedisLimits(server),
        idempotency=RedisIdempotency(server),
        pages=RedisPages(server),
        leases=RedisLeases(server),
        runs=RedisRuns(server, quarantine),
        schedules=RedisSchedules(server, quarantine),
        promotions=RedisPromotions(server),
        accounts=RedisAccounts(server, quarantine),
        grants=RedisGrants(server),
        registrations=RedisRegistrations(server, quarantine),
        admin_tokens=RedisAdminTokens(server, quarantine),
        invitations=RedisInvitations(server, quarantine),
        audit=RedisAudit(server),
        archive_calls=RedisArchiveCalls(server),
        client_rules=RedisClientRules(server, quarantine),
        experiments=RedisExperiments(server, quarantine),
        threads=RedisThreads(server, quarantine),
        questions=RedisQuestions(server, quarantine),
        queries=RedisQueries(server),
        question_bank=RedisQuestionBank(server),
        erasures=RedisErasures(server, interactions, changes, clock),
        usage=RedisUsage(server),
        imports=RedisImports(server, quarantine),
        quarantine=QuarantineReader(server),
        schema=RedisSchema(server),
        server=server,
    )


def _facts(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}
