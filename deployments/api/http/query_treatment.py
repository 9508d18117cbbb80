"""From a query to its result: what experiments and stored rules make of it, then the engine.

experiments (engine, snapshot, rule of the reader's variant) -> stored rules -> engine -> how it went is counted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from actors.experiments.client import ExperimentClient
from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RecommenderClient, StoredRules
from cluster.errors import Invalid
from deployments.api.http.browser_writes import limit_new_users
from deployments.api.http.confidential_fields import remove_hidden_fields
from deployments.edge.request import ApiRequest


class QueryTreatment:
    """Answers the queries of readers, each with the variants the reader is given."""

    def __init__(self, client: RecommenderClient, rules: StoredRules, experiments: ExperimentClient) -> None:
        self._client = client
        self._rules = rules
        self._treatments = experiments.treatments

    async def answer(self, request: ApiRequest) -> RecommendationResult:
        """Answer the parsed query of a request.

        Errors:
            as `RecommenderClient.answer`
        Cost:
            next to nothing over rules and engine for apps without a running experiment that serves
        """
        query: UserQuery = request.parsed
        met = await self._treatments.assign(
            query.app_id, query.engine_id, query.reader_ids,
            through=query.kind, device=classify_device(request.user_agent),
            # Answers from pages take a user id that nobody proved where `prove_writers` is off.
            writer=partial(limit_new_users, request, "" if query.question is not None else query.user_id),
        )  # fmt: skip
        if not met:
            return remove_hidden_fields(
                request, query, await self._client.answer(await self._rules.apply(query))
            )
        started_s, failed = request.clock.monotonic_s(), True
        try:
            found = await self._client.answer(await self._rules.apply(apply_treatments(query, met)))
            failed = False
            return remove_hidden_fields(request, query, found)
        except Invalid:
            failed = False
            raise
        finally:
            took_ms = (request.clock.monotonic_s() - started_s) * 1000
            self._treatments.record(met, took_ms, failed=failed)


def apply_treatments(query: UserQuery, met: Sequence[ExperimentTreatment]) -> UserQuery:
    """Let a query obey the variants its reader was given; of two that want another engine or snapshot the older
    one has it."""
    engine_id, snapshot, rules = query.engine_id, "", list(query.rule_names)
    for treatment in met:
        variant = treatment.variant
        if engine_id == query.engine_id and not snapshot:
            engine_id, snapshot = variant.engine_id or engine_id, variant.snapshot
        if variant.boost_rule and variant.boost_rule not in rules:
            rules.append(variant.boost_rule)
    return replace(query, engine_id=engine_id, snapshot=snapshot, rule_names=tuple(rules))


def classify_device(user_agent: str) -> str:
    """Sort a user agent into one of a few kinds, good enough to see that one of them breaks a split."""
    if "iPad" in user_agent or "Tablet" in user_agent:
        return "tablet"
    if "Mobi" in user_agent:
        return "phone"
    if user_agent.startswith("Mozilla/"):
        return "desktop"
    return "server" if user_agent else ""
