"""Keep the outcomes of answers up to date: attribute each day again whose interactions or answers changed.

One day is computed and committed at a time, so a process may be killed at any moment. Days before yesterday wait up to
six hours: clients send late events one by one, and each would compute its whole day again. The first time, all days
that the log of answers keeps are due: they follow in rounds, the newest first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl
import pyarrow as pa
import structlog

from actors.hosting.purchase_values import list_baskets, read_prices, value_events
from actors.intake.attribution import (
    IMPRESSIONS,
    VIEW_WINDOW_MS,
    VIEWS,
    WINDOW_MS,
    ShownProducts,
    attribute_events,
    join_shown,
    parse_events,
    select_shown,
)
from cluster.artifacts.logs.day_files import DAY_MS, ERASED_ROWS, name_day
from cluster.artifacts.logs.outcomes import ANSWER_FACTS, COLUMNS, REFUND_WINDOW_MS, OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import KioskError, Unavailable
from cluster.ids import user_key_from_anonymous_id, user_key_from_id
from cluster.meter import Meter
from cluster.records.logged_query import pseudonym
from cluster.store.stores import Stores

EVERY_S = 120.0
MOST_DAYS = 7
"Days of one round; other apps wait for its end."
LATE_EVERY_MS = 6 * 3_600_000
AHEAD_MS = 3_600_000
"Answers so long after a day are read too: clocks of clients are behind, and an id of a later answer is no unknown one."
YOUNG_MS = 600_000
"While a day is so young, its answers may still be credited with interactions of the day before."
LOAD = 20
"The pause after a round is so many times its duration: attribution takes at most 5 % of the time."
MOST_LINKED = 20_000
"Users of one day whose visitors are looked up; of further ones, only the ids in their interactions count."
MOST_IDS = 50
"Ids of one person. A user with more is many people, as `guest`, and each of their ids stands for itself."
_ANSWER_COLUMNS = ("service_id", "products", "origins", "sides", *ANSWER_FACTS)
_FIRST_DAY = date(1970, 1, 1)
_DAYS = WINDOW_MS // DAY_MS


@dataclass(frozen=True, slots=True)
class _Plan:
    """The days of an app that are due, and what its outcomes cover when they are computed."""

    days: tuple[int, ...]
    "Days since 1970 (UTC)."
    later: tuple[int, ...]
    "Further days, which wait."
    offset: str
    answers: Mapping[str, int]
    "Day -> rows of the served log."
    erased_answers: Mapping[str, int]
    "Day -> rows that erasures removed from the served log."
    late_at: int


class OutcomeAttributor:
    """Attributes interactions of all apps; only one may run at a time."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore, clock: Clock, meter: Meter) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._served = ServedLogStore(artifacts, clock)
        self._outcomes = OutcomeStore(artifacts, clock)
        self._clock = clock
        self._meter = meter
        self._due_s: dict[str, float] = {}
        self._lock = asyncio.Lock()
        self._log = structlog.get_logger()

    async def run_once(self, keep_days: Mapping[str, int], *, at_once: bool = False) -> int:
        """Attribute the days that are due (`at_once`: all) of apps; return the number of days."""
        computed = 0
        for app_id, days in keep_days.items():
            started_s = self._clock.monotonic_s()
            if not at_once and self._due_s.get(app_id, 0.0) > started_s:
                continue
            try:
                computed += await self._run_app(app_id, days, at_once)
            except Unavailable:
                raise
            except KioskError as error:
                self._log.error("attribution_refused", app=app_id, reason=error.message)
            except Exception:  # noqa: BLE001
                # the next apps must not wait for one whose interactions can't be read
                self._log.exception("attribution_failed", app=app_id)
            now_s = self._clock.monotonic_s()
            self._due_s[app_id] = now_s + max(EVERY_S, LOAD * (now_s - started_s))
        return computed

    async def delete_users(self, app_id: str, user_keys: Sequence[str]) -> None:
        """Delete the outcomes of some users (`u:...`, `a:...`)."""
        async with self._lock:
            salt = await self._stores.served.salt(app_id)
            pseudonyms = [pseudonym(salt, user_key) for user_key in user_keys]
            await asyncio.to_thread(self._outcomes.delete, app_id, pseudonyms)
            await asyncio.to_thread(self._outcomes.tidy, app_id, at_once=True)

    async def _run_app(self, app_id: str, keep_days: int, at_once: bool) -> int:
        oldest_ms = self._clock.now_ms() - keep_days * DAY_MS
        async with self._lock:  # also of an app that gives no more answers
            await asyncio.to_thread(self._outcomes.expire_and_compact, app_id, oldest_ms)
            if app_id not in self._due_s:  # a process that was killed may have left files
                await asyncio.to_thread(self._outcomes.tidy, app_id)
        plan = await asyncio.to_thread(self._plan, app_id, at_once)
        if plan is None:
            return 0
        for at, day in enumerate(plan.days, start=1):
            async with self._lock:
                await self._attribute_day(app_id, day, plan, (*plan.days[at:], *plan.later))
        return len(plan.days)

    def _plan(self, app_id: str, at_once: bool) -> _Plan | None:
        """Return the days to compute; None without any."""
        stored = self._outcomes.commit(app_id).facts
        answers: dict[str, int] = {}
        served = self._served.commit(app_id)
        for entry in served.files:
            answers[entry.facts["day"]] = answers.get(entry.facts["day"], 0) + entry.rows
        if not answers:
            return None
        stream = SegmentStream(self._artifacts, app_id)
        offset = stream.measure("interaction").offset
        now_ms = self._clock.now_ms()
        today = now_ms // DAY_MS
        days = stream.event_days(stored.get("offset", "0")) | set(stored.get("pending", ()))
        erased_answers: Mapping[str, int] = served.facts.get(ERASED_ROWS, {})
        for name, rows in answers.items():
            first = number_day(name)
            before = stored.get("answers", {}).get(name, 0)
            # Counts of rows tell whether a day changed, without a look into its files. Erased rows count as rows: else
            # as many new answers would go unnoticed.
            erased = erased_answers.get(name, 0) - stored.get("erased_answers", {}).get(name, 0)
            # fewer rows: an erasure, which has deleted their outcomes
            if rows + erased > before or (rows < before and first >= today - 1):
                is_new = not before or now_ms - first * DAY_MS < YOUNG_MS
                days.update(range(first - is_new, min(first + _DAYS, today) + 1))
        # a refund depends on purchases of earlier days
        with_refunds = {
            number_day(name)
            for name, counts in stored.get("counts", {}).items()
            if counts.keys() & {"refund", "refund_unmatched"}
        }
        days |= {day for day in with_refunds if any(day - 30 <= earlier < day for earlier in days)}
        oldest = number_day(min(answers))
        days = {day for day in days if oldest <= day <= today}
        late_at = stored.get("late_at", 0)
        due = {day for day in days if day >= today - 1}
        if at_once or now_ms - late_at >= LATE_EVERY_MS:
            due = days if at_once else set(sorted(days)[-MOST_DAYS:])
            # further days follow in the next rounds
            late_at = now_ms if due == days else late_at
        if not due:
            return None
        later = tuple(sorted(days - due))
        return _Plan(tuple(sorted(due)), later, offset, answers, erased_answers, late_at)

    async def _attribute_day(self, app_id: str, day: int, plan: _Plan, rest: Sequence[int]) -> None:
        begins_ms = day * DAY_MS
        stream = SegmentStream(self._artifacts, app_id)
        parts = await asyncio.to_thread(stream.events, begins_ms, begins_ms + DAY_MS, parse_events)
        events = await asyncio.to_thread(_join_events, parts)
        people = await self._list_people(app_id, events)
        baskets = await asyncio.to_thread(list_baskets, events)
        events = await asyncio.to_thread(
            value_events, events, await read_prices(self._stores, app_id, baskets)
        )
        await asyncio.to_thread(self._write_day, app_id, day, events, people, plan, rest)

    def _write_day(
        self,
        app_id: str,
        day: int,
        events: pl.DataFrame,
        people: pl.DataFrame,
        plan: _Plan,
        rest: Sequence[int],
    ) -> None:
        begins_ms = day * DAY_MS
        name = name_day(day)
        commit = self._served.commit(app_id)
        parts = [select_shown(self._empty_answers(), events, people, since_ms=0)]
        if events.height:
            for table in self._served.files(
                app_id, commit, begins_ms - WINDOW_MS, begins_ms + DAY_MS + AHEAD_MS, _ANSWER_COLUMNS
            ):
                parts.append(select_shown(table, events, people, since_ms=begins_ms - VIEW_WINDOW_MS))
        shown: ShownProducts = join_shown(parts)
        rows, counts = attribute_events(
            events, people, shown, self._read_purchases(app_id, events, begins_ms)
        )
        stored = self._outcomes.commit(app_id).facts
        oldest = min(plan.answers)
        kept = {earlier: its for earlier, its in stored.get("counts", {}).items() if earlier >= oldest}
        table = rows.to_arrow().cast(COLUMNS)
        # Rows and the facts of what they cover in one commit: a crash leaves the day due, never half done.
        self._outcomes.replace_days(
            app_id,
            {name: table},
            {
                "offset": plan.offset,
                "answers": dict(plan.answers),
                "erased_answers": dict(plan.erased_answers),
                "pending": list(rest),
                "late_at": plan.late_at,
                "counts": {**kept, name: counts},
            },
        )
        self._meter.count("kiosk_outcomes", rows.height)
        self._log.info("day_attributed", app=app_id, day=name, rows=rows.height, **counts)

    def _empty_answers(self) -> Any:
        names = [name for name in self._served.schema.names if name == "at" or name in _ANSWER_COLUMNS]
        return self._served.schema.empty_table().select(names)

    def _read_purchases(self, app_id: str, events: pl.DataFrame, begins_ms: int) -> pl.DataFrame:
        """Return the purchases before a day that refunds of the day may belong to, and their refunds."""
        table = COLUMNS.empty_table()
        if "refund" in events["type"].unique().to_list():
            table = self._outcomes.read(app_id, begins_ms - REFUND_WINDOW_MS, begins_ms - 1)
        frame = pl.DataFrame(pl.from_arrow(table))
        return frame.filter(pl.col("type").is_in(["checkout", "refund"])).select(COLUMNS.names)

    async def _list_people(self, app_id: str, events: pl.DataFrame) -> pl.DataFrame:
        """Return each user key of interactions with the pseudonyms of all ids of the person."""
        user_keys, buyers, links = await asyncio.to_thread(_list_names, events)
        # For lasting interactions only: a purchase may belong to a list that the visitor saw before signing
        # in.
        visitors = await self._stores.interactions.visitors(app_id, buyers[:MOST_LINKED], MOST_IDS)
        alone = [key[2:] for key in user_keys if key.startswith("a:")]
        stored = await self._stores.interactions.links(app_id, alone)
        links = {
            user_key_from_anonymous_id(visitor): user_key_from_id(user_id)
            for visitor, user_id in stored.items()
        } | links
        for user_id, ids in visitors.items():
            links |= dict.fromkeys(map(user_key_from_anonymous_id, ids), user_key_from_id(user_id))
        salt = await self._stores.served.salt(app_id)
        return await asyncio.to_thread(map_pseudonyms, user_keys, links, salt)


