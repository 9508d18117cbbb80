"""Values of the goals of an experiment for each of its users, from segments and the log of answers.

    interactions of the people  --> each once --> sums after the exposure, and in the 28 days before it
    answers of the people       --> lists after the exposure

Memory depends on the people and on their interactions of the goals' types, not on the traffic of the app.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final

import numpy as np
import orjson
import polars as pl
import pyarrow.compute as pc

from actors.experiments.statistics import ValueSums
from actors.hosting.purchase_values import (
    list_baskets,
    quantities_of,
    read_prices,
    split_products,
    value_events,
)
from actors.vectors.types import Codes, Floats, Mask
from cluster.artifacts.address_limit import limit_users_per_address
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.outcomes import REFUND_WINDOW_MS
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, NotFound
from cluster.records.experiment import CONVERSION, LISTS, Experiment, ExperimentGoal
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import LIST_ENDPOINTS
from cluster.store.stores import Stores

BEFORE_MS: Final = 28 * DAY_MS
"Time before the exposure whose values CUPED uses."
REPEAT_MS: Final = 1_000
"Equal interactions of a user within this time count once."
MOST_VALUE: Final = 1e12
"Larger numbers of clients count as this: sums must stay finite."
TRAFFIC_DAYS: Final = 14
PURCHASE: Final = "checkout"
REFUND: Final = "refund"
REVENUE: Final = "revenue"
_END_OF_JSON: Final = 40
"Bytes at the end of an interaction that hold the address of an unverified user."
_READ_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class ExperimentPeople:
    """The people whose figures count, in a fixed order; all arrays have their number."""

    variants: Codes
    "Position of the variant."
    met_at: Any
    "int64, milliseconds since 1970."
    by_user_key: pl.DataFrame
    "`user_key`, `person` (position), `met_at`: all ids of each person."
    ends_at: int = 1 << 62


@dataclass(frozen=True, slots=True)
class GoalValues:
    """The figures of one goal."""

    goal: ExperimentGoal
    value: Floats
    per: Floats | None
    before: Floats

    def sums(self, chosen: Mask) -> ValueSums:
        """Return the sums over some people.

        Shapes:
            chosen: one truth value for each person
        """
        per = None if self.per is None else self.per[chosen]
        return ValueSums.from_users(self.value[chosen], per, self.before[chosen])


@dataclass(frozen=True, slots=True)
class PeopleFigures:
    """The figures of all goals, the first that of `Experiment.goal`, and who had been there before."""

    goals: tuple[GoalValues, ...]
    is_returning: Mask
    "An interaction of any type in the 28 days before the exposure."


def list_goals(experiment: Experiment) -> tuple[ExperimentGoal, ...]:
    """Return all goals of an experiment; the first is that of its field `goal`, without a value."""
    conversion = ExperimentGoal.model_construct(
        name=CONVERSION, types=experiment.goal, value="", per=(), where={}, cap=None, better="more"
    )
    return (conversion, *experiment.goals)


@dataclass(slots=True)
class _Columns:
    """Which columns the goals read of an interaction."""

    types: set[str] = field(default_factory=set)
    fields: dict[str, pl.Expr] = field(default_factory=dict)

    @property
    def refunds_revenue(self) -> bool:
        """Whether refunds change a column."""
        return REVENUE in self.fields and REFUND in self.types

    @classmethod
    def of(cls, goals: Sequence[ExperimentGoal]) -> _Columns:
        columns = cls()
        for goal in goals:
            columns.types.update(goal.types, (kind for kind in goal.per if kind != LISTS))
            if goal.value not in ("", "count"):
                columns.fields[goal.value] = _value_expression(goal.value)
            if goal.value == REVENUE and PURCHASE in goal.types:
                columns.types.add(REFUND)
            if goal.where:
                columns.fields[_condition_column(goal)] = _condition(goal.where)
        return columns


def _condition_column(goal: ExperimentGoal) -> str:
    return f"where {goal.name}"


def _condition(where: Mapping[str, str]) -> pl.Expr:
    """Return 1 for an interaction whose fields have the values, else 0."""
    text = pl.col("json").cast(pl.String)
    is_met = pl.lit(True)
    for name, value in where.items():
        given = text.str.json_path_match(f"$.{name}")
        # A list matches by one of its items: its text contains the value as JSON with its quotes.
        is_item = given.str.starts_with("[") & given.str.contains(orjson.dumps(value).decode(), literal=True)
        is_met &= (given == value) | is_item
    return is_met.fill_null(False).cast(pl.Float64)


def _value_expression(name: str) -> pl.Expr:
    """Return the sum of a field of one interaction."""
    text = pl.col("json").cast(pl.String)
    number: pl.Expr
    if name == "quantities":
        given = text.str.json_path_match("$.quantities")
        numbers = (
            given.str.strip_chars("[]").str.split(",").list.eval(pl.element().cast(pl.Float64, strict=False))
        )
        products = pl.col("product_ids").list.len().cast(pl.Float64)
        # One number for several products: it holds for each of them.
        single = numbers.list.first() * products
        listed = pl.when(given.str.starts_with("[")).then(numbers.list.sum()).otherwise(single)
        number = pl.when(given.is_null()).then(products).otherwise(listed)
    else:
        path = f"$.context.{name}" if name.startswith("custom_context.") else f"$.{name}"
        number = text.str.json_path_match(path).cast(pl.Float64, strict=False)
    return (
        # Clients may send anything: infinities count as 0, and a huge number must not make sums infinite.
        pl.when(number.is_finite()).then(number.clip(-MOST_VALUE, MOST_VALUE)).otherwise(0.0).fill_null(0.0)
    )


async def load_figures(
    stores: Stores,
    artifacts: ArtifactStore,
    app_id: str,
    goals: Sequence[ExperimentGoal],
    people: ExperimentPeople,
) -> PeopleFigures:
    """Return the figures of people; files are read in another thread.

    Errors:
        Fault: the segments are damaged, or they or the log of answers keep changing
        Unavailable: the store is unreachable
    Cost:
        reads the segments of the interactions since 28 days before the first exposure
    """
    size = len(people.variants)
    if not size:
        # Without a first exposure there is no time to read from.
        empty = np.zeros(0)
        values = (GoalValues(goal, empty, empty if goal.per else None, empty) for goal in goals)
        return PeopleFigures(tuple(values), np.zeros(0, bool))
    since_ms = int(people.met_at.min()) - BEFORE_MS
    columns = _Columns.of(goals)
    events, returning = await asyncio.to_thread(read_events, artifacts, app_id, columns, people, since_ms)
    if columns.refunds_revenue and events.height:
        trades = await asyncio.to_thread(list_refunded_purchases, events)
        prices = await read_prices(stores, app_id, list_baskets(trades))
        events = await asyncio.to_thread(subtract_refunds, events, trades, prices)
    lists = np.zeros(0)
    if any(LISTS in goal.per for goal in goals):
        salt = await stores.served.salt(app_id)
        store = ServedLogStore(artifacts, SystemClock())
        lists = await asyncio.to_thread(count_lists, store, app_id, people, salt)
    sums = await asyncio.to_thread(lambda: [_sum_goal(goal, events, lists, size) for goal in goals])
    return PeopleFigures(tuple(sums), returning)


def read_events(
    artifacts: ArtifactStore, app_id: str, columns: _Columns, people: ExperimentPeople, since_ms: int
) -> tuple[pl.DataFrame, Mask]:
    """Return the interactions of people of some types, and who had any interaction before the exposure.

    Shapes:
        events: person, type, is_before, and a column for each field
    """
    returning = np.zeros(len(people.variants), bool)
    user_keys = people.by_user_key["user_key"].to_arrow()

    def convert(table: Any) -> pl.DataFrame:
        table = table.filter(pc.is_in(table["reader"], value_set=user_keys))
        frame = pl.DataFrame(pl.from_arrow(table)).with_columns(pl.col("reader").alias("user_key"))
        frame = frame.join(people.by_user_key, on="user_key", maintain_order="left")
        is_before = pl.col("at_ms") < pl.col("met_at")
        near = frame.filter(is_before & (pl.col("at_ms") >= pl.col("met_at") - BEFORE_MS))
        # An index may occur often; an assignment of one value does not mind.
        returning[near["person"].to_numpy()] = True
        inside = (pl.col("at_ms") >= pl.col("met_at") - BEFORE_MS) & (pl.col("at_ms") < people.ends_at)
        frame = frame.filter(inside & pl.col("type").is_in(list(columns.types)))
        text = pl.col("json").cast(pl.String)
        return frame.select(
            "person",
            "user_key",
            "type",
            "at_ms",
            is_before.alias("is_before"),
            text.str.json_path_match("$.event_id").alias("event_id"),
            pl.col("product_ids").hash().alias("products"),
            # Only the end of the JSON is kept, with the address that limits unverified users: memory.
            pl.col("json").bin.tail(_END_OF_JSON),
            *(_trade_columns() if columns.refunds_revenue else ()),
            *(expression.alias(name) for name, expression in columns.fields.items()),
        )

    parts = SegmentStream(artifacts, app_id).events(since_ms, people.ends_at, convert)
    if not parts:
        schema = {"person": pl.Int64, "type": pl.String, "is_before": pl.Boolean}
        return pl.DataFrame(schema=schema | dict.fromkeys(columns.fields, pl.Float64)), returning
    return _drop_repeated(_limit_unverified(pl.concat(parts))), returning


def _trade_columns() -> tuple[pl.Expr, pl.Expr]:
    """Return the products and quantities of purchases and refunds; of others null, which takes no memory."""
    is_trade = pl.col("type").is_in([PURCHASE, REFUND])
    quantity = quantities_of(pl.col("json").cast(pl.String))
    return (
        pl.when(is_trade).then(pl.col("product_ids")).alias("product"),
        pl.when(is_trade).then(quantity).alias("quantity"),
    )


def list_refunded_purchases(events: pl.DataFrame) -> pl.DataFrame:
    """Return the purchases with a refunded product: one row for each of their products.

    A refund carries no amount: it takes what its product was worth from the newest purchase of the person in the 30
    days before. Purchases before the exposure keep what is refunded after it, because the variant may cause refunds,
    and CUPED needs values that it can't change.

    Shapes:
        result: `event` (row of `events`), product, quantity, revenue, is_refunded
    """
    trades = events.with_row_index("event").filter(pl.col("type").is_in([PURCHASE, REFUND]))
    kept = ["event", "person", "is_before", "type", "at_ms", REVENUE, "product", "quantity"]
    trades = split_products(trades.select(kept))
    purchases = trades.filter(pl.col("type") == PURCHASE)
    places = ["person", "is_before", "product"]
    refunded = (
        trades.filter(pl.col("type") == REFUND)
        .select("at_ms", *places)
        .sort("at_ms")
        # As-of join: for each refund the newest earlier purchase of the same person and product.
        .join_asof(
            purchases.select("event", "at_ms", *places).sort("at_ms"),
            on="at_ms",
            by=places,
            tolerance=REFUND_WINDOW_MS,
            # Both sides are sorted by time; the check would not see it through the groups.
            check_sortedness=False,
        )
        .drop_nulls("event")
        .select("event", "product", pl.lit(True).alias("is_refunded"))
        .unique()
    )
    return (
        purchases.filter(pl.col("event").is_in(refunded["event"].implode()))
        .select("event", "product", "quantity", pl.col(REVENUE).alias("revenue"))
        .join(refunded, on=["event", "product"], how="left", maintain_order="left")
    )


def subtract_refunds(
    events: pl.DataFrame, refunded: pl.DataFrame, prices: Mapping[str, float]
) -> pl.DataFrame:
    """Return interactions whose purchases have the revenue without refunded products.

    Shapes:
        refunded: as of `list_refunded_purchases`
    """
    values = value_events(refunded, prices).filter(pl.col("is_refunded"))
    taken = values.group_by("event").agg(pl.col("value").sum().alias("taken"))
    events = events.with_row_index("event").join(taken, on="event", how="left", maintain_order="left")
    # value = revenue of the purchase - what the refunded products were worth in it
    left = pl.col(REVENUE) - pl.col("taken").fill_null(0.0)
    return events.with_columns(left.alias(REVENUE)).drop("event", "taken")


def _limit_unverified(events: pl.DataFrame) -> pl.DataFrame:
    table = limit_users_per_address(events.rename({"user_key": "reader"}).to_arrow())
    return pl.DataFrame(pl.from_arrow(table)).drop("json")


def _drop_repeated(events: pl.DataFrame) -> pl.DataFrame:
    """Return each interaction once: one of an `event_id`, and one of equal ones that follow within a second."""
    order = ["person", "type", "products", "at_ms"]
    # Sorted, so that an equal interaction is the row before; gap is null for the first of each group.
    events = events.sort(order, maintain_order=True)
    gap = pl.col("at_ms") - pl.col("at_ms").shift(1).over(order[:3])
    events = events.filter(gap.is_null() | (gap > REPEAT_MS))
    named = events.filter(pl.col("event_id").is_not_null())
    return pl.concat(
        # An `event_id` is a promise of the client that the event is one, whatever time lies between.
        [events.filter(pl.col("event_id").is_null()), named.unique(["person", "event_id"], keep="first")]
    )


def count_lists(store: ServedLogStore, app_id: str, people: ExperimentPeople, salt: bytes) -> Floats:
    """Return how many lists of products each person was served after the exposure.

    Shapes:
        result: one number for each person
    Errors:
        Fault: the files of the log keep changing
    """
    members = people.by_user_key.with_columns(
        pl.Series(
            "user", [pseudonym(salt, user_key) for user_key in people.by_user_key["user_key"]], pl.String
        )
    )
    first_ms = int(people.met_at.min(initial=1 << 62))
    for _ in range(_READ_TRIES):
        # Anew in each try: a part of the files was counted already.
        counts = np.zeros(len(people.variants))
        try:
            commit = store.commit(app_id)
            for table in store.files(app_id, commit, first_ms, people.ends_at, ("user", "endpoint")):
                frame = pl.DataFrame(pl.from_arrow(table)).filter(pl.col("endpoint").is_in(LIST_ENDPOINTS))
                shown = frame.join(members, on="user").filter(pl.col("at") >= pl.col("met_at"))
                _add_up(counts, shown.group_by("person").agg(pl.len().alias("sum")))
            return counts
        except NotFound:  # a writer replaced the file during the read
            continue
    raise Fault(f"the files of {store.kind} keep changing")


def _sum_goal(goal: ExperimentGoal, events: pl.DataFrame, lists: Floats, size: int) -> GoalValues:
    if goal.where:
        is_other = ~pl.col("type").is_in(list(goal.types))
        events = events.filter(is_other | (pl.col(_condition_column(goal)) == 1.0))

    def total(kinds: Sequence[str], name: str, *, before: bool) -> Floats:
        chosen = events.filter(pl.col("type").is_in(list(kinds)) & (pl.col("is_before") == before))
        value = pl.len() if name in ("", "count") else pl.col(name).sum()
        sums = np.zeros(size)
        _add_up(sums, chosen.group_by("person").agg(value.alias("sum")))
        # A conversion: a person counts once, however often the goal was reached.
        if not name:
            return np.minimum(sums, 1.0)
        # Capped per person, so that a few large orders do not decide the mean.
        return sums if goal.cap is None else np.clip(sums, -goal.cap, goal.cap)

    value, earlier = (total(goal.types, goal.value, before=before) for before in (False, True))
    if not goal.per:
        return GoalValues(goal, value, None, earlier)
    if LISTS in goal.per:
        return GoalValues(goal, value, lists, earlier)
    per, per_earlier = (total(goal.per, "count", before=before) for before in (False, True))
    # any constant makes a valid covariate; the ratio of all people makes a good one
    ratio = earlier.sum() / per_earlier.sum() if per_earlier.sum() else 0.0
    return GoalValues(goal, value, per, earlier - ratio * per_earlier)


def _add_up(sums: Floats, counts: pl.DataFrame) -> None:
    # Grouped, so each person occurs once: `+=` with repeated indices would add only the last.
    sums[counts["person"].to_numpy()] += counts["sum"].to_numpy()


@dataclass(frozen=True, slots=True)
class GoalBaseline:
    """The figures of a goal in the last two weeks, over all people with any interaction."""

    people_per_day: float
    "New people of an experiment that takes all: the people of two weeks, spread over their days."
    mean: float
    spread: float
    correlation: float
    "With the value of the same people in the 28 days before."


async def measure_baseline(
    stores: Stores, artifacts: ArtifactStore, app_id: str, goal: ExperimentGoal, now_ms: int
) -> GoalBaseline:
    """Measure a goal over the last two weeks, as an experiment would that began then.

    Errors:
        Fault: the segments are damaged, or keep changing
    """
    since_ms = now_ms - TRAFFIC_DAYS * DAY_MS
    parts = await asyncio.to_thread(
        SegmentStream(artifacts, app_id).events,
        since_ms,
        now_ms + 1,
        lambda table: pl.Series("user_key", table["reader"], pl.String).unique(),
    )
    user_keys = pl.concat(parts).unique() if parts else pl.Series("user_key", [], pl.String)
    size = len(user_keys)
    people = ExperimentPeople(
        np.zeros(size, np.int32),
        np.full(size, since_ms, np.int64),
        pl.DataFrame(
            {"user_key": user_keys, "person": np.arange(size), "met_at": np.full(size, since_ms, np.int64)}
        ),
        now_ms + 1,
    )
    if size < 2:
        return GoalBaseline(size / TRAFFIC_DAYS, 0.0, 0.0, 0.0)
    figures = await load_figures(stores, artifacts, app_id, [goal], people)
    sums = figures.goals[0].sums(np.ones(size, bool))
    if not sums.per:
        return GoalBaseline(size / TRAFFIC_DAYS, 0.0, 0.0, 0.0)
    variance, both, before = sums.moments()
    correlation = both / sqrt(variance * before) if variance * before > 0 else 0.0
    # Below 1: a correlation of 1 would ask for no people at all.
    return GoalBaseline(size / TRAFFIC_DAYS, sums.mean, sqrt(variance), max(min(correlation, 0.99), 0.0))
