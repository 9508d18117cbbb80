"""What endpoints tell of the queries they answered. One line each; nothing here waits or fails."""

from __future__ import annotations

from typing import Protocol

from cluster.records.logged_query import QueryKind
from deployments.edge.request import ApiRequest


class QueryLog(Protocol):
    """Takes note of answered queries; who asked and how long it took is read from the request."""

    def record(
        self,
        request: ApiRequest,
        kind: QueryKind,
        text: str,
        *,
        total: int,
        language: str = "",
        served_by: str = "",
        engine_id: str = "",
    ) -> None:
        """Note a query. Cost: a few microseconds; it never raises."""
        ...


class DisabledQueryLog:
    """Notes nothing."""

    def record(
        self,
        request: ApiRequest,
        kind: QueryKind,
        text: str,
        *,
        total: int,
        language: str = "",
        served_by: str = "",
        engine_id: str = "",
    ) -> None:
        """Do nothing."""
