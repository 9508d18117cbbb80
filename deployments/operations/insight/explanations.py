"""Explanations of the API as sentences: why a product stands where it does, and why another one is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SOURCES: Mapping[str, str] = {
    "live:trend": "Trending now",
    "live:popular": "Popular",
    "live:newest": "New in the catalog",
    "live:together": "Viewed or bought together",
    "live:baskets": "Often bought together",
    "learned:baskets": "Often bought together, by the training data",
    "live:related": "Listed as related in the catalog",
    "live:content": "Similar texts",
    "live:cohort": "Trending among similar users",
    "new:content": "New, and similar to popular products",
    "learned:cohort": "Popular among similar users",
    "learned:popularity": "Popular in the training data",
    "newer": "Newer than products of the same score",
    "learned:rules": "Often bought after products of this user",
    "learned:session_knn": "Often viewed next after recent products",
    "learned:transformer": "Likely next after recent products",
    "learned:reranker": "Clicked in lists like this one",
    "learned:repeats": "Bought before, and due again",
    "learned:content_knn": "Similar to products of this user",
    "learned:als": "Chosen by users with a similar history",
    "learned:graph_filter": "Chosen by users with a similar history",
    "learned:content_regression": "Similar to popular products",
    "learned:trend": "Trending in the training data",
    "learned:ease": "Chosen by users with a similar history",
    "learned:item_knn": "Chosen by users with a similar history",
}
"Names of score components -> what they mean."
_RELATIONS: Mapping[str, str] = {
    "live:together": "Viewed or bought together with {}",
    "live:baskets": "Often bought together with {}",
    "learned:baskets": "Often bought together with {}",
    "live:related": "Listed as related to {} in the catalog",
    "live:content": "Similar to {}",
    "learned:rules": "Often bought after {}",
    "learned:session_knn": "Often viewed next after {}",
    "learned:content_knn": "Similar to {}",
    "learned:item_knn": "Chosen by users who chose {}",
    "learned:ease": "Chosen by users who chose {}",
}
"Names of score components that connect two products -> the sentence with the title of the other product."
MOST_REASONS = 3
MADE_WAY = "made way for others"
"Cause of a move that no rule names: of a product whose neighbours were moved."


@dataclass(frozen=True, slots=True)
class ProductReason:
    """Why a product stands at its place."""

    product_id: str
    place: int
    "0-based, in the whole list."
    score: float
    "Key by which the list is sorted: in lists of similar products the likeness, else the whole score."
    reasons: tuple[str, ...]
    "Sentences, the strongest first."
    parts: tuple[tuple[str, float], ...]
    "Score components by size; those that connect it with the products of the query come first."


def explain_product(product: Mapping[str, Any], related: Mapping[str, str] = {}) -> ProductReason:
    """Return the reasons of a product of an answer that was requested with `explain`.

    `related`: score component -> title of the product of the user's history that it connects the product with.
    """
    explanation = product.get("_explain") or {}
    similar = explanation.get("similar_parts") or {}
    parts = _order(similar) + _order(explanation.get("score_parts") or {})
    # Several components may have the same words; each sentence stands there once.
    spoken = dict.fromkeys(
        describe_component(name, related.get(name, "")) for name, value in parts if value > 0
    )
    reasons = list(spoken)[:MOST_REASONS]
    # A product whose neighbours were moved changed its place, too; nothing moved it.
    moves = [move for move in explanation.get("moves") or () if move.get("by") != MADE_WAY]
    return ProductReason(
        product_id=str(product.get("product_id", "")),
        place=int(explanation.get("place", 0)),
        score=float(sum(similar.values()) if similar else explanation.get("score", 0.0)),
        reasons=(*reasons, *(_describe_move(move) for move in moves)),
        parts=tuple((name, float(value)) for name, value in parts),
    )


def _order(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda part: -abs(part[1]))


def describe_component(name: str, title: str = "") -> str:
    """Return what a component of a score means; with a title, how it connects the product with that one."""
    if title and name in _RELATIONS:
        return _RELATIONS[name].format(title)
    sentence = _SOURCES.get(name)
    if sentence is not None:
        return sentence
    source, _, part = name.partition(":")
    return f"Ranked by the model component “{part}”" if source == "learned" and part else f"Component {name}"


def describe_missing(reasons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons why a product is missing from a list, as sentences."""
    return [_describe_reason(reason) for reason in reasons]


def describe_rules(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the stored rules of an answer did, as sentences."""
    return [f"the rule {rule.get('name') or rule.get('rule')}: {rule.get('does')}" for rule in rules]


def _describe_move(move: Mapping[str, Any]) -> str:
    before = int(move.get("from", 0)) + 1
    after = int(move.get("to", 0)) + 1
    causes = {"diversity": "for diversity", "dither": "by dithering"}
    cause = causes.get(str(move.get("by")), f"by {move.get('by')}")
    return f"Moved from position {before} to {after} {cause}"


def _describe_reason(reason: Mapping[str, Any]) -> str:
    kind = reason.get("reason")
    clause = f" ({reason['clause']})" if reason.get("clause") else ""
    rank = int(reason.get("rank", 0)) + 1
    other = reason.get("as")
    sentences = {
        "returned": "it is in the list",
        "unknown": "there is no such product: it was never uploaded, or it was deleted",
        "too_new": "it was uploaded a moment ago and is not ranked yet",
        "out_of_stock": "it is not available",
        "filtered": f"{reason.get('by')} excludes it{clause}",
        "excluded": "the query excludes it by id",
        "shown_before": "an earlier page of this list held it",
        "anchor": str(reason.get("told") or "it is a product that the query starts from"),
        "below_the_cut": f"other products score higher: it has rank {rank} with the score {reason.get('score', 0):.3f}",
        "seen": "the user viewed or bought it recently" + (f", by its variant {other}" if other else ""),
        "same_group": f"its variant {other} stands for it, at rank {rank}",
        "no_candidate": f"it is no candidate: {reason.get('told', 'it was not ranked')}",
    }
    text = sentences.get(str(kind), str(reason.get("told") or kind))
    group = reason.get("group")
    if group:
        name = " > ".join(group) if isinstance(group, list | tuple) else str(group)
        return f"{text}, in the group {name}"
    return text
