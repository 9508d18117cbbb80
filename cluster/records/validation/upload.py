"""A whole upload body to records ready to be stored, or to one message per bad record.

One bad record refuses the whole upload. The exception is a custom attribute whose type differs from the data
set's: only this record fails. Only the store knows these types, so `AcceptedRecords.check_types` takes the
registered types as argument.

Records are kept as they were sent, except that absent stays absent (`null` of an optional field is dropped) and
moments are written in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, Protocol, overload

import orjson
from pydantic import TypeAdapter, ValidationError

from cluster.errors import Unauthenticated, Unprocessable, messages
from cluster.records.field_types.attributes import attribute_types
from cluster.records.field_types.fields import MAX_RECORD_BYTES, json_type, wrong_type
from cluster.records.field_types.times import is_stored_moment, moment_text
from cluster.records.interaction import INTERACTION_MODELS, Interaction
from cluster.records.product import PRODUCT_MODELS, PRODUCT_TIMES, Product
from cluster.records.user import USER_TIMES, User
from cluster.records.validation.accepted_uploads import (
    AcceptedInteractions,
    AcceptedRecord,
    AcceptedRecords,
    RecordNoun,
)
from cluster.records.validation.error_messages import Explainer, upload_message
from cluster.records.validation.json_limits import check_tree, load_json
from cluster.records.validation.recent_events import event_from_interaction

MAX_RECORDS: Final = 20_000
"Records in one call; twice the number that the REST interface advises for its largest kind."

ORIGIN: Final = "_origin"
"""Field of a stored interaction of an unverified user: a pseudonym of the client's address, which changes
every 30 days. Counts of different users count these addresses instead, because a client can invent ids."""

# Records that are validated at once: pydantic collects every error of a call before it returns.
_SLICE = 10
_DAY_MS = 86_400_000
_USERS: TypeAdapter[list[User]] = TypeAdapter(list[User])
_PRODUCTS: TypeAdapter[list[Product]] = TypeAdapter(list[Product])
_INTERACTIONS: TypeAdapter[list[Interaction]] = TypeAdapter(list[Interaction])
_FIELDS = frozenset().union(*(model.model_fields for model in (User, *PRODUCT_MODELS, *INTERACTION_MODELS)))


class UploadCheck(Protocol):
    """Checks the interactions of one upload: their users and their number."""

    def take_proofs(self, body: dict[str, Any], items: list[Any]) -> None:
        """Remove the proofs of the users from the body before validation."""
        ...

    def check(self, at: int, user_id: str, anonymous_id: str) -> str:
        """Check the users of the valid interaction `at`, empty if it names none; return its `ORIGIN`."""
        ...


@overload
def parse_upload(
    noun: RecordNoun, body: bytes, *, now_ms: int, is_detailed: bool = False
) -> AcceptedRecords: ...


@overload
def parse_upload(
    noun: Literal["interaction"],
    body: bytes,
    *,
    now_ms: int,
    service_id_aliases: Sequence[str] = (),
    default_anonymous_id: str | Callable[[], str] = "",
    token_user_id: str = "",
    is_detailed: bool = False,
    check: UploadCheck | None = None,
) -> AcceptedInteractions: ...


def parse_upload(
    noun: Literal["user", "product", "interaction"],
    body: bytes,
    *,
    now_ms: int,
    service_id_aliases: Sequence[str] = (),
    default_anonymous_id: str | Callable[[], str] = "",
    token_user_id: str = "",
    is_detailed: bool = False,
    check: UploadCheck | None = None,
) -> AcceptedRecords | AcceptedInteractions:
    """Validate the body of an upload, `{"data": [...]}`.

    `default_anonymous_id` is the visitor of interactions without any id (a function is called at most once).
    `token_user_id` is the user of a verified user token: it fills in a missing `user_id`. With `is_detailed`
    a message names up to five faults of its record. `check` receives the interactions before and after
    validation, and may raise.

    Errors:
        Malformed: not JSON, or beyond its limits
        Unprocessable: fact `messages`, one per bad record or one for the body; fact `details`, all of each record,
            when a record has several
        Unauthenticated: an interaction names another user than the token
    Cost:
        1 ms for 100 users or 100 interactions
    """
    tree = load_json(body, refuse_duplicates=True)
    items = _items(tree, noun)
    # One search in the bytes spares a look at every record of a body without nulls.
    has_nulls = b"null" in body
    if noun == "user":
        return _accept_records(noun, _users(items, has_nulls, is_detailed))
    if noun == "product":
        return _accept_records(noun, _products(items, has_nulls, is_detailed))
    aliases = [alias for alias in service_id_aliases if alias.encode() in body]
    if aliases:
        _rename_aliases(items, aliases)
    if check is not None:
        check.take_proofs(tree, items)
    return _interactions(items, has_nulls, now_ms, default_anonymous_id, token_user_id, is_detailed, check)


def parse_interactions(items: list[Any], *, now_ms: int) -> AcceptedInteractions:
    """Validate interactions that were read elsewhere as trees of JSON values, as rows of files are.

    Errors:
        Malformed, Unprocessable: as of `parse_upload`
        TypeError, ValueError: a value that no JSON holds
    Cost:
        10 ms for 1,000 interactions; changes the items
    """
    check_tree(items)
    has_nulls = b"null" in orjson.dumps(items)
    return _interactions(items, has_nulls, now_ms, "", "", False, None)


def rejected_upload_error(
    noun: str, *faults: str, details: Sequence[Mapping[str, Any]] = ()
) -> Unprocessable:
    """Return the error of a refused upload; `faults` are complete messages, `details` come from
    `Explainer`.
    """
    text = messages.INTERACTIONS_REJECTED if noun == "interaction" else messages.UPLOAD_REJECTED
    more = {"details": list(details)} if details else {}
    return Unprocessable(text, messages=list(faults), **more)


def _items(tree: Any, noun: str) -> list[Any]:
    """Take the list of records out of a body."""
    if type(tree) is not dict:
        text = f"The body expected to be of type 'object', but '{json_type(tree)}' is given."
        raise rejected_upload_error(noun, f"data is invalid. {text}")
    items = tree.get("data")
    if items is None:
        raise rejected_upload_error(noun, "data is invalid. The attribute is required.")
    if type(items) is not list:
        raise rejected_upload_error(noun, f"data is invalid. {wrong_type('array', items)}")
    if len(items) > MAX_RECORDS:
        raise rejected_upload_error(
            noun, f"data is invalid. The attribute should have at most {MAX_RECORDS} entries."
        )
    return items


def _validate_records(
    adapter: TypeAdapter[list[Any]], items: list[Any], noun: str, is_detailed: bool
) -> list[Any]:
    """Validate all records, in slices so that a hostile body can't make errors without bound."""
    models: list[Any] = []
    explainer = Explainer(adapter, _FIELDS, tagged=noun == "interaction", is_detailed=is_detailed)
    for start in range(0, len(items), _SLICE):
        part = items[start : start + _SLICE]
        try:
            models += adapter.validate_python(part)
        except ValidationError as failure:
            explainer.explain(part, failure, start)
            if explainer.is_done:
                break
    if explainer.messages:
        raise rejected_upload_error(noun, *explainer.messages, details=explainer.details)
    return models


