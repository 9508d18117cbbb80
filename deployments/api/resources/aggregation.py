"""Endpoints that count the values of a field over all users or products.

Records are read in slices and counted in a worker thread, so a large data set does not block the event loop.

Published in `docs/reference/rest.md`, `users-aggregate` and `products-aggregate`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from cluster.errors import FilterSyntax, Unavailable
from cluster.query.columnar.value_counts import FieldAggregate as Counted
from cluster.query.columnar.value_counts import count_values
from cluster.query.language.tree import Node
from cluster.records.validation.accepted_uploads import RecordNoun
from cluster.store.data.records import RecordStore
from deployments.api.wire.query_bodies import parse_filter
from deployments.api.wire.records import AggregateBody
from deployments.api.wire.validation_errors import refuse_filter, validate_body
from deployments.edge.http.replies import Reply, success
from deployments.edge.http.request import ApiRequest

_SLICE = 500
_PATIENCE_S = 30.0
_AT_ONCE = 2
"Counts of one noun at a time; others wait."


class AggregationResource:
    """The aggregation endpoint of one noun."""

    def __init__(self, noun: RecordNoun, records: RecordStore) -> None:
        self._noun = noun
        self._records = records
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def parse_body(self, request: ApiRequest) -> tuple[AggregateBody, Node | None]:
        """Validate the POST form."""
        return _read(request.payload, "body")

    def parse_query(self, request: ApiRequest) -> tuple[AggregateBody, Node | None]:
        """Validate the GET form; unknown parameters are ignored."""
        fields = {name: value for name, value in request.query.items() if name in AggregateBody.model_fields}
        return _read(fields, "query")

    async def count(self, request: ApiRequest) -> Reply:
        """Return the values of the field with their counts, the most frequent first."""
        body, tree = request.parsed
        async with self._turns:
            counted = await self._count(request.app_id, body, tree)
        values = [[value, count] for value, count in counted.values]
        return success({"field": body.field, "total": counted.total, "values": values})

    async def _count(self, app_id: str, body: AggregateBody, tree: Node | None) -> Counted:
        ids = await self._records.ids(app_id, self._noun)
        loop = asyncio.get_running_loop()
        # A thread can't be cancelled: after the client went away, it ends at its next slice.
        stopped = threading.Event()

        def slices() -> Iterator[Mapping[str, Any]]:
            for start in range(0, len(ids), _SLICE):
                if stopped.is_set():
                    raise Unavailable("nobody waits for the count any more")
                reading = self._records.get_many(app_id, self._noun, ids[start : start + _SLICE])
                # The connection to the store belongs to the event loop, so the loop reads for the thread.
                page = asyncio.run_coroutine_threadsafe(reading, loop).result(_PATIENCE_S)
                yield from (orjson.loads(record) for record in page if record is not None)

        def run() -> Counted:
            return count_values(
                slices(), body.field, size=body.size, include=body.include, exclude=body.exclude, fq=tree
            )

        try:
            return await loop.run_in_executor(None, run)
        except FilterSyntax as error:
            refuse_filter(error, str(error.facts.get("parameter", "fq")))
        finally:
            stopped.set()


def _read(values: Any, within: str) -> tuple[AggregateBody, Node | None]:
    body = validate_body(AggregateBody, values, within)
    return body, parse_filter(body.fq, "fq", within=within)
