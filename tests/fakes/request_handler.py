"""A whole REST door in this process: memory stores, three apps with fresh keys, a recommender that answers as told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

import orjson

from actors.answers.client import QuestionClient, open_question_client
from actors.answers.llm.writer import LanguageModelWriter
from actors.archive.host import ArchiveHost
from actors.experiments.client import LocalExperimentClient
from actors.history.tracker import ThreadTracker
from actors.recommender.messages import RecommendationResult, RecommendedGroup, UserQuery
from actors.serving.client import RecommenderClient
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.errors import NotFound, messages
from cluster.ids import ServiceId, new_service_id
from cluster.meter import SilentMeter
from cluster.records.api_keys import KeyKind, issue_key
from cluster.records.apps import App, AppSettings, Environment, Limits
from cluster.records.question import Answer, Question
from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores
from deployments.api.http.endpoints import ApiServices, build_endpoints
from deployments.api.http.identity_links import IdentityLinkWriter
from deployments.api.http.query_log_writer import DisabledQueryLog, QueryLog
from deployments.api.http.request_handler import RequestHandler
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.api.resources.questions import AskServices
from deployments.edge.access.admission import AdmissionServices
from deployments.edge.access.keyring import Keyring
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.request_log import RequestLog
from deployments.edge.limits.leased_buckets import RateLimiter
from tests.fakes import asgi
from tests.fakes.stores.memory import memory_stores

MASTER = bytes(range(32))
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
NOW_MS = 1_772_442_930_250
"2026-03-02T09:15:30.250Z"


class StillClock:
    """A clock that moves when told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        """The wall clock."""
        return self.at_ms

    def monotonic_s(self) -> float:
        """The same clock in seconds."""
        return self.at_ms / 1000

    def pass_ms(self, ms: int) -> None:
        """Let time go by."""
        self.at_ms += ms


class ScriptedRecommender:
    """A recommender that finds what was put in, and remembers what it was asked."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.requests: list[UserQuery] = []
        self.products: list[dict[str, Any]] = [{"product_id": "hoe-11", "_personalization_score": 0.5}]
        self.groups = [RecommendedGroup(("Garden", "Hand tools"), 38, self.products)]
        self.wrong: Exception | None = None

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Answer as told; refuse apps without an engine."""
        self.requests.append(query)
        if self.wrong is not None:
            raise self.wrong
        if await self._stores.engines.get(query.app_id, query.engine_id) is None:
            raise NotFound(messages.ENGINE_NOT_FOUND)
        if query.kind == "mget":
            return RecommendationResult(products=[{"_found": True, **product} for product in self.products])
        return RecommendationResult(products=self.products, groups=self.groups)


