"""Lists of thousands: what is asked for holds at any place, and pages fit together wherever they begin."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.recommender.messages import Boost, DiversityRule, UserQuery
from actors.recommender.ranking.candidates import BLOCK_SIZE
from actors.recommender.rerank.rerank import rerank
from actors.recommender.state.catalog import Catalog
from cluster.query.language.parser import parse

COUNT = 3_400


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Products p0..p3399 in the order of their ranking; every 17th is of brand B, the rest has three colours."""
    made = Catalog()
    for number in range(COUNT):
        brand = "B" if number % 17 == 16 else "A"
        made.put({"product_id": f"p{number}", "brand": brand, "color": "rgb"[number * 7 % 11 % 3]})
    return made


def page(catalog: Catalog, start: int, rows: int, **query: Any) -> list[int]:
    request = UserQuery(kind="user_to_products", app_id="shop", engine_id="default", **query)
    placed = rerank(list(range(COUNT)), request, catalog, start=start, rows=rows, seed=7)
    return [item.row for item in placed]


def boost(text: str, *positions: int, bury: bool = False) -> Boost:
    return Boost(parse(text), tuple(positions) or None, bury=bury)


@pytest.mark.parametrize("place", [0, 5, 999, 1_000, 1_001, 2_345, COUNT - 1])
def test_a_position_holds_wherever_it_is(catalog: Catalog, place: int) -> None:
    boosts = (boost("brand:B", place),)
    assert page(catalog, place, 1, boosts=boosts) == [16]
    whole = page(catalog, 0, COUNT, boosts=boosts)
    assert sorted(whole) == list(range(COUNT))
    assert [row for row in whole if row != 16] == [row for row in range(COUNT) if row != 16]


def test_the_next_best_boosted_products_have_the_next_positions(catalog: Catalog) -> None:
    whole = page(catalog, 0, COUNT, boosts=(boost("brand:B", 2_000, 3, 1_500),))
    assert [whole[place] for place in (3, 1_500, 2_000)] == [16, 33, 50]


def test_equal_colours_keep_their_distance_on_deep_pages_too(catalog: Catalog) -> None:
    whole = page(catalog, 0, 2 * BLOCK_SIZE, spacing=(DiversityRule("color", 1),))
    colours = [catalog.record(row)["color"] for row in whole]
    close = [at for at, (left, right) in enumerate(pairwise(colours)) if left == right]
    assert set(close) <= {BLOCK_SIZE - 1}
    assert page(catalog, 1_200, 40, spacing=(DiversityRule("color", 1),)) == whole[1_200:1_240]


def test_buried_products_come_last_among_those_that_may_move(catalog: Catalog) -> None:
    whole = page(catalog, 0, BLOCK_SIZE, boosts=(boost("brand:A", bury=True),))
    assert whole[:3] == [16, 33, 50]
    assert whole[-1] == 999
    both = page(catalog, 0, BLOCK_SIZE, boosts=(boost("product_id:p0", 7), boost("brand:A", bury=True)))
    assert both[7] == 0


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, COUNT), max_size=6),
    positions=st.lists(st.integers(0, COUNT + 10), max_size=3),
    dithering=st.sampled_from([1.0, 4.0]),
    spacing=st.sampled_from(
        [(), (DiversityRule("color", 2),), (DiversityRule("color", always_together=True),)]
    ),
    bury=st.booleans(),
)
def test_pages_put_together_are_the_whole_list(
    catalog: Catalog, cuts: list[int], positions: list[int], dithering: float, spacing: Any, bury: bool
) -> None:
    boosts = (boost("brand:B", *positions, bury=bury),)
    options = {"boosts": boosts, "dithering": dithering, "spacing": spacing}
    whole = page(catalog, 0, COUNT, **options)
    assert sorted(whole) == list(range(COUNT))
    edges = [0, *sorted(cuts), COUNT]
    pages = [page(catalog, left, right - left, **options) for left, right in pairwise(edges)]
    assert [row for page_rows in pages for row in page_rows] == whole
