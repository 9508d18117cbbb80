"""The look-up of completions."""

from __future__ import annotations

import numpy as np
import pytest

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex

TITLES = [
    "Steel hand trowel",
    "Steel hand fork",
    "Trowel rack",
    "Garden hose 25 m",
    "Café crème cups",
    "The Last Berth",
    "東京タワー",
    "Watering can",
    "Copper watering can",
]
POPULARITY = np.array([50.0, 40, 5, 30, 20, 10, 3, 60, 2])


@pytest.fixture(scope="module")
def index() -> CompletionIndex:
    return CompletionIndex.of(TITLES, POPULARITY)


def looked_up(index: CompletionIndex, typed: str, expected: int = 5) -> list[str]:
    return [TITLES[at] for at in index.look_up(fold_typed(typed), expected).texts.tolist()]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("steel", ["Steel hand trowel", "Steel hand fork"]),
        ("trow", ["Steel hand trowel", "Trowel rack"]),
        ("trwel r", ["Trowel rack"]),
        ("rtowel r", ["Trowel rack"]),
        ("cafe", ["Café crème cups"]),
        ("京タ", ["東京タワー"]),
        ("berth last", ["The Last Berth"]),
        ("can watering", ["Watering can"]),
        ("wateringcan", ["Watering can"]),
        ("qqqqqqq", []),
    ],
)
def test_completions_begin_with_what_was_meant(
    index: CompletionIndex, typed: str, expected: list[str]
) -> None:
    assert looked_up(index, typed)[: len(expected)] == expected
    if not expected:
        assert looked_up(index, typed) == []


def test_nothing_typed_gives_the_most_popular(index: CompletionIndex) -> None:
    assert looked_up(index, "", 3) == ["Watering can", "Steel hand trowel", "Steel hand fork"]


def test_only_allowed_texts_match(index: CompletionIndex) -> None:
    allowed = np.ones(len(TITLES), np.bool_)
    allowed[0] = False
    for typed in ("steel", "stel", "trowel steel"):
        matches = index.look_up(typed, 5, allowed=lambda texts: allowed[texts])
        assert 0 not in matches.texts


def test_a_finished_word_is_not_continued(index: CompletionIndex) -> None:
    assert looked_up(index, "ca ") == []
    assert looked_up(index, "ca") == ["Watering can", "Café crème cups", "Copper watering can"]
    assert looked_up(index, "can ") == ["Watering can", "Copper watering can"]


def test_every_title_matches_its_prefix() -> None:
    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdef"), rng.integers(2, 8))) for _ in range(60)]
    titles = sorted({" ".join(rng.choice(words, rng.integers(1, 5))) for _ in range(3_000)})
    many = CompletionIndex.of(titles, rng.random(len(titles)))
    for at in rng.integers(0, len(titles), 200).tolist():
        exact = {place for place, title in enumerate(titles) if f" {title}".find(f" {titles[at]}") >= 0}
        assert set(many.look_up(titles[at], len(exact)).texts.tolist()) == exact


def test_of_equally_popular_texts_the_one_of_which_most_was_typed_comes_first() -> None:
    titles = [
        "Garden hose with reel and brass nozzle",
        "Rubber garden hose",
        "Garden hose",
        "Garden hose reel",
    ]
    equal = CompletionIndex.of(titles, np.ones(4))
    for typed in ("garden h", "gadren h"):
        matches = [titles[at] for at in equal.look_up(typed, 4).texts.tolist()]
        assert matches[:3] == ["Garden hose", "Garden hose reel", titles[0]]
        assert matches[-1] == "Rubber garden hose"


FILMS = [
    "Matrix, The (1999)",
    "Matador, The (2005)",
    "Mattress Sale",
    "Avventura, L' (1960)",
    "Theatre Road (1950)",
]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("the mat", "Matrix, The (1999)"),
        ("the matrix", "Matrix, The (1999)"),
        ("hte matirx", "Matrix, The (1999)"),
        ("matrix the", "Matrix, The (1999)"),
        ("matrix, the (19", "Matrix, The (1999)"),
        ("matrx", "Matrix, The (1999)"),
        ("l'avven", "Avventura, L' (1960)"),
    ],
)
def test_a_title_with_a_moved_article_matches_in_natural_order(typed: str, expected: str) -> None:
    films = CompletionIndex.of(FILMS, np.array([50.0, 40, 30, 20, 10]))
    matches = films.look_up(fold_typed(typed), 3)
    assert FILMS[int(matches.texts[0])] == expected
    assert int(matches.edits[0]) <= 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("wtering acn", "Watering can"),
        ("warerjng xn", "Watering can"),
        ("tge lsat vr", "The Last Berth"),
        ("copprr wtaring", "Copper watering can"),
    ],
)
def test_one_more_typo_is_forgiven_where_nothing_else_could_be_meant(
    index: CompletionIndex, typed: str, expected: str
) -> None:
    assert looked_up(index, typed, 1) == [expected]


def test_a_few_distant_inner_matches_do_not_hide_the_prefix_match() -> None:
    titles = ["The Three Mesquiteers", "Help Thanks Wow: The Three Essential Prayers", "Tales of the City"]
    few = CompletionIndex.of(titles, np.ones(3))
    matches = few.look_up("the therre es", 10)
    assert {titles[at] for at in matches.texts.tolist()} == set(titles[:2])


def test_a_popular_text_is_not_hidden_by_texts_that_share_letters_by_chance() -> None:
    titles = [f"Small steel gloves {at}" for at in range(400)] + ["Blue folding gloves for the garden"]
    index = CompletionIndex.of(titles, np.array([1.0] * 400 + [100.0]))
    assert index.look_up(fold_typed("gal"), 4).texts.tolist()[0] == 400


def test_texts_of_many_equal_characters_sort_by_the_next_ones() -> None:
    beginning = "The complete collected letters of the year "
    ends = ["Two", "Fellow", "Return", "Animal", "Music", "Zebra", "Fell"]
    longer = CompletionIndex.of([beginning + end for end in ends], np.array([5.0, 1, 9, 3, 7, 2, 8]))
    completions = {
        end: [ends[at] for at in longer.look_up(fold_typed(beginning + end), 5).texts.tolist()]
        for end in ends
    }
    assert completions == {end: [end] for end in ends if end != "Fell"} | {"Fell": ["Fell", "Fellow"]}
