"""Sums of answers and outcomes by group and bucket of people: pure functions over polars frames, file by file.

People are spread over `BUCKETS` buckets by a hash. Every figure of a report is a function of sums. So leaving out one
bucket at a time gives its error with people as the unit (delete-a-group jackknife). Users and products stay numbers
of a dictionary of their file, because 100 million texts take too long. Memory depends on groups, people and products,
not on the number of answers.

Source:
    P. Kott, The Delete-a-Group Jackknife, Journal of Official Statistics 17, 2001
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from actors.intake.attribution import VIEWS
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.outcomes import SEEN
from cluster.records.served_list import LIST_ENDPOINTS, ORIGINS
from deployments.operations.insight.product_counts import BUCKETS, ProductCounts

Dimension = Literal[
    "total",
    "endpoint",
    "engine",
    "snapshot",
    "recipe",
    "level",
    "place",
    "rule",
    "variant",
    "origin",
    "device",
    "day",
    "segment",
]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

QUESTION: Final = "ask_question"
"Endpoint of answers to questions, whose products are the sources that they cite."
CONVERSIONS: Final = ("checkout", "subscribe", "submit", "complete")
CARTS: Final = ("add_to_cart",)
MONEY: Final = ("checkout", "refund")
TOTAL: Final = ""
"Group of all answers: a name that no engine and no rule can have."
_OVERLAPPING: Final = frozenset({"place", "rule", "variant", "origin"})
"Dimensions in which an answer can be in several groups."
NONE: Final = "(none)"
"Group of answers without a value; in brackets, because a rule may be called `none`."
NEW: Final = "new"
"Segment of people without an answer in the period before; others are `returning`, and `(none)` without a person."
_FOLD_ROWS: Final = 4_000_000
_KEYS: Final = ["group", "bucket", "day"]
_SEPARATOR: Final = "\x1f"
_NOBODY: Final = np.array([], np.uint64)
_ORIGIN_NAMES: Final = dict(enumerate(ORIGINS))
_COLUMNS: Final[dict[Dimension, str]] = {
    "endpoint": "endpoint",
    "engine": "engine_id",
    "snapshot": "snapshot",
    "recipe": "recipe",
    "level": "level",
    "device": "device",
    "rule": "rules",
    "variant": "experiments",
    "place": "products",
    "origin": "origins",
}


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of a period. Frames have `group`, `bucket` (0 to `BUCKETS` - 1) and `day` of the answer (since 1970)."""

    answers: pl.DataFrame
    "lists, places"
    people: Mapping[str, int]
    "Group -> people."
    persons: pl.Series
    "Hashes of all people."
    shown: Mapping[str, Any]
    "Group -> how often each product was shown, sparse [BUCKETS, products]; empty where products are not counted."
    products: Sequence[str]
    "Product ids: the columns of `shown`."
    outcomes: pl.DataFrame
    "clicked, clicks, seen, seen_clicks, carts, converted, revenue"
    questions: Mapping[str, Any]
    "Answers to questions (`lists`), and those with an opened source (`clicked`): [BUCKETS] each."


def columns_of(by: Dimension, *, with_products: bool) -> tuple[str, ...]:
    """Return the columns of the served log that sums read."""
    names = {"user", "endpoint", _COLUMNS.get(by, "user")}
    if with_products:
        names.add("products")
    return tuple(sorted(names))


def outcome_columns_of(by: Dimension) -> tuple[str, ...]:
    """Return the columns of outcomes that sums read."""
    names = ["type", "product", "value", "service_id", "answered_at", "places", "origins", "endpoint", "user"]
    column = _COLUMNS.get(by)
    return (*names, column) if column is not None and column != "products" else tuple(names)


