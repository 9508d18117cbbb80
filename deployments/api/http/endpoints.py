"""The one table of endpoints: what the door answers, what the framework routes, what the OpenAPI page lists.

Source: reference section 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.experiments.client import ExperimentClient, LocalExperimentAdmin, LocalExperimentClient
from actors.history.client import LocalHistoryClient
from actors.recommender.messages import Kind
from actors.search.client import BankClient
from actors.serving.client import RecommenderClient, StoredRules
from cluster import ids
from cluster.artifacts.artifact_store import Shelf
from cluster.clock import Clock
from cluster.records.validation.schema import record_schema
from cluster.store.ports.stores import Stores
from deployments.api.http.endpoint import About, Endpoint
from deployments.api.http.query_log import QueryLog, SilentQueryLog
from deployments.api.http.query_treatment import TreatedQueries
from deployments.api.resources.aggregation import Aggregation
from deployments.api.resources.ask_table import ask_endpoints
from deployments.api.resources.bulk import BulkCalls
from deployments.api.resources.completions import Completions
from deployments.api.resources.experiment_admin import ExperimentAdmin
from deployments.api.resources.experiment_table import experiment_endpoints
from deployments.api.resources.experiments import ExperimentEvents
from deployments.api.resources.generation import generation_endpoint
from deployments.api.resources.history import History
from deployments.api.resources.history_table import history_endpoints, history_resources
from deployments.api.resources.interactions import Interactions
from deployments.api.resources.products import Products
from deployments.api.resources.question_answers import QuestionAnswers
from deployments.api.resources.question_answers_table import qa_endpoints
from deployments.api.resources.question_bank import QuestionBanks
from deployments.api.resources.questions import AskMeans
from deployments.api.resources.recommendation import BODIES, Recommendations
from deployments.api.resources.records import Records
from deployments.api.resources.search import Searches
from deployments.api.resources.suggested_queries import BankSuggestions
from deployments.api.resources.threads import HistoryResources
from deployments.api.resources.users import Users
from deployments.api.wire import records as wire
from deployments.api.wire.autocomplete import Autocomplete, FoundCompletions
from deployments.api.wire.bulk import Bulk, FoundInBulk
from deployments.api.wire.search import FoundBySearch, ManyProducts, NamedProducts, Search
from deployments.edge.admission import Rules

_READ = Rules()
_UPLOAD = Rules(bucket="write", writes=True, body="raw")
_REMOVE = Rules(bucket="write", writes=True)
_ASK = Rules(publishable=True, body="json", reads_token=True, proves_reader=True)
_STREAM = Rules(publishable=True, writes=True, body="raw", reads_token=True, browser_bytes=256 << 10)
_COUNT = Rules(body="json")
_MANY = Rules(publishable=True, body="json")

_DRY_RUN = {"dry_run": {"type": "string", "enum": ["0", "1"]}}
_EVERYTHING = {
    "everything": {
        "type": "string",
        "enum": ["true"],
        "description": "Everything known of the person goes; `task_id` names the receipt at `_erasures/{task_id}`.",
    }
}
_TASK = wire.enveloped(wire.TaskId)


@dataclass(frozen=True, slots=True)
class Means:
    """What the handlers work with."""

    stores: Stores
    recommender: RecommenderClient
    clock: Clock
    experiments: ExperimentClient | None = None
    "None: experiments are looked after in this process."
    query_log: QueryLog = field(default_factory=SilentQueryLog)
    history: LocalHistoryClient | None = None
    "None: threads are looked after in this process, and nobody answers their questions again."
    ask: AskMeans | None = None
    "None: nobody answers questions here."
    shelf: Shelf | None = None
    "None: nothing settles here, so reports of experiments know no conversions."
    new_task_id: Callable[[], ids.TaskId] = ids.new_task_id
    new_service_id: Callable[[], ids.ServiceId] = ids.new_service_id


def endpoints(means: Means) -> tuple[Endpoint, ...]:
    """Make the table."""
    users = Users(means.stores, means.clock, means.new_task_id)
    products = Products(means.stores, means.clock, means.new_task_id)
    rules = StoredRules(means.stores.boost_rules, means.clock)
    experiments = means.experiments or LocalExperimentClient(means.stores.experiments, means.clock)
    queries = TreatedQueries(means.recommender, rules, experiments)
    history = means.history or LocalHistoryClient(means.stores, means.clock)
    banks = BankClient(means.stores.question_bank)
    suggestions = BankSuggestions(banks, means.recommender)
    table = (
        *_interactions(Interactions(means.stores.interactions, means.stores.records, means.clock)),
        *_erasures(users),
        *_records(users, Aggregation("user", means.stores.records), wire.enveloped(wire.StoredUser)),
        *_records(
            products, Aggregation("product", means.stores.records), wire.Shown | wire.enveloped(wire.Shown)
        ),
        *_recommendations(Recommendations(queries, means.clock, means.new_service_id)),
        *_search(
            Searches(queries, means.recommender, means.clock, means.new_service_id, means.query_log),
            Completions(queries, means.clock, means.new_service_id, means.query_log, suggestions),
        ),
        *experiment_endpoints(
            ExperimentEvents(experiments, means.clock),
            ExperimentAdmin(LocalExperimentAdmin(means.stores, means.shelf, means.clock)),
        ),
        *qa_endpoints(
            QuestionBanks(means.stores.question_bank, banks, means.new_service_id),
            QuestionAnswers(queries, means.new_service_id, means.query_log),
        ),
        *history_endpoints(History(history)),
        *history_resources(HistoryResources(history)),
        generation_endpoint(),
    )
    if means.ask is not None:
        asking = ask_endpoints(
            means.ask, means.recommender, means.new_service_id, means.query_log, suggestions
        )
        table = (*table, *asking)
    # last: a bulk call asks whatever stands above
    return (*table, *_bulk(BulkCalls(table)))


def _search(searches: Searches, completions: Completions) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "search.search", "POST", "/v1/search/search", _ASK, "detail", searches.answer,
            schema=searches.read, hot=True,
            about=About(
                "Search products", "Search", Search, {200: wire.enveloped(FoundBySearch), 404: wire.Told},
            ),
        ),
        Endpoint(
            "search.mget", "POST", "/v1/search/mget", _ASK, "detail", searches.answer_named,
            schema=searches.read_named, hot=True,
            about=About(
                "Read products by id", "Search", ManyProducts,
                {200: wire.enveloped(NamedProducts), 404: wire.Told},
            ),
        ),
        Endpoint(
            "search.autocomplete", "POST", "/v1/search/autocomplete", _ASK, "detail", completions.answer,
            schema=completions.read, hot=True,
            about=About(
                "Complete a search", "Search", Autocomplete,
                {200: wire.enveloped(FoundCompletions), 404: wire.Told},
            ),
        ),
    )  # fmt: skip


def _bulk(desk: BulkCalls) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "bulk", "POST", "/v1/bulk", _MANY, "detail", desk.answer, schema=desk.read,
            about=About("Send several queries at once", "Bulk", Bulk, {200: FoundInBulk}),
        ),
    )  # fmt: skip


def _interactions(desk: Interactions) -> tuple[Endpoint, ...]:
    path, tag = "/v1/interactions", "Interactions"
    erase = wire.delete_schema("user_ids", wrapped=False)
    alias = wire.delete_schema("user_ids", wrapped=True)
    return (
        Endpoint(
            "interactions.upload", "POST", path, _STREAM, "upload", desk.upload, schema=desk.read_upload, hot=True,
            about=About(
                "Send interactions", tag, record_schema("interaction"), {200: wire.UploadedInteractions}, _DRY_RUN
            ),
        ),
        Endpoint(
            "interactions.erase", "DELETE", path, _UPLOAD, "detail", desk.erase, schema=desk.read_erase,
            about=About("Erase users' interactions", tag, erase, {200: wire.Told}),
        ),
        Endpoint(
            "interactions.erase_alias", "POST", path + "/_delete", _UPLOAD, "detail", desk.erase,
            schema=desk.read_erase,
            about=About("Erase users' interactions (form of some SDKs)", tag, alias, {200: wire.Told}),
        ),
    )  # fmt: skip


def _erasures(users: Users) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "users.erasure", "GET", "/v1/users/_erasures/{erasure_id}", _READ, "message", users.receipt,
            about=About(
                "Read the receipt of an erasure", "Users", None,
                {200: wire.enveloped(wire.ErasureReceipt), 404: wire.Told},
            ),
        ),
    )  # fmt: skip


def _records(desk: Records, counting: Aggregation, stored: Any) -> tuple[Endpoint, ...]:
    noun, base = desk.noun, f"/v1/{desk.noun}s"
    one, tag = f"{base}/{{{desk.id_field}}}", f"{desk.noun}s".capitalize()
    lost: Mapping[int, Any] = {404: wire.Told}
    counted: Mapping[int, Any] = {200: wire.enveloped(wire.Counts), **lost}
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
    deleted = wire.delete_schema(desk.id_field + "s", wrapped=True)
    return (
        Endpoint(
            f"{noun}s.upload", "POST", base, _UPLOAD, "upload", desk.upload, schema=desk.read_upload,
            about=About(f"Upload {noun}s", tag, record_schema(noun), {200: uploaded}, _DRY_RUN),
        ),
        Endpoint(
            f"{noun}s.delete_many", "POST", base + "/_delete", _UPLOAD, "detail", desk.delete_many,
            schema=desk.read_delete, about=About(f"Delete {noun}s", tag, deleted, {200: _TASK}),
        ),
        Endpoint(
            f"{noun}s.ids", "GET", base + "/_ids", _READ, "message", desk.list_ids,
            about=About(
                f"List all {noun} ids", tag, None, {200: wire.enveloped(wire.IdList), 404: wire.NoDataSet}, by_type
            ),
        ),
        Endpoint(
            f"{noun}s.aggregate", "POST", base + "/_aggregate", _COUNT, "detail", counting.count,
            schema=counting.read_body, about=About(f"Count values of a {noun} field", tag, wire.Aggregate, counted),
        ),
        Endpoint(
            f"{noun}s.aggregate_by_query", "GET", base + "/_aggregate", _READ, "detail", counting.count,
            schema=counting.read_query, about=About(f"Count values of a {noun} field", tag, None, counted, fields),
        ),
        Endpoint(
            f"{noun}s.status", "GET", base + "/_status/{task_id}", _READ, "message", desk.status,
            about=About("Read the progress of a task", tag, None, {200: wire.TaskReply, **lost}),
        ),
        Endpoint(
            f"{noun}s.read", "GET", one, _READ, "message", desk.read, schema=desk.read_id, hot=True,
            about=About(f"Read one {noun}", tag, None, {200: stored, **lost}),
        ),
        Endpoint(
            f"{noun}s.delete_one", "DELETE", one, _REMOVE, "message", desk.delete_one, schema=desk.read_id,
            about=About(f"Delete one {noun}", tag, None, {200: _TASK}, _EVERYTHING if noun == "user" else {}),
        ),
    )  # fmt: skip


_RECOMMENDS: dict[Kind, str] = {
    "user_to_products": "Recommend products to a user",
    "user_to_categories": "Recommend categories to a user",
    "user_to_attributes": "Recommend values of a field to a user",
    "user_to_trending": "List trending products",
    "user_to_history": "List the products a user dealt with",
    "product_to_products": "Recommend products that go with others",
}
_FOUND: dict[Kind, Any] = {
    "user_to_categories": wire.FoundCategories,
    "user_to_attributes": wire.FoundAttributes,
}


def _recommendations(desk: Recommendations) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            f"recommendation.{kind}", "POST", f"/v1/recommendation/{kind}", _ASK, "detail",
            desk.answerer(kind), schema=desk.reader(kind), hot=True,
            about=About(
                _RECOMMENDS[kind], "Recommendation", body,
                {200: wire.enveloped(_FOUND.get(kind, wire.FoundProducts)), 404: wire.Told},
            ),
        )
        for kind, body in BODIES.items()
    )  # fmt: skip
