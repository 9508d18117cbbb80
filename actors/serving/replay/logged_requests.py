"""What a request set, as a row of the log of answers keeps it, and the query that is built of it again.

A row has the user, the engine, the first place and the number of places in columns of their own. The rest is the
query as the API parsed it, before experiments and stored rules changed it, without what changes no list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import orjson

from actors.recommender.messages import QueryKind, UserQuery
from actors.serving.engine_messages import ENGINE_MESSAGES
from cluster.errors import Invalid, NewerRelease

LARGEST: Final = 8_192
"Bytes of a request that the log keeps."
TOO_LARGE: Final = "too large"
TEXT: Final = "text"
PERSONAL: Final = "personal"
"In place of a request: it describes a person, and the app logs no people."
NOT_KEPT: Final[Mapping[str, str]] = {
    TOO_LARGE: f"the request has more than {LARGEST:,} bytes, so the log does not keep it",
    TEXT: "this app logs no texts of searches",
    PERSONAL: "the request describes its user, and this app logs no people",
}
VISITOR: Final = "visitor"
"Beside the fields of a request: it named a visitor, too, whose id is not kept."
_IN_COLUMNS: Final = ("kind", "app_id", "user_id", "anonymous_id", "start", "rows", "service_id")
_WITHOUT_EFFECT: Final = ("fields", "explain", "explain_missing", "traceparent", "is_strangers")
_LEFT_OUT: Final = frozenset((*_IN_COLUMNS, *_WITHOUT_EFFECT))
_OF_A_PERSON: Final = ("simulated", "cohort", "context")
_DEFAULT: Final = UserQuery("user_to_products", "", "")
_DEFAULTS: Final = ENGINE_MESSAGES.to_plain(_DEFAULT)["fields"]
_list_changes: Final = ENGINE_MESSAGES.build_comparison(_DEFAULT, _LEFT_OUT)


def encode_request(query: UserQuery, engine_id: str, *, names_people: bool, keeps_texts: bool) -> str:
    """Return what a request set as JSON; empty if it set nothing. A word in place of it says why it is not kept.

    `engine_id` is the engine that answered, which an experiment may have chosen.
    """
    # Only what differs from the defaults: most requests then need no byte in the log.
    fields = _list_changes(query)
    if query.engine_id == engine_id:
        fields.pop("engine_id", None)
    # A history or attributes in a request describe a person as well as an id does.
    if not names_people and any(name in fields for name in _OF_A_PERSON):
        return PERSONAL
    if not keeps_texts and query.search is not None:
        return TEXT
    if query.user_id and query.anonymous_id:
        fields[VISITOR] = True
    if not fields:
        return ""
    try:
        text = orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # a number beyond 64 bits
        return TOO_LARGE
    return text.decode() if len(text) <= LARGEST else TOO_LARGE


def decode_request(app_id: str, user_key: str, row: Mapping[str, Any]) -> tuple[UserQuery, bool]:
    """Return the query of a row of the log, and whether it named a visitor beside its user.

    `user_key` is that of its user, empty without one.

    Errors:
        Invalid: the log does not keep the request, or a newer release wrote it
    """
    text = row["request"] or ""
    if text in NOT_KEPT:
        raise Invalid(NOT_KEPT[text])
    try:
        fields = orjson.loads(text) if text else {}
        names_visitor = bool(fields.pop(VISITOR, False))
        query = ENGINE_MESSAGES.from_plain(
            {
                "type": "UserQuery",
                "fields": {
                    **_DEFAULTS,
                    "engine_id": row["engine_id"],
                    **fields,
                    "app_id": app_id,
                    "kind": cast(QueryKind, row["endpoint"]),
                    "start": row["start"],
                    "rows": row["rows"],
                    "service_id": row["service_id"],
                    **({"user_id": user_key[2:]} if user_key.startswith("u:") else {}),
                    **({"anonymous_id": user_key[2:]} if user_key.startswith("a:") else {}),
                },
            }
        )
    except (NewerRelease, orjson.JSONDecodeError, TypeError) as error:
        raise Invalid("another release wrote the request of this answer") from error
    return cast(UserQuery, query), names_visitor


def add_visitor(query: UserQuery, links: Sequence[tuple[str, int]], at_ms: int) -> UserQuery:
    """Return the query of a user with the visitor that its request named; as it is if it may be one of several.

    `links` are the visitors of the user, each with the time of its link (`list_links`).
    """
    linked = [key for key, linked_ms in links if linked_ms <= at_ms]
    # With several visitors, nothing says which of them sent the request.
    return replace(query, anonymous_id=linked[0].removeprefix("a:")) if len(linked) == 1 else query
