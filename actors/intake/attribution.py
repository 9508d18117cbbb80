"""Credit the interactions of one day to the answers that showed their products: pure functions over polars frames.

An interaction belongs to a product of an answer, in this order:

    id        it carries the `service_id` of an answer that shows the product (to the same person, where it is known)
    person    else the same person was shown the product in the window before: the latest such answer

Clicks, views and impressions have a window of 30 minutes, all other types one of 7 days. A refund belongs to the newest
purchase of the product by the person in the 30 days before, and subtracts what that purchase was worth.
An answer is credited once for each type and product. A `service_id` that is unknown, of another person, of a later
answer or too old credits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from actors.hosting.purchase_values import quantities_of, split_products
from cluster.artifacts.logs.outcomes import ANSWER_FACTS, COLUMNS, REFUND_WINDOW_MS, SEEN

IMPRESSIONS: Final = ("impression", "viewable_impression")
VIEWS: Final = (
    "click",
    "product_detail_page_view",
    "promo_page_view",
    "product_image_view",
    "read",
    "watch",
    "listen",
)
WITHOUT_PRODUCTS: Final = ("search", "feedback", "home_page_view", "category_page_view")
VIEW_WINDOW_MS: Final = 1_800_000
WINDOW_MS: Final = 7 * 86_400_000
REPEAT_MS: Final = 1_000
SKEW_MS: Final = 60_000
"How far a client's clock may be behind ours."
MOST_REVENUE: Final = 1e12
"Larger numbers of clients count as this: sums must stay finite."

_ANSWER: Final = ["service_id", "answered_at", *ANSWER_FACTS]
_PLACE: Final = ["service_id", "answered_at", "user", "product", "place", "origin", "side"]


@dataclass(frozen=True, slots=True)
class ShownProducts:
    """Answers that interactions may belong to, and the places of their products."""

    answers: pl.DataFrame
    "A row for each answer: `_ANSWER`."
    places: pl.DataFrame
    "A row for each product of an answer: `_PLACE`; the first place if it is shown twice."


def parse_events(table: Any) -> pl.DataFrame:
    """Return interactions as one row for each product.

    Shapes:
        table: pyarrow.Table with `reader`, `type`, `at_ms`, `product_ids` and `json` of segments
        result: event, at, type, product, user_key, visitor, service_id, event_id, revenue, quantity
    """
    text = pl.col("json").cast(pl.String)
    is_checkout = pl.col("type") == "checkout"
    frame = pl.DataFrame(pl.from_arrow(table)).filter(~pl.col("type").is_in(WITHOUT_PRODUCTS))
    frame = frame.select(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("event"),
        pl.col("at_ms").alias("at"),
        "type",
        pl.col("product_ids").alias("product"),
        pl.col("reader").alias("user_key"),
        text.str.json_path_match("$.anonymous_id").alias("visitor"),
        # Clients may change the case of an id; the log has lower case.
        text.str.json_path_match("$.service_id").str.to_lowercase().alias("service_id"),
        text.str.json_path_match("$.event_id").alias("event_id"),
        pl.when(is_checkout)
        .then(
            text.str.json_path_match("$.revenue")
            # Not strict: a text that is no number becomes null, and does not fail the whole day.
            .cast(pl.Float64, strict=False)
            .clip(-MOST_REVENUE, MOST_REVENUE)
        )
        .alias("revenue"),
        pl.when(is_checkout).then(quantities_of(text)).alias("quantity"),
    )
    return split_products(frame)


def drop_repeated(events: pl.DataFrame) -> pl.DataFrame:
    """Return each interaction once: one of an `event_id`, and one of those that follow each other within a second."""
    order = ["user_key", "type", "product", "at"]
    events = events.sort([*order, "event"], maintain_order=True)
    gap = pl.col("at") - pl.col("at").shift(1).over(order[:3])
    # The first by time: a repeated upload may come before the original in the file.
    first = (
        events.sort("at", "event")
        .group_by("user_key", "event_id")
        .agg(pl.col("event").first().alias("_first"))
    )
    # Without ids, events form one group of null: joined to it, all but one of them would be dropped.
    events = events.join(
        first.drop_nulls("event_id"), on=["user_key", "event_id"], how="left", maintain_order="left"
    )
    # `gap` is computed within the filter below, so the join above must keep the sorted order.
    is_new = gap.is_null() | (gap > REPEAT_MS)
    return events.filter((pl.col("_first").is_null() | (pl.col("_first") == pl.col("event"))) & is_new).drop(
        "_first"
    )


def select_shown(answers: Any, events: pl.DataFrame, people: pl.DataFrame, *, since_ms: int) -> ShownProducts:
    """Return the answers of one file that the interactions may belong to.

    Answers before `since_ms` matter only to types with a long window.

    Shapes:
        answers: pyarrow.Table of the served log
        people: user_key, user (each pseudonym of the person)
    """
    frame = pl.DataFrame(pl.from_arrow(answers)).rename({"at": "answered_at"})
    lasting = events.filter(~pl.col("type").is_in([*VIEWS, *IMPRESSIONS]))
    # Only purchases and the like look back seven days; clicks need half an hour of answers.
    users = people.join(lasting, on="user_key", how="semi")["user"]
    recent = people["user"]
    is_near = pl.col("answered_at") >= since_ms
    frame = frame.filter(
        # Any answer whose id an interaction carries, of any user: a foreign id has to be recognized.
        # `implode` gives one list of all ids: `is_in` with a plain column is ambiguous in polars.
        pl.col("service_id").is_in(events["service_id"].drop_nulls().unique().implode())
        | pl.col("user").is_in(users.unique().implode())
        | (is_near & pl.col("user").is_in(recent.unique().implode()))
    )
    places = frame.select(
        "service_id",
        "answered_at",
        "user",
        pl.col("products").alias("product"),
        pl.int_ranges(1, pl.col("products").list.len() + 1, dtype=pl.Int16).alias("place"),
        "origins",
        "sides",
    ).explode("product", "place")
    origin, side = (
        # These lists may be shorter than that of the products: null, where polars would raise.
        pl.col(name).list.get(pl.col("place") - 1, null_on_oob=True).fill_null(0).cast(pl.Int8)
        for name in ("origins", "sides")
    )
    places = places.with_columns(origin.alias("origin"), side.alias("side")).select(_PLACE)
    places = places.filter(pl.col("product").is_in(events["product"].unique().implode()))
    return ShownProducts(
        frame.select(_ANSWER), places.unique(["service_id", "product"], keep="first", maintain_order=True)
    )


def join_shown(parts: Iterable[ShownProducts]) -> ShownProducts:
    """Return the selected answers of several files together."""
    chosen = list(parts)
    return ShownProducts(
        pl.concat([part.answers for part in chosen]), pl.concat([part.places for part in chosen])
    )


def attribute_events(
    events: pl.DataFrame, people: pl.DataFrame, shown: ShownProducts, purchases: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the outcomes of one day (`COLUMNS`), and the number of interactions by verdict.

    Verdicts are `id` and `person` (credited), `unmatched`, `repeated`, `refund` and `refund_unmatched`; and those of
    ids that credit nothing: `unknown`, `foreign`, `future`, `late`.

    Shapes:
        events: as of `value_events`
        people: user_key, user
        purchases: outcomes of the types checkout and refund of the days before
    """
    distinct = drop_repeated(events)
    counts = {"repeated": events["event"].n_unique() - distinct["event"].n_unique()}
    is_view = pl.col("type").is_in([*VIEWS, *IMPRESSIONS])
    distinct = distinct.with_columns(
        pl.when(is_view).then(VIEW_WINDOW_MS).otherwise(WINDOW_MS).alias("window")
    )
    refunds = distinct.filter(pl.col("type") == "refund")
    others = distinct.filter(pl.col("type") != "refund")
    by_id, rest = _match_ids(others.filter(pl.col("service_id").is_not_null()), people, shown, counts)
    absent = pl.concat([others.filter(pl.col("service_id").is_null()), rest])
    by_person = _match_people(absent, people, shown.places)
    counts["id"] = by_id["event"].n_unique()
    counts["person"] = by_person["event"].n_unique()
    unmatched = absent.join(by_person, on="event", how="anti").join(by_id, on="event", how="anti")
    counts["unmatched"] = unmatched["event"].n_unique()
    credits = _finish(pl.concat([by_id, by_person]), shown.answers)
    refunded = _match_refunds(refunds, people, pl.concat([purchases, credits]))
    counts["refund"] = refunded["event"].n_unique()
    counts["refund_unmatched"] = refunds["event"].n_unique() - counts["refund"]
    rows = pl.concat([credits, refunded.select(COLUMNS.names)])
    return rows.sort("at"), {verdict: count for verdict, count in counts.items() if count}


