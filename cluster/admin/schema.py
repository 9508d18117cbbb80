"""The schema of the stored data: checked at every start, and brought up by additive migrations.

    stored number equal                        start
    older                                      apply the migrations between, one after the other, under a lease
    newer, but this release's schema suffices  start: a rollback within additive changes
    newer, and `oldest` is above this release  refuse to start

A migration must be safe to apply twice and while releases of the previous schema run. One that older releases can't
read (`oldest` is its own number) waits until none of them runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from cluster.build_info import build_digest, installed_version
from cluster.errors import Conflict, NewerRelease, Unavailable
from cluster.store.installation.schema_version import RunningRelease, SchemaStore, StoredSchema
from cluster.store.stores import Stores

LEASE = "schema"
LEASE_MS = 60_000
WAIT_S = 90.0
"How long a start waits for the migrations of another process, in seconds."
_POLL_S = 0.2

S = TypeVar("S", bound=Stores)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from the schema before it to its number."""

    number: int
    name: str
    oldest: int
    "The schema a release needs to run on the result."
    apply: Callable[[Stores], Awaitable[None]]


async def _number_only(stores: Stores) -> None:
    """Everything written before schema numbers has the form of schema 1."""


MIGRATIONS: tuple[Migration, ...] = (Migration(1, "number the stored data", 1, _number_only),)
"In the order of their numbers, without gaps."


def newest_schema(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the number of the schema that this release writes."""
    return migrations[-1].number


def check_readable(stored: StoredSchema, newest: int) -> None:
    """Refuse data that this release can't run on.

    Errors:
        NewerRelease: a newer release changed the data in a way that this one can't read
        Conflict: a restore ended half way
    """
    if stored.restoring:
        raise Conflict(
            f"a restore of the backup {stored.restoring} ended half way here, so data is missing: repeat "
            "`kiosk restore`, which starts over"
        )
    if stored.oldest > newest:
        raise NewerRelease(
            f"the stored data has schema {stored.number}, written by kiosk {stored.release}, and needs a release with "
            f"schema {stored.oldest} or newer; this is kiosk {installed_version()} with schema {newest}: start the "
            "newer release, or restore a backup of this one"
        )


async def check_schema(stores: S) -> S:
    """Refuse stored data that this release can't read, else return the stores; while Redis is away, it is not known.

    Errors:
        NewerRelease: a newer release changed the data in a way that this one can't read
    """
    try:
        stored = await stores.schema.read()
    except Unavailable as error:
        _log.warning("schema_not_checked", reason=error.message)
    else:
        check_readable(stored, newest_schema(MIGRATIONS))
    return stores


async def ensure_schema(
    stores: Stores, now_ms: int, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[str, ...]:
    """Check the schema, apply all missing migrations and return their names; only one of several processes
    applies them.

    Errors:
        NewerRelease: a newer release changed the data in a way that this one can't read
        Conflict: a migration has to wait until older releases have ended
        Unavailable: another process migrates for too long, or Redis is away
    """
    schema = stores.schema
    owner = uuid.uuid4().hex
    newest = newest_schema(migrations)
    for _ in range(int(WAIT_S / _POLL_S)):
        stored = await schema.read()
        check_readable(stored, newest)
        if stored.number >= newest:
            return ()
        if await stores.leases.hold(LEASE, owner, LEASE_MS):
            try:
                return await _migrate(stores, schema, owner, now_ms, migrations)
            finally:
                await stores.leases.release(LEASE, owner)
        await asyncio.sleep(_POLL_S)
    raise Unavailable(
        "another process migrates the stored data and has not ended; see its log", retry_after_s=5
    )


async def record_running(stores: Stores, now_ms: int) -> None:
    """Record that an API replica of this release runs; while Redis is away, the next call does it."""
    build = await asyncio.to_thread(build_digest)
    running = RunningRelease(installed_version(), newest_schema(), now_ms, build)
    with contextlib.suppress(Unavailable):
        await stores.schema.record_release(running)


async def _migrate(
    stores: Stores, schema: SchemaStore, owner: str, now_ms: int, migrations: Sequence[Migration]
) -> tuple[str, ...]:
    done = []
    for step in migrations:
        stored = await schema.read()
        if step.number <= stored.number:
            continue
        await _refuse_beside_older(schema, step, now_ms)
        await step.apply(stores)
        # Renewed before the number is written: after a long step another process may be migrating too.
        if not await stores.leases.hold(LEASE, owner, LEASE_MS):
            raise Unavailable("the migration lost its lease; start again", retry_after_s=1)
        oldest = max(step.oldest, stored.oldest)
        await schema.write(StoredSchema(step.number, oldest, installed_version(), now_ms))
        _log.info("schema_migrated", number=step.number, step=step.name)
        done.append(step.name)
    return tuple(done)


async def _refuse_beside_older(schema: SchemaStore, step: Migration, now_ms: int) -> None:
    older = [
        release.release for release in await schema.list_releases(now_ms) if release.schema < step.oldest
    ]
    if older:
        raise Conflict(
            f"the migration to schema {step.number} ({step.name}) can't be read by kiosk {', '.join(older)}, which "
            "still runs: stop it, wait 30 seconds and start again"
        )
