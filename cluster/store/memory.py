"""The ports in dictionaries, put together: for tests, and for trying things out without a Redis."""

from __future__ import annotations

from cluster.clock import Clock, SystemClock
from cluster.store.intake import IDLE_MS, MOST_WAITING
from cluster.store.ports import Stores
from cluster.store.twin.archive import MemoryArchiveCalls, MemoryClientRules
from cluster.store.twin.changes import MemoryChanges
from cluster.store.twin.erasures import MemoryErasures
from cluster.store.twin.experiments import MemoryExperiments
from cluster.store.twin.intake import MemoryIntake
from cluster.store.twin.interactions import MemoryInteractions
from cluster.store.twin.oauth import MemoryAccounts, MemoryGrants, MemoryRegistrations
from cluster.store.twin.queries import MemoryQueries, MemoryQuestionBank
from cluster.store.twin.questions import MemoryQuestions
from cluster.store.twin.records import MemoryRecords, MemoryTasks
from cluster.store.twin.rules import MemoryRules
from cluster.store.twin.runs import MemoryPromotions, MemoryRuns, MemorySchedules
from cluster.store.twin.small import (
    MemoryAccess,
    MemoryEngines,
    MemoryEngineWatch,
    MemoryIdempotency,
    MemoryLeases,
    MemoryLimits,
    MemoryPages,
)
from cluster.store.twin.state import MemoryState
from cluster.store.twin.threads import MemoryThreads


def memory_stores(
    clock: Clock | None = None, *, idle_ms: int = IDLE_MS, most_waiting: int = MOST_WAITING
) -> Stores:
    """Make all ports, empty. Hand the same object to everybody who should see the same data."""
    clock = clock or SystemClock()
    state, experiments, threads = MemoryState(clock), MemoryExperiments(), MemoryThreads()
    questions, queries = MemoryQuestions(), MemoryQueries(clock)
    interactions = MemoryInteractions(state, experiments, threads, questions)
    return Stores(
        access=MemoryAccess(),
        records=MemoryRecords(state),
        intake=MemoryIntake(state, idle_ms=idle_ms, most_waiting=most_waiting),
        tasks=MemoryTasks(state),
        interactions=interactions,
        changes=MemoryChanges(state),
        engines=MemoryEngines(state),
        engine_watch=MemoryEngineWatch(),
        boost_rules=MemoryRules(),
        limits=MemoryLimits(),
        idempotency=MemoryIdempotency(clock),
        pages=MemoryPages(clock),
        leases=MemoryLeases(clock),
        runs=MemoryRuns(state),
        schedules=MemorySchedules(state),
        promotions=MemoryPromotions(state),
        accounts=MemoryAccounts(),
        grants=MemoryGrants(),
        registrations=MemoryRegistrations(),
        archive_calls=MemoryArchiveCalls(),
        client_rules=MemoryClientRules(),
        experiments=experiments,
        threads=threads,
        questions=questions,
        queries=queries,
        question_bank=MemoryQuestionBank(),
        erasures=MemoryErasures(state, interactions, queries),
    )
