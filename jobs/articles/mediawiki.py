"""Articles of wiki dumps (`pages-articles.xml`, compressed or not), streamed with one page in memory.

The stream is cut at `<page>` and `</page>` before it is parsed. A dump escapes the angle brackets of texts, so these
marks can't occur in an article. A page that is broken, too large or in the wrong encoding affects no other page. A
document type with entities is never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import mwparserfromhell
from lxml import etree

from jobs.articles.source_article import ArticleSection, NotAnArticle, SourceArticle
from jobs.ingest.files.unreadable_row import UnreadableRow

LARGEST_PAGE = 16 << 20
"Maximum bytes of the XML of a page."
_LARGEST_TEXT = 2 << 20
"Maximum characters of wiki text; longer text is no article and takes minutes to parse."
_BLOCK = 1 << 20
_HEAD = 1 << 20
_KEPT = 500

_TAG = re.compile(r"<(?:!--|/?([A-Za-z][A-Za-z0-9]{0,15})\b[^<>]*>)")
_UNREAD = frozenset({"ref", "gallery", "math", "score", "timeline", "imagemap", "syntaxhighlight", "source"})
_EMPHASIS = re.compile(r"'{2,}")
_SPACE = re.compile(rb"<ns>\s*(-?\d+)\s*</ns>")
_LINKED = re.compile(r"\[\[\s*(?:[Cc]ategory|[Kk]ategorie|[Cc]atégorie|[Cc]ategoría)\s*:\s*([^\]|]+)")
_FILES = re.compile(
    r"^\s*(?:file|image|datei|bild|fichier|archivo|category|kategorie|catégorie|categoría)\s*:", re.I
)
_REST_TITLES = frozenset(
    {"sources", "source", "references", "related news", "see also", "external links", "notes", "quellen"}
    | {"weblinks", "einzelnachweise", "siehe auch", "sister links", "fuentes", "sources et liens"}
)
_TOPICS = {
    "world": "World", "politics and conflicts": "Politics", "politics": "Politics", "elections": "Politics",
    "science and technology": "Science", "science": "Science", "space": "Science", "health": "Science",
    "environment": "Science", "sports": "Sport", "sport": "Sport", "football (soccer)": "Sport",
    "economy and business": "Business", "business": "Business", "crime and law": "World",
    "disasters and accidents": "World", "culture and entertainment": "World",
}  # fmt: skip
_DAY_FORMS = ("%B %d, %Y", "%d %B %Y", "%Y-%m-%d", "%b %d, %Y")


@dataclass(slots=True)
class WikiInfo:
    """Facts of all pages, from the header of a dump."""

    site_url: str = ""
    "Address of the main page; the addresses of other pages begin alike."
    language: str = ""

    def read_header(self, head: bytes) -> None:
        """Set the facts from the beginning of a dump; a pattern reads it, because it is not closed and may hold any
        text.
        """
        text = head.decode("utf-8", "replace")
        address = re.search(r"<base>\s*([^<\s]{1,500})\s*</base>", text)
        language = re.search(r"<mediawiki\b[^<>]{0,2000}\bxml:lang=[\"']([A-Za-z-]{2,12})[\"']", text)
        self.site_url = address[1].rpartition("/")[0] + "/" if address else ""
        self.language = language[1][:2].lower() if language else ""


def read_pages(stream: Any, wiki: WikiInfo) -> Iterator[bytes | UnreadableRow]:
    """Yield the pages of a stream; `wiki` is filled before the first page."""
    rest = b""
    begun = False
    skipping = False
    while block := stream.read(_BLOCK):
        rest += block
        while True:
            if skipping:
                end = rest.find(b"</page>")
                if end < 0:
                    # Enough for a closing mark that is cut between two blocks.
                    rest = rest[-16:]
                    break
                rest = rest[end + 7 :]
                skipping = False
            start = rest.find(b"<page>")
            if not begun and (start >= 0 or len(rest) > _HEAD):
                wiki.read_header(rest[: start if start >= 0 else _HEAD])
                begun = True
            if start < 0:
                rest = rest[-16:] if begun else rest
                break
            end = rest.find(b"</page>", start)
            if end < 0:
                rest = rest[start:]
                # Dropped now: a page that never ends would collect the whole dump.
                if len(rest) > LARGEST_PAGE:
                    yield UnreadableRow(f"page is larger than {LARGEST_PAGE} bytes", _decode_beginning(rest))
                    skipping = True
                    continue
                break
            page = rest[start : end + 7]
            rest = rest[end + 7 :]
            yield page
    if b"<page>" in rest:
        yield UnreadableRow("the dump ends within a page", _decode_beginning(rest))


def is_article_page(page: bytes) -> bool:
    """Return true if a page is no redirect, talk page, template or file; the page is not parsed."""
    space = _SPACE.search(page)
    # 0 is the name space of articles.
    return (space is None or space[1] == b"0") and b"<redirect " not in page


def article_from_page(page: bytes, wiki: WikiInfo) -> SourceArticle:
    """Return the article of one page.

    Errors:
        NotAnArticle: the page is malformed or has no readable text
    """
    root = _parse_page(page)
    title = (root.findtext("title") or "").strip()
    revision = root.find("revision")
    text = (revision.findtext("text") if revision is not None else None) or ""
    if not text.strip():
        raise NotAnArticle("page has no text")
    if len(text) > _LARGEST_TEXT:
        raise NotAnArticle(f"page has {len(text)} characters of wiki text, at most {_LARGEST_TEXT} are read")
    # Style tags are gone already, and the parser would look for their ends again.
    code = mwparserfromhell.parse(_strip_markup(text), skip_style_tags=True)
    stamp = (revision.findtext("timestamp") or "").strip() if revision is not None else ""
    author = root.findtext("revision/contributor/username") or ""
    tags = [tag.strip() for tag in _LINKED.findall(text)]
    published = _find_date(code) or stamp  # before templates are removed from the text
    number = (root.findtext("id") or "").strip()
    return SourceArticle(
        id=f"{wiki.language or 'wiki'}-{number}" if number.isdigit() else "",
        title=title,
        parts=tuple(_read_sections(code)),
        authors=(author.strip(),) if author.strip() else (),
        published=published,
        updated=stamp,
        topic=next((_TOPICS[tag.lower()] for tag in tags if tag.lower() in _TOPICS), ""),
        tags=tuple(dict.fromkeys(tag for tag in tags if not _is_date_tag(tag)))[:40],
        url=wiki.site_url + quote(title.replace(" ", "_"), safe="/:,()!'*@;") if wiki.site_url else "",
        language=wiki.language,
    )


def _parse_page(page: bytes) -> Any:
    try:
        # `lxml` would follow the encoding that a page declares; dumps are UTF-8.
        page.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotAnArticle(f"page is not UTF-8 (byte {error.start})") from error
    # No entities, no network, no DTD: a page must not read files or grow without bound.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    try:
        return etree.fromstring(page, parser)
    except etree.XMLSyntaxError as error:
        raise NotAnArticle(f"page is not XML: {error.msg}") from error


def _read_sections(code: Any) -> Iterator[ArticleSection]:
    """Return sections as plain text; sources, links and similar sections are left out."""
    for node in code.filter_wikilinks(recursive=False, matches=lambda link: _FILES.match(str(link.title))):
        _remove_node(code, node)
    for node in code.filter_templates(recursive=False):
        _remove_node(code, node)
    for section in code.get_sections(levels=[2, 3, 4], include_lead=True, flat=True):
        headings = section.filter_headings(recursive=False)
        title = str(headings[0].title.strip_code()).strip() if headings else ""
        for heading in headings:
            _remove_node(section, heading)
        if title.lower() in _REST_TITLES:
            continue
        text = str(section.strip_code(normalize=True, collapse=True)).strip()
        if text:
            yield ArticleSection(title, text)


def _remove_node(code: Any, node: Any) -> None:
    try:
        code.remove(node)
    except ValueError:
        return  # the surrounding node is already removed


def _strip_markup(text: str) -> str:
    """Remove HTML, bold and italic marks, because the parser needs minutes for unclosed tags."""
    pieces: list[str] = []
    at = 0
    # Marks without an end are looked for once, or each would scan the whole text again.
    endless: set[str] = set()
    lowered = text.lower()
    while (match := _TAG.search(text, at)) is not None:
        pieces.append(text[at : match.start()])
        at = match.end()
        name = (match[1] or "").lower()
        if match[0] == "<!--" or (name in _UNREAD and not match[0].endswith("/>")):
            closing = "-->" if match[0] == "<!--" else "</" + name
            end = lowered.find(closing, at) if closing not in endless else -1
            if end < 0:
                endless.add(closing)
            else:
                at = end + len(closing) if closing == "-->" else end
        elif name in ("br", "p", "div"):
            pieces.append("\n")
    pieces.append(text[at:])
    return _EMPHASIS.sub("", "".join(pieces))


def _find_date(code: Any) -> str:
    """Return the publication date from the `date` template of a page, empty without one."""
    for template in code.filter_templates(recursive=False):
        name = str(template.name).strip().lower()
        parameter = str(template.params[0].value).strip() if template.params else ""
        if name in ("date", "datum", "fecha") and (day := _parse_date(parameter)):
            return day
    return ""


def _parse_date(text: str) -> str:
    for form in _DAY_FORMS:
        try:
            return datetime.strptime(text[:40], form).date().isoformat()  # noqa: DTZ007  a day has no zone
        except ValueError:
            continue
    return ""


def _is_date_tag(tag: str) -> bool:
    return bool(_parse_date(tag)) or tag.strip().lower() in ("published", "archived", "no publish")


def _decode_beginning(data: bytes) -> str:
    return data[:_KEPT].decode("utf-8", "replace")
