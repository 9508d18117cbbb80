"""Formulas for ordering."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import FilterSyntax
from cluster.query.columnar.formula import DEEPEST, MOST_CHARACTERS, is_plain_field, parse_formula

FIELDS = {
    "price": np.array([10.0, 0.0, np.nan, -4.0]),
    "custom_attributes.weight": np.array([2.0, 3.0, 4.0, 0.5]),
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("price", [10, 0, None, -4]),
        ("price * 2 + 1", [21, 1, None, -7]),
        ("2 + 3 * 4", [14] * 4),
        ("(2 + 3) * 4", [20] * 4),
        ("2 ^ 3 ^ 2", [512] * 4),
        ("2 ** 3", [8] * 4),
        ("-2 ^ 2", [-4] * 4),
        ("2 ^ -1", [0.5] * 4),
        ("10 - 4 - 3", [3] * 4),
        ("7 % 4", [3] * 4),
        ("1 / price", [0.1, None, None, -0.25]),
        ("sqrt(price)", [math.sqrt(10), 0, None, None]),
        ("log(price)", [math.log(10), None, None, None]),
        ("pow(price, 2)", [100, 0, None, 16]),
        ("maximum(price, 1)", [10, 1, None, 1]),
        ("minimum(price, custom_attributes.weight, 1)", [1, 0, None, -4]),
        ("1e3", [1000] * 4),
        (".5", [0.5] * 4),
        ("exp(10000)", [None] * 4),
        ("9 ^ 9 ^ 9 ^ 9", [None] * 4),
        ("round(2.6) + floor(2.6) + ceil(2.2) + abs(-1)", [9] * 4),
    ],
)
def test_formulas_are_computed_for_every_row(text: str, values: list[float | None]) -> None:
    results = parse_formula(text).values(FIELDS, 4)
    for value, expected in zip(results.tolist(), values, strict=True):
        assert math.isnan(value) if expected is None else value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "kind", "position"),
    [
        ("", "empty", 0),
        ("price +", "token", 7),
        ("price price", "token", 6),
        ("(price", "token", 6),
        ("price)", "token", 5),
        ("sqrt", "token", 0),
        ("sqrt(1, 2)", "arguments", 0),
        ("pow(1)", "arguments", 0),
        ("__import__('os')", "function", 0),
        ("system(1)", "function", 0),
        ("price ; 1", "character", 6),
        ("1 == 1", "character", 2),
        ("(" * 40 + "1" + ")" * 40, "too_deep", 33),
        ("-" * 40 + "1", "too_deep", 33),
        ("1" + "+1" * 150, "too_many", 200),
        ("1" * 2000, "too_long", MOST_CHARACTERS),
    ],
)
def test_syntax_errors_have_a_position(text: str, kind: str, position: int) -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse_formula(text)
    assert (caught.value.facts["kind"], caught.value.facts["position"]) == (kind, position)


@given(st.text("0123456789.+-*/%^(), abcdefpowsqrtlog_", max_size=60))
def test_any_text_is_a_formula_or_a_mistake(text: str) -> None:
    try:
        formula = parse_formula(text)
    except FilterSyntax:
        return
    results = formula.values({name: np.array([1.0, np.nan, -3.0]) for name in formula.fields}, 3)
    assert results.shape == (3,)
    assert not np.isinf(results).any()


def test_depth_and_size_are_bounded_and_names_differ_from_formulas() -> None:
    assert parse_formula("(" * DEEPEST + "1" + ")" * DEEPEST).values({}, 1).tolist() == [1]
    assert is_plain_field("sale_price")
    assert is_plain_field("custom_attributes.weight")
    assert not is_plain_field("price * 2")
    assert not is_plain_field("sqrt")
