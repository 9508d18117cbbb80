"""Articles from rows of JSON Lines, CSV and Parquet, with the usual names of columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from jobs.articles.source_article import ArticleSection, SourceArticle
from jobs.ingest.mappings.dates import parse_written_date
from jobs.ingest.mappings.mapping_rules import parse_time

_NAMES = {
    "id": ("product_id", "id", "_id", "article_id", "guid", "uuid", "pageid"),
    "title": ("title", "headline", "name"),
    "text": ("text", "body", "content", "article", "maintext", "full_text"),
    "html": ("html", "body_html", "content_html"),
    "summary": ("subtitle", "summary", "abstract", "standfirst", "description", "lead"),
    "authors": ("authors", "author", "byline", "creator", "creators"),
    "published": (
        "published_at",
        "published",
        "date",
        "date_publish",
        "publication_date",
        "pubdate",
        "timestamp",
    ),
    "updated": ("updated_at", "updated", "modified", "date_modify"),
    "corrected": ("corrected_at", "corrected", "correction_date"),
    "correction_note": ("correction_note", "correction"),
    "topic": ("topic", "section", "category", "topic_guess", "desk"),
    "tags": ("tags", "keywords", "categories", "labels"),
    "url": ("url", "link", "canonical_url", "source_url"),
    "licence": ("licence", "license", "rights"),
    "language": ("language", "lang"),
}
_WIKI_QUOTES = re.compile(r"(?<!')'{2,5}(?!')")
"Marks of italic and bold text in wikis, which extracts of articles keep."
_RECORD_MARKS = ("children", "paragraphs", "custom_attributes")


def is_record(row: Mapping[str, Any]) -> bool:
    """Return true if a row is a product record in the form of `POST /v1/products`."""
    return "product_id" in row and (
        row.get("type") == "article" or any(mark in row for mark in _RECORD_MARKS)
    )


def article_from_row(row: Mapping[str, Any]) -> SourceArticle:
    """Return the article of a row; sections may be a list of objects with `title` and `text`.

    Marks of italic and bold wiki text are removed. A first paragraph that is only a date is the day of publication, if
    no column has it, and no text.
    """
    values = {field: _first_value(row, names) for field, names in _NAMES.items()}
    url = _parse_text(values["url"])
    title = _parse_prose(values["title"])
    sections = row.get("sections")
    parts = _parse_sections(sections) if isinstance(sections, list) else ()
    dateline = ""
    if not parts and _parse_text(values["text"]):
        dateline, text = _split_dateline(_parse_prose(values["text"]))
        parts = (ArticleSection("", text),) if text else ()
    # The same article gets the same id in each import, so a second import replaces it.
    named = _parse_text(values["id"]) or (_digest(url) if url else "")
    return SourceArticle(
        id=named or (_digest(title + _parse_text(values["published"])) if title else ""),
        title=title,
        parts=parts,
        html="" if parts else _parse_text(values["html"]),
        summary=_parse_prose(values["summary"]),
        authors=_parse_list(values["authors"], (";", ",")),
        published=_parse_time(values["published"]) or _parse_time(dateline),
        updated=_parse_time(values["updated"]),
        corrected=_parse_time(values["corrected"]),
        correction_note=_parse_prose(values["correction_note"]),
        topic=next(iter(_parse_list(values["topic"], ("|", ">"))), ""),
        tags=_parse_list(values["tags"], ("|", ";", ",")),
        url=url,
        licence=_parse_text(values["licence"]),
        language=_parse_text(values["language"])[:2].lower(),
    )


def _parse_sections(sections: list[Any]) -> tuple[ArticleSection, ...]:
    parts = []
    for section in sections:
        if isinstance(section, Mapping):
            title = _parse_prose(section.get("title") or section.get("heading"))
            parts.append(ArticleSection(title, _parse_prose(section.get("text") or section.get("content"))))
    return tuple(part for part in parts if part.text)


def _first_value(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)


def _parse_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).strip() if isinstance(value, (str, int, float)) else ""


def _parse_prose(value: Any) -> str:
    """Return a text without marks of italic and bold wiki text."""
    return _WIKI_QUOTES.sub("", _parse_text(value))


def _split_dateline(text: str) -> tuple[str, str]:
    """Return the date of a first paragraph that is only a date, and the text after it."""
    first, _, rest = text.partition("\n")
    return (first.strip(), rest.strip()) if parse_written_date(first) is not None else ("", text)


def _parse_list(value: Any, separators: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, str):
        # The first separator that occurs decides: in a list with `;`, a comma is part of a name.
        separator = next((entry for entry in separators if entry in value), None)
        value = value.split(separator) if separator else [value]
    if not isinstance(value, (list, tuple)):
        return ()
    names = (_parse_text(entry.get("name") if isinstance(entry, Mapping) else entry) for entry in value)
    return tuple(dict.fromkeys(name for name in names if name))


def _parse_time(value: Any) -> str:
    # Parquet has dates and times as objects.
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = str(parse_time(value if isinstance(value, int) else _parse_text(value)))
    return text if len(text) >= 8 and text[:4].isdigit() else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
