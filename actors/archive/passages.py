"""Convert a product to text: sections, and passages of about 150 words with their places in the text.

The text of an article is stored once, with sections under `## ` headings. A passage is a range of its characters that
never crosses a heading. Children of a record are its sections. A record without children is split at the headings of
its HTML, else it is one section.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from actors.retrieval.html_text import INLINE_TAGS, scan_html
from cluster.access_tier import access_of

_HEADINGS = frozenset({"h2", "h3", "h4"})


@dataclass(frozen=True, slots=True)
class HtmlSection:
    """A section as the page has it."""

    title: str
    text: str
    child_id: str = ""
    url: str = ""


def split_html_sections(html: str) -> list[HtmlSection]:
    """Split a page at its headings; a page without text has no sections.

    Cost:
        0.1 ms for an article of 500 words; linear
    """
    writer = _Writer()
    for text, tag, is_end in scan_html(html.replace("\x00", " ")):
        if text:
            writer.write(text)
        elif tag in _HEADINGS:
            writer.heading(not is_end)
        elif tag not in INLINE_TAGS:
            writer.end_block()
    return writer.parts()


class _Writer:
    """Collects blocks under headings."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, list[str]]] = [("", [])]
        self._line: list[str] = []
        self._in_heading = False

    def write(self, text: str) -> None:
        self._line.append(text)

    def end_block(self) -> None:
        # A block inside of a heading is a part of the heading, not a paragraph.
        if self._in_heading:
            self._line.append(" ")
            return
        if line := self._taken():
            self._parts[-1][1].append(line)

    def heading(self, begins: bool) -> None:
        if begins:
            self._in_heading = False
            self.end_block()
        elif self._in_heading:
            self._parts.append((self._taken(), []))
        self._in_heading = begins

    def parts(self) -> list[HtmlSection]:
        self._in_heading = False
        self.end_block()
        return [HtmlSection(title, "\n\n".join(blocks)) for title, blocks in self._parts if blocks]

    def _taken(self) -> str:
        line = " ".join(entities.unescape("".join(self._line)).split())
        self._line.clear()
        return line


PASSAGE_WORDS = 150
_LEAST_WORDS = 50
"A shorter rest joins the passage before."
_INDEXED_TITLE = 300
"Characters of a title or heading that count for each passage below it."
_MOST_CHARACTERS = 2_000_000
"Maximal characters of an article; the rest is ignored."

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+|\n+")
_WORD = re.compile(r"\S+")
_LOCKED = "\x00"


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of an article, from `start` up to the next one."""

    start: int
    title: str
    child_id: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of an article's text."""

    start: int
    end: int
    section: int
    "Number of its section."


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one product."""

    product_id: str
    type: str
    title: str
    authors: tuple[str, ...]
    published: str
    url: str
    licence: str
    language: str
    "Empty when the record has none."
    text: str
    sections: tuple[DocumentSection, ...]
    passages: tuple[Passage, ...]
    access: str = ""
    "Tier that its readers need; empty: it is open."
    corrected_at: str = ""
    "As uploaded: a day or a time in ISO 8601; empty: it was never corrected."
    correction_note: str = ""

    @property
    def kind(self) -> str:
        """The type, and the access of a locked document: the unit of masks in a segment."""
        return f"{self.type}{_LOCKED}{self.access}" if self.access else self.type

    @property
    def is_article(self) -> bool:
        """Return whether agents find the document: products of other types are for questions over REST alone."""
        return self.type == "article"

    @property
    def addresses(self) -> frozenset[str]:
        """The canonical web addresses of the document and its sections."""
        addresses = {
            canonical_address(url) for url in (self.url, *(section.url for section in self.sections))
        }
        return frozenset(addresses - {""})

    def passage_text(self, passage: Passage) -> str:
        """Return the indexed text of a passage: titles, a lead too short for a passage (first one only), its text."""
        heading = self.sections[passage.section].title
        # A short lead is no passage of its own, so the first passage has it too.
        lead = self.section_text(0) if passage is self.passages[0] and passage.section else ""
        body = self.text[passage.start : passage.end]
        # every passage repeats them: without a bound, a long title costs the square of its length
        title = self.title[:_INDEXED_TITLE]
        heading = heading[:_INDEXED_TITLE]
        parts = (title, "" if heading == title else heading, lead, body)
        return "\n".join(part for part in parts if part)

    def section_text(self, number: int) -> str:
        later = self.sections[number + 1].start if number + 1 < len(self.sections) else len(self.text)
        return self.text[self.sections[number].start : later].strip()


def canonical_address(url: str) -> str:
    """Return an address as citations of it are compared: without scheme, fragment and last slash; empty for others."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    query = f"?{parts.query}" if parts.query else ""
    return parts.netloc.lower() + parts.path.rstrip("/") + query


def split_kind(kind: str) -> tuple[str, str]:
    """Return type and access of a kind. Earlier releases take the kind of a locked document for another type."""
    product_type, _, access = kind.partition(_LOCKED)
    return product_type, access


def document_from_product(record: Mapping[str, Any]) -> Document | None:
    """Convert a stored product to a document; None when it has no text or is excluded from questions."""
    if record.get("enable_question_answering") is False:
        return None
    title = _line(record.get("title")) or _translated_field(record, "title")
    parts = _sections_from_record(record, title)
    text, sections = _join_sections(parts)
    passages = tuple(_cut_passages(text, sections))
    if not passages:
        return None
    attributes = record.get("custom_attributes") or {}
    return Document(
        product_id=str(record["product_id"]),
        type=str(record.get("type") or "").replace(_LOCKED, ""),
        title=title,
        authors=tuple(_line(author) for author in record.get("authors") or ()),
        published=str(record.get("published_at") or record.get("created_at") or ""),
        url=str(record.get("url") or ""),
        licence=_line(attributes.get("licence") or attributes.get("license")),
        language=str(record.get("language") or ""),
        text=text,
        sections=sections,
        passages=passages,
        access=access_of(record),
        corrected_at=str(record.get("corrected_at") or ""),
        correction_note=_line(record.get("correction_note")),
    )


