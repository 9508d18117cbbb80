from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender.messages import Boost, Circle, DiversityRule, UserQuery
from actors.recommender.rerank.diversity import diversify, gather_equal_values
from actors.recommender.rerank.exploration import dither, seed_from_names
from actors.recommender.rerank.rerank import RankedItem, rerank
from actors.recommender.state.catalog import Catalog
from cluster.query.language.parser import parse

BRANDS = "AABBAACDBB"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Ten products p0..p9, ranked in this order by the tests, with brands as above."""
    made = Catalog()
    for number, brand in enumerate(BRANDS):
        place = {"lat": 10.0 * number, "lon": 0.0}
        made.put({"product_id": f"p{number}", "brand": brand, "tags": [brand, "all"], "location": place})
    return made


def _placed(
    catalog: Catalog, *, start: int = 0, rows: int = 10, before: int = 0, **query: Any
) -> list[RankedItem]:
    request = UserQuery(kind="user_to_products", app_id="shop", engine_id="default", **query)
    return rerank(list(range(before, 10)), request, catalog, start=start, rows=rows, seed=7, before=before)


def _order(catalog: Catalog, **query: Any) -> str:
    return "".join(str(placed.row) for placed in _placed(catalog, **query))


def _boost(text: str, *positions: int, name: str = "") -> Boost:
    return Boost(parse(text), tuple(positions) or None, name)


def test_a_plain_query_returns_a_slice_of_the_ranking(catalog: Catalog) -> None:
    assert _order(catalog, start=3, rows=4) == "3456"


def test_boosts_without_positions_come_first_in_ranking_order(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:B"),)) == "2389" + "014567"


def test_boosts_with_positions_fill_their_slots_and_others_keep_their_order(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:B", 0, 4),)) == "2014356789"


def test_positions_count_from_the_start_of_the_list_not_of_the_page(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:D", 4),), start=3, rows=3) == "374"
    assert _order(catalog, boosts=(_boost("brand:D", 4),), before=3) == "3745689"
    assert _order(catalog, boosts=(_boost("brand:D", 1),), before=3) == "3456789"


def test_slots_without_a_boosted_product_go_to_the_next_normal_one(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:D", 1, 2, 3),)) == "0712345689"
    assert _order(catalog, boosts=(_boost("brand:Z", 0),)) == "0123456789"


def test_positions_beyond_the_list_change_nothing(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:D", 999_999),)) == "0123456789"


def test_the_earlier_rule_has_a_slot_that_two_want(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:D", 0), _boost("brand:C", 0, 1))) == "7601234589"


def test_rules_with_and_without_positions_work_together(catalog: Catalog) -> None:
    assert _order(catalog, boosts=(_boost("brand:B"), _boost("brand:D", 1))) == "2738901456"


def test_circles_boost_like_rules(catalog: Catalog) -> None:
    assert _order(catalog, boost_circles=(Circle(90, 0, 10),)) == "9012345678"
    assert _order(catalog, boost_circles=(Circle(90, 0, 10, positions=(1,)),)) == "0912345678"


def test_boosted_products_say_so_and_name_their_rules(catalog: Catalog) -> None:
    placed = _placed(
        catalog, boosts=(_boost("brand:B", name="spring"), _boost("tags:B", 9, name="sale")), rows=10
    )
    by_row = {item.row: item for item in placed}
    assert by_row[2].boosted
    assert by_row[2].rules == ("spring", "sale")
    assert not by_row[0].boosted
    assert by_row[0].rules == ()


def test_equal_values_keep_their_distance(catalog: Catalog) -> None:
    order = _order(catalog, spacing=(DiversityRule("brand", 1),))
    brands = [BRANDS[int(row)] for row in order]
    assert all(left != right for left, right in pairwise(brands))
    assert order[0] == "0"
    assert sorted(order) == list("0123456789")


def test_an_impossible_distance_leaves_the_order_unchanged(catalog: Catalog) -> None:
    assert _order(catalog, spacing=(DiversityRule("tags", 3),)) == "0123456789"
    assert _order(catalog, spacing=(DiversityRule("no_such_field", 3),)) == "0123456789"


def test_spacing_leaves_pinned_slots_alone_and_keeps_away_from_them(catalog: Catalog) -> None:
    order = _order(catalog, boosts=(_boost("product_id:p1", 1),), spacing=(DiversityRule("brand", 1),))
    assert order[1] == "1"
    assert BRANDS[int(order[0])] != "A"
    assert BRANDS[int(order[2])] != "A"


def test_spacing_does_not_move_products_out_of_the_boosted_front(catalog: Catalog) -> None:
    order = _order(catalog, boosts=(_boost("brand:(A B)"),), spacing=(DiversityRule("brand", 1),))
    assert set(order[:8]) == set("01452389")
    assert order[:4] == "0213"


def test_always_together_places_equal_values_side_by_side(catalog: Catalog) -> None:
    assert _order(catalog, spacing=(DiversityRule("brand", always_together=True),)) == "0145" + "2389" + "67"


@given(
    st.lists(st.integers(0, 60), unique=True, max_size=30),
    st.integers(0, 4),
    st.integers(0, 30),
    st.dictionaries(st.integers(0, 29), st.integers(0, 60), max_size=4),
    st.integers(0, 5),
)
def test_arranging_never_loses_or_doubles_a_product(
    rows: list[int], distance: int, places: int, pins: dict[int, int], front: int
) -> None:
    pinned: dict[int, int] = {}
    for place, row in pins.items():
        if row in rows and row not in pinned.values() and place < len(rows):
            pinned[place] = row
    rules = [DiversityRule("f", distance), DiversityRule("g", always_together=True)]

    def values_of(row: int, field: str) -> frozenset[str]:
        return frozenset({str(row % (3 if field == "f" else 5))})

    order = diversify(
        gather_equal_values(rows, rules, values_of),
        rules,
        values_of,
        pinned=pinned,
        front=front,
        places=places,
    )
    assert Counter(order) == Counter(rows)
    assert all(order[place] == row for place, row in pinned.items())


@given(st.lists(st.sampled_from("abcd"), max_size=14))
def test_a_distance_of_one_is_kept_wherever_it_can_be(values: list[str]) -> None:
    def values_of(row: int, field: str) -> frozenset[str]:
        return frozenset(values[row])

    rows = list(range(len(values)))
    order = diversify(rows, [DiversityRule("f")], values_of, pinned={}, front=0, places=len(rows))
    possible = max(Counter(values).values(), default=0) <= (len(values) + 1) // 2
    if possible:
        assert all(values[left] != values[right] for left, right in pairwise(order))


def test_dithering_one_is_off_and_more_moves_more() -> None:
    rows = list(range(100))
    assert dither(rows, 1.0, seed_from_names("a")) == rows
    moved = [
        np.mean(
            [
                np.abs(np.argsort(dither(rows, strength, seed_from_names(str(n)))) - rows)[:20].mean()
                for n in range(40)
            ]
        )
        for strength in (1.5, 3.0, 5.0)
    ]
    assert moved[0] < moved[1] < moved[2]


def test_the_noise_belongs_to_reader_and_session() -> None:
    rows = list(range(50))
    assert dither(rows, 5, seed_from_names("u:a", "s1")) == dither(rows, 5, seed_from_names("u:a", "s1"))
    assert dither(rows, 5, seed_from_names("u:a", "s1")) != dither(rows, 5, seed_from_names("u:b", "s1"))
    assert seed_from_names("ab", "c") != seed_from_names("a", "bc")


def test_the_noise_of_a_product_stays_while_pages_are_turned() -> None:
    whole, deeper = (
        dither(list(range(30)), 4, seed_from_names("x")),
        dither(list(range(60)), 4, seed_from_names("x")),
    )
    assert [row for row in deeper if row < 30] == whole


def test_the_noise_is_normal() -> None:
    from actors.recommender.rerank.exploration import _normal

    deviates = _normal(np.arange(20_000), seed_from_names("x"))
    assert abs(deviates.mean()) < 0.03
    assert deviates.std() == pytest.approx(1, abs=0.03)
