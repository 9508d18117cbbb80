"""A hash of sealed records of one kind: the form of engines, accounts, rules and every other small set of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel

from cluster.errors import NewerRelease, Unavailable
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record, with_unknown_fields

Model = TypeVar("Model", bound=BaseModel)

_SWAP = Script.load("swap_field")
_TRIES = 20


class SealedHash(Generic[Model]):
    """The records of one kind: one hash for each app, or one for the installation (`app_id` is then empty).

    A field is the id of its record. A record whose checksum fails is moved to the quarantine and reads as absent.
    """

    def __init__(
        self,
        server: RedisClient,
        quarantine: Quarantine,
        kind: type[Model],
        key: Callable[[str], str],
        version: str = "",
    ) -> None:
        """`key` returns the key of the hash of an app; `version` is that of a number that each `update` raises."""
        self._server = server
        self._records = SealedRecords(quarantine)
        self._kind = kind
        self._key = key
        self._versions = (version,) if version else ()

    async def get(self, app_id: str, field: str, *, hot: bool = False) -> Model | None:
        """Return a record; `hot` is a read that a request waits for.

        Errors:
            NewerRelease: only a newer release can read it
        """
        sealed = await self.read(app_id, field, hot=hot)
        return None if sealed is None else await self.unseal(app_id, field, sealed)

    async def get_many(self, app_id: str, fields: Sequence[str]) -> list[Model | None]:
        """Return some records; None for absent ones and for those that only a newer release can read."""
        key = self._key(app_id)
        sealed = await self._server.execute_slow("HMGET", key, *fields)
        return [
            None if value is None else await self._records.open(self._kind, app_id, key, field, value)
            for field, value in zip(fields, sealed, strict=True)
        ]

    async def all(self, app_id: str, *, hot: bool = False) -> dict[str, Model]:
        """Return all records that this release can read, by field and in the order of the fields."""
        execute = self._server.execute if hot else self._server.execute_slow
        return await self.open(app_id, await execute("HGETALL", self._key(app_id)))

    async def put(self, app_id: str, field: str, record: Model) -> None:
        """Write a record; the fields of a newer release in the record that it replaces stay.

        Errors:
            NewerRelease: only a newer release can read the record that it would replace
        """
        # Two steps: of concurrent puts the last one wins. Only `update` loses none.
        sealed = await self.seal_update(app_id, field, record)
        await self._server.execute_slow("HSET", self._key(app_id), field, sealed)

    async def add(self, app_id: str, field: str, record: Model) -> bool:
        """Write a record whose field is absent; return False when the field is taken."""
        sealed = self.seal(app_id, field, record)
        # HSETNX decides: of two that add the same id, one gets False.
        return bool(await self._server.execute_slow("HSETNX", self._key(app_id), field, sealed))

    async def update(self, app_id: str, field: str, change: Callable[[Model], Model]) -> Model | None:
        """Replace a record by what `change` makes of it, and return it; None when it is absent.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.

        Errors:
            NewerRelease: only a newer release can read the record
            Unavailable: too many concurrent changes of the record
        """
        for _ in range(_TRIES):
            sealed = await self.read(app_id, field)
            before = None if sealed is None else await self.unseal(app_id, field, sealed)
            if sealed is None or before is None:
                return None
            after = with_unknown_fields(change(before), before)
            # Compared with the sealed bytes as they were read, so any change in between is noticed.
            if await self.swap(app_id, field, sealed, after):
                return after
        raise Unavailable(
            f"this {self._kind.__name__.lower()} is being changed by many at once", retry_after_s=1
        )

    async def swap(self, app_id: str, field: str, sealed: bytes, after: Model) -> bool:
        """Replace a record if it is still stored as it was read, empty for absent; return whether it was."""
        args: list[str | int | float | bytes] = [field, sealed, self.seal(app_id, field, after)]
        return bool(await self._server.run(_SWAP, [self._key(app_id), *self._versions], args))

    async def remove(self, app_id: str, fields: Iterable[str]) -> int:
        """Remove records; return how many there were."""
        names = list(fields)
        # Redis answers HDEL without a field with an error.
        return int(await self._server.execute_slow("HDEL", self._key(app_id), *names)) if names else 0

    # --- for scripts that read or write the hash together with other keys

    async def read(self, app_id: str, field: str, *, hot: bool = False) -> bytes | None:
        """Return a record as it is stored."""
        execute = self._server.execute if hot else self._server.execute_slow
        sealed: bytes | None = await execute("HGET", self._key(app_id), field)
        return sealed

    def seal(self, app_id: str, field: str, record: Model) -> bytes:
        return seal_record(record, self._key(app_id), field)

    async def seal_update(self, app_id: str, field: str, record: Model) -> bytes:
        """Return a record as it is stored when it replaces the present one: unknown fields of that one stay.

        Errors:
            NewerRelease: only a newer release can read the present one
        """
        stored = await self.read(app_id, field)
        return self.seal(
            app_id, field, await self._records.replacing(record, app_id, self._key(app_id), field, stored)
        )

    async def unseal(self, app_id: str, field: str, sealed: bytes) -> Model | None:
        """Return the record of a stored value; None when its checksum fails.

        Errors:
            NewerRelease: only a newer release can read it
        """
        return await self._records.get(self._kind, app_id, self._key(app_id), field, sealed)

    async def open(self, app_id: str, flat: list[bytes]) -> dict[str, Model]:
        """Return the readable records of a reply of fields and values, by field and in the order of the fields."""
        return (await self.open_reporting(app_id, flat))[0]

    async def open_reporting(self, app_id: str, flat: list[bytes]) -> tuple[dict[str, Model], frozenset[str]]:
        """Return the readable records by field, and the fields of those that only a newer release can read."""
        records: dict[str, Model] = {}
        unreadable = set()
        # HGETALL has no lasting order: it changes when a hash outgrows its compact encoding.
        for raw, sealed in sorted(split_pairs(flat)):
            field = name_of(raw)
            try:
                record = await self.unseal(app_id, field, sealed)
            except NewerRelease:
                unreadable.add(field)
                continue
            if record is not None:
                records[field] = record
        return records, frozenset(unreadable)
