"""Articles of RSS and Atom files, and removals that an Atom feed announces (RFC 6721).

Entities of a document are not expanded, and nothing is fetched.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any

from lxml import etree

from cluster.errors import Invalid
from jobs.articles.source_article import SourceArticle

LARGEST_FEED = 64 << 20
"Maximum bytes of a feed, which is held in memory."
MOST_TAGS = 2_000_000
"Maximum tags of a feed; each one needs at least 130 bytes of memory."

MOST_ATTRIBUTES = 8_000_000
"Maximum equals signs of a feed: each attribute has one, and needs about 250 bytes of memory."

_ATOM = "{http://www.w3.org/2005/Atom}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_DC = "{http://purl.org/dc/elements/1.1/}"
_RSS_1 = "{http://purl.org/rss/1.0/}"
_DELETED = "{http://purl.org/atompub/tombstones/1.0}deleted-entry"
_MEDIA = "{http://search.yahoo.com/mrss/}"
_MODIFIED = "{http://purl.org/dc/terms/}modified"
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,100}?encoding=[\"']([A-Za-z0-9._-]{1,40})")


def read_articles(data: bytes) -> Iterator[SourceArticle]:
    """Yield the entries of a feed.

    Errors:
        Invalid: the data is no feed
    """
    yield from list_articles(parse_xml(data))


def list_articles(root: Any) -> Iterator[SourceArticle]:
    """Yield the entries of a parsed feed.

    Errors:
        Invalid: the document is no feed
    """
    if root.tag == _ATOM + "feed":
        language = root.get("{http://www.w3.org/XML/1998/namespace}lang", "")
        feed_author = _text(root, f"{_ATOM}author/{_ATOM}name")
        rights = _text(root, _ATOM + "rights")
        for entry in root.iterfind(_ATOM + "entry"):
            yield _article_from_atom(entry, language[:2].lower(), feed_author, rights)
        return
    # In RSS 1.0 the items stand beside the channel, not in it.
    items = list(root.iter("item", _RSS_1 + "item"))
    if not items and root.tag not in ("rss", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"):
        raise Invalid(f"not a feed: the root is {str(root.tag)[:80]}")
    language = (_text(root, "channel/language") or "")[:2].lower()
    rights = _text(root, "channel/copyright")
    for item in items:
        yield _article_from_rss(item, language, rights)


def list_removed(root: Any) -> list[str]:
    """Return the ids of entries that an Atom feed announces as deleted (RFC 6721)."""
    return [node.get("ref", "") for node in root.iterfind(_DELETED) if node.get("ref")]


def find_next(root: Any) -> str:
    """Return the address of the next document of a feed in several documents (RFC 5005); empty without one."""
    for path in (_ATOM + "link", f"channel/{_ATOM}link"):
        for node in root.iterfind(path):
            if node.get("rel") in ("next", "prev-archive"):
                return str(node.get("href", ""))
    return ""


def parse_xml(
    data: bytes, charset: str = "", most_tags: int = MOST_TAGS, most_attributes: int = MOST_ATTRIBUTES
) -> Any:
    """Return the root of a parsed document, without expansion of entities or network access.

    The parser reports whether a document declares entities, so no encoding and no padding hides them. A document type
    that only names an address, as in RSS 0.91, is ignored. `charset` is that of the response; what the document
    itself declares goes first.

    Errors:
        Invalid: the data is no XML, or declares entities
    """
    if len(data) > LARGEST_FEED:
        raise Invalid(f"feed is larger than {LARGEST_FEED} bytes")
    # Counted on the bytes: cheap, and before the tree that needs the memory.
    if data.count(b"<") > most_tags:
        raise Invalid(f"feed holds more than {most_tags} tags")
    if data.count(b"=") > most_attributes:
        raise Invalid(f"feed holds more than {most_attributes} attributes")
    parser = etree.XMLParser(
        encoding=_choose_encoding(data, charset),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        # Many feeds have small errors; one broken entry must not lose the others.
        recover=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError, LookupError) as error:
        raise Invalid(f"not a feed: {error}") from error
    if root is None:
        raise Invalid("not a feed: it holds no element")
    # After the parse, which has declared them but expanded none.
    refuse_entities(root.getroottree())
    return root


def refuse_entities(tree: Any) -> None:
    """Refuse a document that declares entities.

    Errors:
        Invalid: it does
    """
    declared = tree.docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise Invalid("feed declares entities of its own; it is not read")


def _choose_encoding(data: bytes, charset: str) -> str | None:
    """Return the encoding to read with, None to leave it to the parser.

    A name that nobody knows, declared or sent, is no reason to lose the whole feed: it is read as UTF-8.
    """
    declared = _DECLARED.match(data[:200])
    name = declared[1].decode("ascii", "replace") if declared else charset
    if not name:
        return None
    try:
        encoding = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    if not _is_codec(encoding):
        return "utf-8"
    return encoding if not declared or not _is_codec(name) else None


def _is_codec(name: str) -> bool:
    """Return whether the parser knows an encoding: Python knows more, and more names of each."""
    try:
        etree.XMLParser(encoding=name)
    except LookupError:
        return False
    return True


def _article_from_rss(item: Any, language: str, rights: str) -> SourceArticle:
    def first_text(*names: str) -> str:
        return next((text for name in names if (text := _text(item, name))), "")

    link = first_text("link", _RSS_1 + "link")
    body = first_text(_CONTENT)
    description = first_text("description", _RSS_1 + "description")
    tags = tuple(tag for node in item.iterfind("category") if (tag := element_text(node)))
    author = first_text(_DC + "creator", "author")
    return SourceArticle(
        id=first_text("guid") or link,
        title=first_text("title", _RSS_1 + "title"),
        html=body or description,
        authors=(author,) if author else (),
        published=parse_feed_time(first_text("pubDate", _DC + "date")),
        updated=parse_feed_time(first_text(_MODIFIED, _ATOM + "updated")),
        topic=tags[0] if tags else "",
        tags=tags,
        url=link,
        licence=first_text(_DC + "rights") or rights,
        language=language,
        images=_list_images(item),
    )


def _list_images(item: Any) -> tuple[str, ...]:
    pictures = [
        node.get("url", "")
        for path in (_MEDIA + "content", f"{_MEDIA}group/{_MEDIA}content", "enclosure")
        for node in item.iterfind(path)
        if node.get("medium") == "image" or node.get("type", "").startswith("image/")
    ]
    return tuple(dict.fromkeys(address for address in pictures if address))


def _article_from_atom(entry: Any, language: str, feed_author: str, rights: str) -> SourceArticle:
    # RFC 4287, 4.2.7.2: a link without `rel` is an alternate.
    links = [node for node in entry.iterfind(_ATOM + "link") if node.get("rel", "alternate") == "alternate"]
    link = links[0].get("href", "") if links else ""
    names = tuple(
        name for node in entry.iterfind(f"{_ATOM}author/{_ATOM}name") if (name := element_text(node))
    )
    tags = tuple(tag for node in entry.iterfind(_ATOM + "category") if (tag := node.get("term", "")))
    return SourceArticle(
        id=_text(entry, _ATOM + "id") or link,
        title=_text(entry, _ATOM + "title"),
        html=_text(entry, _ATOM + "content") or _text(entry, _ATOM + "summary"),
        authors=names or ((feed_author,) if feed_author else ()),
        published=parse_feed_time(_text(entry, _ATOM + "published") or _text(entry, _ATOM + "updated")),
        updated=parse_feed_time(_text(entry, _ATOM + "updated")),
        topic=tags[0] if tags else "",
        tags=tags,
        url=link,
        licence=_text(entry, _ATOM + "rights") or rights,
        language=language,
    )


def _text(node: Any, path: str) -> str:
    return element_text(node.find(path))


def element_text(node: Any) -> str:
    """Return all text of an element; inner markup (Atom's xhtml) stays markup."""
    if node is None:
        return ""
    if len(node) and any(isinstance(child.tag, str) for child in node):
        inner = "".join(etree.tostring(child, encoding="unicode") for child in node)
        return ((node.text or "") + inner).strip()
    return "".join(node.itertext()).strip()


def parse_feed_time(text: str) -> str:
    """Return a time; the RSS form is converted, and ISO 8601 stays unchanged for the later validation."""
    if not text or text[:4].isdigit():
        return text
    try:
        return parsedate_to_datetime(text).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, ValueError, IndexError, OverflowError):
        return ""
