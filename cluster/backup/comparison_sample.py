"""Which answers of a restored app can be compared with the installation that was backed up, and which questions to ask.

The installation went on serving. Its change log is read up to the cut only, so users, products and interactions are
those of the cut again. Where its segments changed since, its log is read from the segments of the backup on, as long as
it reaches back to them. An app whose log was trimmed, or whose engines or boost rules changed since, is not compared,
and a user whose recent list was continued since the backup began is not asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.artifacts.manifest import newest_manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.backup.catalogue import AppCut, Backup
from cluster.backup.chunks import read_parts
from cluster.clock import SystemClock
from cluster.ids import position_from_offset
from cluster.records.intake import Noun
from cluster.records.interaction import RecentEvent
from cluster.records.validation.recent_events import GROUP
from cluster.store import keys
from cluster.store.client.key_loader import KeyLoader, KeyPart
from cluster.store.client.replies import name_of
from cluster.store.connect import OpenStores
from cluster.store.data.append_plan import CAP

_READ = 128
_MOST_PAGES = 400
"Pages of keys that are looked through for recent lists."
_Visit = tuple[str, str]
"Type of an interaction, and its first product or group of products."
_TITLES = ("title", "name", "headline", "product_id")


@dataclass(frozen=True, slots=True)
class AppSample:
    """Users and products of one app, chosen at random."""

    user_keys: tuple[str, ...]
    "Prefixed ids (`u:`, `a:`) of users with and without recent interactions."
    titles: Mapping[str, str]
    "Product id -> a text to search for."


async def sample_app(stores: OpenStores, app_id: str, most: int) -> AppSample:
    """Choose up to `most` users and as many products of an app."""
    key_loader = KeyLoader(stores.server, SystemClock())
    users = {
        f"u:{user_id}" for user_id in await key_loader.sample(keys.record_ids(app_id, "user"), most // 2)
    }
    user_keys = [*await _users_with_recent_list(key_loader, app_id, most - len(users)), *sorted(users)]
    product_ids = await key_loader.sample(keys.record_ids(app_id, "product"), most)
    # A sampled product may be deleted meanwhile.
    bodies = await stores.records.get_many(app_id, "product", product_ids)
    titles = {
        product_id: _title(body)
        for product_id, body in zip(product_ids, bodies, strict=True)
        if body is not None
    }
    return AppSample(tuple(dict.fromkeys(user_keys)), titles)


async def check_comparable(
    source: OpenStores,
    artifacts: ArtifactStore,
    restored: ArtifactStore,
    target: ArtifactStore,
    backup: Backup,
    app_id: str,
) -> tuple[ArtifactStore, str]:
    """Return the artifact store with which an app of the installation has the state of the backup, its own or the
    restored one; and why the app can't be compared, empty if it can.
    """
    path = await asyncio.to_thread(newest_manifest, artifacts, f"{app_id}/segments")
    copied = {copy.path: copy.sha256 for copy in backup.facts.artifacts}
    cut = backup.facts.apps[app_id]
    if path is None:
        if any(path.startswith(f"{app_id}/segments/") for path in copied):
            return artifacts, "its segments are gone"
    # The manifest names every segment with its checksum, so comparing it compares them all.
    elif copied.get(path) != checksum(await asyncio.to_thread(artifacts.read, path)):
        artifacts = restored
        if await _is_trimmed(source, app_id, await asyncio.to_thread(SegmentStore(restored).offsets, app_id)):
            return artifacts, "its changes were compacted since"
    # Without the changes since the start, the users and products of the cut can't be computed.
    if await _is_trimmed(source, app_id, cut.start):
        return artifacts, "its change log was trimmed since"
    # Engines and rules change answers at once and have no log to go back in.
    names = [keys.engine(app_id), keys.boost_rule(app_id)]
    parts, _, _ = await KeyLoader(source.server, SystemClock()).read_cut(names)
    written = [part for piece in backup.facts.control for part in read_parts(target, backup.chunks[piece])]
    if _as_hashes(parts) != _as_hashes(part for part in written if name_of(part.key) in names):
        return artifacts, "its engines or boost rules were changed since"
    return artifacts, ""


async def find_active_users(
    source: OpenStores, restored: OpenStores, app_id: str, cut: AppCut, user_keys: Iterable[str]
) -> set[str]:
    """Return the prefixed ids of users whose recent list in the installation is newer than the restored one.

    These are all users that the log names since the backup began. Of the others in `user_keys`, these are the users
    with interactions of a visitor: the log names the visitor alone, who may be linked to another user since.
    """
    active = set[str]()
    visits = set[_Visit]()
    after: dict[Noun, str] = {"interaction": cut.start["interaction"]}
    # To the end of the log, past the cut: those users have newer lists now, but not in the backup.
    while entries := await source.changes.read(app_id, after, count=_READ, block_ms=0):
        for entry in entries:
            for record in orjson.loads(entry.payload):
                if isinstance(record, str):
                    active.add(record)
                    continue
                if visitor := record.get("anonymous_id"):
                    active.add(f"a:{visitor}")
                if user_id := record.get("user_id"):
                    active.add(f"u:{user_id}")
                # The log names a visitor but not the user to whom a link may lead.
                elif visitor:
                    visits.add(_visit_from_record(record))
        after = {"interaction": entries[-1].offset}
    for user_key in set(user_keys) - active if visits else ():
        newer, older = [await stores.interactions.recent(app_id, [user_key]) for stores in (source, restored)]
        if _continues(newer, older, visits):
            active.add(user_key)
    return active


def _continues(newer: Sequence[bytes], older: Sequence[bytes], visits: AbstractSet[_Visit]) -> bool:
    """Return whether a recent list is another one with interactions of visitors before it."""
    for count, packed in enumerate(newer, 1):
        event = RecentEvent.unpack(packed)
        if (event.type, event.product_ids[0]) not in visits:
            return False
        # A recent list is bounded: what came first fell out at its end.
        if newer[count:] == older[: CAP - count]:
            return True
    return False


def _visit_from_record(record: Mapping[str, Any]) -> _Visit:
    ids = record.get("product_ids") or [
        GROUP + group_id for group_id in record.get("product_group_ids") or ()
    ]
    return record["type"], ids[0] if ids else ""


async def _is_trimmed(source: OpenStores, app_id: str, since: Mapping[Any, str]) -> bool:
    """Return whether changes after these offsets are no longer in the log."""
    nouns: tuple[Noun, ...] = ("user", "product", "interaction")
    trimmed = [(await source.changes.first(app_id, noun), since.get(noun, "0")) for noun in nouns]
    return any(position_from_offset(first) > position_from_offset(start) for first, start in trimmed)


async def _users_with_recent_list(key_loader: KeyLoader, app_id: str, most: int) -> list[str]:
    prefix = keys.recent(app_id, "").encode()
    user_keys = list[str]()
    pages = 0
    async for page in key_loader.scan():
        user_keys += [name_of(name[len(prefix) :]) for name in page if name.startswith(prefix)]
        pages += 1
        if len(user_keys) >= most or pages >= _MOST_PAGES:
            break
    return sorted(set(user_keys))[:most]


def _title(body: bytes) -> str:
    record = orjson.loads(body)
    return next((text for name in _TITLES if isinstance(text := record.get(name), str) and text), "")


def _as_hashes(parts: Any) -> dict[bytes, dict[bytes, bytes]]:
    return {part.key: _as_hash(part) for part in parts}


def _as_hash(part: KeyPart) -> dict[bytes, bytes]:
    return dict(zip(part.items[::2], part.items[1::2], strict=True))
