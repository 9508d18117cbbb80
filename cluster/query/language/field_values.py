"""The values of a record under a field name: the only module that handles the shapes of records.

A path follows objects and every element of an array, so `children.title` selects the titles of all children
and `categories` every level of every path. A key that itself contains dots is found if it is the whole rest
of the path. `attributes.` is the old name of `custom_attributes.`.

    field kind   fields                                             values
    text         title, subtitle, description, short_description,   the distinct folded words of all its texts
                 html, headers, paragraphs, anchors, the same in
                 `i18n_<ln>.` and `children.`
    moment       created_at, published_at, updated_at, corrected_at as stored
    number       price, original_price, sale_price, margin,         as stored
                 rating, age
    other        everything else                                    as stored

For filters, a product without these fields has `availability` IN_STOCK, `condition` NEW,
`enable_question_answering` false and its own id as `product_group_id`. Existence and counts include only uploaded
fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from cluster.query.language.scalars import Scalar
from cluster.query.language.text_analysis import split_words, without_markup

_TEXTS = frozenset(
    {"title", "subtitle", "description", "short_description", "html", "headers", "paragraphs", "anchors"}
)
_MOMENTS = frozenset({"created_at", "published_at", "updated_at", "corrected_at"})
_NUMBERS = frozenset({"price", "original_price", "sale_price", "margin", "rating", "age"})
_PRODUCT_DEFAULTS: Mapping[str, Scalar] = {
    "availability": "IN_STOCK",
    "condition": "NEW",
    "enable_question_answering": False,
}

DEFAULTED = frozenset({*_PRODUCT_DEFAULTS, "product_group_id"})
"Fields with default values in filters."


def canonical_field(field: str) -> str:
    """Return the stored name of a field: `attributes.x` is `custom_attributes.x`."""
    if field == "attributes" or field.startswith("attributes."):
        return "custom_" + field
    return field


def is_text(field: str) -> bool:
    """Return whether a field is split into words."""
    if field in _TEXTS:
        return True
    outer, _, name = field.partition(".")
    return name in _TEXTS and (outer == "children" or outer.startswith("i18n_"))


def is_moment(field: str) -> bool:
    """Return whether a field contains only dates or times."""
    return field in _MOMENTS


def is_number(field: str) -> bool:
    """Return whether a field contains only numbers."""
    return field in _NUMBERS


def collect_scalars(record: Mapping[str, Any], field: str) -> list[Scalar]:
    """Return the scalars under a field, through arrays; null is skipped."""
    values = _values_at(record, field)
    if len(values) == 1 and isinstance(values[0], (str, bool, int, float)):
        return values
    return [leaf for item in values for leaf in _scalars(item)]


def has_value(record: Mapping[str, Any], field: str) -> bool:
    """Return whether a record has anything but null, empty arrays and empty objects under a field."""
    return any(map(_is_something, _values_at(record, field)))


def collect_record_values(record: Mapping[str, Any], field: str) -> list[Scalar]:
    """Return the values that filters compare: words for text fields, else the scalars or the product's default."""
    leaves = collect_scalars(record, field)
    if is_text(field):
        texts = (leaf for leaf in leaves if isinstance(leaf, str))
        # Split in one call; a newline is no letter, so words of two texts never join.
        joined = "\n".join(map(without_markup, texts) if field.endswith("html") else texts)
        return list(dict.fromkeys(split_words(joined)))
    # Only products have defaults; users are filtered by the same language.
    if not leaves and "product_id" in record:
        if field == "product_group_id":
            return collect_scalars(record, "product_id")
        if field in _PRODUCT_DEFAULTS:
            return [_PRODUCT_DEFAULTS[field]]
    return leaves


