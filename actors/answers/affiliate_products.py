"""Select products of partners that stand beside an answer.

    related_ids of the cited articles, in their order     the publisher named them
    then products that a search with the question finds   at least one word of the question is in their text

Only products that the app's filter `affiliation_fq` selects and that are on offer. A refused answer has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.answers.render import find_question_words
from actors.archive.messages import Snippet
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.tree import Node

MOST_AFFILIATED = 5
SEARCHED = 20
"Passages of partner products that the search with the question returns."
FIELDS = (
    "title",
    "description",
    "url",
    "cover_image",
    "brand",
    "price",
    "original_price",
    "sale_price",
    "rating",
    "availability",
)
"Fields of a shown product, beside its id."
_LONGEST_TEXT = 500
_GONE = "OUT_OF_STOCK"


@dataclass(frozen=True, slots=True)
class AffiliationRules:
    """The part of an app's settings that selects products of partners."""

    fq: str = ""
    "Filter of partner products; empty: none is shown."
    hidden: tuple[str, ...] = ()
    "Fields that browsers can't read."


def no_affiliation(app_id: str) -> AffiliationRules:
    """Return the rules of an app without partners."""
    return AffiliationRules()


RulesOf = Callable[[str], AffiliationRules]


def list_relevant_ids(snippets: Iterable[Snippet], question: str) -> list[str]:
    """Return the products of passages that share a word with the question, best first."""
    return list(
        dict.fromkeys(
            snippet.product_id
            for snippet in snippets
            if find_question_words(f"{snippet.title} {snippet.text}", question)
        )
    )


def select_affiliated(
    product_ids: Sequence[str], products: Mapping[str, Mapping[str, Any]], rule: Node, hidden: Sequence[str]
) -> tuple[dict[str, Any], ...]:
    """Return the shown fields of the products that the filter selects, in the order of the ids."""
    fields = [name for name in FIELDS if name not in hidden]
    shown = []
    for product_id in dict.fromkeys(product_ids):
        product = products.get(product_id)
        # Also those that the search found: the stored record decides, because the archive may lag behind it.
        if product is None or product.get("availability") == _GONE or not matches_filter(rule, product):
            continue
        kept = {name: _shorten(product[name]) for name in fields if product.get(name) is not None}
        shown.append({"product_id": product_id, **kept})
        if len(shown) == MOST_AFFILIATED:
            break
    return tuple(shown)


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:_LONGEST_TEXT].rpartition(" ")[0] + " …"
    return value
