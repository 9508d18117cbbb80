"""The equations of docs/concepts/scoring.md, written down once more without arrays, give the scores that are served."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime
from itertools import groupby
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from tests.fakes.corner_shop import APP, INTERACTIONS, NOW_MS, recents

DAY_MS = 86_400_000
USER_IDS = ("gina", "carl")
WEIGHTS = {"checkout": 1.0, "add_to_cart": 0.7, "product_detail_page_view": 0.3, "click": 0.3, "read": 0.3}


def weigh(item: dict[str, Any]) -> float:
    """Equation 2."""
    seconds = item.get("duration")
    if item["type"] in ("read", "watch", "listen") and seconds:
        return 0.05 + 0.45 * min(seconds / 120, 1)
    if item["type"] == "product_detail_page_view" and seconds and seconds < 5:
        return 0.0
    if item["type"] in ("impression", "viewable_impression"):
        return 0.0
    return WEIGHTS[item["type"]]


def at_ms(item: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(item["timestamp"].replace("Z", "+00:00")).timestamp() * 1000)


def reader_of(item: dict[str, Any]) -> str:
    return str(item.get("user_id") or item.get("anonymous_id"))


def count_votes(half_life_days: float) -> dict[str, float]:
    """Equation 3, with the vote at the last interaction of the day."""
    votes: dict[tuple[str, str, int], tuple[float, int]] = {}
    for item in INTERACTIONS:
        for product in item["product_ids"]:
            key = product, reader_of(item), at_ms(item) // DAY_MS
            value, when = votes.get(key, (0.0, 0))
            votes[key] = max(value, weigh(item)), max(when, at_ms(item))
    counts: dict[str, float] = defaultdict(float)
    for (product, _, _), (value, when) in votes.items():
        counts[product] += value * 2 ** (-(NOW_MS - when) / (half_life_days * DAY_MS))
    return counts


def standardize(values: list[float]) -> list[float]:
    spread = pstdev(values)
    return [(value - fmean(values)) / spread if spread else 0.0 for value in values]


def explain(shop: Recommender, user_id: str) -> dict[str, dict[str, float]]:
    query = UserQuery("user_to_products", APP, "default", user_id=user_id, rows=50, explain=True)
    result = dispatch.answer(shop, query, recents(user_id), (), NOW_MS)
    return {record["product_id"]: record["_explain"]["score_parts"] for record in result.products}


def offered(shop: Recommender) -> list[str]:
    catalog = shop.overlay.catalog
    return [name for row, name in enumerate(catalog.product_ids) if catalog.offered[row]]


def profile(user_id: str) -> dict[str, float]:
    """Equation 7: the weights of products."""
    liked: dict[str, float] = {}
    interactions = sorted(
        (item for item in INTERACTIONS if reader_of(item) == user_id), key=lambda item: -at_ms(item)
    )
    for item in interactions:
        place = len(liked)
        for product in item["product_ids"]:
            if weigh(item):
                liked[product] = liked.get(product, 0.0) + weigh(item) * 2 ** (-place / 15)
    return liked


@pytest.mark.parametrize("user_id", USER_IDS)
def test_equation_4_gives_the_prior(shop: Recommender, user_id: str) -> None:
    names, catalog = offered(shop), shop.overlay.catalog
    week, month = count_votes(7), count_votes(30)
    newer = {name: 0.001 * row / (len(catalog) - 1) for row, name in enumerate(catalog.product_ids)}
    trend = standardize([week[name] for name in names])
    largest = max(month.values())
    popularity = standardize([math.log(1 + 1000 * month[name] / largest) for name in names])
    served = explain(shop, user_id)
    assert served
    for name, trending, popular in zip(names, trend, popularity, strict=True):
        if name in served:
            parts = served[name]
            assert parts.get("live:trend", 0) == pytest.approx(0.6 * (trending + newer[name]), abs=2e-3)
            assert parts.get("live:popular", 0) == pytest.approx(0.1 * popular, abs=2e-3)
            assert parts.get("live:newest", 0) == pytest.approx(newer[name], abs=1e-6)


@pytest.mark.parametrize("user_id", USER_IDS)
def test_equations_7_and_11_give_the_similarity_of_content(shop: Recommender, user_id: str) -> None:
    catalog, index = shop.overlay.catalog, shop.overlay.index
    vectors = {name: index.take(np.array([catalog.row_of(name)]))[0] for name in catalog.product_ids}
    liked = profile(user_id)
    direction = sum(weight * vectors[name] for name, weight in liked.items())
    direction = direction / np.linalg.norm(direction)
    similar = [float(vectors[name] @ direction) for name in offered(shop)]
    served = explain(shop, user_id)
    for name, value in zip(offered(shop), similar, strict=True):
        if name in served:
            expected = 0.8 * (value - fmean(similar)) / pstdev(similar)
            assert served[name].get("live:content", 0) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("user_id", USER_IDS)
def test_equation_10_gives_the_pairs(shop: Recommender, user_id: str) -> None:
    pairs: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, items in groupby(sorted(INTERACTIONS, key=reader_of), key=reader_of):
        steps = [
            (at_ms(item), product)
            for item in sorted(items, key=at_ms)
            if weigh(item) > 0
            for product in item["product_ids"]
        ]
        sessions: list[list[tuple[int, str]]] = []
        for when, product in steps:
            if not sessions or when - sessions[-1][-1][0] > 30 * 60_000:
                sessions.append([])
            if not sessions[-1] or sessions[-1][-1][1] != product:
                sessions[-1].append((when, product))
        for session in sessions:
            for first, (before, left) in enumerate(session):
                for lag, (after, right) in enumerate(session[first + 1 : first + 6], 1):
                    if left != right:
                        value = 2 ** (-(NOW_MS - after) / (60 * DAY_MS)) / lag
                        pairs[left][right] += value
                        pairs[right][left] += value * (1.0 if before == after else 0.5)
    names = list(shop.overlay.catalog.product_ids)
    total: dict[str, float] = defaultdict(float)
    for name, weight in profile(user_id).items():
        for other, value in pairs[name].items():
            total[other] += weight * value / sum(pairs[name].values())
    spread = pstdev([total[name] for name in names])
    served = explain(shop, user_id)
    assert any("live:together" in parts for parts in served.values())
    for name, parts in served.items():
        assert parts.get("live:together", 0) == pytest.approx(total[name] / spread, rel=0.02, abs=0.01)


@pytest.mark.parametrize("user_id", USER_IDS)
def test_equation_14_gives_the_score_that_is_shown(shop: Recommender, user_id: str) -> None:
    query = UserQuery("user_to_products", APP, "default", user_id=user_id, rows=50, explain=True)
    for record in dispatch.answer(shop, query, recents(user_id), (), NOW_MS).products:
        score = record["_explain"]["score"]
        assert record["_personalization_score"] == pytest.approx(
            0.5 + 0.5 * score / (4 + abs(score)), abs=1e-4
        )
