"""Product lines to product records, one a variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.clock import from_ms
from jobs.playground.data_files import (
    ProductLine,
    ShopLocation,
    read_people,
    read_product_lines,
    read_translations,
)
from jobs.playground.seeded_random import SeededRandom

SITE = "https://shop.playground.example"
IMAGES = "https://images.playground.example"

_DAY_MS = 86_400_000
_FIELD_OF_AXIS = {"color": "color", "size": "size", "pack": "size", "length": "size"}
"Variants by anything else are told apart by a custom attribute."
_ATTRIBUTE_OF_AXIS = {"language": "edition"}
_NOT_IN_SHOPS = frozenset(("e-book", "online", "weekend", "evening class", "on the plot"))


def build_products(now_ms: int) -> list[dict[str, Any]]:
    """Make the records of the whole shop, in the order of the data."""
    shops, translated = read_people().shops, read_translations()
    return [
        record
        for line in read_product_lines()
        for record in _records_from_line(line, now_ms, shops, translated)
    ]


def list_variant_ids(line: ProductLine) -> list[str]:
    """Name the products of a line."""
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
        own = SeededRandom("product", product_id)
        record: dict[str, Any] = {"product_id": product_id}
        if line.variants:
            record["product_group_id"] = line.id
        record |= _variant_record(line, value, price)
        if reduced:
            record |= {"original_price": price, "sale_price": round(price * 0.85, 2)}
        record |= {
            "rating": line.rating,
            "availability": own.weighted_choice(("IN_STOCK", "OUT_OF_STOCK", "PRE_ORDER"), (95, 3.5, 1.5)),
            "condition": "NEW",
            "language": "en",
            "created_at": _format_time(made_at),
            "updated_at": _format_time(now_ms - own.randint(0, 29 * 24) * 3_600_000),
            "url": f"{SITE}/{line.type}/{product_id}",
            "cover_image": f"{IMAGES}/{line.id}.jpg",
            "images": [f"{IMAGES}/{line.id}.jpg", f"{IMAGES}/{line.id}-detail.jpg"],
            "related_ids": list(line.related),
            "custom_attributes": dict(line.attributes),
        }
        _set_variant_attributes(record, line, value)
        _set_location(record, value, own, shops)
        record |= _variant_translations(line, value, translated)
        records.append(record)
    return records


def _variant_record(line: ProductLine, value: str, price: float) -> dict[str, Any]:
    """Say what a variant is, as its line says it."""
    told: dict[str, Any] = {
        "type": line.type,
        "title": f"{line.title}, {value}" if value else line.title,
        "description": line.description,
        "categories": [list(path) for path in line.categories],
        "tags": list(line.tags),
        "brand": line.brand,
        "price": price,
    }
    return {**told, "authors": list(line.authors)} if line.authors else told


def _set_variant_attributes(record: dict[str, Any], line: ProductLine, value: str) -> None:
    """Write the value of a variant where filters and facets find it."""
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
    """Say where a product can be fetched, or where a course takes place."""
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
    """Translate `green` or `100 seeds`; what has no word, such as `5 l` or `York`, stays."""
    if value in translated:
        return translated[value][language]
    number, _, unit = value.partition(" ")
    return f"{number} {translated[unit][language]}" if unit in translated else value


def _format_time(at_ms: int) -> str:
    return from_ms(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")
