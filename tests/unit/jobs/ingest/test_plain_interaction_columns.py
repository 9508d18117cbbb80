"""Plain interactions that are columns come out byte for byte as their rows do, and nothing else is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.ingest.files.columns import ColumnRows
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.plain_interactions import PlainColumns
from jobs.ingest.validation import CheckedChunk, check_columns, check_interactions

NOW_MS = 1_800_000_000_000
AT_MS = 1_772_442_900_250

names = st.one_of(
    st.sampled_from(
        ["u", "v", "p", "", "a b", "é", "\U0001f600", 'q"q', "b\\s", "n\nl", "\x00", "\u2028", "x" * 600]
    ),
    st.text(max_size=4),
)
plain_names = st.sampled_from(["u", "v", "p", "q", "é 7", "\U0001f600"])
moments = st.one_of(
    st.integers(-62_135_596_800_000, 253_402_300_799_999),
    st.integers(AT_MS - 5, AT_MS + 5),
    st.just(NOW_MS + 99),
)
MOMENT = pa.timestamp("ms", "UTC")


def columns_of(draw: st.DrawFn, kinds: Any, ids: Any, who: Any, fewest: int) -> Any:
    count = draw(st.integers(1, 6))

    def column(values: Any, kind: Any) -> Any:
        return pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)

    made = {
        "type": column(kinds, pa.string()),
        "user_id": column(who, pa.string()),
        "anonymous_id": column(who, pa.string()),
        "product_ids": column(st.lists(ids, min_size=fewest, max_size=3), pa.list_(pa.string())),
        "timestamp": column(moments, MOMENT),
        "colour": column(st.none(), pa.string()),
    }
    order = draw(st.permutations(sorted(made)))
    return pa.table({name: made[name] for name in order})


@st.composite
def plain_tables(draw: st.DrawFn) -> Any:
    who = draw(st.sampled_from([plain_names, st.one_of(plain_names, st.none(), st.just(""))]))
    return columns_of(draw, st.sampled_from(["click", "like", "checkout"]), plain_names, who, 1)


@st.composite
def any_tables(draw: st.DrawFn) -> Any:
    kinds = st.sampled_from(["click", "checkout", "search", "rate", "zap", "", None])
    return columns_of(draw, kinds, st.one_of(names, st.none()), st.one_of(names, st.none()), 0)


def by_columns(
    table: Any, plain: PlainColumns | None = None, rules: Sequence[str] = ()
) -> CheckedChunk[Any] | None:
    return check_columns(ColumnRows(table), 7, FieldMap.parse(rules), NOW_MS, plain or PlainColumns())


def by_rows(table: Any, rules: Sequence[str] = ()) -> CheckedChunk[Any]:
    read = FieldMap.parse(rules).build_row_mapper("parquet")
    return check_interactions(list(ColumnRows(table)), 7, read, NOW_MS)


@settings(max_examples=200, deadline=None)
@given(st.one_of(plain_tables(), any_tables()))
def test_what_is_accepted_comes_out_as_from_rows(table: Any) -> None:
    plain = PlainColumns()
    for _ in range(2):  # the second time every id is known
        accepted_part = by_columns(table, plain)
        if accepted_part is not None:
            assert accepted_part == by_rows(table)


@settings(max_examples=100, deadline=None)
@given(plain_tables())
def test_columns_of_plain_interactions_are_accepted_wherever_all_rows_are_good(table: Any) -> None:
    rows = by_rows(table)
    assert (by_columns(table) is None) == bool(rows.refused)


def good(**changed: Any) -> Any:
    columns = {
        "type": pa.array(["click", "like", "click"]),
        "user_id": pa.array(["u", "v", "u"]),
        "product_ids": pa.array([["p", "q"], ["p"], ["r"]]),
        "timestamp": pa.array([AT_MS + 5, AT_MS, NOW_MS + 7], MOMENT),
    }
    return pa.table({**columns, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"user_id": pa.array([1, 2, 1])},
        {"user_id": pa.array(["u", "v", "u"], pa.large_string())},
        {"type": pa.array(["click", "like", "click"]).dictionary_encode()},
        {"product_ids": pa.array([[1, 2], [3], [4]])},
        {"product_ids": pa.array([["p"], ["q"], ["r"]], pa.large_list(pa.large_string()))},
        {"timestamp": pa.array([AT_MS // 1000, AT_MS // 1000 + 1, 5])},
        {"timestamp": pa.array([AT_MS, AT_MS + 1, 1], pa.int64())},
        {"timestamp": pa.array([AT_MS * 1000 + 999, 5, -1], pa.timestamp("us"))},
        {"timestamp": pa.array([AT_MS * 1_000_000 + 1, 5, -1_500_000], pa.timestamp("ns", "Europe/Berlin"))},
        {"timestamp": pa.array([AT_MS // 1000, 5, -1], pa.timestamp("s"))},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_columns_of_other_types_that_mean_the_same_are_accepted(changed: dict[str, Any]) -> None:
    accepted_part = by_columns(good(**changed))
    assert accepted_part is not None
    assert accepted_part == by_rows(good(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"type": pa.array(["click", "rate", "click"])},
        {"type": pa.array(["click", None, "click"])},
        {"user_id": pa.array(["u", 'v"', "u"])},
        {"user_id": pa.array(["u", "\x00", "u"])},
        {"user_id": pa.array(["u", None, "u"])},
        {"user_id": pa.array([True, False, True])},
        {"product_ids": pa.array([["p"], [], ["r"]])},
        {"product_ids": pa.array([["p"], None, ["r"]])},
        {"product_ids": pa.array([["p"], [None], ["r"]])},
        {"product_ids": pa.array([["p"], [""], ["r"]])},
        {"product_ids": pa.array([["p"], ["q"] * 101, ["r"]])},
        {"product_ids": pa.array([[True], [False], [True]])},
        {"product_ids": pa.array(["p", "q", "r"])},
        {"timestamp": pa.array([1, None, 2], MOMENT)},
        {"timestamp": pa.array([1, 2, 300_000_000_000_000], MOMENT)},
        {"timestamp": pa.array([1, 2, -(2**63)], pa.int64())},
        {"timestamp": pa.array([1.5, 2, 3])},
        {"timestamp": pa.array([datetime(2026, 3, 2, tzinfo=timezone.utc).date()] * 3)},
        {"duration": pa.array([None, 3.0, None])},
        {"user_id": pa.Array.from_buffers(
            pa.string(), 3, [None, pa.array([0, 1, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"u\xffv")]
        )},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_everything_else_is_left_to_the_rows(changed: dict[str, Any]) -> None:
    assert by_columns(good(**changed)) is None


def test_a_bad_id_is_not_remembered_as_good() -> None:
    plain = PlainColumns()
    bad = good(user_id=pa.array(["u", 'v"', "u"]))
    assert by_columns(bad, plain) is None
    assert by_columns(bad, plain) is None
    assert by_columns(good(), plain) is not None


def test_columns_cut_into_several_pieces_are_one_chunk() -> None:
    cut = pa.concat_tables([good().slice(1, 2), good().slice(0, 1)])
    assert cut["type"].num_chunks == 2
    accepted_part = by_columns(cut)
    assert accepted_part is not None
    assert accepted_part == by_rows(cut)


@pytest.mark.parametrize(
    ("rules", "accepted"),
    [
        (("type=event", "user_id=who", "product_ids=what", "timestamp=at"), True),
        (("timestamp=at", "type:=click", "product_ids=what", "anonymous_id=who"), True),
        (("type=event", "user_id=who", "product_ids=what;", "timestamp=at"), True),
        (("type=event", "user_id=nobody", "anonymous_id=who", "product_ids=what", "timestamp=at"), False),
        (("type=event", "user_id=who", "product_ids=what", "timestamp=at", "rating:=3"), False),
        (("type=event", "user_id=who", "user_id=what", "product_ids=what", "timestamp=at"), False),
    ],
)
def test_columns_under_other_names_are_accepted_by_the_mapping(
    rules: tuple[str, ...], accepted: bool
) -> None:
    table = good().rename_columns(["event", "who", "what", "at"])
    accepted_part = by_columns(table, rules=rules)
    assert (accepted_part is not None) == accepted
    if accepted_part is not None:
        assert accepted_part == by_rows(table, rules)
