"""One document of a feed, whatever its format: its articles, the removals it announces, and further documents.

JSON Feed (versions 1 and 1.1) and sitemaps, with the members of Google's news and image sitemaps, are read here;
`feeds` reads RSS and Atom.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from cluster.errors import Invalid, Malformed
from cluster.records.validation.json_limits import load_json
from jobs.articles.feeds import (
    element_text,
    find_next,
    list_articles,
    list_removed,
    parse_feed_time,
    parse_xml,
)
from jobs.articles.source_article import ArticleSection, SourceArticle
from jobs.articles.wordpress_exports import MARK, WordPressExport, is_published, is_removed

_VERSION = "https://jsonfeed.org/version/1"


def parse_json_feed(data: bytes) -> dict[str, Any]:
    """Return a document of JSON Feed.

    Errors:
        Invalid: the data is no such document
    """
    try:
        feed = load_json(data.removeprefix(b"\xef\xbb\xbf"), refuse_duplicates=False)
    except Malformed as error:
        raise Invalid("not a feed: it is not valid JSON") from error
    if not isinstance(feed, dict) or not _text(feed, "version").startswith(_VERSION):
        raise Invalid("not a feed: the JSON does not name a version of JSON Feed")
    return feed


def list_json_articles(feed: dict[str, Any]) -> list[SourceArticle]:
    """Return the items of a document; what is no item is left out."""
    items = feed.get("items")
    language = _text(feed, "language")[:2].lower()
    authors = _list_authors(feed)
    return [
        _article_from_item(item, language, authors)
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict)
    ]


def _article_from_item(item: dict[str, Any], language: str, authors: tuple[str, ...]) -> SourceArticle:
    number = item.get("id")
    # An id that is a number counts as a text (JSON Feed 1.1).
    name = str(number) if isinstance(number, int) else _text(item, "id")
    html = _text(item, "content_html")
    text = _text(item, "content_text")
    url = _text(item, "url")
    tags = item.get("tags")
    words = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    images = (_text(item, "banner_image"), _text(item, "image"))
    return SourceArticle(
        id=name or url,
        title=_text(item, "title"),
        html=html,
        # HTML keeps headings and paragraphs, so it is preferred.
        parts=(ArticleSection("", text),) if text and not html else (),
        summary=_text(item, "summary"),
        authors=_list_authors(item) or authors,
        published=_text(item, "date_published"),
        updated=_text(item, "date_modified"),
        topic=words[0] if words else "",
        tags=tuple(words),
        url=url,
        language=_text(item, "language")[:2].lower() or language,
        images=tuple(dict.fromkeys(image for image in images if image)),
    )


def _list_authors(node: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of authors; version 1 has one author, as an object."""
    authors = node.get("authors") or [node.get("author")]
    names = [_text(author, "name") for author in authors if isinstance(author, dict)]
    return tuple(dict.fromkeys(name for name in names if name))


def _text(node: dict[str, Any], name: str) -> str:
    value = node.get(name)
    return value.strip() if isinstance(value, str) else ""


_SITEMAP = "{*}"
"Publishers write the namespace in several ways; names of elements are enough."


def list_sitemap_articles(root: Any) -> Iterator[SourceArticle]:
    """Yield the pages of a `urlset`, without text: only the page of an article has it."""
    for node in root.iterfind(_SITEMAP + "url"):
        address = element_text(node.find(_SITEMAP + "loc"))
        if not address:
            continue
        news = node.find(_SITEMAP + "news")
        title = keywords = published = language = ""
        if news is not None:
            title, keywords = (element_text(news.find(_SITEMAP + name)) for name in ("title", "keywords"))
            published = parse_feed_time(element_text(news.find(_SITEMAP + "publication_date")))
            language = element_text(news.find(f"{_SITEMAP}publication/{_SITEMAP}language"))[:2].lower()
        tags = tuple(word for part in keywords.split(",") if (word := part.strip()))
        images = (element_text(image) for image in node.iterfind(f"{_SITEMAP}image/{_SITEMAP}loc"))
        yield SourceArticle(
            id=address,
            title=title,
            published=published,
            updated=parse_feed_time(element_text(node.find(_SITEMAP + "lastmod"))),
            tags=tags,
            url=address,
            language=language,
            images=tuple(image for image in images if image),
        )


def list_sitemaps(root: Any) -> list[str]:
    """Return the addresses of the sitemaps of an index, the one that changed last first."""
    dated = [
        (element_text(node.find(_SITEMAP + "lastmod")), element_text(node.find(_SITEMAP + "loc")))
        for node in root.iterfind(_SITEMAP + "sitemap")
    ]
    # Texts of ISO 8601 sort by time; sitemaps without a date come last.
    dated.sort(key=lambda pair: pair[0], reverse=True)
    return [address for _, address in dated if address]


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
    data = decompress_body(body, headers, LARGEST_DOCUMENT)
    # A byte order mark or blanks may stand before the first bracket.
    start = data[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        feed = parse_json_feed(data)
        following = feed.get("next_url")
        entries = tuple(list_json_articles(feed)[:MOST_ENTRIES])
        return FeedDocument(entries, (), _absolute([following], address))
    # Tags are bounded before the tree is built, which takes many times the memory of the bytes.
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


def decompress_body(body: bytes, headers: Mapping[str, str], most_bytes: int) -> bytes:
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
            # One byte more than is left, so that a bomb stops at the bound and not at its end.
            part = unzip.decompress(body, left + 1)
            left -= len(part)
            if left < 0:
                raise Invalid(f"it is larger than {most_bytes} bytes")
            if not unzip.eof:
                raise Invalid("it is cut off, or no gzip")
            parts.append(part)
            # Zeros pad gzip files on tapes and block devices.
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
            # `urljoin` refuses some addresses, such as unclosed brackets of IPv6.
            try:
                addresses.append(urljoin(address, link))
            except ValueError:
                continue
    return tuple(dict.fromkeys(addresses))
