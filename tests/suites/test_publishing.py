"""What the ports of publishers promise: the book of calls, and the rules for clients."""

from __future__ import annotations

from dataclasses import replace

from cluster.clock import SystemClock
from cluster.records.archive.archive_client import ArchiveCall, ClientRule
from cluster.records.archive.article_revision import ArticleRead, ArticleRevision, PublisherKey
from cluster.store.stores import Stores
from tests.suites.doing import APP, OTHER


def a_call(at: int, question: str = "river rules") -> ArchiveCall:
    return ArchiveCall(
        at=at, tool="ask_archive", client="c-1", client_name="Agent \u2028", question=question, articles=("a", "b"),
    )  # fmt: skip


class TestArchiveCalls:
    async def test_calls_read_back_in_order_from_a_time_on(self, stores: Stores) -> None:
        now = SystemClock().now_ms()
        calls = [a_call(now + step, f"question {step}") for step in range(2_500)]
        await stores.archive_calls.append(APP, calls[:1_000])
        await stores.archive_calls.append(APP, calls[1_000:])
        assert await stores.archive_calls.read_all(APP, "0") == calls
        later = await stores.archive_calls.read_all(APP, "0", lambda call: call.at >= now + 2_400)
        assert later == calls[2_400:]
        assert await stores.archive_calls.read_all(OTHER, "0") == []

    async def test_a_call_keeps_the_agent_that_signed_it(self, stores: Stores) -> None:
        signed = replace(a_call(SystemClock().now_ms()), signature="verified", agent="agent.example")
        await stores.archive_calls.append(APP, [signed])
        assert await stores.archive_calls.read_all(APP, "0") == [signed]

    async def test_an_empty_batch_is_accepted(self, stores: Stores) -> None:
        await stores.archive_calls.append(APP, [])
        assert await stores.archive_calls.read_all(APP, "0") == []


class TestClientRules:
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


class TestArticleRevisions:
    async def test_revisions_are_replaced_and_removed(self, stores: Stores) -> None:
        first = ArticleRevision(status="corrected", at=1, revision="r", title="T", note="N")
        withdrawn = first.model_copy(update={"status": "withdrawn", "revision": "withdrawn"})
        await stores.article_revisions.put(APP, {"a": first, "b": first, "c": first})
        await stores.article_revisions.put(APP, {"a": withdrawn, "b": None})
        assert await stores.article_revisions.all(APP) == {"a": withdrawn, "c": first}
        assert await stores.article_revisions.all(OTHER) == {}
        await stores.article_revisions.put(APP, {})

    async def test_notes_of_reading_come_in_order_and_once(self, stores: Stores) -> None:
        now_ms = SystemClock().now_ms()
        reads = [ArticleRead("agent", f"p-{number}", "") for number in range(5)]
        await stores.article_reads.append(APP, reads[:3])
        offset, first = await stores.article_reads.read_after(APP, "0", now_ms)
        await stores.article_reads.append(APP, reads[3:])
        offset, rest = await stores.article_reads.read_after(APP, offset, now_ms)
        assert first + rest == reads
        assert await stores.article_reads.read_after(APP, offset, now_ms) == (offset, [])
        assert (await stores.article_reads.read_after(OTHER, "0", now_ms))[1] == []

    async def test_a_public_key_is_never_replaced(self, stores: Stores) -> None:
        key = PublisherKey(key_id="k", generation=1, public_key="x", created_at=1)
        await stores.publisher_keys.add(APP, key)
        await stores.publisher_keys.add(APP, key.model_copy(update={"public_key": "y"}))
        assert await stores.publisher_keys.all(APP) == {"k": key}

    async def test_a_public_key_is_removed_from_its_app_alone(self, stores: Stores) -> None:
        key = PublisherKey(key_id="k", generation=1, public_key="x", created_at=1)
        for app_id in (APP, OTHER):
            await stores.publisher_keys.add(app_id, key)
        assert [await stores.publisher_keys.remove(APP, "k") for _ in range(2)] == [True, False]
        assert await stores.publisher_keys.all(APP) == {}
        assert await stores.publisher_keys.all(OTHER) == {"k": key}