def build_field_reader(field: str) -> Callable[[Mapping[str, Any]], tuple[bool, Sequence[Scalar]]]:
    """Return a function that reads one field of many records, as `has_value` and `collect_record_values` in one call.

    Cost:
        0.2 microseconds for each record with a number or a text, 0.6 with a list
    """
    cut = is_text(field)
    dotted = "." in field
    default = field in DEFAULTED
    markup = field.endswith("html")
    nothing: tuple[bool, Sequence[Scalar]] = (False, ())

    def read(record: Mapping[str, Any]) -> tuple[bool, Sequence[Scalar]]:
        value = record.get(field)
        if cut:
            if type(value) is str:
                return True, list(dict.fromkeys(split_words(without_markup(value) if markup else value)))
            return nothing if value is None and not dotted else _both(record, field)
        if value is None:
            if default:
                return _both(record, field)
            if not dotted:
                return nothing
            values = _values_at(record, field)
            if len(values) != 1:
                return _both(record, field) if values else nothing
            value = values[0]
        # `type` in place of `isinstance`, since nearly all values are of these four.
        kind = type(value)
        if kind is str or kind is float or kind is int or kind is bool:
            return True, (value,)
        if kind is list:
            leaves: list[Scalar] = []
            _collect(value, leaves)
            if leaves:
                return True, leaves
        return _both(record, field)

    return read


def _both(record: Mapping[str, Any], field: str) -> tuple[bool, Sequence[Scalar]]:
    return has_value(record, field), collect_record_values(record, field)


def _collect(items: list[Any], leaves: list[Scalar]) -> None:
    """Append the scalars of a list and of its nested lists, in order."""
    for item in items:
        # Nearly every value has exactly one of these types, and `is` is quicker than `isinstance`.
        kind = type(item)
        if kind is str or kind is float or kind is int or kind is bool:
            leaves.append(item)
        elif kind is list:
            _collect(item, leaves)
        elif isinstance(item, (str, int, float)):
            leaves.append(item)


def collect_locations(record: Mapping[str, Any], field: str) -> list[tuple[float, float]]:
    """Return the points (latitude, longitude in degrees) under a field; other values are skipped."""
    values = _values_at(record, field)
    points: list[tuple[float, float]] = []
    while values:
        item = values.pop()
        if isinstance(item, list):
            values.extend(item)
        elif isinstance(item, dict):
            lat = item.get("lat")
            lon = item.get("lon")
            if _is_degree(lat) and _is_degree(lon):
                points.append((lat, lon))
    return points


def list_paths(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield every field of a record that a filter may name, objects and their content."""
    waiting: list[tuple[str, Any]] = [("", record)]
    while waiting:
        prefix, item = waiting.pop()
        if isinstance(item, list):
            waiting.extend((prefix, element) for element in item if isinstance(element, (dict, list)))
        elif isinstance(item, Mapping):
            for key, value in item.items():
                path = prefix + key
                yield path
                if isinstance(value, (dict, list)):
                    waiting.append((path + ".", value))


def _values_at(record: Mapping[str, Any], field: str) -> list[Any]:
    """Return the values at the end of a path; the two usual cases first."""
    direct = record.get(field)
    if direct is not None or "." not in field:
        return [] if direct is None else [direct]
    outer, _, name = field.partition(".")
    inner = record.get(outer)
    if type(inner) is dict and (direct := inner.get(name)) is not None:
        return [direct]
    return list(_walk(record, tuple(field.split("."))))


def _is_degree(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 360


def _is_something(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_is_something, value))
    return bool(value) if isinstance(value, dict) else value is not None


def _scalars(value: object) -> Iterator[Scalar]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (str, bool, int, float)):
            yield item
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def _walk(value: object, path: tuple[str, ...]) -> Iterator[object]:
    """Yield the values at the end of a path, in order."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, list):
            # Reversed, as the list is a stack: the values come out in their order.
            waiting.extend((element, depth) for element in reversed(item))
        elif depth == len(path):
            yield item
        elif isinstance(item, Mapping):
            inner = item.get(path[depth])
            if inner is not None:
                waiting.append((inner, depth + 1))
            # A key that contains dots itself, such as {"a.b": 1} for the field `a.b`.
            if depth + 1 < len(path) and (whole := item.get(".".join(path[depth:]))) is not None:
                waiting.append((whole, len(path)))
