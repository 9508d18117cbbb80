"""An entry of a feed made ready: equal addresses, sound times, its id, and the product record it becomes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

import orjson

from cluster.records.archive.feed import Feed
from cluster.records.field_types.times import moment_ms, utc_text
from jobs.articles.json_ld import LOCKED
from jobs.articles.source_article import SourceArticle, record_from_article
from jobs.feeds.article_addresses import canonical_address, digest_address
from jobs.ingest.mappings.mapping_rules import parse_time

DEFAULT_LICENCE = "All rights reserved"
_AHEAD_MS = 86_400_000
"A time so far in the future is wrong; clocks and time zones explain less."


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry with the address by which its article is found."""

    story: SourceArticle
    address: str
    "Canonical; empty: the entry names no page."
    digest: str

    @property
    def address_digest(self) -> str:
        """Return the name under which the article is found by its address."""
        return digest_address(self.address) if self.address else ""


def prepare_entry(story: SourceArticle, place: str) -> Entry:
    """Return an entry; `place` is the address of the document that has it."""
    digest = hashlib.blake2b(repr(story).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Entry(story, canonical_address(story.url, place) if story.url else "", digest)


def build_record(
    story: SourceArticle, feed: Feed, product_id: str, place: str, now_ms: int
) -> dict[str, Any]:
    """Return the product record of an article.

    A time that is no time, or in the future, is left out: an article with a wrong date is still an article.

    Errors:
        NotAnArticle: it has no title, no text, or is too long
    """
    try:
        url = urljoin(place, story.url)
    except ValueError:
        url = ""
    story = replace(
        story,
        id=product_id,
        url=url,
        published=_sound_time(story.published, now_ms),
        updated=_sound_time(story.updated, now_ms),
        corrected=_sound_time(story.corrected, now_ms),
        language=story.language if len(story.language) == 2 else "",
        access=feed.locked_tier if story.access == LOCKED else story.access,
    )
    return record_from_article(
        story, licence=feed.licence or DEFAULT_LICENCE, topic=feed.topic, language=feed.language
    )


def digest_record(record: dict[str, Any]) -> str:
    """Return the digest of a record; equal records have equal digests."""
    text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _sound_time(text: str, now_ms: int) -> str:
    """Return a time as records have it; empty if it is none, or in the future."""
    try:
        written = utc_text(str(parse_time(text.strip()))) if text else ""
        at_ms = moment_ms(written if "T" in written else f"{written}T00:00") if written else 0
    except ValueError:
        return ""
    return written if at_ms <= now_ms + _AHEAD_MS else ""
