"""A cache of the stored boost rules of every app. It reads them again after a second, so changes apply soon."""

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
    "Engine -> its compiled rules, built at the first query."


class StoredRules:
    """Applies stored rules to queries."""

    def __init__(self, store: RuleStore, clock: Clock, keep_s: float = _KEEP_S) -> None:
        self._store = store
        self._cache = RefreshingCache(self._load, clock, keep_s=keep_s)

    async def apply(self, query: UserQuery) -> UserQuery:
        """Return the query with the stored rules that apply to it.

        Cost:
            a dictionary look-up, and one read of the store each second for each app. If the store fails, the last rules
            stay.
        """
        rules = await self.get_rules(query.app_id, query.engine_id)
        return apply_rules(query, rules) if rules else query

    async def get_rules(self, app_id: str, engine_id: str) -> tuple[CompiledRule, ...]:
        """Return the enabled rules of an engine, highest priority first."""
        cached = await self._cache.read(app_id, wait=False)
        if not cached.rules:
            return ()
        rules = cached.ready.get(engine_id)
        if rules is None:
            rules = cached.ready[engine_id] = _parse_rules(app_id, engine_id, cached.rules)
        return rules

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
        # another version of this program wrote the rule; the other rules still apply
        _log.error("boost_rule_refused", app=app_id, engine=engine_id, reason=error.message)
    compiled: list[CompiledRule] = []
    for rule in rules:
        try:
            compiled += compile_rules([rule], engine_id)
        except Invalid:
            continue
    return tuple(sorted(compiled, key=lambda ready: (-ready.rule.priority, ready.rule.name)))
