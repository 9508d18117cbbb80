"""The credit of clicks in interleaved lists, and the decision which side is better.

    credit      a click credits the side that placed the product, and neither if both would have placed it there; per
                person and day the side with more credit wins
    decision    the share of days that the second side won, with an interval that holds at all looks together

Source:
    F. Radlinski, M. Kurup, T. Joachims, How does clickthrough data reflect retrieval quality?, CIKM 2008; that shared
    places credit neither side is ours
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from actors.experiments.statistics import WinShare, estimate_win_share
from actors.experiments.team_draft import CREDITS
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.records.experiment import Experiment
from cluster.records.served_list import FIRST_SIDE, SECOND_SIDE

ALPHA: Final = 0.01
"Chance that two equal sides are ever decided, over all looks together."


@dataclass(frozen=True, slots=True)
class InterleavingResult:
    """What clicks say about two sides."""

    first_clicks: int
    second_clicks: int
    first_wins: int
    "Days of a person on which the first side had more credit."
    second_wins: int
    ties: int
    people: int
    "People with a day that a side won."
    share: WinShare
    "Share of the days with a winner that the second side won."

    @property
    def better(self) -> int | None:
        """Return the side that is better: `FIRST_SIDE` or `SECOND_SIDE`; None: open."""
        if not self.share.decided:
            return None
        return SECOND_SIDE if self.share.value > 1 / 2 else FIRST_SIDE


CREDIT_COLUMNS: Final = {
    "service_id": pl.String,
    "place": pl.Int16,
    "side": pl.Int8,
    "user": pl.String,
    "answered_at": pl.Int64,
}


def select_credits(outcomes: pl.DataFrame, experiment: Experiment) -> pl.DataFrame:
    """Return the credited places of interleaved lists: one row for each place, whatever followed from it.

    Shapes:
        outcomes: `cluster.artifacts.logs.outcomes.COLUMNS`, of lists of the experiment
        result: `CREDIT_COLUMNS`
    """
    mine = outcomes.filter(pl.col("type").is_in(experiment.goal) & (pl.col("user") != ""))
    places = mine.select(
        "service_id", pl.col("places").alias("place"), pl.col("sides").alias("side"), "user", "answered_at"
    )
    return places.explode("place", "side").filter(pl.col("side").is_in(CREDITS))


def judge_credits(credits: pl.DataFrame) -> InterleavingResult:
    """Count the days that each side won, and estimate the share of the second side.

    Shapes:
        credits: as of `select_credits`; a place may stand in it several times
    """
    places = credits.unique(["service_id", "place"])
    is_second = pl.col("side") == SECOND_SIDE
    day = (pl.col("answered_at") // DAY_MS).alias("day")
    days = places.group_by("user", day).agg(
        (~is_second).sum().alias("first"), is_second.sum().alias("second")
    )
    decided = days.filter(pl.col("first") != pl.col("second"))
    people = decided.group_by("user").agg(
        (pl.col("second") > pl.col("first")).sum().alias("wins"), pl.len().alias("days")
    )
    share = estimate_win_share(people["wins"].to_numpy(), people["days"].to_numpy(), alpha=ALPHA)
    wins = int(people["wins"].sum())
    return InterleavingResult(
        first_clicks=int(days["first"].sum()),
        second_clicks=int(days["second"].sum()),
        first_wins=decided.height - wins,
        second_wins=wins,
        ties=days.height - decided.height,
        people=people.height,
        share=share,
    )
