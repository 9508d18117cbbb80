"""What the twin keeps, one `AppState` an app. Everything lives in one process and one thread."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cluster.clock import Clock
from cluster.records.engine import Engine, Promotion
from cluster.records.intake import Noun, Task
from cluster.records.run import Run, Schedule
from cluster.store.data.change_log import Follower

Offset = tuple[int, int]
Entry = TypeVar("Entry")


def offset_of(text: str) -> Offset:
    """Read a stream entry id, `<ms>-<n>` or `<ms>`."""
    ms, _, n = text.partition("-")
    return int(ms), int(n or 0)


def text_of(offset: Offset) -> str:
    """Write a stream entry id."""
    return f"{offset[0]}-{offset[1]}"


class Log(Generic[Entry]):
    """Entries in order, each under an offset that grows whatever the clock does."""

    def __init__(self) -> None:
        self.last: Offset = (0, 0)
        self._entries: dict[Offset, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, now_ms: int) -> str:
        """Append; return the offset."""
        self.last = max((now_ms, 0), (self.last[0], self.last[1] + 1))
        self._entries[self.last] = entry
        return text_of(self.last)

    def get(self, offset: str) -> Entry | None:
        """Look one entry up."""
        return self._entries.get(offset_of(offset))

    def remove(self, offset: str) -> bool:
        """Take one entry out; False when it was not there."""
        return self._entries.pop(offset_of(offset), None) is not None

    def after(self, offset: str, count: int) -> list[tuple[str, Entry]]:
        """Read up to `count` entries behind an offset."""
        first = offset_of(offset)
        entries = [(text_of(at), entry) for at, entry in self._entries.items() if at > first]
        return entries[:count]

    def trim(self, offset: Offset) -> int:
        """Drop everything up to an offset, inclusive; return how many."""
        gone = [at for at in self._entries if at <= offset]
        for at in gone:
            del self._entries[at]
        return len(gone)


class Bell:
    """Wakes everybody who waits for something new."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake them."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, within_s: float) -> bool:
        """Wait for the next ring; False when the time passed without one."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait_for(waiting, within_s)
        except asyncio.TimeoutError:
            return False
        finally:
            self._waiting.discard(waiting)
        return True


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch in the intake."""

    noun: str
    op: str
    task_id: str
    payload: bytes


@dataclass(slots=True)
class ClaimedBatch:
    """Who works on a batch, since when, and how often it was handed out."""

    consumer: str
    at_s: float
    deliveries: int


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """An entry of a change log."""

    op: str
    payload: bytes
    vectors: bytes = b""
    embedder: str = ""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task, its batch, and when it is forgotten."""

    task: Task
    entry_id: str
    until_ms: int


@dataclass(slots=True)
class AppState:
    """One app's data."""

    records: dict[str, dict[str, bytes]] = field(default_factory=lambda: defaultdict(dict))
    product_types: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    attribute_types: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    intake: Log[QueuedBatch] = field(default_factory=Log)
    claims: dict[str, ClaimedBatch] = field(default_factory=dict)
    delivered: str = "0"
    tasks: dict[str, StoredTask] = field(default_factory=dict)
    changes: dict[str, Log[LoggedChange]] = field(default_factory=lambda: defaultdict(Log))
    compacted_offsets: dict[str, str] = field(default_factory=dict)
    requested_compactions: dict[str, str] = field(default_factory=dict)
    trimmed: dict[str, str] = field(default_factory=dict)
    followers: dict[str, Follower] = field(default_factory=dict)
    quarantine: list[Mapping[str, object]] = field(default_factory=list)
    recents: dict[str, list[bytes]] = field(default_factory=dict)
    "Newest first."
    links: dict[str, str] = field(default_factory=dict)
    linked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    deleted: dict[str, int] = field(default_factory=dict)
    "User key -> when the interactions were deleted."
    deleted_records: dict[tuple[Noun, str], int] = field(default_factory=dict)
    "Noun and id -> when the delete was accepted."
    engines: dict[str, Engine] = field(default_factory=dict)
    promotions: dict[str, list[Promotion]] = field(default_factory=dict)
    "Oldest first."
    runs: dict[str, Run] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)


class MemoryState:
    """All apps, one clock, one bell."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.bell = Bell()
        self.apps: dict[str, AppState] = defaultdict(AppState)

    def log(self, app_id: str, noun: str, entry: LoggedChange) -> str:
        """Append to a change log and wake its followers."""
        offset = self.apps[app_id].changes[noun].add(entry, self.clock.now_ms())
        self.bell.ring()
        return offset
