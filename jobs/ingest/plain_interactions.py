"""Interactions of the plainest form, as files of millions hold them, without asking the schema a million times.

    type that needs nothing else, a user, product ids, a moment in the stored form, and no other field

Every id goes through the schema once and is remembered. Whatever is not of this form is left to
`cluster.records.validation.upload`; what is of this form comes out exactly as it does there.
"""

from __future__ import annotations

from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from cluster.records.fields import NamedId
from cluster.records.times import is_stored_moment
from cluster.records.validation.accepted import AcceptedInteractions

PLAIN_TYPES: Final = frozenset(
    (
        "remove_from_cart", "refund", "subscribe", "unsubscribe", "add_to_collection", "remove_from_collection",
        "like", "dislike", "share", "bookmark", "complete", "click", "submit", "product_image_view",
        "product_detail_page_view", "promo_page_view", "read", "watch", "listen", "add_to_cart", "checkout",
    )
)  # fmt: skip
"Types that refer to products and require no other field."

MOST_IDS = 100
MOST_CACHED_IDS = 1_000_000
IDS: TypeAdapter[list[str]] = TypeAdapter(list[NamedId])
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  everything in this file is UTC without saying so


class PlainInteractions:
    """Accepts chunks of plain interactions and caches valid ids."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def accept(self, records: list[dict[str, Any]], now_ms: int) -> AcceptedInteractions | None:
        """Return the accepted chunk; None if a row is not plain, or not valid.

        Cost:
            3 microseconds an interaction
        """
        recents: list[tuple[int, tuple[str, str, bytes]]] = []
        unknown: set[str] = set()
        try:
            for record in records:
                recents.append(self._build_event(record, now_ms, unknown))
            if unknown:
                self._validate_ids(unknown)
        except (KeyError, TypeError, ValueError):  # the schema's refusal and "not plain" are among them
            return None
        recents.sort(key=itemgetter(0))
        payload = orjson.dumps(records)
        return AcceptedInteractions(payload, tuple(entry for _, entry in recents), (), len(records))

    def _build_event(
        self, record: dict[str, Any], now_ms: int, unknown: set[str]
    ) -> tuple[int, tuple[str, str, bytes]]:
        kind, ids = record["type"], record["product_ids"]
        user_id, visitor_id = record.get("user_id", ""), record.get("anonymous_id", "")
        named = [name for name in (user_id, visitor_id) if name]
        if kind not in PLAIN_TYPES or type(ids) is not list or not 0 < len(ids) <= MOST_IDS:
            raise ValueError("not plain")
        if not named or len(record) != 3 + len(named):
            raise ValueError("not plain")
        if not self._known.issuperset(ids):
            unknown.update(ids)
        if not self._known.issuperset(named):
            unknown.update(named)
        at_ms = min(_parse_timestamp(record["timestamp"]), now_ms)
        # formatting copies the bytes into a block of their size; the writer's own block is of 1 kB
        return at_ms, (user_id, visitor_id, b"%b" % orjson.dumps((kind, ids, at_ms, 0.0)))

    def _validate_ids(self, unknown: set[str]) -> None:
        IDS.validate_python(list(unknown))
        if len(self._known) > MOST_CACHED_IDS:
            self._known.clear()
        self._known |= unknown


def _parse_timestamp(text: Any) -> int:
    """Return the milliseconds of a timestamp in the stored form.

    Errors:
        ValueError, TypeError: anything else
    """
    if type(text) is not str or not text.isascii() or not is_stored_moment(text):
        raise ValueError("not in the stored form")
    fraction = text[20:23]
    if text[4] != "-" or text[7] != "-" or text[13] != ":" or text[16] != ":" or not fraction.isdigit():
        raise ValueError("not in the stored form")
    gone = datetime.fromisoformat(text[:19]) - _EPOCH
    return (gone.days * 86_400 + gone.seconds) * 1000 + int(fraction)
