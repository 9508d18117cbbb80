"""Restoring a backup: its keys and files into an empty installation, then the changes up to the cut or to a time.

1  mark the installation: no release starts on it    (`StoredSchema.restoring`)
2  files of the artifact store
3  bulk keys
4  change logs, applied again from the start of the backup on; who was erased meanwhile is erased again
5  control keys, without which no app exists
6  remove the mark
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.admin.schema import check_readable, newest_schema
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.artifact_copies import restore_artifacts
from cluster.backup.catalogue import Backup, BackupFacts, list_backup_ids, load_backup
from cluster.backup.chunks import read_parts
from cluster.backup_pace import Progress, ignore_progress
from cluster.clock import iso_ms
from cluster.errors import Conflict, NotFound
from cluster.ids import position_from_offset
from cluster.records.erasure import Person
from cluster.records.intake import Noun
from cluster.store import keys
from cluster.store.backup_key_classes import NOUNS, is_kiosk_key, key_class
from cluster.store.client.key_loader import KeyPart, StreamState
from cluster.store.client.key_writer import KeyWriter
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.connect import OpenStores
from cluster.store.data.erasures import erase_copies
from cluster.store.installation.schema_version import StoredSchema
from cluster.store.seals.seal import salt_from_key, seal, unseal

_PAGE = 500
_LOGS: tuple[Noun, ...] = ("interaction", "user", "product")
"Interactions first: their log names the erased persons, whose later profiles are in the log of users."


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The backup to restore, and where later changes come from."""

    backup: Backup
    later: Backup | None = None
    "The backup whose change logs reach from `backup` to `until_ms`."
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore."""

    backup_id: str
    as_of_ms: int
    keys: int
    changes: int
    "Changes that were applied to users and products again."
    artifacts: int


def plan_restore(
    target: ArtifactStore, fingerprints: tuple[str, ...], *, backup_id: str = "", at_ms: int = 0
) -> RestorePlan:
    """Choose the newest backup, a named one, or the backups that restore the state of a time.

    Errors:
        NotFound: there is no such backup, or none before the time
        Conflict: another master key made it, or the changes up to the time are in no backup
        NewerRelease: this release can't read its data
    """
    ids = list_backup_ids(target)
    if not ids or (backup_id and backup_id not in ids):
        raise NotFound(f"there is no complete backup {backup_id}".rstrip())
    if not at_ms:
        plan = RestorePlan(load_backup(target, backup_id or ids[-1], fingerprints))
    else:
        plan = _plan_time([load_backup(target, listed_id, fingerprints) for listed_id in ids], at_ms)
    facts = plan.backup.facts
    check_readable(StoredSchema(facts.schema, facts.oldest, facts.release), newest_schema())
    return plan


def _plan_time(backups: Sequence[Backup], at_ms: int) -> RestorePlan:
    before = [backup for backup in backups if backup.facts.cut_ms <= at_ms]
    if not before:
        raise NotFound(
            f"no backup is as old as {iso_ms(at_ms)}; the oldest is of {iso_ms(backups[0].facts.cut_ms)}"
        )
    # The newest state before the time, so that the fewest changes are applied on top.
    start = before[-1]
    after = [backup for backup in backups if backup.facts.cut_ms > at_ms]
    if start.facts.cut_ms == at_ms:
        return RestorePlan(start)
    if not after:
        raise Conflict(f"no backup reaches {iso_ms(at_ms)}; the newest is of {iso_ms(start.facts.cut_ms)}")
    # Its logs begin where those of the earlier backup end, unless the log was trimmed in between.
    later = after[0]
    for app_id, cut in start.facts.apps.items():
        trimmed = later.facts.apps[app_id].trimmed if app_id in later.facts.apps else {}
        for noun in NOUNS:
            gone = trimmed.get(noun, "0")
            if position_from_offset(gone) > position_from_offset(cut.end[noun]):
                raise Conflict(
                    f"the changes of {noun}s of {app_id} after {iso_ms(start.facts.cut_ms)} were trimmed before the "
                    "next backup; restore that backup, or make backups more often"
                )
    return RestorePlan(start, later, at_ms)


async def empty_for_restore(
    stores: OpenStores, into: ArtifactStore, backup_id: str, *, replace: bool = False
) -> None:
    """Mark and empty an installation that may be replaced, or into which a restore ended half way; refuse any other
    with data.

    Errors:
        Conflict: it has data, or a process of it runs
    """
    server = stores.server
    durable = 0
    async for names in _scan(server):
        page = [key for key in names if is_kiosk_key(key)]
        kinds = [key_class(name_of(key)) for key in page]
        # A lease expires some seconds after its process ended, hence the wait that the message asks for.
        if any(key.startswith(b"kiosk:lease:") for key in page):
            raise Conflict(
                "the installation runs; end it first (`kiosk down`), wait ten seconds and try again"
            )
        durable += sum(kind != "ephemeral" for kind in kinds)
    files = await asyncio.to_thread(into.entries, "")
    # Data of an interrupted restore is worth nothing: it may be replaced without asking.
    replace = replace or bool((await stores.schema.read()).restoring)
    if (durable or files) and not replace:
        raise Conflict(
            f"the installation has data ({durable} keys, {len(files)} files); an empty data directory, or --replace, "
            "which removes them"
        )
    await stores.schema.mark_restoring(backup_id)
    async for names in _scan(server):
        # the schema has the mark of a restore: the next one replaces it
        if page := [key for key in names if is_kiosk_key(key) and name_of(key) != keys.schema()]:
            await asyncio.gather(*(server.execute_slow("DEL", key) for key in page))
    for entry in files:
        await asyncio.to_thread(into.remove, entry.path)


class RestoreJob:
    """One restore into an empty installation."""

    def __init__(
        self,
        plan: RestorePlan,
        target: ArtifactStore,
        stores: OpenStores,
        into: ArtifactStore,
        now_ms: int,
        progress: Progress = ignore_progress,
    ) -> None:
        self._plan = plan
        self._target = target
        self._stores = stores
        self._into = into
        self._writer = KeyWriter(stores.server, now_ms)
        self._progress = progress
        self._keys = self._changes = 0
        self._last_key = b""

    async def run(self) -> RestoreResult:
        """Write everything; the control keys, without which no app exists, come last."""
        facts = self._plan.backup.facts
        # First: an installation that is half restored must not serve or be backed up.
        await self._stores.schema.mark_restoring(facts.backup_id)
        # Files before the keys that name them, such as the snapshots of engines.
        files = await asyncio.to_thread(
            restore_artifacts, self._target, self._plan.backup, self._into, self._progress
        )
        for digest in facts.bulk:
            await self._write(await self._parts(self._plan.backup, digest))
        # The changes below continue these records, so all bulk keys must be there.
        await self._writer.finish()
        control = [part for digest in facts.control for part in await self._parts(self._plan.backup, digest)]
        salts = {keys.query_salt(app_id).encode() for app_id in facts.apps}
        # an erasure finds what is stored under a pseudonym by the salt
        await self._writer.write(part for part in control if part.key in salts)
        for app_id in facts.apps:
            for noun in _LOGS:
                await self._log(app_id, noun, facts)
        await self._index_types(facts)
        await self._write(control)
        await self._writer.finish()
        # Last: only now may a process start on this data.
        await self._stores.schema.mark_restoring("")
        as_of_ms = self._plan.until_ms or facts.cut_ms
        return RestoreResult(facts.backup_id, as_of_ms, self._keys, self._changes, files)

    async def _parts(self, backup: Backup, digest: str) -> list[KeyPart]:
        return await asyncio.to_thread(read_parts, self._target, backup.chunks[digest])

    async def _write(self, parts: list[KeyPart]) -> None:
        await self._writer.write(parts)
        await self._writer.send(
            ("ZADD", keys.record_ids(app_id, noun), 0, record_id)
            for part in parts
            if (named := _record_of(part.key)) is not None
            for app_id, noun, record_id in (named,)
        )
        self._keys += len({part.key for part in parts} - {self._last_key})
        self._last_key = parts[-1].key if parts else b""
        self._progress("keys", self._keys)

    async def _log(self, app_id: str, noun: str, facts: BackupFacts) -> None:
        """Write a change log, and apply its changes since the start of the backup to the records."""
        cut = facts.apps[app_id]
        key = keys.change_log(app_id, noun)
        newest = cut.end[noun]
        since = position_from_offset(cut.start[noun])
        erased: dict[Person, None] = {}
        async for entries in self._entries(app_id, noun):
            commands: list[tuple[Any, ...]] = []
            for entry_id, fields in entries:
                commands.append(("XADD", key, entry_id, *fields))
                newest = entry_id.decode()
                if position_from_offset(newest) > since:
                    self._changes += 1
                    if noun == "interaction":
                        erased |= dict.fromkeys(_erased_persons(app_id, fields))
                    else:
                        commands += _record_commands(app_id, noun, fields)
            await self._writer.send(commands)
        # Once per person, although the log may name a person often.
        for person in erased:
            await erase_copies(self._stores.server, person)
        if position_from_offset(newest) > (0, 0):
            await self._writer.finish_stream(key.encode(), StreamState(newest.encode()))

    async def _entries(self, app_id: str, noun: str) -> AsyncIterator[list[Any]]:
        """Yield the entries of a change log, some at a time."""
        plan = self._plan
        done = 0
        end = position_from_offset(plan.backup.facts.apps[app_id].end[noun])
        for backup in (plan.backup, plan.later):
            if backup is None or app_id not in backup.facts.apps:
                continue
            for digest in backup.facts.apps[app_id].changes[noun]:
                for part in await self._parts(backup, digest):
                    yield [
                        entry
                        for entry in part.items
                        # The later backup repeats the log of the first; only what follows
                        # the cut counts, up to the time asked for.
                        if backup is plan.backup
                        or ((at := position_from_offset(entry[0].decode())) > end and at[0] <= plan.until_ms)
                    ]
                    done += len(part.items)
                    self._progress(f"changes of {noun}s", done)

    async def _index_types(self, facts: BackupFacts) -> None:
        """Build the index of products by type from their types."""
        for app_id in facts.apps:
            cursor: Any = 0
            while True:
                cursor, flat = await self._stores.server.execute_slow(
                    "HSCAN", keys.product_type(app_id), cursor, "COUNT", _PAGE
                )
                index = keys.product_type_ids(app_id)
                await self._writer.send(
                    ("ZADD", index, 0, kind + product_id) for product_id, kind in split_pairs(flat)
                )
                if int(cursor) == 0:
                    break


def _records_of(noun: str, flat: Sequence[bytes]) -> list[Any]:
    """Return the records and ids of a change; none if it is damaged."""
    fields = dict(split_pairs(flat))
    payload = unseal(fields.get(b"payload", b""), salt_from_key(noun))
    # Some entries carry a second copy for the case that the first is damaged.
    if payload is None and b"copy" in fields:
        payload = unseal(fields[b"copy"], salt_from_key(noun))
    return [] if payload is None else list(orjson.loads(payload))


def _erased_persons(app_id: str, flat: Sequence[bytes]) -> list[Person]:
    """Return the persons whom an entry of the interactions erased: users, each with all visitors of the entry, or
    visitors."""
    user_keys = [record for record in _records_of("interaction", flat) if isinstance(record, str)]
    users = [user_key[2:] for user_key in user_keys if user_key.startswith("u:")]
    visitors = tuple(user_key[2:] for user_key in user_keys if user_key.startswith("a:"))
    if not users and not visitors:
        return []
    return [Person(app_id=app_id, user_id=user_id, anonymous_ids=visitors) for user_id in users or [""]]


def _record_commands(app_id: str, noun: str, flat: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield what a change of users or products did to the keys of its records."""
    types = keys.product_type(app_id)
    ids = keys.record_ids(app_id, noun)
    for record in _records_of(noun, flat):
        if isinstance(record, str):
            yield ("DEL", keys.record(app_id, noun, record))
            yield ("ZREM", ids, record)
            yield ("HDEL", types, record)
            continue
        record_id = record[f"{noun}_id"]
        key = keys.record(app_id, noun, record_id)
        yield ("SET", key, seal(orjson.dumps(record), salt_from_key(key)))
        yield ("ZADD", ids, 0, record_id)
        if noun == "product":
            kind = record.get("type")
            yield ("HSET", types, record_id, orjson.dumps(kind)) if kind else ("HDEL", types, record_id)


def _record_of(key: bytes) -> tuple[str, str, str] | None:
    app_id, _, tail = name_of(key)[1:].partition("}:")
    noun, _, record_id = tail.partition(":")
    return (
        (app_id, noun, record_id)
        if key.startswith(b"{") and noun in ("user", "product") and record_id
        else None
    )


async def _scan(server: RedisClient) -> AsyncIterator[list[bytes]]:
    cursor: Any = 0
    while True:
        cursor, page = await server.execute_slow("SCAN", cursor, "COUNT", _PAGE)
        yield page
        if int(cursor) == 0:
            return
