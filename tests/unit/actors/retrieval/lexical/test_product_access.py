"""The search index with locked products answers a user as an index that never had those the user may not read."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.retrieval.lexical import joined_parts, snapshot_format
from actors.retrieval.lexical.joined_parts import FREQUENT
from actors.retrieval.lexical.messages import TextHits, TextQuery
from actors.retrieval.lexical.search_index import SearchIndex
from cluster.access_tier import MOST_TIERS, access_of, may_read
from cluster.errors import Fault
from tests.fakes.sealed_segments import Sealed, count_calls

WORDS = ["harbour", "harbours", "harbor", "river", "rivers", "zeppelin", "mill", "lampe", "lamp", "museum"]
QUERIES = ["harbor", "harbuor", "zepelin", "zeppelin river", "riv", "mil", "rivermill", "lampe", "the museum"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
PRODUCTS = st.lists(
    st.fixed_dictionaries(
        {
            "title": TEXTS, "description": TEXTS, "language": st.sampled_from(["en", "de"]),
            "access": st.sampled_from(["open", "open", "gold", "silver"]),
        }
    ),
    min_size=1, max_size=12,
)  # fmt: skip
TIERS = [frozenset[str](), frozenset({"gold"}), frozenset({"gold", "silver"})]
Product = dict[str, Any]


def index_of(products: dict[int, Product]) -> SearchIndex:
    index = SearchIndex(3)
    for row, product in products.items():
        index.put(row, product)
    index.adopt(index.plan_rebuild(every=True)())
    return index


def index_from_snapshot(products: dict[int, Product]) -> SearchIndex:
    arrays, facts = snapshot_format.save(list(products.values()))
    saved = snapshot_format.load(arrays, facts)
    assert saved is not None
    index = SearchIndex(3)
    index.bind_rows(saved, np.array(list(products), np.int64))
    index.adopt(index.plan_rebuild(every=True)())
    return index


def shown(hits: TextHits) -> tuple[object, ...]:
    return hits.rows.tolist(), hits.scores.tolist(), hits.corrections, hits.used, hits.corrected


@pytest.mark.parametrize("build", [index_of, index_from_snapshot])
@given(PRODUCTS)
@settings(max_examples=60, deadline=None)
def test_what_is_locked_changes_no_hit_no_score_and_no_correction(
    build: Any, products: list[Product]
) -> None:
    numbered = dict(enumerate(products))
    locked = build(numbered)
    for tiers in TIERS:
        allowed = np.array([may_read(access_of(product), tiers) for product in products])
        readable = {row: product for row, product in numbered.items() if allowed[row]}
        # the tiers that a user reads have vocabularies of their own here, too
        absent = build(readable) if readable else SearchIndex()
        for text in QUERIES:
            for partial in (False, True, 0.5):
                query = TextQuery(text, "en", partial=partial, tiers=tiers)
                assert shown(locked.find(query, allowed)) == shown(absent.find(query, allowed))


def test_a_product_that_is_opened_or_locked_changes_what_is_corrected() -> None:
    index = index_of({0: {"title": "The river"}, 1: {"title": "The zeppelin", "access": "gold"}})
    query = TextQuery("zepelin", tiers=frozenset())
    assert index.find(query).used == "zepelin"
    assert index.find(TextQuery("zepelin", tiers=frozenset({"gold"}))).used == "zeppelin"
    assert index.find(TextQuery("zepelin")).used == "zeppelin", "without tiers all products count"
    index.put(1, {"title": "The zeppelin"})
    assert index.find(query).used == "zeppelin"
    index.put(1, {"title": "The zeppelin", "access": "gold"})
    assert index.find(query).used == "zepelin"
    index.remove(1)
    assert index.find(query).rows.tolist() == []


def test_accesses_beyond_the_bound_are_read_by_nobody() -> None:
    products = {
        number: {"title": f"zeppelin{number}x", "access": f"tier-{number}"}
        for number in range(MOST_TIERS + 3)
    }
    everything = frozenset(f"tier-{number}" for number in products)
    for index in (index_of(products), index_from_snapshot(products)):
        for number in (0, MOST_TIERS - 1, MOST_TIERS, MOST_TIERS + 2):
            rows = index.find(TextQuery(f"zeppelin{number}x", tiers=everything, correct=False)).rows.tolist()
            assert rows == ([number] if number < MOST_TIERS else [])


def test_a_snapshot_without_locked_products_has_the_arrays_of_earlier_releases() -> None:
    arrays, facts = snapshot_format.save([{"title": "The river"}, {"title": "The mill", "access": "open"}])
    assert "accesses" not in facts
    assert not [name for name in arrays if name.startswith(("access", "words.1"))]


def test_damaged_access_of_a_snapshot_is_refused() -> None:
    arrays, facts = snapshot_format.save([{"title": "The river", "access": "gold"}])
    for damaged in (np.array([2], np.uint8), np.zeros(2, np.uint8), np.zeros(1, np.int64)):
        with pytest.raises(Fault):
            snapshot_format.load({**arrays, "access": damaged}, facts)
    without = {name: array for name, array in arrays.items() if name != "words.1.counts"}
    with pytest.raises(Fault):
        snapshot_format.load(without, facts)


@pytest.mark.parametrize("build", [index_of, index_from_snapshot])
def test_a_locked_word_takes_the_calls_of_an_absent_one(build: Any) -> None:
    """The same holds for misspelled and for unfinished words: what is locked is not looked at."""
    indexes = [
        build(
            {
                0: {"title": "The harbour and the river", "language": "en"},
                1: {
                    "title": f"The {word} river",
                    "description": 2 * word,
                    "language": "en",
                    "access": "gold",
                },
                2: {"title": f"{word}s, {word}", "language": "de", "access": "gold"},
            }
        )
        for word in ("quartz", "vortex")
    ]
    texts = ["river quartz", "river quarts", "quar", "riverquartz", "quartz"]
    for text in texts:
        query = TextQuery(text, tiers=frozenset())
        locked, absent = (count_calls(index.find, query) for index in indexes)
        assert locked == absent
    index = indexes[0]
    (part,) = (part for code, part in index.parts.items() if code)
    part.segments = part.vocabulary = Sealed(products=2)
    for text in texts:
        for partial in (False, True, 0.5):
            rows = index.find(TextQuery(text, partial=partial, tiers=frozenset())).rows.tolist()
            assert rows == ([0] if partial is True and text.startswith("river ") else [])
    with pytest.raises(AssertionError, match="was used"):
        index.find(TextQuery("river", tiers=frozenset({"gold"})))


def test_parts_that_are_searched_often_are_joined_and_give_the_same_hits() -> None:
    draw = Random(7)
    everything = frozenset({"gold", "silver"})

    def a_product() -> Product:
        words = " ".join(draw.choice(WORDS) for _ in range(4))
        return {"title": words, "language": "en", "access": draw.choice(["open", "gold", "silver"])}

    index, apart = SearchIndex(4), SearchIndex(4)

    def put_products(rows: Sequence[int]) -> None:
        for row in rows:
            product = a_product()
            index.put(row, product)
            apart.put(row, product)

    put_products(range(40))
    query = TextQuery("harbor", tiers=everything)
    for _ in range(FREQUENT):
        assert index.find(query).rows.size
    assert index.needs_rebuild
    join = index.plan_rebuild()
    assert not index.joined_segments
    # the parts are joined in another thread meanwhile
    put_products([3, 7, 7, 41, 12])
    for each in (index, apart):
        each.remove(20)
    index.adopt(join())
    assert [len(segments) > 0 for segments in index.joined_segments] == [True]
    put_products([5, 41, 50])
    for each in (index, apart):
        each.adopt(each.plan_rebuild(every=True)())
    for tiers in (*TIERS, everything, None):
        for text in QUERIES:
            for partial in (False, True, 0.5):
                query = TextQuery(text, "en", partial=partial, tiers=tiers)
                assert shown(index.find(query)) == shown(apart.find(query))


def test_joined_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_parts, "MOST_PRODUCTS", 7)
    accesses = ["open", "open", "gold", "silver", "bronze"]
    index = index_of(
        {row: {"title": f"river {row}", "access": access} for row, access in enumerate(accesses)}
    )
    sets = [frozenset({"gold"}), frozenset({"silver"}), frozenset({"bronze"}), frozenset(accesses)]
    for tiers in sets:
        for _ in range(FREQUENT):
            index.find(TextQuery("river", tiers=tiers))
        index.adopt(index.plan_rebuild()())
        assert sum(segments.products for segments in index.joined_segments) <= 7
    assert [segments.products for segments in index.joined_segments] == [3, 3]
    assert not index.needs_rebuild
    index.put(9, {"title": "river", "access": "copper"})
    assert index.find(TextQuery("river", tiers=frozenset({"copper"}))).rows.size == 3
