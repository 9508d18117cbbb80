from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.recommender.messages import UserQuery
from actors.serving.stored_rules import StoredRules
from cluster.errors import Unavailable
from cluster.records.boost_rule import BoostRule
from cluster.records.validation.boost_rules import read_rules
from tests.fakes.request_handler import StillClock

QUERY = UserQuery(kind="user_to_products", app_id="shop", engine_id="default")


def rules(*items: dict[str, Any]) -> list[BoostRule]:
    return read_rules([{"boost_fq": "a:1", **item} for item in items])


class RuleStore:
    """A store that counts its readings and may be away."""

    def __init__(self) -> None:
        self.rules: list[BoostRule] = []
        self.readings = 0
        self.away = False

    async def all(self, app_id: str) -> list[BoostRule]:
        self.readings += 1
        if self.away:
            raise Unavailable("away")
        return [] if app_id != "shop" else list(self.rules)

    async def put(self, app_id: str, rules: Sequence[BoostRule]) -> None: ...

    async def remove(self, app_id: str, engine_id: str, names: Sequence[str]) -> int:
        return 0


@pytest.fixture
def store() -> RuleStore:
    return RuleStore()


@pytest.fixture
def stored(store: RuleStore, clock: StillClock) -> StoredRules:
    return StoredRules(store, clock)


async def names(stored: StoredRules, query: UserQuery = QUERY) -> list[str]:
    return [boost.name for boost in (await stored.apply(query)).boosts]


async def test_an_app_without_rules_keeps_its_query_and_is_read_once_a_second(
    stored: StoredRules, store: RuleStore, clock: StillClock
) -> None:
    for _ in range(5):
        assert await stored.apply(QUERY) is QUERY
    assert store.readings == 1
    clock.pass_ms(1_001)
    assert await stored.apply(QUERY) is QUERY
    assert store.readings == 2


async def test_a_change_is_in_force_a_second_later(
    stored: StoredRules, store: RuleStore, clock: StillClock
) -> None:
    assert await names(stored) == []
    store.rules = rules({"name": "x"}, {"name": "y", "engine_id": "books"})
    assert await names(stored) == []
    clock.pass_ms(1_001)
    assert await names(stored) == ["x"]
    assert await names(stored, UserQuery("user_to_products", "shop", "books")) == ["y"]
    assert await names(stored, UserQuery("user_to_products", "other", "default")) == []


async def test_rules_stay_in_force_while_the_store_is_away(
    stored: StoredRules, store: RuleStore, clock: StillClock
) -> None:
    store.away = True
    assert await names(stored) == []
    store.away, store.rules = False, rules({"name": "x"})
    clock.pass_ms(1_001)
    assert await names(stored) == ["x"]
    store.away = True
    clock.pass_ms(1_001)
    assert await names(stored) == ["x"]


async def test_a_rule_that_does_not_parse_keeps_no_other_from_applying(
    stored: StoredRules, store: RuleStore
) -> None:
    broken = BoostRule(name="broken", boost_fq="a:(")
    store.rules = [broken, *rules({"name": "low"}, {"name": "high", "priority": 3})]
    assert await names(stored) == ["high", "low"]
