"""Product records of the playground: product lines of the shop, one record per variant, and articles."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from cluster.clock import from_ms
from jobs.playground.data_files import (
    NewsArticle,
    NewsSection,
    ProductLine,
    ShopLocation,
    read_articles,
    read_people,
    read_product_lines,
    read_translations,
)
from jobs.playground.seeded_random import SeededRandom

SHOP_SITE = "https://shop.playground.example"
IMAGES = "https://images.playground.example"

_DAY_MS = 86_400_000
_FIELD_OF_AXIS = {"color": "color", "size": "size", "pack": "size", "length": "size"}
"Variants that differ in another attribute are distinguished by a custom attribute."
_ATTRIBUTE_OF_AXIS = {"language": "edition"}
_NOT_IN_SHOPS = frozenset(("e-book", "online", "weekend", "evening class", "on the plot"))


def build_products(now_ms: int) -> list[dict[str, Any]]:
    """Return the records of the whole shop, in the order of the data."""
    shops = read_people().shops
    translated = read_translations()
    return [
        record
        for line in read_product_lines()
        for record in _records_from_line(line, now_ms, shops, translated)
    ]


def list_variant_ids(line: ProductLine) -> list[str]:
    """Return the product ids of a line."""
    if line.variants is None:
        return [line.id]
    return [f"{line.id}-{_slug_from_value(value)}" for value in line.variants.values]


def _slug_from_value(value: str) -> str:
    return value.lower().replace("²", "2").replace(" ", "-").replace("/", "-").replace(".", "-")


def _records_from_line(
    line: ProductLine,
    now_ms: int,
    shops: Mapping[str, ShopLocation],
    translated: Mapping[str, Mapping[str, str]],
) -> list[dict[str, Any]]:
    values = line.variants.values if line.variants else ("",)
    prices = line.variants.prices if line.variants else (line.price,)
    dice = SeededRandom("line", line.id)
    made_at = now_ms - dice.randint(30, 900) * _DAY_MS
    reduced = dice.is_chosen(0.14)
    records = []
    for product_id, value, price in zip(list_variant_ids(line), values, prices, strict=True):
        product_dice = SeededRandom("product", product_id)
        record: dict[str, Any] = {"product_id": product_id}
        if line.variants:
            record["product_group_id"] = line.id
        record |= _variant_record(line, value, price)
        if reduced:
            record |= {"original_price": price, "sale_price": round(price * 0.85, 2)}
        record |= {
            "rating": line.rating,
            "availability": product_dice.weighted_choice(
                ("IN_STOCK", "OUT_OF_STOCK", "PRE_ORDER"), (95, 3.5, 1.5)
            ),
            "condition": "NEW",
            "language": "en",
            "created_at": _format_time(made_at),
            "updated_at": _format_time(now_ms - product_dice.randint(0, 29 * 24) * 3_600_000),
            "url": f"{SHOP_SITE}/{line.type}/{product_id}",
            "cover_image": f"{IMAGES}/{line.id}.jpg",
            "images": [f"{IMAGES}/{line.id}.jpg", f"{IMAGES}/{line.id}-detail.jpg"],
            "related_ids": list(line.related),
            "custom_attributes": dict(line.attributes),
        }
        _set_variant_attributes(record, line, value)
        _set_location(record, value, product_dice, shops)
        record |= _variant_translations(line, value, translated)
        records.append(record)
    return records


def _variant_record(line: ProductLine, value: str, price: float) -> dict[str, Any]:
    """Return the record of a variant."""
    record: dict[str, Any] = {
        "type": line.type,
        "title": f"{line.title}, {value}" if value else line.title,
        "description": line.description,
        "categories": [list(path) for path in line.categories],
        "tags": list(line.tags),
        "brand": line.brand,
        "price": price,
    }
    return {**record, "authors": list(line.authors)} if line.authors else record


def _set_variant_attributes(record: dict[str, Any], line: ProductLine, value: str) -> None:
    """Write the value of a variant into the fields that filters and facets use."""
    if line.variants is None:
        return
    axis = line.variants.axis
    if axis in _FIELD_OF_AXIS:
        record[_FIELD_OF_AXIS[axis]] = value
    else:
        record["custom_attributes"][_ATTRIBUTE_OF_AXIS.get(axis, axis)] = value


def _set_location(
    record: dict[str, Any], value: str, dice: SeededRandom, shops: Mapping[str, ShopLocation]
) -> None:
    """Write the place where users can collect a product, or where a course takes place."""
    if value in shops:
        record["location"] = shops[value].model_dump()
    elif value not in _NOT_IN_SHOPS:
        towns = [town for town in shops if dice.is_chosen(0.35)] or [dice.choice(list(shops))]
        record["location"] = [shops[town].model_dump() for town in towns]
        record["custom_attributes"]["shops"] = towns


def _variant_translations(
    line: ProductLine, value: str, translated: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    made = {}
    for language, wording in line.translations.items():
        suffix = f", {_translate_value(language, value, translated)}" if value else ""
        made[f"i18n_{language}"] = {"title": wording.title + suffix}
        if wording.description:
            made[f"i18n_{language}"]["description"] = wording.description
    return made


def _translate_value(language: str, value: str, translated: Mapping[str, Mapping[str, str]]) -> str:
    """Return the translation of `green` or `100 seeds`; values without one, such as `5 l` or `York`, stay unchanged."""
    if value in translated:
        return translated[value][language]
    number, _, unit = value.partition(" ")
    return f"{number} {translated[unit][language]}" if unit in translated else value


def _format_time(at_ms: int) -> str:
    return from_ms(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


NEWS_SITE = "https://news.playground.example"
PUBLISHER = "The Harbour Post"

_WORDS_A_MINUTE = 200


def product_records_from_articles() -> list[dict[str, Any]]:
    """Return the records of the whole newspaper, in the order of the data."""
    return [_record_from_article(article) for article in read_articles()]


def _record_from_article(article: NewsArticle) -> dict[str, Any]:
    url = f"{NEWS_SITE}/{article.section[0].lower()}/{article.id}"
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
        "cover_image": f"{NEWS_SITE}/images/{article.id}.jpg",
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
