from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.retrieval.lexical.bm25 import K1, B, compute_idf
from actors.retrieval.lexical.passage_postings import (
    PassagePostings,
    build_postings,
    drop_passages,
    find_step,
    merge_postings,
)
from actors.retrieval.lexical.postings import concatenate_counts, count_terms

Passages = list[list[int]]
passages_of_terms = st.lists(st.lists(st.integers(1, 12), max_size=14), min_size=1, max_size=60)


def bm25(passages: Passages, query: list[int]) -> list[float]:
    """By the book, one passage at a time."""
    mean = sum(map(len, passages)) / len(passages)
    scores = []
    for passage in passages:
        counts, score = Counter(passage), 0.0
        for term in query:
            holding = sum(term in other for other in passages)
            norm = K1 * (1 - B + B * len(passage) / max(mean, 1.0))
            if counts[term]:
                score += compute_idf(holding, len(passages)) * counts[term] * (K1 + 1) / (counts[term] + norm)
        scores.append(score)
    return scores


def weights_of(passages: Passages, query: list[int]) -> dict[int, float]:
    return {
        term: count * compute_idf(sum(term in other for other in passages), len(passages))
        for term, count in Counter(query).items()
    }


def posted(passages: Passages) -> PassagePostings:
    counted = count_terms(passages)
    return build_postings(counted, float(counted.lengths.mean()))


def same(left: PassagePostings, right: PassagePostings) -> bool:
    return all(np.array_equal(value, right.arrays()[name]) for name, value in left.arrays().items())


@given(passages_of_terms, st.lists(st.integers(1, 14), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_scores_are_those_of_the_book_within_a_level(passages: Passages, query: list[int]) -> None:
    expected = bm25(passages, query)
    rows, scores = posted(passages).find_best(weights_of(passages, query), len(passages))
    slack = sum(weights_of(passages, query).values()) * (K1 + 1) / 255 + 1e-5
    assert sorted(rows.tolist()) == [row for row, score in enumerate(expected) if score > 0]
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        assert math.isclose(score, expected[row], abs_tol=slack)


def many(count: int, seed: int) -> Passages:
    """Passages whose terms are as unevenly frequent as words are."""
    rng = np.random.default_rng(seed)
    return [[int(term) for term in rng.zipf(1.3, 30) if term < 4_000] for _ in range(count)]


def test_looking_candidates_up_finds_the_same_as_adding_everything() -> None:
    passages = many(12_000, 3)
    postings = posted(passages)
    for query in ([900, 300, 40, 2, 1], [1, 2, 3], [2_000, 1], [3_999, 7, 1, 1]):
        weights = {
            term: weight
            for term, weight in weights_of(passages, query).items()
            if postings.find_spans([term])[0][0] >= 0
        }
        everything = postings.score(weights, np.arange(len(passages)))
        rows, scores = postings.find_best(weights, 50)
        assert np.allclose(scores, np.sort(everything)[::-1][:50], atol=1e-5)
        assert np.allclose(everything[rows], scores, atol=1e-5)


def test_a_mask_keeps_passages_out_and_lets_the_next_best_in() -> None:
    passages = many(6_000, 4)
    postings = posted(passages)
    weights = weights_of(passages, [50, 3, 1])
    allowed = np.arange(len(passages)) % 3 == 0
    everything = postings.score(weights, np.arange(len(passages)))
    rows, scores = postings.find_best(weights, 20, allowed)
    assert allowed[rows].all()
    assert np.allclose(scores, np.sort(everything[allowed])[::-1][:20], atol=1e-5)


def test_tallies_put_behind_each_other_are_as_if_counted_together() -> None:
    passages = many(300, 5)
    together = count_terms(passages)
    apart = concatenate_counts(
        [count_terms(passages[:100]), count_terms(passages[100:101]), count_terms(passages[101:])]
    )
    for name in ("terms", "starts", "rows", "counts", "lengths"):
        assert np.array_equal(getattr(together, name), getattr(apart, name)), name


def test_merging_and_leaving_out_keep_what_every_passage_is_worth() -> None:
    passages = many(400, 6)
    whole = build_postings(count_terms(passages), 20.0)
    parts = [build_postings(count_terms(part), 20.0) for part in (passages[:150], passages[150:])]
    assert same(merge_postings(parts), whole)
    keep = np.arange(len(passages)) % 4 != 0
    assert same(
        drop_passages(whole, keep),
        build_postings(count_terms([p for p, kept in zip(passages, keep, strict=True) if kept]), 20.0),
    )


def test_unknown_terms_match_no_passage() -> None:
    rows, scores = posted([[1, 2], [3]]).find_best({99: 2.0}, 10)
    assert len(rows) == len(scores) == 0


def worded(count: int, seed: int) -> Passages:
    """Passages of which nearly all hold two common words, in very different strength, and few hold a rare one."""
    rng = np.random.default_rng(seed)
    return [
        [1] * int(rng.geometric(0.3))
        + [2] * int(rng.geometric(0.4))
        + [3] * int(rng.random() < 0.01)
        + [4] * int(size)
        for size in rng.integers(0, 40, count)
    ]


def test_leaders_of_long_lists_are_enough_to_find_the_best_exactly() -> None:
    passages = worded(20_000, 8)
    postings = posted(passages)
    everything_added = 0
    for query in ([1], [1, 2], [1, 2, 3], [2, 3], [1, 1, 2]):
        weights = weights_of(passages, query)
        exact = postings.score(weights, np.arange(len(passages)))
        for k in (10, 100):
            rows, scores = postings.find_best(weights, k)
            assert np.allclose(scores, np.sort(exact)[::-1][:k], atol=1e-5)
            assert np.allclose(exact[rows], scores, atol=1e-5)
            assert len(set(rows.tolist())) == k
            rows, in_steps = postings.find_best(weights, k, step=find_step(weights))
            assert np.allclose(in_steps, scores, atol=1e-5)
            assert rows.tolist() == rows[np.lexsort((rows, -in_steps))].tolist()
        long = [bounds for bounds in postings._bound_terms(weights) if bounds[3] - bounds[2] > 8_192]
        nothing = np.zeros(0, np.uint32), np.zeros(0, np.float32)
        everything_added += postings._add_leaders(*nothing, long, 100, 0.0) is None
    assert everything_added < 5


def test_few_passages_and_many_are_worth_the_same_however_they_are_looked_up() -> None:
    passages = many(8_000, 9)
    postings = posted(passages)
    weights = weights_of(passages, [700, 20, 2, 1])
    everything = postings.score(weights, np.arange(len(passages)))
    assert np.count_nonzero(everything) > 1_000
    for rows in (np.arange(0, len(passages), 500), np.array([7]), np.array([7_999, 3, 4_000])):
        assert np.array_equal(postings.score(weights, rows), everything[rows])
