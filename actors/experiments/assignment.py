"""Who gets which variant: pure rules, the variants of a query, and the assigner that stores assignments.

    position(salt, user) = first 53 bits of SHA-256(salt + "\\n" + user) / 2^53          in [0, 1)

A user always has the same position under a salt, and positions under different salts are independent. Three salts
decide three things: `layer`, in which experiment of a layer a user may take part; `entry`, whether the user does;
`variant`, with which variant. Test vectors for other implementations:

    position("salt", "u:ada") = 0.8538240338385897
    position("salt", "a:ada") = 0.7497199796638994
    position("entry-5f0c", "u:Łukasz") = 0.577488983969
"""

from __future__ import annotations

import contextlib
import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from actors.experiments.messages import BOTH_VARIANTS, Assignment, ExperimentEvent, ExperimentTreatment
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.clock import Clock
from cluster.errors import NotFound, Unavailable, messages
from cluster.meter import Meter, SilentMeter
from cluster.records.experiment import LATENCY_MS, Experiment, Exposure, Variant
from cluster.records.question import Answer, Question
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.engines.experiments import GUARD, AssignMode, ExperimentBook, ExperimentStore
from cluster.store.refreshing_cache import RefreshingCache

MAX_AGE_S = 0.5
"""Maximal age of a cached entry. Schedules do not depend on it: every request compares them with the clock."""


@dataclass(frozen=True, slots=True)
class _CachedBook:
    book: ExperimentBook
    serving: tuple[Experiment, ...]
    questions: tuple[Experiment, ...]


class ExperimentCache:
    """Caches the experiments of the apps that receive requests."""

    def __init__(self, store: ExperimentStore, clock: Clock) -> None:
        self._store = store
        self._cache = RefreshingCache(self._load, clock, keep_s=MAX_AGE_S)

    async def find(self, app_id: str, named: str) -> Experiment | None:
        """Return an experiment by id or slug; read the store at once when the cache does not hold it."""
        cached = await self._cache.read(app_id)
        experiment = cached.book.find(named)
        if experiment is None:
            with contextlib.suppress(Unavailable):
                cached = await self._cache.refresh(app_id)
            experiment = cached.book.find(named)
        return experiment

    async def list_serving(self, app_id: str) -> tuple[Experiment, ...]:
        """Return the experiments whose variants change recommendations or completions, oldest first.

        Cost:
            a dictionary look-up; twice a second per app one read of a counter
        """
        return (await self._cache.read(app_id)).serving

    async def list_questions(self, app_id: str) -> tuple[Experiment, ...]:
        """Return the experiments whose unit is the question of an agent of the archive, oldest first.

        Errors and cost:
            as `list_serving`
        """
        return (await self._cache.read(app_id)).questions

    async def _load(self, app_id: str, last: _CachedBook | None) -> _CachedBook:
        if last is not None and await self._store.version(app_id) == last.book.version:
            return last
        book = await self._store.read_all(app_id)
        return _CachedBook(
            book,
            tuple(experiment for experiment in book.experiments if experiment.serves),
            tuple(experiment for experiment in book.experiments if experiment.method == "question"),
        )


_BITS = 53


