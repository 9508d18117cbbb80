"""Stored boost rules at work: which of them a query gets, and what they become in it.

A rule applies when all of its conditions hold, or when the query names one of its tags or the rule itself. Conditions
on search texts never hold here. A rule that has tags and no condition waits for its tag.

Source: reference 6.4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from actors.recommender.messages import Boost, ReaderQuery
from cluster.errors import FilterSyntax, Invalid
from cluster.query.parser import parse
from cluster.query.tree import All, Any, Node, Not
from cluster.query.values import canonical, is_text
from cluster.records.boost_rule import BoostRule, ProductBoost

MODULE = "module_name"
"The session variable that `module_names` are compared with."

_NEGATED = ("is_not", "not_contain")


@dataclass(frozen=True, slots=True)
class ReadyRule:
    """A rule with its filters parsed."""

    rule: BoostRule
    boosts: tuple[Boost, ...]
    removed: tuple[Boost, ...]
    overlaps: tuple[frozenset[Node], ...]
    "Clauses of each `filter_query`."


def ready(rule: BoostRule) -> ReadyRule:
    """Parse the filters of a rule.

    Errors:
        Invalid: a filter or pattern does not parse; fact `path` names it
    """
    overlaps = tuple(
        frozenset(_clauses(_parsed(one.query, "filter_query", at, "query")))
        for at, one in enumerate(rule.filter_query)
    )
    boosts: list[Boost] = []
    removed: list[Boost] = []
    for action, place, filter_ in _effects(rule):
        boost = Boost(filter_, place, rule.name, bury=action == "bury", label=f"stored rule {rule.name}")
        (removed if action == "remove" else boosts).append(boost)
    return ReadyRule(rule, tuple(boosts), tuple(removed), overlaps)


def ready_in_order(rules: Sequence[BoostRule], engine_id: str) -> tuple[ReadyRule, ...]:
    """Make the enabled rules of one engine ready, the most important first."""
    chosen = [rule for rule in rules if rule.enabled and rule.engine_id == engine_id]
    return tuple(ready(rule) for rule in sorted(chosen, key=lambda rule: (-rule.priority, rule.name)))


def with_rules(query: ReaderQuery, rules: Sequence[ReadyRule]) -> ReaderQuery:
    """Add what applies to a query. Its own boosts come first, so they have the places that two want."""
    sent = frozenset(_clauses(query.filter)) if query.filter is not None else frozenset[Node]()
    found = [rule for rule in rules if applies(rule, query, sent)]
    if not found:
        return query
    return replace(
        query,
        boosts=query.boosts + tuple(boost for rule in found for boost in rule.boosts),
        removed=query.removed + tuple(boost for rule in found for boost in rule.removed),
    )


def applies(ready_rule: ReadyRule, query: ReaderQuery, sent: frozenset[Node]) -> bool:
    """Tell whether a rule applies; `sent` are the clauses of the query's filter."""
    rule = ready_rule.rule
    if rule.name in query.rule_names or not set(query.boosting_tags).isdisjoint(rule.boosting_tags):
        return True
    if rule.asked:
        return False
    conditions = [
        not rule.api_names or query.kind in rule.api_names,
        not rule.anchor_products or not set(query.anchors).isdisjoint(rule.anchor_products),
        not rule.module_names or query.context.get(MODULE) in rule.module_names,
        all(_is_sent(query.context.get(name), values) for name, values in rule.context.items()),
        all(not clauses.isdisjoint(sent) for clauses in ready_rule.overlaps),
    ]
    return all(conditions) and (not rule.boosting_tags or _has_condition(rule))


def _has_condition(rule: BoostRule) -> bool:
    return bool(
        rule.api_names or rule.anchor_products or rule.module_names or rule.context or rule.filter_query
    )


def _is_sent(given: object, values: Sequence[object]) -> bool:
    """Tell whether a session variable has one of the values; `True` is not 1."""
    found = given if isinstance(given, list) else [given]
    wanted = {(isinstance(value, bool), value) for value in values}
    return any(
        isinstance(item, (str, bool, int, float)) and (isinstance(item, bool), item) in wanted
        for item in found
    )


def _effects(rule: BoostRule) -> list[tuple[str, tuple[int, ...] | None, Node]]:
    """List what a rule does: action, 0-based places, which products."""
    places = tuple(place - 1 for place in rule.position) or None
    if rule.boost_fq is not None:
        return [("pin", places, _parsed(rule.boost_fq, "boost_fq"))]
    wanted = [(one, _product_clause(one, at)) for at, one in enumerate(rule.boost)]
    if not wanted:
        return []
    if rule.boost_match_type == "all":
        first = wanted[0][0]
        return [
            (first.action, _places(first, places), _joined(All, [clause for _, clause in wanted])),
        ]
    lots: dict[tuple[str, tuple[int, ...] | None], list[Node]] = {}
    for one, clause in wanted:
        lots.setdefault((one.action, _places(one, places)), []).append(clause)
    return [(action, where, _joined(Any, clauses)) for (action, where), clauses in lots.items()]


def _places(one: ProductBoost, places: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if one.action != "pin":
        return None
    return places if one.pin_position is None else (one.pin_position - 1,)


def _joined(kind: type[All] | type[Any], clauses: Sequence[Node]) -> Node:
    return clauses[0] if len(clauses) == 1 else kind(tuple(clauses))


def _product_clause(one: ProductBoost, at: int) -> Node:
    """Write one condition on products in the filter language, whose budgets and meaning it then has."""
    name, option = _escaped(one.field).replace("\\.", "."), one.option
    if option == "regex":
        text = f"{name}:/{_for_slashes(one.query)}/"
    elif option in ("is", "is_not") or is_text(canonical(one.field)):
        quoted = one.query.replace("\\", "\\\\").replace('"', '\\"')
        text = f'{name}:"{quoted}"'
    else:
        before = "" if option == "starts_with" else "*"
        after = "" if option == "ends_with" else "*"
        text = f"{name}:{before}{_escaped(one.query)}{after}"
    clause = _parsed(text, "boost", at, "query")
    return Not(clause) if option in _NEGATED else clause


def _escaped(text: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else "\\" + char for char in text)


def _for_slashes(pattern: str) -> str:
    """Escape slashes that are not escaped yet."""
    written, after_backslash = [], False
    for char in pattern:
        written.append("\\/" if char == "/" and not after_backslash else char)
        after_backslash = char == "\\" and not after_backslash
    return "".join(written)


def _parsed(text: str, *path: str | int) -> Node:
    try:
        return parse(text)
    except FilterSyntax as error:
        raise Invalid(error.message, path=path) from error


def _clauses(node: Node) -> list[Node]:
    """Collect the clauses a filter asks for; what it excludes is none of them."""
    if isinstance(node, (All, Any)):
        return [clause for child in node.children for clause in _clauses(child)]
    return [] if isinstance(node, Not) else [node]
