"""The ports in dictionaries, put together: for tests, and for trying things out without a Redis."""

from __future__ import annotations

from cluster.clock import Clock, SystemClock
from cluster.records.logged_query import LoggedQuery
from cluster.records.served_list import ServedAnswer
from cluster.store.data.intake import IDLE_MS, MOST_WAITING
from cluster.store.stores import Stores
from tests.fakes.stores.accounts import MemoryAccounts, MemoryGrants, MemoryRegistrations
from tests.fakes.stores.administration import MemoryAdminTokens, MemoryAudit, MemoryInvitations
from tests.fakes.stores.archive_admin import (
    MemoryArticleReads,
    MemoryArticleRevisions,
    MemoryClientRules,
    MemoryPublisherKeys,
)
from tests.fakes.stores.boost_rules import MemoryRules, MemoryRuleVersions
from tests.fakes.stores.changes import MemoryChanges
from tests.fakes.stores.erasures import MemoryErasures
from tests.fakes.stores.experiments import MemoryExperiments
from tests.fakes.stores.feeds import MemoryFeeds
from tests.fakes.stores.imports import MemoryImports
from tests.fakes.stores.intake import MemoryIntake
from tests.fakes.stores.interactions import MemoryInteractions
from tests.fakes.stores.quarantine import MemoryQuarantine
from tests.fakes.stores.query_log import MemoryLogStream, MemoryQuestionBank
from tests.fakes.stores.questions import MemoryQuestions
from tests.fakes.stores.records import MemoryRecords, MemoryTasks
from tests.fakes.stores.runs import MemoryPromotions, MemoryRuns, MemorySchedules
from tests.fakes.stores.schema import MemorySchema
from tests.fakes.stores.small_stores import (
    MemoryAppsAndKeys,
    MemoryEngineActivity,
    MemoryEngines,
    MemoryIdempotency,
    MemoryLeases,
    MemoryLimits,
    MemoryShownProducts,
)
from tests.fakes.stores.state import MemoryState
from tests.fakes.stores.threads import MemoryThreads
from tests.fakes.stores.usage import MemoryUsage


def memory_stores(
    clock: Clock | None = None, *, idle_ms: int = IDLE_MS, most_waiting: int = MOST_WAITING
) -> Stores:
    """Make all ports, empty. Hand the same object to everybody who should see the same data."""
    clock = clock or SystemClock()
    state, experiments, threads = MemoryState(clock), MemoryExperiments(), MemoryThreads()
    questions, versions = MemoryQuestions(), MemoryRuleVersions()
    queries = MemoryLogStream[LoggedQuery](clock)
    interactions = MemoryInteractions(state, experiments, threads, questions)
    return Stores(
        access=MemoryAppsAndKeys(),
        records=MemoryRecords(state),
        intake=MemoryIntake(state, idle_ms=idle_ms, most_waiting=most_waiting),
        tasks=MemoryTasks(state),
        interactions=interactions,
        changes=MemoryChanges(state),
        engines=MemoryEngines(state),
        engine_activity=MemoryEngineActivity(),
        boost_rules=MemoryRules(versions),
        rule_versions=versions,
        limits=MemoryLimits(),
        idempotency=MemoryIdempotency(clock),
        shown_products=MemoryShownProducts(clock),
        leases=MemoryLeases(clock),
        runs=MemoryRuns(state),
        schedules=MemorySchedules(state),
        promotions=MemoryPromotions(state),
        accounts=MemoryAccounts(),
        grants=MemoryGrants(),
        registrations=MemoryRegistrations(),
        admin_tokens=MemoryAdminTokens(),
        invitations=MemoryInvitations(),
        audit=MemoryAudit(),
        archive_calls=MemoryLogStream(clock),
        client_rules=MemoryClientRules(),
        article_revisions=MemoryArticleRevisions(),
        article_reads=MemoryArticleReads(),
        publisher_keys=MemoryPublisherKeys(),
        feeds=MemoryFeeds(),
        experiments=experiments,
        threads=threads,
        questions=questions,
        queries=queries,
        served=MemoryLogStream(clock, ServedAnswer),
        question_bank=MemoryQuestionBank(),
        erasures=MemoryErasures(state, interactions, queries),
        usage=MemoryUsage(),
        imports=MemoryImports(),
        quarantine=MemoryQuarantine(),
        schema=MemorySchema(),
    )
