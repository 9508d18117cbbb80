"""Articles of JSON Feed documents (versions 1 and 1.1)."""

from __future__ import annotations

from typing import Any

from cluster.errors import Invalid, Malformed
from cluster.records.validation.json_limits import load_json
from jobs.articles.source_article import ArticleSection, SourceArticle

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
