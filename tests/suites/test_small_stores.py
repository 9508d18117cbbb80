"""What the small ports promise: access, engines, limits, idempotency, pages, leases."""

from __future__ import annotations

import asyncio
import contextlib
from copy import copy

import pytest

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.crypto import Vault
from cluster.errors import Conflict
from cluster.records.api_keys import ApiKey
from cluster.records.apps import App, AppSettings
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.engine import Engine, EngineStatus
from cluster.store import keys
from cluster.store.administration import apps_and_keys
from cluster.store.connect import OpenStores
from cluster.store.data.idempotency import IdempotencyState
from cluster.store.installation.rate_limits import RateLimitGrant
from cluster.store.stores import Stores
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, Mortal
from tests.suites.doing import APP, NOW, OTHER, require
from tests.suites.store_kinds import over_redis
from tests.suites.waiting import until


def an_app(app_id: str = APP) -> App:
    return App(app_id=app_id, environment="development", settings=AppSettings(bot_rule="log"), created_at=NOW)


def a_key(sha256: str = "ab" * 32) -> ApiKey:
    return ApiKey(
        key_id="k1",
        app_id=APP,
        kind="secret",
        sha256=sha256,
        ciphertext="xx",
        hint="ksk_dev…1234",
        created_at=NOW,
    )


class TestAccess:
    async def test_secret_keys_that_came_in_an_address_are_remembered(self, stores: Stores) -> None:
        assert await stores.access.list_exposed_keys() == {}
        await stores.access.record_exposed_key("k1", 5)
        await stores.access.record_exposed_key("k1", 7)
        await stores.access.record_exposed_key("k2", 6)
        assert await stores.access.list_exposed_keys() == {"k1": 7, "k2": 6}

    async def test_an_empty_book_has_version_zero(self, stores: Stores) -> None:
        assert await stores.access.version() == 0
        book = await stores.access.read_all()
        assert (book.version, dict(book.apps), dict(book.keys)) == (0, {}, {})

    async def test_apps_and_keys_read_back(self, stores: Stores) -> None:
        await stores.access.put_app(an_app())
        await stores.access.put_key(a_key())
        book = await stores.access.read_all()
        assert book.apps == {APP: an_app()}
        assert book.keys == {a_key().sha256: a_key()}
        assert book.version == await stores.access.version()

    async def test_concurrent_changes_of_an_app_all_stay(self, stores: Stores) -> None:
        await stores.access.put_app(an_app())
        admin = AppKeyAdmin(stores.access, Vault(b"m" * 32))
        await asyncio.gather(
            admin.set_display_name(APP, "Book shop"),
            admin.set_rate_limits(APP, queries_per_s=7),
            admin.set_switches(APP, {"currency": "EUR"}),
            admin.choose_archive_app(APP, NOW),
            admin.set_archive_terms(APP, {"": ArchiveTerms(permits=("search",))}),
        )
        app = (await stores.access.read_all()).apps[APP]
        limits = app.settings.limits
        assert (app.display_name, limits.queries_per_s, app.settings.currency) == ("Book shop", 7, "EUR")
        assert (app.archive_since, list(app.terms)) == (NOW, [""])

    async def test_of_two_apps_with_one_name_only_the_first_is_created(self, stores: Stores) -> None:
        admin = AppKeyAdmin(stores.access, Vault(b"k" * 32))
        results = await asyncio.gather(
            *(admin.create_app(APP, "development", NOW, display_name=name) for name in ("A", "B")),
            return_exceptions=True,
        )
        (issued,) = [result for result in results if not isinstance(result, Conflict)]
        assert not isinstance(issued, BaseException)
        book = await stores.access.read_all()
        assert set(book.keys) == {key.record.sha256 for key in issued}

    async def test_every_change_moves_the_version_and_readings_do_not(self, stores: Stores) -> None:
        seen = [await stores.access.version()]
        for change in (
            stores.access.add_app(an_app(OTHER)),
            stores.access.put_app(an_app()),
            stores.access.update_app(APP, lambda app: app),
            stores.access.put_key(a_key()),
            stores.access.revoke_key(a_key().sha256),
        ):
            await change
            await stores.access.read_all()
            seen.append(await stores.access.version())
        assert seen == sorted(set(seen))

    async def test_a_record_is_replaced_unless_it_changed_or_was_revoked(self, stores: Stores) -> None:
        before, after = a_key(), a_key().model_copy(update={"ciphertext": "yy"})
        assert not await stores.access.replace_key(before, after)
        await stores.access.put_key(before)
        version = await stores.access.version()
        assert await stores.access.replace_key(before, after)
        assert not await stores.access.replace_key(before, after)
        book = await stores.access.read_all()
        assert (book.keys, book.version) == ({before.sha256: after}, version)
        await stores.access.revoke_key(before.sha256)
        assert not await stores.access.replace_key(after, before)
        assert not (await stores.access.read_all()).keys

    async def test_a_revoked_key_is_absent(self, stores: Stores) -> None:
        await stores.access.put_key(a_key("1" * 64))
        await stores.access.put_key(a_key("2" * 64))
        assert await stores.access.revoke_key("1" * 64)
        version = await stores.access.version()
        assert not await stores.access.revoke_key("1" * 64)
        assert await stores.access.version() == version
        assert list((await stores.access.read_all()).keys) == ["2" * 64]

    async def test_ended_tokens_keep_the_newest_time_of_a_user(self, stores: Stores) -> None:
        access = stores.access
        assert await access.ended_counts() == {}
        assert (await access.ended_tokens(APP, 0)).size == 0
        counts = []
        for user_id, at_ms in (("ada", 20), ("bob", 30), ("ada", 40), ("ada", 10)):
            await access.end_tokens(APP, user_id, at_ms)
            counts.append((await access.ended_counts())[APP])
        assert counts == sorted(set(counts))
        ended = await access.ended_tokens(APP, 0)
        assert (ended.size, sorted(ended.times.values())) == (2, [30, 40])
        assert "ada" not in ended.times
        newer = await access.ended_tokens(APP, 31)
        assert (newer.size, list(newer.times.values()), newer.salt) == (2, [40], ended.salt)
        assert str(ended.salt) not in repr(ended)
        assert [await access.read_token_end(APP, user_id) for user_id in ("ada", "eve")] == [40, None]
        await access.end_tokens(OTHER, "ada", 50)
        assert list(await access.ended_counts()) == [APP, OTHER]
        assert await access.version() == 0, "no replica reads the keys again"

    @over_redis
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

    @over_redis
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

    @over_redis
    async def test_ended_tokens_of_the_former_key_count_beside_newer_ones(self, stores: Stores) -> None:
        assert isinstance(stores, OpenStores)
        await stores.access.end_tokens(APP, "ada", 10)
        ((mark, _),) = (await stores.access.ended_tokens(APP, 0)).times.items()
        await stores.server.execute_slow("ZADD", keys.former_ended_tokens(APP), 20, mark, 30, "other")
        ended = await stores.access.ended_tokens(APP, 15)
        assert (ended.size, dict(ended.times)) == (3, {mark: 20, "other": 30})
        assert await stores.access.read_token_end(APP, "ada") == 20


