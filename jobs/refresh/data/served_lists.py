"""Served lists as arrays: who got which products at which places, and what was clicked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from actors.intake.attribution import VIEWS
from actors.recommender.state.events import EVENT_WEIGHTS
from actors.vectors.types import Floats, Mask, Rows
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.records.logged_query import pseudonym
from cluster.records.run import DAY_MS
from cluster.records.served_answer import REPEATED, RULE
from jobs.refresh.data.dataset import Interactions

ENDPOINT = "user_to_products"
"The endpoint whose lists the blend alone ranks."

_ANSWER_COLUMNS = ("service_id", "endpoint", "engine_id", "start", "user", "products", "origins")
_LIKED = sorted({*VIEWS, *(kind for kind, weight in EVENT_WEIGHTS.items() if weight > 0)})


@dataclass(frozen=True, slots=True)
class ServedLists:
    """First pages of the lists of one engine that got a click, oldest first; without the places of rules.

    Shapes:
        users: int64 [t], user of each list in the training data; at_s: float64 [t]; starts: int64 [t + 1];
        items: int64 [m], -1 for products without events; places: int64 [m], from 0; clicks: bool [m]
    """

    users: Rows
    at_s: Floats
    starts: Rows
    items: Rows
    places: Rows
    clicks: Mask
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

    def read(self, app_id: str, engine_id: str, days: int, most: int, data: Interactions) -> ServedLists:
        """Read the newest lists with a click; a log that changes meanwhile is read as far as it stands.

        Errors:
            Fault: the manifest of the log is damaged or keeps changing
        Cost:
            one file of the log in memory at a time
        """
        since_ms = int(data.now_s * 1000) - days * DAY_MS
        outcomes = self.outcomes.read(app_id, since_ms, columns=("service_id", "type", "places", "engine_id"))
        clicks = select_clicks(pl.DataFrame(pl.from_arrow(outcomes)), engine_id)
        answers = [
            frame.join(clicks, on="service_id", how="semi") for frame in self._answers(app_id, since_ms)
        ]
        if not answers:
            return collect_served_lists(pl.DataFrame(), clicks, engine_id, data, self.salt, most)
        return collect_served_lists(pl.concat(answers), clicks, engine_id, data, self.salt, most)

    def _answers(self, app_id: str, since_ms: int) -> Iterator[pl.DataFrame]:
        commit = self.served.commit(app_id)
        for table in self.served.files(app_id, commit, since_ms, 1 << 62, _ANSWER_COLUMNS):
            yield pl.DataFrame(pl.from_arrow(table))


def select_clicks(outcomes: pl.DataFrame, engine_id: str) -> pl.DataFrame:
    """Return `service_id` and `place` (from 0) of each product with a view, a click or more."""
    return (
        outcomes.filter(pl.col("type").is_in(_LIKED), pl.col("engine_id") == engine_id)
        .select("service_id", place=pl.col("places").list.first().cast(pl.Int64) - 1)
        .drop_nulls()
        .unique()
    )


def collect_served_lists(
    answers: pl.DataFrame, clicks: pl.DataFrame, engine_id: str, data: Interactions, salt: bytes, most: int
) -> ServedLists:
    """Join answers with their clicks, and name their users by the training data.

    Lists of people without a pseudonym, or with one that no user of the data has, are left out: their history is
    unknown.
    """
    left_out: dict[str, int] = {}
    if not answers.height:
        return _empty_lists(left_out)
    names = data.readers.names.to_pylist()
    people = pl.DataFrame(
        {"user": [pseudonym(salt, name) for name in names], "row_of_user": np.arange(len(names))}
    )
    answers = answers.filter(
        pl.col("endpoint") == ENDPOINT,
        pl.col("engine_id") == engine_id,
        pl.col("start") == 0,
        pl.col("products").list.len() == pl.col("origins").list.len(),
    ).unique("service_id", keep="first", maintain_order=True)
    clicked = answers.join(clicks, on="service_id", how="semi")
    named = clicked.join(people, on="user", how="inner")
    left_out["people unknown"] = clicked.height - named.height
    named = named.sort("at", "service_id").tail(most).with_row_index("row")
    places = (
        named.select(
            "row", "service_id", "products", "origins", place=pl.int_ranges(0, pl.col("products").list.len())
        )
        .explode("products", "origins", "place")
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
        users=named["row_of_user"].cast(pl.Int64).to_numpy()[kept],
        at_s=named["at"].cast(pl.Float64).to_numpy()[kept] / 1000.0,
        starts=np.append(starts, len(rows)).astype(np.int64),
        items=data.items.codes(places["products"].to_list()).astype(np.int64),
        places=places["place"].cast(pl.Int64).to_numpy(),
        clicks=places["is_clicked"].to_numpy(),
        left_out=left_out,
    )


def _empty_lists(left_out: Mapping[str, int]) -> ServedLists:
    none = np.zeros(0, np.int64)
    times = np.zeros(0)
    return ServedLists(none, times, np.zeros(1, np.int64), none, none, np.zeros(0, np.bool_), left_out)
