"""The texts of a product that are searched, by field; translations are read apart.

A match in a title counts twice, in every other field once. The length of a product is that of all fields together.
One text with the title repeated ranks as well as tuned weights of fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from actors.retrieval.lexical.messages import DESCRIPTION, FIELDS, METADATA, TITLE
from cluster.query.language.text_analysis import without_markup

WEIGHTS: Final = (2, 1, 1, 1, 1, 1, 1, 1)
"By field, in the order of `FIELDS`."
GROUPS: Final = (TITLE, TITLE, DESCRIPTION, DESCRIPTION, DESCRIPTION, DESCRIPTION, DESCRIPTION, METADATA)
"By field: its name in `matched`."

# Bounds of what one product can cost; uploads decide the lengths.
_LONGEST_TEXT: Final = 40_000
_LONGEST_VALUE: Final = 2_000
_MOST_VALUES: Final = 50
_LONGEST_MEANING: Final = 3_000
_LABELS = ("brand", "color", "material", "size", "type", "tags", "authors", "publishers", "collections")
_READ: Final = (
    ("title", FIELDS.index("title"), _LONGEST_VALUE),
    *(
        (name, FIELDS.index("paragraphs" if name == "html" else name), _LONGEST_TEXT)
        for name in (
            "subtitle",
            "description",
            "short_description",
            "headers",
            "paragraphs",
            "anchors",
            "html",
        )
    ),
    *(
        (name, FIELDS.index("metadata"), _LONGEST_VALUE)
        for name in (*_LABELS, "categories", "custom_attributes")
    ),
)
"Name, number of the field, and characters of it that are read."

FieldText = tuple[int, str]
"Number of the field and its text."


def read_texts(record: Mapping[str, Any]) -> Iterator[FieldText]:
    """Read the texts of a product, or of one of its translations."""
    for name, field, longest in _READ:
        value = record.get(name)
        if not value:
            continue
        if isinstance(value, str):
            yield field, without_markup(value[:longest]) if name == "html" else value[:longest]
        elif name == "categories":
            # levels that several paths share count once
            levels = {level: None for path in value for level in _texts(path)}
            yield from ((field, level[:longest]) for level in levels)
        else:
            yield from ((field, text[:longest]) for text in _texts(value))


def search_embedding_text(product: Mapping[str, Any]) -> str:
    """Build the text of a product that an embedder reads: the title twice, then all other texts, up to a limit."""
    texts = [text for _, text in read_texts(product)]
    if not texts:
        texts = [text for _, record in read_translations(product) for _, text in read_texts(record)]
    return " ".join([str(product.get("title") or ""), *texts])[:_LONGEST_MEANING]


def read_translations(product: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read the translations of a product: language and texts."""
    for name, record in product.items():
        if name.startswith("i18n_") and isinstance(record, Mapping):
            yield name[5:7].lower(), record


def _texts(value: Any) -> Iterator[str]:
    """Read a text, or the texts of a list or of an object."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value[:_MOST_VALUES]:
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict):
                yield from (text for text in item.values() if isinstance(text, str))