class TestEngines:
    async def test_engines_read_back_sorted(self, stores: Stores) -> None:
        for engine_id in ("news", "default", "books"):
            await stores.engines.put(Engine(app_id=APP, engine_id=engine_id, created_at=NOW))
        assert [engine.engine_id for engine in await stores.engines.all(APP)] == ["books", "default", "news"]
        assert await stores.engines.get(APP, "news") == Engine(app_id=APP, engine_id="news", created_at=NOW)
        assert await stores.engines.get(APP, "nope") is None
        assert await stores.engines.all(OTHER) == []

    async def test_an_engine_is_replaced_whole(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="e", snapshot="1"))
        await stores.engines.put(Engine(app_id=APP, engine_id="e", placement="own"))
        assert await stores.engines.get(APP, "e") == Engine(app_id=APP, engine_id="e", placement="own")

    async def test_a_name_is_taken_once(self, stores: Stores) -> None:
        assert await stores.engines.add(Engine(app_id=APP, engine_id="e", snapshot="1"))
        assert not await stores.engines.add(Engine(app_id=APP, engine_id="e", snapshot="2"))
        engine = require(await stores.engines.get(APP, "e"))
        assert engine.snapshot == "1"

    async def test_changes_at_once_are_all_made(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="e"))

        def longer(engine: Engine) -> Engine:
            return engine.model_copy(update={"snapshot": engine.snapshot + "x"})

        await asyncio.gather(*(stores.engines.change(APP, "e", longer) for _ in range(8)))
        engine = require(await stores.engines.get(APP, "e"))
        assert engine.snapshot == "x" * 8
        assert await stores.engines.change(APP, "nope", longer) is None
        assert await stores.engines.get(APP, "nope") is None

    async def test_a_removed_engine_is_gone(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="e"))
        assert await stores.engines.remove(APP, "e")
        assert not await stores.engines.remove(APP, "e")
        assert await stores.engines.all(APP) == []


