"""Products grouped by a field, built beside a catalog that goes on changing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender.state.catalog import ATTRIBUTE, Catalog
from actors.recommender.state.groups import read_texts
from cluster.query.language.field_values import canonical_field, collect_scalars
from tests.unit.cluster.query.strategies import STEADY, fields, records

changes = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), records), st.integers(0, 3)), min_size=1, max_size=12
)
"Which product, what becomes of it, and how many steps building takes before."


@STEADY
@given(st.lists(records, min_size=1, max_size=6), fields, changes)
def test_groups_built_while_products_change_are_those_built_at_the_end(
    rows: list[dict[str, Any]], field: str, later: list[tuple[int, dict[str, Any] | None, int]]
) -> None:
    catalog, kept = Catalog(), {f"p{at}": record | {"product_id": f"p{at}"} for at, record in enumerate(rows)}
    for product in kept.values():
        catalog.put(product)
    steps = catalog.columns.build_in_steps([(ATTRIBUTE, field)])
    for number, record, count in later:
        _take(steps, count)
        product_id = f"p{number}"
        if record is None:
            catalog.remove(product_id)
            kept.pop(product_id, None)
        else:
            kept[product_id] = record | {"product_id": product_id}
            catalog.put(kept[product_id])
    _take(steps, None)
    expected = {
        (product_id, text)
        for product_id, product in kept.items()
        for text in read_texts(product, canonical_field(field))
    }
    groups = catalog.group_by_attribute(field)
    owner, codes = groups.codes_of_rows(np.arange(len(catalog)))
    listed = [
        (catalog.product_ids[row], groups.values[code])
        for row, code in zip(owner.tolist(), codes.tolist(), strict=True)
    ]
    assert len(listed) == len(expected)
    assert set(listed) == expected
    assert {
        (catalog.product_ids[row], value)
        for code, value in enumerate(groups.values)
        for row in groups.rows_of(code).tolist()
    } == expected


@STEADY
@given(records, fields)
def test_values_are_read_as_they_are_written(record: dict[str, Any], field: str) -> None:
    name = canonical_field(field)
    texts = read_texts(record, name)
    assert len(texts) == len(collect_scalars(record, name))
    assert all(isinstance(text, str) for text in texts)


def _take(steps: Iterator[None], count: int | None) -> None:
    for _ in islice(steps, count):
        pass
