"""Filter passages by the stored products (required and preferred ones), and add fields of these products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from actors.answers.render import find_picture, passage_from_snippet
from actors.archive.messages import Snippet
from cluster.access_tier import NOBODY, access_of, may_read
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.field_projection import Projection
from cluster.query.language.parser import parse
from cluster.records.question import CitedPassage, Question
from cluster.store.data.records import RecordStore

BOOST_FACTOR = 1.5
"Factor on the score of a passage whose product `boost_fq` matches."


async def load_products(
    records: RecordStore, app_id: str, product_ids: Sequence[str], tiers: frozenset[str] = NOBODY
) -> dict[str, Mapping[str, Any]]:
    """Read products by id; deleted ones are absent, and those that a user with these tiers may not read."""
    unique = list(dict.fromkeys(product_ids))
    stored = await records.get_many(app_id, "product", unique) if unique else []
    products = {
        name: orjson.loads(record) for name, record in zip(unique, stored, strict=True) if record is not None
    }
    return {name: product for name, product in products.items() if may_read(access_of(product), tiers)}


async def keep_readable(
    records: RecordStore, question: Question, snippets: Sequence[Snippet]
) -> tuple[list[Snippet], tuple[str, ...]]:
    """Return the passages for an entitled answer, and the accesses of the locked articles that they are from.

    The stored products decide, because an archive follows them a moment later.
    """
    ids = [snippet.product_id for snippet in snippets]
    products = await load_products(records, question.app_id, ids, frozenset(question.tiers))
    readable = [snippet for snippet in snippets if snippet.product_id in products]
    return readable, tuple(sorted({access_of(product) for product in products.values()} - {""}))


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
        if product is None or (required is not None and not matches_filter(required, product)):
            continue
        if preferred is not None:
            factor = BOOST_FACTOR if matches_filter(preferred, product) else 1.0
            # Divided, so that the score of a preferred passage stays at most 1.
            snippet = replace(snippet, score=snippet.score * factor / BOOST_FACTOR)
        kept.append(snippet)
    return tuple(sorted(kept, key=lambda entry: -entry.score)) if preferred is not None else tuple(kept)


def collect_related_ids(products: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the ids in `related_ids` of some products, without those products."""
    named = (name for product in products.values() for name in product.get("related_ids") or ())
    return [name for name in dict.fromkeys(named) if name not in products]


def add_product_fields(
    snippets: Sequence[Snippet],
    products: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    *,
    pictured: bool,
) -> tuple[CitedPassage, ...]:
    """Add fields of their products to passages, and perhaps their pictures."""
    pick = Projection.of(names)
    passages = []
    for snippet in snippets:
        product = products.get(snippet.product_id, {})
        picture = find_picture(product) if pictured else None
        passages.append(passage_from_snippet(snippet, picture, **pick(product)))
    return tuple(passages)
