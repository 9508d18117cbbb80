"""The protocol of the store of boost rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cluster.records.boost_rule import BoostRule
from cluster.records.rule_version import RuleVersion


class RuleStore(Protocol):
    """Stored boost rules: few, read whole."""

    async def put(
        self, app_id: str, rules: Sequence[BoostRule], versions: Sequence[RuleVersion] = ()
    ) -> None:
        """Store rules and append the versions, all or none; a rule replaces one with the same engine and name."""
        ...

    async def all(self, app_id: str) -> list[BoostRule]:
        """Return all rules of all engines, by engine and name."""
        ...

    async def remove(
        self, app_id: str, engine_id: str, names: Sequence[str], versions: Sequence[RuleVersion] = ()
    ) -> int:
        """Remove rules and append the versions, all or none; return the number of rules removed."""
        ...


class RuleVersionStore(Protocol):
    """Who changed which rule when, as `RuleStore` wrote it with the rule, each under a `version_id` of the store.

    About 2,000 changes of an app are kept; nothing else removes one.
    """

    async def newest(self, app_id: str, *, count: int) -> list[RuleVersion]:
        """Return changes, the newest first."""
        ...

    async def get(self, app_id: str, version_id: str) -> RuleVersion | None: ...
