"""What of a product is searched: texts by field, the translations apart.

A match in a title weighs twice, in everything else once; all fields are one text as far as lengths are concerned.

Source:
    ranking notes, section 6: fields put together with the title repeated are as good as tuned weights
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from actors.search.products.found import DESCRIPTION, FIELDS, METADATA, TITLE
from cluster.query.words import without_markup

WEIGHTS: Final = (2, 1, 1, 1, 1, 1, 1, 1)
"By field, in the order of `FIELDS`."
GROUPS: Final = (TITLE, TITLE, DESCRIPTION, DESCRIPTION, DESCRIPTION, DESCRIPTION, DESCRIPTION, METADATA)
"What a field counts as in `matched`."

_TITLE_FIELD: Final = FIELDS.index("title")
_METADATA_FIELD: Final = FIELDS.index("metadata")
_PARAGRAPHS_FIELD: Final = FIELDS.index("paragraphs")
_LONGEST_TEXT: Final = 40_000
_LONGEST_VALUE: Final = 2_000
_MOST_VALUES: Final = 50
_SINGLE = ("subtitle", "description", "short_description")
_MANY = ("headers", "paragraphs", "anchors")
_LABELS = ("brand", "color", "material", "size", "type", "tags", "authors", "publishers", "collections")

Piece = tuple[int, str]
"Number of the field and its text."


def pieces(record: Mapping[str, Any]) -> Iterator[Piece]:
    """Read the texts of a product, or of one of its translations."""
    title = record.get("title")
    if isinstance(title, str) and title:
        yield _TITLE_FIELD, title[:_LONGEST_VALUE]
    for name in (*_SINGLE, *_MANY):
        field = FIELDS.index(name)
        for text in _texts(record.get(name)):
            yield field, text[:_LONGEST_TEXT]
    html = record.get("html")
    if isinstance(html, str) and html:
        yield _PARAGRAPHS_FIELD, without_markup(html[:_LONGEST_TEXT])
    for name in _LABELS:
        for text in _texts(record.get(name)):
            yield _METADATA_FIELD, text[:_LONGEST_VALUE]
    # levels that several paths share count once
    levels = {str(level): None for path in record.get("categories") or () for level in _texts(path)}
    for level in levels:
        yield _METADATA_FIELD, level[:_LONGEST_VALUE]
    attributes = record.get("custom_attributes")
    if isinstance(attributes, Mapping):
        for value in attributes.values():
            for text in _texts(value):
                yield _METADATA_FIELD, text[:_LONGEST_VALUE]


def translations(product: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read the translations of a product: language and texts."""
    for name, record in product.items():
        if name.startswith("i18n_") and isinstance(record, Mapping):
            yield name[5:7].lower(), record


def _texts(value: Any) -> Iterator[str]:
    """Read a text, or the texts of a list or of an object."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value[:_MOST_VALUES]:
            if isinstance(item, str):
                yield item
            elif isinstance(item, Mapping):
                yield from (text for text in item.values() if isinstance(text, str))
