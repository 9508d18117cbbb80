"""What followed from the answers of a period, in figures with intervals: pure functions over sums.

Equations, for a group of answers with L lists:
    ctr                 lists with a click or a view of a product / L
    seen_ctr            clicks at places that an impression confirmed / such places
    conversion          lists that led to a purchase, subscription, submission or completion / L
    revenue_per_1000    1,000 * revenue / L
    coverage            products that were shown / products of the catalog
    gini                sum_i (2 i - P - 1) n_i / (P sum_i n_i), n_i ascending: 0 all equal, 1 one product alone
    novelty             mean over shown places of -log2(n_product / lists of the app): bits
    new_products        shown places with a product of the last 30 days / all shown places
    interval            figure -/+ t_{K-1} sqrt((K-1)/K sum_b (figure_b - mean)^2), figure_b without bucket b
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from cluster.clock import iso_ms
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.insight.outcome_sums import TOTAL, Dimension, Sums
from deployments.operations.insight.product_counts import BUCKETS, ProductMeasures

MOST_GROUPS: Final = 100
"Groups in a report: those with the most lists; the newest days, and the first places."
_QUANTILES: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093,
)  # fmt: skip
"0.975 quantile of Student's t with 1 to 19 degrees of freedom."
_COUNTED: Final = (
    "lists",
    "places",
    "seen",
    "clicked",
    "clicks",
    "seen_clicks",
    "carts",
    "converted",
    "revenue",
)
UNKNOWABLE: Final = "What people would have done without Kiosk, only an experiment can tell."


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its 95 % interval by person, and the period before."""

    value: float
    low: float | None = None
    high: float | None = None
    before: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    "Interval of the difference to the period before."

    def to_text(self, form: str = ".1%") -> str:
        """Return the figure with its interval."""
        text = format(self.value, form)
        return text if self.low is None else f"{text} ({format(self.low, form)} to {format(self.high, form)})"


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """One group of answers."""

    group: str
    lists: int
    people: int
    places: int
    seen: int
    clicks: int
    carts: int
    conversions: int
    revenue: Figure
    ctr: Figure
    conversion: Figure
    revenue_per_1000: Figure
    seen_ctr: Figure | None = None
    coverage: Figure | None = None
    gini: Figure | None = None
    novelty: Figure | None = None
    new_products: Figure | None = None
    ctr_to_first: Figure | None = None
    "CTR minus that of the first group; people who met both are in the same bucket, so what they share cancels."
    trend: list[float | None] = field(default_factory=list)
    "CTR of each day (UTC), from the first day with lists of any group to the last; null without lists."


@dataclass(frozen=True, slots=True)
class QuestionOutcomes:
    """What followed from answers to questions."""

    answers: int
    clicked: Figure
    "Share of answers with a click or a view of a source that they cite."
    helpful: int = 0
    not_helpful: int = 0
    other: int = 0
    "Feedback of users by its value: the newest of each user and answer."

    @property
    def sentence(self) -> str:
        """Return the figures in one line."""
        return (
            f"{self.answers:,} answers to questions: people opened sources of {self.clicked.to_text()}; "
            f"feedback: {self.helpful:,} helpful, {self.not_helpful:,} not helpful, {self.other:,} other."
        )


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """Outcomes of a period, by one dimension."""

    app_id: str
    by: Dimension
    since: int
    until: int
    currency: str
    total: OutcomeGroup
    groups: list[OutcomeGroup]
    "The group with the most lists first; places and days in their order."
    left_out: int = 0
    "Smaller groups that are not listed."
    verdicts: Mapping[str, int] = field(default_factory=dict)
    "Interactions by verdict of attribution."
    catalog: int = 0
    questions: QuestionOutcomes | None = None
    "None without answers to questions."
    is_shortened: bool = False
    "The period began earlier; it had too many answers."

    @property
    def sentence(self) -> str:
        """Return in one line what Kiosk brought."""
        total = self.total
        currency = f"{self.currency} " if self.currency else ""
        days = max(1, round((self.until - self.since) / 86_400_000))
        if not total.lists:
            return f"Kiosk gave no lists in the last {days} days, or `served_log` is off."
        return (
            f"In the last {days} days, {total.lists:,} lists for {total.people:,} people led to "
            f"{total.clicks:,} clicks (CTR {total.ctr.to_text()}) and "
            f"{currency}{total.revenue.to_text(',.2f')} of revenue."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            **asdict(self),
            "verdicts": dict(self.verdicts),
            "sentence": self.sentence,
            "note": UNKNOWABLE,
        }

    def to_lines(self) -> ResultLines:
        """Return what the command line prints."""
        period = f"{iso_ms(self.since)[:16]} to {iso_ms(self.until)[:16]}"
        groups = [*self.groups, self.total] if self.by != "total" else self.groups
        table = ResultTable(
            (
                self.by,
                "lists",
                "people",
                "clicks",
                "CTR",
                "conversion",
                "revenue",
                "per 1000 lists",
                "coverage",
            ),
            [
                (
                    group.group,
                    f"{group.lists:,}",
                    f"{group.people:,}",
                    f"{group.clicks:,}",
                    group.ctr.to_text(),
                    group.conversion.to_text(),
                    f"{group.revenue.value:,.2f}",
                    group.revenue_per_1000.to_text(",.2f"),
                    "-" if group.coverage is None else group.coverage.to_text(),
                )
                for group in groups
            ],
            empty="No answers.",
            droppable=("coverage", "people", "conversion"),
        )
        refused = {
            name: self.verdicts[name]
            for name in ("unknown", "foreign", "future", "late")
            if self.verdicts.get(name)
        }
        lines: list[str | ResultTable] = [self.sentence, UNKNOWABLE, f"{self.app_id}, {period}", table]
        if self.questions is not None:
            lines.append(self.questions.sentence)
        if self.left_out:
            lines.append(f"{self.left_out} smaller groups are not listed.")
        if refused:
            counts = ", ".join(f"{count:,} {name}" for name, count in refused.items())
            lines.append(f"Interactions whose service_id credits nothing: {counts}.")
        return lines


