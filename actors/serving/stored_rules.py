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

_KEEP_S = 1.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _CachedRules:
    rules: list[BoostRule]
    until_s: float
    ready: dict[str, tuple[CompiledRule, ...]] = field(default_factory=dict)
    "Engine -> its rules, parsed when first asked for."


class StoredRules:
    """Applies stored rules to queries."""

    def __init__(self, store: RuleStore, clock: Clock, keep_s: float = _KEEP_S) -> None:
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._cache: dict[str, _CachedRules] = {}

    async def apply(self, query: UserQuery) -> UserQuery:
        """Add the rules that apply to a query.

        Cost:
            a dictionary look-up; once a second per app one read. Without the store the last rules stay in force.
        """
        rules = await self.get_rules(query.app_id, query.engine_id)
        return apply_rules(query, rules) if rules else query

    async def get_rules(self, app_id: str, engine_id: str) -> tuple[CompiledRule, ...]:
        """Give the enabled rules of an engine, the most important first."""
        known = self._cache.get(app_id)
        now_s = self._clock.monotonic_s()
        if known is None or now_s >= known.until_s:
            known = await self._read(app_id, known, now_s)
        if not known.rules:
            return ()
        found = known.ready.get(engine_id)
        if found is None:
            found = known.ready[engine_id] = _parse_rules(app_id, engine_id, known.rules)
        return found

    async def _read(self, app_id: str, known: _CachedRules | None, now_s: float) -> _CachedRules:
        if known is not None:
            # whoever comes meanwhile goes by what is known
            known.until_s = now_s + self._keep_s
        try:
            rules = await self._store.all(app_id)
        except Unavailable:
            # a page without its boosts is better than no page
            rules = known.rules if known is not None else []
        if known is not None and known.rules == rules:
            return known
        found = self._cache[app_id] = _CachedRules(rules, now_s + self._keep_s)
        return found


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
