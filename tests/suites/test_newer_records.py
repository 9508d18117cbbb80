"""Records of a newer release: never moved, named where they are asked for, and whole after a write of this one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.crypto import Vault
from cluster.errors import Conflict, NewerRelease
from cluster.records.account import Account
from cluster.records.archive.archive_client import ClientRule, Registration, short_id
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine, Promotion, Scaling
from cluster.records.erasure import Erasure, Person
from cluster.records.experiment import Experiment, Variant
from cluster.records.field_types.record_changes import with_changes
from cluster.records.question import Answer, Question
from cluster.records.run import Run, Schedule
from cluster.records.thread import Thread, UserThreads
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.seals.seal import salt_from_key, seal, unseal
from deployments.edge.access.keyring import Keyring
from tests.suites.doing import APP, NOW, require
from tests.suites.test_small_stores import a_key, an_app

pytestmark = pytest.mark.redis

ENGINE = Engine(app_id=APP, engine_id="summer", created_at=NOW)
EXPERIMENT = Experiment(
    app_id=APP,
    experiment_id="e1",
    name="Lists",
    slug="lists",
    variants=(Variant(variant_id="v1", name="a", slug="a", weight=1.0),),
    entry_salt="entrysalt",
    variant_salt="variantsalt",
)
RUN = Run(app_id=APP, run_id="r1", engine_id="summer", created_at=NOW)
SCHEDULE = Schedule(app_id=APP, name="nightly", engine_id="summer", when="nightly", created_at=NOW)
RULE = BoostRule(name="sale", engine_id="default", boost_fq="*:*")
ACCOUNT = Account(username="ann", user_id="usr-1", password="x", created_at=NOW)
REGISTRATION = Registration(client_id="c1", issued_at=1)
THREADS = UserThreads(
    threads={"t1": Thread(thread_id="t1", title="Tulips", time_ms=NOW, question_ids=("t1",))}
)
QUESTION = Question(question_id="q1", app_id=APP, text="How deep?", asked_at=NOW, deadline_at=NOW + 60_000)
ERASURE = Erasure(app_id=APP, erasure_id="x1", subject="s", created_at=NOW)


@dataclass(frozen=True)
class Case:
    """How one type of record is stored, read alone, read with others and written back."""

    key: str
    field: str
    put: Callable[[OpenStores], Awaitable[Any]]
    read: Callable[[OpenStores], Awaitable[Any]]
    every: Callable[[OpenStores], Awaitable[Any]]
    rewrite: Callable[[OpenStores], Awaitable[Any]]
    literal: str
    "A field that gets a value this release does not know."
    inside: tuple[str, ...] = ()
    "Path to a part of the record that also gets an unknown field."


async def _rewrite_run(stores: OpenStores) -> None:
    run = require(await stores.runs.get(APP, "r1"))
    assert await stores.runs.compare_and_set(run.model_copy(update={"message": "on"})) is not None


async def _rewrite_experiment(stores: OpenStores) -> None:
    book = await stores.experiments.read_all(APP)
    changed = with_changes(book.experiments[0], {"traffic": 0.5})
    assert await stores.experiments.compare_and_set(changed, book.version) is not None


async def _rewrite_threads(stores: OpenStores) -> None:
    before = await stores.threads.read(APP, "u1")
    after = before.model_copy(update={"dismissed_at_ms": 7})
    assert await stores.threads.compare_and_set(APP, "u1", before, after)


async def _rewrite_app(stores: OpenStores) -> None:
    admin = AppKeyAdmin(stores.access, Vault(b"m" * 32))
    await admin.set_switches(APP, {"bot_rule": "off"})
    await admin.set_rate_limits(APP, queries_per_s=9)


async def _rewrite_account(stores: OpenStores) -> None:
    account = require(await stores.accounts.get("ann"))
    await stores.accounts.put(account.model_copy(update={"disabled": True}))


def _scaled(engine: Engine) -> Engine:
    return engine.model_copy(update={"scaling": with_changes(engine.scaling, {"replicas_max": 9})})


def _rescheduled(schedule: Schedule) -> Schedule:
    return schedule.model_copy(update={"when": "every 1d"})


async def _apps(stores: OpenStores) -> list[Any]:
    return list((await stores.access.read_all()).apps.values())


async def _app(stores: OpenStores) -> Any:
    return await AppKeyAdmin(stores.access, Vault(b"m" * 32)).keys(app_id=APP)


async def _experiments(stores: OpenStores) -> list[Any]:
    return list((await stores.experiments.read_all(APP)).experiments)


CASES = {
    "app": Case(
        keys.access_app(), APP, lambda s: s.access.put_app(an_app()), _app, _apps, _rewrite_app,
        "environment", ("settings",),
    ),
    "engine": Case(
        keys.engine(APP), "summer", lambda s: s.engines.put(ENGINE), lambda s: s.engines.get(APP, "summer"),
        lambda s: s.engines.all(APP), lambda s: s.engines.change(APP, "summer", _scaled), "placement", ("scaling",),
    ),
    "experiment": Case(
        keys.experiment(APP), "e1", lambda s: s.experiments.compare_and_set(EXPERIMENT, 0), _experiments,
        _experiments, _rewrite_experiment, "status", ("variants", "0"),
    ),
    "run": Case(
        keys.run(APP), "r1", lambda s: s.runs.compare_and_set(RUN), lambda s: s.runs.get(APP, "r1"),
        lambda s: s.runs.newest(APP), _rewrite_run, "status",
    ),
    "schedule": Case(
        keys.schedule(APP), "nightly", lambda s: s.schedules.add(SCHEDULE), lambda s: s.schedules.all(APP),
        lambda s: s.schedules.all(APP), lambda s: s.schedules.update(APP, "nightly", _rescheduled), "promote",
    ),
    "boost-rule": Case(
        keys.boost_rule(APP), "default\x1fsale", lambda s: s.boost_rules.put(APP, [RULE]),
        lambda s: s.boost_rules.all(APP), lambda s: s.boost_rules.all(APP),
        lambda s: s.boost_rules.put(APP, [RULE]), "boost_match_type",
    ),
    "client-rule": Case(
        keys.client_rule(APP), "cat", lambda s: s.client_rules.put(APP, ClientRule(client="Cat")),
        lambda s: s.client_rules.all(APP), lambda s: s.client_rules.all(APP),
        lambda s: s.client_rules.put(APP, ClientRule(client="Cat", decision="deny")), "decision",
    ),
    "account": Case(
        keys.account(), "ann", lambda s: s.accounts.put(ACCOUNT), lambda s: s.accounts.get("ann"),
        lambda s: s.accounts.all(), _rewrite_account, "role",
    ),
    "registration": Case(
        keys.oauth_clients(), short_id("c1"), lambda s: s.registrations.put(REGISTRATION, now_ms=NOW),
        lambda s: s.registrations.get("c1"), lambda s: s.registrations.get("c1"),
        lambda s: s.registrations.put(REGISTRATION, now_ms=NOW), "method",
    ),
    "threads": Case(
        keys.threads(APP), "u1", lambda s: s.threads.compare_and_set(APP, "u1", UserThreads(), THREADS),
        lambda s: s.threads.read(APP, "u1"), lambda s: s.threads.read_many(APP, ["u1"]), _rewrite_threads,
        "threads", ("threads", "t1"),
    ),
}  # fmt: skip
READ_ALONE = {"app", "engine", "run", "account", "registration", "threads"}
"Types with a read of one record; the others are only read together."


async def stored(stores: OpenStores, case: Case) -> dict[str, Any]:
    sealed = await stores.server.execute_slow("HGET", case.key, case.field)
    assert sealed is not None, "the record is gone"
    body = require(unseal(sealed, salt_from_key(case.key, case.field)))
    record: dict[str, Any] = orjson.loads(body)
    return record


async def store(stores: OpenStores, case: Case, record: dict[str, Any]) -> None:
    sealed = seal(orjson.dumps(record), salt_from_key(case.key, case.field))
    await stores.server.execute_slow("HSET", case.key, case.field, sealed)


def part_of(record: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        record = record[int(step)] if isinstance(record, list) else record[step]
    return record


@pytest.mark.parametrize("name", CASES)
async def test_unknown_fields_are_read_past_and_survive_a_write(name: str, redis_stores: OpenStores) -> None:
    case = CASES[name]
    await case.put(redis_stores)
    newer = await stored(redis_stores, case)
    newer["from_next"] = {"a": [1, "b"]}
    part_of(newer, case.inside)["also_next"] = "kept"
    await store(redis_stores, case, newer)
    assert await case.every(redis_stores)
    assert await case.read(redis_stores) or name == "app"
    await case.rewrite(redis_stores)
    after = await stored(redis_stores, case)
    assert after["from_next"] == {"a": [1, "b"]}
    assert part_of(after, case.inside)["also_next"] == "kept"
    assert name in ("schedule", "boost-rule", "registration") or after != newer, "it was not written"


@pytest.mark.parametrize("name", CASES)
async def test_a_record_that_only_a_newer_release_can_read_stays(name: str, redis_stores: OpenStores) -> None:
    case = CASES[name]
    await case.put(redis_stores)
    newer = await stored(redis_stores, case) | {case.literal: "of the next release"}
    await store(redis_stores, case, newer)
    records = await case.every(redis_stores) if name != "registration" else []
    assert not records or records == [UserThreads(revision=1)]
    if name in READ_ALONE:
        with pytest.raises(NewerRelease, match="newer release"):
            await case.read(redis_stores)
    if name in READ_ALONE or "rule" in name or name == "schedule":
        with pytest.raises(NewerRelease, match="newer release"):
            await case.rewrite(redis_stores)
    assert await stored(redis_stores, case) == newer
    for stream in (keys.quarantine(APP), keys.access_quarantine(), keys.account_quarantine()):
        assert await redis_stores.server.execute_slow("XLEN", stream) == 0


@pytest.mark.parametrize("name", CASES)
async def test_only_a_broken_checksum_goes_to_the_quarantine(name: str, redis_stores: OpenStores) -> None:
    case = CASES[name]
    await case.put(redis_stores)
    sealed = await redis_stores.server.execute_slow("HGET", case.key, case.field)
    await redis_stores.server.execute_slow("HSET", case.key, case.field, sealed[:-2] + b"!}")
    await case.every(redis_stores)
    assert await redis_stores.server.execute_slow("HGET", case.key, case.field) is None
    streams = (keys.quarantine(APP), keys.access_quarantine(), keys.account_quarantine())
    assert [await redis_stores.server.execute_slow("XLEN", stream) for stream in streams].count(1) == 1


async def test_a_question_of_a_newer_release_is_left_to_its_replicas(redis_stores: OpenStores) -> None:
    stores, key = redis_stores, keys.question(APP, "q1")
    await stores.questions.ask(QUESTION, Answer(), b"{}", holder="", until_ms=NOW)
    answer = orjson.loads(Answer().model_dump_json()) | {"finish_reason": "postponed"}
    await stores.server.execute_slow(
        "HSET", key, "answer", seal(orjson.dumps(answer), salt_from_key(key, "answer"))
    )
    with pytest.raises(NewerRelease):
        await stores.questions.read(APP, "q1")
    assert await stores.questions.claim(APP, "q1", holder="old", now_ms=NOW, until_ms=NOW + 5) is None
    assert await stores.server.execute_slow("HLEN", key) >= 3


async def test_an_app_of_a_newer_release_is_not_made_again_and_its_keys_answer_503(
    redis_stores: OpenStores,
) -> None:
    case, access = CASES["app"], redis_stores.access
    vault = Vault(b"m" * 32)
    (issued, _) = await AppKeyAdmin(access, vault).create_app(APP, "development", NOW)
    newer = await stored(redis_stores, case) | {"environment": "staging"}
    await store(redis_stores, case, newer)
    with pytest.raises(Conflict):
        await AppKeyAdmin(access, vault).create_app(APP, "development", NOW)
    keyring = Keyring(access, vault)
    await keyring.start()
    with pytest.raises(NewerRelease):
        keyring.find(issued.text)
    assert keyring.find("ksk_dev_nobody") is None
    await keyring.close()
    assert await stored(redis_stores, case) == newer


async def test_a_key_of_a_newer_release_stops_the_rotation_that_could_not_end_it(
    redis_stores: OpenStores,
) -> None:
    admin = AppKeyAdmin(redis_stores.access, Vault(b"m" * 32))
    await admin.create_app(APP, "development", NOW)
    key = a_key()
    await redis_stores.access.put_key(key)
    body = orjson.loads(key.model_dump_json()) | {"kind": "scoped"}
    sealed = seal(orjson.dumps(body), salt_from_key(keys.access_key(), key.sha256))
    await redis_stores.server.execute_slow("HSET", keys.access_key(), key.sha256, sealed)
    assert (await redis_stores.access.read_all()).unreadable_keys == {key.sha256}
    with pytest.raises(NewerRelease):
        await admin.rotate(APP, ("secret",), NOW)


async def test_an_erasure_that_names_the_person_in_a_new_way_is_left(redis_stores: OpenStores) -> None:
    stores = redis_stores
    await stores.erasures.order(ERASURE, Person(app_id=APP, user_id="u1"))
    assert len(await stores.erasures.list_orders()) == 1
    name = keys.erasure_order()
    field, _ = await stores.server.execute_slow("HGETALL", name)
    person = orjson.dumps({"app_id": APP, "user_id": "u1", "device_ids": ["d"]})
    text = field.decode()
    await stores.server.execute_slow("HSET", name, text, seal(person, salt_from_key(name, text)))
    assert await stores.erasures.list_orders() == []
    assert await stores.server.execute_slow("HLEN", name) == 1


async def test_a_promotion_keeps_what_a_newer_release_wrote_into_the_engine(redis_stores: OpenStores) -> None:
    case = CASES["engine"]
    await case.put(redis_stores)
    await store(redis_stores, case, await stored(redis_stores, case) | {"from_next": 1})
    entry = Promotion(app_id=APP, engine_id="summer", version="v2", at_ms=NOW)
    assert await redis_stores.promotions.promote(entry)
    after = await stored(redis_stores, case)
    assert (after["snapshot"], after["from_next"]) == ("v2", 1)
    engine = require(await redis_stores.engines.get(APP, "summer"))
    assert engine.scaling == Scaling()
