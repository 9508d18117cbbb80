"""The store suites over the ports in dictionaries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.store.stores import Stores
from tests.fakes.stores.accounts import MemoryRegistrations
from tests.fakes.stores.intake import MemoryIntake
from tests.fakes.stores.memory import memory_stores as make
from tests.suites.administration import AdminTokenSuite, AuditSuite, InvitationSuite
from tests.suites.changes import ChangeLogSuite
from tests.suites.doing import APP
from tests.suites.intake import IntakeSuite
from tests.suites.interactions import InteractionSuite
from tests.suites.people import AccountSuite, GrantSuite, RegistrationSuite
from tests.suites.publishing import ArchiveCallSuite, ArticleRevisionSuite, ClientRuleSuite
from tests.suites.record_store import RecordStoreSuite
from tests.suites.runs import PromotionSuite, RunSuite, ScheduleSuite
from tests.suites.searching import QuerySuite, QuestionBankSuite
from tests.suites.small import (
    AccessSuite,
    EngineSuite,
    EngineWatchSuite,
    IdempotencySuite,
    LeaseSuite,
    LimitSuite,
    PageSuite,
)
from tests.suites.tasks import TaskSuite


class _Memory:
    @pytest.fixture
    def stores(self, memory_stores: Stores) -> Stores:
        return memory_stores


class TestRecords(_Memory, RecordStoreSuite): ...


class TestIntake(_Memory, IntakeSuite):
    @pytest.fixture
    def hasty(self) -> Stores:
        return make(idle_ms=20)

    @pytest.fixture
    def narrow(self) -> Stores:
        return make(most_waiting=3)


class TestTasks(_Memory, TaskSuite):
    async def lose_batches(self, stores: Stores) -> None:
        assert isinstance(stores.intake, MemoryIntake)
        for batch in await stores.intake.claim("thief", [APP], count=10, block_ms=0):
            stores.intake._take_out(batch)


class TestChanges(_Memory, ChangeLogSuite): ...


class TestInteractions(_Memory, InteractionSuite): ...


class TestAccess(_Memory, AccessSuite): ...


class TestEngines(_Memory, EngineSuite): ...


class TestEngineWatch(_Memory, EngineWatchSuite): ...


class TestLimits(_Memory, LimitSuite): ...


class TestIdempotency(_Memory, IdempotencySuite): ...


class TestPages(_Memory, PageSuite): ...


class TestLeases(_Memory, LeaseSuite): ...


class TestRuns(_Memory, RunSuite): ...


class TestSchedules(_Memory, ScheduleSuite): ...


class TestPromotions(_Memory, PromotionSuite): ...


class TestAccounts(_Memory, AccountSuite): ...


class TestGrants(_Memory, GrantSuite): ...


class TestRegistrations(_Memory, RegistrationSuite):
    @pytest.fixture
    def narrow(self, stores: Stores) -> Stores:
        return replace(stores, registrations=MemoryRegistrations(most=3))


class TestAdminTokens(_Memory, AdminTokenSuite): ...


class TestInvitations(_Memory, InvitationSuite): ...


class TestAudit(_Memory, AuditSuite): ...


class TestArchiveCalls(_Memory, ArchiveCallSuite): ...


class TestClientRules(_Memory, ClientRuleSuite): ...


class TestArticleRevisions(_Memory, ArticleRevisionSuite): ...


class TestQueries(_Memory, QuerySuite): ...


class TestQuestionBank(_Memory, QuestionBankSuite): ...