@dataclass
class Corner:
    """Everything a test of the door needs in one place."""

    stores: Stores
    clock: Any
    vault: Vault
    keyring: Keyring
    recommender: ScriptedRecommender
    handler: RequestHandler
    experiments: LocalExperimentClient
    archive: ArchiveHost
    asking: QuestionClient
    "Answers questions once it was started; close it then."
    links: IdentityLinkWriter
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    "(app id, kind of key) -> key"

    def secret(self, app_id: str = "shop") -> str:
        """The secret key of an app."""
        return self.keys[app_id, "secret"]

    def publishable(self, app_id: str = "shop") -> str:
        """The publishable key of an app."""
        return self.keys[app_id, "publishable"]

    async def close(self) -> None:
        """Stop answering questions."""
        await self.asking.close()
        await self.archive.close()

    def headers(self, app_id: str = "shop") -> dict[str, str]:
        """Headers of a server's call."""
        return {"X-API-KEY": self.secret(app_id)}

    async def send(
        self,
        method: str,
        target: str,
        *,
        app_id: str = "shop",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> asgi.Answer:
        """Send a request with the secret key of an app; `more` as `call` takes it."""
        given = {**self.headers(app_id), **(headers or {})}
        return await asgi.call(self.handler, method, target, headers=given, **more)

    async def open_app(
        self, app_id: str, environment: Environment = "development", settings: AppSettings | None = None
    ) -> None:
        """Create an app with its two keys."""
        app = App(
            app_id=app_id,
            environment=environment,
            settings=settings or AppSettings(limits=PLENTY),
            created_at=0,
        )
        await self.stores.access.put_app(app)
        for kind in get_args(KeyKind):
            if (app_id, kind) not in self.keys:
                issued = issue_key(self.vault, app, kind, now_ms=self.clock.now_ms())
                await self.stores.access.put_key(issued.record)
                self.keys[app_id, kind] = issued.text
        await self.keyring.refresh()

    async def apply(self, app_id: str = "shop") -> int:
        """Apply everything in the intake, as the intake actor would; returns the number of batches."""
        batches = await self.stores.intake.claim("test", [app_id], count=1000, block_ms=0)
        for batch in batches:
            if batch.op == "put":
                records = [_put(batch.noun, record) for record in orjson.loads(batch.payload)]
                await self.stores.intake.apply_put(
                    batch,
                    records,
                    change_payload=batch.payload,
                    vectors=b"",
                    embedder="",
                    failed=(),
                    now_ms=self.clock.now_ms(),
                )
            else:
                ids: Sequence[str] = orjson.loads(batch.payload)
                await self.stores.intake.apply_remove(batch, ids, now_ms=self.clock.now_ms())
        return len(batches)


PLENTY = Limits(queries_per_s=1e6, query_burst=1_000_000, writes_per_s=1e6, write_burst=1_000_000)


async def open_corner(
    *,
    clock: Clock | None = None,
    stores: Stores | None = None,
    most_bytes: int = 32 << 20,
    share: float = 0.0,
    client: RecommenderClient | None = None,
    query_log: QueryLog | None = None,
    served_log: ServedLogWriter | None = None,
    artifacts: ArtifactStore | None = None,
    find_unknown_products: Callable[[str, Iterable[str]], Sequence[str]] = lambda app_id, product_ids: (),
    addresses: ClientAddresses = DIRECT,
    writer: LanguageModelWriter | None = None,
    new_service_id: Callable[[], ServiceId] = new_service_id,
) -> Corner:
    """Open a door on apps `shop`, `other` (development) and `playground`; `client` answers instead of the told one."""
    clock = clock or StillClock()
    stores = stores or memory_stores(clock)
    vault = Vault(MASTER)
    keyring = Keyring(stores.access, vault)
    rate_limiter = RateLimiter(stores.limits, clock)
    recommender = ScriptedRecommender(stores)
    log = RequestLog(share, Random(1))
    experiments = LocalExperimentClient(stores.experiments, clock)
    archive = ArchiveHost(stores, None, None, clock, SilentMeter())

    def record_answer(question: Question, answer: Answer, model_tokens: int) -> None:
        experiments.treatments.record_answer(question, answer)
        if served_log is not None:
            served_log.record_question(question, answer)

    asking = open_question_client(
        stores, archive, clock, SilentMeter(), app_ids=lambda: keyring.app_ids, writer=writer,
        answered=record_answer, affiliation_of=keyring.affiliation_of,
    )  # fmt: skip
    history = ThreadTracker(stores, clock)
    ask = AskServices(asking, archive, stores.questions, clock, history)
    services = ApiServices(
        stores,
        client or recommender,
        clock,
        experiments,
        query_log or DisabledQueryLog(),
        served_log=served_log,
        ask=ask,
        history=history,
        artifact_store=artifacts,
        find_unknown_products=find_unknown_products,
        new_service_id=new_service_id,
    )
    links = IdentityLinkWriter(stores.interactions, SilentMeter())
    handler = RequestHandler(
        build_endpoints(services),
        AdmissionServices(
            keyring, rate_limiter, SilentMeter(), most_bytes=most_bytes, link_identities=links.record
        ),
        replays=stores.idempotency,
        clock=clock,
        log=log,
        addresses=addresses,
    )
    corner = Corner(stores, clock, vault, keyring, recommender, handler, experiments, archive, asking, links)
    await corner.open_app("shop")
    await corner.open_app("other")
    await corner.open_app("playground", "playground")
    return corner


def _put(noun: str, record: dict[str, Any]) -> RecordPut:
    kind = record.get("type") if noun == "product" else None
    return RecordPut(record[f"{noun}_id"], orjson.dumps(record), kind)
