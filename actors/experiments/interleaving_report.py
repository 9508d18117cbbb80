"""The report of an interleaving: lists, people, clicks and wins of each side, and which side is better.

Lists come from the served log and clicks from the outcomes, both in the artifact store. What was not compacted or
attributed yet, two minutes at most, is counted the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from actors.experiments.interleaving import (
    ALPHA,
    CREDIT_COLUMNS,
    InterleavingResult,
    judge_credits,
    select_credits,
)
from actors.experiments.messages import BOTH_VARIANTS
from actors.experiments.report import serving_counts_from
from cluster.artifacts.logs.day_files import DayFiles
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, NotFound
from cluster.records.experiment import Experiment
from cluster.records.served_list import FIRST_SIDE
from cluster.store.stores import Stores

ATTRIBUTED_MS: Final = 7 * 86_400_000
"How long after a list its last outcome may come."
_READ_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class InterleavingReport:
    """What came of an interleaving."""

    experiment: Experiment
    requests: int
    "Requests that were to be interleaved."
    lists: int
    "Lists that were: in others the second side could not answer, or its place was taken."
    people: int
    result: InterleavingResult

    @property
    def better(self) -> str:
        """Return the slug of the better side; empty while it is open."""
        side = self.result.better
        return "" if side is None else self.experiment.variants[0 if side == FIRST_SIDE else 1].slug

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        first, second = self.experiment.variants
        result = self.result
        return {
            "experiment_id": self.experiment.experiment_id,
            "slug": self.experiment.slug,
            "goal": list(self.experiment.goal),
            "requests": self.requests,
            "lists": self.lists,
            "people": self.people,
            "sides": [
                {
                    "slug": first.slug,
                    "name": first.name,
                    "clicks": result.first_clicks,
                    "wins": result.first_wins,
                },
                {
                    "slug": second.slug,
                    "name": second.name,
                    "clicks": result.second_clicks,
                    "wins": result.second_wins,
                },
            ],
            "ties": result.ties,
            "deciding_people": result.people,
            "share": asdict(result.share),
            "alpha": ALPHA,
            "better": self.better or None,
        }


async def load_interleaving_report(
    stores: Stores, artifacts: ArtifactStore | None, experiment: Experiment, now_ms: int
) -> InterleavingReport:
    """Read and count in another thread.

    Cost:
        some 0.5 s for a million answers
    """
    counts = await stores.experiments.served(experiment.app_id, experiment.experiment_id)
    requests = serving_counts_from(counts, BOTH_VARIANTS.variant_id).requests
    lists, people, credits = await asyncio.to_thread(_read, artifacts, experiment, now_ms)
    return InterleavingReport(experiment, requests, lists, people, judge_credits(credits))


def _read(
    artifacts: ArtifactStore | None, experiment: Experiment, now_ms: int
) -> tuple[int, int, pl.DataFrame]:
    """Return the number of interleaved lists, of their people, and the credited places."""
    credits = [pl.DataFrame(schema=CREDIT_COLUMNS)]
    if artifacts is None:
        return 0, 0, credits[0]
    until_ms = min(now_ms, experiment.ends_at or now_ms) + 1
    since_ms = experiment.created_at
    lists = 0
    people = pl.Series("user", [], pl.String)
    for answers in _list_files(
        ServedLogStore(artifacts), experiment, since_ms, until_ms, ("user", "experiments", "sides")
    ):
        lists += answers.height
        people = pl.concat([people, answers["user"]]).unique()
    columns = ("type", "service_id", "answered_at", "places", "sides", "experiments", "user")
    for outcomes in _list_files(
        OutcomeStore(artifacts), experiment, since_ms, until_ms + ATTRIBUTED_MS, columns
    ):
        credits.append(select_credits(outcomes, experiment).filter(pl.col("answered_at") < until_ms))
    # The empty name stands for all without a user, who are not one person.
    return lists, people.len() - int((people == "").any()), pl.concat(credits)


def _list_files(
    files: DayFiles, experiment: Experiment, since_ms: int, until_ms: int, columns: tuple[str, ...]
) -> Iterator[pl.DataFrame]:
    """Yield the rows of interleaved lists of one commit, file by file.

    Errors:
        Fault: the commits change faster than they can be read
    """
    names = pl.col("experiments").list.eval(pl.element().struct.field("experiment"))
    is_interleaved = names.list.contains(experiment.experiment_id) & (pl.col("sides").list.len() > 0)
    for _ in range(_READ_TRIES):
        commit = files.commit(experiment.app_id)
        try:
            # A list and no generator: after a NotFound in the middle,
            # files that were yielded would come twice.
            yield from [
                pl.DataFrame(pl.from_arrow(table)).filter(is_interleaved)
                for table in files.files(experiment.app_id, commit, since_ms, until_ms, columns)
            ]
            return
        except NotFound:  # a writer replaced a file meanwhile
            continue
    raise Fault(f"the files of {files.kind} keep changing")
