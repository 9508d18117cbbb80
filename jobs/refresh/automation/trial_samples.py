"""Read what the people of a trial did, from the log of answers and its outcomes.

Files of both are never changed, so the sums of a file are computed once and kept in memory: a look at a trial costs
what arrived since the look before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from actors.experiments.statistics import VariantSample
from actors.intake.attribution import VIEWS
from cluster.artifacts.logs.day_files import DAY_MS, DayFiles
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.engine import Engine, SnapshotTrial
from cluster.records.served_list import LIST_ENDPOINTS
from jobs.refresh.automation.trial_verdict import GroupSample, Measure

SETTLING_MS: Final = 60_000
"Answers of so long after the begin of a trial do not count: API replicas still load the other snapshot."
HEAD: Final = 100
"Products that were shown most before the trial."
LONGEST_MS: Final = 10_000.0
"Longer answers count as these, so that one does not outweigh all others."
_ANSWERS: Final = ("engine_id", "endpoint", "snapshot", "user", "start", "took_ms", "products")
_OUTCOMES: Final = ("engine_id", "snapshot", "user", "answered_at", "endpoint", "service_id", "type", "value")


class TrialSamples:
    """What the people of one trial did; all methods block."""

    def __init__(self, artifacts: ArtifactStore, engine: Engine, trial: SnapshotTrial) -> None:
        self._served = ServedLogStore(artifacts)
        self._outcomes = OutcomeStore(artifacts)
        self._engine = engine
        self._trial = trial
        self._since_ms = trial.started_at + SETTLING_MS
        self._versions = [engine.snapshot, trial.version]
        self._sums: dict[str, pl.DataFrame] = {}
        "File -> its sums."
        self._head: pl.DataFrame | None = None
        self._state: tuple[Any, ...] = ()

    def has_news(self, failures: Mapping[str, int]) -> bool:
        """Return whether files or failures differ from those of the last read."""
        return self._state != self._read_state(failures)

    def read(self, failures: Mapping[str, int]) -> tuple[GroupSample, GroupSample]:
        """Return the samples of the people of the serving snapshot, and of those of the other one.

        Errors:
            NotFound: a file was replaced during the read
        """
        # Before the files are read: what arrives meanwhile makes the next look read again.
        state = self._read_state(failures)
        if self._head is None:
            self._head = self._read_head()
        answers = self._sum_files(self._served, _ANSWERS, self._sum_answers)
        outcomes = self._sum_files(self._outcomes, _OUTCOMES, self._sum_outcomes)
        present = {name for names in state[:2] for name in names}
        # Files that were merged or deleted: their sums are in those of the new file.
        self._sums = {name: sums for name, sums in self._sums.items() if name in present}
        people = aggregate_by_person(answers, outcomes)
        self._state = state
        serving, other = (summarize_group(people, version, failures) for version in self._versions)
        return serving, other

    def _read_state(self, failures: Mapping[str, int]) -> tuple[Any, ...]:
        commits = [store.commit(self._engine.app_id) for store in (self._served, self._outcomes)]
        return (*(tuple(entry.name for entry in commit.files) for commit in commits), dict(failures))

    def _sum_files(self, store: DayFiles, columns: Sequence[str], sum_file: Any) -> pl.DataFrame:
        commit = store.commit(self._engine.app_id)
        parts = []
        for entry in commit.files:
            if entry.facts["last"] < self._since_ms:
                continue
            if entry.name not in self._sums:
                table = store.read_file(self._engine.app_id, entry, columns)
                if table is None:
                    continue
                # Only sums are kept: a file has a row for each answer, its sums one for each person.
                self._sums[entry.name] = sum_file(pl.DataFrame(pl.from_arrow(table)))
            parts.append(self._sums[entry.name])
        return pl.concat(parts) if parts else sum_file(pl.DataFrame(schema=_SCHEMAS[columns]))

    def _sum_answers(self, answers: pl.DataFrame) -> pl.DataFrame:
        shown = answers.filter(
            (pl.col("at") >= self._since_ms)
            & (pl.col("engine_id") == self._engine.engine_id)
            & pl.col("snapshot").is_in(self._versions)
            & pl.col("endpoint").is_in(LIST_ENDPOINTS)
            & (pl.col("user") != "")
        )
        head = pl.Series([], dtype=pl.String) if self._head is None else self._head["product"]
        outside = pl.col("products").list.eval(~pl.element().is_in(head.to_list())).list.sum()
        is_first = pl.col("start") == 0
        places = pl.col("products").list.len().filter(is_first)
        return shown.group_by("user", "snapshot").agg(
            first=pl.col("at").min(),
            lists=pl.len().cast(pl.Int64),
            first_pages=is_first.sum().cast(pl.Int64),
            took=pl.col("took_ms").filter(is_first).cast(pl.Float64).clip(upper_bound=LONGEST_MS).sum(),
            empty=(places == 0).sum().cast(pl.Int64),
            places=places.sum().cast(pl.Int64),
            outside=outside.filter(is_first).sum().cast(pl.Int64),
        )

    def _sum_outcomes(self, outcomes: pl.DataFrame) -> pl.DataFrame:
        credited = outcomes.filter(
            (pl.col("answered_at") >= self._since_ms)
            & (pl.col("engine_id") == self._engine.engine_id)
            & pl.col("snapshot").is_in(self._versions)
            # As for answers: what a completion or a question led to is no figure of a list.
            & pl.col("endpoint").is_in(LIST_ENDPOINTS)
            & (pl.col("user") != "")
        )
        clicks = pl.col("service_id").filter(pl.col("type").is_in(VIEWS))
        # Distinct answers: two clicks in one list are one success.
        return credited.group_by("user").agg(
            clicked=clicks.n_unique().cast(pl.Int64), revenue=pl.col("value").sum()
        )

    def _read_head(self) -> pl.DataFrame:
        """Return the products that were shown most on the day before the trial."""
        begins_ms = self._trial.started_at
        commit = self._served.commit(self._engine.app_id)
        tables = self._served.files(
            self._engine.app_id, commit, begins_ms - DAY_MS, begins_ms, ("engine_id", "products")
        )
        counts = [
            pl.DataFrame(pl.from_arrow(table))
            .filter(pl.col("engine_id") == self._engine.engine_id)
            .select(product=pl.col("products").explode())
            .drop_nulls()
            .group_by("product")
            .agg(count=pl.len())
            for table in tables
        ]
        if not counts:
            return pl.DataFrame(schema={"product": pl.String, "count": pl.UInt32})
        total = pl.concat(counts).group_by("product").agg(pl.col("count").sum())
        return total.sort("count", "product", descending=True).head(HEAD)


def aggregate_by_person(answers: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each person: the snapshot of the first answer, and sums over all answers.

    A person who met both snapshots stays with the first: an API replica may not have had the other one at hand.
    People with later pages alone are left out: they have neither a latency nor a coverage.
    """
    sums = pl.col("lists", "first_pages", "took", "empty", "places", "outside").sum()
    first = pl.col("snapshot").sort_by("first").first()
    people = answers.group_by("user").agg(first, sums).filter(pl.col("first_pages") > 0)
    credited = outcomes.group_by("user").agg(pl.col("clicked", "revenue").sum())
    return people.join(credited, on="user", how="left").with_columns(
        pl.col("clicked", "revenue").fill_null(0)
    )


