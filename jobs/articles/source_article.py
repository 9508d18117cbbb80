"""An article from any file format, and its conversion to a product record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DEFAULT_LICENCE = "CC BY 2.5"
_LONGEST_ID = 512
_MOST_TEXT = 8 << 20
"Maximum characters of one article."
_MOST_IMAGES = 20


@dataclass(frozen=True, slots=True)
class ArticleSection:
    """A section of an article."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class SourceArticle:
    """The article that a file reader extracted; a field is empty where the file has no value."""

    id: str
    title: str
    parts: tuple[ArticleSection, ...] = ()
    html: str = ""
    "Text as HTML, in place of `parts`."
    summary: str = ""
    authors: tuple[str, ...] = ()
    published: str = ""
    updated: str = ""
    corrected: str = ""
    correction_note: str = ""
    topic: str = ""
    tags: tuple[str, ...] = ()
    url: str = ""
    licence: str = ""
    language: str = ""
    images: tuple[str, ...] = ()
    "Addresses; the first one is the cover."
    access: str = ""
    "Tier that the article asks for; empty: it is open."


class NotAnArticle(ValueError):
    """The input is no article; the message has the reason."""


def record_from_article(
    story: SourceArticle, *, licence: str, topic: str = "", language: str = ""
) -> dict[str, Any]:
    """Return a product record of type `article`.

    Errors:
        NotAnArticle: the article has neither a title nor an id, has no text, or is too long
    """
    size = len(story.html) + sum(len(part.text) for part in story.parts)
    if not story.id or not story.title:
        raise NotAnArticle("it has no id" if story.title else "it has no title")
    if not size and not story.summary:
        raise NotAnArticle("it has no text")
    if size > _MOST_TEXT:
        raise NotAnArticle(f"its text has {size} characters, at most {_MOST_TEXT} are taken")
    subject = story.topic or topic
    images = [address for address in story.images[:_MOST_IMAGES] if _parse_url(address)]
    record: dict[str, Any] = {
        "product_id": story.id[:_LONGEST_ID],
        "type": "article",
        "title": _clean_text(story.title),
        "subtitle": _clean_text(story.summary) or None,
        "html": story.html.replace("\x00", " ") or None,
        "authors": [_clean_text(author) for author in story.authors],
        "tags": [_clean_text(tag) for tag in story.tags],
        "categories": [["News", _clean_text(subject)]] if subject else None,
        "published_at": story.published or None,
        "updated_at": story.updated or None,
        "corrected_at": story.corrected or None,
        "correction_note": _clean_text(story.correction_note) or None,
        "url": _parse_url(story.url),
        "cover_image": next(iter(images), None),
        "images": images[1:],
        "access": story.access or None,
        "language": story.language or language or None,
        "enable_question_answering": True,
        "custom_attributes": {"licence": story.licence or licence},
    }
    if not story.html:
        record.update(_text_fields(record["product_id"], story.parts))
    return {name: value for name, value in record.items() if value not in (None, [], "")}


def _text_fields(product_id: str, parts: Sequence[ArticleSection]) -> dict[str, Any]:
    """Return the text fields: one part becomes paragraphs, several become children; text before the first heading is
    the
    description.
    """
    filled = [
        ArticleSection(_clean_text(part.title), part.text.replace("\x00", " ").strip()) for part in parts
    ]
    filled = [part for part in filled if part.text]
    if not filled:
        return {}
    if len(filled) == 1 and not filled[0].title:
        return {"paragraphs": _paragraphs(filled[0].text)}
    lead = filled[0].text if not filled[0].title else ""
    children = [
        # Shortened, so that the id with its number stays within the bound of ids.
        {"id": f"{product_id[:480]}-{at}", "title": part.title, "description": part.text}
        for at, part in enumerate(filled, 1)
        if part.title or not lead
    ]
    return {"description": lead or None, "children": children}


def _paragraphs(text: str) -> list[str]:
    return [line for line in (" ".join(part.split()) for part in re.split(r"\n\s*\n", text)) if line]


def _clean_text(text: str) -> str:
    return " ".join(text.replace("\x00", " ").split())


def _parse_url(url: str) -> str | None:
    return url if url.startswith(("http://", "https://")) and len(url) <= 2_000 else None
