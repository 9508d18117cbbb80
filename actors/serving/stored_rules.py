"""The stored boost rules of every app: read again after a second, selected for a query, and added to it.

A rule with a time window applies inside of it. `PREVIEW` replaces the rules, or the snapshot, for the requests of one
task: an editor sees what a draft would do, and no other request does.

A rule applies if all of its conditions hold, or if the query names the rule or one of its tags. Conditions on search
texts hold only for searches and questions. A rule with tags and without conditions applies only by its tag. A search
can disable all rules. A search query receives the names of applied rules and their assets for the result page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import structlog

from actors.recommender.messages import RULE_LABEL, Boost, UserQuery
from actors.retrieval.messages import SearchQuery
from cluster.clock import Clock
from cluster.errors import Invalid, Unavailable
from cluster.query.language.compiled_rules import CompiledRule, clauses_of, compile_rules
from cluster.query.language.tree import Node
from cluster.records.boost_rule import BoostRule
from cluster.store.engines.boost_rules import RuleStore
from cluster.store.refreshing_cache import RefreshingCache


@dataclass(frozen=True, slots=True)
class Preview:
    """How requests of one task are answered for somebody who tries something. They record nothing: no query log, no
    experiment."""

    rules: tuple[CompiledRule, ...] | None = None
    "The rules that apply instead of the stored ones; None: the stored ones apply."
    snapshot: str = ""
    "The version that answers instead of the serving one."


PREVIEW: ContextVar[Preview | None] = ContextVar("preview", default=None)

_KEEP_S = 1.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _CachedRules:
    rules: list[BoostRule]
    ready: dict[str, tuple[CompiledRule, ...]] = field(default_factory=dict)
    "Engine -> its compiled rules, built at the first query."
    has_windows: bool = False


class StoredRules:
    """Applies stored rules to queries."""

    def __init__(self, store: RuleStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache = RefreshingCache(self._load, clock, keep_s=_KEEP_S)

    async def apply(self, query: UserQuery) -> UserQuery:
        """Return the query with the stored rules that apply to it.

        Cost:
            a dictionary look-up, and one read of the store each second for each app. If the store fails, the last rules
            stay.
        """
        rules = await self.get_rules(query.app_id, query.engine_id)
        return apply_rules(query, rules) if rules else query

    async def apply_named(self, query: UserQuery) -> UserQuery:
        """Return the query with the stored rules that it names, and no others."""
        if not query.rule_names:
            return query
        rules = await self.get_rules(query.app_id, query.engine_id)
        return apply_rules(query, [ready for ready in rules if ready.rule.name in query.rule_names])

    async def get_rules(self, app_id: str, engine_id: str) -> tuple[CompiledRule, ...]:
        """Return the rules of an engine that are in force now, highest priority first."""
        preview = PREVIEW.get()
        if preview is not None and preview.rules is not None:
            return preview.rules
        # Not waiting: the rules of a second ago apply while they are read again in the background.
        cached = await self._cache.read(app_id, wait=False)
        if not cached.rules:
            return ()
        # Compiled once a change and engine; a window is checked for each query, since time passes without a
        # change.
        rules = cached.ready.get(engine_id)
        if rules is None:
            rules = cached.ready[engine_id] = parse_rules(app_id, engine_id, cached.rules)
        if cached.has_windows:
            now_ms = self._clock.now_ms()
            return tuple(compiled for compiled in rules if compiled.rule.is_in_force(now_ms))
        return rules

    async def _load(self, app_id: str, last: _CachedRules | None) -> _CachedRules:
        try:
            rules = await self._store.all(app_id)
        except Unavailable:
            if last is not None:
                raise
            # a page without its boosts is better than no page
            rules = []
        # The former object keeps its compiled rules.
        if last is not None and last.rules == rules:
            return last
        return _CachedRules(rules, has_windows=any(rule.has_window for rule in rules))


def parse_rules(app_id: str, engine_id: str, rules: list[BoostRule]) -> tuple[CompiledRule, ...]:
    """Return the rules of an engine that this release can read, highest priority first."""
    try:
        return compile_rules(rules, engine_id)
    except Invalid as error:
        # another version of this program wrote the rule; the other rules still apply
        _log.error("boost_rule_refused", app=app_id, engine=engine_id, reason=error.message)
    compiled: list[CompiledRule] = []
    for rule in rules:
        try:
            compiled += compile_rules([rule], engine_id)
        except Invalid:
            continue
    return tuple(sorted(compiled, key=lambda ready: (-ready.rule.priority, ready.rule.name)))


MODULE = "module_name"
"The session variable that `module_names` are compared with."


def apply_rules(query: UserQuery, rules: Sequence[CompiledRule]) -> UserQuery:
    """Return the query with the rules that apply. Boosts of the request come first, so they win contested positions."""
    sent = frozenset(clauses_of(query.filter))
    search = query.search
    # The search asked for a result without stored rules.
    if search is not None and not search.campaigns:
        return query
    applicable = [rule for rule in rules if is_applicable(rule, query, sent)]
    if not applicable:
        return query
    return replace(
        query,
        boosts=query.boosts + tuple(_build_boosts(applicable, removing=False)),
        removed=query.removed + tuple(_build_boosts(applicable, removing=True)),
        search=None if search is None else _add_rules_to_search(search, applicable),
    )


def is_applicable(ready_rule: CompiledRule, query: UserQuery, sent: frozenset[Node]) -> bool:
    """Return whether a rule applies; `sent` are the clauses of the query's filter."""
    rule = ready_rule.rule
    if rule.name in query.rule_names or not set(query.boosting_tags).isdisjoint(rule.boosting_tags):
        return True
    text = _query_text(query)
    if rule.search_texts and text is None:
        return False
    conditions = [
        not rule.search_texts or ready_rule.matches_query(text or ""),
        not rule.api_names or query.kind in rule.api_names,
        not rule.anchor_products or not set(query.anchors).isdisjoint(rule.anchor_products),
        not rule.module_names or query.context.get(MODULE) in rule.module_names,
        all(_has_value(query.context.get(name), values) for name, values in rule.context.items()),
        all(not clauses.isdisjoint(sent) for clauses in ready_rule.overlaps),
    ]
    # A rule with a tag and no condition waits for requests that name the tag.
    return all(conditions) and (not rule.boosting_tags or _has_condition(rule))


