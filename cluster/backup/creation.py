"""Making a backup while the installation serves.

    1  note the newest offsets of all change logs            start
    2  read all bulk keys, a few at a time                   fuzzy: some before a change, some after it
    3  copy the artifact store                               each file once, by its checksum
    4  read control keys, offsets and answers together       the cut, atomic in each app; then the audit log's end
    5  read the change logs up to the cut
    6  write the manifest                                    the backup exists

A restore applies the changes from start to cut to users and products again, so they are exactly those of the cut.
"""

from __future__ import annotations

import asyncio
import tempfile
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cluster.artifacts.manifest import newest_manifest
from cluster.artifacts.signing import is_manifest
from cluster.artifacts.snapshots import FOLDER as SNAPSHOTS
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.artifact_copies import copy_artifacts
from cluster.backup.audit_position import find_audit_position
from cluster.backup.catalogue import AppCut, BackupFacts, commit_backup, load_newest, new_backup_id
from cluster.backup.chunks import CHUNK_BYTES, ChunkWriter
from cluster.backup.removal import mark_target_in_use
from cluster.backup_pace import Pace
from cluster.build_info import installed_version
from cluster.clock import Clock, SystemClock
from cluster.errors import Conflict, NewerRelease, Unavailable
from cluster.ids import new_request_id, position_from_offset
from cluster.records.intake import Noun
from cluster.store import keys
from cluster.store.backup_key_classes import NOUNS, control_keys, is_kiosk_key, key_class
from cluster.store.client.key_loader import PAGE, KeyLoader, KeyPart
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import Follower
from cluster.store.data.erasures import order_field

