"""What the store of boost rules promises."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.boost_rule import BoostRule
from cluster.store.ports.stores import Stores
from tests.suites.doing import APP, OTHER


def a_rule(name: str, **more: Any) -> BoostRule:
    return BoostRule(**{"name": name, "boost_fq": "brand:Alder", **more})


class RuleSuite:
    @pytest.fixture
    def stores(self) -> Stores:
        raise NotImplementedError

    async def test_rules_read_back_by_engine_and_name(self, stores: Stores) -> None:
        rules = [a_rule("sale"), a_rule("autumn", position=[1, 3]), a_rule("sale", engine_id="books")]
        await stores.boost_rules.put(APP, rules)
        assert await stores.boost_rules.all(APP) == [rules[2], rules[1], rules[0]]
        assert await stores.boost_rules.all(OTHER) == []

    async def test_a_rule_is_replaced_whole(self, stores: Stores) -> None:
        await stores.boost_rules.put(APP, [a_rule("sale", boosting_tags=["x"])])
        await stores.boost_rules.put(APP, [])
        await stores.boost_rules.put(APP, [a_rule("sale", priority=2)])
        assert await stores.boost_rules.all(APP) == [a_rule("sale", priority=2)]

    async def test_removed_rules_are_gone_and_counted(self, stores: Stores) -> None:
        await stores.boost_rules.put(APP, [a_rule("a"), a_rule("b"), a_rule("b", engine_id="books")])
        assert await stores.boost_rules.remove(APP, "default", ["b", "b", "z"]) == 1
        assert await stores.boost_rules.remove(APP, "default", []) == 0
        assert await stores.boost_rules.all(APP) == [a_rule("b", engine_id="books"), a_rule("a")]

    async def test_names_may_hold_anything_printable(self, stores: Stores) -> None:
        rule = a_rule('été: 50 % / "rabais" 🌷', json_asset={"banner": ["a", None, 1.5]})
        await stores.boost_rules.put(APP, [rule])
        assert await stores.boost_rules.all(APP) == [rule]