def _query_text(query: UserQuery) -> str | None:
    """Return the text of a search or question as the client sent it; None for other queries."""
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


def _add_rules_to_search(search: SearchQuery, rules: Sequence[CompiledRule]) -> SearchQuery:
    """Return the search with the names of applied rules and their assets for the result page."""
    removing = (ready.rule.name for ready in rules for effect in ready.effects if effect.action == "remove")
    return replace(
        search,
        assets=tuple(ready.rule.json_asset for ready in rules if ready.rule.json_asset is not None),
        applied=tuple(ready.rule.name for ready in rules),
        filtering=next(removing, ""),
    )


def _has_value(given: object, values: Sequence[object]) -> bool:
    """Return whether a session variable has one of the values; `True` is not 1."""
    items = given if isinstance(given, list) else [given]
    # `True == 1` in Python, and both have one hash: the flag keeps them apart.
    accepted = {(isinstance(value, bool), value) for value in values}
    return any(
        isinstance(item, (str, bool, int, float)) and (isinstance(item, bool), item) in accepted
        for item in items
    )


def _build_boosts(rules: Sequence[CompiledRule], *, removing: bool) -> Iterator[Boost]:
    for ready in rules:
        name = ready.rule.name
        for effect in ready.effects:
            if (effect.action == "remove") == removing:
                bury = effect.action == "bury"
                yield Boost(effect.filter, effect.positions, name, bury=bury, label=f"{RULE_LABEL}{name}")
