"""Addresses of articles in sitemaps, with the members of Google's news and image sitemaps, and in sitemap indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobs.articles.feeds import element_text, parse_feed_time
from jobs.articles.source_article import SourceArticle

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
    dated.sort(key=lambda pair: pair[0], reverse=True)
    return [address for _, address in dated if address]
