"""Plain interactions are accepted exactly as the schema accepts them, and nothing else is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import KioskError
from cluster.records.interaction import INTERACTION_TYPES
from cluster.records.validation.accepted_uploads import AcceptedInteractions
from cluster.records.validation.upload import parse_interactions
from jobs.ingest.plain_interactions import PLAIN_TYPES, PlainInteractions

NOW_MS = 1_800_000_000_000
GOOD = {
    "type": "click", "user_id": "u", "product_ids": ["p", "q"], "timestamp": "2026-03-02T09:15:00.250Z",
}  # fmt: skip

texts = st.one_of(
    st.sampled_from(["u", "p", "", "a b", "\x00", "é", "x" * 600, "\u2028", "click", "2026-03-02"]), st.text()
)
moments = st.sampled_from(
    [
        "2026-03-02T09:15:00.250Z", "2026-03-02T09:15:60.250Z", "2026-13-02T09:15:00.250Z", "2026-W10-1T09:15:00.25Z",
        "2026-03-02T09:15:00.25\u0663Z", "2026-03-02T09:15+00.250Z", "2099-03-02T09:15:00.250Z",
        "0000-03-02T09:15:00.250Z",
        "2026-03-02T09:15:00Z", "2026-03-02T24:00:00.000Z", "1960-03-02T09:15:00.001Z",
    ]
)  # fmt: skip
values = st.one_of(st.none(), st.integers(), st.floats(), texts, st.lists(texts, max_size=3))
records = st.fixed_dictionaries(
    {"type": st.sampled_from([*INTERACTION_TYPES, "nothing"])},
    optional={
        "user_id": texts,
        "anonymous_id": texts,
        "product_ids": st.one_of(st.lists(texts, max_size=4), values),
        "timestamp": st.one_of(moments, values),
        "duration": values,
        "quantities": values,
        "colour": values,
    },
)


def _parse_for_import(rows: list[dict[str, Any]]) -> AcceptedInteractions:
    """Validate rows as the API does; an import looks up no products, so it lists none."""
    return replace(parse_interactions(copy.deepcopy(rows), now_ms=NOW_MS), product_ids={})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(records, st.just(GOOD)), max_size=4))
def test_what_is_accepted_comes_out_as_the_schema_has_it(rows: list[dict[str, Any]]) -> None:
    plain = PlainInteractions()
    for _ in range(2):  # the second time every id is known
        accepted = plain.accept(copy.deepcopy(rows), NOW_MS)
        if accepted is not None:
            assert accepted == _parse_for_import(rows)


@pytest.mark.parametrize("kind", sorted(PLAIN_TYPES))
def test_plain_ones_of_every_such_type_are_accepted(kind: str) -> None:
    rows = [{**GOOD, "type": kind}, {**GOOD, "type": kind, "anonymous_id": "v"}]
    accepted = PlainInteractions().accept(copy.deepcopy(rows), NOW_MS)
    assert accepted is not None
    assert accepted == _parse_for_import(rows)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "impression"}, {"type": "rate"}, {"type": "nonsense"}, {"product_ids": []}, {"product_ids": "p"},
        {"product_ids": ["p", 3]}, {"product_ids": [""]}, {"product_ids": ["\x00"]}, {"user_id": ""}, {"user_id": 7},
        {"user_id": "x" * 513}, {"timestamp": "2026-03-02"}, {"timestamp": None}, {"duration": 3.0},
        {"service_id": None}, {"product_ids": ["p"] * 101},
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_schema(change: dict[str, Any]) -> None:
    assert PlainInteractions().accept([{**GOOD, **change}], NOW_MS) is None


def test_a_bad_id_is_not_remembered_as_good() -> None:
    plain = PlainInteractions()
    bad = {**GOOD, "user_id": "\x00"}
    assert plain.accept([bad], NOW_MS) is None
    assert plain.accept([bad], NOW_MS) is None
    with pytest.raises(KioskError):
        parse_interactions([bad], now_ms=NOW_MS)
