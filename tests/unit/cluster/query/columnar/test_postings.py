"""Rows by code, and texts between two ends."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cluster.query.columnar.dictionary import TextDictionary
from cluster.query.columnar.postings import RowPostings, sort_order
from cluster.query.language.scalars import Bounds


def _marked(postings: RowPostings, code: int, rows: int) -> list[int]:
    mask = np.zeros(rows + 1, dtype=np.bool_)
    postings.mark(code, mask)
    return np.flatnonzero(mask[:-1]).tolist()


def test_postings_follow_a_dictionary_through_thousands_of_changes() -> None:
    rng = random.Random(11)
    postings, codes_by_row = RowPostings(), dict[int, set[int]]()
    for turn in range(6_000):
        row, codes = rng.randrange(40), set(rng.sample(range(9), rng.randint(0, 3)))
        postings.put(row, codes)
        codes_by_row[row] = codes
        if turn % 50 == 0:
            chosen = np.zeros(10, dtype=np.bool_)
            chosen_codes = rng.sample(range(9), 2)
            chosen[chosen_codes] = True
            mask = np.zeros(41, dtype=np.bool_)
            postings.mark_chosen(chosen, mask)
            assert np.flatnonzero(mask[:-1]).tolist() == sorted(
                row for row in codes_by_row if codes_by_row[row] & set(chosen_codes)
            )
            for code in (0, 8):
                assert _marked(postings, code, 40) == sorted(
                    row for row in codes_by_row if code in codes_by_row[row]
                )


def test_choosing_nearly_everything_and_codes_never_seen() -> None:
    postings = RowPostings()
    for row in range(9_000):
        postings.put(row, [row, row // 2])
    chosen = np.ones(20_000, dtype=np.bool_)
    chosen[:100] = False
    mask = np.zeros(9_001, dtype=np.bool_)
    postings.mark_chosen(chosen, mask)
    assert np.flatnonzero(mask[:-1]).tolist() == list(range(100, 9_000))
    assert _marked(postings, 15_000, 9_000) == []


def test_what_is_out_of_force_is_forgotten_when_sorting() -> None:
    postings = RowPostings()
    for turn in range(20_000):
        postings.put(turn % 10, [1, 2, 3])
        if turn % 100 == 0:
            assert len(_marked(postings, 2, 10)) == min(turn + 1, 10)
    assert len(postings) < 2_000


@pytest.mark.parametrize("include_low", [True, False])
@pytest.mark.parametrize("include_high", [True, False])
def test_texts_between_two_ends_are_chosen_whether_sorted_yet_or_not(
    include_low: bool, include_high: bool
) -> None:
    rng = random.Random(5)
    vocabulary = TextDictionary()
    texts: list[str] = []
    for _ in range(40):
        for _ in range(rng.randint(1, 60)):
            text = "".join(rng.choices("abé😀Z", k=rng.randint(0, 4)))
            if vocabulary.find(text) is None:
                texts.append(text)
            vocabulary.add(text)
        low, high = sorted(rng.sample(texts, 2) if len(texts) > 1 else ["a", "b"])
        for bounds in (
            Bounds.of(low, high, include_low, include_high),
            Bounds.of(None, high, include_low, include_high),
            Bounds.of(low, None, include_low, include_high),
        ):
            chosen = vocabulary.between(bounds)
            assert chosen is not None
            assert chosen[:-1].tolist() == [bounds.hold(text) for text in texts]
            assert not chosen[-1]


def test_numbers_of_any_width_are_sorted_and_equal_ones_keep_their_order() -> None:
    for most in (3, 1 << 16, (1 << 16) + 1, 1 << 20):
        codes = np.array([most - 1, 0, most - 1, 1, 0], np.int32)
        assert sort_order(codes).tolist() == [1, 4, 3, 0, 2]
    assert sort_order(np.zeros(0, np.int32)).tolist() == []
