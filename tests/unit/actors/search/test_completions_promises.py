"""What the specification promises of completions, promise by promise, over a few products of its own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import Boost, UserQuery
from actors.recommender.recommender import Recommender
from actors.retrieval.logged_queries import SuccessfulQuery
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.records.logged_query import pseudonym
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import APP, NOW_MS, interaction_change, open_catalog, product_change, recents

PRODUCTS: list[dict[str, Any]] = [
    {"product_id": "p1", "title": "Steel hand trowel", "url": "https://shop.example/p1"},
    {"product_id": "p2", "title": 'Wheelbarrow <deluxe> & "more"', "custom_attributes": {"colour": "crimson"}},
    {"product_id": "p3", "title": "Galaxy S8 case", "custom_attributes": {"colour": ["cream", "crimson"]}},
    {"product_id": "p4", "title": "Garden hose 25 m"},
    {"product_id": "p5", "title": "Crème brûlée torch"},
    {"product_id": "p6", "title": "東京タワー 模型"},
    {"product_id": "p7", "title": "서울타워 모형"},
    {"product_id": "p8", "title": "Садовая лейка"},
    {"product_id": "p9", "title": "إبريق سقاية"},
    {"product_id": "p10", "title": "Extraordinary weatherproof greenhouse thermometer"},
    {"product_id": "p11", "title": "Lantern", "language": "en", "i18n_de": {"title": "Laterne"}},
    {"product_id": "p12", "title": "Lampenschirm", "language": "de"},
    {"product_id": "p13", "title": "Potting bench", "product_group_id": "bench"},
    {"product_id": "p14", "title": "Potting bench, oak", "product_group_id": "bench"},
]  # fmt: skip

SALT = b"salt"


@pytest.fixture
def shop() -> Recommender:
    return open_catalog(PRODUCTS)


def complete(shop: Recommender, typed: str, field: str = "title", **query: Any) -> list[dict[str, Any]]:
    query.setdefault("language", "en")
    request = UserQuery(
        kind="autocomplete", app_id=APP, engine_id="default", typed=typed, completion_fields=(field,), **query
    )
    recent = recents(query["user_id"]) if query.get("user_id") else ()
    return list(dispatch.answer(shop, request, recent, (), NOW_MS).completions[field])


def texts(shop: Recommender, typed: str, field: str = "title", **query: Any) -> list[str]:
    return [entry["text"] for entry in complete(shop, typed, field, **query)]


def search(shop: Recommender, at: int, keywords: str, *users: dict[str, str]) -> None:
    calls = [{"type": "search", "search": {"keywords": keywords}, **user} for user in users]
    shop.apply(interaction_change(calls, f"{NOW_MS + at}-0"))


# --- sources ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["custom_attributes.colour", "attributes.colour"])
def test_attributes_complete_single_values_and_lists_under_either_name(shop: Recommender, field: str) -> None:
    assert sorted(texts(shop, "cr", field)) == ["cream", "crimson"]
    assert texts(shop, "crinsom", field) == ["crimson"]


@pytest.mark.parametrize("field", ["historical_queries", "suggested_queries"])
def test_queries_count_users_and_not_repetitions(shop: Recommender, field: str) -> None:
    search(shop, 1, "Bulb planter", *[{"user_id": "gina"}] * 9, {"anonymous_id": "a-1"}, {"user_id": "carl"})
    assert texts(shop, "bulb", field, min_users=4) == []
    assert texts(shop, "bulb", field, min_users=3) == ["Bulb planter"]
    search(shop, 2, "bulb  PLANTER", {"user_id": "dora"})
    assert texts(shop, "blub", field, min_users=4) == ["Bulb planter"]
    assert "product" not in complete(shop, "bulb", field, min_users=4)[0]


def log_search(shop: Recommender, text: str, *user_keys: str, at_ms: int = NOW_MS, origin: str = "") -> None:
    shop.overlay.logged_queries.record(
        SuccessfulQuery(text, pseudonym(SALT, user_key), at_ms, origin) for user_key in user_keys
    )


def test_successful_queries_of_the_log_are_suggested(shop: Recommender) -> None:
    log_search(shop, "Bulb planter", *(f"u:{number}" for number in range(4)))
    assert texts(shop, "bulb", "suggested_queries", min_users=5) == []
    log_search(shop, "bulb planter", "u:4")
    assert texts(shop, "blub", "suggested_queries", min_users=5) == ["Bulb planter"]
    assert texts(shop, "bulb", "historical_queries", min_users=5) == []


def test_a_reader_of_the_log_and_of_interactions_is_not_counted_twice(shop: Recommender) -> None:
    user_ids = [f"r{number}" for number in range(3)]
    search(shop, 1, "bulb planter", *({"user_id": user_id} for user_id in user_ids))
    log_search(shop, "bulb planter", *(f"u:{user_id}" for user_id in user_ids))
    assert texts(shop, "bulb", "suggested_queries", min_users=5) == []
    assert texts(shop, "bulb", "suggested_queries", min_users=3) == ["bulb planter"]


def test_strangers_of_one_address_suggest_nothing_to_others(shop: Recommender) -> None:
    log_search(shop, "bulb planter", *(f"a:{number}" for number in range(50)), origin="0123456789abcdef")
    log_search(shop, "www.evil.example bulb", *(f"u:{number}" for number in range(50)))
    assert texts(shop, "bulb", "suggested_queries", min_users=2) == []


def test_an_erased_readers_searches_count_no_more_also_those_on_their_way(shop: Recommender) -> None:
    shop.overlay.logged_queries.salt = SALT
    log_search(shop, "bulb planter", *(f"u:{number}" for number in range(5)))
    assert texts(shop, "bulb", "suggested_queries", min_users=5) == ["bulb planter"]
    shop.apply(ChangeLogEntry("interaction", f"{NOW_MS + 3}-0", "erase", b'["u:2"]'))
    log_search(shop, "bulb planter", "u:2")
    assert texts(shop, "bulb", "suggested_queries", min_users=5) == []
    log_search(shop, "bulb planter", "u:2", at_ms=NOW_MS + 4)
    assert texts(shop, "bulb", "suggested_queries", min_users=5) == ["bulb planter"]


@pytest.mark.parametrize("field", ["title", "suggested_queries"])
def test_pages_of_completions_neither_overlap_nor_leave_out(shop: Recommender, field: str) -> None:
    names = [
        f"Bench {word}"
        for word in ("oak", "ash", "elm", "pine", "teak", "birch", "larch", "beech", "fir", "yew")
    ]
    shop.apply(
        product_change(
            [{"product_id": f"b{at}", "title": name} for at, name in enumerate(names)], f"{NOW_MS + 1}-0"
        )
    )
    for at, name in enumerate(names):
        search(shop, at + 2, name, *({"user_id": f"r{number}"} for number in range(5 + at)))
    pages = [texts(shop, "bench", field, rows=3, start=start) for start in (0, 3, 6, 9, 12, 15)]
    listed = [text for page in pages for text in page]
    assert len(listed) == len(set(listed))
    assert set(names) <= set(listed)
    assert pages[0] == texts(shop, "bench", field, rows=3)
    assert pages[1] == texts(shop, "bench", field, rows=3, start=3)
    assert texts(shop, "bench", field, rows=3, start=500) == []


def test_forgetting_a_reader_lowers_every_count_they_are_in(shop: Recommender) -> None:
    for at, query in enumerate(("bulb planter", "bulb fibre")):
        search(shop, at + 1, query, *({"user_id": f"r{number}"} for number in range(5)))
    assert len(texts(shop, "bulb", "historical_queries", min_users=5)) == 2
    shop.apply(ChangeLogEntry("interaction", f"{NOW_MS + 3}-0", "remove", b'["u:r2"]'))
    assert texts(shop, "bulb", "historical_queries", min_users=5) == []
    assert len(texts(shop, "bulb", "historical_queries", min_users=4)) == 2
    search(shop, 4, "bulb fibre", {"user_id": "r2"})
    assert texts(shop, "bulb", "historical_queries", min_users=5) == ["bulb fibre"]


def test_filters_are_for_products_and_leave_queries_alone(shop: Recommender) -> None:
    search(shop, 1, "bulb planter", *({"user_id": f"r{number}"} for number in range(5)))
    assert texts(shop, "bulb", "historical_queries", filter=parse("product_id:p1")) == ["bulb planter"]


# --- what is typed ------------------------------------------------------------------------------------------------


def test_a_blank_at_the_end_finishes_the_word(shop: Recommender) -> None:
    shop.apply(product_change([{"product_id": "p15", "title": "Pot"}], f"{NOW_MS + 1}-0"))
    # a finished word comes before those it begins, which may still be meant
    assert texts(shop, "pot ")[0] == "Pot"
    assert texts(shop, "po ") == []
    assert complete(shop, "pot ")[0]["text_with_markups"] == "Pot"
    assert texts(shop, "steel ") == ["Steel hand trowel"]


@pytest.mark.parametrize(
    ("typed", "matches"),
    [
        ("la", True),
        ("lq", False),
        ("lanrten", True),
        ("extraordinry", True),
        ("extrordinry", True),
        ("xetraordinary waetherproof", True),
        ("extrordinry wetherprof", True),
        ("extraordinry wetherprof grenhouse", True),
        ("extrqrdxnqryxqatherproof", False),
    ],
)
def test_the_budget_of_typos_grows_with_what_was_typed(shop: Recommender, typed: str, matches: bool) -> None:
    assert any(text.startswith(("Lantern", "Extraordinary")) for text in texts(shop, typed)) is matches


def test_a_typo_in_the_first_letter_is_forgiven_and_costs_more() -> None:
    shop = Recommender(HashingEmbedder())
    pair = [{"product_id": "a", "title": "Candle"}, {"product_id": "b", "title": "Handel"}]
    shop.apply(product_change(pair, f"{NOW_MS}-0"))
    assert texts(shop, "hantle")[0] == "Handel"
    assert texts(shop, "kandle")[0] == "Candle"
    assert texts(shop, "handle")[0] == "Handel"


def test_a_text_with_another_number_is_behind_those_with_the_typed_one() -> None:
    shop = Recommender(HashingEmbedder())
    phones = ["Galaxy S7 case", "Galaxy S8 case with a long name", "Galaxy S9 case", "Garden hose 25 m"]
    products = [{"product_id": title, "title": title} for title in phones]
    shop.apply(product_change(products, f"{NOW_MS}-0"))
    assert texts(shop, "galaxy s8") == ["Galaxy S8 case with a long name"]
    assert texts(shop, "galxy s8")[0] == "Galaxy S8 case with a long name"
    assert texts(shop, "galxy s6")
    assert texts(shop, "gadren hose 26") == texts(shop, "gadren hose 2") == ["Garden hose 25 m"]


@pytest.mark.parametrize("typed", ["trowel steel", "hand trwoel", "towel hand steel", "trowel st"])
def test_several_words_match_in_any_order(shop: Recommender, typed: str) -> None:
    assert texts(shop, typed)[0] == "Steel hand trowel"


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("CREME BRU", "Crème brûlée torch"),
        ("crème brüleé", "Crème brûlée torch"),
        ("東京", "東京タワー 模型"),
        ("タワー", "東京タワー 模型"),
        ("模", "東京タワー 模型"),
        ("서울", "서울타워 모형"),
        ("타워", "서울타워 모형"),
        ("садов", "Садовая лейка"),
        ("САДВОАЯ", "Садовая лейка"),
        ("إبر", "إبريق سقاية"),
        ("ＧＡＬＡＸＹ", "Galaxy S8 case"),
    ],
)
def test_accents_case_width_and_scripts_are_no_obstacle(shop: Recommender, typed: str, first: str) -> None:
    assert texts(shop, typed)[0] == first


def test_a_language_completes_the_fields_of_that_language(shop: Recommender) -> None:
    # the environment's language: what is written in no other way stays
    assert texts(shop, "la", language="de") == texts(shop, "la", language="de", only_language=False)
    assert sorted(texts(shop, "la", language="de")) == ["Lampenschirm", "Laterne"]
    assert sorted(texts(shop, "la", language="en")) == ["Lampenschirm", "Lantern"]
    # a language that was asked for: products in another one have nothing to say
    assert texts(shop, "la", language="en", only_language=True) == ["Lantern"]
    assert sorted(texts(shop, "la", language="de", only_language=True)) == ["Lampenschirm", "Laterne"]
    assert texts(shop, "la", language="fr", only_language=True) == []


@pytest.mark.parametrize(
    "typed", ["", " ", "\x00\x07\x1b", "🪴🪴", "'", "a" * 10_000, "a b " * 2_500, "9" * 400, "%$#"]
)
def test_whatever_is_typed_is_answered_at_once(shop: Recommender, typed: str) -> None:
    texts(shop, "warm")
    began = time.thread_time()
    texts(shop, typed)
    assert time.thread_time() - began < 0.25


# --- what is shown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "normal", "inverted"),
    [
        ("steel h", "Steel h<mark>and trowel</mark>", "<mark>Steel h</mark>and trowel"),
        ("setel ha", "Steel ha<mark>nd trowel</mark>", "<mark>Steel ha</mark>nd trowel"),
        ("stel ha", "Steel ha<mark>nd trowel</mark>", "<mark>Steel ha</mark>nd trowel"),
        ("hand t", "<mark>Steel </mark>hand t<mark>rowel</mark>", "Steel <mark>hand t</mark>rowel"),
        ("trowel steel", "Steel<mark> hand </mark>trowel", "<mark>Steel</mark> hand <mark>trowel</mark>"),
        (
            "weelbarrow de",
            "Wheelbarrow &lt;de<mark>luxe&gt; &amp; \"more\"</mark>",
            "<mark>Wheelbarrow &lt;de</mark>luxe&gt; &amp; \"more\"",
        ),
        ("creme bru", "Crème brû<mark>lée torch</mark>", "<mark>Crème brû</mark>lée torch"),
        ("東", "東<mark>京タワー 模型</mark>", "<mark>東</mark>京タワー 模型"),
    ],
)  # fmt: skip
def test_marks_stand_around_what_was_not_typed_typos_or_not(
    shop: Recommender, typed: str, normal: str, inverted: str
) -> None:
    entry = complete(shop, typed)[0]
    assert (entry["text_with_markups"], entry["text_with_inverted_markups"]) == (normal, inverted)


def test_a_title_brings_its_product_for_a_direct_link(shop: Recommender) -> None:
    (entry,) = complete(shop, "steel hand", fields=("url",))
    assert entry["product"] == {
        "product_id": "p1",
        "url": "https://shop.example/p1",
        "_boosted": False,
        "_personalization_score": entry["product"]["_personalization_score"],
    }
    assert complete(shop, "lante", fields=())[0]["product"].keys() == {
        "product_id", "_boosted", "_personalization_score",
    }  # fmt: skip


def test_variants_come_once_unless_requested(shop: Recommender) -> None:
    assert len(texts(shop, "potting")) == 1
    assert sorted(texts(shop, "potting", dedupe=False)) == ["Potting bench", "Potting bench, oak"]


# --- order and admission ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["", "la", "lamtern", "stel", "potting"])
def test_profile_and_boosts_order_the_matches_and_never_change_them(shop: Recommender, typed: str) -> None:
    plain = texts(shop, typed, rows=50)
    everything = Boost(parse("product_id:*"))
    boost = Boost(parse('product_id:"p12"'), positions=(0,))
    for query in ({"user_id": "gina"}, {"boosts": (everything,)}, {"boosts": (boost,)}):
        assert sorted(texts(shop, typed, rows=50, **query)) == sorted(plain)


def test_filters_exclude_texts_however_well_they_match(shop: Recommender) -> None:
    for typed in ("steel hand trowel", "stel hand", "trowel steel"):
        assert texts(shop, typed, filter=parse("-product_id:p1")) == []


def test_a_changed_title_matches_its_new_words_only_and_at_once(shop: Recommender) -> None:
    assert texts(shop, "lantern") == ["Lantern"]
    shop.apply(product_change([{"product_id": "p11", "title": "Candlestick"}], f"{NOW_MS + 1}-0"))
    assert texts(shop, "lantern") == []
    assert texts(shop, "candel") == ["Candlestick"]
