from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import Boost, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from actors.serving.stored_rules import apply_rules
from cluster.errors import Invalid
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.compiled_rules import compile_rule, compile_rules
from cluster.query.language.parser import parse
from cluster.records.boost_rule import BoostRule
from cluster.records.validation.boost_rules import read_rules
from tests.fakes.corner_shop import APP, NOW_MS


def rule(**more: Any) -> BoostRule:
    (made,) = read_rules([{"name": "sale", "boost_fq": "brand:Birk", **more}])
    return made


def build_query(kind: Any = "user_to_products", **more: Any) -> UserQuery:
    return UserQuery(kind=kind, app_id=APP, engine_id="default", **more)


def is_applied(made: BoostRule, query: UserQuery) -> bool:
    return apply_rules(query, compile_rules([made], "default")) != query


def ids(shop: Recommender, query: UserQuery, *rules: BoostRule) -> list[str]:
    result = dispatch.answer(shop, apply_rules(query, compile_rules(rules, "default")), [], (), NOW_MS)
    return [product["product_id"] for product in result.products]


# --- when ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "good", "bad"),
    [
        ({"api_names": ["user_to_trending"]}, build_query("user_to_trending"), build_query()),
        ({"anchor_products": ["a", "b"]}, build_query(anchors=("x", "b")), build_query(anchors=("c",))),
        ({"module_names": ["home"]}, build_query(context={"module_name": "home"}),
        build_query(context={"module_name": 1})),
        ({"context": {"n": [1, "x"]}}, build_query(context={"n": ["y", "x"]}), build_query(context={"n": True})),
        ({"context": {"n": [True]}}, build_query(context={"n": True}), build_query(context={"n": 1})),
        ({"context": {"n": ["x"]}}, build_query(context={"n": "x"}), build_query(context={"n": [{"x": 1}]})),
        (
            {"filter_query": [{"query": "brand:Alder tags:steel"}]},
            build_query(filter=parse("price:[1 TO 2] AND tags:steel")),
            build_query(filter=parse("price:[1 TO 2] AND -tags:steel")),
        ),
        ({"boosting_tags": ["vip"]}, build_query(boosting_tags=("x", "vip")), build_query(boosting_tags=("x",))),
        ({"query": "tea"}, build_query(rule_names=("sale",)), build_query()),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_rule_applies_when_its_conditions_hold(
    conditions: dict[str, Any], good: UserQuery, bad: UserQuery
) -> None:
    assert is_applied(rule(**conditions), good)
    assert not is_applied(rule(**conditions), bad)


def test_a_tag_applies_a_rule_whose_conditions_do_not_hold() -> None:
    strict = rule(api_names=["user_to_history"], query="tea", boosting_tags=["vip"])
    assert not is_applied(strict, build_query())
    assert is_applied(strict, build_query(boosting_tags=("vip",)))


def test_a_rule_without_conditions_always_applies_unless_it_is_switched_off() -> None:
    assert is_applied(rule(), build_query())
    assert not is_applied(rule(enabled=False), build_query(rule_names=("sale",)))
    assert not is_applied(rule(engine_id="books"), build_query())


# --- what ---------------------------------------------------------------------------------------------------------


def test_rules_raise_pin_bury_and_remove(shop: Recommender) -> None:
    query = build_query(rows=50)
    plain = ids(shop, query)
    assert set(ids(shop, query, rule())[:3]) == {"bread-knife", "carving-knife", "cutting-board"}
    assert ids(shop, query, rule(position=[2, 5]))[1] in {"bread-knife", "carving-knife", "cutting-board"}
    pin = rule(boost_fq=None, boost=[{"field": "product_id", "query": "draw-hoe", "pin_position": 4}])
    assert ids(shop, query, pin)[3] == "draw-hoe"
    bury = rule(boost_fq=None, boost=[{"field": "product_id", "query": plain[0], "action": "bury"}])
    assert ids(shop, query, bury) == [*plain[1:], plain[0]]
    remove = rule(
        boost_fq=None, boost=[{"field": "title", "option": "contains", "query": "STEEL", "action": "remove"}]
    )
    assert {"trowel-green", "trowel-red", "hand-fork"}.isdisjoint(ids(shop, query, remove))


def test_removed_products_are_in_no_list_and_no_total(shop: Recommender) -> None:
    remove = rule(boost_fq=None, boost=[{"field": "brand", "query": "Birk", "action": "remove"}])
    for kind in ("user_to_trending", "product_to_products", "user_to_categories", "user_to_attributes"):
        query = build_query(kind, rows=50, group_rows=50, field_name="brand", anchors=("hand-fork",))
        result = dispatch.answer(shop, apply_rules(query, compile_rules([remove], "default")), [], (), NOW_MS)
        values = {group.value for group in result.groups}
        shown = {
            product["product_id"]
            for products in (result.products, *(group.products for group in result.groups))
            for product in products
        }
        assert shown
        assert shown.isdisjoint({"bread-knife", "carving-knife", "cutting-board"})
        assert values.isdisjoint({("Kitchen",), "Birk"})


def test_entries_are_joined_by_the_match_type() -> None:
    entries = [{"field": "brand", "query": "Birk"}, {"field": "tags", "query": "steel"}]
    knife = {"product_id": "k", "brand": "Birk", "tags": ["steel"]}
    board = {"product_id": "b", "brand": "Birk", "tags": ["oak"]}
    (any_of,) = compile_rule(rule(boost_fq=None, boost=entries)).effects
    (all_of,) = compile_rule(rule(boost_fq=None, boost=entries, boost_match_type="all")).effects
    assert [matches_filter(any_of.filter, product) for product in (knife, board)] == [True, True]
    assert [matches_filter(all_of.filter, product) for product in (knife, board)] == [True, False]


@pytest.mark.parametrize(
    ("option", "query", "good", "bad"),
    [
        ("is", 'A "B" \\ C', 'A "B" \\ C', "A"),
        ("is_not", "A", "B", "A"),
        ("contains", "d*e f", "ad*e fz", "adxe fz"),
        ("not_contain", "d", "abc", "adz"),
        ("starts_with", "a/b:", "a/b:c", "xa/b:c"),
        ("ends_with", "(c)", "b(c)", "(c)b"),
        ("regex", "a[0-9]+/x", "a12/x", "a12/xy"),
    ],
)
def test_options_mean_what_they_say(option: str, query: str, good: str, bad: str) -> None:
    (boost,) = compile_rule(
        rule(boost_fq=None, boost=[{"field": "color", "option": option, "query": query}])
    ).effects
    assert matches_filter(boost.filter, {"product_id": "p", "color": good})
    assert not matches_filter(boost.filter, {"product_id": "p", "color": bad})


def test_request_boosts_precede_stored_boosts_by_priority() -> None:
    request_boost = Boost(parse("brand:Alder"), (0,), "own")
    rules = [rule(name="b"), rule(name="a", priority=-1), rule(name="c", priority=7)]
    made = apply_rules(build_query(boosts=(request_boost,)), compile_rules(rules, "default"))
    assert [boost.name for boost in made.boosts] == ["own", "c", "b", "a"]


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"boost_fq": None}, "rules.0 is invalid. The rule does nothing: give it boost, boost_fq or json_asset."),
        ({"boost": [{"field": "a", "query": "b"}]},
         "rules.0.boost_fq is invalid. The rule has boost and boost_fq: keep one of them."),
        ({"position": [0]}, "rules.0.position.0 is invalid. The attribute should be greater than or equal to 1."),
        ({"colour": 1}, "rules.0.colour is invalid. The attribute is not allowed."),
        ({"name": 7},
         "rules.0.name is invalid. The attribute expected to be of type 'string', but 'integer' is given."),
        ({"boost_fq": None, "boost": [{"field": "a", "query": "b", "option": "like"}]},
         "rules.0.boost.0.option is invalid. The attribute should be one of 'contains', 'not_contain', 'is', "
         "'is_not', 'regex', 'ends_with', 'starts_with'."),
        ({"boost_fq": None, "boost": [{"field": "a", "query": "b", "action": "bury", "pin_position": 3}]},
         "rules.0.boost.0.pin_position is invalid. A pin_position goes with action 'pin', not with 'bury'."),
        ({"boost_fq": None, "position": [1], "boost": [{"field": "a", "query": "b", "action": "remove"}]},
         "rules.0.position is invalid. There are positions but nothing is pinned: add a pin or take them out."),
    ],
)  # fmt: skip
def test_a_bad_rule_is_refused_with_what_to_change(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        rule(**bad)
    assert caught.value.message == message


def test_every_bad_rule_of_a_file_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        read_rules([{"name": "a"}, 7, {"name": "b", "boost_fq": "x:1"}, {"name": "b", "boost_fq": "x:2"}])
    assert caught.value.message.endswith("(and 2 more)")
    assert caught.value.facts["messages"][1:] == [
        "rules.1 is invalid. The record expected to be of type 'object', but 'integer' is given.",
        "rules.3.name is invalid. Another rule of this file has the same name.",
    ]


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"boost_fq": "brand:("}, ("boost_fq",)),
        ({"filter_query": [{"query": "a:["}]}, ("filter_query", 0, "query")),
        ({"boost_fq": None, "boost": [{"field": "a", "query": "(", "option": "regex"}]}, ("boost", 0, "query")),
        ({"boost_fq": None, "boost": [{"field": "price", "query": "cheap"}]}, ("boost", 0, "query")),
    ],
)  # fmt: skip
def test_a_filter_of_a_rule_that_does_not_parse_is_named(bad: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(Invalid) as caught:
        compile_rule(rule(**bad))
    assert caught.value.facts["path"] == path
