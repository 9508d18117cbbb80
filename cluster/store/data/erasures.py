"""Erasure of persons: orders and receipts, and the erasing itself."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson
import structlog

from cluster.clock import Clock, iso_ms
from cluster.errors import Conflict, KioskError, NewerRelease, Unavailable
from cluster.ids import user_key_from_anonymous_id
from cluster.records.erasure import Erasure, Person, RemovedRecords, addresses_of
from cluster.records.logged_query import pseudonym
from cluster.store import keys
from cluster.store.archive.threads import erase_threads
from cluster.store.archive.user_questions import erase_questions
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.data.change_log import LIVE_MS, ChangeLog
from cluster.store.data.interactions import InteractionStore
from cluster.store.data.person_traces import REDIS_PLACES, PersonData, PersonTrace, PersonTraces, erase_all
from cluster.store.data.salts import Salts
from cluster.store.seals.record_seal import parse_record, seal_record
from cluster.store.seals.seal import salt_from_key, seal, unseal

LogNoun = Literal["user", "interaction"]


@dataclass(frozen=True, slots=True)
class AppendOnlyFileStatus:
    """The state of the append-only file of Redis."""

    is_kept: bool
    "Whether the append-only file is on."
    is_rewriting: bool
    requested_ms: int = 0
    "When an erasure last requested a new file,"
    done_ms: int = 0
    "and when Redis last began one for that request."


MOST_RECEIPTS = 10_000
CLEAN_ENTRIES = 20_000
CLEAN_BYTES = 16 << 20
"A larger stream is not rewritten: later writes free its memory."

# The unit separator: no id of an app contains it.
_BETWEEN = "\x1f"
_ERASE_VISITOR = Script.load("erase_visitor")
_CLEAN = Script.load("clean_stream")

_log = structlog.get_logger()


def order_field(app_id: str, erasure_id: str) -> str:
    """Return the field of an erasure's order in `keys.erasure_order`."""
    return _BETWEEN.join((app_id, erasure_id))


