"""The protocol of the store of boost rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cluster.records.boost_rule import BoostRule


class RuleStore(Protocol):
    """Stored boost rules: few, read whole."""

    async def put(self, app_id: str, rules: Sequence[BoostRule]) -> None:
        """Store rules, all or none; a rule replaces one with the same engine and name."""
        ...

    async def all(self, app_id: str) -> list[BoostRule]:
        """Return all rules of all engines, by engine and name."""
        ...

    async def remove(self, app_id: str, engine_id: str, names: Sequence[str]) -> int:
        """Remove rules; return the number removed."""
        ...
