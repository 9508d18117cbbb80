"""Define the valid content of an upload: records and interactions, ready to be stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cluster.records.field_types.attributes import find_type_conflicts
from cluster.records.validation.error_messages import MOST_DETAILS, MOST_LISTED, upload_message

RecordNoun = Literal["user", "product"]

INCONSISTENT_TYPE: Final = "Its data type is not consistent with other records"
"Prescribed word for word by the REST interface (`docs/reference/errors.md`)."


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """One user or product that follows the schema."""

    index: int
    "Position in the upload."
    record_id: str
    json: bytes
    product_type: str | None
    attribute_types: Mapping[str, str]
    "Custom attribute name -> `bool`, `number`, `string` or `object`."


@dataclass(frozen=True, slots=True)
class TypeCheck:
    """The records of an upload whose types agree with a data set, and the types on which they rely."""

    records: tuple[AcceptedRecord, ...]
    attribute_types: Mapping[str, str]
    messages: tuple[str, ...]
    "One for each record that fails alone, in the upload grammar."
    details: tuple[Mapping[str, Any], ...] = ()
    "All messages of each of these records, as in `Explainer.details`; empty when each has one."

    @property
    def payload(self) -> bytes:
        """Return the records as one JSON array."""
        return b"[" + b",".join([record.json for record in self.records]) + b"]"


@dataclass(frozen=True, slots=True)
class AcceptedRecords:
    """An upload of users or products without schema errors."""

    noun: RecordNoun
    records: tuple[AcceptedRecord, ...]

    def check_types(self, stored: Mapping[str, str]) -> TypeCheck:
        """Keep the records whose custom attributes agree with `stored` types and with the records before them."""
        relied: dict[str, str] = {}
        accepted = []
        failed = []
        details = []
        for record in self.records:
            types = record.attribute_types
            clashing = find_type_conflicts(types, relied, stored)
            if clashing:
                path = ("custom_attributes", clashing[0])
                failed.append(upload_message(record.index, path, INCONSISTENT_TYPE, more=len(clashing) - 1))
                details.append(_list_messages(record.index, clashing))
            else:
                accepted.append(record)
                # Only accepted records fix a type; a refused one must not refuse those behind it.
                relied.update(types)
        is_plain = all(len(entry["messages"]) == 1 for entry in details)
        return TypeCheck(
            tuple(accepted),
            relied,
            tuple(failed),
            () if is_plain else tuple(details[: MOST_DETAILS // MOST_LISTED]),
        )


def _list_messages(index: int, names: Sequence[str]) -> dict[str, Any]:
    """Return the messages about the attributes of one record."""
    listed = names[:MOST_LISTED]
    texts = [upload_message(index, ("custom_attributes", name), INCONSISTENT_TYPE) for name in listed]
    more = {"more": len(names) - len(listed)} if len(names) > len(listed) else {}
    return {"index": index, "messages": texts, **more}


@dataclass(frozen=True, slots=True)
class AcceptedInteractions:
    """An upload of interactions without schema errors, ready for `InteractionStore.append`."""

    payload: bytes
    "JSON array; every item has `type`, `timestamp` and the available ids."
    recents: tuple[tuple[str, str, bytes], ...]
    "(user_id or '', anonymous_id or '', packed `RecentEvent`), oldest first."
    links: tuple[tuple[str, str], ...]
    "(user_id, anonymous_id) pairs of interactions that are not in `recents`, without repetition."
    count: int
    ahead: tuple[int, ...] = ()
    "Positions of interactions whose timestamp is more than a day ahead."
    unnamed: int = 0
    "How many name neither a user nor a visitor."
    product_ids: Mapping[str, int] = field(default_factory=dict)
    "Product id -> position of the first interaction that names it; an import of a file leaves it empty."
