"""Facets over whole texts: patterns read so many characters and no more."""

from __future__ import annotations

import pytest

from actors.retrieval.messages import Facet
from actors.search import facets
from actors.search.facets import FacetSelection, count_facets
from cluster.query.language.automaton import Automaton
from tests.fakes.corner_shop import NOW_MS, open_shop, product_change


def test_patterns_over_texts_share_a_budget_and_list_only_texts_that_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = open_shop()
    products = [{"product_id": f"x{at}", "title": f"{at:03} " + "x" * 996} for at in range(200)]
    shop.apply(product_change(products, f"{NOW_MS + 1}-0"))
    catalog, read = shop.overlay.catalog, 0
    accepts = Automaton.accepts

    def counted(pattern: Automaton, text: str) -> bool:
        nonlocal read
        read += len(text)
        return accepts(pattern, text)

    monkeypatch.setattr(Automaton, "accepts", counted)
    monkeypatch.setattr(facets, "MOST_JUDGED", 100_000)
    rows = catalog.present.nonzero()[0]
    requested = [
        Facet("title", "all", 1_000),
        Facet("title", "some", 1_000, include=".*x"),
        Facet("title", "others", 1_000, exclude=".*x"),
    ]
    counts = count_facets(requested, rows, FacetSelection((), catalog), catalog, dedupe=False)
    assert 50_000 < read <= 100_000
    assert len(counts["all"]) > 200
    assert 30 < len(counts["some"]) <= 50
    assert all(text.endswith("x") for text, _ in counts["some"])
    assert not any(text.endswith("x") for text, _ in counts["others"])
