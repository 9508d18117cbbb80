"""Wait until accepted uploads and interactions are in segments, so that a training or an estimate reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster.artifacts.segments import position_from_offset
from cluster.records.intake import Noun
from cluster.store.stores import Stores

COMPACTION_STALL_S = 15.0
"A wait ends after so many seconds without progress. A running intake compacts requested data within two seconds."
COMPACTION_WAIT_S = 300.0
"A wait ends after so many seconds in any case."
_POLL_S = 0.25
_NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")


async def wait_for_compaction(
    stores: Stores, app_id: str, report: Callable[[str], None], *, stall_s: float = COMPACTION_STALL_S
) -> str:
    """Request the compaction of all accepted data and wait for it; return a sentence on what is missing, or "".

    Data that is accepted after the call is not waited for. With `stall_s=0`, nothing is waited for.
    """
    # Uploads first: what the intake applies becomes part of the change log, which is read below.
    uploads = await stores.intake.depth(app_id)
    rest_s = stall_s
    left_s = COMPACTION_WAIT_S
    while uploads and min(rest_s, left_s) > 0:
        report(f"waiting until the intake applies {uploads:,} accepted uploads")
        await asyncio.sleep(_POLL_S)
        now = await stores.intake.depth(app_id)
        # Progress gives new patience; a stopped intake does not hold the training up.
        rest_s = stall_s if now < uploads else rest_s - _POLL_S
        uploads = now
        left_s = left_s - _POLL_S
    # The ends of now: under writes without a pause, a wait for the newest change would never end.
    ends = {noun: await stores.changes.last(app_id, noun) for noun in _NOUNS}
    done = await stores.changes.compacted_offsets(app_id)
    rest_s = stall_s
    if missing := _list_missing(ends, done):
        await stores.changes.request_compaction(app_id, {noun: ends[noun] for noun in missing})
    while missing and min(rest_s, left_s) > 0:
        report(f"waiting until the intake compacts new data: {', '.join(missing)}")
        await asyncio.sleep(_POLL_S)
        now_done = await stores.changes.compacted_offsets(app_id)
        rest_s = stall_s if now_done != done else rest_s - _POLL_S
        done = now_done
        left_s = left_s - _POLL_S
        missing = _list_missing(ends, done)
    return _explain(uploads, missing)


def _list_missing(ends: dict[Noun, str], done: dict[Noun, str]) -> list[Noun]:
    return [
        noun
        for noun in _NOUNS
        if position_from_offset(done.get(noun, "0")) < position_from_offset(ends[noun])
    ]


def _explain(uploads: int, missing: list[Noun]) -> str:
    parts = [f"{uploads:,} accepted uploads are not applied"] if uploads else []
    if missing:
        parts.append(f"new data is not compacted ({', '.join(missing)})")
    if not parts:
        return ""
    return (
        f"{' and '.join(parts)}, so it is not read; `kiosk status` shows whether the intake works, "
        "`kiosk up` starts a stopped one"
    )
