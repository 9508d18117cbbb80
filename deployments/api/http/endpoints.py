"""The table of all endpoints, for the request handler, the framework's routes and the OpenAPI document.

`docs/reference/rest.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.experiments.client import ExperimentClient, LocalExperimentClient
from actors.history.tracker import ThreadTracker
from actors.recommender.messages import QueryKind
from actors.search.question_bank_cache import QuestionBankCache
from actors.serving.client import RecommenderClient, StoredRules
from cluster import ids
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.records.validation.upload_schema import build_upload_schema
from cluster.store.stores import Stores
from deployments.api.http.endpoint import Endpoint, EndpointTexts, body_parser
from deployments.api.http.query_log_writer import DisabledQueryLog, QueryLog
from deployments.api.http.query_treatment import QueryTreatment
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.api.resources.aggregation import AggregationResource
from deployments.api.resources.ask_suggestions import build_ask_endpoints
from deployments.api.resources.bulk_queries import BulkResource
from deployments.api.resources.completions import CompletionsResource, QuestionBankSuggestions
from deployments.api.resources.experiments import (
    ExperimentEventsResource,
    ExperimentsResource,
    build_experiment_endpoints,
)
from deployments.api.resources.generation import build_generation_endpoint
from deployments.api.resources.history import (
    HistoryResource,
    ThreadsResource,
    build_history_endpoints,
    build_thread_endpoints,
)
from deployments.api.resources.interactions import InteractionsResource
from deployments.api.resources.query_services import QueryServices
from deployments.api.resources.question_answers import (
    QuestionAnswersResource,
    QuestionBankResource,
    build_question_answer_endpoints,
)
from deployments.api.resources.questions import AskServices
from deployments.api.resources.recommendation import BODIES, RecommendationResource
from deployments.api.resources.records import ProductsResource, RecordsResource, UsersResource
from deployments.api.resources.search import SearchResource
from deployments.api.wire import records as wire
from deployments.api.wire.autocomplete import Autocomplete, CompletionsReply
from deployments.api.wire.bulk import Bulk, BulkReply
from deployments.api.wire.search import ManyProducts, NamedProducts, SearchBody, SearchReply
from deployments.edge.access.admission import AdmissionRules

_READ = AdmissionRules()
_UPLOAD = AdmissionRules(bucket="write", writes=True, body="raw")
_REMOVE = AdmissionRules(bucket="write", writes=True)
_ASK = AdmissionRules(publishable=True, body="json", reads_token=True, token_in_body=True, proves_user=True)
_STREAM = AdmissionRules(publishable=True, writes=True, body="raw", reads_token=True, browser_bytes=256 << 10)
_COUNT = AdmissionRules(body="json")
_MANY = AdmissionRules(publishable=True, body="json")

_DRY_RUN = {"dry_run": {"type": "string", "enum": ["0", "1"]}}
_EVERYTHING = {
    "everything": {
        "type": "string",
        "enum": ["true"],
        "description": "Everything known of the person goes; `task_id` names the receipt at `_erasures/{task_id}`.",
    }
}
_TASK = wire.build_envelope(wire.TaskId)


def _know_all_products(app_id: str, product_ids: Iterable[str]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class ApiServices:
    """What the endpoints depend on."""

    stores: Stores
    recommender: RecommenderClient
    clock: Clock
    experiments: ExperimentClient | None = None
    "None: experiments run in this process."
    query_log: QueryLog = field(default_factory=DisabledQueryLog)
    served_log: ServedLogWriter | None = None
    "None: answers are not logged."
    history: ThreadTracker | None = None
    "None: threads are stored from this process, and their questions are not answered again."
    ask: AskServices | None = None
    "None: the ask endpoints are missing."
    artifact_store: ArtifactStore | None = None
    "None: without compacted segments, experiment reports have no conversions."
    find_unknown_products: Callable[[str, Iterable[str]], Sequence[str]] = _know_all_products
    "Returns the ids that the loaded catalog of an app lacks; none while it is not loaded."
    new_task_id: Callable[[], ids.TaskId] = ids.new_task_id
    new_service_id: Callable[[], ids.ServiceId] = ids.new_service_id


def build_endpoints(services: ApiServices) -> tuple[Endpoint, ...]:
    """Return the table of endpoints."""
    users = UsersResource(services.stores, services.clock, services.new_task_id)
    products = ProductsResource(services.stores, services.clock, services.new_task_id)
    rules = StoredRules(services.stores.boost_rules, services.clock)
    experiments = services.experiments or LocalExperimentClient(services.stores.experiments, services.clock)
    queries = QueryServices(
        QueryTreatment(rules, experiments, services.clock),
        services.recommender,
        services.clock,
        services.new_service_id,
        services.query_log,
        services.served_log,
    )
    history = services.history or ThreadTracker(services.stores, services.clock)
    banks = QuestionBankCache(services.stores.question_bank)
    suggestions = QuestionBankSuggestions(banks, services.recommender)
    table = (
        *_interactions(InteractionsResource(services.stores, services.clock, services.find_unknown_products)),
        *_erasures(users),
        *_records(
            users, AggregationResource("user", services.stores.records), wire.build_envelope(wire.StoredUser)
        ),
        *_records(
            products,
            AggregationResource("product", services.stores.records),
            wire.ProductPart | wire.build_envelope(wire.ProductPart),
        ),
        *_recommendations(RecommendationResource(queries)),
        *_search(SearchResource(queries), CompletionsResource(queries, suggestions)),
        *build_experiment_endpoints(
            ExperimentEventsResource(experiments, services.clock),
            ExperimentsResource(services.stores, services.artifact_store, services.clock),
        ),
        *build_question_answer_endpoints(
            QuestionBankResource(services.stores.question_bank, banks, services.new_service_id),
            QuestionAnswersResource(queries),
        ),
        *build_history_endpoints(HistoryResource(history)),
        *build_thread_endpoints(ThreadsResource(history)),
        build_generation_endpoint(services.ask, services.stores, services.clock),
    )
    if services.ask is not None:
        table = (*table, *build_ask_endpoints(services.ask, queries, suggestions))
    # last: a bulk call may contain requests to any endpoint above
    return (*table, *_bulk(BulkResource(table)))


def _search(searches: SearchResource, completions: CompletionsResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "search.search", "POST", "/v1/search/search", _ASK, "detail", searches.answer,
            schema=searches.parse_request, hot=True,
            about=EndpointTexts(
                "Search products", "Search", SearchBody,
                {200: wire.build_envelope(SearchReply), 404: wire.MessageReply},
            ),
        ),
        Endpoint(
            "search.mget", "POST", "/v1/search/mget", _ASK, "detail", searches.answer_many,
            schema=searches.parse_many, hot=True,
            about=EndpointTexts(
                "Read products by id", "Search", ManyProducts,
                {200: wire.build_envelope(NamedProducts), 404: wire.MessageReply},
            ),
        ),
        Endpoint(
            "search.autocomplete", "POST", "/v1/search/autocomplete", _ASK, "detail", completions.answer,
            schema=completions.parse_request, hot=True,
            about=EndpointTexts(
                "Complete a search", "Search", Autocomplete,
                {200: wire.build_envelope(CompletionsReply), 404: wire.MessageReply},
            ),
        ),
    )  # fmt: skip


def _bulk(resource: BulkResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "bulk",
            "POST",
            "/v1/bulk",
            _MANY,
            "detail",
            resource.answer,
            schema=body_parser(Bulk),
            about=EndpointTexts("Send several queries at once", "Bulk", Bulk, {200: BulkReply}),
        ),
    )


def _interactions(resource: InteractionsResource) -> tuple[Endpoint, ...]:
    path = "/v1/interactions"
    tag = "Interactions"
    erase = wire.build_delete_schema("user_ids", wrapped=False)
    alias = wire.build_delete_schema("user_ids", wrapped=True)
    return (
        Endpoint(
            "interactions.upload", "POST", path, _STREAM, "upload", resource.upload,
            schema=resource.parse_upload, hot=True,
            about=EndpointTexts(
                "Send interactions", tag, build_upload_schema("interaction"), {200: wire.UploadedInteractions}, _DRY_RUN
            ),
        ),
        Endpoint(
            "interactions.erase", "DELETE", path, _UPLOAD, "detail", resource.erase, schema=resource.parse_erase,
            about=EndpointTexts("Erase users' interactions", tag, erase, {200: wire.MessageReply}),
        ),
        Endpoint(
            "interactions.erase_alias", "POST", path + "/_delete", _UPLOAD, "detail", resource.erase,
            schema=resource.parse_erase,
            about=EndpointTexts("Erase users' interactions (form of some SDKs)", tag, alias, {200: wire.MessageReply}),
        ),
    )  # fmt: skip


def _erasures(users: UsersResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "users.erasure",
            "GET",
            "/v1/users/_erasures/{erasure_id}",
            _READ,
            "message",
            users.receipt,
            about=EndpointTexts(
                "Read the receipt of an erasure",
                "Users",
                None,
                {200: wire.build_envelope(wire.ErasureReceipt), 404: wire.MessageReply},
            ),
        ),
    )


def _records(resource: RecordsResource, counting: AggregationResource, stored: Any) -> tuple[Endpoint, ...]:
    noun = resource.noun
    root = f"/v1/{resource.noun}s"
    item = f"{root}/{{{resource.id_field}}}"
    tag = f"{resource.noun}s".capitalize()
    lost: Mapping[int, Any] = {404: wire.MessageReply}
    counted: Mapping[int, Any] = {200: wire.build_envelope(wire.Counts), **lost}
    by_type = {"type": {"type": "string"}} if noun == "product" else {}
    fields = {
        name: {"type": kind, "x-required": name == "field"}
        for name, kind in (
            ("field", "string"),
            ("size", "integer"),
            ("include", "string"),
            ("exclude", "string"),
            ("fq", "string"),
        )
    }
    uploaded = _TASK | wire.PartialUpload
    deleted = wire.build_delete_schema(resource.id_field + "s", wrapped=True)
    return (
        Endpoint(
            f"{noun}s.upload", "POST", root, _UPLOAD, "upload", resource.upload, schema=resource.parse_upload,
            about=EndpointTexts(f"Upload {noun}s", tag, build_upload_schema(noun), {200: uploaded}, _DRY_RUN),
        ),
        Endpoint(
            f"{noun}s.delete_many", "POST", root + "/_delete", _UPLOAD, "detail", resource.delete_many,
            schema=resource.parse_delete, about=EndpointTexts(f"Delete {noun}s", tag, deleted, {200: _TASK}),
        ),
        Endpoint(
            f"{noun}s.ids", "GET", root + "/_ids", _READ, "message", resource.list_ids,
            about=EndpointTexts(
                f"List all {noun} ids", tag, None, {200: wire.build_envelope(wire.IdList), 404: wire.NoDataSet}, by_type
            ),
        ),
        Endpoint(
            f"{noun}s.aggregate", "POST", root + "/_aggregate", _COUNT, "detail", counting.count,
            schema=counting.parse_body,
            about=EndpointTexts(f"Count values of a {noun} field", tag, wire.AggregateBody, counted),
        ),
        Endpoint(
            f"{noun}s.aggregate_by_query", "GET", root + "/_aggregate", _READ, "detail", counting.count,
            schema=counting.parse_query,
            about=EndpointTexts(f"Count values of a {noun} field", tag, None, counted, fields),
        ),
        Endpoint(
            f"{noun}s.status", "GET", root + "/_status/{task_id}", _READ, "message", resource.status,
            about=EndpointTexts("Read the progress of a task", tag, None, {200: wire.TaskReply, **lost}),
        ),
        Endpoint(
            f"{noun}s.read", "GET", item, _READ, "message", resource.read, schema=resource.parse_id, hot=True,
            about=EndpointTexts(f"Read one {noun}", tag, None, {200: stored, **lost}),
        ),
        Endpoint(
            f"{noun}s.delete_one", "DELETE", item, _REMOVE, "message", resource.delete_one, schema=resource.parse_id,
            about=EndpointTexts(f"Delete one {noun}", tag, None, {200: _TASK}, _EVERYTHING if noun == "user" else {}),
        ),
    )  # fmt: skip


_RECOMMENDS: dict[QueryKind, str] = {
    "user_to_products": "Recommend products to a user",
    "user_to_categories": "Recommend categories to a user",
    "user_to_attributes": "Recommend values of a field to a user",
    "user_to_trending": "List trending products",
    "user_to_history": "List the products a user dealt with",
    "product_to_products": "Recommend products that go with others",
}
_RESULTS: dict[QueryKind, Any] = {
    "user_to_categories": wire.CategoriesReply,
    "user_to_attributes": wire.AttributesReply,
}


def _recommendations(resource: RecommendationResource) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            f"recommendation.{kind}", "POST", f"/v1/recommendation/{kind}", _ASK, "detail",
            resource.build_answer(kind), schema=resource.body_parser(kind), hot=True,
            about=EndpointTexts(
                _RECOMMENDS[kind], "Recommendation", body,
                {200: wire.build_envelope(_RESULTS.get(kind, wire.ProductsReply)), 404: wire.MessageReply},
            ),
        )
        for kind, body in BODIES.items()
    )  # fmt: skip
