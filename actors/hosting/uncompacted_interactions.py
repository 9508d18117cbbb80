"""Read the interactions that are in the change log but not yet in a segment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson

from cluster import ids
from cluster.records.field_types.times import moment_ms
from cluster.store.data.change_log import ChangeLog

_PAGE = 200
_MOST_PAGES = 500
_BROKEN = (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class LoggedInteraction:
    """One interaction of the change log."""

    user_key: str
    at_ms: int
    item: dict[str, Any]


async def read_uncompacted(
    log: ChangeLog, app_id: str, after: str, kinds: Collection[str], *, most_pages: int = _MOST_PAGES
) -> list[LoggedInteraction]:
    """Return the interactions of some types after an offset, oldest first, without those of erased users.

    Cost:
        one read of the log for 200 uploads; at most `most_pages` reads, so by default 100,000 uploads
    """
    interactions: list[LoggedInteraction] = []
    for _ in range(most_pages):
        changes = await log.read(app_id, {"interaction": after}, count=_PAGE, block_ms=0)
        for change in changes:
            items = orjson.loads(change.payload)
            if change.op == "erase":
                # Erasures apply to what stands before them; interactions after the person's return stay.
                gone = set(items)
                interactions = [
                    interaction for interaction in interactions if interaction.user_key not in gone
                ]
            else:
                latest_ms = int(change.offset.partition("-")[0])
                read = (_parse_interaction(item, latest_ms, kinds) for item in items)
                interactions += [interaction for interaction in read if interaction is not None]
        if not changes:
            break
        after = changes[-1].offset
    return interactions


def _parse_interaction(item: Any, latest_ms: int, kinds: Collection[str]) -> LoggedInteraction | None:
    """Return one interaction; None for another type or a damaged item."""
    try:
        if item["type"] not in kinds:
            return None
        user_id = item.get("user_id")
        user_key = (
            ids.user_key_from_id(user_id) if user_id else ids.user_key_from_anonymous_id(item["anonymous_id"])
        )
        # the clock of a client can be ahead; no event is later than its log entry
        return LoggedInteraction(user_key, min(moment_ms(item["timestamp"]), latest_ms), item)
    except _BROKEN:
        return None
