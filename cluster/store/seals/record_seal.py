"""Read sealed JSON records without losing the fields of a newer release, and write all fields back.

    checksum does not match               moved to the quarantine; reads as absent
    checksum matches, record is invalid   left in place, logged once, counted; a newer release wrote it
    checksum matches, unknown fields      read; the fields stay on the record and survive every write

Source: `docs/guides/upgrades.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from cluster.errors import NewerRelease
from cluster.store import keys
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.seal import salt_from_key, seal, unseal

M = TypeVar("M", bound=BaseModel)

_ACCESS = "kiosk:{access}:"


class SealedRecords:
    """Opens the sealed records of hashes, and prepares writes that replace one."""

    def __init__(self, quarantine: Quarantine) -> None:
        self._quarantine = quarantine

    async def open(self, kind: type[M], app_id: str, key: str, field: str, sealed: bytes) -> M | None:
        """Return one record of several; None when it is broken, or when only a newer release can read it."""
        try:
            return await self.get(kind, app_id, key, field, sealed)
        except NewerRelease:
            return None

    async def get(self, kind: type[M], app_id: str, key: str, field: str, sealed: bytes) -> M | None:
        """Return the record for a caller; None when it is broken.

        Errors:
            NewerRelease: only a newer release can read it
        """
        body = unseal(sealed, salt_from_key(key, field))
        if body is None:
            # Moved away: it would fail at every read, and an operator can look at it there.
            await self._quarantine.field(app_id, key, _quarantine_key(app_id, key), field, sealed)
            return None
        try:
            return parse_record(kind, body)
        except NewerRelease:
            # Left in place: the newer release reads it again after the way back.
            self._quarantine.count_unreadable(app_id, noun_of(key), f"{key}\0{field}")
            raise

    async def replacing(self, record: M, app_id: str, key: str, field: str, stored: bytes | None) -> M:
        """Return a record that is about to replace a stored one, with the unknown fields of that one.

        Errors:
            NewerRelease: only a newer release can read the stored one, so this release must not replace it
        """
        before = None if stored is None else await self.get(type(record), app_id, key, field, stored)
        return record if before is None else with_unknown_fields(record, before)


def parse_record(kind: type[M], body: bytes) -> M:
    """Return a record from its JSON; fields that this release does not know stay on it (`model_extra`).

    Errors:
        NewerRelease: the JSON is no valid record of this release
    """
    try:
        # `allow` for this parse alone: requests still refuse fields that they do not know.
        return kind.model_validate_json(body, extra="allow")
    except ValidationError as error:
        # Without input and context, as the message reaches logs and the record may be personal.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the record"
        # `from None`: the cause would carry values of the record into a traceback.
        raise NewerRelease(
            f"a newer release of kiosk wrote this {kind.__name__} and this release can't read it ({place})"
        ) from None


def record_json(
    record: BaseModel, *, exclude: set[str] | None = None, exclude_defaults: bool = False
) -> bytes:
    """Return a record as JSON, with the fields of a newer release that were read with it.

    Cost: 20 microseconds more than pydantic for an answer with ten passages
    """
    # The fast way for nearly all records.
    if not has_unknown_fields(record):
        return record.model_dump_json(exclude=exclude, exclude_defaults=exclude_defaults).encode()
    body = record.model_dump(mode="json", exclude=exclude, exclude_defaults=exclude_defaults)
    _add_unknown(record, body)
    return to_json(body)


def seal_record(record: BaseModel, key: str, field: str = "") -> bytes:
    """Return a record as it is stored under a key, or under a field of a hash."""
    return seal(record_json(record), salt_from_key(key, field))


def with_unknown_fields(record: M, before: M) -> M:
    """Return a record with the unknown fields of an earlier one, unless it has unknown fields itself."""
    if not before.__pydantic_extra__:
        return record
    after = record.model_copy()
    # The record's own unknown fields win over those of the one before.
    extra = {**before.__pydantic_extra__, **(after.__pydantic_extra__ or {})}
    # Records are frozen; only this fresh copy is changed.
    object.__setattr__(after, "__pydantic_extra__", extra)
    return after


def noun_of(key: str) -> str:
    """Return the noun of a key: `question` of `{app}:question:<id>`, `client-rule` of `{app}:client-rule`."""
    return key.partition("}:")[2].partition(":")[0] or key


def _quarantine_key(app_id: str, key: str) -> str:
    if app_id:
        return keys.quarantine(app_id)
    return keys.access_quarantine() if key.startswith(_ACCESS) else keys.account_quarantine()


def has_unknown_fields(value: Any) -> bool:
    """Return whether a record, or a record inside a value, has fields that this release does not know."""
    if isinstance(value, BaseModel):
        return bool(value.__pydantic_extra__) or any(map(has_unknown_fields, value.__dict__.values()))
    if isinstance(value, tuple | list):
        return any(map(has_unknown_fields, value))
    return isinstance(value, Mapping) and any(map(has_unknown_fields, value.values()))


def _add_unknown(value: Any, body: Any) -> None:
    """Add the unknown fields of a value and its parts to its JSON form."""
    if isinstance(value, BaseModel):
        for name, part in value.__dict__.items():
            if name in body:
                _add_unknown(part, body[name])
        body.update(value.__pydantic_extra__ or {})
    elif isinstance(value, tuple | list):
        for part, element in zip(value, body, strict=True):
            _add_unknown(part, element)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if name in body:
                _add_unknown(part, body[name])
