"""Define the erasure of a person: whom it concerns, what was found in each place, and what remains until
when.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict

from cluster.clock import iso_ms
from cluster.ids import record_key_from_id, user_key_from_anonymous_id, user_key_from_id
from cluster.records.logged_query import pseudonym

REFUSED = "refused rows of ingests"
COPIES = "damaged copies of the log file"
"Places that are files of a machine."

ErasureStatus = Literal["queued", "running", "finished"]


class Person(BaseModel):
    """A user with all linked visitors, or a visitor without a linked user."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    user_id: str = ""
    "Empty for a visitor."
    anonymous_ids: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    "Mail addresses in the profile: they find refused rows that do not carry the id."

    @property
    def user_keys(self) -> tuple[str, ...]:
        """Return all prefixed ids (`u:...`, `a:...`), the user's first."""
        users = (user_key_from_id(self.user_id),) if self.user_id else ()
        return (*users, *map(user_key_from_anonymous_id, self.anonymous_ids))

    @property
    def words(self) -> frozenset[str]:
        """Return the values by which a stored text belongs to the person."""
        return frozenset(word for word in (self.user_id, *self.anonymous_ids, *self.addresses) if word)

    def is_named_in(self, data: bytes | str) -> bool:
        """Return whether a text, JSON or a part of it, names the person.

        In whole JSON a value must equal an id. In any other text an id must be between quotes or blanks.
        """
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        # A search of bytes first: nearly all records name nobody here, and are not parsed.
        if not any(form in raw for word in self.words for form in _forms(word)):
            return False
        try:
            tree = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return self._stands_in(raw)
        # A list and no recursion: stored JSON may be deep.
        waiting = [tree]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                if value in self.words or self._stands_in(value.encode("utf-8", "surrogatepass")):
                    return True
            elif isinstance(value, dict):
                waiting += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                waiting += value
        return False

    def is_named_in_file(self, name: str) -> bool:
        """Return whether the name of a file has an id between signs: `1` is in `export-1.csv`, not in `2021.csv`."""
        parts = [name.split(word) for word in self.words]
        return any(
            not before[-1:].isalnum() and not after[:1].isalnum()
            for cut in parts
            for before, after in itertools.pairwise(cut)
        )

    def _stands_in(self, text: bytes) -> bool:
        return any(_stands_alone(text, form) for word in self.words for form in _forms(word))


class RemovedRecords:
    """Users, visitors and products that were erased or deleted, known by keyed hashes of their ids only."""

    def __init__(self, salt: bytes = b"", subjects: Iterable[str] = ()) -> None:
        self._salt = salt
        self._subjects = frozenset(subjects)
        self._deleted: RemovedRecords | None = None

    def __bool__(self) -> bool:
        return bool(self._subjects or self._deleted)

    def add(self, deleted: RemovedRecords) -> None:
        """Add users or products that were deleted and not erased; `update` keeps them."""
        self._deleted = deleted

    def update(self, other: RemovedRecords) -> None:
        """Take the hashes of a later look."""
        self._salt = other._salt
        self._subjects = other._subjects

    def has_any_of(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record or an interaction belongs to one of them."""
        return self.has_erased(record) or self.has_deleted(record)

    def has_deleted(self, record: Mapping[str, Any]) -> bool:
        """Return whether it belongs to one that was deleted, and not erased."""
        return bool(self._deleted and self._deleted.has_erased(record))

    def has_erased(self, record: Mapping[str, Any]) -> bool:
        """Return whether it belongs to one that was erased, and not only deleted."""
        ids = (
            (user_key_from_id, record.get("user_id")),
            (user_key_from_anonymous_id, record.get("anonymous_id")),
            (partial(record_key_from_id, "product"), record.get("product_id")),
        )
        return any(
            isinstance(value, str) and pseudonym(self._salt, prefixed(value)) in self._subjects
            for prefixed, value in ids
        )


class ErasedPlace(BaseModel):
    """One place where the erasure looks for a person."""

    model_config = ConfigDict(frozen=True)

    place: str
    found: int = 0
    "Number of items of the person that were in this place."
    left: int = 0
    "Number of items that are still in this place."
    until: str = ""
    "When the remaining items are removed; empty when none remain."
    reason: str = ""
    "Why items remain, or what the owner must do."


class Erasure(BaseModel):
    """The receipt of one erasure. It contains no id: `subject` is a keyed hash of the user's prefixed id."""

    model_config = ConfigDict(frozen=True)

    erasure_id: str
    app_id: str
    subject: str
    subjects: tuple[str, ...] = ()
    "The same for each id of the person, visitors included; not shown. Imports of older files skip their rows."
    request_id: str = ""
    by: str = ""
    "`command`, `console` or `api`."
    status: ErasureStatus = "queued"
    created_at: int
    finished_at: int | None = None
    later: bool = False
    "The append-only file is rewritten with the next hourly rewriting, not at once."
    places: tuple[ErasedPlace, ...] = ()
    erased_before: int = 0
    "Number of erasures of the app before this one; not shown."

    @property
    def left(self) -> int:
        """Return the number of remaining items in all places."""
        return sum(place.left for place in self.places)

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt for JSON."""
        fields = self.model_dump(exclude={"erased_before", "subjects"})
        fields["created_at"] = iso_ms(self.created_at)
        fields["finished_at"] = None if self.finished_at is None else iso_ms(self.finished_at)
        return {**fields, "left": self.left}


def addresses_of(profile: bytes) -> tuple[str, ...]:
    """Return the mail addresses in a stored profile."""
    addresses: dict[str, None] = {}
    waiting: list[Any] = [orjson.loads(profile)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and "@" in value and " " not in value and 5 < len(value) <= 320:
            addresses.setdefault(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return tuple(addresses)


def _forms(word: str) -> frozenset[bytes]:
    """Return an id as it is written in a text, in JSON, and in JSON that is a value of JSON."""
    plain = word.encode("utf-8", "replace").decode()
    once = orjson.dumps(plain)[1:-1]
    # As plain text, as a JSON string, and as JSON inside a JSON string.
    return frozenset((plain.encode(), once, orjson.dumps(once.decode())[1:-1]))


_EDGES = frozenset(b" \t\r\n\"'`,;:=<>()[]{}|/\\?&#")


def _stands_alone(text: bytes, word: bytes) -> bool:
    """Return whether a word occurs in a text without characters of another id before or behind it."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        # Between edges only: the id `12` must not match in `123`.
        if (at == 0 or text[at - 1] in _EDGES) and (end == len(text) or text[end] in _EDGES):
            return True
        at = text.find(word, at + 1)
    return False
