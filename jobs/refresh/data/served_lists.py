"""Served lists as arrays: who got which products at which places, and what was clicked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from actors.intake.attribution import VIEWS
from actors.recommender.state.events import EVENT_WEIGHTS
from actors.vectors.types import Floats, Mask, Rows
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.records.logged_query import pseudonym
from cluster.records.run import DAY_MS
from cluster.records.served_list import REPEATED, RULE
from jobs.refresh.data.dataset import Interactions

LISTS = "user_to_products"
"The endpoint whose lists the blend alone ranks."
SEARCHES = "search"

_ANSWER_COLUMNS = (
    "service_id",
    "endpoint",
    "engine_id",
    "start",
    "user",
    "products",
    "scores",
    "origins",
    "sides",
)
_WHOLE = pl.element() == pl.element().round()
# The scores of a search that the client sorts are the numbers of its places.
_RANKED_BY_SCORE = (
    (pl.col("scores").list.len() == pl.col("products").list.len())
    & ~pl.col("scores").list.eval(_WHOLE).list.all()
    & (pl.col("sides").list.len().fill_null(0) == 0)
)
_LIKED = sorted({*VIEWS, *(kind for kind, weight in EVENT_WEIGHTS.items() if weight > 0)})


@dataclass(frozen=True, slots=True)
class ServedLists:
    """First pages of the lists of one engine that got a click, oldest first; without the places of rules.

    Shapes:
        users: int64 [t], user of each list in the training data, -1 for a search of an unknown user
        at_s: float64 [t]; starts: int64 [t + 1]; items: int64 [m], -1 for products without events
        places: int64 [m], from 0; clicks: bool [m]; scores: float64 [m] that ranked a search, else [0]
    """

    users: Rows
    at_s: Floats
    starts: Rows
    items: Rows
    places: Rows
    clicks: Mask
    scores: Floats = field(default_factory=partial(np.zeros, 0))
    left_out: Mapping[str, int] = field(default_factory=dict)
    "Number of clicked lists by the reason that left them out."

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, slots=True)
class ListLog:
    """The log of answers and its outcomes in an artifact store."""

    served: ServedLogStore
    outcomes: OutcomeStore
    salt: bytes
    "Of the pseudonyms of the app."

    def read(
        self, app_id: str, engine_id: str, endpoint: str, days: int, most: int, data: Interactions
    ) -> ServedLists:
        """Read the newest lists of an endpoint with a click; a log that changes meanwhile is read as far as it stands.

        Cost:
            one file of the log in memory at a time
        """
        # Counted from the newest event, not from the clock: equal data give equal lists.
        since_ms = int(data.now_s * 1000) - days * DAY_MS
        outcomes = self.outcomes.read(app_id, since_ms, columns=("service_id", "type", "places", "engine_id"))
        clicks = select_clicks(pl.DataFrame(pl.from_arrow(outcomes)), engine_id)
        answers = [
            frame.join(clicks, on="service_id", how="semi") for frame in self._answers(app_id, since_ms)
        ]
        if not answers:
            return _empty_lists({})
        return collect_served_lists(pl.concat(answers), clicks, engine_id, endpoint, data, self.salt, most)

    def _answers(self, app_id: str, since_ms: int) -> Iterator[pl.DataFrame]:
        commit = self.served.commit(app_id)
        for table in self.served.files(app_id, commit, since_ms, 1 << 62, _ANSWER_COLUMNS):
            yield pl.DataFrame(pl.from_arrow(table))


def select_clicks(outcomes: pl.DataFrame, engine_id: str) -> pl.DataFrame:
    """Return `service_id` and `place` (from 0) of each product with a view, a click or more."""
    return (
        outcomes.filter(pl.col("type").is_in(_LIKED), pl.col("engine_id") == engine_id)
        # An outcome names places from 1, lists count from 0.
        .select("service_id", place=pl.col("places").list.first().cast(pl.Int64) - 1)
        .drop_nulls()
        .unique()
    )


def collect_served_lists(
    answers: pl.DataFrame,
    clicks: pl.DataFrame,
    engine_id: str,
    endpoint: str,
    data: Interactions,
    salt: bytes,
    most: int,
) -> ServedLists:
    """Join answers with their clicks, and name their users by the training data.

    Lists of people without a pseudonym, or with one that no user of the data has, are left out: their history is
    unknown. Searches of such people remain, because words rank them more than a history does.
    """
    left_out: dict[str, int] = {}
    is_search = endpoint == SEARCHES
    answers = answers.filter(
        pl.col("endpoint") == endpoint,
        pl.col("engine_id") == engine_id,
        pl.col("start") == 0,
        pl.col("products").list.len() == pl.col("origins").list.len(),
        # A replica writes a batch again if the reply got lost, so a row may be there twice.
    ).unique("service_id", keep="first", maintain_order=True)
    clicked = answers.join(clicks, on="service_id", how="semi")
    if is_search:
        scored = clicked.filter(_RANKED_BY_SCORE)
        left_out["sorted or interleaved"] = clicked.height - scored.height
        clicked = scored
    # The log has pseudonyms, the data has users: the salt of the app joins them here and nowhere else.
    named = clicked.join(_number_users(data, salt), on="user", how="left" if is_search else "inner")
    left_out["people unknown"] = clicked.height - named.height
    named = named.sort("at", "service_id").tail(most).with_row_index("row")
    places = (
        named.select(
            "row",
            "service_id",
            "products",
            "origins",
            "scores" if is_search else pl.col("origins").alias("scores"),
            place=pl.int_ranges(0, pl.col("products").list.len()),
        )
        .explode("products", "origins", "scores", "place")
        .filter(pl.col("products").is_not_null(), ~pl.col("origins").is_in([RULE, REPEATED]))
        .join(clicks.with_columns(is_clicked=True), on=["service_id", "place"], how="left")
        .with_columns(pl.col("is_clicked").fill_null(value=False))
    )
    # A list teaches an order only by products with and without a click.
    is_mixed = pl.col("is_clicked").any().over("row") & ~pl.col("is_clicked").all().over("row")
    places = places.filter(is_mixed).sort("row", "place")
    rows = places["row"].cast(pl.Int64).to_numpy()
    kept, starts = np.unique(rows, return_index=True)
    left_out["no choice"] = named.height - len(kept)
    return ServedLists(
        users=named["row_of_user"].fill_null(-1).cast(pl.Int64).to_numpy()[kept],
        at_s=named["at"].cast(pl.Float64).to_numpy()[kept] / 1000.0,
        starts=np.append(starts, len(rows)).astype(np.int64),
        items=data.items.codes(places["products"].to_list()).astype(np.int64),
        places=places["place"].cast(pl.Int64).to_numpy(),
        clicks=places["is_clicked"].to_numpy(),
        scores=places["scores"].cast(pl.Float64).to_numpy() if is_search else np.zeros(0),
        left_out=left_out,
    )


def _number_users(data: Interactions, salt: bytes) -> pl.DataFrame:
    """Return the pseudonym of each user of the data with its number."""
    names = data.readers.names.to_pylist()
    return pl.DataFrame(
        {"user": [pseudonym(salt, name) for name in names], "row_of_user": np.arange(len(names))}
    )


def _empty_lists(left_out: Mapping[str, int]) -> ServedLists:
    none = np.zeros(0, np.int64)
    times = np.zeros(0)
    return ServedLists(none, times, np.zeros(1, np.int64), none, none, np.zeros(0, np.bool_), times, left_out)
