"""Feeds in dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from cluster.records.archive.feed import Feed, FeedArticle, FeedState
from cluster.store.archive.feeds import FeedStore


class MemoryFeeds(FeedStore):
    """`FeedStore` in dictionaries."""

    def __init__(self) -> None:
        self._feeds_by_app: dict[str, dict[str, Feed]] = defaultdict(dict)
        self._states_by_app: dict[str, dict[str, FeedState]] = defaultdict(dict)
        self._articles_by_app: dict[str, dict[str, FeedArticle]] = defaultdict(dict)
        self._addresses: dict[str, dict[str, str]] = defaultdict(dict)
        self._checks: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)

    async def add(self, feed: Feed) -> bool:
        return self._feeds_by_app[feed.app_id].setdefault(feed.name, feed) is feed

    async def get(self, app_id: str, name: str) -> Feed | None:
        return self._feeds_by_app[app_id].get(name)

    async def all(self, app_id: str) -> list[Feed]:
        return [feed for _, feed in sorted(self._feeds_by_app[app_id].items())]

    async def update(self, app_id: str, name: str, change: Callable[[Feed], Feed]) -> Feed | None:
        feed = self._feeds_by_app[app_id].get(name)
        if feed is not None:
            self._feeds_by_app[app_id][name] = feed = change(feed)
        return feed

    async def remove(self, app_id: str, name: str) -> bool:
        articles = self._articles_by_app[app_id]
        forgotten = {
            product_id
            for product_id, article in articles.items()
            if article.feed == name and not article.listed
        }
        self._articles_by_app[app_id] = {
            product_id: article for product_id, article in articles.items() if product_id not in forgotten
        }
        self._addresses[app_id] = {
            digest: product_id
            for digest, product_id in self._addresses[app_id].items()
            if product_id not in forgotten
        }
        self._states_by_app[app_id].pop(name, None)
        self._checks.pop((app_id, name), None)
        return self._feeds_by_app[app_id].pop(name, None) is not None

    async def states(self, app_id: str) -> Mapping[str, FeedState]:
        return dict(self._states_by_app[app_id])

    async def update_state(
        self, app_id: str, name: str, change: Callable[[FeedState], FeedState]
    ) -> FeedState:
        states = self._states_by_app[app_id]
        states[name] = state = change(states.get(name, FeedState()))
        return state

    async def find_ids(self, app_id: str, digests: Sequence[str]) -> list[str]:
        return [self._addresses[app_id].get(digest, "") for digest in digests]

    async def articles(self, app_id: str, product_ids: Sequence[str]) -> list[FeedArticle | None]:
        return [self._articles_by_app[app_id].get(product_id) for product_id in product_ids]

    async def put_articles(
        self,
        app_id: str,
        articles: Mapping[str, FeedArticle],
        *,
        checks: Mapping[str, int],
        addresses: Mapping[str, str],
    ) -> None:
        if not articles:
            return
        (name,) = {article.feed for article in articles.values()}
        self._checks[app_id, name] |= checks
        self._addresses[app_id] |= addresses
        self._articles_by_app[app_id] |= articles

    async def put_addresses(self, app_id: str, addresses: Mapping[str, str]) -> None:
        self._addresses[app_id] |= addresses

    async def due_articles(self, app_id: str, name: str, now_ms: int, limit: int) -> list[str]:
        due = sorted(
            (at, product_id) for product_id, at in self._checks[app_id, name].items() if at <= now_ms
        )
        return [product_id for _, product_id in due[:limit]]

    async def drop_checks(self, app_id: str, name: str, product_ids: Sequence[str]) -> None:
        for product_id in product_ids:
            self._checks[app_id, name].pop(product_id, None)

    async def count_articles(self, app_id: str, name: str) -> int:
        return len(self._checks[app_id, name])
