"""What each store promises. Logic, doors and hosts know these protocols and nothing else of Redis.

Every method may raise `cluster.errors.Unavailable`: the store can't be reached within its deadline. All are async.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from cluster.records.task import Task
from cluster.store.ports.access import AccessBook as AccessBook
from cluster.store.ports.access import AccessStore as AccessStore
from cluster.store.ports.accounts import AccountStore as AccountStore
from cluster.store.ports.accounts import ActiveGrant as ActiveGrant
from cluster.store.ports.accounts import GrantStore as GrantStore
from cluster.store.ports.accounts import RedeemOutcome as RedeemOutcome
from cluster.store.ports.accounts import RegistrationStore as RegistrationStore
from cluster.store.ports.accounts import Revocations as Revocations
from cluster.store.ports.accounts import RotateOutcome as RotateOutcome
from cluster.store.ports.archive_admin import ArchiveCallStore as ArchiveCallStore
from cluster.store.ports.archive_admin import ClientRuleStore as ClientRuleStore
from cluster.store.ports.engines import EngineStore as EngineStore
from cluster.store.ports.engines import EngineTraffic as EngineTraffic
from cluster.store.ports.engines import EngineWatch as EngineWatch
from cluster.store.ports.engines import RuleStore as RuleStore
from cluster.store.ports.erasures import REDIS_PLACES as REDIS_PLACES
from cluster.store.ports.erasures import ErasureStore as ErasureStore
from cluster.store.ports.experiments import AssignMode as AssignMode
from cluster.store.ports.experiments import ExperimentBook as ExperimentBook
from cluster.store.ports.experiments import ExperimentStore as ExperimentStore
from cluster.store.ports.interactions import BrowserWriter as BrowserWriter
from cluster.store.ports.interactions import InteractionStore as InteractionStore
from cluster.store.ports.query_log import QueryBatch as QueryBatch
from cluster.store.ports.query_log import QueryStore as QueryStore
from cluster.store.ports.query_log import QuestionBankContents as QuestionBankContents
from cluster.store.ports.query_log import QuestionBankStore as QuestionBankStore
from cluster.store.ports.questions import QuestionStore as QuestionStore
from cluster.store.ports.questions import StoredQuestion as StoredQuestion
from cluster.store.ports.threads import ThreadStore as ThreadStore
from cluster.store.ports.threads import ThreadWatcher as ThreadWatcher
from cluster.store.ports.trainings import PromotionStore, RunStore, ScheduleStore

Noun = Literal["user", "product", "interaction"]
Op = Literal["put", "remove", "erase"]


# --- messages between stores and their users ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """One accepted upload or delete, waiting in the intake."""

    app_id: str
    entry_id: str
    "Stream entry id; acknowledged by the script that applies the batch."
    noun: Noun
    op: Op
    task_id: str
    payload: bytes
    "put: JSON array of normalised records. remove: JSON array of ids."
    deliveries: int = 1


@dataclass(frozen=True, slots=True)
class RecordPut:
    """One record ready to be written."""

    record_id: str
    json: bytes
    product_type: str | None = None
    "Only products: fills the per-type id index."


@dataclass(frozen=True, slots=True)
class ChangeLogEntry:
    """One entry of a change log."""

    noun: Noun
    offset: str
    "Stream entry id `<ms>-<n>`; offsets of one noun grow."
    op: Op
    payload: bytes
    """put user/product: JSON array of records. remove: JSON array of ids. put interaction: JSON array of
    normalised interactions. erase interaction: JSON array of reader ids (`u:...`, `a:...`)."""
    vectors: bytes = b""
    "Only product puts: float16 [n, d] little endian, one row a record, in payload order."
    embedder: str = ""
    "Version of the embedder that made `vectors`."
    is_lost: bool = False
    "An `erase` or `remove` of which both copies are damaged: it names nobody."


@dataclass(frozen=True, slots=True)
class IntakeReceipt:
    """What accepting a batch came to: the task, or the attribute types that clash."""

    task_id: str
    conflicts: Mapping[str, str] = field(default_factory=dict)
    "Attribute name -> type already registered by other records. Not empty: nothing was written."


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """Tokens granted by a shared token bucket."""

    granted: int
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class IdempotencyState:
    """State of an Idempotency-Key: `new` (go on), `flying`, `done` (repeat the reply), `other` (other body), `full`
    (too many keys)."""

    state: Literal["new", "flying", "done", "other", "full"]
    status: int = 0
    reply: bytes = b""


# --- ports ------------------------------------------------------------------------------------------------------


class RecordStore(Protocol):
    """Stored users and products, as JSON bytes. A record whose checksum fails is moved to quarantine and
    reads as absent."""

    async def get(self, app_id: str, noun: Noun, record_id: str) -> bytes | None: ...

    async def get_many(self, app_id: str, noun: Noun, record_ids: Sequence[str]) -> list[bytes | None]: ...

    async def ids(self, app_id: str, noun: Noun, product_type: str | None = None) -> list[str]:
        """All ids, sorted."""
        ...

    async def seen(self, app_id: str, noun: Noun) -> bool:
        """Was a record of this noun ever uploaded to the app?"""
        ...

    async def attribute_types(self, app_id: str, noun: Noun) -> dict[str, str]:
        """Custom attribute name -> scalar type registered so far."""
        ...


class Intake(Protocol):
    """Accepted batches between the door and the intake actor."""

    async def accept(
        self,
        app_id: str,
        noun: Noun,
        op: Op,
        payload: bytes,
        *,
        task_id: str,
        total: int,
        now_ms: int,
        attribute_types: Mapping[str, str] | None = None,
        errors: Sequence[str] = (),
    ) -> IntakeReceipt:
        """Queue a batch and create its task in one step; durable when it returns.

        `attribute_types` are the types this batch relies on; unknown names are registered, a clash writes
        nothing and reports itself. `errors` are records already refused (they count as failed in the task and
        are part of `total`). Accepting the same `task_id` again changes nothing, so a retry is safe.

        Errors:
            TooMany: too many batches of the app are waiting
        """
        ...

    async def claim(self, consumer: str, app_ids: Sequence[str], *, count: int, block_ms: int) -> list[Batch]:
        """Take batches: first those this consumer already held, then those idle for 10 s at a dead
        consumer, then new ones; waits up to `block_ms` for a new one. Their tasks are `running` from then on.

        `count` holds for each app, so that no app starves another. A batch that was claimed and neither
        applied nor given up comes back with the next call. Broken batches are given up here and not returned.
        """
        ...

    async def apply_put(
        self,
        batch: Batch,
        records: Sequence[RecordPut],
        *,
        change_payload: bytes,
        vectors: bytes,
        embedder: str,
        failed: Sequence[str],
        now_ms: int,
        set_aside: Sequence[bytes] = (),
    ) -> bool:
        """Write records, change-log entry and task progress, and acknowledge, in one atomic step.

        Returns False and writes nothing when the batch was already applied. Creates the `default` engine
        with the first product. `quarantine_rows` are the records `failed` speaks of, in its order; they
        go to quarantine with their reason.
        """
        ...

    async def apply_remove(self, batch: Batch, record_ids: Sequence[str], *, now_ms: int) -> bool:
        """The same for deletes."""

    async def give_up(self, batch: Batch, reason: str, *, now_ms: int) -> bool:
        """Move a poisonous batch to quarantine, its task failed."""

    async def depth(self, app_id: str) -> int:
        """Batches waiting or held."""


class TaskStore(Protocol):
    """What became of accepted batches, for 24 hours."""

    async def get(self, app_id: str, noun: Noun, task_id: str) -> Task | None:
        """Read a task; None when it is unknown, too old, or of another noun."""
        ...

    async def end_lost(self, app_id: str, *, before_ms: int, now_ms: int) -> int:
        """The watchdog's step: end tasks created before a time whose batch is gone without having been applied.

        A few at a time, oldest first; returns how many were ended.
        """
        ...


class ChangeLog(Protocol):
    """The ordered stream of what was written, one per noun."""

    async def read(
        self, app_id: str, after: Mapping[Noun, str], *, count: int, block_ms: int
    ) -> list[ChangeLogEntry]:
        """Changes after the given offsets (`"0"` = from the start), oldest first per noun, up to `count` each.

        Waits up to `block_ms` for the first; 0 does not wait. A change that was damaged comes as an empty one
        (`put` of `[]`), so that its reader gets past it.
        """
        ...

    async def last(self, app_id: str, noun: Noun) -> str:
        """Newest offset, `"0"` when nothing was written."""
        ...

    async def first(self, app_id: str, noun: Noun) -> str:
        """The offset from which the log is complete: reading after it misses nothing; `"0"` when it was never
        trimmed. Whoever stands at an older offset has a gap and must load settled segments."""
        ...

    async def record_follower(self, app_id: str, name: str, offsets: Mapping[Noun, str], now_ms: int) -> None:
        """Say how far a follower has read; for 10 minutes nothing after that is trimmed."""
        ...

    async def compacted_offsets(self, app_id: str) -> dict[Noun, str]: ...

    async def request_compaction(self, app_id: str, offsets: Mapping[Noun, str]) -> None:
        """Ask that everything up to these offsets settles soon, without waiting for more to come."""
        ...

    async def requested_compactions(self, app_id: str) -> dict[Noun, str]: ...

    async def compact(self, app_id: str, noun: Noun, offset: str, now_ms: int) -> int:
        """Record that everything up to `offset` stands on the shelf; trim what no live follower needs.

        Returns how many entries were trimmed. An older offset than the recorded one only trims.
        """
        ...


class LimitStore(Protocol):
    """Token buckets shared by all doors."""

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> TokenGrant:
        """Take up to `want` tokens from a shared bucket that refills at `rate` per second.

        `retry_after_ms` is 0 unless nothing was granted."""
        ...


class IdempotencyStore(Protocol):
    """What writes with an Idempotency-Key answered."""

    async def begin(self, app_id: str, token: str, body_sha256: str, *, most: int = 0) -> IdempotencyState:
        """Begin a write; `new` takes a lock that lapses after 60 s unless `finish` or `forget` comes first.

        `most` bounds the bounded ones among an app's keys: so many may be begun within an hour; 0: no bound.
        """
        ...

    async def finish(
        self,
        app_id: str,
        token: str,
        status: int,
        reply: bytes,
        readers: Sequence[str] = (),
        *,
        life_ms: int = 86_400_000,
    ) -> None:
        """Keep the answer for its life, or until one of its readers (`u:...`, `a:...`) is forgotten."""
        ...

    async def delete(self, app_id: str, token: str) -> None:
        """The write failed without an answer worth repeating."""
        ...


class PageStore(Protocol):
    """What was already shown under a `pagination_id`."""

    async def shown(self, app_id: str, reader_id: str, pagination_id: str) -> list[str]: ...

    async def show(
        self,
        app_id: str,
        reader_id: str,
        pagination_id: str,
        product_ids: Sequence[str],
        *,
        is_strangers: bool = False,
    ) -> None:
        """Remember what was shown; of readers without proof less, and of few of them."""
        ...


class LeaseStore(Protocol):
    """Who does a job that only one may do."""

    async def hold(self, name: str, owner: str, ttl_ms: int) -> bool:
        """Take or renew; False when somebody else holds it."""
        ...

    async def release(self, name: str, owner: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Stores:
    """All ports of one process, made once by a composition root (`connect.open_stores` or `memory`)."""

    access: AccessStore
    records: RecordStore
    intake: Intake
    tasks: TaskStore
    interactions: InteractionStore
    changes: ChangeLog
    engines: EngineStore
    engine_watch: EngineWatch
    boost_rules: RuleStore
    limits: LimitStore
    idempotency: IdempotencyStore
    pages: PageStore
    leases: LeaseStore
    runs: RunStore
    schedules: ScheduleStore
    promotions: PromotionStore
    accounts: AccountStore
    grants: GrantStore
    registrations: RegistrationStore
    archive_calls: ArchiveCallStore
    client_rules: ClientRuleStore
    experiments: ExperimentStore
    threads: ThreadStore
    queries: QueryStore
    question_bank: QuestionBankStore
    questions: QuestionStore
    erasures: ErasureStore
