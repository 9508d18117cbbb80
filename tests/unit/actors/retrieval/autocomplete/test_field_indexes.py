"""The indexes of accesses that are often read together are joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from actors.recommender.state.catalog import Catalog
from actors.retrieval.autocomplete import field_indexes
from actors.retrieval.autocomplete.field_indexes import FREQUENT, MOST_FIELDS, FieldIndexes, FieldKey
from actors.retrieval.autocomplete.text_index import CompletionHit, merge_hits

TITLE = FieldKey("title", "", False)
BOTH = frozenset({"gold", "silver"})
TYPED = ("riv", "river of", "rvier", "mill", "milk 3", "mill of the west 1", "of the")


class Completions:
    """A catalog and its completions."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.indexes = FieldIndexes()

    def put(self, number: int, title: str, access: str) -> None:
        product = {"product_id": f"p{number}", "title": f"{title} {number}", "access": access}
        self.indexes.record(self.catalog.put(product), product)

    def remove(self, number: int) -> None:
        self.indexes.record(self.catalog.remove(f"p{number}"), None)

    def popularity(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.zeros(len(self.catalog))

    def keys(self, tiers: frozenset[str] | None) -> list[FieldKey]:
        return self.indexes.readable_keys(TITLE, tiers)

    def complete(self, typed: str, tiers: frozenset[str] | None) -> Sequence[CompletionHit]:
        present = self.catalog.present[: len(self.catalog)]
        lists = [
            self.indexes.get_field(key, self.catalog, self.popularity).look_up(
                typed, 40, 10, present, 0, self.popularity
            )
            for key in self.keys(tiers)
        ]
        return merge_hits([hit for hits in lists for hit in hits], 40)


def fill(count: int) -> Completions:
    completions = Completions()
    for number in range(count):
        title = ("River of the east", "Mill of the west", "Milk")[number % 3]
        completions.put(number, title, ("open", "gold", "silver", "bronze")[number % 4])
    return completions


def read_often(completions: Completions, tiers: frozenset[str]) -> None:
    for _ in range(FREQUENT):
        completions.complete("riv", tiers)


def test_a_joined_index_completes_as_one_of_readable_products_and_follows_changes() -> None:
    completions = fill(60)
    read_often(completions, BOTH)
    assert len(completions.keys(BOTH)) == 3
    work = completions.indexes.plan_rebuild(completions.popularity)
    assert work is not None
    field, build = work
    assert len(completions.keys(BOTH)) == 3
    # the index is built in another thread meanwhile
    completions.put(1, "River", "gold")
    completions.put(70, "Milk", "bronze")
    completions.put(71, "Milk", "silver")
    completions.remove(5)
    completions.put(2, "Mill of the west", "bronze")
    field.adopt(build())
    completions.put(8, "River of the east", "open")
    completions.put(9, "Rivers", "bronze")
    assert len(completions.keys(BOTH)) == 1
    alone = Completions()
    for row in np.flatnonzero(completions.catalog.present[: len(completions.catalog)]).tolist():
        record = completions.catalog.record(row)
        if record["access"] != "bronze":
            title, _, number = str(record["title"]).rpartition(" ")
            alone.put(int(number), title, "open")
    for typed in TYPED:
        # changed rows have an index of their own, which finds more near texts
        texts = [
            {hit.text for hit in each.complete(typed, BOTH) if not hit.edits} for each in (completions, alone)
        ]
        assert texts[0] == texts[1]
        assert texts[0] or typed == "rvier"


def test_a_failed_build_is_repeated_and_the_parts_complete_meanwhile() -> None:
    completions = fill(12)
    read_often(completions, BOTH)
    assert completions.indexes.plan_rebuild(completions.popularity) is not None
    assert completions.indexes.plan_rebuild(completions.popularity) is None
    assert len(completions.keys(BOTH)) == 3
    read_often(completions, BOTH)
    work = completions.indexes.plan_rebuild(completions.popularity)
    assert work is not None
    work[0].adopt(work[1]())
    assert len(completions.keys(BOTH)) == 1


def test_a_field_that_gave_way_costs_nothing_and_completes_again() -> None:
    completions = Completions()
    completions.put(1, "River of the east", "open")
    indexes = completions.indexes
    names = [f"custom_attributes.name_{number}" for number in range(MOST_FIELDS + 5)]

    def complete(name: str) -> list[str]:
        index = indexes.get_field(FieldKey(name, "", False), completions.catalog, completions.popularity)
        hits = index.look_up("r", 9, 9, completions.catalog.present, 0, completions.popularity)
        return [hit.text for hit in hits]

    for name in names:
        complete(name)
    assert set(indexes._fingerprints) == {"title", *names[-MOST_FIELDS:]}
    product = {"product_id": "p2", "custom_attributes": {"name_0": "red", "name_36": "rough"}}
    indexes.record(completions.catalog.put(product), product)
    assert [complete(names[0]), complete(names[-1])] == [["red"], ["rough"]]


def test_joined_indexes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_indexes, "MOST_JOINED", 10)
    completions = fill(12)
    for tiers in (frozenset({"gold"}), BOTH):
        read_often(completions, tiers)
        if work := completions.indexes.plan_rebuild(completions.popularity):
            work[0].adopt(work[1]())
    assert len(completions.keys(frozenset({"gold"}))) == 1
    assert len(completions.keys(BOTH)) == 3
