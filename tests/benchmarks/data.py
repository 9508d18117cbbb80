"""Made-up records for a run: plausible sizes, fixed seed."""

from __future__ import annotations

import random
from typing import Any

BRANDS = ["Alder", "Fernhill", "Marlow", "Quist", "Ostara", "Brome", "Teasel", "Holm"]
NOUNS = ["trowel", "kettle", "lamp", "tent", "notebook", "saw", "bowl", "jacket", "rake", "chair"]
TRAITS = ["steel", "oak", "compact", "folding", "enamel", "quiet", "alpine", "linen", "bright", "sturdy"]


def products(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Make products with titles, categories, tags and attributes."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        noun, trait, other = rng.choice(NOUNS), rng.choice(TRAITS), rng.choice(TRAITS)
        made.append(
            {
                "product_id": f"p{number}",
                "product_group_id": f"g{number // 2}",
                "title": f"{trait.title()} {noun} {number}",
                "description": f"A {trait}, {other} {noun} for every day.",
                "brand": rng.choice(BRANDS),
                "categories": [["Shop", noun.title(), trait.title()]],
                "tags": [trait, other],
                "price": round(rng.uniform(3, 300), 2),
                "rating": round(rng.uniform(2, 5), 1),
                "type": "article" if number % 10 == 0 else "product",
                "custom_attributes": {
                    "weight_g": rng.randint(20, 5000),
                    "colour": rng.choice(["red", "blue"]),
                },
            }
        )
    return made


def users(count: int, prefix: str = "u") -> list[dict[str, Any]]:
    """Make user records."""
    return [
        {
            "user_id": f"{prefix}{number}",
            "name": f"Reader {number}",
            "age": 18 + number % 60,
            "city": "Leeds",
            "country": "GB",
            "created_at": "2025-11-20T08:30:00Z",
            "custom_attributes": {"plan": "gold", "interests": ["bulbs", "soil"]},
        }
        for number in range(count)
    ]


def interactions(count: int, users: int, catalog: int, seed: int = 11) -> list[dict[str, Any]]:
    """Make interactions of users who keep to a corner of the catalog."""
    rng = random.Random(seed)
    kinds = ["product_detail_page_view", "click", "add_to_cart", "checkout"]
    made = []
    for _ in range(count):
        user = rng.randrange(users)
        item = (user * 37 + int(rng.expovariate(1 / 40))) % catalog
        kind = rng.choices(kinds, [6, 3, 1, 0.5])[0]
        made.append({"type": kind, "user_id": f"u{user}", "product_ids": [f"p{item}"]})
    return made
