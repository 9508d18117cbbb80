"""Use cases of feeds: addresses of a publisher that are polled for articles."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.access_tier import TIER_FORM
from cluster.addresses.ssrf_guard import find_address_fault
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound, ReadOnly
from cluster.records.archive.feed import LEAST_EVERY_MINUTES, MOST_EVERY_MINUTES, MOST_FEEDS, Feed, FeedState
from deployments.operations.access.apps import app_admin
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LANGUAGE = re.compile(r"(?:[a-z]{2})?")
_LINE = r"^[^\x00-\x1f\x7f]*$"
_FEED = "/apps/{app_id}/feeds/{feed}"


class OfFeed(OfApp):
    """One feed."""

    feed: str = Field(max_length=40, description="A name for the feed.")


class AddFeed(OfFeed):
    """A feed to add."""

    address: str = Field(
        max_length=2_000,
        description="The https address of RSS, Atom, JSON Feed, a sitemap, a sitemap index or an export of WordPress.",
    )
    every_minutes: int = Field(
        15, ge=LEAST_EVERY_MINUTES, le=MOST_EVERY_MINUTES, description="Minutes between two polls."
    )
    reads_pages: bool = Field(
        False,
        description="Read the page of each article for its whole text, from JSON-LD; for sitemaps it always is.",
    )
    topic: str = Field(
        "", max_length=200, pattern=_LINE, description="The topic of articles that do not name one."
    )
    language: str = Field(
        "", max_length=2, description="The language of articles that do not name one, as en or de."
    )
    licence: str = Field(
        "",
        max_length=200,
        pattern=_LINE,
        description="The licence of articles that name none; at first: All rights reserved.",
    )
    locked_tier: str = Field(
        "subscriber",
        pattern=TIER_FORM,
        description="Access of articles whose pages declare that they are not free.",
    )


@dataclass(frozen=True, slots=True)
class FeedView:
    """A feed, its last poll, and the number of its articles."""

    feed: Feed
    state: FeedState
    articles: int
    at_ms: int

    @property
    def status(self) -> str:
        """Return whether it waits, is polled just now, or is paused."""
        if self.feed.is_paused:
            return "paused"
        is_polled = self.state.started_at > self.state.ended_at and self.at_ms < self.state.next_at
        return "polling" if is_polled else "waiting"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        feed = self.feed
        state = self.state
        fields = ("address", "every_minutes", "reads_pages", "topic", "language", "licence", "locked_tier")
        counts = ("entries", "added", "updated", "removed", "refused")
        return {
            "app_id": feed.app_id,
            "feed": feed.name,
            "status": self.status,
            **{name: getattr(feed, name) for name in fields},
            "articles": self.articles,
            "polled_at": iso_ms(state.ended_at) if state.ended_at else None,
            "next_at": iso_ms(max(state.next_at, self.at_ms)) if not feed.is_paused else None,
            "result": state.result or None,
            "error": state.error,
            "failures": state.failures,
            "moved_to": state.moved_to,
            "has_more": state.has_more,
            **{name: getattr(state, name) for name in counts},
            "reasons": list(state.reasons),
        }

    def to_lines(self) -> ResultLines:
        """Return the facts as a table."""
        rows = [
            (name, "\n".join(value) if isinstance(value, list) else str("" if value is None else value))
            for name, value in self.to_dict().items()
        ]
        return (ResultTable(("fact", "value"), rows, ""),)


@dataclass(frozen=True, slots=True)
class FeedList:
    """The feeds of an app."""

    feeds: tuple[FeedView, ...]

    def to_lines(self) -> ResultLines:
        """Return a table of the feeds."""
        rows = []
        for view in self.feeds:
            facts = view.to_dict()
            rows.append(
                (
                    facts["feed"],
                    facts["address"],
                    facts["status"],
                    str(facts["articles"]),
                    (facts["polled_at"] or "never")[:16],
                    facts["error"] or facts["result"] or "",
                )
            )
        return (
            ResultTable(
                ("feed", "address", "status", "articles", "polled (UTC)", "result"),
                rows,
                "There are no feeds; `kiosk feeds add` makes one.",
                droppable=("address",),
            ),
        )


async def _view(services: AdminServices, feed: Feed) -> FeedView:
    states = await services.stores.feeds.states(feed.app_id)
    count = await services.stores.feeds.count_articles(feed.app_id, feed.name)
    return FeedView(feed, states.get(feed.name, FeedState()), count, services.now_ms())


async def _read_feed(services: AdminServices, given: OfFeed) -> dict[str, Any] | None:
    feed = await services.stores.feeds.get(given.app_id, given.feed)
    return None if feed is None else feed.model_dump(mode="json")


async def _find(services: AdminServices, given: OfFeed) -> Feed:
    feed = await services.stores.feeds.get(given.app_id, given.feed)
    if feed is None:
        raise _no_feed_error(given)
    return feed


@operation("feeds.list", "GET", "/apps/{app_id}/feeds")
async def list_feeds(services: AdminServices, given: OfApp) -> FeedList:
    """List the feeds of an app, the result of the last poll and its errors."""
    await app_admin(services).app(given.app_id)
    feeds = await services.stores.feeds.all(given.app_id)
    return FeedList(tuple([await _view(services, feed) for feed in feeds]))


@operation("feeds.show", "GET", _FEED)
async def show_feed(services: AdminServices, given: OfFeed) -> FeedView:
    """Show a feed, the result of its last poll and what was refused.

    Errors:
        NotFound: no such feed
    """
    return await _view(services, await _find(services, given))


@operation("feeds.add", "POST", "/apps/{app_id}/feeds", "editor")
async def add_feed(services: AdminServices, given: AddFeed) -> FeedView:
    """Poll an address for articles from now on.

    Updates, corrections and removals are followed. Only public hosts are asked, as their robots.txt allows.

    Errors:
        NotFound: no such app
        ReadOnly: the app takes no writes
        Invalid: the name, the address or the language is not allowed
        Conflict: the app has a feed of that name, or as many as it may have
    """
    app = await app_admin(services).app(given.app_id)
    if app.read_only:
        raise ReadOnly(f"the app {given.app_id} takes no writes")
    if not _NAME.fullmatch(given.feed):
        raise Invalid(f"{given.feed!r} is no name for a feed: up to 40 lower case letters, digits and -")
    fault = find_address_fault(given.address, needs_path=False)
    if fault:
        raise Invalid(f"the address of the feed {fault}")
    if not _LANGUAGE.fullmatch(given.language):
        raise Invalid(f"{given.language!r} is no code of a language; write en or de")
    if len(await services.stores.feeds.all(given.app_id)) >= MOST_FEEDS:
        raise Conflict(f"app {given.app_id} has {MOST_FEEDS} feeds already; remove one first")
    fields = given.model_dump(exclude={"feed"})
    feed = Feed(name=given.feed, created_at=services.now_ms(), **fields)
    if not await services.stores.feeds.add(feed):
        raise Conflict(f"app {given.app_id} has a feed {given.feed} already")
    return await _view(services, feed)


@operation("feeds.pause", "POST", _FEED + "/pause", "editor", read_before=_read_feed)
async def pause_feed(services: AdminServices, given: OfFeed) -> FeedView:
    """Pause a feed until it is resumed; a running poll is completed.

    Errors:
        NotFound: no such feed
    """
    return await _update(services, given, lambda feed: feed.model_copy(update={"is_paused": True}))


@operation("feeds.resume", "POST", _FEED + "/resume", "editor", read_before=_read_feed)
async def resume_feed(services: AdminServices, given: OfFeed) -> FeedView:
    """Poll a paused feed again.

    Errors:
        NotFound: no such feed
    """
    return await _update(services, given, lambda feed: feed.model_copy(update={"is_paused": False}))


async def _update(services: AdminServices, given: OfFeed, change: Callable[[Feed], Feed]) -> FeedView:
    feed = await services.stores.feeds.update(given.app_id, given.feed, change)
    if feed is None:
        raise _no_feed_error(given)
    return await _view(services, feed)


@operation("feeds.poll", "POST", _FEED + "/poll", "editor")
async def poll_feed(services: AdminServices, given: OfFeed) -> FeedView:
    """Poll a feed within some seconds, even if its next poll is due later.

    A host that asked to be left alone for a while is left alone nevertheless.

    Errors:
        NotFound: no such feed
        Conflict: the feed is paused
    """
    feed = await _find(services, given)
    if feed.is_paused:
        raise Conflict(f"feed {given.feed} is paused; resume it first")
    now_ms = services.now_ms()
    await services.stores.feeds.update_state(
        given.app_id, given.feed, lambda state: state.model_copy(update={"requested_at": now_ms})
    )
    return await _view(services, feed)


@operation("feeds.remove", "DELETE", _FEED, "editor", read_before=_read_feed)
async def remove_feed(services: AdminServices, given: OfFeed) -> PlainResult:
    """Remove a feed; its articles stay, and are no longer followed.

    Errors:
        NotFound: no such feed
    """
    if not await services.stores.feeds.remove(given.app_id, given.feed):
        raise _no_feed_error(given)
    return PlainResult(
        {"app_id": given.app_id, "feed": given.feed, "removed": True},
        (f"Feed {given.feed} of {given.app_id} is removed; its articles stay.",),
    )


def _no_feed_error(given: OfFeed) -> NotFound:
    return NotFound(f"app {given.app_id} has no feed {given.feed}; see `kiosk feeds list {given.app_id}`")
