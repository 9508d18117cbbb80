"""The draft of two lists, the credit of clicks, and the decision: pure functions."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import polars as pl
import pytest

from actors.experiments.interleaving import CREDIT_COLUMNS, judge_credits, select_credits
from actors.experiments.team_draft import DraftCoins, DraftPick, SideList, draft_list, seed_draft
from cluster.records.experiment import Experiment
from cluster.records.served_list import BOTH_SIDES, FIRST_SIDE, SECOND_SIDE

DAY_MS = 86_400_000


def side(products: str, pinned: dict[int, int] | None = None) -> SideList:
    return SideList(list(products), pinned or {})


def products_of(picks: list[DraftPick], first: SideList, second: SideList) -> str:
    return "".join(str((first, second)[pick.side].products[pick.position]) for pick in picks)


def seed_with(turns: tuple[int, ...]) -> str:
    """Return a seed whose coins let these sides pick first in the first rounds."""
    return next(
        str(number)
        for number in range(100_000)
        if tuple(DraftCoins(str(number)).find_side(2 * at) for at in range(len(turns))) == turns
    )


def experiment(**fields: Any) -> Experiment:
    variants = [
        {"variant_id": "first", "name": "now", "slug": "first", "snapshot": "v1"},
        {"variant_id": "second", "name": "new", "slug": "second", "snapshot": "v2"},
    ]
    return Experiment.model_validate(
        {
            "app_id": "shop", "experiment_id": "exp-1", "slug": "new", "name": "New", "variants": variants,
            "method": "interleave", "entry_salt": "entry salt", "variant_salt": "variant salt",
            "goal": ("click", "read"), **fields,
        }
    )  # fmt: skip


def test_sides_pick_by_turns_and_a_coin_decides_each_round() -> None:
    first, second = side("abcdef"), side("uvwxyz")
    picks = draft_list(first, second, seed_with((0, 1, 0)), 0, 6)
    assert products_of(picks, first, second) == "auvbcw"
    assert [pick.credit for pick in picks] == [1, 2, 2, 1, 1, 2]


def test_a_side_adds_its_best_product_that_the_list_lacks() -> None:
    first, second = side("abcd"), side("badc")
    picks = draft_list(first, second, seed_with((0, 0)), 0, 4)
    assert products_of(picks, first, second) == "abcd"
    assert [pick.credit for pick in picks] == [FIRST_SIDE, BOTH_SIDES, FIRST_SIDE, BOTH_SIDES]


def test_equal_sides_credit_nobody() -> None:
    both = side("abcdef")
    for seed in range(50):
        picks = draft_list(both, both, str(seed), 0, 6)
        assert products_of(picks, both, both) == "abcdef"
        assert {pick.credit for pick in picks} == {BOTH_SIDES}


def test_a_pinned_product_stays_at_its_place() -> None:
    first, second = side("abPcd", {2: 2}), side("xyPzw", {2: 2})
    for seed in range(50):
        picks = draft_list(first, second, str(seed), 0, 5)
        assert products_of(picks, first, second)[2] == "P"
        assert picks[2].credit == BOTH_SIDES


def test_each_side_pins_its_product_where_it_picks() -> None:
    first, second = side("Pabc", {0: 0}), side("Qxyz", {0: 0})
    for turn, top in ((0, "P"), (1, "Q")):
        picks = draft_list(first, second, seed_with((turn,)), 0, 4)
        assert products_of(picks, first, second)[0] == top
        assert picks[0].credit == (FIRST_SIDE, SECOND_SIDE)[turn]
    # the product that lost its place is picked like any other
    assert set("PQ") <= set(products_of(picks, first, second))


def test_a_side_whose_list_ends_leaves_its_places_to_the_other() -> None:
    first, second = side("a"), side("uvwx")
    picks = draft_list(first, second, seed_with((0, 0)), 0, 9)
    assert products_of(picks, first, second) == "auvwx"
    assert products_of(draft_list(side(""), second, "s", 0, 3), side(""), second) == "uvw"
    assert draft_list(side(""), side(""), "s", 0, 3) == []


def test_each_product_appears_once_and_both_best_products_are_among_the_first_two() -> None:
    random = Random(5)
    for number in range(2_000):
        pool = [f"p{at}" for at in range(random.randint(1, 30))]
        lists = [SideList(random.sample(pool, random.randint(1, len(pool))), {}) for _ in range(2)]
        picks = draft_list(*lists, str(number), 0, 12)
        drafted = [lists[pick.side].products[pick.position] for pick in picks]
        assert len(set(drafted)) == len(drafted) == min(12, len({*lists[0].products, *lists[1].products}))
        assert {lists[0].products[0], lists[1].products[0]} <= set(drafted[:2])


def test_the_coin_is_fair() -> None:
    """Each of the two sides fills each place equally often: both orders of a round have probability one half."""
    heads, rounds = Counter[int](), 20_000
    for number in range(rounds):
        coins = DraftCoins(seed_draft(experiment(), f"u:{number}", "user_to_products", "day 1"))
        sides = [coins.find_side(place) for place in range(20)]
        assert all(sides[at] != sides[at + 1] for at in range(0, 20, 2))
        heads.update(at for at in range(10) if sides[2 * at])
    for at in range(10):
        assert abs(heads[at] - rounds / 2) < 4.5 * (rounds / 4) ** 0.5, at


def test_exchanged_sides_and_an_exchanged_coin_give_the_same_list() -> None:
    """So whatever a side gains by the coin, the other one gains as often."""
    first, second = side("abcdefgh"), side("cxaybzhu")
    turns = {}
    for seed in range(400):
        coins = tuple(DraftCoins(str(seed)).find_side(2 * at) for at in range(3))
        turns.setdefault(coins, str(seed))
    assert len(turns) == 8
    for coins, seed in turns.items():
        other = turns[tuple(1 - coin for coin in coins)]
        picks, exchanged = draft_list(first, second, seed, 0, 6), draft_list(second, first, other, 0, 6)
        assert products_of(picks, first, second) == products_of(exchanged, second, first)
        assert [pick.credit for pick in picks] == [(0, 2, 1)[pick.credit] for pick in exchanged]


@pytest.mark.parametrize("sizes", [(5, 5, 5), (3, 4, 8), (1, 1, 13)])
def test_pages_of_one_list_continue_one_draft(sizes: tuple[int, ...]) -> None:
    """A side's list of a page begins behind the products of earlier pages, as with a `pagination_id`."""
    random = Random(9)
    for number in range(200):
        lists = [random.sample("abcdefghijklmnopqrstuvwxyz", 26) for _ in range(2)]
        whole = draft_list(SideList(lists[0], {}), SideList(lists[1], {}), str(number), 0, 15)
        drafted = [lists[pick.side][pick.position] for pick in whole]
        shown: list[str] = []
        credits: list[int] = []
        for rows in sizes:
            rest = [[product for product in products if product not in shown] for products in lists]
            picks = draft_list(SideList(rest[0], {}), SideList(rest[1], {}), str(number), len(shown), rows)
            shown += [rest[pick.side][pick.position] for pick in picks]
            credits += [pick.credit for pick in picks]
        assert shown == drafted
        assert credits == [pick.credit for pick in whole]


