"""What the newest interactions of a user say about their interests, as counts and as sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.clock import iso_ms
from cluster.records.interaction import RecentEvent

_WEIGHTS: Mapping[str, float] = {
    "checkout": 5.0,
    "subscribe": 4.0,
    "add_to_cart": 3.0,
    "add_to_collection": 3.0,
    "like": 2.0,
    "bookmark": 2.0,
    "share": 2.0,
    "complete": 2.0,
    "rate": 2.0,
    "dislike": -3.0,
    "remove_from_cart": -1.0,
    "refund": -4.0,
    "impression": 0.1,
    "viewable_impression": 0.1,
}
"Weights of types; others count 1. They only order this description, not recommendations."
_VERBS: Mapping[str, str] = {
    "product_detail_page_view": "looked at",
    "checkout": "bought",
    "add_to_cart": "put into the cart",
    "read": "read",
    "watch": "watched",
    "listen": "listened to",
    "like": "liked",
    "click": "clicked on",
    "rate": "rated",
    "bookmark": "bookmarked",
    "share": "shared",
    "impression": "was shown",
}
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class UserProfileView:
    """Interests of a user."""

    sentences: tuple[str, ...]
    types: dict[str, int]
    categories: tuple[tuple[str, float], ...]
    "(name, share of the weight)"
    brands: tuple[tuple[str, float], ...]
    price: tuple[float, float] | None
    "Lowest and highest price of bought or viewed products."


def summarize_interests(
    events: Sequence[RecentEvent], products: Mapping[str, Mapping[str, Any]], *, is_cut: bool = False
) -> UserProfileView:
    """Describe a user by the newest interactions and the records of their products.

    `is_cut`: there may be earlier interactions, so the counts are lower bounds.
    """
    types = Counter(event.type for event in events)
    categories = defaultdict[str, float](float)
    brands = defaultdict[str, float](float)
    prices: list[float] = []
    for event in events:
        weight = _WEIGHTS.get(event.type, 1.0)
        for product_id in event.product_ids:
            product = products.get(product_id)
            if product is None:
                continue
            for path in _paths(product):
                categories[path] += weight
            brand = product.get("brand")
            if isinstance(brand, str) and brand:
                brands[brand] += weight
            price = product.get("price")
            if isinstance(price, int | float) and weight > 0:
                prices.append(float(price))
    view = UserProfileView(
        (),
        dict(types.most_common()),
        _shares(categories),
        _shares(brands),
        (min(prices), max(prices)) if prices else None,
    )
    return UserProfileView(
        _sentences(events, view, is_cut), view.types, view.categories, view.brands, view.price
    )


def _paths(product: Mapping[str, Any]) -> list[str]:
    paths = product.get("categories") or ()
    return list(
        dict.fromkeys(" > ".join(map(str, path)) for path in paths if isinstance(path, list) and path)
    )


def _shares(counts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    total = sum(value for value in counts.values() if value > 0)
    ranked = sorted(counts.items(), key=lambda entry: -entry[1])
    return tuple((name, round(value / total, 3)) for name, value in ranked[:10] if value > 0)


def _sentences(events: Sequence[RecentEvent], view: UserProfileView, is_cut: bool) -> tuple[str, ...]:
    if not events:
        return ("No interactions yet. Recommendations are popular and trending products.",)
    times = [event.at_ms for event in events]
    first = iso_ms(min(times))[:10]
    last = iso_ms(max(times))[:10]
    actions = ", ".join(
        f"{_VERBS.get(kind, kind.replace('_', ' '))} {'at least ' * is_cut}{count:,}"
        for kind, count in view.types.items()
    )
    sentences = [f"Between {first} and {last}: {actions} ({len(events):,} newest interactions)."]
    if view.categories:
        sentences.append(f"Prefers {_name_shares(view.categories)}.")
    if view.brands:
        sentences.append(f"Brands: {_name_shares(view.brands)}.")
    if view.price is not None:
        sentences.append(f"Prices from {view.price[0]:,.2f} to {view.price[1]:,.2f}.")
    return tuple(sentences)


def _name_shares(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} ({share:.0%})" for name, share in shares[:MOST_NAMED])
