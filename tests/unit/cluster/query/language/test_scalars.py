"""Numbers, moments and words, one at a time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given

from cluster.query.language.field_values import collect_scalars, has_value, list_paths
from cluster.query.language.scalars import Bounds, Measure, equals_text, number_of, period_of
from cluster.query.language.text_analysis import split_words, without_markup
from tests.unit.cluster.query.strategies import STEADY, records


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("-4.50", -4.5), ("+1e3", 1000), (".5", 0.5), ("5.", 5), ("1e400", None), ("nan", None), ("inf", None),
     ("1_000", None), ("", None), (" 4", None), ("0x10", None), ("٤", None), ("4" * 500, None),
     (True, None), (10**400, None)],
)  # fmt: skip
def test_a_number_is_read_strictly(text: object, number: float | None) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024", "2024-01-01T00:00:00.000", "2024-12-31T23:59:59.999"),
        ("2024-02", "2024-02-01T00:00:00.000", "2024-02-29T23:59:59.999"),
        ("2024-12", "2024-12-01T00:00:00.000", "2024-12-31T23:59:59.999"),
        ("2024-02-29", "2024-02-29T00:00:00.000", "2024-02-29T23:59:59.999"),
        ("2024-01-01T10:30", "2024-01-01T10:30:00.000", "2024-01-01T10:30:59.999"),
        ("2024-01-01T10:30:05Z", "2024-01-01T10:30:05.000", "2024-01-01T10:30:05.999"),
        ("2024-01-01t10:30:05.1239z", "2024-01-01T10:30:05.123", "2024-01-01T10:30:05.123"),
        ("2024-01-01T01:00+02:30", "2023-12-31T22:30:00.000", "2023-12-31T22:30:59.999"),
        ("2024-01-01T00:00:00-0100", "2024-01-01T01:00:00.000", "2024-01-01T01:00:00.999"),
        ("9999", "9999-01-01T00:00:00.000", "9999-12-31T23:59:59.999"),
        ("9999-12", "9999-12-01T00:00:00.000", "9999-12-31T23:59:59.999"),
        ("0001-01-01", "0001-01-01T00:00:00.000", "0001-01-01T23:59:59.999"),
    ],
)
def test_a_shortened_moment_is_its_whole_period(text: str, first: str, last: str) -> None:
    period = period_of(text)
    assert period is not None
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    read = [(epoch + timedelta(milliseconds=at)).isoformat(timespec="milliseconds")[:-6] for at in period]
    assert read == [first, last]


@pytest.mark.parametrize(
    "text",
    [
        "0000",
        "2024-13",
        "2023-02-29",
        "2024-1-1",
        "24:00",
        "2024-01-01T25:00",
        "",
        "2024-01-01T10:30:61Z",
        "x" * 50,
    ],
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert period_of(text) is None


def test_ends_of_a_range_are_read_as_the_kind_both_fit() -> None:
    assert Bounds.of("1", "2", True, True).measure is Measure.NUMBER
    assert Bounds.of("2023", "2024", True, True).measure is Measure.NUMBER
    assert Bounds.of("2023", "2024-05", True, True).measure is Measure.MOMENT
    assert Bounds.of("2023", "2024", True, True, moments=True).measure is Measure.MOMENT
    assert Bounds.of("1", "Z", True, True).measure is Measure.TEXT


def test_equality_is_exact_for_texts_and_by_value_for_the_rest() -> None:
    assert equals_text("M", "M")
    assert not equals_text("M", "m")
    assert not equals_text("4.0", "4")
    assert equals_text(4, "4.0")
    assert equals_text(True, "True")
    assert not equals_text(True, "1")
    assert not equals_text(1, "true")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Steel Trowel, 12-inch", ["steel", "trowel", "12", "inch"]),
        ("snake_case", ["snake", "case"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ﬁne Ｗｉｄｅ", ["fine", "wide"]),
        ("東京タワー2号", ["東", "京", "タ", "ワ", "ー", "2", "号"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("Приве́т", ["приве", "т"]),
        ("¡¿…!", []),
    ],
)
def test_words_are_folded_runs_of_letters_and_digits(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a < b", "a < b"), ("a&lt;b&amp;c", "a<b&c"), ("<p>one</p><p>two</p>", " one  two "), ("b<b>ol</b>d", "bold"),
        ("x<!-- <p>no</p> -->y", "x y"), ("x<!-- open", "x"), ("a<script>var x = '<p>'</script>b", "a  b"),
        ("a<STYLE>p{}</STYLE>b", "a  b"),
        ("a<script>open", "a"), ("a<p open", "a"), ("<script2>a", " a"), ("1<2", "1<2"),
    ],
)  # fmt: skip
def test_markup_is_taken_out(markup: str, text: str) -> None:
    assert without_markup(markup) == text


def test_a_key_with_dots_matches_the_rest_of_a_path() -> None:
    assert collect_scalars({"a": {"b": [{"c.d": 1}, {"c": {"d": 2}}]}}, "a.b.c.d") == [1, 2]
    assert collect_scalars({"a.b": 1}, "a.b") == [1]


@STEADY
@given(records)
def test_every_named_path_leads_somewhere_or_to_nothing_by_null(record: dict[str, object]) -> None:
    paths = set(list_paths(record))
    assert set(record) <= paths
    for path in ("custom_attributes.x", "custom_attributes.x.y", "children.title", "children.id"):
        if has_value(record, path):
            assert path in paths
        if collect_scalars(record, path):
            assert has_value(record, path)
