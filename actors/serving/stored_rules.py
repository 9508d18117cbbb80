"""The stored boost rules of every app, kept for a second and read again: a change is in force soon after."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from actors.recommender.messages import ReaderQuery
from actors.recommender.rule_matching import with_rules
from cluster.clock import Clock
from cluster.errors import Invalid, Unavailable
from cluster.query.language.boost_rules import ReadyRule, ready_in_order
from cluster.records.boost_rule import BoostRule
from cluster.store.ports.stores import RuleStore

_KEEP_S = 1.0
_log = structlog.get_logger()


@dataclass(slots=True)
class _Known:
    rules: list[BoostRule]
    until_s: float
    ready: dict[str, tuple[ReadyRule, ...]] = field(default_factory=dict)
    "Engine -> its rules, parsed when first asked for."


class StoredRules:
    """Applies stored rules to queries."""

    def __init__(self, store: RuleStore, clock: Clock, keep_s: float = _KEEP_S) -> None:
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._known: dict[str, _Known] = {}

    async def apply(self, query: ReaderQuery) -> ReaderQuery:
        """Add the rules that apply to a query.

        Cost:
            a dictionary look-up; once a second per app one read. Without the store the last rules stay in force.
        """
        rules = await self.of(query.app_id, query.engine_id)
        return with_rules(query, rules) if rules else query

    async def of(self, app_id: str, engine_id: str) -> tuple[ReadyRule, ...]:
        """Give the enabled rules of an engine, the most important first."""
        known = self._known.get(app_id)
        now_s = self._clock.monotonic_s()
        if known is None or now_s >= known.until_s:
            known = await self._read(app_id, known, now_s)
        if not known.rules:
            return ()
        found = known.ready.get(engine_id)
        if found is None:
            found = known.ready[engine_id] = _parsed(app_id, engine_id, known.rules)
        return found

    async def _read(self, app_id: str, known: _Known | None, now_s: float) -> _Known:
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
        found = self._known[app_id] = _Known(rules, now_s + self._keep_s)
        return found


def _parsed(app_id: str, engine_id: str, rules: list[BoostRule]) -> tuple[ReadyRule, ...]:
    try:
        return ready_in_order(rules, engine_id)
    except Invalid as error:
        # written by another version of this program: the others still apply
        _log.error("boost_rule_refused", app=app_id, engine=engine_id, reason=error.message)
    found: list[ReadyRule] = []
    for rule in rules:
        try:
            found += ready_in_order([rule], engine_id)
        except Invalid:
            continue
    return tuple(sorted(found, key=lambda ready: (-ready.rule.priority, ready.rule.name)))
