"""Stored boost rules in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.boost_rule import BoostRule, RuleVersion
from cluster.store.engines.boost_rules import RuleStore, RuleVersionStore


class MemoryRules(RuleStore):
    """`RuleStore` in dictionaries."""

    def __init__(self, versions: MemoryRuleVersions) -> None:
        self._rules_by_app: dict[str, dict[tuple[str, str], BoostRule]] = {}
        self._versions = versions

    async def put(
        self, app_id: str, rules: Sequence[BoostRule], versions: Sequence[RuleVersion] = ()
    ) -> None:
        kept = self._rules_by_app.setdefault(app_id, {})
        kept.update({(rule.engine_id, rule.name): rule for rule in rules})
        self._versions.append(app_id, versions)

    async def all(self, app_id: str) -> list[BoostRule]:
        return [
            rule for _, rule in sorted(self._rules_by_app.get(app_id, {}).items(), key=lambda item: item[0])
        ]

    async def remove(
        self, app_id: str, engine_id: str, names: Sequence[str], versions: Sequence[RuleVersion] = ()
    ) -> int:
        kept = self._rules_by_app.get(app_id, {})
        gone = [kept.pop((engine_id, name), None) for name in dict.fromkeys(names)]
        self._versions.append(app_id, versions)
        return sum(rule is not None for rule in gone)


class MemoryRuleVersions(RuleVersionStore):
    """`RuleVersionStore` in dictionaries."""

    def __init__(self) -> None:
        self._versions: dict[str, list[RuleVersion]] = {}

    def append(self, app_id: str, versions: Sequence[RuleVersion]) -> None:
        """Keep the versions of a change."""
        kept = self._versions.setdefault(app_id, [])
        for version in versions:
            kept.append(version.model_copy(update={"version_id": f"{version.at}-{len(kept)}"}))

    async def newest(self, app_id: str, *, count: int) -> list[RuleVersion]:
        return self._versions.get(app_id, [])[::-1][:count]

    async def get(self, app_id: str, version_id: str) -> RuleVersion | None:
        return next(
            (version for version in self._versions.get(app_id, ()) if version.version_id == version_id), None
        )
