"""What the endpoints that answer queries depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.serving.client import RecommenderClient
from cluster.clock import Clock
from cluster.ids import ServiceId
from deployments.api.http.query_log_writer import QueryLog
from deployments.api.http.query_treatment import QueryTreatment
from deployments.api.http.served_log_writer import ServedLogWriter


@dataclass(frozen=True, slots=True)
class QueryServices:
    """Rules and experiments, the engines, and the logs of queries and answers."""

    treatment: QueryTreatment
    recommender: RecommenderClient
    clock: Clock
    new_service_id: Callable[[], ServiceId]
    query_log: QueryLog
    served_log: ServedLogWriter | None
