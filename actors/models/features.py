"""Features of a product: a number for each word of its title, each value of its attributes, pairs of its tags or
categories and of these with its decade, its price band, and the years around its own.

A feature is the hash of its name, so a snapshot and a recommender need no shared dictionary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, islice
from itertools import product as product_of
from typing import Any

import mmh3
import numpy as np
import scipy.sparse as sp

from actors.language.folding import fold, tokenize
from actors.vectors.types import Rows

ALWAYS = mmh3.hash64(b"")[0]
"The feature of every product."

# Bounds of what one product adds: uploads decide how many values and how long.
_MOST_VALUES = 16
_LONGEST_VALUE = 80
_PLAIN = ("brand", "type", "color", "material", "size")
_LISTED = ("tags", "authors")
_MOST_PAIRED = 8
"Values of a field that are paired; eight give 28 pairs."
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_YEAR_SPANS = (5, 10, 20)
_DECADE = 10
_MOST_YEARS = 2
"Years of a product that are paired: a title may begin with another year than its last one."


def features_from_product(product: Mapping[str, Any]) -> list[int]:
    """Return the distinct features of a product.

    Cost:
        40 us for a title of eight words and a dozen values
    """
    names = chain(_list_names(product), _list_weak_names(product))
    return list(dict.fromkeys([ALWAYS, *(mmh3.hash64(name.encode())[0] for name in names)]))


def weak_features_from_product(product: Mapping[str, Any]) -> list[int]:
    """Return the features that say less than an attribute: words of the title, and pairs."""
    return [mmh3.hash64(name.encode())[0] for name in _list_weak_names(product)]


def pair_features_from_product(product: Mapping[str, Any]) -> list[int]:
    """Return the features that are pairs of tags, of categories, or of one of them with a decade."""
    return [mmh3.hash64(name.encode())[0] for name in _list_pair_names(product)]


def build_feature_matrix(products: Iterable[Iterable[int]], features: Rows) -> Any:
    """Return a matrix of the given features of products, without other features.

    Shapes:
        features: int64 [d], ascending
        returns: scipy CSR float32 [products, d] of ones
    """
    lists = [np.fromiter(hashes, np.int64) for hashes in products]
    lengths = np.array([len(hashes) for hashes in lists], np.int64)
    named = np.concatenate(lists) if lists else np.zeros(0, np.int64)
    owner = np.repeat(np.arange(len(lists)), lengths)
    # Features ascend, so a search replaces a dictionary of all hashes.
    places = np.searchsorted(features, named)
    matched = (
        # `named < named` is a mask of the right length with no true value.
        features[np.minimum(places, max(len(features) - 1, 0))] == named if len(features) else named < named
    )
    columns = places[matched]
    matrix = sp.csr_matrix(
        (np.ones(len(columns), np.float32), (owner[matched], columns)), shape=(len(lists), len(features))
    )
    # Sums run in this order, so products with equal features get equal scores to the last bit.
    matrix.sort_indices()
    return matrix


def _list_weak_names(product: Mapping[str, Any]) -> Iterator[str]:
    for word in tokenize(str(product.get("title") or "")):
        yield f"word:{word}"
    yield from _list_pair_names(product)


def _list_pair_names(product: Mapping[str, Any]) -> Iterator[str]:
    decades = [
        f"{start}:{(year + start) // _DECADE}"
        for year in _list_years(product)[-_MOST_YEARS:]
        for start in (0, _DECADE // 2)
    ]
    paths = ("/".join(map(str, path)) for path in product.get("categories") or ())
    for field, values in (("tags", product.get("tags") or ()), ("category", paths)):
        distinct = sorted({fold(str(value)[:_LONGEST_VALUE]) for value in islice(values, _MOST_PAIRED)})
        for first, second in combinations(distinct, 2):
            yield f"pair:{field}:{first}\0{second}"
        # taste for a kind of product is taste for its time too: comedies of the forties, dramas of today
        for value, decade in product_of(distinct, decades):
            yield f"pair:years:{field}:{value}\0{decade}"


def _list_years(product: Mapping[str, Any]) -> list[int]:
    """Return the years in the title, and the year of publication as the last one."""
    years = _YEAR.findall(str(product.get("title") or ""))
    published = str(product.get("published_at") or "")
    if published[4:5] == "-":
        years.append(published[:4])
    return [int(year) for year in years if year.isdigit()]


def _list_year_names(product: Mapping[str, Any]) -> Iterator[str]:
    """Yield overlapping spans of years, so that products of near years share some of them."""
    for year in _list_years(product):
        for span in _YEAR_SPANS:
            yield f"years:{span}:{year // span}"
            # The same spans, shifted by a half: two near years share one of both, wherever the borders are.
            yield f"years:{span}+:{(year + span // 2) // span}"


def _list_price_names(product: Mapping[str, Any]) -> Iterator[str]:
    """Yield two overlapping bands; each band ends at twice the price of its beginning."""
    price = product.get("sale_price") or product.get("price")
    if isinstance(price, int | float) and 0 < price < math.inf:
        # Ratios, not differences: 10 to 20 is as far as 1,000 to 2,000.
        step = math.log2(price)
        yield f"price:{math.floor(step)}"
        yield f"price+:{math.floor(step + 0.5)}"


def _list_names(product: Mapping[str, Any]) -> Iterator[str]:
    yield from _list_year_names(product)
    yield from _list_price_names(product)
    for field in _PLAIN:
        if product.get(field):
            yield _format_name(field, product[field])
    for path in product.get("categories") or ():
        for depth in range(1, len(path) + 1):
            yield _format_name("category", "/".join(map(str, path[:depth])))
    for field in _LISTED:
        for value in product.get(field) or ():
            yield _format_name(field, value)
    for field, value in (product.get("custom_attributes") or {}).items():
        for entry in islice(value if isinstance(value, list) else [value], _MOST_VALUES):
            if isinstance(entry, str | bool | int):
                yield _format_name(f"attribute:{field}", entry)


def _format_name(field: str, value: Any) -> str:
    return f"{field}:{fold(str(value)[:_LONGEST_VALUE])}"
