"""One document of a feed, whatever its format: its articles, the removals it announces, and further documents."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from cluster.errors import Invalid
from jobs.articles.feeds import find_next, list_articles, list_removed, parse_xml
from jobs.articles.json_feed import list_json_articles, parse_json_feed
from jobs.articles.sitemap import list_sitemap_articles, list_sitemaps
from jobs.articles.source_article import SourceArticle
from jobs.articles.wordpress import MARK, WordPressExport, is_published, is_removed

LARGEST_DOCUMENT = 16 << 20
"Maximum bytes of a document, after decompression."
MOST_ENTRIES = 50_000
"Entries of one document that are read; sitemaps have at most as many."
MOST_LINKED = 1_000
"Sitemaps of one index that are read."
_MOST_TAGS = 1_000_000
"Tags of one document; sitemaps of the largest size have about 500,000."
_MOST_ATTRIBUTES = 1_000_000
_MOST_MEMBERS = 100
"Parts of one gzip file; each costs a copy of the rest."
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """The content of one document."""

    entries: tuple[SourceArticle, ...] = ()
    removed: tuple[str, ...] = ()
    "Ids of entries, or addresses of articles, that the publisher removed."
    linked: tuple[str, ...] = ()
    "Addresses of further documents of the same feed."
    has_text: bool = True
    "False: only the pages of the articles have their text."


def parse_feed_document(body: bytes, address: str, headers: Mapping[str, str]) -> FeedDocument:
    """Return the content of a response; `address` is where it was fetched.

    Errors:
        Invalid: it is no feed, or larger than allowed after decompression
    """
    data = unpack(body, headers, LARGEST_DOCUMENT)
    start = data[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        feed = parse_json_feed(data)
        following = feed.get("next_url")
        entries = tuple(list_json_articles(feed)[:MOST_ENTRIES])
        return FeedDocument(entries, (), _absolute([following], address))
    root = parse_xml(data, read_charset(headers), _MOST_TAGS, _MOST_ATTRIBUTES)
    name = str(root.tag).rpartition("}")[2]
    if name == "urlset":
        return FeedDocument(tuple(islice(list_sitemap_articles(root), MOST_ENTRIES)), has_text=False)
    if name == "sitemapindex":
        return FeedDocument(linked=_absolute(list_sitemaps(root)[:MOST_LINKED], address), has_text=False)
    if MARK in data[:5_000]:
        return _read_export(root)
    entries = tuple(islice(list_articles(root), MOST_ENTRIES))
    return FeedDocument(entries, tuple(list_removed(root)), _absolute([find_next(root)], address))


def _read_export(root: Any) -> FeedDocument:
    export = WordPressExport()
    for node in root.iterfind("channel/*"):
        export.read_header(node)
    items = list(islice(root.iterfind("channel/item"), MOST_ENTRIES))
    entries = tuple(export.article_from_post(item) for item in items if is_published(item))
    removed = tuple(item.findtext("guid") or "" for item in items if is_removed(item))
    return FeedDocument(entries, tuple(filter(None, removed)))


def unpack(body: bytes, headers: Mapping[str, str], most_bytes: int) -> bytes:
    """Return a body without the compression of its transfer and of its file, never more than a bound.

    Errors:
        Invalid: it is damaged, compressed in another way, or larger than allowed
    """
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip", ""):
        raise Invalid(f"it is compressed as {coding[:40]!r}")
    for _ in range(2):  # a file of gzip may be sent with the compression of HTTP as well
        if not body.startswith(_GZIP):
            break
        body = _unzip(body, most_bytes)
    if len(body) > most_bytes:
        raise Invalid(f"it is larger than {most_bytes} bytes")
    return body


def _unzip(body: bytes, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = most_bytes
    try:
        for _ in range(_MOST_MEMBERS):
            if not body:
                return b"".join(parts)
            unzip = zlib.decompressobj(wbits=31)
            part = unzip.decompress(body, left + 1)
            left -= len(part)
            if left < 0:
                raise Invalid(f"it is larger than {most_bytes} bytes")
            if not unzip.eof:
                raise Invalid("it is cut off, or no gzip")
            parts.append(part)
            body = unzip.unused_data.lstrip(b"\0")
    except zlib.error as error:
        raise Invalid("it is damaged: it can't be decompressed") from error
    raise Invalid("it consists of too many compressed parts")


def read_charset(headers: Mapping[str, str]) -> str:
    """Return the charset of a response, empty without one."""
    message = Message()
    message["content-type"] = headers.get("content-type", "")
    charset = message.get_param("charset")
    return charset[:40] if isinstance(charset, str) else ""


def _absolute(links: list[Any], address: str) -> tuple[str, ...]:
    addresses = []
    for link in links:
        if isinstance(link, str) and link:
            try:
                addresses.append(urljoin(address, link))
            except ValueError:
                continue
    return tuple(dict.fromkeys(addresses))