def _sections_from_record(record: Mapping[str, Any], title: str) -> list[HtmlSection]:
    """Return the sections in order; those of a record with children are its children."""
    children = record.get("children") or ()
    if children:
        lead = _lead_text(record)
        sections = [HtmlSection("", lead)] if lead else []
        for child in children:
            body = _body(child)
            inner = "\n\n".join(part.text for part in body if part.text)
            if inner:
                sections.append(
                    HtmlSection(
                        _line(child.get("title")),
                        inner,
                        str(child.get("id") or ""),
                        str(child.get("url") or ""),
                    )
                )
        # Without a child that has text and an id, the record's own page is read.
        if any(part.child_id for part in sections):
            return sections
    body = _body(record)
    if body:
        return [_strip_title(part, title) for part in body]
    lead = _lead_text(record) or title
    return [HtmlSection("", lead)] if lead else []


def _body(source: Mapping[str, Any]) -> list[HtmlSection]:
    html = source.get("html")
    if html:
        sections = split_html_sections(str(html)[:_MOST_CHARACTERS])
        if sections:
            return sections
    paragraphs = source.get("paragraphs")
    if paragraphs:
        return [HtmlSection("", "\n\n".join(map(_block, paragraphs)))]
    description = _block(source.get("description"))
    return [HtmlSection("", description)] if description else []


def _strip_title(part: HtmlSection, title: str) -> HtmlSection:
    """Remove the title where a page repeats it."""
    text = part.text.removeprefix(title).lstrip() if part.text.startswith(title + "\n") else part.text
    return HtmlSection("" if part.title == title else part.title, text)


def _lead_text(record: Mapping[str, Any]) -> str:
    """Return the text above the sections: the standfirst, not repeated."""
    lines: list[str] = []
    for name in ("subtitle", "short_description", "description"):
        line = _block(record.get(name))
        if line and name == "description" and record.get("html"):
            continue  # usually a copy of the page's beginning
        if line and line not in lines:
            lines.append(line)
    return "\n\n".join(lines)


def _translated_field(record: Mapping[str, Any], field: str) -> str:
    for name, value in record.items():
        if name.startswith("i18n_") and isinstance(value, Mapping) and value.get(field):
            return _line(value[field])
    return ""


def _line(value: Any) -> str:
    return " ".join(str(value or "").replace("\x00", " ").split())


def _block(value: Any) -> str:
    """Keep paragraphs, drop other runs of blanks."""
    text = str(value or "")[:_MOST_CHARACTERS].replace("\x00", " ").replace("\r\n", "\n")
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(line for line in (" ".join(part.split()) for part in paragraphs) if line)


def _join_sections(parts: Sequence[HtmlSection]) -> tuple[str, tuple[DocumentSection, ...]]:
    """Join the sections and record where each begins."""
    pieces: list[str] = []
    sections: list[DocumentSection] = []
    at = 0
    for part in parts:
        if at >= _MOST_CHARACTERS:
            break
        heading = f"## {part.title}\n\n" if part.title else ""
        sections.append(DocumentSection(at, part.title, part.child_id, part.url))
        piece = heading + part.text.strip()[: _MOST_CHARACTERS - at] + "\n\n"
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces).rstrip(), tuple(sections)


def _cut_passages(text: str, sections: Sequence[DocumentSection]) -> Iterator[Passage]:
    for number, section in enumerate(sections):
        # 5: the two signs and the blank of `## `, and the empty line below the heading.
        start = section.start + (len(section.title) + 5 if section.title else 0)
        end = sections[number + 1].start if number + 1 < len(sections) else len(text)
        groups = _group_sentences(text, start, end)
        if number == 0 and not section.title and len(sections) > 1 and len(text[:end].split()) < _LEAST_WORDS:
            continue
        for first, last in groups:
            yield Passage(first, last, number)


def _group_sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Group sentences until a group has enough words."""
    results: list[tuple[int, int]] = []
    words = begun = closed = 0
    for first, last, count in find_sentence_spans(text, start, end):
        # Closed before a long sentence would make the group a fifth too long.
        if words and words + count > PASSAGE_WORDS * 1.2:
            results.append((begun, closed))
            words = 0
        if not words:
            begun = first
        words += count
        closed = last
        if words >= PASSAGE_WORDS:
            results.append((begun, closed))
            words = 0
    if words:
        # A passage of a few words says too little by itself.
        if results and words < _LEAST_WORDS:
            results[-1] = (results[-1][0], closed)
        else:
            results.append((begun, closed))
    return results


def find_sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and words of each sentence; one without an end is cut where a passage would be full."""
    at = start
    while at < end:
        match = _SENTENCE_END.search(text, at, end)
        stop = match.start() if match else end
        following = match.end() if match else end
        yield from _split_long_sentence(text, at, stop)
        at = following


def _split_long_sentence(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    spans = [match.span() for match in _WORD.finditer(text, start, end)]
    if spans and len(spans) < 20 and end - start > 20 * PASSAGE_WORDS:
        # a script without blanks: characters count instead of words
        step = 3 * PASSAGE_WORDS
        for at in range(start, end, step):
            yield at, min(at + step, end), PASSAGE_WORDS
        return
    for at in range(0, len(spans), PASSAGE_WORDS):
        batch = spans[at : at + PASSAGE_WORDS]
        yield batch[0][0], batch[-1][1], len(batch)
