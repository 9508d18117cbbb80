"""The store suites over a real Redis server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from copy import copy
from dataclasses import replace
from functools import partial

import pytest

from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store import keys
from cluster.store.administration import apps_and_keys
from cluster.store.administration.registrations import RegistrationStore
from cluster.store.connect import OpenStores, open_stores
from cluster.store.seals.quarantine import Quarantine
from cluster.store.stores import Stores
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, Mortal
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

pytestmark = pytest.mark.redis

OpenMore = Callable[..., OpenStores]


@pytest.fixture
def open_more(redis_url: str) -> OpenMore:
    """Open further stores over the same Redis."""
    return partial(open_stores, redis_url, hot_s=5.0, slow_s=10.0)


class _Redis:
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores


class TestRecords(_Redis, RecordStoreSuite): ...


class TestIntake(_Redis, IntakeSuite):
    @pytest.fixture
    async def hasty(self, open_more: OpenMore, redis_stores: OpenStores) -> AsyncIterator[Stores]:
        async with open_more(idle_ms=20) as stores:
            yield stores

    @pytest.fixture
    async def narrow(self, open_more: OpenMore, redis_stores: OpenStores) -> AsyncIterator[Stores]:
        async with open_more(most_waiting=3) as stores:
            yield stores


class TestTasks(_Redis, TaskSuite):
    async def lose_batches(self, stores: Stores) -> None:
        assert isinstance(stores, OpenStores)
        await stores.server.execute_slow("XTRIM", keys.intake(APP), "MAXLEN", 0)


class TestChanges(_Redis, ChangeLogSuite): ...


class TestInteractions(_Redis, InteractionSuite): ...


class TestAccess(_Redis, AccessSuite):
    async def test_above_the_bound_the_oldest_ended_tokens_become_one_time_for_all(
        self, stores: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(apps_and_keys, "MOST_ENDED", 10)
        monkeypatch.setattr(apps_and_keys, "_REMOVED_AT_ONCE", 5)
        sizes = []
        for at_ms in range(1, 32):
            await stores.access.end_tokens(APP, f"user-{at_ms}", at_ms)
            sizes.append((await stores.access.ended_tokens(APP, 0)).size)
        assert max(sizes) == 15
        ended = await stores.access.ended_tokens(APP, 0)
        assert sorted(ended.times.values()) == list(range(ended.times[apps_and_keys.ALL_USERS], 32))
        assert len(ended.times) == ended.size

    async def test_a_process_that_dies_ends_tokens_on_all_replicas_or_on_none(self, stores: Stores) -> None:
        assert isinstance(stores, OpenStores)
        await stores.access.end_tokens(APP, "ada", 1)
        access = copy(stores.access)
        results = []
        for half_steps in range(5):
            count = (await access.ended_counts())[APP]
            size = (await access.ended_tokens(APP, 0)).size
            access._server = Mortal(stores.server, Life(half_steps))
            with contextlib.suppress(Killed):
                await access.end_tokens(APP, f"user-{half_steps}", 2)
            access._server = stores.server
            is_stored = (await access.ended_tokens(APP, 0)).size > size
            results.append((is_stored, (await access.ended_counts())[APP] > count))
        assert set(results) == {(False, False), (True, True)}

    async def test_ended_tokens_of_the_former_key_count_beside_newer_ones(self, stores: Stores) -> None:
        assert isinstance(stores, OpenStores)
        await stores.access.end_tokens(APP, "ada", 10)
        ((mark, _),) = (await stores.access.ended_tokens(APP, 0)).times.items()
        await stores.server.execute_slow("ZADD", keys.former_ended_tokens(APP), 20, mark, 30, "other")
        ended = await stores.access.ended_tokens(APP, 15)
        assert (ended.size, dict(ended.times)) == (3, {mark: 20, "other": 30})
        assert await stores.access.read_token_end(APP, "ada") == 20


class TestEngines(_Redis, EngineSuite): ...


class TestEngineWatch(_Redis, EngineWatchSuite): ...


class TestLimits(_Redis, LimitSuite): ...


class TestIdempotency(_Redis, IdempotencySuite): ...


class TestPages(_Redis, PageSuite): ...


class TestLeases(_Redis, LeaseSuite): ...


class TestRuns(_Redis, RunSuite): ...


class TestSchedules(_Redis, ScheduleSuite): ...


class TestPromotions(_Redis, PromotionSuite): ...


class TestAccounts(_Redis, AccountSuite): ...


class TestGrants(_Redis, GrantSuite): ...


class TestRegistrations(_Redis, RegistrationSuite):
    @pytest.fixture
    def narrow(self, redis_stores: OpenStores) -> Stores:
        quarantine = Quarantine(redis_stores.server, SystemClock(), SilentMeter())
        return replace(redis_stores, registrations=RegistrationStore(redis_stores.server, quarantine, most=3))


class TestAdminTokens(_Redis, AdminTokenSuite): ...


class TestInvitations(_Redis, InvitationSuite): ...


class TestAudit(_Redis, AuditSuite): ...


class TestArchiveCalls(_Redis, ArchiveCallSuite): ...


class TestClientRules(_Redis, ClientRuleSuite): ...


class TestArticleRevisions(_Redis, ArticleRevisionSuite): ...


class TestQueries(_Redis, QuerySuite): ...


class TestQuestionBank(_Redis, QuestionBankSuite): ...
