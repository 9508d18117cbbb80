"""An index of completions that does not fit the memory is refused by name, and counted where it does."""

from __future__ import annotations

import numpy as np
import pytest

from actors.recommender.state.catalog import Catalog
from actors.retrieval.autocomplete.field_indexes import FieldIndexes, FieldKey
from actors.retrieval.autocomplete.lookup import BYTES_A_CHARACTER
from cluster.errors import Unavailable

TITLE, TAGS = FieldKey("title", "", False), FieldKey("tags", "", False)


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    for at in range(200):
        tags = [f"{at}-{number}-" + "x" * 200 for number in range(20)]
        catalog.put({"product_id": f"p{at}", "title": f"title {at:03}", "tags": tags})
    return catalog


def test_an_index_that_does_not_fit_is_refused_by_name_and_others_are_built(catalog: Catalog) -> None:
    indexes = FieldIndexes()
    indexes.most_bytes = 1 << 20
    for _ in range(2):
        with pytest.raises(Unavailable, match="completions of the field tags need more than 1 MB") as refused:
            indexes.get_field(TAGS, catalog, lambda: np.zeros(200))
        assert refused.value.facts["told"]
    assert not indexes.has_field(TAGS)
    assert len(indexes.get_field(TITLE, catalog, lambda: np.zeros(200))) == 200
    assert indexes.nbytes >= 200 * len("title 000") * BYTES_A_CHARACTER


def test_a_refused_index_is_tried_again_when_the_catalog_is_smaller(catalog: Catalog) -> None:
    indexes = FieldIndexes()
    indexes.most_bytes = 1 << 20
    with pytest.raises(Unavailable):
        indexes.get_field(TAGS, catalog, lambda: np.zeros(200))
    smaller = Catalog()
    for at in range(10):
        smaller.put({"product_id": f"p{at}", "tags": ["a"]})
    indexes._fingerprints.clear()
    assert len(indexes.get_field(TAGS, smaller, lambda: np.zeros(10))) == 10
