"""Stored boost rules compiled to filter trees.

API replicas turn them into boosts of a query (`docs/decisions/0010-stored-rules-as-boosts.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.errors import FilterSyntax, Invalid
from cluster.query.language.automaton import Automaton
from cluster.query.language.field_values import canonical_field, is_text
from cluster.query.language.parser import parse
from cluster.query.language.patterns import compile_regex
from cluster.query.language.text_analysis import fold
from cluster.query.language.tree import All, Any, Node, Not, escape_slashes
from cluster.records.boost_rule import Action, BoostRule, ProductBoost

_NEGATED = ("is_not", "not_contain")
_COMPARED: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "not_contain": lambda text, part: part in text,
    "is": lambda text, other: text == other,
    "is_not": lambda text, other: text == other,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """One effect of a rule on matching products."""

    action: Action
    positions: tuple[int, ...] | None
    "0-based positions in the whole list; None: before the rest."
    filter: Node


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its filters parsed."""

    rule: BoostRule
    effects: tuple[RuleEffect, ...]
    overlaps: tuple[frozenset[Node], ...]
    "Clauses of each `filter_query`."
    query_patterns: tuple[Automaton, ...] = ()
    "With `query_option` regex: the patterns of `query` and `queries`."

    def matches_query(self, text: str) -> bool:
        """Return whether a search text triggers the rule; case and surrounding blanks do not matter.

        With `not_contain` and `is_not`, any of its texts prevents the rule.
        """
        rule = self.rule
        # Both sides folded, so that "Garden" and "garden " trigger the same rule.
        sought = fold(text).strip()
        if rule.query_option == "regex":
            return any(pattern.accepts(sought) for pattern in self.query_patterns)
        compare = _COMPARED[rule.query_option]
        matches = any(compare(sought, fold(search_text).strip()) for search_text in rule.search_texts)
        return not matches if rule.query_option in _NEGATED else matches


def compile_rule(rule: BoostRule) -> CompiledRule:
    """Return a rule with its filters parsed.

    Errors:
        Invalid: a filter or pattern does not parse; fact `path` names it
    """
    overlaps = tuple(
        frozenset(clauses_of(_parse(condition.query, "filter_query", at, "query")))
        for at, condition in enumerate(rule.filter_query)
    )
    return CompiledRule(rule, tuple(_effects(rule)), overlaps, tuple(_query_patterns(rule)))


def compile_rules(rules: Sequence[BoostRule], engine_id: str) -> tuple[CompiledRule, ...]:
    """Return the enabled rules of one engine, compiled, the most important first.

    Errors:
        Invalid: as `compile_rule`
    """
    chosen = [rule for rule in rules if rule.enabled and rule.engine_id == engine_id]
    return tuple(compile_rule(rule) for rule in sorted(chosen, key=lambda rule: (-rule.priority, rule.name)))


def clauses_of(node: Node | None) -> list[Node]:
    """Return the positive clauses of a filter, without those it excludes."""
    if isinstance(node, (All, Any)):
        return [clause for child in node.children for clause in clauses_of(child)]
    return [] if node is None or isinstance(node, Not) else [node]


def _query_patterns(rule: BoostRule) -> Iterator[Automaton]:
    """Build the patterns of search texts; they match folded text, so their literals are folded too."""
    if rule.query_option != "regex":
        return
    for at, search_text in enumerate(rule.search_texts):
        try:
            yield compile_regex(search_text, fold=fold)
        except FilterSyntax as error:
            path = ("query",) if rule.query and at == 0 else ("queries", at - bool(rule.query))
            raise Invalid(error.message, path=path) from error


def _effects(rule: BoostRule) -> list[RuleEffect]:
    # Uploads count places from 1.
    places = tuple(place - 1 for place in rule.position) or None
    if rule.boost_fq is not None:
        return [RuleEffect("pin", places, _parse(rule.boost_fq, "boost_fq"))]
    pairs = [(boost, _product_clause(boost, at)) for at, boost in enumerate(rule.boost)]
    if not pairs:
        return []
    if rule.boost_match_type == "all":
        first = pairs[0][0]
        return [RuleEffect(first.action, _places(first, places), _join(All, [clause for _, clause in pairs]))]
    lots: dict[tuple[Action, tuple[int, ...] | None], list[Node]] = {}
    for boost, clause in pairs:
        lots.setdefault((boost.action, _places(boost, places)), []).append(clause)
    return [RuleEffect(action, where, _join(Any, clauses)) for (action, where), clauses in lots.items()]


def _places(boost: ProductBoost, places: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if boost.action != "pin":
        return None
    return places if boost.pin_position is None else (boost.pin_position - 1,)


def _join(kind: type[All] | type[Any], clauses: Sequence[Node]) -> Node:
    return clauses[0] if len(clauses) == 1 else kind(tuple(clauses))


def _product_clause(boost: ProductBoost, at: int) -> Node:
    """Render one condition on products in the filter language, so that its budgets and meaning apply."""
    name = _escape(boost.field).replace("\\.", ".")
    option = boost.option
    if option == "regex":
        text = f"{name}:/{escape_slashes(boost.query)}/"
    elif option in ("is", "is_not") or is_text(canonical_field(boost.field)):
        quoted = boost.query.replace("\\", "\\\\").replace('"', '\\"')
        text = f'{name}:"{quoted}"'
    else:
        before = "" if option == "starts_with" else "*"
        after = "" if option == "ends_with" else "*"
        text = f"{name}:{before}{_escape(boost.query)}{after}"
    clause = _parse(text, "boost", at, "query")
    return Not(clause) if option in _NEGATED else clause


def _escape(text: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else "\\" + char for char in text)


def _parse(text: str, *path: str | int) -> Node:
    try:
        return parse(text)
    except FilterSyntax as error:
        raise Invalid(error.message, path=path) from error
