"""The state of one engine: the overlay and global signals of the app, the engine's snapshot, and the item priors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.recommender.state.cold_start import ColdStartItems, ColdStartTracker
from actors.recommender.state.filtered_groups import FilteredGroupsCache
from actors.recommender.state.global_signals import (
    GlobalSignals,
    GlobalSignalsCache,
    PriorScores,
    Versions,
)
from actors.recommender.state.groups import Groups
from actors.recommender.state.live_cohorts import CohortValue, CohortVotes, LiveCohorts
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.vote_counts import zscores
from actors.retrieval.autocomplete.field_index import COUNTED
from actors.retrieval.autocomplete.field_indexes import FieldIndexes
from actors.retrieval.paragraphs.paragraph_scorer import AnalyzedPageCache
from actors.vectors.types import Floats, Mask, Matrix, Scores, Vector

LEARNED_COHORT = "learned:cohort"
LIVE_COHORT = "live:cohort"
"Names of the cohort component: with a snapshot that learned the cohort, and without."

# Combinations of attributes whose priors are kept; each holds several arrays of the length of the catalog.
_PROFILES = 16
_READERSHIPS = 4
"Sets of tiers whose priors are kept; each takes about 50 bytes for a product."
_CONTINUE_MS = 200
"Pause between two comparisons of cold-start products."


@dataclass(frozen=True, slots=True)
class BlendWeights:
    """Weights of the components of a score. Every component has spread 1 (docs/concepts/scoring.md, defaults).

    Source:
        chosen on online-retail-y1 (global time split) and amazon-toys (leave last out), overlay alone
    """

    together: float = 1.0
    "Products of the same sessions as those of the user's history."
    content: float = 0.8
    "Similarity to the vector of the profile."
    trend: float = 0.6
    "Decayed counts of a week."
    popular: float = 0.1
    "Logarithm of the counts of a month: gives the long tail an order."
    profile_in_trending: float = 0.3
    "Weight of the personal score in stretches of the trending list."
    prior_in_similar: float = 0.1
    "Weight of the prior in `product_to_products`."
    related: float = 1.0
    "Products in the `related_ids` of an anchor."
    long_tail: float = 0.02
    "Popularity beside a snapshot: it orders products that no other component scores."


@dataclass(frozen=True, slots=True)
class PriorComponent:
    """One component of the prior.

    Shapes:
        values: float32 [n], of spread 1 among what is offered
    """

    name: str
    weight: float
    "For users with a history."
    weight_new: float
    "For users without one."
    weight_unseen: float
    "For users with a history, in lists without its products."
    values: Scores


@dataclass(frozen=True, slots=True)
class ItemPriors:
    """The user-independent part of the scores of an engine.

    Shapes:
        offered: bool [n]; trend: float32 [n]; relative_popularity: float64 [n]
    """

    global_signals: GlobalSignals
    versions: Versions
    "Versions of the catalog and of the events, and the number of rows."
    offered: Mask
    "Rows that may be recommended."
    trend: Scores
    "Counts of a week, scaled to deviation 1; -inf where the product is not offered."
    relative_popularity: Floats
    "Counts of a month, scaled to maximum 1."
    leaders: tuple[int, ...]
    "Rows with the best trend, best first."
    components: tuple[PriorComponent, ...]
    prior: PriorScores
    "For users with a history."
    prior_new: PriorScores
    "For users without one."
    prior_unseen: PriorScores
    "For users with a history, in lists without its products."
    cold_start: ColdStartItems
    "Products with few interactions, and the products similar to them."
    readable: str = ""
    "Name of the accesses whose products count; empty: all products count."

    def __len__(self) -> int:
        """Count the rows with scores; rows added later have none."""
        return len(self.offered)

    @property
    def has_interactions(self) -> bool:
        """Return whether there is any vote, live or in the snapshot."""
        return self.global_signals.has_interactions or any(
            part.name.startswith("learned:") for part in self.components
        )

    @property
    def popularity_counts(self) -> Floats:
        """Return the popularity as counts, those of the most popular product being `COUNTED`.

        Completions take the logarithm, and that of shares would leave the long tail no order.

        Shapes:
            returns: float64 [n]
        """
        return self.relative_popularity * COUNTED

    def estimate_spread(self, vector: Vector) -> tuple[float, float]:
        """Return an estimate of mean and deviation of the similarity of all products to a vector, without a scan.

        Shapes:
            vector: float32 [d]
        """
        mean: Vector = self.global_signals.mean
        covariance: Matrix = self.global_signals.covariance
        # Variance of x.v over all x is v.C.v: no scan of the products.
        variance = float(vector @ covariance @ vector)
        return float(mean @ vector), max(variance, 1e-6) ** 0.5


@dataclass(frozen=True, slots=True)
class CohortScores:
    """The prior of users without history in one cohort.

    Shapes:
        vote_shares: float64 [n], shares of the cohort's votes, 0 where the product is not offered
    """

    name: str
    prior: PriorScores
    trend: PriorScores
    "The trend of all users, moved by the votes of the cohort."
    vote_shares: Floats


@dataclass(slots=True)
class _ReadablePriors:
    """Priors of the products that some users may read."""

    tracker: ColdStartTracker
    source: ItemPriors
    "The priors of all products, of the same moment."
    priors: ItemPriors
    built_ms: int


class EngineState:
    """The overlay that all engines of an app share, and the snapshot of one engine."""

    def __init__(
        self,
        overlay: Overlay,
        *,
        blend: BlendWeights | None = None,
        global_signals: GlobalSignalsCache | None = None,
        cohorts: LiveCohorts | None = None,
        completions: FieldIndexes | None = None,
    ) -> None:
        self.overlay = overlay
        self.catalog = overlay.catalog
        self.index = overlay.index
        self.texts = overlay.texts
        self.weights = BlendWeights() if blend is None else blend
        self.serving_model: ServingModel | None = None
        "The snapshot that ranks; None if it was built of products alone."
        self.serving_version = ""
        "Version of the snapshot, also of one for search and completions only."
        self.reranked_depth = 0
        "Number of best products that the re-ranker of the snapshot may move; 0 without one."
        self.completions = FieldIndexes() if completions is None else completions
        self.filtered_groups = FilteredGroupsCache()
        self.pages = AnalyzedPageCache()
        self._global_signals = GlobalSignalsCache(overlay) if global_signals is None else global_signals
        self._cohorts = LiveCohorts(overlay) if cohorts is None else cohorts
        self._cold_start = ColdStartTracker(overlay)
        self._item_priors: ItemPriors | None = None
        self.priors_position = ""
        "Position of the overlay when the item priors were computed."
        self._built_ms = 0
        self._erasures = overlay.erasures
        self._readable_priors: OrderedDict[str, _ReadablePriors] = OrderedDict()
        self._cohort_cache: OrderedDict[
            tuple[str, tuple[CohortValue, ...]], tuple[CohortVotes, CohortScores | None]
        ] = OrderedDict()

    def set_serving_model(self, model: ServingModel | None) -> None:
        """Replace the serving snapshot; None leaves the live components alone. The next query uses it."""
        self.serving_version = "" if model is None else model.version
        if model is not None and not model.learned.blend.parts:
            model = None  # live components rank better than a snapshot without interactions
        if model is not None:
            model.bind_rows(self.catalog.product_ids)
            votes = self.overlay.votes.get_counts(len(self.catalog))
            model.record_learned_votes(votes, self.overlay.count_votes_since(model.learned_until_ms))
        self.serving_model = model
        reranker = None if model is None else model.learned.reranker
        self.reranked_depth = 0 if reranker is None else reranker.candidates
        # What is new, and which products are established, depends on the snapshot: nothing carries over.
        self._cold_start = ColdStartTracker(self.overlay)
        self._cohort_cache.clear()
        self._readable_priors.clear()
        self._item_priors = None

    @property
    def is_complete(self) -> bool:
        """Return whether the priors have all cold-start products; if not, later calls add them."""
        return self._cold_start.is_complete

    def complete_priors(self, now_ms: int) -> Iterator[None]:
        """Compare all cold-start products in steps of about 10 ms, for use after loading."""
        self.get_item_priors(now_ms)
        while not self.is_complete:
            yield
            self._item_priors = None
            self.get_item_priors(now_ms)

    def get_item_priors(self, now_ms: int) -> ItemPriors:
        """Return the item priors, at most the refresh interval old.

        Cost:
            with a snapshot 2 ms more for 100,000 products when something changed; else nothing
        """
        signals = self._global_signals.get(now_ms)
        now = self._item_priors
        # cold-start products that no call compared yet: otherwise the scores would depend on the number of calls
        is_partial = not self._cold_start.is_complete and now_ms - self._built_ms >= _CONTINUE_MS
        if now is None or now.global_signals is not signals or is_partial:
            now = self._item_priors = self._build_priors(signals, self._cold_start)
            self.priors_position = signals.position
            self._built_ms = now_ms
            self._cohort_cache.clear()
        return now

    def get_readable_priors(self, tiers: frozenset[str], now_ms: int) -> ItemPriors:
        """Return the item priors as if products that a user with these tiers may not read did not exist.

        So interactions with locked products change nothing in the order of others.

        Cost:
            without locked products as `get_item_priors`; with them the same again for each set of tiers
        """
        source = self.get_item_priors(now_ms)
        name = self.completions.access_key_of(tiers)
        if not name:
            return source
        cached = self._readable_priors.get(name)
        if (
            cached is not None
            and cached.source is source
            and (cached.tracker.is_complete or now_ms - cached.built_ms < _CONTINUE_MS)
        ):
            return cached.priors
        tracker = ColdStartTracker(self.overlay) if cached is None else cached.tracker
        signals = self._global_signals.leave_out(source.global_signals, self.completions.hidden_rows(tiers))
        priors = replace(self._build_priors(signals, tracker), readable=name)
        self._readable_priors[name] = _ReadablePriors(tracker, source, priors, now_ms)
        if len(self._readable_priors) > _READERSHIPS:
            self._readable_priors.popitem(last=False)
        return priors

    def get_cohort_scores(
        self, profile: Mapping[str, Any], priors: ItemPriors, now_ms: int
    ) -> CohortScores | None:
        """Return the prior of users with these attributes; None when their cohort is unknown.

        Cost:
            3 ms for 100,000 products the first time, then nothing until the priors change
        """
        learned = None if self.serving_model is None else self.serving_model.learned.cohorts
        if not profile or (learned is None and not len(self._cohorts)):
            return None
        values = self._cohorts.resolve_values(profile, learned)
        if not values:
            return None
        votes = self._cohorts.count_votes(now_ms)
        key = (priors.readable, values)
        cached = self._cohort_cache.get(key)
        # `is`: the counts are replaced as a whole, so identity tells whether they changed.
        if cached is None or cached[0] is not votes:
            shares = self._cohorts.estimate_shares(values, votes, self.serving_model, len(priors))
            scores = None
            if shares is not None:
                is_learned = learned is not None and any(learned.find_row(*value) >= 0 for value in values)
                scores = self._build_cohort_scores(
                    shares, priors, LEARNED_COHORT if is_learned else LIVE_COHORT
                )
            cached = self._cohort_cache[key] = votes, scores
            if len(self._cohort_cache) > _PROFILES:
                # Attributes come from callers, so the number of their combinations has no bound.
                self._cohort_cache.popitem(last=False)
        return cached[1]

    def list_unknown_cohort_keys(self, profile: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the attributes that form no cohort, with the reason."""
        learned = None if self.serving_model is None else self.serving_model.learned.cohorts
        return list(self._cohorts.list_unknown_values(profile, learned))

    def prior_components(
        self, priors: ItemPriors, has_history: bool, *, unseen: bool = False
    ) -> Iterator[tuple[str, Scores]]:
        """Yield the name of each component of the prior and its addend by row.

        Shapes:
            yields: float32 [n]
        """
        for part in priors.components:
            weight = part.weight_new
            if has_history:
                weight = part.weight_unseen if unseen else part.weight
            if weight:
                yield part.name, part.values * np.float32(weight)
        yield "live:newest", priors.global_signals.newness

    def sum_group_popularity(self, groups: Groups[Any], priors: ItemPriors) -> Floats:
        """Return the sum of popularity of the products in every group, computed once for each version of the priors.

        Shapes:
            returns: float64 [groups]
        """
        return self._global_signals.sum_by_group(groups, priors.offered, priors.relative_popularity)

    def _build_priors(self, signals: GlobalSignals, tracker: ColdStartTracker) -> ItemPriors:
        if self.overlay.erasures != self._erasures and self.serving_model is not None:
            self._erasures = self.overlay.erasures
            self.serving_model.clear_caches()  # they hold scores from histories of erased users
        parts = list(self._list_components(signals))
        newcomers = (
            ColdStartItems() if self.serving_model is None else tracker.get_items(signals, self.serving_model)
        )
        if len(newcomers):
            parts.append(_inherit_prior(newcomers, parts))
        prior = _sum_prior([(part.weight, part.values) for part in parts], signals)
        # The same object where no part has weights of its own, so that no second array is kept.
        prior_unseen = prior
        if any(part.weight_unseen != part.weight for part in parts):
            prior_unseen = _sum_prior([(part.weight_unseen, part.values) for part in parts], signals)
        return ItemPriors(
            global_signals=signals,
            versions=signals.versions,
            offered=signals.offered,
            trend=signals.trend,
            relative_popularity=signals.relative_popularity,
            leaders=signals.leaders,
            components=tuple(parts),
            prior=prior,
            prior_unseen=prior_unseen,
            prior_new=_sum_prior([(part.weight_new, part.values) for part in parts], signals),
            cold_start=newcomers,
        )

    def _list_components(self, signals: GlobalSignals) -> Iterator[PriorComponent]:
        model = self.serving_model
        blend = self.weights
        trend = np.where(signals.offered, signals.trend, np.float32(0))
        if model is None:
            yield _live_component("live:trend", blend.trend, trend)
            yield _live_component("live:popular", blend.popular, signals.popularity)
            return
        # Only rows of these signals: a product added since has no place in their arrays.
        model.bind_rows(self.catalog.product_ids[: len(signals)])
        model.refresh(signals.votes)
        has_new_user_part = False
        for part, values in model.prior_contributions(signals.counts, signals.offered):
            # Without such a part, new users would be left with the long tail alone; they get the live
            # trend.
            has_new_user_part = has_new_user_part or part.weight_new > 0
            yield PriorComponent(
                f"learned:{part.name}",
                part.weight,
                part.weight_new,
                part.unseen_list_weight,
                zscores(values, signals.offered),
            )
        yield _live_component("live:popular", blend.long_tail, signals.popularity)
        if not has_new_user_part:
            yield PriorComponent("live:trend", 0.0, blend.trend, 0.0, trend)

    def _build_cohort_scores(self, shares: Floats, priors: ItemPriors, name: str) -> CohortScores:
        """Weigh the votes of the cohort above the prior of all users, which has the newest changes (equation 17)."""
        # max(1, sum of weights) z(share) + 1/2 prior of users without a history (equation 17)
        weight = max(1.0, sum(part.weight_new for part in priors.components))
        signals = [(part.weight_new / 2, part.values) for part in priors.components]
        cohort = zscores(shares, priors.offered)
        trend = np.where(priors.offered, priors.trend, np.float32(0))
        return CohortScores(
            name,
            _sum_prior([*signals, (weight, cohort)], priors.global_signals),
            _sum_prior([(0.5, trend), (1.0, cohort)], priors.global_signals),
            np.where(priors.offered, shares, 0.0),
        )


def _inherit_prior(newcomers: ColdStartItems, parts: Sequence[PriorComponent]) -> PriorComponent:
    """Let cold-start items inherit the prior of similar products (equation 6)."""
    values = np.zeros(len(parts[0].values), np.float32)
    for part in parts:
        values[newcomers.rows] += newcomers.inherit_by_row(part.values) * np.float32(
            max(part.weight, part.weight_new)
        )
    # Inheritance only raises: a new product is not at fault for unpopular neighbours.
    np.maximum(values, 0.0, out=values)
    # with a history, scores from features replace the inherited prior
    weight = 1.0 if newcomers.features is None else 0.0
    return PriorComponent("new:content", weight, 1.0, weight, values)


def _live_component(name: str, weight: float, values: Scores) -> PriorComponent:
    """Return a component that has the same weight for all users and lists."""
    return PriorComponent(name, weight, weight, weight, values)


def _sum_prior(parts: list[tuple[float, Scores]], signals: GlobalSignals) -> PriorScores:
    scores = signals.newness.copy()
    for weight, values in parts:
        if weight:
            scores += np.float32(weight) * values
    # Last: nothing added later may raise a product that is not offered.
    scores[~signals.offered] = -np.inf
    return PriorScores.of(scores)
