"""People who are to be forgotten, in dictionaries: what the other twins know of a person, and no keys beside that."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from cluster.errors import Conflict
from cluster.ids import user_key_from_anonymous_id
from cluster.records.erasure import Erasure, Person, RemovedRecords, addresses_of
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.store.data.erasures import AppendOnlyFileStatus, ErasureStore, LogNoun
from cluster.store.data.person_traces import LINKS, PROFILE, RECENTS, REDIS_PLACES, PersonData
from tests.fakes.stores.interactions import MemoryInteractions
from tests.fakes.stores.query_log import MemoryLogStream
from tests.fakes.stores.state import LoggedChange, MemoryState


class MemoryErasures(ErasureStore):
    """`ErasureStore` in dictionaries. There is no file, so none is rewritten."""

    def __init__(
        self, state: MemoryState, interactions: MemoryInteractions, queries: MemoryLogStream[LoggedQuery]
    ) -> None:
        self._state = state
        self._interactions = interactions
        self._queries = queries
        self._receipts: dict[tuple[str, str], Erasure] = {}
        self._orders: dict[tuple[str, str], Person] = {}

    async def person(self, app_id: str, user_id: str, anonymous_id: str) -> Person:
        app = self._state.apps[app_id]
        if not user_id:
            if anonymous_id in app.links:
                raise Conflict(
                    f"this visitor is linked to the user {app.links[anonymous_id]}; forget the user instead"
                )
            return Person(app_id=app_id, anonymous_ids=(anonymous_id,))
        profile = app.records["user"].get(user_id)
        return Person(
            app_id=app_id,
            user_id=user_id,
            anonymous_ids=tuple(sorted(app.linked.get(user_id, ()))),
            addresses=addresses_of(profile) if profile else (),
        )

    async def subject(self, person: Person) -> str:
        return pseudonym(await self._queries.salt(person.app_id), person.user_keys[0])

    async def subjects(self, person: Person) -> tuple[str, ...]:
        salt = await self._queries.salt(person.app_id)
        return tuple(pseudonym(salt, user_key) for user_key in person.user_keys)

    async def erased_since(self, app_id: str, since_ms: int) -> RemovedRecords:
        receipts = [
            receipt for receipt in await self.newest(app_id, 10_000) if receipt.created_at >= since_ms
        ]
        subjects = {subject for receipt in receipts for subject in (receipt.subject, *receipt.subjects)}
        return RemovedRecords(await self._queries.salt(app_id), subjects)

    async def order(self, erasure: Erasure, person: Person) -> None:
        self._receipts[erasure.app_id, erasure.erasure_id] = erasure
        self._orders[erasure.app_id, erasure.erasure_id] = person

    async def list_orders(self) -> list[tuple[Erasure, Person]]:
        return [(self._receipts[name], person) for name, person in self._orders.items()]

    async def write(self, erasure: Erasure, *, done: bool = False) -> None:
        self._receipts[erasure.app_id, erasure.erasure_id] = erasure
        if done:
            self._orders.pop((erasure.app_id, erasure.erasure_id), None)

    async def read(self, app_id: str, erasure_id: str) -> Erasure | None:
        return self._receipts.get((app_id, erasure_id))

    async def newest(self, app_id: str, count: int = 100) -> list[Erasure]:
        mine = [erasure for (app, _), erasure in self._receipts.items() if app == app_id]
        return sorted(mine, key=lambda erasure: (-erasure.created_at, erasure.erasure_id))[:count]

    async def find(self, person: Person) -> PersonData:
        app, data = self._state.apps[person.app_id], PersonData({place: [] for place in REDIS_PLACES})
        profile = app.records["user"].get(person.user_id)
        data[PROFILE] = [orjson.loads(profile)] if profile else []
        data[RECENTS] = [
            orjson.loads(packed) for user_key in person.user_keys for packed in app.recents.get(user_key, [])
        ]
        data[LINKS] = sorted(app.linked.get(person.user_id, ()))
        return data

    async def erase(self, person: Person) -> None:
        if person.user_id:
            await self._interactions.erase(person.app_id, [person.user_id])
            return
        user_keys = [user_key_from_anonymous_id(visitor) for visitor in person.anonymous_ids]
        for user_key in user_keys:
            self._state.apps[person.app_id].recents.pop(user_key, None)
        self._state.log(person.app_id, "interaction", LoggedChange("erase", orjson.dumps(user_keys)))

    async def clean_logs(self, app_id: str, settled: Mapping[LogNoun, str], now_ms: int) -> dict[str, str]:
        return {}

    async def delete_followers(self, app_id: str) -> None:
        self._state.apps[app_id].followers.clear()

    async def list_lost(self, app_id: str) -> list[str]:
        return []

    async def read_append_only_file_status(self) -> AppendOnlyFileStatus:
        return AppendOnlyFileStatus(is_kept=False, is_rewriting=False)

    async def request_log_rewrite(self, now_ms: int) -> None:
        return None

    async def rewrite_append_only_file(self, now_ms: int) -> bool:
        return False