def flatten_report(report: OutcomeReport) -> pl.DataFrame:
    """Return the groups as a table for CSV and Parquet: `ctr`, `ctr_low`, `ctr_high`, `ctr_before`..."""
    rows = []
    for group in report.groups:
        row: dict[str, Any] = {}
        for name, value in asdict(group).items():
            if name == "trend":
                continue
            figure = value if isinstance(value, dict) else None
            row[report.by if name == "group" else name] = value if figure is None else figure["value"]
            row |= {f"{name}_{part}": number for part, number in (figure or {}).items() if part != "value"}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def build_groups(
    sums: Sums, before: Sums | None, fresh: frozenset[str], catalog: int, by: Dimension
) -> tuple[OutcomeGroup, list[OutcomeGroup], int]:
    """Return the total, the groups, and how many smaller groups are left out.

    Shapes:
        fresh: product ids of the last 30 days
        catalog: number of products
    """
    builder = _GroupBuilder(sums, before, fresh, catalog)
    names = [name for name in builder.names if name != TOTAL]
    if by in ("place", "day"):
        # Places are numbers as texts, and 2 comes before 10.
        names.sort(key=lambda name: (len(name), name))
    chosen = names[-MOST_GROUPS:] if by == "day" else names[:MOST_GROUPS]
    total = builder.build(TOTAL)
    groups = [total] if by == "total" else [builder.build(name, chosen[0]) for name in chosen]
    return total, groups, len(names) - len(chosen)


def build_questions(sums: Sums, before: Sums | None) -> QuestionOutcomes | None:
    """Return what followed from answers to questions; None without any."""
    answers = int(sums.questions["lists"].sum())
    if not answers:
        return None
    clicked = estimate_figure(
        lambda kept, part: _divide(kept @ part["clicked"], kept @ part["lists"]),
        sums.questions,
        None if before is None else before.questions,
    )
    return QuestionOutcomes(answers, clicked)


class _GroupBuilder:
    """Builds groups from sums by bucket."""

    def __init__(self, sums: Sums, before: Sums | None, fresh: frozenset[str], catalog: int) -> None:
        joined = _join_sums(sums)
        self._cells = _read_cells(joined)
        self._trends = _read_trends(joined)
        self._before = {} if before is None else _read_cells(_join_sums(before))
        self._people = sums.people
        self._shown = sums.shown
        names = sums.products
        lists = max(1.0, self._cells.get(TOTAL, _NO_CELLS)["lists"].sum())
        bits = np.zeros(len(names))
        if TOTAL in self._shown:
            totals = np.asarray(self._shown[TOTAL].sum(axis=0), float)
            bits = -np.log2(np.maximum(totals, 1.0) / lists)
        is_fresh = np.array([name in fresh for name in names], float)
        self._measures = ProductMeasures(bits, is_fresh, catalog)
        lists_of = {name: cells["lists"].sum() for name, cells in self._cells.items()}
        self.names = sorted(lists_of, key=lambda name: (-lists_of[name], name))

    def build(self, name: str, first: str | None = None) -> OutcomeGroup:
        """Return one group, with the difference of its CTR to that of the group `first`."""
        cells = self._cells.get(name, _NO_CELLS)
        before = self._before.get(name)
        lists = cells["lists"]

        def ratio(upper: str, lower: str, scale: float = 1.0) -> Figure:
            return estimate_figure(
                lambda kept, part: scale * _divide(kept @ part[upper], kept @ part[lower]), cells, before
            )

        group = OutcomeGroup(
            group=name or "total",
            lists=int(lists.sum()),
            people=self._people.get(name, 0),
            places=int(cells["places"].sum()),
            seen=int(cells["seen"].sum()),
            clicks=int(cells["clicks"].sum()),
            carts=int(cells["carts"].sum()),
            conversions=int(cells["converted"].sum()),
            # a total without one bucket is scaled up to all
            revenue=estimate_figure(
                lambda kept, part: float(kept @ part["revenue"]) * _scale(kept, lists), cells, before
            ),
            ctr=ratio("clicked", "lists"),
            conversion=ratio("converted", "lists"),
            revenue_per_1000=ratio("revenue", "lists", 1_000.0),
            seen_ctr=ratio("seen_clicks", "seen") if cells["seen"].any() else None,
            ctr_to_first=self._compare(name, first),
            trend=self._trends.get(name, []),
        )
        if name not in self._shown:
            return group
        return replace(group, **self._build_product_figures(self._shown[name], lists))

    def _compare(self, name: str, first: str | None) -> Figure | None:
        if first is None or first == name:
            return None
        its = self._cells[name]
        other = self._cells[first]
        # `estimate_figure` looks under `lists` for the buckets that have answers of either group.
        cells = {"lists": its["lists"] + other["lists"], "clicked": its["clicked"], "its": its["lists"]}
        cells |= {"other_clicked": other["clicked"], "other": other["lists"]}
        return estimate_figure(
            lambda kept, part: (
                _divide(kept @ part["clicked"], kept @ part["its"])
                - _divide(kept @ part["other_clicked"], kept @ part["other"])
            ),
            cells,
            None,
        )

    def _build_product_figures(self, counts: Any, lists: Any) -> dict[str, Any]:
        """Return the figures that depend on which products were shown."""
        figures = {}
        for name, (value, *without) in self._measures.measure(counts).items():
            half = _half_width([without[bucket] for bucket in np.flatnonzero(lists)])
            figures[name] = Figure(value) if half is None else Figure(value, value - half, value + half)
        return figures