def test_a_client_cannot_choose_the_seed() -> None:
    """Without the secret of the experiment, nothing that a client sends tells its coins."""
    names = ("u:ada", "user_to_products", "page-1")
    assert seed_draft(experiment(), *names) == seed_draft(experiment(), *names)
    others = [
        seed_draft(experiment(variant_salt="another salt"), *names),
        seed_draft(experiment(experiment_id="exp-2"), *names),
        seed_draft(experiment(), "u:bob", *names[1:]),
        seed_draft(experiment(), *names[:2], "page-2"),
    ]
    assert len({seed_draft(experiment(), *names), *others}) == 5


def outcome(service_id: str, place: int, credit: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "click", "service_id": service_id, "places": [place], "sides": [credit], "user": "ada",
        "answered_at": DAY_MS, **fields,
    }  # fmt: skip


def credits_of(*outcomes: dict[str, Any]) -> pl.DataFrame:
    return select_credits(pl.DataFrame(list(outcomes)), experiment())


def test_a_click_credits_the_side_of_its_place_once() -> None:
    credits = credits_of(
        outcome("s1", 1, FIRST_SIDE),
        outcome("s1", 1, FIRST_SIDE, type="read"),
        outcome("s1", 2, BOTH_SIDES),
        outcome("s1", 3, SECOND_SIDE, type="checkout"),
        outcome("s2", 3, SECOND_SIDE, user=""),
    )
    result = judge_credits(credits)
    assert (result.first_clicks, result.second_clicks) == (1, 0)
    assert (result.first_wins, result.second_wins, result.ties, result.people) == (1, 0, 0, 1)


def test_the_side_with_more_credit_wins_the_day_of_a_person() -> None:
    result = judge_credits(
        credits_of(
            outcome("s1", 1, FIRST_SIDE),
            outcome("s2", 1, SECOND_SIDE),
            outcome("s2", 2, SECOND_SIDE),
            outcome("s3", 1, FIRST_SIDE, answered_at=2 * DAY_MS),
            outcome("s4", 1, FIRST_SIDE, user="bob"),
            outcome("s4", 2, SECOND_SIDE, user="bob"),
        )
    )
    assert (result.first_wins, result.second_wins, result.ties, result.people) == (1, 1, 1, 1)
    assert result.share.value == 0.5
    assert result.better is None


def test_without_clicks_nothing_is_decided() -> None:
    result = judge_credits(pl.DataFrame(schema=CREDIT_COLUMNS))
    assert (result.people, result.share.value, result.better) == (0, 0.5, None)
    assert (result.share.low, result.share.high, result.share.p_value) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(("credit", "better"), [(FIRST_SIDE, FIRST_SIDE), (SECOND_SIDE, SECOND_SIDE)])
def test_a_side_that_wins_nearly_always_is_better(credit: int, better: int) -> None:
    rows = [outcome(f"s{number}", 1, credit, user=f"p{number}") for number in range(300)]
    rows += [outcome(f"t{number}", 1, 3 - credit, user=f"q{number}") for number in range(60)]
    result = judge_credits(credits_of(*rows))
    assert result.better == better
    assert (result.share.low < 0.5 < result.share.high) is False


def test_days_of_one_person_count_less_than_days_of_many() -> None:
    """100 people who win three days each are less evidence than 300 people who win a day."""
    many = [outcome(f"s{n}", 1, 2 if n % 10 < 6 else 1, user=f"p{n}") for n in range(300)]
    few = [
        outcome(f"s{n}-{day}", 1, 2 if n % 10 < 6 else 1, user=f"p{n}", answered_at=day * DAY_MS)
        for n in range(100)
        for day in range(3)
    ]
    wide, narrow = (judge_credits(credits_of(*rows)).share for rows in (few, many))
    assert wide.value == narrow.value == 0.6
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)
    assert wide.p_value > narrow.p_value