_CREDIT: Final = [
    "event",
    "at",
    "type",
    "product",
    "value",
    "service_id",
    "place",
    "origin",
    "side",
    "matched",
]


def _match_ids(
    events: pl.DataFrame, people: pl.DataFrame, shown: ShownProducts, counts: dict[str, int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the credits of interactions with a `service_id`, and the interactions whose answer lacks the product."""
    answers = shown.answers.select("service_id", "answered_at", "user")
    members = people.with_columns(pl.lit(True).alias("is_member"))
    places = shown.places.select("service_id", "product", "place", "origin", "side")
    judged = (
        events.join(answers, on="service_id", how="left")
        .join(members, on=["user_key", "user"], how="left")
        .join(places, on=["service_id", "product"], how="left")
        .with_columns(
            pl.when(pl.col("answered_at").is_null())
            .then(pl.lit("unknown"))
            # An id of another person's answer could be copied from a shared link, or sent to raise a
            # product.
            .when((pl.col("user") != "") & pl.col("is_member").is_null())
            .then(pl.lit("foreign"))
            .when(pl.col("answered_at") > pl.col("at") + SKEW_MS)
            .then(pl.lit("future"))
            .when(pl.col("at") - pl.col("answered_at") > pl.col("window"))
            .then(pl.lit("late"))
            .otherwise(pl.lit("id"))
            .alias("matched")
        )
    )
    for verdict in ("unknown", "foreign", "future", "late"):
        counts[verdict] = judged.filter(pl.col("matched") == verdict)["event"].n_unique()
    valid = judged.filter(pl.col("matched") == "id")
    is_shown = pl.col("place").is_not_null()
    return valid.filter(is_shown).select(_CREDIT), valid.filter(~is_shown).select(events.columns)


def _match_people(events: pl.DataFrame, people: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return the credits of interactions by what the person was shown last."""
    candidates = events.drop("service_id").join(people, on="user_key").sort("at")
    latest = candidates.join_asof(
        # `join_asof` needs both sides in the order of time, and lists without a user match nobody.
        places.filter(pl.col("user") != "").sort("answered_at"),
        left_on="at",
        right_on="answered_at",
        by=["user", "product"],
        strategy="backward",
        check_sortedness=False,
    )
    inside = latest.filter(pl.col("at") - pl.col("answered_at") <= pl.col("window"))
    # A person has several pseudonyms, so several answers may match: the latest one is credited.
    newest = inside.sort("answered_at").unique(["event", "product"], keep="last", maintain_order=True)
    return newest.with_columns(pl.lit("person").alias("matched")).select(_CREDIT)


def _finish(credits: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
    """Return credits with the facts of their answers, each type and product of an answer once; impressions together."""
    is_seen = pl.col("type").is_in(IMPRESSIONS)
    credits = credits.with_columns(
        pl.when(is_seen).then(pl.lit(SEEN)).otherwise(pl.col("type")).alias("type"),
        pl.when(is_seen).then(pl.lit("")).otherwise(pl.col("product")).alias("product"),
    ).sort("at", "event")
    once = credits.unique(["service_id", "type", "product", "place"], keep="first", maintain_order=True)
    rows = once.group_by("service_id", "type", "product", maintain_order=True).agg(
        pl.col("at", "value", "matched").first(),
        pl.col("place").alias("places"),
        pl.col("origin").alias("origins"),
        pl.col("side").alias("sides"),
    )
    return rows.join(answers.unique("service_id"), on="service_id").select(COLUMNS.names)


def _match_refunds(refunds: pl.DataFrame, people: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Return an outcome for each refund of a credited purchase, with the negative value; plus `event`."""
    purchases = outcomes.filter((pl.col("type") == "checkout") & (pl.col("user") != ""))
    refunded = outcomes.filter(pl.col("type") == "refund")
    candidates = refunds.select("event", "at", "product", "user_key").join(people, on="user_key").sort("at")
    bought = candidates.join_asof(
        purchases.rename({"at": "bought_at"}).sort("bought_at"),
        left_on="at",
        right_on="bought_at",
        by=["user", "product"],
        strategy="backward",
        tolerance=REFUND_WINDOW_MS,
        check_sortedness=False,
    ).drop_nulls("service_id")
    return (
        bought.sort("bought_at")
        .unique(["event", "product"], keep="last", maintain_order=True)
        # A purchase is refunded once, however often and on however many days the refund is sent.
        .join(refunded, on=["service_id", "product"], how="anti", maintain_order="left")
        .unique(["service_id", "product"], keep="first", maintain_order=True)
        .with_columns(
            pl.lit("refund").alias("type"),
            (-pl.col("value")).alias("value"),
            pl.lit("purchase").alias("matched"),
        )
    )
