"""A generated market: products, users and interactions. The same numbers give the same data."""

from __future__ import annotations

from random import Random
from typing import Any

from cluster.clock import iso_ms

PRODUCTS, USERS = 3_000, 600
DAY_MS = 86_400_000
SHELVES = [
    ("Garden", "Hand tools", ("trowel", "fork", "hoe", "rake", "spade")),
    ("Garden", "Watering", ("can", "hose", "sprinkler", "barrel")),
    ("Kitchen", "Knives", ("knife", "cleaver", "peeler", "sharpener")),
    ("Kitchen", "Pans", ("pan", "pot", "kettle", "wok")),
    ("Outdoor", "Camping", ("tent", "lantern", "stove", "mattress")),
    ("Outdoor", "Clothing", ("jacket", "fleece", "boots", "gloves")),
    ("Books", "Nature", ("atlas", "guide", "almanac", "handbook")),
    ("Books", "Fiction", ("novel", "stories", "mystery", "saga")),
    ("Play", "Games", ("puzzle", "cards", "dominoes", "chess set")),
    ("Play", "Toys", ("train", "kite", "blocks", "puppet")),
]
WORDS = [
    "steel",
    "oak",
    "zinc",
    "light",
    "folding",
    "large",
    "small",
    "green",
    "red",
    "blue",
    "classic",
    "winter",
]
BRANDS = [
    "Alder",
    "Birk",
    "Corvin",
    "Dunmere",
    "Elgar",
    "Fernhill",
    "Gale",
    "Holt",
    "Ivory",
    "Juno",
    "Kestrel",
    "Mori",
]
TAGS = ["new", "sale", "gift", "eco", "steel", "wood", "kids", "pro"]
PLACES = [(53.8, -1.55), (48.86, 2.35), (52.52, 13.4), (40.42, -3.7)]
KINDS = ["product_detail_page_view", "click", "add_to_cart", "checkout", "like", "read"]
WEIGHTS = [60, 15, 12, 8, 3, 2]


def product_id(number: int) -> str:
    """Name a product."""
    return f"m-{number:04d}"


def user_id(number: int) -> str:
    """Name a user."""
    return f"user-{number:03d}"


def make_products(now_ms: int, count: int = PRODUCTS) -> list[dict[str, Any]]:
    """Make the products; every seventh is a variant of the one before it."""
    random = Random("products")
    return [_make_product(random, number, now_ms) for number in range(count)]


def _make_product(random: Random, number: int, now_ms: int) -> dict[str, Any]:
    section, category, things = SHELVES[number % len(SHELVES)]
    thing, words = random.choice(things), random.sample(WORDS, 2)
    price = round(3 + 90 * random.random() ** 2, 2)
    product: dict[str, Any] = {
        "product_id": product_id(number),
        "type": section.lower(),
        "title": f"{words[0].capitalize()} {words[1]} {thing} {number}",
        "description": f"A {words[0]} {thing} for the {category.lower()} shelf, made of {random.choice(WORDS)} parts.",
        "categories": [[section, category]],
        "brand": random.choice(BRANDS),
        "tags": sorted(random.sample(TAGS, 2)),
        "price": price,
        "language": "en",
        "created_at": iso_ms(now_ms - random.randrange(1, 900) * DAY_MS),
        "custom_attributes": {
            "weight_g": random.randrange(50, 4_000),
            "finish": random.choice(WORDS),
            "eco": number % 3 == 0,
        },
    }
    if number % 7 == 6:
        product["product_group_id"] = f"group-{number // 7}"
        product["color"] = random.choice(["green", "red", "blue"])
    if number % 7 == 5:
        product["product_group_id"] = f"group-{number // 7}"
    if number % 5 == 0:
        product["rating"] = round(1 + 4 * random.random(), 1)
    if number % 4 == 0:
        product["sale_price"] = round(price * 0.8, 2)
    if number % 50 == 49:
        product["availability"] = "OUT_OF_STOCK"
    if number % 11 == 0:
        lat, lon = random.choice(PLACES)
        product["location"] = {"lat": lat, "lon": lon}
    if number % 13 == 0:
        product["i18n_de"] = {"title": f"{thing} Nummer {number}"}
    return product


def make_users(now_ms: int, count: int = USERS) -> list[dict[str, Any]]:
    """Make the users."""
    random = Random("users")
    return [
        {
            "user_id": user_id(number),
            "name": f"Person {number}",
            "age": random.randrange(16, 80),
            "country": random.choice(["GB", "FR", "DE", "ES"]),
            "city": random.choice(["Leeds", "Lyon", "Bonn", "Vigo"]),
            "created_at": iso_ms(now_ms - random.randrange(1, 900) * DAY_MS),
            "custom_attributes": {
                "plan": random.choice(["free", "gold"]),
                "interests": random.sample(TAGS, 2),
            },
        }
        for number in range(count)
    ]


def make_interactions(now_ms: int, count: int, *, from_days: float, to_days: float) -> list[dict[str, Any]]:
    """Make what happened between two moments, oldest first; users keep to a few shelves."""
    random = Random(f"interactions {from_days}")
    ages = sorted((to_days + (from_days - to_days) * random.random() for _ in range(count)), reverse=True)
    return [_make_interaction(random, now_ms - int(age * DAY_MS)) for age in ages]


def _make_interaction(random: Random, at_ms: int) -> dict[str, Any]:
    number = int(USERS * random.random() ** 2)
    category = (number + random.choice([0, 0, 0, 1, 3])) % len(SHELVES)
    kind = random.choices(KINDS, WEIGHTS)[0]
    many = random.randrange(1, 4) if kind == "checkout" else 1
    chosen = [
        int(PRODUCTS / len(SHELVES) * random.random() ** 3) * len(SHELVES) + category for _ in range(many)
    ]
    happened: dict[str, Any] = {
        "type": kind,
        "product_ids": [product_id(index) for index in dict.fromkeys(chosen)],
        "timestamp": iso_ms(at_ms),
    }
    if number % 9 == 8:
        happened["anonymous_id"] = f"visitor-{number:03d}"
    else:
        happened["user_id"] = user_id(number)
    if kind == "product_detail_page_view":
        happened["duration"] = round(60 * random.random(), 1)
    return happened