class AnswerSums:
    """Sums of answers, which tables are added to."""

    def __init__(self, by: Dimension, earlier: pl.Series | None = None, *, with_products: bool) -> None:
        """Begin with no answers.

        Shapes:
            earlier: hashes of the people of the period before, for the dimension `segment`
        """
        self._by = by
        self._earlier = earlier
        self._with_products = with_products
        self._answers = [_EMPTY_ANSWERS]
        self._people: defaultdict[str, list[Any]] = defaultdict(list)
        "Group -> arrays of hashes; of the dimension `place`, people by the length of a list."
        self._new_people = 0
        self._shown = ProductCounts()
        self._questions = np.zeros(BUCKETS)
        self._members: dict[str, tuple[str, ...]] = {}
        "Combination -> its groups, for dimensions in which an answer can be in several groups."

    def add(self, table: Any) -> None:
        """Add answers.

        Shapes:
            table: pyarrow table of one day of the served log with `at` and `columns_of(by)`; `user` and `products` are
                dictionaries or texts
        """
        is_question = pc.equal(table["endpoint"], QUESTION)
        if pc.any(is_question).as_py():
            self._questions += _count_buckets(_with_hashes(table.filter(is_question)))
        is_list = pc.is_in(table["endpoint"], value_set=_LISTS)
        if not pc.all(is_list).as_py():
            table = table.filter(is_list)
        if not table.num_rows:
            return
        frame = _with_hashes(table)
        if self._by == "place":
            self._answers.append(_count_places(frame))
        frame, members = _with_combinations(frame, table, self._by, self._earlier)
        self._members.update(members)
        places = pl.col("_places").sum().alias("places")
        self._answers.append(frame.group_by(_KEYS).agg(pl.len().alias("lists"), places))
        self._add_people(frame)
        if self._with_products:
            self._add_products(frame, _single_chunk(table["products"]))

    def merge(self, other: AnswerSums) -> None:
        """Add the sums of other answers."""
        self._answers += other._answers
        for group, arrays in other._people.items():
            self._people[group] += arrays
        self._shown.merge(other._shown)
        self._questions += other._questions
        self._members.update(other._members)

    def read(self, outcomes: pl.DataFrame, opened: Any) -> Sums:
        """Return the sums, with those of what followed (`sum_outcomes`, `count_opened`)."""
        answers = _fold(self._answers, _KEYS)
        people = {group: _unite(arrays) for group, arrays in self._people.items()}
        shown = self._shown.read(TOTAL)
        if self._by in ("rule", "variant", "origin"):
            answers, people, shown = self._split(answers, people, shown)
        elif self._by == "place":
            people = _count_down(people)
        else:
            answers = _with_total(answers, self._by, _KEYS)
        persons = _unite(list(people.values()))
        counts = {group: len(hashes) for group, hashes in people.items()} | {TOTAL: len(persons)}
        names = self._shown.products.to_pylist()
        questions = {"lists": self._questions, "clicked": opened}
        return Sums(answers, counts, pl.Series(persons, dtype=pl.UInt64), shown, names, outcomes, questions)

    def _split(
        self, answers: pl.DataFrame, people: Mapping[str, Any], shown: Mapping[str, Any]
    ) -> tuple[pl.DataFrame, dict[str, Any], dict[str, Any]]:
        """Return the sums of groups and of all answers from those of combinations of groups."""
        members = pl.DataFrame(
            [(name, group) for name, groups in self._members.items() for group in (*groups, TOTAL)],
            schema={"group": pl.String, "_member": pl.String},
            orient="row",
        )
        parts = answers.join(members, on="group").select(
            pl.col("_member").alias("group"), pl.exclude("group", "_member")
        )
        united: defaultdict[str, list[Any]] = defaultdict(list)
        added: dict[str, Any] = {TOTAL: shown[TOTAL]} if TOTAL in shown else {}
        for name, groups in self._members.items():
            for group in groups:
                united[group].append(people.get(name, _NOBODY))
                if name in shown:
                    added[group] = added[group] + shown[name] if group in added else shown[name]
        return _fold([parts], _KEYS), {group: _unite(arrays) for group, arrays in united.items()}, added

    def _add_people(self, frame: pl.DataFrame) -> None:
        people = frame.drop_nulls("person")
        for (name,), rows in people.group_by("_places" if self._by == "place" else "group"):
            self._people[str(name)].append(rows["person"].unique().to_numpy())
            self._new_people += len(self._people[str(name)][-1])
        if self._new_people > _FOLD_ROWS:
            self._people.update({name: [_unite(arrays)] for name, arrays in self._people.items()})
            self._new_people = 0

    def _add_products(self, frame: pl.DataFrame, products: Any) -> None:
        names = frame["group"].unique()
        places = frame["group"].replace_strict(names, range(len(names)), return_dtype=pl.UInt32).to_numpy()
        self._shown.add(names.to_list(), places, frame["bucket"].to_numpy(), products)


