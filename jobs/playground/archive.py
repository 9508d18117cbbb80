"""Articles to product records of type `article`: full text as HTML, its parts as children."""

from __future__ import annotations

from html import escape
from typing import Any

from jobs.playground.data_files import NewsArticle, NewsSection, read_articles

SITE = "https://news.playground.example"
PUBLISHER = "The Harbour Post"

_WORDS_A_MINUTE = 200


def product_records_from_articles() -> list[dict[str, Any]]:
    """Make the records of the whole newspaper, in the order of the data."""
    return [_record_from_article(article) for article in read_articles()]


def _record_from_article(article: NewsArticle) -> dict[str, Any]:
    url = f"{SITE}/{article.section[0].lower()}/{article.id}"
    paragraphs = [text for part in article.parts for text in part.paragraphs]
    count = sum(len(text.split()) for text in paragraphs)
    record: dict[str, Any] = {
        "product_id": article.id,
        "type": "article",
        "title": article.title,
        "subtitle": article.subtitle,
        "description": paragraphs[0],
        "short_description": article.subtitle,
        "html": _article_html(article),
        "headers": [part.heading for part in article.parts],
        "paragraphs": paragraphs,
        "children": [_child_record(article.id, url, at, part) for at, part in enumerate(article.parts, 1)],
        "language": "en",
        "created_at": article.published_at,
        "published_at": article.published_at,
        "updated_at": article.published_at,
        "categories": [["News", *article.section]],
        "tags": list(article.tags),
        "authors": list(article.authors),
        "publishers": [PUBLISHER],
        "url": url,
        "cover_image": f"{SITE}/images/{article.id}.jpg",
        "enable_question_answering": True,
        "custom_attributes": {
            "section": article.section[0],
            "word_count": count,
            "reading_minutes": max(1, round(count / _WORDS_A_MINUTE)),
        },
    }
    for language, wording in article.translations.items():
        record[f"i18n_{language}"] = wording.model_dump(exclude_none=True)
    return record


def _article_html(article: NewsArticle) -> str:
    body = "".join(f"<section>{_section_html(part)}</section>" for part in article.parts)
    lede = f'<p class="lede">{_plain_text(article.subtitle)}</p>'
    return f"<article><h1>{_plain_text(article.title)}</h1>{lede}{body}</article>"


def _section_html(part: NewsSection) -> str:
    return f"<h2>{_plain_text(part.heading)}</h2>" + "".join(
        f"<p>{_plain_text(text)}</p>" for text in part.paragraphs
    )


def _child_record(article_id: str, url: str, at: int, part: NewsSection) -> dict[str, Any]:
    return {
        "id": f"{article_id}-{at}",
        "url": f"{url}#part-{at}",
        "title": part.heading,
        "html": _section_html(part),
        "headers": [part.heading],
    }


def _plain_text(text: str) -> str:
    return escape(text, quote=False)
