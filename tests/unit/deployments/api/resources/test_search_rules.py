"""Stored rules and searches: which texts they wait for, what a search is told of them, how it switches them off."""

from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import AnswerQuery, SearchQuery
from actors.serving.stored_rules import apply_rules
from cluster.errors import Invalid
from cluster.query.language.compiled_rules import compile_rules
from cluster.records.validation.boost_rules import read_rules


def search_query(text: str = "", **more: Any) -> UserQuery:
    search = SearchQuery(text=text, original=text, **more)
    return UserQuery(kind="search", app_id="shop", engine_id="default", search=search)


def applied(query: UserQuery, *rules: dict[str, Any]) -> SearchQuery:
    made = read_rules([{"name": f"r{at}", "boost_fq": "brand:Birk", **rule} for at, rule in enumerate(rules)])
    search = apply_rules(query, compile_rules(made, "default")).search
    assert search is not None
    return search


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("contains", ["red tea", "TEA", " teapot"], ["te a", ""]),
        ("not_contain", ["coffee", ""], ["green Tea"]),
        ("is", ["Tea", " tea "], ["teas", "green tea"]),
        ("is_not", ["teas"], ["TEA"]),
        ("starts_with", ["teapot"], ["green tea"]),
        ("ends_with", ["green TEA"], ["teapot"]),
    ],
)
def test_a_rule_waits_for_its_text(option: str, good: list[str], bad: list[str]) -> None:
    rule = {"query": "tea", "query_option": option}
    assert [applied(search_query(text), rule).applied for text in good] == [("r0",)] * len(good)
    assert [applied(search_query(text), rule).applied for text in bad] == [()] * len(bad)


def test_a_rule_waits_for_any_of_its_texts_or_for_a_pattern_over_the_whole_text() -> None:
    several = {"queries": ["tea", "cup"], "query_option": "is"}
    assert applied(search_query("cup"), several).applied == ("r0",)
    assert applied(search_query("mug"), several).applied == ()
    none = {"queries": ["tea", "cup"], "query_option": "is_not"}
    assert applied(search_query("cup"), none).applied == ()
    pattern = {"query": "T(ea|ee) \\d+", "query_option": "regex"}
    assert applied(search_query("Tea 12"), pattern).applied == ("r0",)
    assert applied(search_query("green tea 12"), pattern).applied == ()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("Straße( \\d+)?", "STRASSE 12"),
        ("gro(ß)+", "grossss"),
        ("ﬁlter", "Filter"),
        ("ＴＥＡ［a］?", "tea[a"),
        ('"(Weiß)"', "(weiss)"),
        ("[ÄÖ-Ü]l\\Ä", "ÖLÄ"),
    ],
)
def test_patterns_and_texts_are_folded_alike(pattern: str, text: str) -> None:
    assert applied(search_query(text), {"query": pattern, "query_option": "regex"}).applied == ("r0",)


def test_a_pattern_that_does_not_parse_is_refused_when_the_rule_is_made_ready() -> None:
    with pytest.raises(Invalid):
        applied(search_query("tea"), {"query": "(tea", "query_option": "regex"})


def test_a_search_gets_the_names_of_applied_rules_and_their_assets() -> None:
    rules = [
        {"query": "tea", "json_asset": {"banner": 1}, "boost_fq": None},
        {"boost_fq": None, "boost": [{"field": "brand", "query": "Mori", "action": "remove"}]},
        {"query": "coffee", "json_asset": 2},
    ]
    search = applied(search_query("tea"), *rules)
    assert (search.assets, search.applied, search.filtering) == (({"banner": 1},), ("r0", "r1"), "r1")
    switched_off = applied(search_query("tea", campaigns=False), *rules)
    assert (switched_off.assets, switched_off.applied, switched_off.filtering) == ((), (), "")


def test_a_tag_calls_a_rule_whatever_is_searched_for() -> None:
    query = UserQuery(
        kind="search",
        app_id="shop",
        engine_id="default",
        boosting_tags=("vip",),
        search=SearchQuery(original="x"),
    )
    assert applied(query, {"query": "tea", "boosting_tags": ["vip"]}).applied == ("r0",)


def test_a_rule_that_waits_for_a_text_hears_questions_too() -> None:
    rules = read_rules([{"name": "care", "query": "mulch", "boost_fq": "brand:Birk"}])

    def boosts(question: AnswerQuery | None) -> list[str]:
        query = UserQuery(kind="question_answering", app_id="shop", engine_id="default", question=question)
        return [boost.name for boost in apply_rules(query, compile_rules(rules, "default")).boosts]

    assert boosts(AnswerQuery("what is mulch", "What is mulch?", 0.5, 0.5)) == ["care"]
    assert boosts(AnswerQuery("what is soil", "What is soil?", 0.5, 0.5)) == []
    assert boosts(None) == []


def test_a_rule_may_be_for_question_answering_alone() -> None:
    rules = read_rules([{"name": "care", "api_names": ["question_answering"], "boost_fq": "brand:Birk"}])
    (ready,) = compile_rules(rules, "default")
    question = AnswerQuery("a", "a", 0.5, 0.5)
    query = UserQuery(kind="question_answering", app_id="shop", engine_id="default", question=question)
    assert apply_rules(query, [ready]).boosts
    assert not apply_rules(search_query("a"), [ready]).boosts