def summarize_group(people: pl.DataFrame, version: str, failures: Mapping[str, int]) -> GroupSample:
    """Return the sample of the people whose first answer came from a snapshot."""
    group = people.filter(pl.col("snapshot") == version)
    lists = group["lists"]
    first_pages = group["first_pages"]
    values: dict[Measure, pl.Series] = {
        # Over all pages, because a click on a later page counts too. At most 1 even if files of answers are lost.
        "clicks": (group["clicked"] / lists).clip(upper_bound=1.0),
        "revenue": group["revenue"],
        "latency": group["took"] / first_pages,
        "empty": group["empty"] / first_pages,
        # A person with empty lists only: 0 / 0.
        "coverage": (group["outside"] / group["places"]).fill_nan(0.0),
    }
    measures = {
        # n, sum and sum of squares are all that mean and variance need.
        measure: VariantSample(group.height, float(value.sum()), float((value * value).sum()))
        for measure, value in values.items()
    }
    return GroupSample(
        version,
        group.height,
        int(lists.sum()),
        failures.get(version, 0),
        int((group["revenue"] > 0).sum()),
        measures,
    )


_SCHEMAS: Final[Mapping[Sequence[str], Any]] = {
    _ANSWERS: {
        "at": pl.Int64, "engine_id": pl.String, "endpoint": pl.String, "snapshot": pl.String, "user": pl.String,
        "start": pl.Int32, "took_ms": pl.Float32, "products": pl.List(pl.String),
    },
    _OUTCOMES: {
        "at": pl.Int64, "engine_id": pl.String, "snapshot": pl.String, "user": pl.String, "answered_at": pl.Int64,
        "endpoint": pl.String, "service_id": pl.String, "type": pl.String, "value": pl.Float64,
    },
}  # fmt: skip
