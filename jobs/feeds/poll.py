"""One poll of one feed: its documents, the pages of new articles, and a look at the pages of earlier ones.

An article that is no longer listed stays; it is removed when its page is gone (410 at once, 404 when seen twice), or
when the feed announces the removal. Every step may be repeated: an article has the same id each time, and an
unchanged one is not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cluster.clock import Clock
from cluster.errors import Invalid
from cluster.records.archive.feed import Feed, FeedArticle, FeedState
from cluster.store.stores import Stores
from jobs.articles.feed_documents import FeedDocument, parse_feed_document
from jobs.articles.json_ld import ArticlePage
from jobs.articles.source_article import NotAnArticle, SourceArticle
from jobs.feeds.article_addresses import article_id, canonical_address, digest_address, is_same_host
from jobs.feeds.article_page import read_article_page
from jobs.feeds.entry import Entry, build_record, digest_record, prepare_entry
from jobs.feeds.polite_fetcher import (
    FetchedPage,
    FetchError,
    FetchPause,
    HostResting,
    PoliteFetcher,
    format_conditions,
    read_validators,
)
from jobs.feeds.writer import ArticleWriter

POLL_S = 240.0
"A longer poll stops, and the next one goes on at once."
MOST_DOCUMENTS = 100
MOST_PAGES = 200
"Pages that one poll fetches."
MOST_CHECKS = 20
"Of these, pages of earlier articles."
CHUNK = 50
MOST_REASONS = 10
MOST_LISTING = 10
"Other feeds whose entries of one article are noted."
MOST_VALIDATORS = MOST_DOCUMENTS
HOUR_MS = 3_600_000
LEAST_CHECK_MS = 6 * HOUR_MS
MOST_CHECK_MS = 30 * 24 * HOUR_MS
MISSING_MS = 10 * 60_000
"An absent page is absent for good when it was absent so long ago already; a site that is being repaired is not."
REMOVED_CHECKS_MS = 90 * 24 * HOUR_MS
"How long after its removal an article may come back."
_GONE = (404, 410)
_XML = "application/rss+xml, application/atom+xml, application/feed+json, application/xml, application/json;q=0.9"

Claim = Callable[[str], bool]
"Claims an article by a name until the poll ends; False while another poll has it."


@dataclass(slots=True)
class PollResult:
    """What a poll did."""

    entries: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    validators: dict[str, tuple[str, str]] = field(default_factory=dict)
    moved_to: str = ""
    error: str = ""
    resting_host: str = ""
    wait_s: float | None = None
    "Seconds after which the next poll may go on, as `resting_host` asked if it is set; None: at its usual time."

    def refuse(self, reason: str) -> None:
        """Count an entry that becomes no article."""
        self.refused += 1
        if len(self.reasons) < MOST_REASONS:
            self.reasons.append(reason[:500])


@dataclass(slots=True)
class _Change:
    """An article that is about to be written."""

    article: FeedArticle
    record: dict[str, Any] | None
    "None: only what the polls know of it changes."
    is_new: bool
    addresses: tuple[str, ...] = ()
    is_fetched: bool = False
    "Whether its page was fetched."


class FeedPoll:
    """One poll of one feed."""

    def __init__(
        self,
        feed: Feed,
        state: FeedState,
        stores: Stores,
        fetcher: PoliteFetcher,
        writer: ArticleWriter,
        clock: Clock,
        claim: Claim = lambda name: True,
    ) -> None:
        self._feed = feed
        self._state = state
        self._feeds = stores.feeds
        self._fetcher = fetcher
        self._writer = writer
        self._clock = clock
        self._claim = claim
        self._result = PollResult()
        self._until_s = clock.monotonic_s() + POLL_S
        self._pages = 0
        self._taken: set[str] = set()
        "Ids that this poll has met: of two entries of one article, the first one counts."
        self._owners: frozenset[str] = frozenset()

    async def run(self) -> PollResult:
        """Poll the feed and return what happened; what a host does wrong is part of the result.

        Errors:
            KioskError: the store, the intake or a bound of the app refuses the articles
        """
        self._owners = frozenset(feed.name for feed in await self._feeds.all(self._feed.app_id))
        try:
            await self._read_documents()
            await self._check_pages()
        except FetchPause as pause:
            self._result.wait_s = pause.wait_s
        except FetchError as error:
            self._result.error = error.reason
            if isinstance(error, HostResting):
                self._result.wait_s = error.wait_s
                self._result.resting_host = error.host
        return self._result

    async def _read_documents(self) -> None:
        """Read the document of the feed, and those that it links."""
        waiting = [self._feed.address]
        seen = set[str]()
        while waiting and len(seen) < MOST_DOCUMENTS:
            address = waiting.pop(0)
            if address in seen:
                continue
            seen.add(address)
            try:
                waiting += await self._read_document(address)
            except (HostResting, FetchPause):
                raise
            except FetchError as error:
                if address == self._feed.address:
                    raise
                self._result.refuse(error.reason)

    async def _read_document(self, address: str) -> tuple[str, ...]:
        """Take the articles of one document; return the addresses of those that it links."""
        headers = {
            "Accept": f"{_XML}, */*;q=0.1",
            **format_conditions(*self._state.validators.get(address, ("", ""))),
        }
        response = await self._fetch(address, headers)
        if address == self._feed.address:
            self._result.moved_to = response.moved_to
        if response.status == 304:
            self._result.validators[address] = self._state.validators.get(address, ("", ""))
            return ()
        if response.status != 200:
            raise FetchError(f"{address[:200]} answers {response.status}")
        try:
            document = await asyncio.to_thread(
                parse_feed_document, response.body, response.address, response.headers
            )
        except Invalid as error:
            raise FetchError(f"{address[:200]} is no feed: {error.message}") from error
        is_complete = await self._take(document, response.address)
        # a document that links others is read each time: they change without it
        if is_complete and not document.linked and len(self._result.validators) < MOST_VALIDATORS:
            self._result.validators[address] = read_validators(response.headers)
        return document.linked

    async def _take(self, document: FeedDocument, place: str) -> bool:
        """Write what is new in a document; return whether nothing has to be tried again."""
        reads_pages = self._feed.reads_pages or not document.has_text
        entries = (prepare_entry(story, place) for story in document.entries)
        is_complete = True
        while chunk := list(islice(entries, CHUNK)):
            self._result.entries += len(chunk)
            is_complete &= await self._take_chunk(chunk, place, reads_pages)
        for start in range(0, len(document.removed), CHUNK):
            await self._remove_announced(document.removed[start : start + CHUNK], place)
        return is_complete

    async def _take_chunk(self, entries: Sequence[Entry], place: str, reads_pages: bool) -> bool:
        named = [entry for entry in entries if entry.address or entry.story.id]
        for _ in range(len(entries) - len(named)):
            self._result.refuse("an entry has neither an id nor an address")
        claimed = [entry for entry in named if self._claim(entry.address_digest or entry.story.id)]
        # another poll takes the others just now; whether they are to be taken here shows afterwards
        is_complete = len(claimed) == len(named)
        changes: dict[str, _Change] = {}
        ids = await self._find_ids(claimed)
        articles = await self._feeds.articles(self._feed.app_id, ids)
        for entry, product_id, article in zip(claimed, ids, articles, strict=True):
            is_met = product_id in self._taken
            self._taken.add(product_id)
            if is_met or not self._is_changed(entry, article, reads_pages):
                if article is not None and article.feed != self._feed.name and not is_met:
                    await self._note_listed(entry, product_id, article)
                continue
            try:
                change = await self._read_entry(entry, product_id, article, place, reads_pages)
                if change is not None:
                    changes[product_id] = change
            except (HostResting, FetchPause):
                # what was read before the poll has to stop is written nevertheless
                await self._write(changes)
                raise
            except FetchError as error:
                is_complete &= error.is_lasting
                self._result.refuse(error.reason)
        return await self._write(changes) and is_complete

    async def _find_ids(self, entries: Sequence[Entry]) -> list[str]:
        """Return the ids of the articles of entries: those under which they are known, else new ones."""
        stored_ids = await self._feeds.find_ids(
            self._feed.app_id, [entry.address_digest for entry in entries]
        )
        return [
            product_id or article_id(self._name_of(entry), entry.address, self._feed.name)
            for entry, product_id in zip(entries, stored_ids, strict=True)
        ]

    def _name_of(self, entry: Entry) -> str:
        # an address as guid differs from the address of the page by marks of campaigns only
        name = entry.story.id
        return canonical_address(name) or name if name.startswith("http") else name

    def _is_changed(self, entry: Entry, article: FeedArticle | None, reads_pages: bool) -> bool:
        """Return whether an entry has to be read: it is new, or changed, or a better source of its article."""
        if article is None:
            return True
        if article.feed == self._feed.name:
            return entry.digest != article.entry_digest
        # an id alone proves nothing: a feed may list that of an article of another publisher, with a page of its own
        is_better = reads_pages and not article.has_page and is_same_host(entry.address, article.address)
        return article.feed not in self._owners or is_better

    async def _note_listed(self, entry: Entry, product_id: str, article: FeedArticle) -> None:
        """Note how the entry of an article of another feed is; when it changed, that feed looks at the page soon."""
        before = article.listed.get(self._feed.name)
        if before == entry.digest or (before is None and len(article.listed) >= MOST_LISTING):
            return
        after = article.model_copy(update={"listed": {**article.listed, self._feed.name: entry.digest}})
        checks = {product_id: self._clock.now_ms()} if before is not None else {}
        await self._feeds.put_articles(self._feed.app_id, {product_id: after}, checks=checks, addresses={})

    async def _read_entry(
        self, entry: Entry, product_id: str, article: FeedArticle | None, place: str, reads_pages: bool
    ) -> _Change | None:
        """Return the change that an entry makes; None if its article is known under another address.

        Errors:
            FetchError: its page can't be fetched
        """
        before = article or FeedArticle(
            feed=self._feed.name, address=entry.address, first_at=self._clock.now_ms()
        )
        after = before.model_copy(
            update={"feed": self._feed.name, "address": entry.address, "entry_digest": entry.digest}
        )
        if before.feed != self._feed.name:
            # the feed that had the article shows later changes by its entry
            after = after.model_copy(update={"listed": {**before.listed, before.feed: before.entry_digest}})
        addresses: tuple[str, ...] = (entry.address,) if entry.address else ()
        if not reads_pages or not entry.address:
            return self._change(entry.story, product_id, after, article, place, addresses)
        response = await self._fetch(entry.address, {"Accept": "text/html"}, is_page=True)
        if response.status != 200:
            raise FetchError(
                f"{entry.address[:200]} answers {response.status}", is_lasting=response.status in _GONE
            )
        page = await self._parse_page(response)
        if page.canonical:
            if article is None and await self._has_other_id(entry, product_id, page.canonical):
                return None
            addresses = (*addresses, page.canonical)
        etag, modified = read_validators(response.headers)
        after = after.model_copy(
            update={"has_page": page.story is not None, "etag": etag, "modified": modified, "missing_at": 0}
        )
        change = self._change(
            page.story or entry.story, product_id, after, article, response.address, addresses
        )
        return replace(change, is_fetched=True)

    async def _has_other_id(self, entry: Entry, product_id: str, canonical: str) -> bool:
        """Return whether an article is known by its canonical address, and find it by that of the entry from now on."""
        (other,) = await self._feeds.find_ids(self._feed.app_id, [digest_address(canonical)])
        if not other or other == product_id:
            return False
        await self._feeds.put_addresses(self._feed.app_id, {entry.address_digest: other})
        return True

    async def _parse_page(self, response: FetchedPage) -> ArticlePage:
        """Return the article of a page, with a canonical address of the same host only: others may claim nothing.

        Errors:
            FetchError: the page can't be read
        """
        try:
            page = await asyncio.to_thread(read_article_page, response)
        except Invalid as error:
            raise FetchError(
                f"{response.address[:200]} can't be read: {error.message}", is_lasting=True
            ) from error
        canonical = canonical_address(page.canonical) if page.canonical else ""
        place = canonical_address(response.address)
        story = page.story
        if not canonical or not is_same_host(canonical, place):
            canonical = ""
            story = replace(story, url=place) if story is not None else None
        return ArticlePage(canonical, story)

    def _change(
        self,
        story: SourceArticle,
        product_id: str,
        after: FeedArticle,
        before: FeedArticle | None,
        place: str,
        addresses: Iterable[str],
    ) -> _Change:
        record: dict[str, Any] | None = None
        try:
            record = build_record(story, self._feed, product_id, place, self._clock.now_ms())
        except NotAnArticle as error:
            self._result.refuse(f"{(after.address or product_id)[:200]}: {error}")
        digest = digest_record(record) if record is not None else ""
        was_there = before is not None and bool(before.record_digest) and not before.removed_at
        if was_there and before is not None and (record is None or digest == before.record_digest):
            # an article that lost its text in the feed keeps what it had
            return _Change(
                after.model_copy(update={"record_digest": before.record_digest}),
                None,
                False,
                tuple(addresses),
            )
        after = after.model_copy(
            update={"record_digest": digest, "removed_at": 0 if record is not None else after.removed_at}
        )
        return _Change(after, record, not was_there, tuple(addresses))

    async def _write(self, changes: Mapping[str, _Change]) -> bool:
        """Write changed articles; return whether all of them ended, valid or not."""
        written = [product_id for product_id, change in changes.items() if change.record is not None]
        records = [record for change in changes.values() if (record := change.record) is not None]
        outcome = await self._writer.put(records) if records else None
        articles: dict[str, FeedArticle] = {}
        checks: dict[str, int] = {}
        addresses: dict[str, str] = {}
        for product_id, change in changes.items():
            at = written.index(product_id) if change.record is not None else -1
            if outcome is not None and at in outcome.failed:
                continue
            article = change.article
            if outcome is not None and at in outcome.refused:
                self._result.refuse(f"{(article.address or product_id)[:200]}: {outcome.refused[at]}")
                article = article.model_copy(update={"record_digest": ""})
            elif change.record is not None:
                self._result.added += change.is_new
                self._result.updated += not change.is_new
            if not article.record_digest and not change.is_fetched:
                continue  # read again each time: a feed of nonsense would fill the store
            articles[product_id] = article
            addresses |= {digest_address(address): product_id for address in change.addresses}
            if article.address:
                checks[product_id] = self._next_check(article)
        await self._feeds.put_articles(self._feed.app_id, articles, checks=checks, addresses=addresses)
        return outcome is None or not outcome.failed

    def _next_check(self, article: FeedArticle) -> int:
        """Return when to look at a page again: the older the article, the later."""
        now_ms = self._clock.now_ms()
        if article.missing_at:
            return now_ms + MISSING_MS
        return now_ms + min(max((now_ms - article.first_at) // 4, LEAST_CHECK_MS), MOST_CHECK_MS)

    async def _check_pages(self) -> None:
        """Look at the pages of earlier articles, the longest due first."""
        feed = self._feed
        now_ms = self._clock.now_ms()
        ids = await self._feeds.due_articles(feed.app_id, feed.name, now_ms, MOST_CHECKS)
        for product_id, article in zip(ids, await self._feeds.articles(feed.app_id, ids), strict=True):
            if article is not None and not self._claim(digest_address(article.address)):
                continue  # another poll changes what is known of it just now
            is_past = article is not None and 0 < article.removed_at < now_ms - REMOVED_CHECKS_MS
            if article is None or article.feed != feed.name or is_past:
                await self._feeds.drop_checks(feed.app_id, feed.name, [product_id])
                continue
            try:
                await self._check_page(product_id, article)
            except (HostResting, FetchPause):
                raise
            except FetchError as error:
                self._result.refuse(error.reason)
                await self._store(product_id, article)

    async def _check_page(self, product_id: str, article: FeedArticle) -> None:
        headers = {"Accept": "text/html"}
        if article.has_page and not article.removed_at:
            headers |= format_conditions(article.etag, article.modified)
        method = "GET" if article.has_page else "HEAD"
        response = await self._fetch(article.address, headers, is_page=True, method=method)
        if response.status in _GONE:
            await self._note_gone(product_id, article, is_final=response.status == 410)
            return
        after = article.model_copy(update={"missing_at": 0})
        if response.status != 200:
            await self._store(product_id, after)
            return
        if not article.has_page:
            # the page of a removed article is back: the next poll takes its entry, if it is still listed
            await self._store(
                product_id, after.model_copy(update={"entry_digest": ""}) if after.removed_at else after
            )
            return
        page = await self._parse_page(response)
        etag, modified = read_validators(response.headers)
        after = after.model_copy(update={"etag": etag, "modified": modified})
        if page.story is None:
            await self._store(product_id, after)
            return
        change = self._change(page.story, product_id, after, article, response.address, ())
        await self._write({product_id: replace(change, is_fetched=True)})

    async def _note_gone(self, product_id: str, article: FeedArticle, *, is_final: bool) -> None:
        """Remove an article whose page is gone, or note that it was absent once."""
        now_ms = self._clock.now_ms()
        if article.removed_at:
            await self._store(product_id, article)
        elif is_final or (article.missing_at and now_ms - article.missing_at >= MISSING_MS):
            await self._remove({product_id: article})
        else:
            missing_at = article.missing_at or now_ms
            await self._store(product_id, article.model_copy(update={"missing_at": missing_at}))

    async def _remove_announced(self, names: Sequence[str], place: str) -> None:
        """Remove articles of this feed by the ids of their entries, or by their addresses."""
        pages = [canonical_address(name, place) if name.startswith("http") else "" for name in names]
        digests = [digest_address(page) if page else "" for page in pages]
        stored_ids = await self._feeds.find_ids(self._feed.app_id, digests)
        ids = [
            product_id or article_id(page or name, page, self._feed.name)
            for product_id, name, page in zip(stored_ids, names, pages, strict=True)
        ]
        articles = await self._feeds.articles(self._feed.app_id, ids)
        await self._remove(
            {
                product_id: article
                for product_id, article in zip(ids, articles, strict=True)
                if article is not None
                and article.feed == self._feed.name
                and not article.removed_at
                and product_id not in self._taken
            }
        )

    async def _remove(self, articles: Mapping[str, FeedArticle]) -> None:
        if not articles:
            return
        await self._writer.remove(list(articles))
        gone = {"removed_at": self._clock.now_ms(), "missing_at": 0}
        after = {product_id: article.model_copy(update=gone) for product_id, article in articles.items()}
        checks = {product_id: self._next_check(article) for product_id, article in after.items()}
        await self._feeds.put_articles(self._feed.app_id, after, checks=checks, addresses={})
        self._result.removed += len(after)

    async def _store(self, product_id: str, article: FeedArticle) -> None:
        checks = {product_id: self._next_check(article)}
        await self._feeds.put_articles(self._feed.app_id, {product_id: article}, checks=checks, addresses={})

    async def _fetch(
        self, address: str, headers: Mapping[str, str], *, is_page: bool = False, method: str = "GET"
    ) -> FetchedPage:
        if self._clock.monotonic_s() >= self._until_s or self._pages >= MOST_PAGES:
            raise FetchPause(0.0)
        self._pages += is_page
        person = f"{self._feed.app_id}/{self._feed.name}"
        return await self._fetcher.get(
            address, person=person, until_s=self._until_s, method=method, headers=headers
        )
