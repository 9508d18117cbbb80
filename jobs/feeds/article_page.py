"""The text of a web page as it was fetched, and its article."""

from __future__ import annotations

import codecs
import re

from jobs.articles.feed_documents import decompress_body, read_charset
from jobs.articles.json_ld import LARGEST_PAGE, ArticlePage, parse_page_article
from jobs.feeds.polite_fetcher import FetchedPage

_META = re.compile(rb"<meta[^<>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9._-]{1,40})", re.I)
_HEAD_BYTES = 4_096


def read_article_page(document: FetchedPage) -> ArticlePage:
    """Return what a fetched page says about its article."""
    data = decompress_body(document.body, document.headers, LARGEST_PAGE)
    declared = _META.search(data[:_HEAD_BYTES])
    name = read_charset(document.headers) or (declared[1].decode("ascii") if declared else "utf-8")
    return parse_page_article(_decode(data, name), document.address)


def _decode(data: bytes, name: str) -> str:
    """Decode a page; a name that is unknown, or of no encoding of text, counts as UTF-8."""
    try:
        return data.decode(codecs.lookup(name).name, "replace")  # refuses codecs that do not return text
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")
