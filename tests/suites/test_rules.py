"""What the store of boost rules promises."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.boost_rule import BoostRule, RuleVersion
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.suites.doing import APP, OTHER


def a_rule(name: str, **more: Any) -> BoostRule:
    return BoostRule(**{"name": name, "boost_fq": "brand:Alder", **more})


async def test_rules_read_back_by_engine_and_name(stores: Stores) -> None:
    rules = [a_rule("sale"), a_rule("autumn", position=[1, 3]), a_rule("sale", engine_id="books")]
    await stores.boost_rules.put(APP, rules)
    assert await stores.boost_rules.all(APP) == [rules[2], rules[1], rules[0]]
    assert await stores.boost_rules.all(OTHER) == []


async def test_a_rule_is_replaced_whole(stores: Stores) -> None:
    await stores.boost_rules.put(APP, [a_rule("sale", boosting_tags=["x"])])
    await stores.boost_rules.put(APP, [])
    await stores.boost_rules.put(APP, [a_rule("sale", priority=2)])
    assert await stores.boost_rules.all(APP) == [a_rule("sale", priority=2)]


async def test_removed_rules_are_gone_and_counted(stores: Stores) -> None:
    await stores.boost_rules.put(APP, [a_rule("a"), a_rule("b"), a_rule("b", engine_id="books")])
    assert await stores.boost_rules.remove(APP, "default", ["b", "b", "z"]) == 1
    assert await stores.boost_rules.remove(APP, "default", []) == 0
    assert await stores.boost_rules.all(APP) == [a_rule("b", engine_id="books"), a_rule("a")]


async def test_names_may_hold_anything_printable(stores: Stores) -> None:
    rule = a_rule('été: 50 % / "rabais" 🌷', json_asset={"banner": ["a", None, 1.5]})
    await stores.boost_rules.put(APP, [rule])
    assert await stores.boost_rules.all(APP) == [rule]


async def test_a_window_reads_back_and_may_be_written_as_text(stores: Stores) -> None:
    rule = a_rule("sale", starts_at="2026-12-01T08:00:00+01:00", ends_at=1_800_000_000_000)
    await stores.boost_rules.put(APP, [rule])
    (read,) = await stores.boost_rules.all(APP)
    assert (read.starts_at, read.ends_at) == (1_796_108_400_000, 1_800_000_000_000)


async def test_changes_are_listed_newest_first_and_read_by_id(stores: Stores) -> None:
    changes = [
        RuleVersion(at=1, username="ada", change="put", engine_id="default", name="a", after=a_rule("a")),
        RuleVersion(at=2, username="bob", change="delete", engine_id="default", name="a", before=a_rule("a")),
    ]
    await stores.boost_rules.put(APP, [a_rule("a")], changes[:1])
    assert await stores.boost_rules.remove(APP, "default", ["a"], changes[1:]) == 1
    newest = await stores.rule_versions.newest(APP, count=10)
    assert [(version.at, version.username, version.change) for version in newest] == [
        (2, "bob", "delete"),
        (1, "ada", "put"),
    ]
    assert newest[0].before == a_rule("a")
    assert newest[0].after is None
    assert await stores.rule_versions.get(APP, newest[1].version_id) == newest[1]
    assert [version.at for version in await stores.rule_versions.newest(APP, count=1)] == [2]
    for strange in ("", "1", "999-1", "- +", "x" * 500):
        assert await stores.rule_versions.get(APP, strange) is None
    assert await stores.rule_versions.newest(OTHER, count=10) == []


@pytest.mark.redis
async def test_a_damaged_rule_is_set_aside_and_the_others_read(redis_stores: OpenStores) -> None:
    await redis_stores.boost_rules.put(APP, [a_rule("a"), a_rule("b")])
    key = keys.boost_rule(APP)
    await redis_stores.server.execute_slow("HSET", key, "default\x1fa", b"damaged")
    assert await redis_stores.boost_rules.all(APP) == [a_rule("b")]
    assert await redis_stores.server.execute_slow("HLEN", key) == 1
