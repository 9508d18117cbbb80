"""Use cases of stored rules: order, history and undo, conflicts, and a preview over a real engine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.query.language.compiled_rules import compile_rule
from cluster.store.connect import OpenStores
from deployments.operations.content.rule_conflicts import ConflictReport, check_rules
from deployments.operations.content.rules import parse_rules
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.corner_shop import APP, HOUR_MS, NOW_MS
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, mortal


def a_rule(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **({} if "boost" in more else {"boost_fq": "brand:Birk"}), **more}


def removing(name: str, brand: str = "Birk", **more: Any) -> dict[str, Any]:
    return a_rule(name, boost=[{"field": "brand", "query": brand, "action": "remove"}], **more)


def check(*items: dict[str, Any], now_ms: int = NOW_MS) -> ConflictReport:
    return check_rules([compile_rule(rule) for rule in parse_rules(list(items), "default")], now_ms)


async def names(shop: AdminShop) -> list[str]:
    rules = (await shop.perform("rules.list")).rules
    return [rule.name for rule in sorted(rules, key=lambda rule: -rule.priority)]


async def test_rules_are_ordered_by_name_and_the_others_keep_their_places(shop: AdminShop) -> None:
    await shop.perform("rules.put", rules=[a_rule(name) for name in ("a", "b", "c", "d")])
    await shop.perform("rules.order", engine_id="default", names=["d", "b"])
    assert await names(shop) == ["a", "d", "c", "b"]
    with pytest.raises(NotFound, match="has no rule 'z'"):
        await shop.perform("rules.order", engine_id="default", names=["z"])
    with pytest.raises(Invalid, match="named twice"):
        await shop.perform("rules.order", engine_id="default", names=["a", "a"])
    with pytest.raises(Forbidden):
        await shop.perform("rules.order", role="analyst", engine_id="default", names=["a"])


async def test_every_change_is_a_version_and_can_be_undone(shop: AdminShop) -> None:
    await shop.perform("rules.put", rules=[a_rule("a")])
    await shop.perform("rules.put", rules=[a_rule("a", priority=5)])
    await shop.perform("rules.put", rules=[a_rule("a", priority=5)])
    await shop.perform("rules.delete", engine_id="default", names=["a"])
    deleted, raised, made = (await shop.perform("rules.history")).versions
    assert [version.change for version in (made, raised, deleted)] == ["put", "put", "delete"]
    assert (made.before, raised.after.priority, deleted.after) == (None, 5, None)
    with pytest.raises(Conflict, match="changed since"):
        await shop.perform("rules.undo", version_id=raised.version_id)
    await shop.perform("rules.undo", version_id=deleted.version_id)
    assert (await shop.perform("rules.list")).rules == (raised.after,)
    await shop.perform("rules.undo", version_id=raised.version_id)
    assert (await shop.perform("rules.list")).rules == (made.after,)
    await shop.perform("rules.restore", version_id=deleted.version_id)
    assert (await shop.perform("rules.list")).rules == ()
    history = (await shop.perform("rules.history", name="a")).versions
    assert [version.change for version in history][:3] == ["restore", "undo", "undo"]
    with pytest.raises(NotFound, match="no version"):
        await shop.perform("rules.undo", version_id="1-1")


async def test_a_rule_changes_with_its_version_wherever_the_process_dies(tmp_path: Path) -> None:
    async with open_admin_shop(tmp_path) as shop:
        stores = shop.services.stores
        for left in range(12):
            name, life = f"r{left}", Life(left)
            dying = cast(OpenStores, mortal(stores, life))
            for operation, given in (
                ("rules.put", {"rules": [a_rule(name)]}),
                ("rules.delete", {"engine_id": "default", "names": [name]}),
            ):
                shop.services = replace(shop.services, stores=dying)
                with suppress(Killed, NotFound):
                    await shop.perform(operation, **given)
                life.left = left
                is_stored = name in {rule.name for rule in await stores.boost_rules.all(APP)}
                changes = [
                    version
                    for version in await stores.rule_versions.newest(APP, count=99)
                    if version.name == name
                ]
                assert is_stored == bool(changes and changes[0].after), (left, operation)
        assert not is_stored
        assert len(changes) == 2, "the longest life performs both"


async def test_a_rule_applies_inside_its_window_only(shop: AdminShop) -> None:
    window = {"starts_at": "2026-03-02T13:00:00Z", "ends_at": "2026-03-02T14:00:00Z"}
    await shop.perform("rules.put", rules=[a_rule("noon", position=[1], **window)])
    first = []
    for _ in range(3):
        _, answer = await shop.services.api.call(
            APP, "POST", "/v1/search/search", {"q": "*", "rows": 1, "fl": ["brand"]}
        )
        first.append(answer["data"]["boosting_rules"])
        shop.corner.clock.pass_ms(HOUR_MS)
    assert first == [[], ["noon"], []]
    with pytest.raises(Invalid, match="ends before it starts"):
        await shop.perform("rules.put", rules=[a_rule("x", starts_at=2, ends_at=1)])
    with pytest.raises(Invalid, match="date-time"):
        await shop.perform("rules.put", rules=[a_rule("x", starts_at="noon")])


async def test_a_preview_shows_what_moves_and_stores_nothing(shop: AdminShop) -> None:
    await shop.perform(
        "rules.put", rules=[a_rule("almanac", boost_fq="product_id:garden-almanac", position=[1])]
    )
    draft = a_rule("boards", boost_fq="product_id:cutting-board", position=[1], priority=9)
    preview = await shop.perform(
        "rules.preview", engine_id="default", rule=draft, queries=["*"], users=["gina"], rows=5
    )
    assert preview.selected == 1
    assert {(shown.endpoint, shown.label) for shown in preview.samples} == {
        ("search", "*"),
        ("user_to_products", "gina"),
    }
    for sample in preview.samples:
        leader = sample.products[0]
        assert (leader.product_id, leader.after) == ("cutting-board", 1)
        assert leader.change in ("new", "up")
        almanac = next(product for product in sample.products if product.product_id == "garden-almanac")
        assert almanac.before == 1
        assert almanac.change in ("down", "gone")
        assert sample.moved > 0
    assert [(conflict.kind, conflict.winner, conflict.loser) for conflict in preview.conflicts] == [
        ("place", "boards", "almanac")
    ]
    assert await names(shop) == ["almanac"]
    same = await shop.perform(
        "rules.preview", engine_id="default", queries=["*"], users=["gina"],
        rule=a_rule("almanac", boost_fq="product_id:garden-almanac", position=[1]),
    )  # fmt: skip
    assert same.moved == 0
    assert shop.audit.rows[-1].operation == "rules.put"


async def test_a_preview_meets_the_conditions_of_the_draft(shop: AdminShop) -> None:
    draft = a_rule(
        "guests", boosting_tags=["guest"], context={"season": ["spring"]}, position=[1], enabled=False,
        starts_at=NOW_MS + HOUR_MS,
    )  # fmt: skip
    preview = await shop.perform("rules.preview", engine_id="default", rule=draft)
    assert preview.moved > 0
    anchored = a_rule("beside", anchor_products=["draw-hoe"], position=[1])
    (sample,) = (await shop.perform("rules.preview", engine_id="default", rule=anchored)).samples
    assert (sample.endpoint, sample.label, sample.error) == ("product_to_products", "draw-hoe", "")
    assert sample.moved > 0
    texts = a_rule(
        "knives", queries=["knife"], query_option="is", position=[1], boost_fq="product_id:carving-knife"
    )
    (sample,) = (await shop.perform("rules.preview", engine_id="default", rule=texts)).samples
    assert (sample.endpoint, sample.label) == ("search", "knife")
    with pytest.raises(Invalid, match=r"rules\.0\.boost_fq is invalid"):
        await shop.perform("rules.preview", engine_id="default", rule=a_rule("x", boost_fq="brand:("))
    with pytest.raises(Forbidden):
        await shop.perform("rules.preview", role="viewer", engine_id="default", rule=draft)


async def test_a_preview_counts_in_no_experiment(shop: AdminShop) -> None:
    drafts = [{"name": "Blue", "variants": [{"name": "now"}, {"name": "blue", "engine_id": "default"}]}]
    (made,) = (await shop.perform("experiments.create", experiments=drafts)).experiments
    await shop.perform("experiments.start", experiment="blue")
    store = shop.services.stores.experiments
    await shop.perform("rules.preview", engine_id="default", rule=a_rule("a"), users=["gina"])
    assert [row async for row in store.exposures(APP, made.experiment_id)] == []
    await shop.services.api.call(APP, "POST", "/v1/recommendation/user_to_products", {"user_id": "gina"})
    assert len([row async for row in store.exposures(APP, made.experiment_id)]) == 1


def test_rules_that_want_one_place_conflict() -> None:
    report = check(a_rule("a", position=[1, 3]), a_rule("b", boost_fq="brand:Mori", position=[3], priority=1))
    (conflict,) = report.conflicts
    assert (conflict.kind, conflict.winner, conflict.loser) == ("place", "b", "a")
    assert conflict.text == "both pin products at position 3"


def test_a_rule_that_removes_what_another_pins_conflicts() -> None:
    pins = a_rule("pins", boost=[{"field": "brand", "query": "Birk"}])
    (conflict,) = check(pins, removing("drops")).conflicts
    assert conflict.kind == "opposite"
    assert check(pins, removing("drops", brand="Mori")).conflicts == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"api_names": ["search"]}, {"api_names": ["user_to_products"]}),
        ({"anchor_products": ["x"]}, {"anchor_products": ["y"]}),
        ({"module_names": ["home"]}, {"module_names": ["cart"]}),
        ({"context": {"season": ["spring"]}}, {"context": {"season": ["autumn"]}}),
        ({"queries": ["knife"], "query_option": "is"}, {"queries": ["board"], "query_option": "is"}),
        ({"queries": ["knife"]}, {"api_names": ["user_to_products"]}),
        ({"boosting_tags": ["a"]}, {"boosting_tags": ["b"]}),
        ({"boosting_tags": ["a"]}, {}),
        ({"ends_at": NOW_MS + 1000}, {"starts_at": NOW_MS + 1000}),
        ({"enabled": False}, {}),
        ({"engine_id": "news"}, {}),
    ],
)
def test_rules_that_no_query_triggers_together_do_not_conflict(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert check(a_rule("a", position=[1], **first), a_rule("b", position=[1], **second)).conflicts == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"queries": ["knife"]}, {"queries": ["bread knife"], "query_option": "is"}),
        ({"queries": ["^kni.*"], "query_option": "regex"}, {"queries": ["knife"], "query_option": "is"}),
        ({"queries": ["knife"]}, {"api_names": ["search"]}),
        ({"boosting_tags": ["a", "b"]}, {"boosting_tags": ["b"]}),
        ({"api_names": ["search"]}, {}),
    ],
)
def test_rules_that_one_query_triggers_conflict(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert len(check(a_rule("a", position=[1], **first), a_rule("b", position=[1], **second)).conflicts) == 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"ends_at": NOW_MS}, "time window is over"),
        ({"queries": ["x"], "api_names": ["user_to_products"]}, "waits for search texts"),
        ({"anchor_products": ["x"], "api_names": ["user_to_trending"]}, "waits for products of a page"),
        ({"anchor_products": ["x"], "queries": ["x"]}, "no query has both"),
    ],
)
def test_rules_that_never_apply_are_named(more: dict[str, Any], text: str) -> None:
    (idle,) = check(a_rule("a", **more)).idle
    assert text in idle.text
    assert check(a_rule("a", enabled=False, **more)).idle == ()


def test_many_rules_are_compared_in_bounded_time() -> None:
    report = check(*(a_rule(f"r{at}", position=[1]) for at in range(400)))
    assert len(report.conflicts) == 200
