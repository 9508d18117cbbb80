"""Parts sealed at once, merged whole or in stretches of terms: all the same."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.retrieval.lexical.index_segments import IndexSegments
from actors.retrieval.lexical.product_postings import (
    IndexSegment,
    TermVector,
    build_segment,
    empty_segment,
    merge_segments,
)

CODES = st.sampled_from([3, 2**20, 2**40 + 1, 2**62, 2**63 + 5, 2**64 - 1])
TEXTS = st.lists(st.lists(st.tuples(CODES, st.integers(0, 8)), max_size=6), max_size=8)


def texts_of(terms_of_rows: list[list[tuple[int, int]]], every: int, first: int) -> list[TermVector]:
    return [
        TermVector(row, [code for code, _ in terms_of_rows[row]], [field for _, field in terms_of_rows[row]])
        for row in range(first, len(terms_of_rows), every)
    ]


def same(segment: IndexSegment, other: IndexSegment) -> None:
    for name, array in segment.arrays().items():
        assert array.tolist() == other.arrays()[name].tolist(), name
        assert array.dtype == other.arrays()[name].dtype, name


@given(TEXTS, st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_merging_gives_what_sealing_at_once_gives(
    terms_of_rows: list[list[tuple[int, int]]], at_once: int
) -> None:
    parts = [
        build_segment(texts_of(terms_of_rows, 2, 1)),
        empty_segment(),
        build_segment(texts_of(terms_of_rows, 2, 0)),
    ]
    owner = np.array([4 if row % 2 else 9 for row in range(len(terms_of_rows))], np.int32)
    merged = merge_segments(dict(zip((4, 7, 9), parts, strict=True)), owner, most_sorted=at_once)
    same(merged, build_segment(texts_of(terms_of_rows, 1, 0)))


@given(TEXTS, st.data())
@settings(max_examples=60, deadline=None)
def test_rows_that_are_not_kept_leave_nothing(
    terms_of_rows: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    kept = [data.draw(st.booleans()) for _ in terms_of_rows]
    owner = np.where(kept, 1, 2).astype(np.int32)
    left = merge_segments({1: build_segment(texts_of(terms_of_rows, 1, 0))}, owner, most_sorted=3)
    same(left, build_segment([text for text in texts_of(terms_of_rows, 1, 0) if kept[text.row]]))


def test_counts_weigh_titles_twice_and_stop_at_255() -> None:
    part = build_segment([TermVector(0, [7] * 200 + [7], [0] * 200 + [7])])
    assert part.counts.tolist() == [255]
    assert part.fields.tolist() == [0b1000_0001]
    assert build_segment([TermVector(0, [7, 7], [0, 7])]).counts.tolist() == [3]
    assert part.find_spans(np.array([7, 8], np.uint64)) == [(0, 0, 1)]


def test_merging_many_segments_takes_memory_for_the_postings_only() -> None:
    segments = IndexSegments(seal=1)
    rows = 3_000
    for row in range(rows):
        segments.put(TermVector(row, [7], [0]))
    tracemalloc.start()
    try:
        merged = segments.plan_merge(every=True)()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(merged.segment) == rows
    # a mask of all rows for each segment would take 9 MB
    assert most < 3_000_000
