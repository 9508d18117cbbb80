"""The served log: which products an API replica answered with, or cited.

Previews, forced variants, and requests of a publishable key that look automated leave no row. The app's setting
`served_log` decides whether rows tell users apart at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

import orjson

from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import RULE_LABEL, Placements, RecommendationResult, UserQuery
from actors.serving.client import PREVIEW, encode_request
from cluster import ids
from cluster.artifacts.logs.day_files import ERASURE_MEMORY_MS
from cluster.clock import Clock
from cluster.meter import Meter, SilentMeter
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.logged_query import pseudonym
from cluster.records.question import Answer, Question
from cluster.records.served_list import Device, ServedAnswer
from cluster.store.archive.log_stream import LogStream
from deployments.api.http.query_treatment import classify_device
from deployments.edge.batch_writer import BatchWriter, split_by_app
from deployments.edge.http.request import ApiRequest

MOST_A_BATCH = 50
MOST_PRODUCTS = 100
"Products of one answer in the log: the first ones. Callers choose how many an answer has."
MOST_PRODUCTS_A_BATCH = 500
"A batch of 50 answers with ten products each is about 30 KB."

_DIGEST_FIELDS: Final = (
    "q",
    "advanced_q",
    "like",
    "type",
    "category",
    "root_category",
    "field",
    "product_id",
    "product_ids",
    "product_group_id",
    "product_group_ids",
    "fq",
    "facet_filters",
    "boost_fq",
    "boost_rules",
    "boosting_tags",
    "geo",
    "order_by",
)
"Fields of a body that make two requests different questions."
_DIGESTED: Final = frozenset(_DIGEST_FIELDS)
_DEVICES: Final[dict[str, Device]] = {"phone": "phone", "tablet": "tablet", "desktop": "desktop"}
_NO_PLACEMENTS: Final = Placements()
_product_ids: Final = itemgetter("product_id")
_find_pseudonym: Final = lru_cache(maxsize=4_096)(pseudonym)
"Users ask several times within a visit, and the hash costs more than the rest of their row."


@dataclass(slots=True)  # not frozen: that takes three times the time, for each answer
class _PendingAnswer:
    """An answer with the plain user id; the store gets a pseudonym instead."""

    app_id: str
    user_key: str
    digest: bytes
    row: dict[str, Any]
    """Fields of `ServedAnswer`, without some that have their default: a mapping takes a third of the time of the
    dataclass until it is JSON."""
    typist: str = ""
    query: UserQuery | None = None
    "As the API parsed it, for a replay; None: no engine placed the products."
    keeps_texts: bool = True
    names_people: bool = True


class ServedLogWriter(BatchWriter[_PendingAnswer]):
    """Writes the served log to the store."""

    def __init__(
        self,
        store: LogStream[ServedAnswer],
        clock: Clock,
        meter: Meter | None = None,
        find_mode: Callable[[str], str] = lambda app_id: "off",
    ) -> None:
        """`find_mode` returns the mode of an app for answers that belong to no request."""
        super().__init__("served_answers")
        self._find_mode = find_mode
        self._meter = SilentMeter() if meter is None else meter
        self._store = store
        self._clock = clock

    def record(
        self,
        request: ApiRequest,
        service_id: str,
        query: UserQuery,
        answered: RecommendationResult,
        treatments: Sequence[ExperimentTreatment],
    ) -> None:
        """Record an answer. Cost: at most 20 microseconds for ten products; nothing is awaited."""
        if not _is_logged(request, treatments):
            return
        products, placements = _list_products(answered)
        row = self._begin_row(service_id, query, query.kind, answered.served_by, products)
        row["snapshot"] = placements.snapshot
        row["recipe"] = placements.recipe
        row["scores"] = placements.scores[:MOST_PRODUCTS]
        row["origins"] = placements.origins[:MOST_PRODUCTS]
        row["propensities"] = placements.propensities[:MOST_PRODUCTS]
        row["state"] = placements.state
        if placements.sides:
            row["sides"] = placements.sides[:MOST_PRODUCTS]
        self._put_answer(request, row, treatments, query=request.parsed if placements.state else None)

    def record_items(
        self,
        request: ApiRequest,
        service_id: str,
        query: UserQuery,
        products: Iterable[str] = (),
        treatments: Sequence[ExperimentTreatment] = (),
        *,
        endpoint: str = "",
        level: str = "",
    ) -> None:
        """Record an answer whose products no engine placed, or completions, which are no products.

        `products` are the shown or cited ids in their order; repeated ones count once.
        """
        if not _is_logged(request, treatments):
            return
        distinct = tuple(dict.fromkeys(products))
        row = self._begin_row(service_id, query, endpoint or query.kind, level, distinct)
        self._put_answer(request, row, treatments, is_typed=row["endpoint"] == "autocomplete")

    def record_question(self, question: Question, answer: Answer) -> None:
        """Record the answer of a question with the ids that it cites; `service_id` is the id of the question."""
        if answer.finish_reason != "success":
            return
        if question.generation is None and not question.is_automated:
            user_key = ids.user_key_from_id(question.user_id) if question.user_id else ""
            if question.anonymous_id and not user_key:
                user_key = ids.user_key_from_anonymous_id(question.anonymous_id)
            took_ms = self._clock.now_ms() - question.asked_at
            cited = [passage.product_id for passage in answer.passages]
            self._put_cited(question.app_id, "ask_question", question.question_id, cited, took_ms, user_key)

    def record_call(self, app_id: str, call: ArchiveCall) -> None:
        """Record the ids that an archive tool returned to an agent; no call names a person."""
        if call.outcome == "answered":
            service_id = call.call_id or ids.new_service_id()
            self._put_cited(app_id, f"archive_{call.tool}", service_id, call.articles, call.took_ms)

    def _put_cited(
        self,
        app_id: str,
        endpoint: str,
        service_id: str,
        cited: Iterable[str],
        took_ms: float,
        user_key: str = "",
    ) -> None:
        mode = self._find_mode(app_id)
        if mode != "off":
            row = {
                "service_id": service_id,
                "at": self._clock.now_ms(),
                "endpoint": endpoint,
                "engine_id": "",
                "took_ms": round(took_ms, 2),
                "products": tuple(dict.fromkeys(cited))[:MOST_PRODUCTS],
            }
            self.put(_PendingAnswer(app_id, user_key if mode == "on" else "", b"", row))

    def _begin_row(
        self, service_id: str, query: UserQuery, endpoint: str, level: str, products: tuple[str, ...]
    ) -> dict[str, Any]:
        row = {
            "service_id": service_id,
            "at": self._clock.now_ms(),
            "endpoint": endpoint,
            "engine_id": query.engine_id,
            "level": level,
            "rows": query.rows,
            "products": products[:MOST_PRODUCTS],
        }
        if query.start:
            row["start"] = query.start
        if rules := _list_rules(query):
            row["rules"] = rules
        return row

    def _put_answer(
        self,
        request: ApiRequest,
        row: dict[str, Any],
        treatments: Sequence[ExperimentTreatment],
        *,
        is_typed: bool = False,
        query: UserQuery | None = None,
    ) -> None:
        """Add what is known of the request, and put the row into the batch."""
        if treatments:
            row["experiments"] = tuple(
                {"experiment": treatment.experiment_id, "variant": treatment.variant.variant_id}
                for treatment in treatments
            )
        agent = request.user_agent
        row["device"] = _DEVICES.get(classify_device(agent), "other")
        row["took_ms"] = round((self._clock.monotonic_s() - request.started_s) * 1000, 2)
        user_keys = request.user_keys
        user_key = user_keys[0] if user_keys else ""
        # Completions of one typist follow each other; without an id, address and program tell typists apart.
        typist = (user_key or f"{request.ip} {agent}") if is_typed else ""
        settings = request.credential.app.settings
        is_on = settings.served_log == "on"
        digest = digest_request(request.payload)
        self.put(
            _PendingAnswer(
                request.app_id,
                user_key if is_on else "",
                digest,
                row,
                typist,
                query,
                keeps_texts=settings.query_log != "off",
                names_people=is_on,
            )
        )

    def split(self, entries: Sequence[_PendingAnswer]) -> Iterable[Sequence[_PendingAnswer]]:
        for batch in split_by_app(entries, MOST_A_BATCH):
            yield from _split_by_products(batch)

    async def write_batch(self, batch: Sequence[_PendingAnswer]) -> None:
        app_id = batch[0].app_id
        salt = await self._store.salt(app_id)
        # An erasure forgets whom it erased after this time, so older rows could bring a person back.
        oldest_ms = self._clock.now_ms() - ERASURE_MEMORY_MS
        rows = [_complete_row(pending, salt) for pending in batch if pending.row["at"] > oldest_ms]
        is_stored = await self._store.append(app_id, rows)
        self.count_dropped(len(batch) - (len(rows) if is_stored else 0))

    def count_dropped(self, count: int) -> None:
        if count:
            self._meter.count("kiosk_served_answers_lost", count)


def _complete_row(pending: _PendingAnswer, salt: bytes) -> dict[str, Any]:
    """Return the row of an answer with what depends on the salt, and with its request."""
    row = pending.row
    if pending.user_key:
        row["user"] = _find_pseudonym(salt, pending.user_key)
    if pending.typist:
        row["typist"] = _find_pseudonym(salt, pending.typist)[:12]
    if pending.query is not None:
        row["request"] = encode_request(
            pending.query,
            row["engine_id"],
            names_people=pending.names_people,
            keeps_texts=pending.keeps_texts,
        )
    if pending.digest:
        # With a key, because a list of frequent queries would tell the text of a digest without one.
        row["request_digest"] = blake2b(pending.digest, digest_size=8, key=salt).hexdigest()
    return row


def _split_by_products(batch: Sequence[_PendingAnswer]) -> Iterator[Sequence[_PendingAnswer]]:
    """Split a batch where its answers have more products than one batch may have."""
    start = 0
    count = 0
    for at, pending in enumerate(batch):
        count += len(pending.row["products"])
        # A single answer goes alone, however many products it has.
        if count > MOST_PRODUCTS_A_BATCH and at > start:
            yield batch[start:at]
            start = at
            count = len(pending.row["products"])
    yield batch[start:]


def _is_logged(request: ApiRequest, treatments: Sequence[ExperimentTreatment]) -> bool:
    if request.credential.app.settings.served_log == "off" or request.is_automated:
        return False
    # A preview or a forced variant says nothing of what people choose.
    return PREVIEW.get() is None and not (treatments and any(treatment.forced for treatment in treatments))


def _list_products(answered: RecommendationResult) -> tuple[tuple[str, ...], Placements]:
    """Return the product ids of an answer in the order shown, those of groups one after the other."""
    groups = answered.groups
    if not groups:
        products = tuple(map(_product_ids, answered.products))
        return products, answered.placements or _NO_PLACEMENTS
    products = tuple([product["product_id"] for group in groups for product in group.products])
    parts = [group.placements for group in groups if group.placements is not None]
    # Placements belong to products by their position, so all groups need theirs.
    if len(parts) < len(groups):
        return products, _NO_PLACEMENTS
    return products, Placements(
        tuple(score for part in parts for score in part.scores),
        tuple(origin for part in parts for origin in part.origins),
        tuple(propensity for part in parts for propensity in part.propensities),
        parts[0].snapshot,
        parts[0].recipe,
        state=parts[0].state,
    )


def _list_rules(query: UserQuery) -> tuple[str, ...]:
    """Return the names of the stored rules that a treated query has."""
    if query.search is not None and query.search.applied:
        return query.search.applied
    if not query.boosts and not query.removed:
        return ()
    names = [boost.name for boost in (*query.boosts, *query.removed) if boost.label.startswith(RULE_LABEL)]
    return tuple(dict.fromkeys(names))


def digest_request(payload: Any) -> bytes:
    """Return a digest of what a request asks for, whoever sends it; empty without filter, boost and text."""
    if not isinstance(payload, dict) or _DIGESTED.isdisjoint(payload):
        return b""
    chosen = {name: payload[name] for name in _DIGEST_FIELDS if name in payload}
    try:
        # Sorted, because nested objects in another order ask for the same.
        given = orjson.dumps(chosen, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # a number or a text that JSON can't carry
        given = repr(chosen).encode("utf-8", "replace")
    return blake2b(given, digest_size=16).digest()
