"""Opening the stores of one process over one Redis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from cluster.clock import Clock, SystemClock
from cluster.meter import Meter, SilentMeter
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.logged_query import LoggedQuery
from cluster.records.served_list import ServedAnswer
from cluster.store import keys
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.admin_tokens import AdminTokenStore, InvitationStore
from cluster.store.administration.apps_and_keys import AppAndKeyStore
from cluster.store.administration.audit import AuditLog
from cluster.store.administration.grants import GrantStore
from cluster.store.administration.registrations import RegistrationStore
from cluster.store.app_quotas import UsageStore
from cluster.store.archive.article_reads import ArticleReadStore
from cluster.store.archive.article_revisions import ArticleRevisionStore
from cluster.store.archive.client_rules import ClientRuleStore
from cluster.store.archive.feeds import FeedStore
from cluster.store.archive.log_stream import LogStream
from cluster.store.archive.publisher_keys import PublisherKeyStore
from cluster.store.archive.question_bank import QuestionBankStore
from cluster.store.archive.threads import ThreadStore
from cluster.store.archive.user_questions import QuestionStore
from cluster.store.client.address import Address
from cluster.store.client.cluster_client import ClusterClient
from cluster.store.client.discovery import build_locator
from cluster.store.client.library_client import LibraryClient
from cluster.store.client.multiplexed_client import MultiplexedClient
from cluster.store.client.redis_client import HOT_S, SLOW_S, RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.data.change_log import ChangeLog
from cluster.store.data.erasures import ErasureStore
from cluster.store.data.idempotency import IdempotencyStore
from cluster.store.data.imports import ImportStore
from cluster.store.data.intake import IDLE_MS, MOST_WAITING, Intake
from cluster.store.data.interactions import InteractionStore
from cluster.store.data.records import RecordStore
from cluster.store.data.tasks import TaskStore
from cluster.store.engines.boost_rules import RuleStore, RuleVersionStore
from cluster.store.engines.engine_activity import EngineActivityStore
from cluster.store.engines.engines import EngineStore
from cluster.store.engines.experiments import ExperimentStore
from cluster.store.engines.promotions import PromotionStore
from cluster.store.engines.runs import RunStore, ScheduleStore
from cluster.store.engines.shown_products import ShownProductStore
from cluster.store.installation.leases import LeaseStore
from cluster.store.installation.quarantine_store import QuarantineStore
from cluster.store.installation.rate_limits import LimitStore
from cluster.store.installation.schema_version import SchemaStore
from cluster.store.seals.quarantine import Quarantine
from cluster.store.stores import Stores


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
        await self.server.close()

    async def info(self, section: str = "default") -> dict[str, str]:
        """Return the report (`INFO`) of the server, or of the first master of a cluster, as name -> text."""
        return (await self.infos(section))[0]

    async def infos(self, section: str) -> list[dict[str, str]]:
        """Return the report of every master, as name -> text."""
        return [_facts(text_of(reply)) for reply in await self.server.execute_everywhere("INFO", section)]

    async def configuration(self, pattern: str) -> dict[str, str]:
        """Return settings of the server (`CONFIG GET`), as name -> text."""
        flat = [text_of(item) for item in await self.server.execute_slow("CONFIG", "GET", pattern)]
        return dict(split_pairs(flat))

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
            # Also when cancelled: nobody else would close the connection.
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
    return MultiplexedClient(
        address, build_locator(address), clock=clock, meter=meter, hot_s=hot_s, slow_s=slow_s
    )


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
    """Open all stores over one Redis.

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
    interactions = InteractionStore(server, clock)
    changes = ChangeLog(server, quarantine)
    return OpenStores(
        access=AppAndKeyStore(server, quarantine),
        records=RecordStore(server, quarantine),
        intake=Intake(server, clock, idle_ms=idle_ms, most_waiting=most_waiting),
        tasks=TaskStore(server),
        interactions=interactions,
        changes=changes,
        engines=EngineStore(server, quarantine),
        engine_activity=EngineActivityStore(server),
        boost_rules=RuleStore(server, quarantine),
        rule_versions=RuleVersionStore(server),
        limits=LimitStore(server),
        idempotency=IdempotencyStore(server),
        shown_products=ShownProductStore(server),
        leases=LeaseStore(server),
        runs=RunStore(server, quarantine),
        schedules=ScheduleStore(server, quarantine),
        promotions=PromotionStore(server),
        accounts=AccountStore(server, quarantine),
        grants=GrantStore(server),
        registrations=RegistrationStore(server, quarantine),
        admin_tokens=AdminTokenStore(server, quarantine),
        invitations=InvitationStore(server, quarantine),
        audit=AuditLog(server),
        archive_calls=LogStream(server, keys.archive_call, ArchiveCall),
        client_rules=ClientRuleStore(server, quarantine),
        article_revisions=ArticleRevisionStore(server, quarantine),
        article_reads=ArticleReadStore(server),
        publisher_keys=PublisherKeyStore(server, quarantine),
        feeds=FeedStore(server, quarantine),
        experiments=ExperimentStore(server, quarantine),
        threads=ThreadStore(server, quarantine),
        questions=QuestionStore(server, quarantine),
        queries=LogStream(server, keys.query, LoggedQuery),
        served=LogStream(server, keys.served, ServedAnswer),
        question_bank=QuestionBankStore(server),
        erasures=ErasureStore(server, interactions, changes, clock),
        usage=UsageStore(server),
        imports=ImportStore(server, quarantine),
        quarantine=QuarantineStore(server),
        schema=SchemaStore(server),
        server=server,
    )


def _facts(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}
