"""Posts of WordPress exports (WXR), streamed with one post in memory.

Only published posts are articles. Pages, attachments, revisions and drafts are left out; a post in the trash is a
removal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from cluster.errors import Invalid
from jobs.articles.feeds import element_text, parse_feed_time, refuse_entities
from jobs.articles.source_article import SourceArticle

MARK = b"wordpress.org/export/"
"Part of the namespace of every version of the format."

_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_CREATOR = "{http://purl.org/dc/elements/1.1/}creator"
_WP = re.compile(r"\{https?://wordpress\.org/export/[0-9.]{1,5}/\}")
_EXCERPT = re.compile(r"\{https?://wordpress\.org/export/[0-9.]{1,5}/excerpt/\}")
_SHORT_CODE = re.compile(r"\[/?(?:caption|gallery|audio|video|playlist|embed)\b[^\[\]]{0,2000}\]")
_BLOCK = re.compile(r"<(?:p|div|ul|ol|h[1-6]|blockquote|table|figure)\b", re.I)
_LINES = re.compile(r"\n[ \t]*\n")


def read_posts(stream: Any) -> Iterator[SourceArticle]:
    """Yield the published posts of an export.

    Errors:
        Invalid: the stream is no XML, or declares entities
    """
    export = WordPressExport()
    try:
        events = etree.iterparse(
            stream,
            events=("end",),
            tag=("item", "language", "{*}author"),
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            recover=True,
        )
        for _, node in events:
            if node.tag != "item":
                export.read_header(node)
                continue
            refuse_entities(node.getroottree())
            if is_published(node):
                yield export.article_from_post(node)
            # Streamed: each post is freed once it was read.
            node.clear()
            while node.getprevious() is not None:  # else the parent keeps every post that was read
                del node.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise Invalid(f"not an export of WordPress: {error}") from error


class WordPressExport:
    """What the header of an export says about all posts."""

    def __init__(self) -> None:
        self._language = ""
        self._names: dict[str, str] = {}

    def read_header(self, node: Any) -> None:
        """Read an element before the first post: the language of the site, or one of its authors."""
        if node.tag == "language":
            self._language = element_text(node)[:2].lower()
        elif _WP.match(str(node.tag)):
            self._names[_wp_text(node, "author_login")] = _wp_text(node, "author_display_name")

    def article_from_post(self, item: Any) -> SourceArticle:
        """Return the article of a post."""
        topics: list[str] = []
        tags: list[str] = []
        for node in item.iterfind("category"):
            (topics if node.get("domain") == "category" else tags).append(element_text(node))
        link = element_text(item.find("link"))
        login = element_text(item.find(_CREATOR))
        author = self._names.get(login) or login
        published = _parse_gmt(_wp_text(item, "post_date_gmt"))
        return SourceArticle(
            id=element_text(item.find("guid")) or link,
            title=element_text(item.find("title")),
            html=_format_paragraphs(element_text(item.find(_CONTENT))),
            summary=next((element_text(node) for node in item if _EXCERPT.match(str(node.tag))), ""),
            authors=(author,) if author else (),
            published=published or parse_feed_time(element_text(item.find("pubDate"))),
            updated=_parse_gmt(_wp_text(item, "post_modified_gmt")),
            topic=topics[0] if topics else "",
            tags=tuple(dict.fromkeys(filter(None, [*topics, *tags]))),
            url=link,
            language=self._language,
        )


def is_published(item: Any) -> bool:
    """Return whether an item is a post that everybody may see."""
    return _state_of(item) == ("post", "publish") and not _wp_text(item, "post_password")


def is_removed(item: Any) -> bool:
    """Return whether an item is a post that was put into the trash."""
    return _state_of(item) == ("post", "trash")


def _state_of(item: Any) -> tuple[str, str]:
    return _wp_text(item, "post_type"), _wp_text(item, "status")


def _wp_text(item: Any, name: str) -> str:
    """Return the text of an element in the namespace of any version of the format."""
    for node in item:
        tag = str(node.tag)
        if tag.endswith("}" + name) and _WP.match(tag):
            return element_text(node)
    return ""


def _parse_gmt(text: str) -> str:
    """Return a time of the export; posts that were never published have zeros."""
    return text.replace(" ", "T") + "Z" if len(text) == 19 and not text.startswith("0000") else ""


def _format_paragraphs(html: str) -> str:
    """Return content with paragraphs: the classic editor stores blank lines, and WordPress adds the tags later."""
    html = _SHORT_CODE.sub("", html)
    if _BLOCK.search(html):
        return html
    return "".join(f"<p>{part.strip()}</p>" for part in _LINES.split(html) if part.strip())