class TestEngineWatch:
    async def test_requests_add_up_over_the_last_minute(self, stores: Stores) -> None:
        watch, begin = stores.engine_activity, NOW - NOW % 60_000
        await watch.add_requests(APP, {("door", "default"): 60, ("own", "big"): 6}, begin + 30_000)
        await watch.add_requests(APP, {("own", "big"): 6}, begin + 60_000)
        traffic = await watch.read_traffic(APP, begin + 90_000)
        assert traffic["door", "default"].per_s == pytest.approx(0.5)
        assert traffic["own", "big"].per_s == pytest.approx(0.15)
        assert traffic["own", "big"].last_ms == begin + 60_000
        assert (await watch.read_traffic(APP, begin + 600_000))["own", "big"].per_s == 0
        assert await watch.read_traffic(OTHER, begin) == {}

    async def test_failed_answers_of_a_trial_add_up_by_snapshot(self, stores: Stores) -> None:
        watch = stores.engine_activity
        for count in (2, 3):
            await watch.add_failures(APP, "t1", "v2", count)
        await watch.add_failures(APP, "t1", "v1", 1)
        await watch.add_failures(APP, "t2", "v2", 9)
        assert await watch.read_failures(APP, "t1") == {"v2": 5, "v1": 1}
        assert await watch.read_failures(OTHER, "t1") == {}

    async def test_a_status_is_read_back_replaced_and_forgotten(self, stores: Stores) -> None:
        watch = stores.engine_activity
        seen = EngineStatus(app_id=APP, engine_id="big", state="starting", at=NOW)
        await watch.record(seen)
        await watch.record(seen.model_copy(update={"state": "running", "replicas": 2}))
        assert (await watch.list_statuses(APP))["big"].replicas == 2
        await watch.delete(APP, "big")
        await watch.delete(APP, "big")
        assert await watch.list_statuses(APP) == {}


class TestLimits:
    async def take(
        self, stores: Stores, want: int, now_ms: int, *, rate: float = 10, bucket: str = "query"
    ) -> RateLimitGrant:
        return await stores.limits.take(APP, "k1", bucket, rate=rate, burst=20, want=want, now_ms=now_ms)

    async def test_a_fresh_bucket_holds_its_burst(self, stores: Stores) -> None:
        assert await self.take(stores, 15, NOW) == RateLimitGrant(15, 0)
        assert await self.take(stores, 15, NOW) == RateLimitGrant(5, 0)
        assert await self.take(stores, 1, NOW) == RateLimitGrant(0, 100)

    async def test_a_bucket_refills_by_time_and_not_above_its_burst(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW)
        assert (await self.take(stores, 20, NOW + 450)).granted == 4
        assert await self.take(stores, 1, NOW + 480) == RateLimitGrant(0, 20)
        assert (await self.take(stores, 99, NOW + 3_600_000)).granted == 20

    async def test_tokens_are_shared_and_never_given_twice(self, stores: Stores) -> None:
        leases = await asyncio.gather(*(self.take(stores, 3, NOW) for _ in range(20)))
        assert sum(lease.granted for lease in leases) == 20

    async def test_buckets_keys_and_apps_are_apart(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW)
        assert (await self.take(stores, 1, NOW, bucket="write")).granted == 1
        for app_id, key_id in ((APP, "k2"), (OTHER, "k1")):
            lease = await stores.limits.take(app_id, key_id, "query", rate=1, burst=1, want=1, now_ms=NOW)
            assert lease.granted == 1

    async def test_a_clock_that_runs_a_little_behind_takes_nothing_back(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW)
        assert (await self.take(stores, 1, NOW - 500)).granted == 0
        assert (await self.take(stores, 5, NOW + 200)).granted == 2

    async def test_a_clock_set_back_an_hour_does_not_dry_the_bucket_up(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW)
        assert (await self.take(stores, 1, NOW - 3_600_000)).granted == 0
        assert (await self.take(stores, 5, NOW - 3_600_000 + 300)).granted == 3

    async def test_fractions_add_up(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW, rate=0.3)
        granted = [(await self.take(stores, 1, NOW + n * 1000, rate=0.3)).granted for n in range(1, 41)]
        assert sum(granted) == 12

    async def test_a_rate_of_zero_never_refills(self, stores: Stores) -> None:
        await self.take(stores, 20, NOW, rate=0)
        lease = await self.take(stores, 1, NOW + 10_000, rate=0)
        assert lease.granted == 0
        assert lease.retry_after_ms > 60_000


