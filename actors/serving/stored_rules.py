"""The stored boost rules of every app, kept for a second and read again: a change is in force soon after."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from actors.recommender.messages import UserQuery
from actors.serving.rule_matching import apply_rules
from cluster.clock import Clock
from cluster.errors import Invalid, Unavailable
from cluster.query.language.boost_rules import CompiledRule, compile_rules
from cluster.records.boost_rule import BoostRule
from cluster.store.ports.boost_rules import RuleStore
from cluster.store.refreshing_cache import RefreshingCache

_KEEP_S = 1.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _CachedRules:
    rules: list[BoostRule]
    ready: dict[str, tuple[CompiledRule, ...]] = field(default_factory=dict)
    "Engine -> its rules, parsed when first asked for."


class StoredRules:
    """Applies stored rules to queries."""

    def __init__(self, store: RuleStore, clock: Clock, keep_s: float = _KEEP_S) -> None:
        self._store = store
        self._cache = RefreshingCache(self._load, clock, keep_s=keep_s)

    async def apply(self, query: UserQuery) -> UserQuery:
        """Add the rules that apply to a query.

        Cost:
            a dictionary look-up; once a second per app one read. Without the store the last rules stay in force.
        """
        rules = await self.get_rules(query.app_id, query.engine_id)
        return apply_rules(query, rules) if rules else query

    async def get_rules(self, app_id: str, engine_id: str) -> tuple[CompiledRule, ...]:
        """Give the enabled rules of an engine, the most important first."""
        cached = await self._cache.read(app_id, wait=False)
        if not cached.rules:
            return ()
        found = cached.ready.get(engine_id)
        if found is None:
            found = cached.ready[engine_id] = _parse_rules(app_id, engine_id, cached.rules)
        return found

    async def _load(self, app_id: str, last: _CachedRules | None) -> _CachedRules:
        try:
            rules = await self._store.all(app_id)
        except Unavailable:
            if last is not None:
                raise
            # a page without its boosts is better than no page
            rules = []
        return last if last is not None and last.rules == rules else _CachedRules(rules)


def _parse_rules(app_id: str, engine_id: str, rules: list[BoostRule]) -> tuple[CompiledRule, ...]:
    try:
        return compile_rules(rules, engine_id)
    except Invalid as error:
        # written by another version of this program: the others still apply
        _log.error("boost_rule_refused", app=app_id, engine=engine_id, reason=error.message)
    found: list[CompiledRule] = []
    for rule in rules:
        try:
            found += compile_rules([rule], engine_id)
        except Invalid:
            continue
    return tuple(sorted(found, key=lambda ready: (-ready.rule.priority, ready.rule.name)))
