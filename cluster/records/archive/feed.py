"""Feeds of a publisher: addresses that are polled for articles, the result of the last poll, and what is known of each
article.

waiting -> polling -> waiting      the time of the next poll is stored before a poll begins, so that a feed that ends
                                   its process is not polled again at once
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from cluster.records.run import DAY_MS

LEAST_EVERY_MINUTES = 1
MOST_EVERY_MINUTES = 7 * 24 * 60
MOST_FEEDS = 100
"Feeds of one app."
UNFINISHED_MS = 60_000
"Pause after the first poll that did not end; doubled with every further one."
_MOST_DOUBLINGS = 6


class Feed(BaseModel):
    """An address that is polled for articles; written by administrators only."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    name: str
    address: str
    every_minutes: int = 15
    reads_pages: bool = False
    "Whether the page of each article is fetched for its whole text; for sitemaps it always is."
    topic: str = ""
    language: str = ""
    licence: str = ""
    locked_tier: str = "subscriber"
    "Access of articles whose pages declare that they are not free."
    is_paused: bool = False
    created_at: int


class FeedState(BaseModel):
    """The last poll of a feed and the time of the next one."""

    model_config = ConfigDict(frozen=True)

    started_at: int = 0
    "When the newest poll began, in milliseconds since 1970; 0: none did."
    ended_at: int = 0
    "When the last whole poll ended."
    next_at: int = 0
    requested_at: int = 0
    "When an administrator ordered a poll."
    unfinished: int = 0
    "Polls since the last one that ended: processes that were killed."
    failures: int = 0
    "Failed polls since the last good one."
    result: Literal["", "unchanged", "changed", "failed"] = ""
    error: str = ""
    moved_to: str = ""
    "Address to which the host moved the feed for ever."
    resting_host: str = ""
    "Host that asked for no request until `rests_until`, whichever process asks."
    rests_until: int = 0
    entries: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0
    refused: int = 0
    reasons: tuple[str, ...] = ()
    "The first refusals of the last poll."
    has_more: bool = False
    "The last poll ended at its bounds; the next one goes on."
    validators: Mapping[str, tuple[str, str]] = {}
    "Address of a document -> its ETag and its date of modification, as the host sent them."

    def begin(self, now_ms: int) -> FeedState:
        """Return the state while a poll runs."""
        pause_ms = UNFINISHED_MS << min(self.unfinished, _MOST_DOUBLINGS)
        return self.model_copy(
            update={"started_at": now_ms, "next_at": now_ms + pause_ms, "unfinished": self.unfinished + 1}
        )


class FeedArticle(BaseModel):
    """What the polls know of one article."""

    model_config = ConfigDict(frozen=True)

    feed: str
    "Name of the feed that writes it; other feeds that list it too leave it alone."
    address: str
    first_at: int
    entry_digest: str = ""
    "Of the entry in the feed: an unchanged entry costs nothing."
    record_digest: str = ""
    "Of the product record; empty: it was refused."
    listed: Mapping[str, str] = {}
    "Other feed that lists it -> digest of the entry there; a change means that the page may have changed."
    has_page: bool = False
    "Whether its text comes from its page."
    etag: str = ""
    modified: str = ""
    "Validators of the page."
    missing_at: int = 0
    "When its page was first absent; 0: it is there."
    removed_at: int = 0
    "0: it is in the app, unless somebody deleted it."


def is_due(feed: Feed, state: FeedState, now_ms: int) -> bool:
    """Return whether a feed has to be polled."""
    return not feed.is_paused and (now_ms >= state.next_at or state.requested_at > state.started_at)


def pause_after(feed: Feed, failures: int, jitter: float) -> int:
    """Return the milliseconds until the next poll; they double with every failure, up to a day.

    Shapes:
        jitter: between 0 and 1
    """
    every_ms = feed.every_minutes * 60_000
    if failures:
        every_ms = max(every_ms, min(every_ms << min(failures, _MOST_DOUBLINGS), DAY_MS))
    return round(every_ms * (0.9 + 0.2 * jitter))
