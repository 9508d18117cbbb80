"""Filter passages by the stored products: required and preferred ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from actors.archive.messages import Snippet
from cluster.access_tier import access_of
from cluster.query.columnar.compile import matches
from cluster.query.language.parser import parse
from cluster.store.data.records import RecordStore

BOOST_FACTOR = 1.5
"Factor on the score of a passage whose product `boost_fq` matches."


async def load_products(
    records: RecordStore, app_id: str, product_ids: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    """Read products by id; deleted ones are absent, and locked ones, because answers are for everybody."""
    unique = list(dict.fromkeys(product_ids))
    stored = await records.get_many(app_id, "product", unique) if unique else []
    products = {
        name: orjson.loads(record) for name, record in zip(unique, stored, strict=True) if record is not None
    }
    return {name: product for name, product in products.items() if not access_of(product)}


def filter_passages(
    snippets: Sequence[Snippet], products: Mapping[str, Mapping[str, Any]], fq: str, boost_fq: str
) -> tuple[Snippet, ...]:
    """Drop passages that the filter excludes, and move preferred ones forward.

    Errors:
        FilterSyntax: a filter does not parse
    """
    required, preferred = (parse(text) if text.strip() else None for text in (fq, boost_fq))
    kept = []
    for snippet in snippets:
        product = products.get(snippet.product_id)
        if product is None or (required is not None and not matches(required, product)):
            continue
        if preferred is not None:
            factor = BOOST_FACTOR if matches(preferred, product) else 1.0
            snippet = replace(snippet, score=snippet.score * factor / BOOST_FACTOR)
        kept.append(snippet)
    return tuple(sorted(kept, key=lambda entry: -entry.score)) if preferred is not None else tuple(kept)
