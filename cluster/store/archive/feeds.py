"""Feeds of an app: what is polled, the state of the polls, and the articles that they took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from cluster.errors import NewerRelease
from cluster.records.archive.feed import Feed, FeedArticle, FeedState
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash

_PAGE = 1_000


class FeedStore:
    """Feeds, the state of their polls, and their articles."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._feeds = SealedHash(server, quarantine, Feed, keys.feed)
        self._states = SealedHash(server, quarantine, FeedState, keys.feed_state)
        self._articles = SealedHash(server, quarantine, FeedArticle, keys.feed_article)

    async def add(self, feed: Feed) -> bool:
        """Write a feed whose name is free; return False when it is taken."""
        return await self._feeds.add(feed.app_id, feed.name, feed)

    async def get(self, app_id: str, name: str) -> Feed | None:
        return await self._feeds.get(app_id, name)

    async def all(self, app_id: str) -> list[Feed]:
        """Return the feeds of an app by name."""
        return list((await self._feeds.all(app_id)).values())

    async def update(self, app_id: str, name: str, change: Callable[[Feed], Feed]) -> Feed | None:
        """Replace a feed by what `change` makes of it; None when it is absent."""
        return await self._feeds.update(app_id, name, change)

    async def remove(self, app_id: str, name: str) -> bool:
        """Remove a feed and what its polls know; its articles stay in the app. Return False when it was absent.

        The feed goes last, so that a removal that was interrupted can be repeated.
        """
        await self._forget_articles(app_id, name)
        removed = await self._feeds.remove(app_id, [name])
        await self._states.remove(app_id, [name])
        await self._server.execute_slow("DEL", keys.feed_check(app_id, name))
        return bool(removed)

    async def _forget_articles(self, app_id: str, name: str) -> None:
        """Remove what the polls know of the articles that this feed alone lists, and the addresses of these.

        The addresses go first: an article that is known without its address is met again at the next try.
        """
        product_ids = {
            product_id
            async for product_id, sealed in self._scan(keys.feed_article(app_id))
            if await self._is_listed_alone(app_id, name, product_id, sealed)
        }
        digests = [
            digest
            async for digest, product_id in self._scan(keys.feed_address(app_id))
            if name_of(product_id) in product_ids
        ]
        # The addresses first: if the process dies in between, the articles stay, and the next try finds both.
        for start in range(0, len(digests), _PAGE):
            names = digests[start : start + _PAGE]
            await self._server.execute_slow("HDEL", keys.feed_address(app_id), *names)
        named = sorted(product_ids)
        for start in range(0, len(named), _PAGE):
            await self._articles.remove(app_id, named[start : start + _PAGE])

    async def _is_listed_alone(self, app_id: str, name: str, product_id: str, sealed: bytes) -> bool:
        try:
            article = await self._articles.unseal(app_id, product_id, sealed)
        except NewerRelease:
            # A newer release may list it for other feeds too, so it is left alone.
            return False
        return article is not None and article.feed == name and not article.listed

    async def _scan(self, key: str) -> AsyncIterator[tuple[str, bytes]]:
        cursor = b"0"
        while True:
            cursor, flat = await self._server.execute_slow("HSCAN", key, cursor, "COUNT", _PAGE)
            for field, value in split_pairs(flat):
                yield name_of(field), value
            if cursor == b"0":
                return

    async def states(self, app_id: str) -> Mapping[str, FeedState]:
        return await self._states.all(app_id)

    async def update_state(
        self, app_id: str, name: str, change: Callable[[FeedState], FeedState]
    ) -> FeedState:
        """Replace the state of a feed, at first a new one, by what `change` makes of it."""
        # Update fails while there is no state, and add fails when another process was faster: then again.
        while True:
            state = await self._states.update(app_id, name, change)
            if state is not None:
                return state
            state = change(FeedState())
            if await self._states.add(app_id, name, state):
                return state

    async def find_ids(self, app_id: str, digests: Sequence[str]) -> list[str]:
        """Return the ids of the articles at addresses, by the digests of these; empty for unknown ones."""
        if not digests:
            return []
        values = await self._server.execute_slow("HMGET", keys.feed_address(app_id), *digests)
        return ["" if value is None else name_of(value) for value in values]

    async def articles(self, app_id: str, product_ids: Sequence[str]) -> list[FeedArticle | None]:
        """Return articles in the order of their ids; None for unknown ones."""
        return await self._articles.get_many(app_id, product_ids) if product_ids else []

    async def put_articles(
        self,
        app_id: str,
        articles: Mapping[str, FeedArticle],
        *,
        checks: Mapping[str, int],
        addresses: Mapping[str, str],
    ) -> None:
        """Write articles of one feed by their ids, when their pages are looked at again, and their addresses.

        The articles come last: one that is stored is also found by its address and looked at again.
        """
        if not articles:
            return
        # Fails for articles of several feeds: the key of the checks has one feed's name.
        (name,) = {article.feed for article in articles.values()}
        scores = [part for product_id, at_ms in checks.items() for part in (at_ms, product_id)]
        if scores:
            await self._server.execute_slow("ZADD", keys.feed_check(app_id, name), *scores)
        await self.put_addresses(app_id, addresses)
        sealed = [
            part
            for product_id, article in articles.items()
            for part in (product_id, self._articles.seal(app_id, product_id, article))
        ]
        await self._server.execute_slow("HSET", keys.feed_article(app_id), *sealed)

    async def put_addresses(self, app_id: str, addresses: Mapping[str, str]) -> None:
        """Write the ids of articles by the digests of their addresses."""
        pairs = [part for pair in addresses.items() for part in pair]
        if pairs:
            await self._server.execute_slow("HSET", keys.feed_address(app_id), *pairs)

    async def due_articles(self, app_id: str, name: str, now_ms: int, limit: int) -> list[str]:
        """Return the ids of articles of a feed whose pages are to be looked at, the longest due first."""
        members = await self._server.execute_slow(
            "ZRANGEBYSCORE", keys.feed_check(app_id, name), "-inf", now_ms, "LIMIT", 0, limit
        )
        return [name_of(member) for member in members]

    async def drop_checks(self, app_id: str, name: str, product_ids: Sequence[str]) -> None:
        """Never look at pages of articles again on behalf of a feed."""
        if product_ids:
            await self._server.execute_slow("ZREM", keys.feed_check(app_id, name), *product_ids)

    async def count_articles(self, app_id: str, name: str) -> int:
        """Return how many articles a feed looks after."""
        return int(await self._server.execute_slow("ZCARD", keys.feed_check(app_id, name)))