FOLLOWER = "backup"
"The follower of the change logs that keeps them until they are copied."
_PARTITIONS = 256
_BUCKET_KEYS = 1000
_CUTS = 5
_READS = 3


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of one backup."""

    facts: BackupFacts
    size: int
    "Bytes of all chunks it names."
    new_bytes: int
    "Bytes that the target lacked."
    new_chunks: int
    chunks: int


class BackupJob:
    """One backup."""

    def __init__(
        self,
        stores: OpenStores,
        source: ArtifactStore,
        target: ArtifactStore,
        fingerprints: tuple[str, ...],
        *,
        pace: Pace | None = None,
        answers: int = 1000,
        clock: Clock | None = None,
    ) -> None:
        self._stores = stores
        self._source = source
        self._target = target
        self._fingerprints = fingerprints
        self._pace = pace or Pace()
        self._answers = answers
        self._clock = clock or SystemClock()
        self._key_loader = KeyLoader(stores.server, self._clock)
        self._keys = 0
        self._kept: dict[str, dict[Noun, str]] = {}
        self._orders_at_start: set[bytes] = set()
        "Fields of `keys.erasure_order`."
        self._last_audit_id = ""
        "Of the rows of the audit log that were read with the bulk keys."

    async def run(self) -> BackupResult:
        """Make the backup.

        Errors:
            Conflict: old backups are being removed from the target, or a restore ended half way
            Unavailable: Redis or a store is away; a later backup uses the chunks that were written
            Fault: an artifact file is damaged
        """
        started_ms = self._clock.now_ms()
        mark = new_request_id()[-6:].lower()
        running = mark_target_in_use(self._target, "backup", mark, started_ms)
        # Entered by hand: the context manager blocks on the store, which must not stop the event loop.
        await asyncio.to_thread(running.__enter__)
        try:
            return await self._run(started_ms, mark)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)

    async def _run(self, started_ms: int, mark: str) -> BackupResult:
        # A half-restored installation lacks apps, and its backup would look complete.
        stored = await self._stores.schema.read()
        if stored.restoring:
            raise Conflict(f"a restore of the backup {stored.restoring} ended half way here; repeat it first")
        chunks = await asyncio.to_thread(ChunkWriter.open, self._target)
        cuts: dict[str, AppCut] = {}
        # The follower's place expires unless it is renewed, and a long read would lose the log that it needs.
        self._pace.refresh = lambda: self._follow(list(cuts))
        await self._begin_apps(cuts)
        # Before the bulk keys: an order that ends while they are read is no longer listed at the cut.
        self._orders_at_start = set(await self._stores.server.execute_slow("HKEYS", keys.erasure_order()))
        facts = BackupFacts(
            new_backup_id(started_ms, mark),
            installed_version(),
            stored.number,
            stored.oldest,
            self._fingerprints[0],
            started_ms,
            0,
            apps=cuts,
        )
        try:
            # The bulk keys first, the cut after them: the log between start
            # and cut mends what is older than the cut.
            facts.bulk = await self._read_bulk(chunks, cuts)
            await self._cut(facts, chunks)
            for app_id, cut in cuts.items():
                for noun in NOUNS:
                    cut.changes[noun] = [d async for d in self._log(app_id, noun, cut.end[noun], chunks)]
        finally:
            # A follower left behind would keep the change logs from being trimmed.
            for app_id in cuts:
                await self._stores.server.execute_slow("HDEL", keys.follower(app_id), FOLLOWER)
        facts.keys = self._keys
        await asyncio.to_thread(commit_backup, self._target, facts, chunks.needed)
        size = sum(entry.size for entry in chunks.needed.values())
        return BackupResult(facts, size, chunks.new_bytes, chunks.new_chunks, len(chunks.needed))

    async def _begin_apps(self, cuts: dict[str, AppCut]) -> list[str]:
        """Note the offsets of apps that the backup lacks, and return their ids."""
        names = await self._stores.server.execute_slow("HKEYS", keys.access_app())
        begun = sorted({text_of(name) for name in names} - cuts.keys())
        for app_id in begun:
            # Noted before any key of the app is read: a later offset would miss changes of keys read before.
            cuts[app_id] = AppCut(start=await self._offsets(app_id))
        await self._follow(begun)
        return begun

    async def _offsets(self, app_id: str) -> dict[str, str]:
        return {noun: await self._key_loader.last_offset(keys.change_log(app_id, noun)) for noun in NOUNS}

    async def _follow(self, apps: Sequence[str]) -> None:
        """Prevent the trimming of change-log entries after the offsets that the artifact store now
        contains.
        """
        for app_id in apps:
            if app_id not in self._kept:
                offsets = await self._stores.changes.compacted_offsets(app_id)
                self._kept[app_id] = {noun: offsets.get(noun, "0") for noun in NOUNS}
            await self._stores.changes.record_follower(
                app_id, Follower(FOLLOWER, self._clock.now_ms(), self._kept[app_id])
            )

    async def _read_bulk(
        self, chunks: ChunkWriter, apps: Collection[str], added: Sequence[str] = ()
    ) -> list[str]:
        """Write the bulk keys; again if a server was restarted or replaced meanwhile, since its cursors ended."""
        keys_before = self._keys
        for _ in range(_READS):
            # A read for added apps must not forget how far the audit log was read with the others.
            if not added:
                self._last_audit_id = ""
            servers = await self._key_loader.run_ids()
            digests = [digest async for digest in self._bulk(chunks, apps, added)]
            # A cursor of SCAN is valid on one server only: keys may be missing after a failover.
            if await self._key_loader.run_ids() == servers:
                return digests
            # The next try counts all keys again.
            self._keys = keys_before
        raise Unavailable("Redis was restarted each time its keys were read; try again", retry_after_s=60)

    async def _bulk(
        self, chunks: ChunkWriter, apps: Collection[str], added: Sequence[str] = ()
    ) -> AsyncIterator[str]:
        """Write the bulk keys of everything but apps that are not begun, or of the added apps.

        Names go to files by their hash first, so equal keys make equal chunks every time.
        """
        with tempfile.TemporaryDirectory(prefix="kiosk-backup-") as folder:
            total = await self._list_names(Path(folder), apps, added)
            # A power of two, about one for each 1000 keys: a few new keys
            # do not move the others to other chunks.
            buckets = 1 << (total // _BUCKET_KEYS).bit_length()
            for names in _buckets(Path(folder), buckets):
                async for digest in self._bucket(names, chunks):
                    yield digest

    async def _list_names(self, folder: Path, apps: Collection[str], added: Sequence[str]) -> int:
        total = 0
        late = dict.fromkeys(apps, False)
        "App -> whether it was made since, so that it is read later."
        async for page in self._key_loader.scan():
            spooled: dict[int, list[bytes]] = {}
            for name in filter(is_kiosk_key, page):
                app_id = _app_of(name)
                if added and app_id not in added:
                    continue
                # An app made since the start is read later with its own offsets; here it would have no start.
                if app_id and app_id not in late:
                    exists = await self._stores.server.execute_slow("HEXISTS", keys.access_app(), app_id)
                    late[app_id] = bool(exists)
                if not (app_id and late[app_id]) and key_class(name_of(name)) == "bulk":
                    # Spooled to files: the names of all keys may not fit in memory.
                    spooled.setdefault(zlib.crc32(name) % _PARTITIONS, []).append(name)
                    total += 1
            for partition, names in spooled.items():
                with (folder / f"{partition:02x}").open("ab") as out:
                    # Lengths before names, since a key may contain any byte.
                    out.write(b"".join(b"%08x" % len(name) + name for name in names))
            await self._pace.step("keys listed", total)
        return total

    async def _bucket(self, names: list[bytes], chunks: ChunkWriter) -> AsyncIterator[str]:
        parts = list[KeyPart]()
        size = 0
        for first in range(0, len(names), PAGE):
            page = names[first : first + PAGE]
            records = [name for name in page if _is_record(name)]
            read = await self._key_loader.read_strings(records) if records else []
            read += [part async for part in self._key_loader.read([n for n in page if not _is_record(n)])]
            self._keys += len(page)
            for part in read:
                if part.key == keys.audit_row().encode() and part.items:
                    self._last_audit_id = text_of(part.items[-1][0])
                parts.append(part)
                size += _size_of(part.items)
                if size > CHUNK_BYTES:
                    yield await asyncio.to_thread(chunks.write_parts, parts)
                    parts = []
                    size = 0
            await self._pace.step("keys", self._keys)
        if parts:
            yield await asyncio.to_thread(chunks.write_parts, parts)

    async def _cut(self, facts: BackupFacts, chunks: ChunkWriter) -> None:
        """Copy the artifact store, and read the control keys of a moment at which it had the same segments and
        snapshots.
        """
        earlier = await asyncio.to_thread(load_newest, self._target, self._fingerprints)
        for _ in range(_CUTS):
            # Apps made meanwhile: their bulk keys are read before the cut, as those of the others were.
            if added := await self._begin_apps(facts.apps):
                facts.bulk += await self._read_bulk(chunks, facts.apps, added)
            before = await asyncio.to_thread(self._list_commits, facts.apps)
            facts.artifacts = await asyncio.to_thread(
                copy_artifacts, self._source, chunks, earlier, self._pace.progress
            )
            parts, answers = await self._read_control(facts)
            after = await asyncio.to_thread(self._list_commits, facts.apps)
            # The same manifests before and after: the copied files are those to which the control keys refer.
            if before == after and _app_ids(parts) <= facts.apps.keys():
                facts.cut_ms = self._clock.now_ms()
                facts.control = [await asyncio.to_thread(chunks.write_parts, parts)]
                facts.answers = [await asyncio.to_thread(chunks.write_parts, answers)]
                self._keys += len(parts)
                return
        raise Unavailable(
            "compactions or trainings go on faster than files are copied; try again", retry_after_s=60
        )

    def _list_commits(self, apps: Iterable[str]) -> tuple[dict[str, str | None], list[str]]:
        """Return the manifest of each app's segments, and those of all snapshots.

        An erasure replaces segments without a new offset. An engine may name a snapshot as soon as it is published.
        """
        segments = {app_id: newest_manifest(self._source, f"{app_id}/segments") for app_id in apps}
        return segments, [entry.path for entry in self._source.entries(SNAPSHOTS) if is_manifest(entry.path)]

    async def _read_control(self, facts: BackupFacts) -> tuple[list[KeyPart], list[KeyPart]]:
        parts = list[KeyPart]()
        answers = list[KeyPart]()
        names = [name for name in control_keys(None) if name != keys.audit_begun()]
        # Keys of one hash tag are on one server of a cluster and can be read in one transaction.
        for _, group in groupby(sorted(names, key=_tag_of), key=_tag_of):
            parts += (await self._key_loader.read_cut(list(group)))[0]
        # Rounded up, so that small apps are sampled too.
        share = -(-self._answers // max(1, len(facts.apps)))
        for app_id, cut in facts.apps.items():
            sampled = await self._sample(app_id, share)
            logs = [keys.change_log(app_id, noun) for noun in NOUNS]
            # Another server of a cluster may have them: they are beside the number that replicas poll.
            ended = keys.ended_tokens(app_id)
            parts += (await self._key_loader.read_cut([ended]))[0]
            names = [name for name in control_keys(app_id) if name != ended]
            control, offsets, values = await self._key_loader.read_cut(names, logs, sampled)
            # Offsets and keys come from one transaction: that makes the cut exact in each app.
            parts += control
            cut.end = dict(zip(NOUNS, offsets, strict=True))
            cut.trimmed = _trimmed(control, app_id)
            answers += [
                KeyPart(key.encode("utf-8", "surrogateescape"), "string", [value])
                for key, value in zip(sampled, values, strict=True)
            ]
            parts += await self._read_open(app_id, control)
        # After the control keys, since their orders say which receipts must be complete.
        receipts = await self._read_receipts(parts, facts)
        # last: the log names every change that the keys above show
        return [*parts, *receipts, *await self._read_audit_end(facts)], answers

    async def _read_audit_end(self, facts: BackupFacts) -> list[KeyPart]:
        """Read the changes that have begun, and the rows of the audit log since the bulk keys; note the newest row."""
        name = keys.audit_row()
        parts, (until,), _ = await self._key_loader.read_cut([keys.audit_begun()], [name])
        # Not `rows`: they may be empty, and the newest row then came with the bulk keys.
        newest = await self._stores.server.execute_slow("XREVRANGE", name, until, "-", "COUNT", 1)
        facts.audit = find_audit_position([KeyPart(name.encode(), "stream", newest)])
        rows = [
            row async for page in self._key_loader.read_log(name, until, self._last_audit_id) for row in page
        ]
        return [*parts, KeyPart(name.encode(), "stream", rows)] if rows else parts

    async def _read_open(self, app_id: str, control: Sequence[KeyPart]) -> list[KeyPart]:
        """Read the unfinished tasks and questions of an app: the bulk keys may be older than they are."""
        names = [
            key_of(app_id, text_of(item)).encode("utf-8", "surrogateescape")
            for list_key, key_of in ((keys.task_open, keys.task), (keys.question_open, keys.question))
            for part in control
            if part.key == list_key(app_id).encode()
            for item in part.items[::2]
        ]
        pages = [names[first : first + PAGE] for first in range(0, len(names), PAGE)]
        return [part for page in pages async for part in self._key_loader.read(page)]

    async def _read_receipts(self, control: Sequence[KeyPart], facts: BackupFacts) -> list[KeyPart]:
        """Read the receipts of erasures that were unfinished at the start, or ordered since.

        The bulk keys may hold an earlier state of them. Without its receipt, an order is not carried out; without its
        order, an unfinished receipt would never end.
        """
        at_cut = {
            item for part in control if part.key == keys.erasure_order().encode() for item in part.items[::2]
        }
        orders = {text_of(item) for item in self._orders_at_start | at_cut}
        ask = self._stores.server.execute_slow
        receipts = list[KeyPart]()
        for app_id in facts.apps:
            key = keys.erasure(app_id)
            ids = keys.erasure_ids(app_id)
            prefix = order_field(app_id, "")
            names = {order.removeprefix(prefix) for order in orders if order.startswith(prefix)}
            names |= {text_of(name) for name in await ask("ZRANGEBYSCORE", ids, facts.started_ms, "+inf")}
            for name in sorted(names):
                body = await ask("HGET", key, name)
                score = await ask("ZSCORE", ids, name)
                if body is None or score is None:
                    continue
                # An order that was made after the cut is left out with its receipt.
                is_ordered = order_field(app_id, name).encode() in at_cut
                if is_ordered or await self._is_finished(app_id, name):
                    receipts.append(KeyPart(key.encode(), "hash", [name.encode(), body]))
                    receipts.append(KeyPart(ids.encode(), "zset", [name.encode(), score]))
        return receipts

    async def _is_finished(self, app_id: str, erasure_id: str) -> bool:
        try:
            receipt = await self._stores.erasures.read(app_id, erasure_id)
        except NewerRelease:
            return True  # of a release that this one does not run beside
        return receipt is not None and receipt.status == "finished"

    async def _sample(self, app_id: str, share: int) -> list[str]:
        """Choose records whose answers are recorded; an absent one at the cut is an answer too."""
        names = list[str]()
        for noun, most in (("user", share // 2), ("product", share)):
            ids = await self._key_loader.sample(keys.record_ids(app_id, noun), most - len(names))
            names += [keys.record(app_id, noun, record_id) for record_id in ids]
        return names

    async def _log(self, app_id: str, noun: str, until: str, chunks: ChunkWriter) -> AsyncIterator[str]:
        """Write a change log; chunks end at entries chosen by their id, so the next backup produces the
        same chunks.
        """
        key = keys.change_log(app_id, noun)
        items = list[Any]()
        size = 0
        done = 0
        # Nothing was ever written to this log.
        if position_from_offset(until) == (0, 0):
            return
        async for page in self._key_loader.read_log(key, until):
            for entry in page:
                items.append(entry)
                size += sum(map(len, entry[1]))
                # Content-defined: an entry's id decides, so a trimmed beginning changes only the first chunk.
                if size > CHUNK_BYTES or (size > CHUNK_BYTES // 8 and zlib.crc32(entry[0]) % 64 == 0):
                    yield await asyncio.to_thread(
                        chunks.write_parts, [KeyPart(key.encode(), "stream", items)]
                    )
                    items = []
                    size = 0
            done += len(page)
            await self._pace.step(f"changes of {noun}s", done)
        if items:
            yield await asyncio.to_thread(chunks.write_parts, [KeyPart(key.encode(), "stream", items)])


def _buckets(folder: Path, count: int) -> Iterator[list[bytes]]:
    """Yield the sorted names of each bucket; `count` is a power of two."""
    # Names lie in files by `crc % 256`; a bucket of fewer than 256 spans several of them.
    files = min(count, _PARTITIONS)
    for first in range(files):
        paths = (folder / f"{number:02x}" for number in range(first, _PARTITIONS, files))
        buckets: dict[int, set[bytes]] = {}
        for path in paths:
            for name in _read_names(path) if path.exists() else ():
                buckets.setdefault(zlib.crc32(name) % count, set()).add(name)
        for bucket in sorted(buckets):
            yield sorted(buckets[bucket])


def _read_names(path: Path) -> set[bytes]:
    data = path.read_bytes()
    at = 0
    names = set[bytes]()
    while at < len(data):
        length = int(data[at : at + 8], 16)
        names.add(data[at + 8 : at + 8 + length])
        at += 8 + length
    return names


def _tag_of(key: str) -> str:
    return key[key.find("{") : key.find("}")]


def _app_of(name: bytes) -> str:
    """Return the app of a key; empty for a key of the installation."""
    return name_of(name[1:].partition(b"}:")[0]) if name.startswith(b"{") else ""


def _app_ids(parts: Iterable[KeyPart]) -> set[str]:
    """Return the apps that exist at the cut."""
    ids = (part.items[::2] for part in parts if part.key == keys.access_app().encode())
    return {text_of(name) for names in ids for name in names}


def _trimmed(parts: Sequence[KeyPart], app_id: str) -> dict[str, str]:
    for part in parts:
        if part.key == keys.trimmed(app_id).encode():
            flat = [text_of(item) for item in part.items]
            return dict(split_pairs(flat))
    return {}


def _is_record(name: bytes) -> bool:
    tail = name.partition(b"}:")[2]
    return name.startswith(b"{") and tail.startswith((b"user:", b"product:"))


def _size_of(items: Any) -> int:
    return sum(len(item) if isinstance(item, bytes) else _size_of(item) for item in items)
