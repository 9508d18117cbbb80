"""Applies experiments and stored rules to a query, then sends it to the engine.

experiments (engine, snapshot, rule of the user's variant) -> stored rules -> engine -> outcome is counted
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
    """Answers queries with the variants that each user is assigned to."""

    def __init__(self, client: RecommenderClient, rules: StoredRules, experiments: ExperimentClient) -> None:
        self._client = client
        self._rules = rules
        self._treatments = experiments.treatments

    async def answer(self, request: ApiRequest) -> RecommendationResult:
        """Return the result of the parsed query of a request.

        Errors:
            those of `RecommenderClient.answer`
        Cost:
            without a running experiment: one dictionary look-up more than rules and engine
        """
        query: UserQuery = request.parsed
        met = await self._treatments.assign(
            query.app_id, query.engine_id, query.reader_ids,
            through=query.kind, device=classify_device(request.user_agent),
            # Browsers may name an unproven user id if the app has `prove_writers` off.
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
    """Apply the variants of a user to a query; of two that set engine or snapshot, the older experiment wins."""
    engine_id, snapshot, rules = query.engine_id, "", list(query.rule_names)
    for treatment in met:
        variant = treatment.variant
        if engine_id == query.engine_id and not snapshot:
            engine_id, snapshot = variant.engine_id or engine_id, variant.snapshot
        if variant.boost_rule and variant.boost_rule not in rules:
            rules.append(variant.boost_rule)
    return replace(query, engine_id=engine_id, snapshot=snapshot, rule_names=tuple(rules))


def classify_device(user_agent: str) -> str:
    """Classify a user agent into a few kinds, enough to notice that one kind breaks a split."""
    if "iPad" in user_agent or "Tablet" in user_agent:
        return "tablet"
    if "Mobi" in user_agent:
        return "phone"
    if user_agent.startswith("Mozilla/"):
        return "desktop"
    return "server" if user_agent else ""