def _users(items: list[Any], has_nulls: bool, is_detailed: bool) -> tuple[AcceptedRecord, ...]:
    accepted = []
    for index, user in enumerate(_validate_records(_USERS, items, "user", is_detailed)):
        record = _normalize_times(items[index], user, USER_TIMES)
        if has_nulls:
            record = _without_nulls(record)
        types = attribute_types(user.custom_attributes)
        accepted.append(AcceptedRecord(index, user.user_id, orjson.dumps(record), None, types))
    return tuple(accepted)


def _products(items: list[Any], has_nulls: bool, is_detailed: bool) -> tuple[AcceptedRecord, ...]:
    accepted = []
    for index, product in enumerate(_validate_records(_PRODUCTS, items, "product", is_detailed)):
        record = _normalize_times(items[index], product, PRODUCT_TIMES)
        if has_nulls:
            record = _product_without_nulls(record)
        types = attribute_types(product.custom_attributes)
        accepted.append(
            AcceptedRecord(index, product.product_id, orjson.dumps(record), product.type or None, types)
        )
    return tuple(accepted)


def _accept_records(noun: RecordNoun, records: tuple[AcceptedRecord, ...]) -> AcceptedRecords:
    _check_sizes(noun, [len(record.json) for record in records])
    return AcceptedRecords(noun, records)


