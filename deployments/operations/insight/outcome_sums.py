"""Sums of answers and outcomes by group and bucket of people: pure functions over polars frames, file by file.

People are spread over `BUCKETS` buckets by a hash. Every figure of a report is a function of sums, so leaving out one
bucket at a time gives its error with people as the unit (delete-a-group jackknife: Kott 2001, Journal of Official
Statistics 17). Memory depends on groups, buckets and products, not on the number of answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import polars as pl

from actors.intake.attribution import VIEWS
from cluster.artifacts.day_files import DAY_MS
from cluster.artifacts.outcomes import SEEN
from cluster.records.served_answer import LIST_ENDPOINTS, ORIGINS

Dimension = Literal[
    "total", "endpoint", "engine", "snapshot", "recipe", "level", "place", "rule", "variant", "origin", "device",
    "day", "segment",
]  # fmt: skip
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

BUCKETS: Final = 20
CONVERSIONS: Final = ("checkout", "subscribe", "submit", "complete")
CARTS: Final = ("add_to_cart",)
MONEY: Final = ("checkout", "refund")
TOTAL: Final = ""
"Group of all answers: a name that no engine and no rule can have."
_OVERLAPPING: Final = frozenset({"place", "rule", "variant", "origin"})
"Dimensions in which an answer can be in several groups."
NONE: Final = "none"
"Group of answers without a value."
NEW: Final = "new"
"Segment of people without an answer in the period before; others are `returning`, and `none` without a person."
_FOLD_ROWS: Final = 4_000_000
_KEYS: Final = ["group", "bucket"]
_ORIGIN_NAMES: Final = dict(enumerate(ORIGINS))
_COLUMNS: Final[dict[Dimension, str]] = {
    "endpoint": "endpoint", "engine": "engine_id", "snapshot": "snapshot", "recipe": "recipe", "level": "level",
    "device": "device", "rule": "rules", "variant": "experiments", "place": "products", "origin": "origins",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of a period. All frames have `group`; all but `people` have `bucket` (0 to `BUCKETS` - 1)."""

    answers: pl.DataFrame
    "lists, places"
    people: pl.DataFrame
    "person: each person of a group once"
    shown: pl.DataFrame
    "product, count; empty where products are not counted"
    outcomes: pl.DataFrame
    "clicked, clicks, seen, seen_clicks, carts, converted, revenue"


def columns_of(by: Dimension, *, with_products: bool) -> tuple[str, ...]:
    """Return the columns of the served log that sums read."""
    names = {"user", "endpoint", _COLUMNS.get(by, "user")}
    if with_products:
        names.add("products")
    return tuple(sorted(names))


