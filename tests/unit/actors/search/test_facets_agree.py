"""Facet counts are what brute force counts, and what a choice of the value would find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.field_values import canonical_field, collect_record_values
from cluster.query.language.parser import parse
from cluster.query.language.patterns import compile_regex
from cluster.query.language.tree import Term
from tests.fakes.corner_shop import open_catalog
from tests.fakes.search_queries import search, search_result

STEADY = settings(
    derandomize=True,
    deadline=None,
    max_examples=30,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
BRANDS = ["Alder", "Birk", "Mori", "alder", ""]
TAGS = ["steel", "oak", "small", "s", "2010"]
FIELDS = [
    "brand",
    "tags",
    "price",
    "attributes.year",
    "attributes.on",
    "categories",
    "condition",
    "custom_attributes.no",
]
CLAUSES = [
    "brand:Alder", "tags:(steel OR oak)", "price:[10 TO 20}", "-tags:small",
    "attributes.year:2010", "attributes.on:true",
    "categories:Garden", "condition:NEW", "title:red", "*:*", "brand:(Mori Birk) AND NOT price:10",
]  # fmt: skip

_VALUES = st.sampled_from([2010, 2010.0, 2011.5, "2010", True, None])


@st.composite
def catalogs(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for at in range(draw(st.integers(1, 25))):
        made.append(
            {
                "product_id": f"p{at}",
                "title": draw(st.sampled_from(["Red trowel", "Green fork", "Red fork"])),
                **draw(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "product_group_id": st.sampled_from(["g1", "g2", "g3"]),
                            "brand": st.sampled_from(BRANDS),
                            "tags": st.lists(st.sampled_from(TAGS), max_size=3),
                            "price": st.sampled_from([5, 10, 12.5, 20, 30.0]),
                            "condition": st.sampled_from(["NEW", "USED"]),
                            "categories": st.lists(
                                st.sampled_from([["Garden"], ["Garden", "Tools"], ["Kitchen"]]), max_size=2
                            ),
                            "custom_attributes": st.fixed_dictionaries(
                                {},
                                optional={
                                    "year": _VALUES | st.lists(_VALUES, max_size=2),
                                    "on": st.booleans(),
                                },
                            ),
                        },
                    )
                ),
            }
        )
    return made


CHOICES = st.dictionaries(
    st.sampled_from(["brand", "tags", "price", "custom_attributes.year"]),
    st.one_of(
        st.builds(
            lambda terms: {"terms": terms},
            st.lists(st.sampled_from([*BRANDS, *TAGS, "10", "2011.5"]), min_size=1, max_size=2),
        ),
        st.sampled_from(
            [{"ranges": [{"from": 10, "to": 20, "key": "k"}]}, {"ranges": [{"to": "2011", "key": "k"}]}]
        ),
        st.sampled_from([{"queries": [{"query": "tags:steel OR brand:Birk", "key": "k"}]}]),
    ),
    max_size=2,
)


def passes(product: Mapping[str, Any], field: str, choice: Mapping[str, Any]) -> bool:
    if any(matches_filter(Term(field, term), product) for term in choice.get("terms", ())):
        return True
    texts = [
        f"{field}:[{entry.get('from', '*')} TO {entry.get('to', '*')}}}" for entry in choice.get("ranges", ())
    ]
    texts += [entry["query"] for entry in choice.get("queries", ())]
    return any(matches_filter(parse(text), product) for text in texts)


def counted(products: list[dict[str, Any]], field: str, dedupe: bool) -> dict[Hashable, int]:
    holders: defaultdict[Hashable, set[str]] = defaultdict(set)
    for product in products:
        unit = product.get("product_group_id", product["product_id"]) if dedupe else product["product_id"]
        for value in collect_record_values(product, canonical_field(field)):
            holders[isinstance(value, bool), value].add(unit)
    return {key: len(units) for key, units in holders.items()}


@STEADY
@given(
    products=catalogs(), clause=st.sampled_from(CLAUSES), choices=CHOICES, dedupe=st.booleans(),
    pattern=st.sampled_from([None, "A.*", "[0-9.]+", ".*e.*", '"Alder"|oak']), worded=st.booleans(),
)  # fmt: skip
def test_counts_are_those_of_brute_force(
    products: list[dict[str, Any]],
    clause: str,
    choices: dict[str, Any],
    dedupe: bool,
    pattern: str | None,
    worded: bool,
) -> None:
    shop = open_catalog(products)
    facets: list[Any] = [{"field": field, "size": 1000} for field in FIELDS]
    facets += [{"field": "tags", "alias": "some", "size": 1000, "include": pattern}]
    facets += [
        {
            "field": "price",
            "alias": "bands",
            "ranges": [{"to": 12.5, "key": "low"}, {"from": 12.5, "key": "high"}],
        }
    ]
    facets += [{"field": "x", "queries": [{"query": entry, "key": entry} for entry in CLAUSES]}]
    result = search(
        shop, q="red" if worded else "*", fq=clause, facets=facets, facet_filters=choices,
        dedupe_product_group_id=dedupe, rows=1000,
    )  # fmt: skip
    facets_result = search_result(result)
    meant = parse(f"({clause}) AND title:red") if worded else parse(clause)
    matching = [product for product in products if matches_filter(meant, product)]

    def chosen(but: str | None = None) -> list[dict[str, Any]]:
        return [
            entry
            for entry in matching
            if all(passes(entry, name, choice) for name, choice in choices.items() if name != but)
        ]

    for field in FIELDS:
        expected = counted(chosen(canonical_field(field)), field, dedupe)
        assert {
            (isinstance(value, bool), value): count for value, count in facets_result.facets[field]
        } == expected, field
        ranks = [
            (-count, str(value).lower() if isinstance(value, bool) else str(value))
            for value, count in facets_result.facets[field]
        ]
        assert ranks == sorted(ranks)
    some = counted(chosen("tags"), "tags", dedupe)
    kept = {
        value: count
        for (_, value), count in some.items()
        if pattern is None or compile_regex(pattern).accepts(str(value))
    }
    assert dict(facets_result.facets["some"]) == kept
    units = len(
        {
            entry.get("product_group_id", entry["product_id"]) if dedupe else entry["product_id"]
            for entry in chosen()
        }
    )
    assert facets_result.total == len(result.products) == units
    bands = {
        key: [entry for entry in chosen("price") if matches_filter(parse(text), entry)]
        for key, text in (("low", "price:[* TO 12.5}"), ("high", "price:[12.5 TO *]"))
    }
    assert facets_result.facets["bands"] == [(key, _units(those, dedupe)) for key, those in bands.items()]
    assert facets_result.facets["x"] == [
        (entry, _units([product for product in chosen() if matches_filter(parse(entry), product)], dedupe))
        for entry in CLAUSES
    ]


@STEADY
@given(products=catalogs(), clause=st.sampled_from(CLAUSES), choices=CHOICES, dedupe=st.booleans())
def test_a_count_is_what_choosing_the_value_finds(
    products: list[dict[str, Any]], clause: str, choices: dict[str, Any], dedupe: bool
) -> None:
    shop = open_catalog(products)
    body: dict[str, Any] = {"q": "*", "fq": clause, "dedupe_product_group_id": dedupe, "rows": 0}
    for field in ("brand", "tags"):
        counted = search_result(search(shop, **body, facets=[field], facet_filters=choices))
        for value, count in counted.facets[field]:
            again = search(shop, **body, facet_filters={**choices, field: {"terms": [value]}})
            assert search_result(again).total == count


def _units(products: list[dict[str, Any]], dedupe: bool) -> int:
    return len(
        {
            product.get("product_group_id", product["product_id"]) if dedupe else product["product_id"]
            for product in products
        }
    )
