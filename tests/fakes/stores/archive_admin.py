"""The publisher's side of the archive in dictionaries."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from cluster.records.archive_client import ArchiveCall, ClientRule, fold_client_name
from cluster.store.archive.archive_calls import MOST_CALLS, ArchiveCallStore, ClientRuleStore


class MemoryArchiveCalls(ArchiveCallStore):
    """`ArchiveCallStore` in dictionaries."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[ArchiveCall]] = {}

    async def append(self, app_id: str, calls: Sequence[ArchiveCall]) -> None:
        self._calls.setdefault(app_id, deque(maxlen=MOST_CALLS)).extend(calls)

    async def read_since(self, app_id: str, at_ms: int) -> list[ArchiveCall]:
        return [call for call in self._calls.get(app_id, ()) if call.at >= at_ms]


class MemoryClientRules(ClientRuleStore):
    """`ClientRuleStore` in dictionaries."""

    def __init__(self) -> None:
        self._rules_by_app: dict[str, dict[str, ClientRule]] = {}

    async def all(self, app_id: str) -> Mapping[str, ClientRule]:
        return dict(self._rules_by_app.get(app_id, {}))

    async def put(self, app_id: str, rule: ClientRule) -> None:
        self._rules_by_app.setdefault(app_id, {})[fold_client_name(rule.client)] = rule

    async def remove(self, app_id: str, client: str) -> bool:
        return self._rules_by_app.get(app_id, {}).pop(fold_client_name(client), None) is not None
