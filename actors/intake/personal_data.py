"""Read the data of a person, place by place: exports return it, and erasures count it.

`ErasureStore.find` reads the places in Redis. This module reads the artifact store and, if a class is given for them,
the files of this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.app_storage import TRAINING_FOLDERS, run_folders
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import NotFound
from cluster.records.erasure import COPIES, REFUSED, Person
from cluster.records.logged_query import pseudonym
from cluster.store.stores import Stores

SETTLED_PROFILE = "settled profile"
SETTLED = "settled interactions"
QUERIES = "query log"
SERVED = "served answers"
OUTCOMES = "outcomes"
TRAININGS = "data of trainings"
SNAPSHOTS = "model snapshots"
LOG_FILE = "append-only file"
PLACES = (
    SETTLED_PROFILE,
    SETTLED,
    QUERIES,
    SERVED,
    OUTCOMES,
    TRAININGS,
    SNAPSHOTS,
    REFUSED,
    COPIES,
    LOG_FILE,
)
"Places outside of Redis, in the order of receipts."


class PersonalDataReader:
    """Reads all data of a person.

    Example:
        PersonalDataReader(stores, open_artifact_store(settings)).read(await stores.erasures.person("shop", "u1", ""))
    """

    def __init__(
        self, stores: Stores, artifacts: ArtifactStore, files: LocalPersonFiles | None = None
    ) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._segments = SegmentStore(artifacts)
        self._queries = QueryLogStore(artifacts)
        self._served = ServedLogStore(artifacts)
        self._outcomes = OutcomeStore(artifacts)
        self._files = files

    async def read(self, person: Person) -> dict[str, list[Any]]:
        """Return the person's data of all places; an empty list for a place without any.

        Cost:
            reads the user ids of all compacted rows: about 1 s for 10,000,000 interactions, and all keys of the app
        """
        places = await self._stores.erasures.find(person)
        salt = await self._stores.queries.salt(person.app_id)
        # The logs have no ids: the salt of the app turns ids into the pseudonyms that they have.
        marks = [pseudonym(salt, user_key) for user_key in person.user_keys]
        places |= await asyncio.to_thread(self._read_artifacts, person, marks)
        # rows that are not compacted yet
        queries = await self._stores.queries.read_all(person.app_id, "0", lambda query: query.reader in marks)
        places[QUERIES] += [query.to_dict() for query in queries]
        answers = await self._stores.served.read_all(person.app_id, "0", lambda answer: answer.user in marks)
        places[SERVED] += [answer.to_dict() for answer in answers]
        if self._files is not None:
            places |= await asyncio.to_thread(self._files.find, person)
        return places

    def _read_artifacts(self, person: Person, marks: Sequence[str]) -> dict[str, list[Any]]:
        app_id = person.app_id
        segments = self._segments
        profiles = segments.read_rows_of_ids(app_id, "user", [person.user_id]) if person.user_id else []
        return {
            SETTLED_PROFILE: [orjson.loads(row) for row in profiles],
            SETTLED: [
                orjson.loads(row)
                for row in segments.read_rows_of_ids(app_id, "interaction", person.user_keys)
            ],
            QUERIES: self._queries.rows_of(app_id, marks),
            SERVED: self._served.rows_of(app_id, marks),
            OUTCOMES: self._outcomes.rows_of(app_id, marks),
            TRAININGS: find_runs_with_person(self._artifacts, person),
            SNAPSHOTS: [],
        }


def find_runs_with_person(artifacts: ArtifactStore, person: Person) -> list[str]:
    """Return the files of trainings that contain the person's id; files contain ids in plain text."""
    user_keys = [user_key.encode("utf-8", "replace") for user_key in person.user_keys]
    results = []
    for folder in TRAINING_FOLDERS:
        for paths in run_folders(artifacts, person.app_id, folder).values():
            for path in paths:
                try:
                    data = artifacts.read(path)
                except NotFound:
                    continue
                # A search of bytes: also files in the format of another release are searched.
                if any(user_key in data for user_key in user_keys):
                    results.append(path)
    return results
