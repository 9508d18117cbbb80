"""What the ports of publishers promise: the book of calls, and the rules for clients."""

from __future__ import annotations

import pytest

from cluster.clock import SystemClock
from cluster.records.archive_client import ArchiveCall, ClientRule
from cluster.store.stores import Stores
from tests.suites.doing import APP, OTHER


def a_call(at: int, question: str = "river rules") -> ArchiveCall:
    return ArchiveCall(
        at=at, tool="ask_archive", client="c-1", client_name="Agent \u2028", question=question, articles=("a", "b"),
    )  # fmt: skip


class ArchiveCallSuite:
    @pytest.fixture
    def stores(self) -> Stores:
        raise NotImplementedError

    async def test_calls_read_back_in_order_from_a_time_on(self, stores: Stores) -> None:
        now = SystemClock().now_ms()
        calls = [a_call(now + step, f"question {step}") for step in range(2_500)]
        await stores.archive_calls.append(APP, calls[:1_000])
        await stores.archive_calls.append(APP, calls[1_000:])
        assert await stores.archive_calls.read_since(APP, 0) == calls
        assert await stores.archive_calls.read_since(APP, now + 2_400) == calls[2_400:]
        assert await stores.archive_calls.read_since(OTHER, 0) == []

    async def test_an_empty_batch_is_accepted(self, stores: Stores) -> None:
        await stores.archive_calls.append(APP, [])
        assert await stores.archive_calls.read_since(APP, 0) == []


class ClientRuleSuite:
    @pytest.fixture
    def stores(self) -> Stores:
        raise NotImplementedError

    async def test_a_rule_is_stored_and_replaced_under_its_folded_name(self, stores: Stores) -> None:
        await stores.client_rules.put(APP, ClientRule(client="Greedy  Bot", decision="deny"))
        await stores.client_rules.put(APP, ClientRule(client="greedy bot", calls_per_minute=5))
        await stores.client_rules.put(APP, ClientRule(client="*"))
        assert await stores.client_rules.all(APP) == {
            "greedy bot": ClientRule(client="greedy bot", calls_per_minute=5),
            "*": ClientRule(client="*"),
        }
        assert await stores.client_rules.all(OTHER) == {}

    async def test_a_rule_can_be_removed_once(self, stores: Stores) -> None:
        await stores.client_rules.put(APP, ClientRule(client="Bot"))
        assert await stores.client_rules.remove(APP, "BOT")
        assert not await stores.client_rules.remove(APP, "BOT")
        assert await stores.client_rules.all(APP) == {}