def map_pseudonyms(user_keys: Iterable[str], links: Mapping[str, str], salt: bytes) -> pl.DataFrame:
    """Return each user key with the pseudonyms of all ids of the person: columns `user_key`, `user`.

    Shapes:
        links: user key of a visitor -> user key of the user
    """
    members: dict[str, list[str]] = {}
    for visitor, user_key in links.items():
        members.setdefault(user_key, [user_key]).append(visitor)
    rows = [
        (user_key, pseudonym(salt, member))
        for user_key in user_keys
        for ids in (members.get(links.get(user_key, user_key), ()),)
        for member in (ids if 0 < len(ids) <= MOST_IDS else (user_key,))
    ]
    return pl.DataFrame(rows, schema={"user_key": pl.String, "user": pl.String}, orient="row")


def number_day(name: str) -> int:
    """Return a date as the number of days since 1970."""
    return (date.fromisoformat(name) - _FIRST_DAY).days


def _list_names(events: pl.DataFrame) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the user keys of interactions, the ids of users with lasting ones, and visitor -> user key."""
    lasting = events.filter(~pl.col("type").is_in([*VIEWS, *IMPRESSIONS]))
    user_keys = events["user_key"].unique(maintain_order=True).to_list()
    buyers = [key[2:] for key in lasting["user_key"].unique(maintain_order=True) if key.startswith("u:")]
    seen = events.drop_nulls("visitor").select("visitor", "user_key").unique(maintain_order=True)
    links = {
        user_key_from_anonymous_id(visitor): user_key
        for visitor, user_key in seen.iter_rows()
        if user_key.startswith("u:")
    }
    return user_keys, buyers, links


def _join_events(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the interactions of several segments together, numbered anew."""
    frames: list[pl.DataFrame] = []
    first = 0
    for frame in parts:
        frames.append(frame.with_columns(pl.col("event") + first))
        first += frame.select(pl.col("event").max().fill_null(0)).item() + 1
    return pl.concat(frames) if frames else parse_events(_NO_EVENTS)


_NO_EVENTS = pa.schema(
    [
        ("reader", pa.string()),
        ("type", pa.string()),
        ("at_ms", pa.int64()),
        ("product_ids", pa.list_(pa.string())),
        ("json", pa.binary()),
    ]
).empty_table()
