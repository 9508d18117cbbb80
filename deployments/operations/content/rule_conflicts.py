"""Which stored rules contradict each other, and which never apply. The module uses no store and no clock.

Two rules contradict each other if one query can trigger both, and

    place      both pin products at one position; only one of them gets it
    opposite   one pins the products that the other buries or removes

Whether one query can trigger both is decided by their conditions. Search texts are compared by trying the texts of
each rule on the other one, so two patterns that share only other texts are missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

from cluster.query.language.compiled_rules import CompiledRule, RuleEffect, clauses_of
from cluster.query.language.tree import Node
from cluster.records.boost_rule import BoostRule

MOST_CONFLICTS = 200
_MOST_PAIRS = 20_000
"Pairs of rules that are compared; more share a place only in sets that nobody can read."
_MOST_TEXTS = 50
"Search texts of a rule that are tried on another one."
TEXT_ENDPOINTS = frozenset({"search", "question_answering"})
"Endpoints whose queries have a text."


@dataclass(frozen=True, slots=True)
class RuleConflict:
    """Two rules that contradict each other."""

    kind: Literal["place", "opposite"]
    engine_id: str
    winner: str
    "The rule with the higher priority, whose effect stays."
    loser: str
    text: str


@dataclass(frozen=True, slots=True)
class IdleRule:
    """A rule that no query can trigger."""

    engine_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ConflictReport:
    """What is wrong with the rules of an app or engine."""

    conflicts: tuple[RuleConflict, ...] = ()
    idle: tuple[IdleRule, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
            "idle": [asdict(idle_rule) for idle_rule in self.idle],
        }


def check_rules(rules: Sequence[CompiledRule], now_ms: int) -> ConflictReport:
    """Return the conflicts and the idle rules among rules of one engine.

    Cost:
        500 rules with 20,000 pairs that share a place: 0.2 s; call it from a thread
    """
    idle = [
        IdleRule(ready.rule.engine_id, ready.rule.name, reason)
        for ready in rules
        if (reason := idle_reason(ready.rule, now_ms))
    ]
    idle_names = {idle_rule.name for idle_rule in idle}
    live = [ready for ready in rules if ready.rule.enabled and ready.rule.name not in idle_names]
    live.sort(key=lambda ready: (-ready.rule.priority, ready.rule.name))
    conflicts = []
    for first, second in _candidate_pairs(live):
        conflict = compare_rules(first, second)
        if conflict is not None:
            conflicts.append(conflict)
            if len(conflicts) == MOST_CONFLICTS:
                break
    return ConflictReport(tuple(conflicts), tuple(idle))


def compare_rules(first: CompiledRule, second: CompiledRule) -> RuleConflict | None:
    """Return how two rules of one engine contradict each other, `first` with the higher priority; None: not at all."""
    if not can_meet(first, second):
        return None
    winner = first.rule.name
    loser = second.rule.name
    places = sorted(_pinned_places(first) & _pinned_places(second))
    if places:
        words = ", ".join(str(place + 1) for place in places[:5])
        text = f"both pin products at {'position' if len(places) == 1 else 'positions'} {words}"
        return RuleConflict("place", first.rule.engine_id, winner, loser, text)
    for effect in first.effects:
        for other in second.effects:
            if (effect.action == "pin") != (other.action == "pin") and _shares_products(effect, other):
                text = (
                    f"{winner} ({effect.action}) and {loser} ({other.action}) select products by one filter"
                )
                return RuleConflict("opposite", first.rule.engine_id, winner, loser, text)
    return None


def idle_reason(rule: BoostRule, now_ms: int) -> str:
    """Return why no query can trigger a rule from now on; empty: one can. A disabled rule is no mistake."""
    if not rule.enabled:
        return ""
    if rule.ends_at is not None and rule.ends_at <= now_ms:
        return "its time window is over"
    # A request that names a tag of the rule triggers it, whatever its other conditions say.
    if rule.boosting_tags:
        return ""
    if rule.search_texts and rule.api_names and not TEXT_ENDPOINTS.intersection(rule.api_names):
        return f"it waits for search texts, and {', '.join(rule.api_names)} has none"
    if rule.anchor_products and rule.api_names and "product_to_products" not in rule.api_names:
        return f"it waits for products of a page, and {', '.join(rule.api_names)} names none"
    if rule.anchor_products and rule.search_texts:
        return "it waits for a product of a page and for a search text, and no query has both"
    if not rule.boost and rule.boost_fq is None and rule.api_names and "search" not in rule.api_names:
        return "it only has an asset, which only search pages get"
    return ""


def can_meet(first: CompiledRule, second: CompiledRule) -> bool:
    """Return whether one query can trigger both rules, as far as their conditions show."""
    first_rule = first.rule
    second_rule = second.rule
    if first_rule.engine_id != second_rule.engine_id or not _windows_meet(first_rule, second_rule):
        return False
    if _needs_tag(first_rule) or _needs_tag(second_rule):
        return bool(set(first_rule.boosting_tags) & set(second_rule.boosting_tags))
    if not all(
        _sets_meet(mine, theirs)
        for mine, theirs in (
            (first_rule.api_names, second_rule.api_names),
            (first_rule.anchor_products, second_rule.anchor_products),
            (first_rule.module_names, second_rule.module_names),
        )
    ):
        return False
    if any(
        not _sets_meet([str(value) for value in values], [str(value) for value in second_rule.context[name]])
        for name, values in first_rule.context.items()
        if name in second_rule.context
    ):
        return False
    return _texts_meet(first, second)


def _windows_meet(first: BoostRule, second: BoostRule) -> bool:
    begins = max(first.starts_at or 0, second.starts_at or 0)
    ends = [rule.ends_at for rule in (first, second) if rule.ends_at is not None]
    return not ends or begins < min(ends)


def _needs_tag(rule: BoostRule) -> bool:
    conditions = (
        rule.api_names,
        rule.anchor_products,
        rule.module_names,
        rule.context,
        rule.filter_query,
        rule.search_texts,
    )
    return bool(rule.boosting_tags) and not any(conditions)


def _sets_meet(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    return not mine or not theirs or not set(mine).isdisjoint(theirs)


def _texts_meet(first: CompiledRule, second: CompiledRule) -> bool:
    mine = first.rule.search_texts
    theirs = second.rule.search_texts
    if not mine or not theirs:
        # the one with a text applies to searches only, the other one perhaps not at all
        unlike = second.rule if mine else first.rule
        if (mine or theirs) and unlike.api_names:
            return not TEXT_ENDPOINTS.isdisjoint(unlike.api_names)
        return True
    # Almost any text triggers both, also one that neither rule names.
    if first.rule.query_option in ("is_not", "not_contain") and second.rule.query_option in (
        "is_not",
        "not_contain",
    ):
        return True
    texts = (*mine[:_MOST_TEXTS], *theirs[:_MOST_TEXTS])
    return any(first.matches_query(text) and second.matches_query(text) for text in texts)


def _candidate_pairs(live: Sequence[CompiledRule]) -> Iterator[tuple[CompiledRule, CompiledRule]]:
    """Yield the pairs that share a place or a clause on products, each once, the higher priority first."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for at, ready in enumerate(live):
        marks: set[object] = set(_pinned_places(ready))
        for effect in ready.effects:
            marks.update(_product_clauses(effect))
        for mark in marks:
            groups[mark].append(at)
    seen: set[tuple[int, int]] = set()
    for members in groups.values():
        for pair in combinations(members, 2):
            if pair in seen:
                continue
            seen.add(pair)
            yield live[pair[0]], live[pair[1]]
            if len(seen) >= _MOST_PAIRS:
                return


def _pinned_places(ready: CompiledRule) -> set[int]:
    return {place for effect in ready.effects if effect.action == "pin" for place in effect.positions or ()}


def _product_clauses(effect: RuleEffect) -> frozenset[Node]:
    return frozenset((effect.filter, *clauses_of(effect.filter)))


def _shares_products(first: RuleEffect, second: RuleEffect) -> bool:
    return not _product_clauses(first).isdisjoint(_product_clauses(second))
