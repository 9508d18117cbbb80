"""The publisher's side of the archive in dictionaries."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from cluster.records.archive.archive_client import ClientRule, fold_client_name
from cluster.records.archive.article_revision import ArticleRead, ArticleRevision, PublisherKey
from cluster.store.archive.article_reads import MOST_READS, ArticleReadStore
from cluster.store.archive.article_revisions import ArticleRevisionStore
from cluster.store.archive.client_rules import ClientRuleStore
from cluster.store.archive.publisher_keys import PublisherKeyStore


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


class MemoryArticleRevisions(ArticleRevisionStore):
    """`ArticleRevisionStore` in dictionaries."""

    def __init__(self) -> None:
        self._by_app: dict[str, dict[str, ArticleRevision]] = {}

    async def all(self, app_id: str) -> Mapping[str, ArticleRevision]:
        return dict(self._by_app.get(app_id, {}))

    async def put(self, app_id: str, revisions: Mapping[str, ArticleRevision | None]) -> None:
        kept = self._by_app.setdefault(app_id, {})
        for product_id, revision in revisions.items():
            kept.pop(product_id, None)
            if revision is not None:
                kept[product_id] = revision


class MemoryArticleReads(ArticleReadStore):
    """`ArticleReadStore` in dictionaries."""

    def __init__(self) -> None:
        self._reads: dict[str, deque[tuple[int, ArticleRead]]] = {}
        self._count = 0

    async def append(self, app_id: str, reads: Sequence[ArticleRead]) -> None:
        kept = self._reads.setdefault(app_id, deque(maxlen=MOST_READS))
        for read in reads:
            self._count += 1
            kept.append((self._count, read))

    async def read_after(self, app_id: str, offset: str, now_ms: int) -> tuple[str, list[ArticleRead]]:
        after = int(offset.partition("-")[0])
        later = [(number, read) for number, read in self._reads.get(app_id, ()) if number > after]
        return (f"{later[-1][0]}-0" if later else offset), [read for _, read in later]


class MemoryPublisherKeys(PublisherKeyStore):
    """`PublisherKeyStore` in dictionaries."""

    def __init__(self) -> None:
        self._keys_by_app: dict[str, dict[str, PublisherKey]] = {}

    async def all(self, app_id: str) -> Mapping[str, PublisherKey]:
        return dict(self._keys_by_app.get(app_id, {}))

    async def add(self, app_id: str, key: PublisherKey) -> None:
        self._keys_by_app.setdefault(app_id, {}).setdefault(key.key_id, key)

    async def remove(self, app_id: str, key_id: str) -> bool:
        return self._keys_by_app.get(app_id, {}).pop(key_id, None) is not None