def hash_position(salt: str, user_key: str) -> float:
    """Return the position of a user in [0, 1) under a salt.

    Cost:
        1 us
    """
    digest = hashlib.sha256(f"{salt}\n{user_key}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


def is_eligible(experiment: Experiment, user_key: str) -> bool:
    """Return whether a user is in the experiment's slice of its layer and in its share of the traffic."""
    if experiment.layer:
        first, last = experiment.slice
        if not first <= hash_position(f"layer {experiment.app_id} {experiment.layer}", user_key) < last:
            return False
    return experiment.admits(hash_position(experiment.entry_salt, user_key))


def select_variant(experiment: Experiment, user_key: str) -> Variant:
    """Return the variant at a user's position, among variants open to new users; the control when there is none."""
    open_variants = [
        variant for variant in experiment.variants if variant.status == "Active" and variant.weight > 0
    ]
    if not open_variants:
        return experiment.variants[0]
    at = hash_position(experiment.variant_salt, user_key) * sum(variant.weight for variant in open_variants)
    for variant in open_variants:
        at -= variant.weight
        if at < 0:
            return variant
    # Rounding may leave a rest after the last weight.
    return open_variants[-1]


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """The variant of a user, and the assignments to store."""

    in_experiment: bool
    variant: Variant
    remember: Mapping[str, str]
    "User id -> variant id: all ids of this person."
    forced: bool = False


def choose_variant(
    experiment: Experiment,
    user_keys: tuple[str, ...],
    remembered: Mapping[str, str],
    *,
    now_ms: int,
    variant_name: str | None = None,
) -> VariantChoice:
    """Choose the variant of a person with one or two ids, the user's first (`u:...`, then `a:...`).

    A stored variant stays, even if weights and traffic change. When an anonymous visitor logs in, the user's
    variant replaces the visitor's, and the visitor's replaces a new one.

    Errors:
        NotFound: there is no variant of that name
    """
    running = experiment.is_running_at(now_ms)
    if variant_name is not None:
        named = experiment.variant(variant_name)
        if named is None:
            raise NotFound(messages.VARIANT_NOT_FOUND)
        return VariantChoice(
            running, named, dict.fromkeys(user_keys, named.variant_id) if running else {}, forced=True
        )
    for user_key in user_keys:
        kept = experiment.variant(remembered.get(user_key, ""))
        if kept is not None:
            missing = [other for other in user_keys if remembered.get(other) != kept.variant_id]
            return VariantChoice(running, kept, dict.fromkeys(missing, kept.variant_id) if running else {})
    if not running or not is_eligible(experiment, user_keys[0]):
        return VariantChoice(False, experiment.variants[0], {})
    variant = select_variant(experiment, user_keys[0])
    return VariantChoice(True, variant, dict.fromkeys(user_keys, variant.variant_id))


# Assign the variants of queries that the API replica answers itself: recommendations and completions.
#
# A user who takes part and requests recommendations meets the variant with that request. The assigner records this
# exposure, so the client sends no event. Users without any id take no part: nothing identifies them at the next
# request.


_OVER: Final = "over"
MOST_GUARDED_MS: Final = 10_000
"A longer request counts as this for the mean latency: one outlier must not hide a slow variant."
MOST_GUARDED_REQUESTS: Final = 20
MOST_GUARDED_SHARE: Final = 1 / 400
"""Requests of one client that guardrails count in a day, and the share of the experiment's requests that they may be,
beside the first one. A client knows its variant and chooses requests that are slow, fail or find nothing. So it must
stay below half of the smallest default tolerance."""
MOST_GUARDED_CLIENTS: Final = 100_000
"With more clients, counting begins anew before the day ends."
MOST_PENDING_QUESTIONS: Final = 10_000
"Treated questions without an answer yet; of more, the oldest are not counted."
INTERLEAVED_KINDS: Final = frozenset({"user_to_products", "user_to_trending", "product_to_products"})


def _no_writer() -> BrowserWriteLimits | None:
    return None


class TreatmentAssigner:
    """Chooses, records and counts the variants of served requests."""

    def __init__(
        self, store: ExperimentStore, cache: ExperimentCache, clock: Clock, meter: Meter | None = None
    ) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock
        self._meter = meter or SilentMeter()
        self._counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._guarded: set[tuple[str, str]] = set()
        self._guarded_clients: Counter[tuple[str, str]] = Counter()
        "(experiment, client) -> requests on `_guarded_day` that guardrails counted; without a client: those of all."
        self._guarded_day = 0
        self._questions: dict[str, tuple[ExperimentTreatment, ...]] = {}
        "Question id -> treatments, until it is answered. Another replica that takes a question over counts nothing."

    async def find(self, app_id: str, experiment_id: str) -> Experiment | None:
        """Return an experiment from the cache, None when absent."""
        return await self._cache.find(app_id, experiment_id)

    async def assign(
        self,
        app_id: str,
        engine_id: str,
        user_keys: Sequence[str],
        *,
        through: str,
        device: str = "",
        only_rules: bool = False,
        writer: Callable[[], BrowserWriteLimits | None] = _no_writer,
    ) -> tuple[ExperimentTreatment, ...]:
        """Return the variants of a user of an engine, oldest experiment first, and record the exposure.

        With `only_rules` only the experiments with a stored rule count: engines and snapshots don't touch the request.
        When there is a new exposure to record, `writer` returns how many new users the caller may add. Without the
        store, the user gets the variant of the hash, which nearly all users have, and nothing is recorded.

        Cost:
            a dictionary look-up when no experiment of the app serves; else one trip to the store an experiment
        """
        if not user_keys:
            return ()
        try:
            serving = await self._cache.list_serving(app_id)
        except Unavailable:
            # Without the store, people get the usual answer: no experiment may fail a request.
            return ()
        if not serving:
            return ()
        now_ms = self._clock.now_ms()
        treatments = []
        for experiment in serving:
            if only_rules and not any(variant.boost_rule for variant in experiment.variants):
                continue
            if engine_id not in experiment.engines or not experiment.is_running_at(now_ms):
                continue
            if experiment.method == "interleave":
                if through in INTERLEAVED_KINDS and is_eligible(experiment, user_keys[0]):
                    treatments.append(
                        ExperimentTreatment(
                            app_id, experiment.experiment_id, BOTH_VARIANTS, interleaved=experiment
                        )
                    )
            else:
                met = Exposure("", now_ms, through=through, device=device)
                browser = writer()
                choice = await self._choose(experiment, tuple(user_keys), met, browser)
                if choice.in_experiment:
                    treatments.append(
                        ExperimentTreatment(
                            app_id,
                            experiment.experiment_id,
                            choice.variant,
                            choice.forced,
                            is_guarded=bool(experiment.guardrails),
                            # whoever has no proven id makes up as many as they like
                            client=user_keys[0] if browser is None else f"address:{browser.address}",
                        )
                    )
        return tuple(treatments)

    async def assign_question(self, app_id: str, question_id: str) -> tuple[ExperimentTreatment, ...]:
        """Return the variants of a question of an agent, oldest experiment first.

        The log of archive calls has the variants of each question, so nothing is recorded here.

        Cost:
            a dictionary look-up when no experiment of the app is about questions
        """
        try:
            experiments = await self._cache.list_questions(app_id)
        except Unavailable:
            return ()
        if not experiments:
            return ()
        now_ms = self._clock.now_ms()
        return tuple(
            ExperimentTreatment(app_id, experiment.experiment_id, select_variant(experiment, question_id))
            for experiment in experiments
            if experiment.is_running_at(now_ms) and is_eligible(experiment, question_id)
        )

    def record(
        self,
        treatments: Sequence[ExperimentTreatment],
        took_ms: float,
        *,
        failed: bool,
        is_empty: bool = False,
    ) -> None:
        """Count a treated request, its result and its latency."""
        at = bisect_left(LATENCY_MS, took_ms)
        bucket = str(LATENCY_MS[at]) if at < len(LATENCY_MS) else _OVER
        for treatment in treatments:
            counts = self._counts[treatment.app_id, treatment.experiment_id]
            counts[f"{treatment.variant.variant_id}:{'failed' if failed else bucket}"] += 1
            if treatment.is_guarded and not treatment.forced and self._counts_client(treatment):
                self._guarded.add((treatment.app_id, treatment.experiment_id))
                guard = f"{treatment.variant.variant_id}:{GUARD}"
                if failed:
                    counts[f"{guard}failed"] += 1
                    continue
                whole_ms = min(round(took_ms), MOST_GUARDED_MS)
                counts[f"{guard}answered"] += 1
                counts[f"{guard}empty"] += is_empty
                counts[f"{guard}ms"] += whole_ms
                # The sum of squares gives the variance.
                counts[f"{guard}ms_ms"] += whole_ms * whole_ms

    def expect_answer(self, question_id: str, treatments: tuple[ExperimentTreatment, ...]) -> None:
        """Keep the treatments of a question until `record_answer`."""
        if len(self._questions) >= MOST_PENDING_QUESTIONS:
            del self._questions[next(iter(self._questions))]
        self._questions[question_id] = treatments

    def record_answer(self, question: Question, answer: Answer) -> None:
        """Count the answer of a question, if the question was treated."""
        treatments = self._questions.pop(question.question_id, None)
        if treatments is not None:
            reason = answer.public_finish_reason
            self.record(
                treatments,
                self._clock.now_ms() - question.asked_at,
                failed=reason == "error",
                is_empty=reason == "no_answer",
            )

    def _counts_client(self, treatment: ExperimentTreatment) -> bool:
        """Return whether guardrails count one request more of the client."""
        day = self._clock.now_ms() // DAY_MS
        if day != self._guarded_day or len(self._guarded_clients) >= MOST_GUARDED_CLIENTS:
            self._guarded_clients.clear()
            self._guarded_day = day
        key = (treatment.experiment_id, treatment.client)
        total = (treatment.experiment_id, "")
        counted = self._guarded_clients[key]
        if counted >= min(MOST_GUARDED_REQUESTS, 1 + MOST_GUARDED_SHARE * self._guarded_clients[total]):
            return False
        self._guarded_clients[key] += 1
        self._guarded_clients[total] += 1
        return True

    def take_guarded(self) -> set[tuple[str, str]]:
        """Return apps and ids of the experiments with guardrails that were served since the last call."""
        guarded = self._guarded
        self._guarded = set()
        return guarded

    async def flush_experiment(self, app_id: str, experiment_id: str) -> None:
        """Write the counts of one experiment to the store; keep them if the store refuses them."""
        counts = self._counts.pop((app_id, experiment_id), None)
        if counts:
            try:
                await self._store.record_served(app_id, experiment_id, counts)
            except Unavailable:
                self._counts[app_id, experiment_id].update(counts)
                raise

    async def flush(self) -> None:
        """Write the counts to the store; keep those that the store refuses for the next time."""
        for name in list(self._counts):
            try:
                await self.flush_experiment(*name)
            except Unavailable:
                return

    async def _choose(
        self,
        experiment: Experiment,
        user_keys: tuple[str, ...],
        met: Exposure,
        writer: BrowserWriteLimits | None,
    ) -> VariantChoice:
        now_ms = met.at_ms
        fresh = choose_variant(experiment, user_keys, {}, now_ms=now_ms)
        proposed = replace(met, variant_id=fresh.variant.variant_id) if fresh.remember else None
        try:
            stored = await self._store.assign(experiment, user_keys, proposed, "take", writer)
        except Unavailable:
            self._meter.count("kiosk_exposure_misses_total")
            return fresh
        if stored is None:
            return fresh
        choice = choose_variant(experiment, user_keys, {user_keys[0]: stored.variant_id}, now_ms=now_ms)
        return replace(choice, forced=stored.forced)


# Assign users to variants permanently. All state is in the store, so any number of assigners give the same results.
#
# choose by hash -> get or set in the store, in one step -> the user gets the stored variant


class ExperimentAssigner:
    """Assigns users to variants."""

    def __init__(self, store: ExperimentStore, clock: Clock, cache: ExperimentCache | None = None) -> None:
        self._store = store
        self._clock = clock
        self._cache = cache or ExperimentCache(store, clock)

    async def record(self, event: ExperimentEvent) -> Assignment:
        """Record an event and return the variant of its user; repeating the call returns the same and changes nothing.

        Errors:
            NotFound: the experiment does not exist
        """
        experiment = await self._cache.find(event.app_id, event.named)
        if experiment is None or experiment.method == "interleave":
            raise NotFound(messages.EXPERIMENT_NOT_FOUND)
        now_ms = self._clock.now_ms()
        user_keys = event.user_keys
        named = event.variant_name
        fresh = choose_variant(experiment, user_keys, {}, now_ms=now_ms, variant_name=named)
        if fresh.forced:
            if fresh.in_experiment:
                at_ms = _exposure_time(experiment, event, now_ms)
                exposure = Exposure(fresh.variant.variant_id, at_ms, forced=True, device=event.device)
                await self._store.assign(experiment, user_keys, exposure, "force", event.writer)
            return Assignment(fresh.in_experiment, fresh.variant)
        proposed = None
        if fresh.remember:
            proposed = Exposure(
                fresh.variant.variant_id, _exposure_time(experiment, event, now_ms), device=event.device
            )
        mode: AssignMode = "take" if experiment.is_running_at(now_ms) else "read"
        stored = await self._store.assign(experiment, user_keys, proposed, mode, event.writer)
        if stored is None:
            return Assignment(fresh.in_experiment, fresh.variant)
        # The store decides, as another process may have assigned the person meanwhile.
        final = choose_variant(experiment, user_keys, {user_keys[0]: stored.variant_id}, now_ms=now_ms)
        return Assignment(final.in_experiment, final.variant)


def _exposure_time(experiment: Experiment, event: ExperimentEvent, now_ms: int) -> int:
    """Return the time of the event, unless it is in the future or before the start of the experiment."""
    at_ms = now_ms if event.at_ms is None else event.at_ms
    return at_ms if max(experiment.starts_at, 0) <= at_ms <= now_ms else now_ms
