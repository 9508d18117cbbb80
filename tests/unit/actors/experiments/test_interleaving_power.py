"""How often equal sides are decided, and how many people find a better side: simulated people, fixed seeds.

The world: a person meets 60 products with a latent attraction. Two rankers know it with an error, most of which they
share, as two snapshots of one engine do. People examine places from the top, less and less, and click by attraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.experiments.interleaving import ALPHA
from actors.experiments.sample_size import estimate_sample_size
from actors.experiments.statistics import estimate_win_share
from actors.experiments.team_draft import SideList, draft_list
from cluster.records.served_list import FIRST_SIDE, SECOND_SIDE

POOL, ROWS = 60, 10
EXAMINED = 1 / np.log2(np.arange(2, ROWS + 2))
Table = NDArray[np.float64]
Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class RankedPeople:
    """Shapes: attraction [n, POOL]; first, second [n, ROWS]: products that the sides rank for each person."""

    attraction: Table
    first: Ranks
    second: Ranks

    def clicks(self, ranked: Ranks) -> Table:
        """Return the probability of a click at each place."""
        chances: Table = np.take_along_axis(self.attraction, ranked, 1) * EXAMINED
        return chances

    @property
    def overlap(self) -> float:
        """Return the share of the products that both lists of a person have."""
        shared = [
            len(set(a) & set(b)) for a, b in zip(self.first.tolist(), self.second.tolist(), strict=True)
        ]
        return float(np.mean(shared)) / ROWS

    def draft(self, seed: str, *, exchanged: bool = False) -> tuple[Table, Ranks]:
        """Return the probability of a click and the credited side, for each person and place."""
        sides = (self.second, self.first) if exchanged else (self.first, self.second)
        drafted, credits = np.zeros((2, len(self.first), ROWS), np.int64)
        for at, (first, second) in enumerate(zip(*(side.tolist() for side in sides), strict=True)):
            picks = draft_list(SideList(first, {}), SideList(second, {}), f"{seed} {at}", 0, ROWS)
            drafted[at] = [(first, second)[pick.side][pick.position] for pick in picks]
            credits[at] = [pick.credit for pick in picks]
        return self.clicks(drafted), credits


def rank_people(
    random: np.random.Generator, people: int, first_error: float, second_error: float
) -> RankedPeople:
    appeal, shared = random.normal(size=(2, people, POOL))
    first, second = (
        np.argsort(-(appeal + shared + error * random.normal(size=appeal.shape)), axis=1)[:, :ROWS]
        for error in (first_error, second_error)
    )
    return RankedPeople(1 / (1 + np.exp(3 - appeal)), first, second)


def count_credits(random: np.random.Generator, chances: Table, credits: Ranks) -> Ranks:
    """Return, for each person, how many more clicks the second side got in one day."""
    clicked = random.random(chances.shape) < chances
    more: Ranks = (clicked & (credits == SECOND_SIDE)).sum(1) - (clicked & (credits == FIRST_SIDE)).sum(1)
    return more


def test_equal_sides_are_decided_in_at_most_one_of_a_hundred_comparisons() -> None:
    """1,000 comparisons of different rankers with equal error, each read on 28 days; people come back on many days.

    Each person of the world exists twice, with the sides exchanged, so that the sides are equal to the last digit. A
    person prefers one side on all days, as their lists are the same: days of one person are not independent.
    """
    random, people = np.random.default_rng(26), 600
    world = rank_people(random, people, 0.5, 0.5)
    drafts = [
        tuple(
            map(
                np.concatenate,
                zip(world.draft(f"{day}"), world.draft(f"x{day}", exchanged=True), strict=True),
            )
        )
        for day in range(4)
    ]
    decided = 0
    for _ in range(1_000):
        chosen = random.integers(0, 2 * people, 500)
        activity = random.beta(1, 3, len(chosen))
        wins, days = np.zeros((2, len(chosen)), np.int64)
        for day in range(28):
            chances, credits = drafts[day % 4]
            more = count_credits(random, chances[chosen], credits[chosen])
            comes = random.random(len(chosen)) < activity
            wins += comes & (more > 0)
            days += comes & (more != 0)
            is_counted = days > 0
            if estimate_win_share(wins[is_counted], days[is_counted], alpha=ALPHA).decided:
                decided += 1
                break
    assert days.sum() > 1_000
    assert decided <= 10, decided


def count_needed_people(
    random: np.random.Generator, chances: Table, credits: Ranks, *, runs: int, step: int, most: int
) -> tuple[int, int]:
    """Return how many people decide 80 % of the runs for the second side, and how many runs choose the first one."""
    needed, wrong = [], 0
    for _ in range(runs):
        chosen = random.integers(0, len(chances), most)
        more = count_credits(random, chances[chosen], credits[chosen])
        needed.append(most + 1)
        for people in range(step, most + 1, step):
            days = (more[:people] != 0).astype(np.int64)
            wins = (more[:people] > 0).astype(np.int64)
            share = estimate_win_share(wins[days > 0], days[days > 0], alpha=ALPHA)
            if share.decided:
                needed[-1] = people if share.value > 0.5 else most + 1
                wrong += share.value < 0.5
                break
    return sorted(needed)[int(0.8 * runs) - 1], wrong


def test_a_ranker_with_three_percent_more_clicks_needs_a_tenth_of_the_people() -> None:
    """Equal power, 80 %. The A/B test may decide wrongly in 5 % of comparisons, interleaving in 1 %.

    The factor depends on what the lists share: clicks on shared places are noise to an A/B test alone.
    """
    random = np.random.default_rng(3)
    world = rank_people(random, 20_000, 0.45, 0.16)
    first, second = world.clicks(world.first), world.clicks(world.second)
    assert 0.028 < second.sum() / first.sum() - 1 < 0.032
    assert 0.75 < world.overlap < 0.85
    clicking, lifted = (float(np.mean(1 - np.prod(1 - chances, axis=1))) for chances in (first, second))
    split = estimate_sample_size(clicking, lifted / clicking - 1, power=0.8).total
    needed, wrong = count_needed_people(random, *world.draft("power"), runs=100, step=250, most=30_000)
    assert wrong == 0
    assert split is not None
    assert needed * 10 <= split, (needed, split)
