"""The stories are visible in what users do: that is what makes personalization visible."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from cluster.clock import iso_ms
from jobs.playground import data_files
from jobs.playground.loader import SampleData, build_sample
from jobs.playground.seeded_random import SeededRandom

NOW_MS = 1_772_442_930_250
SHOWN_ONLY = {"impression"}
HOMES = {
    "spring-gardener": {"Garden"},
    "home-baker": {"Kitchen"},
    "family": {"Play"},
    "hill-walker": {"Outdoor"},
    "crime-reader": {"Books"},
    "politics-follower": {"News"},
    "sports-fan": {"News"},
}


@pytest.fixture(scope="module")
def whole() -> SampleData:
    return build_sample(NOW_MS)


def roots_by_story(whole: SampleData) -> dict[str, Counter[str]]:
    roots = {product["product_id"]: product["categories"][0][0] for product in whole.products}
    story = {user["user_id"]: user["custom_attributes"]["story"] for user in whole.users}
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in whole.interactions:
        if entry["type"] not in SHOWN_ONLY and "user_id" in entry:
            counted[story[entry["user_id"]]].update(
                roots[product_id] for product_id in entry.get("product_ids", ())
            )
    return counted


def test_users_of_a_story_spend_their_time_where_the_story_prefers(whole: SampleData) -> None:
    counted = roots_by_story(whole)
    everybody = sum(counted.values(), Counter())
    for story, homes in HOMES.items():
        at_home = sum(counted[story][root] for root in homes) / counted[story].total()
        elsewhere = sum(everybody[root] for root in homes) / everybody.total()
        assert at_home > 0.4, (story, at_home)
        assert at_home > 1.4 * elsewhere, (story, at_home, elsewhere)


def test_readers_of_one_story_are_not_alike(whole: SampleData) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    story = {user["user_id"]: user["custom_attributes"]["story"] for user in whole.users}
    for entry in whole.interactions:
        if "user_id" in entry and entry["type"] not in SHOWN_ONLY:
            seen[entry["user_id"]].update(entry.get("product_ids", ()))
    gardeners = [products for user_id, products in seen.items() if story[user_id] == "spring-gardener"]
    for gardener in gardeners:
        assert all(gardener != other for other in gardeners if other is not gardener)


def test_every_reader_left_enough_to_go_by(whole: SampleData) -> None:
    counts: Counter[str] = Counter()
    for entry in whole.interactions:
        if entry.get("product_ids") and entry["type"] not in SHOWN_ONLY:
            counts[entry.get("user_id") or entry["anonymous_id"]] += 1
    signed_in = [counts[user["user_id"]] for user in whole.users]
    assert sum(count >= 5 for count in signed_in) > 0.9 * len(signed_in)
    assert max(signed_in) < 200


def test_a_visitor_signs_in_once_and_stays_one_person(whole: SampleData) -> None:
    owner: dict[str, str] = {}
    alone: set[str] = set()
    for entry in whole.interactions:
        visitor = entry.get("anonymous_id")
        if visitor is None:
            continue
        if "user_id" in entry:
            assert owner.setdefault(visitor, entry["user_id"]) == entry["user_id"]
        else:
            alone.add(visitor)
    assert len(alone) > 50
    assert alone <= set(owner)


def test_carts_purchases_ratings_and_searches_belong_together(whole: SampleData) -> None:
    kinds = Counter(entry["type"] for entry in whole.interactions)
    assert kinds["product_detail_page_view"] > kinds["add_to_cart"] > kinds["checkout"] > kinds["rate"] > 50
    assert kinds["search"] > 200
    assert kinds["read"] > 800
    taken: dict[str, set[str]] = defaultdict(set)
    for entry in whole.interactions:
        who = entry.get("user_id") or entry["anonymous_id"]
        if entry["type"] == "add_to_cart":
            taken[who].update(entry["product_ids"])
        elif entry["type"] in ("checkout", "rate", "refund", "remove_from_cart"):
            assert set(entry["product_ids"]) <= taken[who], entry
        if entry["type"] == "checkout":
            assert len(entry["quantities"]) == len(entry["product_ids"])
            assert entry["revenue"] > 0


def test_some_things_are_talked_about_lately(whole: SampleData) -> None:
    def views(since_days: int, until_days: int) -> Counter[str]:
        begin, end = (iso_ms(NOW_MS - days * 86_400_000) for days in (since_days, until_days))
        return Counter(
            product_id
            for entry in whole.interactions
            if begin <= entry["timestamp"] < end and entry["type"] == "product_detail_page_view"
            for product_id in entry["product_ids"]
        )

    lately, before = views(3, 0), views(45, 3)
    assert lately.total() > 150
    rising = [
        product_id
        for product_id, count in lately.items()
        if count >= 4 and count / lately.total() > 2 * before[product_id] / before.total()
    ]
    assert len(rising) >= 3


def test_names_fit_the_place_where_a_reader_lives(whole: SampleData) -> None:
    everyone = data_files.read_people()
    language = {place.city: place.language for place in everyone.places}
    for user in whole.users:
        first, last = user["name"].split(" ")
        names = everyone.names[language[user["city"]]]
        assert first in (names.F if user["gender"] == "F" else names.M)
        assert last in names.last


def test_dice_repeat_themselves_and_stay_within_their_bounds() -> None:
    draws: list[Any] = []
    for _ in range(2):
        dice = SeededRandom("a", 1)
        draws.append([dice.randint(1, 6) for _ in range(200)])
    assert draws[0] == draws[1]
    assert set(draws[0]) == {1, 2, 3, 4, 5, 6}
    assert SeededRandom("a", 1).random() != SeededRandom("a", 2).random()
    weighted = Counter(SeededRandom("w", at).weighted_choice("abc", (0, 1, 3)) for at in range(2_000))
    assert weighted["a"] == 0
    assert 2.3 < weighted["c"] / weighted["b"] < 3.9