def estimate_figure(
    measure: Callable[[Any, Mapping[str, Any]], float],
    cells: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> Figure:
    """Return a figure with its interval, and with the difference to the period before.

    Shapes:
        measure: (1 for each bucket that counts, cells) -> figure
        cells: name -> [BUCKETS] or [BUCKETS, n]
    """
    everyone = np.ones(BUCKETS)
    value = measure(everyone, cells)
    filled = np.flatnonzero(cells["lists"])
    without = everyone - np.eye(BUCKETS)
    half = _half_width([measure(without[bucket], cells) for bucket in filled])
    figure = Figure(value) if half is None else Figure(value, value - half, value + half)
    if before is None:
        return figure
    earlier = measure(everyone, before)
    filled = np.flatnonzero(cells["lists"] + before["lists"])
    # people of both periods are in the same bucket, so what they have in common cancels
    half = _half_width([measure(without[at], cells) - measure(without[at], before) for at in filled])
    change = value - earlier
    low, high = (None, None) if half is None else (change - half, change + half)
    return replace(figure, before=earlier, change_low=low, change_high=high)


def _half_width(values: Sequence[float]) -> float | None:
    """Return half of the 95 % interval of figures that leave out one bucket each; None with too few people."""
    count = len(values)
    if count < 2:
        return None
    spread = float(np.sum((np.array(values) - np.mean(values)) ** 2))
    return _QUANTILES[count - 2] * math.sqrt((count - 1) / count * spread)


def _scale(kept: Any, lists: Any) -> float:
    filled = lists > 0
    return float(filled.sum() / max(1.0, (kept * filled).sum()))


def _divide(upper: Any, lower: Any) -> float:
    return float(upper / lower) if lower else 0.0


def _join_sums(sums: Sums) -> pl.DataFrame:
    """Return the sums of answers beside those of what followed from them."""
    return sums.answers.join(sums.outcomes, on=["group", "bucket", "day"], how="left").fill_null(0)


def _read_cells(joined: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return group -> name -> [BUCKETS]."""
    cells: dict[str, dict[str, Any]] = {}
    for (name,), rows in joined.group_by("group", "bucket").agg(pl.col(_COUNTED).sum()).group_by("group"):
        cells[str(name)] = values = {}
        for column in _COUNTED:
            values[column] = np.zeros(BUCKETS)
            values[column][rows["bucket"].to_numpy()] = rows[column].to_numpy()
    return cells


def _read_trends(joined: pl.DataFrame) -> dict[str, list[float | None]]:
    """Return group -> CTR of each day that has lists of any group."""
    if joined.is_empty():
        return {}
    days = range(joined.select(pl.col("day").min()).item(), joined.select(pl.col("day").max()).item() + 1)
    by_day = joined.group_by("group", "day").agg(pl.col("clicked").sum() / pl.col("lists").sum())
    trends: dict[str, list[float | None]] = {}
    for name, day, ctr in by_day.iter_rows():
        trends.setdefault(name, [None] * len(days))[day - days.start] = ctr
    return trends


_NO_CELLS: Final = {name: np.zeros(BUCKETS) for name in _COUNTED}