def _count_places(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the lists that have each place."""
    lengths = frame.group_by("bucket", "day", "_places").agg(pl.len().alias("lists"))
    places = lengths.with_columns(pl.int_ranges(1, pl.col("_places") + 1).alias("group")).explode("group")
    return (
        places.drop_nulls("group")
        .group_by(pl.col("group").cast(pl.String), "bucket", "day")
        .agg(pl.col("lists").sum(), pl.col("lists").sum().alias("places"))
    )


def _unite(arrays: Sequence[Any]) -> Any:
    """Return each person once, in order."""
    people = np.concatenate([_NOBODY, *arrays])
    people.sort()  # `np.unique` of numpy 2.4 takes fifty times as long
    # The complement of the first element differs from it, so the first one counts as new.
    return people[np.diff(people, prepend=~people[:1]) != 0]


def _count_down(people: Mapping[str, Any]) -> dict[str, Any]:
    """Return place -> the people with a list that has it.

    Shapes:
        people: length of a list -> people with such a list
    """
    reached: dict[str, Any] = {}
    longer = _NOBODY
    for place in range(max(map(int, people), default=0), 0, -1):
        longer = _unite([longer, people.get(str(place), longer[:0])])
        reached[str(place)] = longer
    return {**reached, "0": _unite(list(people.values()))} if people else {}


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
        outcomes: frame with `cluster.artifacts.logs.outcomes.COLUMNS`
    """
    frame = _only_lists(outcomes)
    days = frame["answered_at"] // DAY_MS
    # an answer has one day, and copies of all days at once take more memory than the sums of answers
    parts = [_EMPTY_OUTCOMES]
    for day in days.unique().sort():
        parts += _sum_day(frame.filter(days == day), by, earlier)
    return _with_total(_fold(parts, _KEYS), by, _KEYS)


def _sum_day(frame: pl.DataFrame, by: Dimension, earlier: pl.Series | None) -> list[pl.DataFrame]:
    # In order of time, because below only the first event of each type and product counts.
    frame = _with_people(frame.sort("at", maintain_order=True), "answered_at")
    frame = frame.with_columns(
        pl.col("answered_at").alias("at"), (pl.col("answered_at") // DAY_MS).cast(pl.Int32).alias("day")
    )
    is_seen = pl.col("type") == SEEN
    # a list at midnight has places that were seen in the one day, and others in the next
    seen = frame.filter(is_seen).explode("places", "origins").unique(["service_id", "places"], keep="any")
    confirmed = seen.select("service_id", "places", pl.lit(True).alias("is_confirmed"))
    rows = frame.filter(~is_seen).unique(["service_id", "type", "product"], keep="first", maintain_order=True)
    rows = rows.with_columns(pl.col("places", "origins").list.first())
    rows = rows.join(confirmed, on=["service_id", "places"], how="left")
    return [
        _sum_rows(
            _with_outcome_groups(rows, dimension, earlier), _with_outcome_groups(seen, dimension, earlier)
        )
        for dimension in _list_passes(by)
    ]


def count_opened(outcomes: pl.DataFrame) -> Any:
    """Return by bucket how many answers to questions had a click or a view of a source.

    Shapes:
        outcomes: frame with `cluster.artifacts.logs.outcomes.COLUMNS`
    """
    is_opened = (pl.col("endpoint") == QUESTION) & pl.col("type").is_in(VIEWS)
    opened = outcomes.filter(is_opened).unique("service_id", keep="any")
    return _count_buckets(_with_people(opened, "answered_at"))


def _count_buckets(frame: pl.DataFrame) -> Any:
    return np.bincount(frame["bucket"].to_numpy(), minlength=BUCKETS)


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
    return _with_buckets(
        frame.with_columns(pl.when(is_person).then(pl.col("user").hash(7)).alias("person")), time
    )


def _with_buckets(frame: pl.DataFrame, time: str) -> pl.DataFrame:
    bucket = pl.coalesce("person", pl.col(time).hash(7)) % BUCKETS
    return frame.with_columns(bucket.cast(pl.UInt8).alias("bucket"))


def _with_hashes(table: Any) -> pl.DataFrame:
    """Return answers without users and products, and with `person`, `bucket` and `_places`."""
    users = _single_chunk(pc.dictionary_encode(table["user"]))
    names = pl.Series("person", users.dictionary.cast(pa.string()), dtype=pl.String)
    # The seed is that of the outcomes, so that answers and outcomes of a person fall into one bucket.
    hashes = pl.select(pl.when(names != "").then(names.hash(7))).to_series()
    plain = table.select([name for name in table.column_names if name not in ("user", "products")])
    places: pl.Series | pl.Expr = pl.lit(0, pl.UInt32)
    if "products" in table.column_names:
        places = pl.Series(pc.list_value_length(table["products"]).to_numpy()).cast(pl.UInt32)
    frame = pl.DataFrame(pl.from_arrow(plain)).with_columns(
        # Each different user is hashed once; the indices of the dictionary put the hashes back.
        hashes.gather(pl.Series(users.indices)).alias("person"),
        places.alias("_places"),
        (pl.col("at").first() // DAY_MS).cast(pl.Int32).alias("day"),
    )
    return _with_buckets(frame, "at")


def _single_chunk(column: Any) -> Any:
    """Return a column as one array: versions of pyarrow differ in what `combine_chunks` returns."""
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _with_groups(frame: pl.DataFrame, by: Dimension, earlier: pl.Series | None) -> pl.DataFrame:
    """Add `group`, one row for each group that an answer belongs to."""
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
    column = _column(by)
    if by in ("rule", "variant"):
        # versions of polars differ in what `explode` makes of an empty list
        column = pl.when(column.list.len() > 0).then(column).otherwise(pl.lit([""]))
        frame = frame.with_columns(column.alias("group")).explode("group")
    else:
        frame = frame.with_columns(column.alias("group"))
    return frame.with_columns(pl.col("group").fill_null("").replace("", NONE))


def _column(by: Dimension) -> pl.Expr:
    """Return the column of a dimension; experiments as texts `experiment/variant`."""
    column = pl.col(_COLUMNS[by])
    if by != "variant":
        return column
    return column.list.eval(
        pl.element().struct.field("experiment") + "/" + pl.element().struct.field("variant")
    )


def _with_combinations(
    frame: pl.DataFrame, table: Any, by: Dimension, earlier: pl.Series | None
) -> tuple[pl.DataFrame, dict[str, tuple[str, ...]]]:
    """Add `group`: the combination of groups that an answer belongs to; return combination -> groups.

    So each answer is counted once, and groups are sums over combinations: 100 million products are counted once too.
    """
    if by == "origin":
        masks = _mask_origins(_single_chunk(table["origins"]))
        frame = frame.with_columns(pl.Series("_mask", masks))
        members = {
            f"+{mask}": tuple(name for code, name in _ORIGIN_NAMES.items() if mask >> code & 1) or (NONE,)
            for mask in np.unique(masks).tolist()
        }
        return frame.with_columns((pl.lit("+") + pl.col("_mask").cast(pl.String)).alias("group")), members
    if by in ("rule", "variant"):
        # a combination begins with a mark: without rules it is not `TOTAL`
        frame = frame.with_columns((pl.lit("+") + _column(by).list.join(_SEPARATOR)).alias("group"))
        names = frame["group"].unique()
        return frame, {
            name: tuple(dict.fromkeys(part or NONE for part in name[1:].split(_SEPARATOR))) for name in names
        }
    return _with_groups(frame, "total" if by == "place" else by, earlier), {}


def _mask_origins(origins: Any) -> Any:
    """Return for each answer the origins of its products, as a number with a bit for each code."""
    lengths = pc.list_value_length(origins).fill_null(0).to_numpy(zero_copy_only=False)
    codes = origins.flatten().to_numpy(zero_copy_only=False)
    masks = np.zeros(len(lengths), np.uint8)
    filled = lengths > 0
    if filled.any():
        begins = (np.cumsum(lengths) - lengths)[filled]
        masks[filled] = np.bitwise_or.reduceat(np.left_shift(np.uint8(1), codes.astype(np.uint8)), begins)
    return masks


def _origin_label(code: pl.Expr) -> pl.Expr:
    return code.replace_strict(_ORIGIN_NAMES, default=NONE, return_dtype=pl.String)


def _fold(parts: list[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """Add frames of sums."""
    return pl.concat(parts, how="diagonal_relaxed").group_by(keys).agg(pl.all().sum())


_EMPTY_ANSWERS = pl.DataFrame(
    schema={"group": pl.String, "bucket": pl.UInt8, "day": pl.Int32, "lists": pl.UInt32, "places": pl.UInt32}
)
_EMPTY_OUTCOMES = pl.DataFrame(
    schema={
        **{name: _EMPTY_ANSWERS.schema[name] for name in _KEYS},
        **dict.fromkeys(("clicked", "carts", "converted"), pl.UInt32),
        "revenue": pl.Float64,
        **dict.fromkeys(("clicks", "seen_clicks", "seen"), pl.UInt32),
    }
)
_LISTS = pa.array(LIST_ENDPOINTS)
