"""Lists of the log of answers with their clicks, as the arrays that off-policy estimates take.

docs/guides/off-policy.md shows the whole way. A list is the first page of a recommendation or a search, or a later page
with a `pagination_id`, given the pages before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from actors.intake.attribution import VIEWS
from actors.vectors.types import Floats
from cluster.records.served_list import LIST_ENDPOINTS, RANKED, RULE
from jobs.refresh.evaluation.off_policy import LoggedPlaces, PolicyPlaces

ProductFeatures: TypeAlias = Mapping[str, Sequence[float]]
"""Numbers of each product id, for the reward model of `dr`; all of one length. Unknown products have zeros."""

LATER_PAGES: Final = "later pages without a pagination_id"
IS_PAGE: Final = (pl.col("start") == 0) | pl.col("request").str.contains('"pagination_id":', literal=True)
"Whether an answer is a list of its own: without a `pagination_id` no draw changes a later page."
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class LoggedLists:
    """Lists that estimates can use.

    Shapes:
        answers: t rows; their places without those of rules, one list after the other, are the n places of `log`
    """

    log: LoggedPlaces
    answers: pl.DataFrame
    left_out: Mapping[str, int]
    "Number of answers by the reason that left them out, and of `places of rules`."
    features: ProductFeatures


def collect_lists(
    answers: pl.DataFrame, outcomes: pl.DataFrame, features: ProductFeatures | None = None
) -> LoggedLists:
    """Join answers with their outcomes; the reward of a place is 1 if its product was clicked or viewed, else 0.

    Answers are rows of the log of answers: of its files, or of `kiosk export APP served`. Outcomes are rows of the
    outcome files. Each pseudonym is a person; a list without a user stands alone.
    """
    left_out = {}
    for reason, is_kept in _conditions().items():
        kept = answers.filter(is_kept)
        left_out[reason] = answers.height - kept.height
        answers = kept
    places = answers.select(
        "service_id",
        "products",
        "origins",
        "propensities",
        place=pl.int_ranges(0, pl.col("products").list.len()),
        row=pl.int_range(pl.len()),
    ).explode("products", "origins", "propensities", "place")
    is_ruled = pl.col("origins") == RULE
    left_out["places of rules"] = places.filter(is_ruled).height
    clicks = (
        outcomes.filter(pl.col("type").is_in(VIEWS))
        # Outcomes count places from 1, lists from 0.
        .select("service_id", place=pl.col("places").list.first().cast(pl.Int64) - 1, reward=pl.lit(1.0))
        # Once for each place: the join would repeat one that was both clicked and viewed.
        .unique()
    )
    # Sorted again: a join promises no order, and the arrays below go by position.
    places = (
        places.filter(~is_ruled).join(clicks, on=["service_id", "place"], how="left").sort("row", "place")
    )
    log = LoggedPlaces(
        lists=places["row"].cast(pl.Int64).to_numpy(),
        places=places["place"].to_numpy(),
        propensities=places["propensities"].cast(pl.Float64).to_numpy(),
        rewards=places["reward"].fill_null(0.0).to_numpy(),
        people=_number_people(answers).to_numpy(),
        features=_look_up(features or {}, places["products"]),
        days=_count_days(answers["at"]),
    )
    return LoggedLists(log, answers, left_out, features or {})


def place_ranking(lists: LoggedLists, rank: Callable[[str, str], Iterable[str]]) -> PolicyPlaces:
    """Return what a ranking would have shown at the places of the log.

    `rank` gets the `service_id` and the pseudonym of a list and returns product ids, best first. Products of rules
    keep their places; the ranking fills the others. The log does not keep the candidates of an exploration, so the
    support of the result is the most that is possible.
    """
    chosen = []
    shown = []
    can_move = []
    columns = lists.answers.select("service_id", "user", "products", "origins")
    for service_id, user, products, origins in columns.iter_rows():
        origin_of = dict(zip(products, origins, strict=True))
        order = iter([name for name in dict.fromkeys(rank(service_id, user)) if origin_of.get(name) != RULE])
        for product, origin in zip(products, origins, strict=True):
            if origin != RULE:
                choice = next(order, "")
                chosen.append(choice)
                shown.append(product)
                # No draw moves a ranked product to another place of its list.
                can_move.append(bool(choice) and origin_of.get(choice) != RANKED)
    # As objects: plain arrays of texts take the width of the longest id for each entry.
    matches = np.array(chosen, object) == np.array(shown, object)
    # A place with propensity 1 can show nothing else than what it showed.
    supported = matches | (np.array(can_move, np.bool_) & (lists.log.propensities < 1))
    return PolicyPlaces(matches, supported, _look_up(lists.features, chosen), is_exact=False)


def _conditions() -> dict[str, pl.Expr]:
    """Return what an answer must fulfil, in this order, by the reason that leaves it out otherwise."""
    size = pl.col("products").list.len()
    propensities = pl.col("propensities")
    is_chance = pl.element().is_between(0, 1, closed="right").fill_null(value=False)
    return {
        "other endpoints": pl.col("endpoint").is_in(LIST_ENDPOINTS),
        LATER_PAGES: IS_PAGE,
        "no products": size > 0,
        "no propensities": (propensities.list.len() == size) & propensities.list.eval(is_chance).list.all(),
    }


def _number_people(answers: pl.DataFrame) -> pl.Series:
    # Pseudonyms contain no space, so a list without a user can't share the key of a person.
    user = pl.col("user")
    key = pl.when(user != "").then(user).otherwise(" " + pl.col("service_id"))
    return answers.select((key.rank("dense") - 1).cast(pl.Int64)).to_series()


def _count_days(times: pl.Series) -> float:
    """Return the days between the first and the last time, at least one; an export has timestamps, files have ms."""
    at_ms = times.dt.epoch("ms") if times.dtype.is_temporal() else times
    return max(1.0, float(np.ptp(at_ms.to_numpy())) / _DAY_MS) if len(at_ms) else 1.0


def _look_up(features: ProductFeatures, products: Iterable[str]) -> Floats:
    width = len(next(iter(features.values()), ()))
    zeros = (0.0,) * width
    rows = [features.get(product, zeros) for product in products]
    return np.array(rows, np.float64).reshape(len(rows), width)
