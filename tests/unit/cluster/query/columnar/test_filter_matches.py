"""What filters mean on records that can be checked by eye."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.query.columnar.column_store import ColumnStore
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.parser import parse

SHOP: list[dict[str, Any]] = [
    {
        "product_id": "story_trowel", "title": "Steel Trowel, green grip", "brand": "Alder & Sons", "size": "M",
        "price": 12.5, "rating": 4, "tags": ["steel", "small"], "categories": [["Garden", "Tools"], ["Gifts"]],
        "published_at": "2024-01-31T23:30:00Z", "cover_image": "https://shop.example/1.png",
        "custom_attributes": {"year": 2010, "promoted": True, "color": ["red", "green"], "weight": "1.5"},
        "html": "<h1 class='blue'>Dig</h1><script>var hidden</script><p>deep &amp; w<b>id</b>e</p>",
    },
    {
        "product_id": "hoe", "title": "GARDEN hoe", "brand": "alder", "size": "S", "price": -3, "rating": 4.5,
        "tags": [], "categories": [["Garden"]], "published_at": "2024-02-01", "availability": "OUT_OF_STOCK",
        "custom_attributes": {"year": 2009, "promoted": False, "color": "blue", "weight": "20"},
        "children": [{"id": "1", "title": "How to weed"}, {"id": "2", "title": "Sharpening"}],
    },
    {
        "product_id": "園芸", "title": "園芸の本 über Straßen", "size": None,
        "custom_attributes": {"a.b": "deep", "note": {}},
        "published_at": "2023", "i18n_de": {"title": "Das Gartenbuch"}, "location": {"lat": 1, "lon": 2},
    },
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('brand:"Alder & Sons"', [0]), ("brand:alder", [1]), ("brand:Alder", []), ("brand:*", [0, 1]),
        ('size:("M" OR "S")', [0, 1]), ("size:*", [0, 1]), ("-size:*", [2]), ("*:* -size:M", [1, 2]),
        ("rating:4", [0]), ("rating:4.0", [0]), ("rating:[4 TO *]", [0, 1]), ("rating:{4 TO *]", [1]),
        ("rating:[* TO 4.5}", [0]), ("price:[20 TO 10]", []), ("price:-3", [1]), ("price:[-5 TO 0]", [1]),
        ("tags:steel", [0]), ("tags:*", [0]), ("tags:Steel", []), ("categories:Garden", [0, 1]),
        ("categories:Tools", [0]), ("categories:Gifts", [0]), ("categories:G*", [0, 1]),
        ("custom_attributes.promoted: true", [0]), ("attributes.promoted:FALSE", [1]),
        ("custom_attributes.year: [2010 to *]", [0]), ("custom_attributes.color:green", [0]),
        ("custom_attributes.color:[blu TO blv]", [1]), ("custom_attributes.weight:[1 TO 3]", [0]),
        ("custom_attributes.weight:1.50", []), ("custom_attributes.a.b:deep", [2]),
        ("custom_attributes.note:*", []), ("custom_attributes:*", [0, 1, 2]),
        ('title:"über steel"', []), ("brand:{alder TO z]", []), ("brand:[A TO alder}", [0]),
        ("title:trowel", [0]), ('title:"grip steel"', [0]), ("title:(steel AND hoe)", []), ("title:gard*", [1]),
        ("title:GARD*", [1]), ("title:/gar.+n/", [1]), ("title:STRASSEN", [2]), ("title:Über", [2]),
        ("title:園芸", [2]), ("title:本", [2]), ('title:"!?"', []), ("title:*", [0, 1, 2]), ("title:st*l", [0]),
        ("html:wide", [0]), ("html:hidden", []), ("html:blue", []), ("html:amp", []), ("html:dig", [0]),
        ("children.title:weed", [1]), ("children.id:2", [1]), ("i18n_de.title:GARTENBUCH", [2]),
        ("product_id:/story_.+/", [0]), ("product_id:/STORY_.+/", []), ("product_id:/tory_.+/", []),
        ("product_id:*o*", [0, 1]), ("product_id:??", [2]), ("product_id:???", [1]),
        ("published_at:[2024-01-01T00:00:00Z TO *]", [0, 1]), ("published_at:[2024-01 TO 2024-01]", [0]),
        ("published_at:[2024-02-01T00:30:00+01:00 TO 2024-02-01}", [0]), ("published_at:{2024-01-31 TO *]", [1]),
        ("published_at:2024", [0, 1]), ("published_at:2024-02-01T00:00:00Z", [1]), ("published_at:2023*", [2]),
        ("published_at:2024-01-31T23:30", [0]), ("availability:IN_STOCK", [0, 2]), ("availability:*", [1]),
        ("condition:NEW", [0, 1, 2]), ("product_group_id:hoe", [1]), ("enable_question_answering:false", [0, 1, 2]),
        ("location:*", [2]), ("location.lat:[0 TO 2]", [2]), ("nowhere:x", []), ("-nowhere:x", [0, 1, 2]),
        ("cover_image:*", [0]), ("*:*", [0, 1, 2]), ("-*:*", []),
        ("brand:alder OR (-rating:*)", [1, 2]), ("size:S -brand:alder", []), ("+size:M rating:4.5", [0]),
    ],
)  # fmt: skip
def test_a_filter_finds(text: str, rows: list[int]) -> None:
    tree = parse(text)
    assert [row for row, record in enumerate(SHOP) if matches_filter(tree, record)] == rows
    store = ColumnStore()
    for record in SHOP:
        store.append(record)
    assert store.mask(tree).nonzero()[0].tolist() == rows


def test_a_user_has_no_defaults_of_products() -> None:
    assert not matches_filter(parse("condition:NEW"), {"user_id": "gina-7"})
    assert matches_filter(
        parse("age:[30 TO 40] AND city:Bonn"), {"user_id": "gina-7", "age": 31, "city": "Bonn"}
    )