class ErasureStore:
    """Orders to erase a person, their receipts, and the person's data in Redis."""

    def __init__(
        self, server: RedisClient, interactions: InteractionStore, changes: ChangeLog, clock: Clock
    ) -> None:
        self._server = server
        self._interactions = interactions
        self._changes = changes
        self._clock = clock
        self._salts = Salts(server)

    async def person(self, app_id: str, user_id: str, anonymous_id: str) -> Person:
        """Return a person with all linked visitors.

        Errors:
            Conflict: the visitor is linked to a user: erase the user
        """
        if not user_id:
            if linked := (await self._interactions.links(app_id, [anonymous_id])).get(anonymous_id):
                raise Conflict(f"this visitor is linked to the user {linked}; forget the user instead")
            return Person(app_id=app_id, anonymous_ids=(anonymous_id,))
        visitors = await self._server.execute_slow("SMEMBERS", keys.linked(app_id, user_id))
        key = keys.record(app_id, "user", user_id)
        profile = unseal(await self._server.execute_slow("GET", key) or b"", salt_from_key(key))
        return Person(
            app_id=app_id,
            user_id=user_id,
            anonymous_ids=tuple(sorted(map(name_of, visitors))),
            addresses=addresses_of(profile) if profile else (),
        )

    async def subject(self, person: Person) -> str:
        """Return the keyed hash of a person."""
        return await self._salts.pseudonym(person.app_id, person.user_keys[0])

    async def subjects(self, person: Person) -> tuple[str, ...]:
        """Return the keyed hash of each id of a person."""
        salt = await self._salts.get(person.app_id)
        return tuple(pseudonym(salt, user_key) for user_key in person.user_keys)

    async def erased_since(self, app_id: str, since_ms: int) -> RemovedRecords:
        """Return whom the app erased from a time on."""
        order = keys.erasure_ids(app_id)
        names = await self._server.execute_slow("ZRANGEBYSCORE", order, since_ms, "+inf")
        subjects = set[str]()
        for name in names:
            with contextlib.suppress(NewerRelease):
                receipt = await self.read(app_id, name_of(name))
                subjects |= {receipt.subject, *receipt.subjects} if receipt is not None else set()
        return RemovedRecords(await self._salts.get(app_id), subjects)

    async def order(self, erasure: Erasure, person: Person) -> None:
        """Store an order until it is carried out; durable when it returns."""
        await self._put(erasure)
        name = keys.erasure_order()
        field = order_field(erasure.app_id, erasure.erasure_id)
        # After the receipt: an order without one counts as damaged.
        await self._server.execute_slow("HSET", name, field, seal_record(person, name, field))

    async def list_orders(self) -> list[tuple[Erasure, Person]]:
        """Return the unfinished orders of all apps, oldest first."""
        name = keys.erasure_order()
        flat = await self._server.execute_slow("HGETALL", name)
        orders = []
        for raw, sealed in split_pairs(flat):
            field = name_of(raw)
            app_id, _, erasure_id = field.partition(_BETWEEN)
            body = unseal(sealed, salt_from_key(name, field))
            try:
                erasure = await self.read(app_id, erasure_id)
                person = None if body is None else parse_record(Person, body)
            except NewerRelease as error:
                _log.warning("erasure_order_unreadable", app=app_id, reason=error.message)
                continue
            if person is None or erasure is None:
                # the damaged bytes hold the person: keep them and log an error until the erasure is ordered again
                _log.error("erasure_order_damaged", app=app_id, erasure=erasure_id)
                continue
            if person.model_extra:
                # it names the person in a way this release does not know: it would erase too little
                _log.warning("erasure_order_unreadable", app=app_id, reason="unknown fields")
                continue
            orders.append((erasure, person))
        return sorted(orders, key=lambda pair: (pair[0].created_at, pair[0].erasure_id))

    async def write(self, erasure: Erasure, *, done: bool = False) -> None:
        """Write the receipt; with `done`, delete the order and the person's id with it."""
        await self._put(erasure)
        if done:
            # After the receipt: a process that is killed in between erases again, which changes nothing.
            field = order_field(erasure.app_id, erasure.erasure_id)
            await self._server.execute_slow("HDEL", keys.erasure_order(), field)

    async def read(self, app_id: str, erasure_id: str) -> Erasure | None:
        name = keys.erasure(app_id)
        body = unseal(
            await self._server.execute_slow("HGET", name, erasure_id) or b"", salt_from_key(name, erasure_id)
        )
        return None if body is None else parse_record(Erasure, body)

    async def newest(self, app_id: str, count: int = 100) -> list[Erasure]:
        """Return the receipts, newest first."""
        names = await self._server.execute_slow("ZREVRANGE", keys.erasure_ids(app_id), 0, count - 1)
        receipts = []
        for name in names:
            with contextlib.suppress(NewerRelease):
                receipts.append(await self.read(app_id, name_of(name)))
        return [erasure for erasure in receipts if erasure is not None]

    async def _put(self, erasure: Erasure) -> None:
        name = keys.erasure(erasure.app_id)
        order = keys.erasure_ids(erasure.app_id)
        sealed = seal_record(erasure, name, erasure.erasure_id)
        await self._server.execute_slow("HSET", name, erasure.erasure_id, sealed)
        if await self._server.execute_slow("ZADD", order, erasure.created_at, erasure.erasure_id):
            # A negative end counts from the newest: everything but the last `MOST_RECEIPTS`.
            oldest = await self._server.execute_slow("ZRANGE", order, 0, -MOST_RECEIPTS - 1)
            if oldest:
                await self._server.execute_slow("HDEL", name, *oldest)
                await self._server.execute_slow("ZREM", order, *oldest)

    async def find(self, person: Person) -> PersonData:
        """Return all data of a person in Redis; compacted rows are not included.

        Cost:
            goes through all keys of the app: about 2 s for 1,000,000
        """
        data: PersonData = {place: [] for place in REDIS_PLACES}
        for trace in await self._traces(person):
            data[trace.place] += trace.items
        return data

    async def erase(self, person: Person) -> None:
        """Remove everything that `find` returns, except profile and change log; idempotent."""
        # First the traces of the walk: it finds questions by lists that are deleted with them.
        await erase_all(await self._traces(person))
        await erase_questions(self._server, person.app_id, person.user_keys)
        if person.user_id:
            await self._interactions.erase(person.app_id, [person.user_id])
        # A visitor linked to a user since has new data of that user, who asked for nothing.
        if left := await self._unlinked(person):
            await self._erase_visitors(person.app_id, left)
        await self._clean(keys.quarantine(person.app_id))

    async def _traces(self, person: Person) -> list[PersonTrace]:
        salt = await self._salts.get(person.app_id)
        return [trace async for trace in PersonTraces(self._server, person, salt).find_all()]

    async def _unlinked(self, person: Person) -> list[str]:
        """Return the person's visitors without a link now: those of a user went with the user."""
        links = (
            await self._interactions.links(person.app_id, person.anonymous_ids)
            if person.anonymous_ids
            else {}
        )
        return [visitor for visitor in person.anonymous_ids if visitor not in links]

    async def _erase_visitors(self, app_id: str, visitors: list[str]) -> None:
        user_keys = [user_key_from_anonymous_id(visitor) for visitor in visitors]
        names = [keys.change_log(app_id, "interaction"), keys.link(app_id)]
        names += (keys.recent(app_id, user_key) for user_key in user_keys)
        # Ids may hold lone surrogates, which JSON can't write.
        payload = orjson.dumps([user_key.encode("utf-8", "replace").decode() for user_key in user_keys])
        sealed = seal(payload, salt_from_key("interaction"))
        if not await self._server.run(_ERASE_VISITOR, names, [sealed, *visitors]):
            raise Unavailable("a visitor was linked to a user meanwhile", retry_after_s=1)

    async def clean_logs(self, app_id: str, settled: Mapping[LogNoun, str], now_ms: int) -> dict[str, str]:
        """Trim the change logs and free the memory of trimmed entries.

        Returns noun -> time until which a follower prevents that; empty: nothing prevents it.
        """
        late: dict[str, str] = {}
        for noun, offset in settled.items():
            await self._changes.compact(app_id, noun, offset, now_ms)
            name = keys.change_log(app_id, noun)
            # An entry before the offset is still there: a live follower has not read it.
            if await self._server.execute_slow("XRANGE", name, "-", offset, "COUNT", 1):
                late[noun] = iso_ms(now_ms + LIVE_MS)
            else:
                await self._clean(name)
        await self._clean(keys.query(app_id))
        await self._clean(keys.served(app_id))
        return late

    async def _clean(self, stream: str) -> None:
        """Rewrite a stream. A server that refuses keeps trimmed entries until their neighbours are trimmed."""
        try:
            # A script blocks Redis: a large stream would hold all requests up.
            if int(await self._server.execute_slow("MEMORY", "USAGE", stream) or 0) <= CLEAN_BYTES:
                await self._server.run(_CLEAN, [stream], [CLEAN_ENTRIES])
        except KioskError as error:
            _log.warning("stream_not_cleaned", reason=error.message)

    async def delete_followers(self, app_id: str) -> None:
        """Delete all followers, so that none prevents trimming; only for a stopped installation."""
        await self._server.execute_slow("DEL", keys.follower(app_id))

    async def list_lost(self, app_id: str) -> list[str]:
        """Return the times (ISO 8601) of unreadable erasures in the change log."""
        times = []
        for _, flat in await self._server.execute_slow("XRANGE", keys.quarantine(app_id), "-", "+"):
            fields = dict(split_pairs(flat))
            if fields.get(b"kind") == b"erasure":
                times.append(iso_ms(int(text_of(fields.get(b"id", b"0")).partition("-")[0])))
        return times

    async def read_append_only_file_status(self) -> AppendOnlyFileStatus:
        reports = await self._server.execute_everywhere("INFO", "persistence")
        masters = [dict(line.partition(":")[::2] for line in text_of(text).splitlines()) for text in reports]
        requested, done = await self._server.execute_slow("HMGET", keys.log_rewrite(), "wanted", "done")
        busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        return AppendOnlyFileStatus(
            is_kept=any(facts.get("aof_enabled") == "1" for facts in masters),
            is_rewriting=any(facts.get(name) == "1" for facts in masters for name in busy),
            requested_ms=int(requested or 0),
            done_ms=int(done or 0),
        )

    async def request_log_rewrite(self, now_ms: int) -> None:
        await self._server.execute_slow("HSET", keys.log_rewrite(), "wanted", now_ms)

    async def rewrite_append_only_file(self, now_ms: int) -> bool:
        """Start writing a new append-only file; return False when the server refuses for now."""
        try:
            await self._server.execute_everywhere("BGREWRITEAOF")
        except Unavailable:
            raise
        except KioskError as error:
            _log.warning("log_file_not_rewritten", reason=error.message)
            return False
        # After the start: a process that is killed in between only causes one more file.
        await self._server.execute_slow("HSET", keys.log_rewrite(), "done", now_ms)
        return True


async def erase_copies(server: RedisClient, person: Person) -> None:
    """Erase a person's data in restored keys, except the profile; the change log already has the erasure."""
    app_id = person.app_id
    user_keys = person.user_keys
    salt = await Salts(server).get(app_id)
    await erase_all([trace async for trace in PersonTraces(server, person, salt).find_all()])
    await erase_questions(server, app_id, user_keys)
    if person.user_id:
        await erase_threads(server, app_id, [person.user_id])
        await server.execute_slow("DEL", keys.linked(app_id, person.user_id))
    if person.anonymous_ids:
        await server.execute_slow("HDEL", keys.link(app_id), *person.anonymous_ids)
    for user_key in user_keys:
        await server.execute_slow("DEL", keys.recent(app_id, user_key))