def _check_sizes(noun: str, sizes: Sequence[int]) -> None:
    """Refuse an upload with records that are too large as JSON, with one message for each of them."""
    if max(sizes, default=0) > MAX_RECORD_BYTES:
        text = f"The record should have at most {MAX_RECORD_BYTES} bytes."
        large = [index for index, size in enumerate(sizes) if size > MAX_RECORD_BYTES]
        raise rejected_upload_error(noun, *(upload_message(index, (), text) for index in large))


def _normalize_times(record: dict[str, Any], model: User | Product, names: Sequence[str]) -> dict[str, Any]:
    """Write the times of a record as its model has them, in UTC."""
    for name in names:
        if name in record:
            record[name] = getattr(model, name)
    return record


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _product_without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Drop nulls of the product, its children and translations; nulls in custom attributes stay."""
    record = _without_nulls(record)
    for name, value in record.items():
        if name == "children":
            record[name] = [_without_nulls(child) for child in value]
        elif name.startswith("i18n_"):
            record[name] = _without_nulls(value)
    return record


def _rename_aliases(items: list[Any], aliases: Sequence[str]) -> None:
    """Accept aliases of `service_id`; the real name wins when both are given."""
    for item in items:
        for alias in aliases:
            if type(item) is dict and alias in item:
                value = item.pop(alias)
                if item.get("service_id") is None:
                    item["service_id"] = value


def _interactions(
    items: list[Any],
    has_nulls: bool,
    now_ms: int,
    default_anonymous_id: str | Callable[[], str],
    token_user_id: str,
    is_detailed: bool,
    check: UploadCheck | None,
) -> AcceptedInteractions:
    models: list[Interaction] = _validate_records(_INTERACTIONS, items, "interaction", is_detailed)
    if has_nulls:
        items = [_interaction_without_nulls(item) for item in items]
    now_text = moment_text(now_ms)
    recents: list[tuple[int, tuple[str, str, bytes]]] = []
    links: dict[tuple[str, str], None] = {}
    product_ids: dict[str, int] = {}
    ahead_ms = now_ms + _DAY_MS
    ahead = []
    unnamed = 0
    for at, (record, model) in enumerate(zip(items, models, strict=True)):
        at_ms = model.timestamp
        if at_ms is None:
            at_ms = now_ms
            record["timestamp"] = now_text
        else:
            if at_ms > ahead_ms:
                ahead.append(at)
            if not is_stored_moment(record["timestamp"]):
                record["timestamp"] = moment_text(at_ms)
        # An event without a user gets that of the token; one of another user refuses the upload.
        if token_user_id and record.setdefault("user_id", token_user_id) != token_user_id:
            raise Unauthenticated(messages.TOKEN_OTHER_USER)
        for product_id in record.get("product_ids", ()):
            product_ids.setdefault(product_id, at)
        user_id = record.get("user_id", "")
        visitor_id = record.get("anonymous_id", "")
        if not user_id and not visitor_id:
            unnamed += 1
            if callable(default_anonymous_id):
                default_anonymous_id = default_anonymous_id()
            if default_anonymous_id:
                visitor_id = record["anonymous_id"] = default_anonymous_id
        origin = check.check(at, user_id, visitor_id) if check is not None else ""
        if origin:
            record[ORIGIN] = origin
        # The log keeps the time as sent. Among recent events one of the future would stay the newest.
        event = event_from_interaction(model, at_ms=min(at_ms, now_ms))
        if event is not None and (user_id or visitor_id):
            recents.append((event.at_ms, (user_id, visitor_id, event.pack())))
        elif user_id and visitor_id:
            links[user_id, visitor_id] = None
    # By time alone and stable: events of one millisecond keep the order of the upload.
    recents.sort(key=itemgetter(0))
    payload = orjson.dumps(items)
    # Only then can a single record be too large; their sizes are measured by writing each anew.
    if len(payload) > MAX_RECORD_BYTES:
        _check_sizes("interaction", [len(orjson.dumps(item)) for item in items])
    return AcceptedInteractions(
        payload=payload,
        recents=tuple(entry for _, entry in recents),
        links=tuple(links),
        count=len(items),
        ahead=tuple(ahead),
        unnamed=unnamed,
        product_ids=product_ids,
    )


def _interaction_without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Drop nulls of an interaction and of the objects in the schema; nulls in the custom context stay."""
    record = _without_nulls(record)
    for name in ("search", "context"):
        if name in record:
            record[name] = inner = _without_nulls(record[name])
            for part in ("campaign", "page"):
                if name == "context" and part in inner:
                    inner[part] = _without_nulls(inner[part])
    return record
