"""Changes a query by experiments and stored rules, before the engine answers it.

experiments (engine, snapshot, rule of the user's variant) -> stored rules
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType

from actors.experiments.client import ExperimentClient
from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import UserQuery
from actors.serving.client import PREVIEW, StoredRules, apply_treatments
from cluster.clock import Clock
from cluster.errors import Invalid
from cluster.ids import DEFAULT_ENGINE
from cluster.records.question import Answer, Question
from deployments.api.http.browser_writes import find_new_user_limits
from deployments.edge.http.request import ApiRequest


class TreatmentOutcome:
    """Counts how the query of a treated user ended, when its `with` block ends: latency, and failure or success."""

    __slots__ = ("_clock", "_record", "_started_s", "is_empty", "treatments")

    def __init__(
        self, record: Callable[..., None], treatments: Sequence[ExperimentTreatment], clock: Clock
    ) -> None:
        self._record = record
        self.treatments = treatments
        self.is_empty = False
        "Whether the answer showed nothing; set inside of the block."
        self._clock = clock
        self._started_s = clock.monotonic_s() if treatments else 0.0

    def __enter__(self) -> None:
        """Return nothing: the clock runs since the treatments are known."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Count the outcome; an invalid query is no failure of the variant."""
        if self.treatments:
            took_ms = (self._clock.monotonic_s() - self._started_s) * 1000
            failed = kind is not None and not issubclass(kind, Invalid)
            self._record(self.treatments, took_ms, failed=failed, is_empty=self.is_empty)


class QueryTreatment:
    """One step between a parsed query and its engine: it changes the query and answers nothing."""

    def __init__(self, rules: StoredRules, experiments: ExperimentClient, clock: Clock) -> None:
        self._rules = rules
        self._treatments = experiments.treatments
        self._no_outcome = TreatmentOutcome(self._treatments.record, (), clock)

    async def apply(self, request: ApiRequest) -> tuple[UserQuery, TreatmentOutcome]:
        """Return the parsed query of a request with its treatments and rules, and the counter of its outcome.

        The engine answers inside of a `with` block of the counter.

        Cost:
            without a running experiment: one dictionary look-up more than the rules
        """
        query: UserQuery = request.parsed
        preview = PREVIEW.get()
        if preview is not None:
            # Without the id of an answer, nothing is explored: a preview leaves no row in the log.
            tried = replace(query, service_id="", snapshot=preview.snapshot or query.snapshot)
            return await self._rules.apply(tried), self._no_outcome
        treatments = await self._treatments.assign(
            query.app_id,
            query.engine_id,
            query.user_keys,
            through=query.kind,
            device=classify_device(request.user_agent),
            # Browsers may name an unproven user id if the app has `prove_writers` off.
            writer=partial(
                find_new_user_limits, request, "" if query.question is not None else query.user_id
            ),
        )
        if not treatments:
            return await self._rules.apply(query), self._no_outcome
        outcome = TreatmentOutcome(self._treatments.record, treatments, request.clock)
        treated = await self._rules.apply(apply_treatments(query, treatments, request.clock.now_ms()))
        if treated.interleaving is not None:
            # Both sides get the stored rules, so that they differ in what is compared only.
            rival = await self._rules.apply(treated.interleaving.rival)
            treated = replace(treated, interleaving=replace(treated.interleaving, rival=rival))
        return treated, outcome

    async def apply_variants(
        self, request: ApiRequest, query: UserQuery
    ) -> tuple[UserQuery, TreatmentOutcome]:
        """Return a query of `/v1/ask/search` with the variants of its user; stored rules apply only by a variant."""
        treatments = await self._treatments.assign(
            query.app_id,
            query.engine_id,
            query.user_keys,
            through="ask_search",
            device=classify_device(request.user_agent),
            writer=partial(find_new_user_limits, request, query.user_id),
        )
        if not treatments:
            return query, self._no_outcome
        treated = await self._rules.apply_named(apply_treatments(query, treatments, request.clock.now_ms()))
        return treated, TreatmentOutcome(self._treatments.record, treatments, request.clock)

    async def apply_to_question(self, request: ApiRequest, question: Question) -> Question:
        """Return a question that prefers the products of its user's variants: the `boost_fq` of their stored rules.

        Its answer counts for the variants when it is finished.
        """
        # a visitor whose id Kiosk made up from the request is another one tomorrow
        visitor = question.anonymous_id if request.payload.get("anonymous_id") else ""
        query = UserQuery("search", question.app_id, DEFAULT_ENGINE, question.user_id, visitor)
        treatments = await self._treatments.assign(
            query.app_id,
            query.engine_id,
            query.user_keys,
            through="ask_questions",
            device=classify_device(request.user_agent),
            only_rules=True,
            writer=partial(find_new_user_limits, request, question.user_id),
        )
        if treatments:
            self._treatments.expect_answer(question.question_id, treatments)
        names = {treatment.variant.boost_rule for treatment in treatments}
        if not any(names):
            return question
        rules = await self._rules.get_rules(query.app_id, query.engine_id)
        preferred = [
            ready.rule.boost_fq for ready in rules if ready.rule.name in names and ready.rule.boost_fq
        ]
        clauses = [f"({clause})" for clause in (question.boost_fq, *preferred) if clause.strip()]
        return question.model_copy(update={"boost_fq": " OR ".join(clauses)})

    def record_failed_question(self, question: Question) -> None:
        """Count a question that could not be accepted."""
        self._treatments.record_answer(question, Answer(finish_reason="error"))


def classify_device(user_agent: str) -> str:
    """Classify a user agent into a few kinds, enough to notice that one kind breaks a split."""
    # Older iPads also send `Mobile`, so tablets are looked for first.
    if "iPad" in user_agent or "Tablet" in user_agent:
        return "tablet"
    if "Mobi" in user_agent:
        return "phone"
    if user_agent.startswith("Mozilla/"):
        return "desktop"
    return "server" if user_agent else ""
