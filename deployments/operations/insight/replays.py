"""Use cases of replays: rank a list of the log of answers again, and with one thing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
from pydantic import Field

from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.replay.answer_replay import AnswerReplayer, PastApp, ReplayedAnswer
from actors.serving.replay.counterfactual import FORMS, CounterfactualChange
from actors.serving.replay.past_app import estimate_memory, load_past_app, read_past_settings
from cluster.artifacts.logs.served_log import ServedLogStore, table_from_answers
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.errors import Fault, NotFound
from cluster.store.stores import Stores
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.snapshots import find_version

_READ_TRIES = 5


class ReplayAnswer(OfApp):
    """Which answer to rank again."""

    service_id: str = Field(
        min_length=1, max_length=64, description="Id that the client got with the answer, `service_id`."
    )
    change: str = Field(default="", max_length=200, description=f"What to change: {FORMS}.")


@dataclass(frozen=True, slots=True)
class AnswerReplayReport:
    """A list as it was served, as it was ranked again, and with a change."""

    answer: ReplayedAnswer
    change: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        row = self.answer.row
        answer = self.answer
        names = ("service_id", "endpoint", "engine_id", "snapshot", "level", "rules", "experiments")
        return {
            **{name: row[name] for name in names},
            "at": iso_ms(int(row["at"])),
            "is_equal": answer.is_equal,
            "is_rebuilt": answer.is_rebuilt,
            "reasons": list(answer.reasons),
            "served": list(row["products"]),
            "rebuilt": list(answer.products),
            "change": self.change,
            "changed": None if answer.changed is None else list(answer.changed),
        }

    def to_lines(self) -> ResultLines:
        """Return the verdict, the reasons and the places that differ."""
        row = self.answer.row
        answer = self.answer
        head = (
            f"{row['endpoint']} of engine {row['engine_id']} at {iso_ms(int(row['at']))[:19]}, snapshot "
            f"{row['snapshot'] or 'none'}, {len(row['products'])} products"
        )
        if not answer.is_rebuilt:
            return (head, f"can't be ranked again: {'; '.join(answer.reasons)}")
        verdict = "equal: the same products at the same places" if answer.is_equal else "different"
        reasons = answer.reasons or (() if answer.is_equal else ("the cause is not known",))
        return (head, verdict, *reasons, *self._list_places())

    def _list_places(self) -> list[ResultTable]:
        served = list(self.answer.row["products"])
        answer = self.answer
        columns: list[tuple[str, Sequence[str]]] = [("served", served)]
        if not answer.is_equal:
            columns.append(("ranked again", answer.products))
        if answer.changed is not None:
            columns.append((f"with {self.change}", answer.changed))
        if len(columns) == 1:
            return []
        most = max(len(products) for _, products in columns)
        rows = [
            (str(place + 1), *(products[place] if place < len(products) else "" for _, products in columns))
            for place in range(most)
        ]
        return [ResultTable(("place", *(name for name, _ in columns)), rows)]


@operation("answers.replay", "POST", "/apps/{app_id}/answers/{service_id}/replay", "analyst", is_query=True)
async def replay_answer(services: AdminServices, given: ReplayAnswer) -> AnswerReplayReport:
    """Rank a list of the log of answers again, as it was, and with one thing changed.

    The answer says whether the list is equal, else what differs and why. Nothing is served, logged or stored.

    Errors:
        NotFound: no such app, or the log has no such answer: too old, of an erased person, or not logged
        Invalid: the change has no such form
        TooMany: another answer is ranked again just now
        Unavailable: the machine has too little memory for the past of the app
    Cost:
        a load of the app in a thread: some seconds for 1,000,000 interactions; it is kept for half a minute
    """
    await require_app(services.stores, given.app_id)
    change = CounterfactualChange.parse(given.change) if given.change.strip() else None
    row = await find_answer(services.stores, services.artifacts, given.app_id, given.service_id)
    if change is not None and change.snapshot:
        version = await asyncio.to_thread(
            find_version, services.artifacts, given.app_id, row["engine_id"], change.snapshot
        )
        change = replace(change, snapshot=version)

    async def load() -> PastApp:
        settings = await read_past_settings(services.stores, given.app_id)
        users = [row["user"]] if row["user"] else []
        return await asyncio.to_thread(load_past_app, services.artifacts, given.app_id, settings, users)

    async def estimate() -> int:
        return await asyncio.to_thread(estimate_memory, services.artifacts, given.app_id)

    needed = await services.cache.get(("answers.replay memory", given.app_id), estimate)
    key = ("answers.replay", given.app_id, row["user"])
    with services.replay_bounds.reserve(needed, key, services.cache.drop):
        past = await services.cache.get(key, load)
        answer = await asyncio.to_thread(AnswerReplayer(past, HashingEmbedder()).replay, row, change)
    return AnswerReplayReport(answer, given.change.strip())


async def find_answer(
    stores: Stores, artifacts: ArtifactStore, app_id: str, service_id: str
) -> dict[str, Any]:
    """Return the row of an answer from the files of the log, or from the batches that wait for the intake.

    Errors:
        NotFound: the log has no such answer
    """
    log = ServedLogStore(artifacts)
    # Before the files: a batch that the intake writes between the two reads then counts as waiting.
    offset = await asyncio.to_thread(log.last_offset, app_id)
    row = await asyncio.to_thread(_find_in_files, log, app_id, service_id)
    if row is None:
        waiting = await stores.served.read_all(app_id, offset, lambda answer: answer.service_id == service_id)
        row = table_from_answers(waiting[:1]).to_pylist()[0] if waiting else None
    if row is None:
        raise NotFound(
            f"the log of answers of {app_id} has no answer {service_id}: it was not logged, is older than the log, "
            "or its user was erased"
        )
    return row


def _find_in_files(log: ServedLogStore, app_id: str, service_id: str) -> dict[str, Any] | None:
    for _ in range(_READ_TRIES):
        try:
            for entry in reversed(log.commit(app_id).files):
                ids = log.read_file(app_id, entry, ("service_id",))
                if ids is None or not pc.any(pc.equal(ids["service_id"], service_id)).as_py():
                    continue
                table = log.read_file(app_id, entry, log.schema.names)
                rows: list[dict[str, Any]] = table.filter(
                    pc.equal(table["service_id"], service_id)
                ).to_pylist()
                return rows[0]
            return None
        except NotFound:  # the intake merged files during the read
            continue
    raise Fault("the files of the log of answers keep changing")
