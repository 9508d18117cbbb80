"""Which stored boost rules a query gets, and what they become in it.

A rule applies when all of its conditions hold, or when the query names one of its tags or the rule itself. Conditions
on search texts hold in searches only. A rule that has tags and no condition waits for its tag. A search may switch all
of them off; it is told which ones applied, and gets what they hand to its page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from actors.recommender.messages import Boost, UserQuery
from actors.retrieval.messages import SearchQuery
from cluster.query.language.boost_rules import CompiledRule, clauses_of
from cluster.query.language.tree import Node
from cluster.records.boost_rule import BoostRule

MODULE = "module_name"
"The session variable that `module_names` are compared with."


def apply_rules(query: UserQuery, rules: Sequence[CompiledRule]) -> UserQuery:
    """Add what applies to a query. Its own boosts come first, so they have the places that two want."""
    sent = frozenset(clauses_of(query.filter))
    search = query.search
    if search is not None and not search.campaigns:
        return query
    found = [rule for rule in rules if is_applicable(rule, query, sent)]
    if not found:
        return query
    return replace(
        query,
        boosts=query.boosts + tuple(_build_boosts(found, removing=False)),
        removed=query.removed + tuple(_build_boosts(found, removing=True)),
        search=None if search is None else _add_rules_to_search(search, found),
    )


def is_applicable(ready_rule: CompiledRule, query: UserQuery, sent: frozenset[Node]) -> bool:
    """Tell whether a rule applies; `sent` are the clauses of the query's filter."""
    rule = ready_rule.rule
    if rule.name in query.rule_names or not set(query.boosting_tags).isdisjoint(rule.boosting_tags):
        return True
    said = _query_text(query)
    if rule.search_texts and said is None:
        return False
    conditions = [
        not rule.search_texts or ready_rule.matches_query(said or ""),
        not rule.api_names or query.kind in rule.api_names,
        not rule.anchor_products or not set(query.anchors).isdisjoint(rule.anchor_products),
        not rule.module_names or query.context.get(MODULE) in rule.module_names,
        all(_has_value(query.context.get(name), values) for name, values in rule.context.items()),
        all(not clauses.isdisjoint(sent) for clauses in ready_rule.overlaps),
    ]
    return all(conditions) and (not rule.boosting_tags or _has_condition(rule))


def _query_text(query: UserQuery) -> str | None:
    """Give the words of a search or a question, as they were sent; None where no words are sent."""
    if query.search is not None:
        return query.search.original
    return None if query.question is None else query.question.original


def _has_condition(rule: BoostRule) -> bool:
    return bool(
        rule.api_names
        or rule.anchor_products
        or rule.module_names
        or rule.context
        or rule.filter_query
        or rule.search_texts
    )


def _add_rules_to_search(search: SearchQuery, found: Sequence[CompiledRule]) -> SearchQuery:
    """Tell a search which rules apply, and what they have for its page."""
    removing = (ready.rule.name for ready in found for one in ready.effects if one.action == "remove")
    return replace(
        search,
        assets=tuple(ready.rule.json_asset for ready in found if ready.rule.json_asset is not None),
        applied=tuple(ready.rule.name for ready in found),
        filtering=next(removing, ""),
    )


def _has_value(given: object, values: Sequence[object]) -> bool:
    """Tell whether a session variable has one of the values; `True` is not 1."""
    found = given if isinstance(given, list) else [given]
    wanted = {(isinstance(value, bool), value) for value in values}
    return any(
        isinstance(item, (str, bool, int, float)) and (isinstance(item, bool), item) in wanted
        for item in found
    )


def _build_boosts(rules: Sequence[CompiledRule], *, removing: bool) -> Iterator[Boost]:
    for ready in rules:
        name = ready.rule.name
        for effect in ready.effects:
            if (effect.action == "remove") == removing:
                bury = effect.action == "bury"
                yield Boost(effect.filter, effect.positions, name, bury=bury, label=f"stored rule {name}")