def sum_answers(
    tables: Iterable[Any], by: Dimension, earlier: pl.Series | None, *, with_products: bool
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the sums of answers, the people, and how often each product was shown.

    Shapes:
        tables: pyarrow tables of the served log with `at` and `columns_of(by)`
        earlier: hashes of the people of the period before, for the dimension `segment`
    """
    answers, people, shown = [_EMPTY_ANSWERS], [_EMPTY_PEOPLE], [_EMPTY_SHOWN]
    waiting = 0
    for table in tables:
        given = _with_people(_only_lists(pl.DataFrame(pl.from_arrow(table))), "at")
        for dimension in _list_passes(by):
            frame = _with_groups(given, dimension, earlier)
            places = pl.col("_places").sum() if "_places" in frame.columns else pl.lit(0)
            answers.append(frame.group_by(_KEYS).agg(pl.len().alias("lists"), places.alias("places")))
            people.append(frame.filter(pl.col("person").is_not_null()).select("group", "person").unique())
            waiting += people[-1].height
            if with_products and dimension != "place":
                products = frame.select(*_KEYS, pl.col("products").alias("product")).explode("product")
                counts = products.group_by([*_KEYS, "product"]).agg(pl.len().alias("count"))
                shown.append(counts.drop_nulls("product"))
                waiting += counts.height
        if waiting > _FOLD_ROWS:
            shown, people = [_fold(shown, [*_KEYS, "product"])], [pl.concat(people).unique()]
            waiting = 0
    return (
        _with_total(_fold(answers, _KEYS), by, _KEYS),
        _with_total(pl.concat(people), by, ["group", "person"]),
        _with_total(_fold(shown, [*_KEYS, "product"]), by, [*_KEYS, "product"]),
    )


def _list_passes(by: Dimension) -> tuple[Dimension, ...]:
    """Return the dimensions to sum by: also the total where an answer can be in several groups."""
    return (by, "total") if by in _OVERLAPPING else (by,)


def _with_total(sums: pl.DataFrame, by: Dimension, keys: list[str]) -> pl.DataFrame:
    """Add the sums of all groups under the name `TOTAL`, where that counts each answer once."""
    if by in _OVERLAPPING or by == "total":
        return _fold([sums], keys)
    return _fold([sums, sums.with_columns(pl.lit(TOTAL).alias("group"))], keys)


def sum_outcomes(outcomes: pl.DataFrame, by: Dimension, earlier: pl.Series | None) -> pl.DataFrame:
    """Return the sums of what followed from answers, each type and product of an answer once.

    Shapes:
        outcomes: frame with `cluster.artifacts.outcomes.COLUMNS`
    """
    frame = _only_lists(outcomes).sort("at", maintain_order=True)
    frame = frame.unique(["service_id", "type", "product"], keep="first", maintain_order=True)
    frame = _with_people(frame, "answered_at").with_columns(pl.col("answered_at").alias("at"))
    is_seen = pl.col("type") == SEEN
    seen = frame.filter(is_seen).explode("places", "origins").unique(["service_id", "places"], keep="any")
    confirmed = seen.select("service_id", "places", pl.lit(True).alias("is_confirmed"))
    rows = frame.filter(~is_seen).with_columns(pl.col("places", "origins").list.first())
    rows = rows.join(confirmed, on=["service_id", "places"], how="left")
    parts = [
        _sum_rows(
            _with_outcome_groups(rows, dimension, earlier), _with_outcome_groups(seen, dimension, earlier)
        )
        for dimension in _list_passes(by)
    ]
    return _with_total(_fold(parts, _KEYS), by, _KEYS)


def _sum_rows(rows: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    is_click = pl.col("type").is_in(VIEWS)
    clicks = rows.filter(is_click).unique([*_KEYS, "service_id", "product"], keep="any").group_by(_KEYS)
    per_list = rows.group_by([*_KEYS, "service_id"]).agg(
        is_click.any().alias("clicked"),
        pl.col("type").is_in(CARTS).any().alias("carts"),
        pl.col("type").is_in(CONVERSIONS).any().alias("converted"),
        pl.col("value").filter(pl.col("type").is_in(MONEY)).sum().alias("revenue"),
    )
    return _fold(
        [
            per_list.group_by(_KEYS).agg(pl.col("clicked", "carts", "converted", "revenue").sum()),
            clicks.agg(pl.len().alias("clicks"), pl.col("is_confirmed").sum().alias("seen_clicks")),
            seen.group_by(_KEYS).agg(pl.len().alias("seen")),
        ],
        _KEYS,
    )


def _with_outcome_groups(frame: pl.DataFrame, by: Dimension, earlier: pl.Series | None) -> pl.DataFrame:
    if by == "place":
        return frame.with_columns(pl.col("places").cast(pl.String).alias("group"))
    if by == "origin":
        return frame.with_columns(_origin_label(pl.col("origins")).alias("group"))
    return _with_groups(frame, by, earlier)


def _only_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave out completions, questions and calls of agents: they show few products, and would thin the rates."""
    return frame.filter(pl.col("endpoint").is_in(LIST_ENDPOINTS))


def _with_people(frame: pl.DataFrame, time: str) -> pl.DataFrame:
    """Add `person` (null without one) and `bucket`; an answer without a person stands for itself."""
    is_person = pl.col("user") != ""
    person = pl.when(is_person).then(pl.col("user").hash(7))
    return frame.with_columns(person.alias("person")).with_columns(
        (pl.coalesce("person", pl.col(time).hash(7)) % BUCKETS).cast(pl.UInt8).alias("bucket")
    )


def _with_groups(frame: pl.DataFrame, by: Dimension, earlier: pl.Series | None) -> pl.DataFrame:
    """Add `group`, one row for each group that an answer belongs to, and `_places` where products are there."""
    if "products" in frame.columns:
        frame = frame.with_columns(pl.col("products").list.len().alias("_places"))
    if by == "total":
        return frame.with_columns(pl.lit(TOTAL).alias("group"))
    if by == "day":
        day = pl.from_epoch(pl.col("at") // DAY_MS, time_unit="d").cast(pl.String)
        return frame.with_columns(day.alias("group"))
    if by == "segment":
        is_returning = pl.col("person").is_in(
            (pl.Series([], dtype=pl.UInt64) if earlier is None else earlier).implode()
        )
        label = (
            pl.when(pl.col("person").is_null())
            .then(pl.lit(NONE))
            .when(is_returning)
            .then(pl.lit("returning"))
        )
        return frame.with_columns(label.otherwise(pl.lit(NEW)).alias("group"))
    if by == "place":
        places = pl.int_ranges(1, pl.col("products").list.len() + 1)
        frame = (
            frame.with_columns(places.alias("group"), pl.lit(1).alias("_places"))
            .drop("products")
            .explode("group")
        )
        return frame.drop_nulls("group").with_columns(pl.col("group").cast(pl.String))
    if by == "origin":
        frame = frame.with_columns(pl.col("origins").list.unique().alias("group")).explode("group")
        return frame.with_columns(_origin_label(pl.col("group")).alias("group"))
    column = pl.col(_COLUMNS[by])
    if by == "variant":
        column = column.list.eval(
            pl.element().struct.field("experiment") + "/" + pl.element().struct.field("variant")
        )
    if by in ("rule", "variant"):
        # versions of polars differ in what `explode` makes of an empty list
        column = pl.when(column.list.len() > 0).then(column).otherwise(pl.lit([""]))
        frame = frame.with_columns(column.alias("group")).explode("group")
    else:
        frame = frame.with_columns(column.alias("group"))
    return frame.with_columns(pl.col("group").fill_null("").replace("", NONE))


def _origin_label(code: pl.Expr) -> pl.Expr:
    return code.replace_strict(_ORIGIN_NAMES, default=NONE, return_dtype=pl.String)


def _fold(parts: list[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """Add frames of sums."""
    return pl.concat(parts, how="diagonal_relaxed").group_by(keys).agg(pl.all().sum())


_EMPTY_ANSWERS = pl.DataFrame(
    schema={"group": pl.String, "bucket": pl.UInt8, "lists": pl.UInt32, "places": pl.UInt32}
)
_EMPTY_PEOPLE = pl.DataFrame(schema={"group": pl.String, "person": pl.UInt64})
_EMPTY_SHOWN = pl.DataFrame(
    schema={"group": pl.String, "bucket": pl.UInt8, "product": pl.String, "count": pl.UInt32}
)
