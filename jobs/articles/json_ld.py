"""The article of a web page, from its JSON-LD (schema.org `NewsArticle`) and its canonical link.

The page is scanned for a few elements and never parsed as a tree, so a hostile page costs linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from cluster.errors import Malformed
from cluster.records.validation.json_limits import load_json
from jobs.articles.source_article import ArticleSection, SourceArticle

LARGEST_PAGE = 4 << 20
"Maximum bytes of a page."
LOCKED = "locked"
"Access of an article that is not free; the feed names the tier."
_MOST_BLOCKS = 50
_MOST_NODES = 2_000
_TYPE = re.compile(r"(?:[A-Za-z]*Article|BlogPosting|LiveBlogPosting|SocialMediaPosting|Report)")
_SCRIPT = re.compile(
    r"<script\b(?=[^<>]{0,1000}type\s{0,9}=\s{0,9}[\"']?application/ld\+json)[^<>]{0,1000}>", re.I
)
_CONTROL = re.compile(r"[\x00-\x1f]")
_LINK = re.compile(r"<link\b([^<>]{0,2000})>", re.I)
_ATTRIBUTE = re.compile(r"([a-z-]{1,20})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.I)
_FALSE = ("false", "http://schema.org/false", "https://schema.org/false")


@dataclass(frozen=True, slots=True)
class ArticlePage:
    """What a page says about itself."""

    canonical: str = ""
    "Absolute address of the canonical link; empty without one."
    story: SourceArticle | None = None
    "None: the page describes no article."


def parse_page_article(page: str, address: str) -> ArticlePage:
    """Return the article of a page; `address` is where it was fetched."""
    canonical = _find_canonical(page, address)
    nodes = list(_find_articles(page))
    if not nodes:
        return ArticlePage(canonical)
    # a page may describe other articles too: the one that names this page, else the first
    chosen = next((node for node in nodes if _names_page(node, (address, canonical))), nodes[0])
    return ArticlePage(canonical, _article_from_node(chosen, canonical or address))


def _find_articles(page: str) -> Iterator[dict[str, Any]]:
    at = 0
    for _ in range(_MOST_BLOCKS):
        match = _SCRIPT.search(page, at)
        end = page.find("</", match.end()) if match is not None else -1
        # Only `</script` ends it: texts inside may contain other closing tags.
        while match is not None and end >= 0 and page[end + 2 : end + 8].lower() != "script":
            end = page.find("</", end + 2)
        if match is None or end < 0:
            return
        at = end
        text = page[match.end() : end].strip()
        # Old pages hide scripts from browsers by comments.
        text = text.removeprefix("<!--").removesuffix("-->").removeprefix("//<![CDATA[").removesuffix("//]]>")
        # line breaks inside of strings are frequent, and no parser of JSON accepts them
        text = _CONTROL.sub(" ", text)
        try:
            tree = load_json(text.encode("utf-8", "replace"), refuse_duplicates=False)
        except Malformed:
            continue
        yield from _walk(tree)


def _walk(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the articles of a tree: at its root, in its lists, in its graph, and as main entity of a page."""
    waiting = [tree]
    count = 0
    while waiting and count < _MOST_NODES:
        # From the outside inwards, so the article of the page comes before those that it contains.
        node = waiting.pop(0)
        count += 1
        if isinstance(node, list):
            waiting += node[:_MOST_NODES]
        elif isinstance(node, dict):
            if any(_TYPE.fullmatch(kind.rpartition("/")[2]) for kind in _list_texts(node.get("@type"))):
                yield node
            waiting += [node[name] for name in ("@graph", "mainEntity") if name in node]


def _article_from_node(node: dict[str, Any], address: str) -> SourceArticle:
    corrected, note = _find_correction(node)
    sections = _list_texts(node.get("articleSection"))
    words = _list_texts(node.get("keywords"))
    tags = [part.strip() for word in words for part in word.split(",")]
    body = _text(node.get("articleBody"))
    is_html = "<p" in body.lower()
    return SourceArticle(
        id=address,
        title=_text(node.get("headline")) or _text(node.get("name")),
        parts=() if is_html or not body else (ArticleSection("", body),),
        html=body if is_html else "",
        summary=_text(node.get("description")),
        authors=tuple(dict.fromkeys(_list_names(node.get("author")))),
        published=_text(node.get("datePublished")),
        updated=_text(node.get("dateModified")),
        corrected=corrected,
        correction_note=note,
        topic=sections[0] if sections else "",
        tags=tuple(dict.fromkeys(tag for tag in tags if tag)),
        url=address,
        licence=_text(node.get("license")) or _text(_first(node.get("license")).get("name")),
        language=_text(node.get("inLanguage"))[:2].lower(),
        images=tuple(dict.fromkeys(_list_images(node.get("image"), address))),
        access=LOCKED if str(node.get("isAccessibleForFree")).lower() in _FALSE else "",
    )


def _find_correction(node: dict[str, Any]) -> tuple[str, str]:
    """Return time and text of the newest correction (schema.org `CorrectionComment`, or a text)."""
    given = node.get("correction")
    notes = []
    for entry in given if isinstance(given, list) else [given]:
        if isinstance(entry, dict):
            text = _text(entry.get("text")) or _text(entry.get("description")) or _text(entry.get("name"))
            notes.append((_text(entry.get("datePublished")) or _text(entry.get("dateCreated")), text))
        elif isinstance(entry, str) and entry.strip():
            notes.append(("", _text(entry)))
    if not notes:
        return "", ""
    at, note = max(notes, key=lambda pair: pair[0])
    return at or _text(node.get("dateModified")) or _text(node.get("datePublished")), note


def _list_names(value: Any) -> Iterator[str]:
    for entry in value if isinstance(value, list) else [value]:
        name = _text(entry.get("name")) if isinstance(entry, dict) else _text(entry)
        if name:
            yield name


def _list_images(value: Any, address: str) -> Iterator[str]:
    for entry in value if isinstance(value, list) else [value]:
        url = (
            (_text(entry.get("url")) or _text(entry.get("contentUrl")))
            if isinstance(entry, dict)
            else _text(entry)
        )
        if joined := _join(address, url):
            yield joined


def _join(address: str, link: str) -> str:
    """Return an absolute address; empty if the link is empty or invalid."""
    try:
        return urljoin(address, link) if link else ""
    except ValueError:
        return ""


def _names_page(node: dict[str, Any], addresses: tuple[str, str]) -> bool:
    pages = (node.get("mainEntityOfPage"), node.get("url"), node.get("@id"))
    names = {
        _text(page.get("@id") or page.get("url")) if isinstance(page, dict) else _text(page) for page in pages
    }
    return any(address in names for address in addresses if address)


def _find_canonical(page: str, address: str) -> str:
    for count, match in enumerate(_LINK.finditer(page)):
        if count >= 500:
            break
        attributes = {
            name.lower(): first or second or third
            for name, first, second, third in _ATTRIBUTE.findall(match[1])
        }
        if "canonical" in attributes.get("rel", "").lower().split() and attributes.get("href"):
            return _join(address, html.unescape(attributes["href"]).strip())
    return ""


def _first(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_texts(value: Any) -> list[str]:
    return [text for entry in (value if isinstance(value, list) else [value]) if (text := _text(entry))]


def _text(value: Any) -> str:
    """Return a text; publishers escape it as HTML although JSON needs no such thing."""
    return html.unescape(value).strip() if isinstance(value, str) else ""