class TestIdempotency:
    async def test_a_write_is_new_then_flying_then_done(self, stores: Stores) -> None:
        idempotency = stores.idempotency
        assert await idempotency.begin(APP, "token", "body") == IdempotencyState("new")
        assert await idempotency.begin(APP, "token", "body") == IdempotencyState("flying")
        await idempotency.finish(APP, "token", 200, b'{"message":"success"}\xff')
        assert await idempotency.begin(APP, "token", "body") == IdempotencyState(
            "done", 200, b'{"message":"success"}\xff'
        )

    async def test_a_repeated_reply_has_the_headers_of_the_first(self, stores: Stores) -> None:
        headers = ((b"x-dry-run", b"1"), (b"x-kiosk-warning", b"2 records: no ids"))
        await stores.idempotency.begin(APP, "token", "body")
        await stores.idempotency.finish(APP, "token", 200, b"{}", headers=headers)
        expected = IdempotencyState("done", 200, b"{}", headers)
        assert await stores.idempotency.begin(APP, "token", "body") == expected

    async def test_another_body_under_one_key_is_refused_during_and_after_the_first(
        self, stores: Stores
    ) -> None:
        await stores.idempotency.begin(APP, "token", "body")
        assert await stores.idempotency.begin(APP, "token", "else") == IdempotencyState("other")
        await stores.idempotency.finish(APP, "token", 422, b"{}")
        assert await stores.idempotency.begin(APP, "token", "else") == IdempotencyState("other")

    async def test_a_forgotten_write_may_begin_again(self, stores: Stores) -> None:
        await stores.idempotency.begin(APP, "token", "body")
        await stores.idempotency.delete(APP, "token")
        assert await stores.idempotency.begin(APP, "token", "else") == IdempotencyState("new")

    async def test_of_many_at_once_one_begins(self, stores: Stores) -> None:
        replays = await asyncio.gather(*(stores.idempotency.begin(APP, "token", "body") for _ in range(20)))
        assert [replay.state for replay in replays].count("new") == 1

    async def test_finishing_what_never_began_keeps_nothing(self, stores: Stores) -> None:
        await stores.idempotency.finish(APP, "token", 200, b"{}")
        assert await stores.idempotency.begin(APP, "token", "body") == IdempotencyState("new")

    async def test_apps_do_not_share_tokens(self, stores: Stores) -> None:
        await stores.idempotency.begin(APP, "token", "body")
        assert await stores.idempotency.begin(OTHER, "token", "body") == IdempotencyState("new")


class TestPages:
    async def test_what_was_shown_is_remembered_in_order(self, stores: Stores) -> None:
        assert await stores.shown_products.read(APP, "u:1", "page") == []
        await stores.shown_products.record(APP, "u:1", "page", ["b", "a"])
        await stores.shown_products.record(APP, "u:1", "page", ["c"])
        assert await stores.shown_products.read(APP, "u:1", "page") == ["b", "a", "c"]

    async def test_showing_nothing_is_harmless(self, stores: Stores) -> None:
        await stores.shown_products.record(APP, "u:1", "page", [])
        assert await stores.shown_products.read(APP, "u:1", "page") == []

    async def test_readers_and_ids_are_apart(self, stores: Stores) -> None:
        await stores.shown_products.record(APP, "u:1", "page", ["a"])
        assert await stores.shown_products.read(APP, "a:1", "page") == []
        assert await stores.shown_products.read(APP, "u:1", "other") == []
        await stores.shown_products.record(APP, "u:bob", "x:y", ["b"])
        assert await stores.shown_products.read(APP, "u:bob:x", "y") == []
        assert await stores.shown_products.read(OTHER, "u:1", "page") == []

    async def test_a_page_keeps_the_last_ten_thousand(self, stores: Stores) -> None:
        products = [f"p{n}" for n in range(12_000)]
        await stores.shown_products.record(APP, "u:1", "page", products)
        assert await stores.shown_products.read(APP, "u:1", "page") == products[2000:]


class TestLeases:
    async def test_one_holds_and_others_wait(self, stores: Stores) -> None:
        assert await stores.leases.hold("settle", "one", 60_000)
        assert not await stores.leases.hold("settle", "two", 60_000)
        assert await stores.leases.hold("settle", "one", 60_000)
        assert await stores.leases.hold("intake", "two", 60_000)

    async def test_a_released_lease_is_free(self, stores: Stores) -> None:
        await stores.leases.hold("settle", "one", 60_000)
        await stores.leases.release("settle", "two")
        assert not await stores.leases.hold("settle", "two", 60_000)
        await stores.leases.release("settle", "one")
        assert await stores.leases.hold("settle", "two", 60_000)

    async def test_a_lease_lapses_unless_renewed(self, stores: Stores) -> None:
        await stores.leases.hold("settle", "one", 40)
        await until(lambda: stores.leases.hold("settle", "two", 60_000))
        assert not await stores.leases.hold("settle", "one", 60_000)

    async def test_renewing_counts_from_now(self, stores: Stores) -> None:
        await stores.leases.hold("settle", "one", 60_000)
        assert not await stores.leases.hold("settle", "two", 60_000)
        await stores.leases.hold("settle", "one", 30)
        await until(lambda: stores.leases.hold("settle", "two", 60_000))
