"""The serving model: the snapshot of one engine, bound to the rows of the live catalog.

The snapshot scores items, the catalog has rows. Live components score products that the snapshot lacks. They do not
count again the votes that the snapshot has: `fresh` is the share of a product's votes that are newer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.blend import Blend, BlendPart
from actors.models.loading.snapshot_models import LoadedSnapshot, is_builtin
from actors.models.model import AccumulatingModel, Model, SharedScoresModel, SingleUserModel
from actors.models.popularity import PopularityModel
from actors.models.reranker import NEWEST_EVENTS
from actors.models.transformer import TransformerModel
from actors.models.user_histories import TimeDecay
from actors.models.user_history import UserHistory, compute_dense_scale, compute_sparse_scale
from actors.recommender.state.events import EVENT_WEIGHTS, offset_time_ms
from actors.recommender.state.interaction_rows import WeightedInteractions
from actors.recommender.state.score_components import DenseScores, SlotMap, SparseScores
from actors.recommender.state.vote_counts import DAY_MS, DecayedCounts
from actors.retrieval.autocomplete.snapshot_format import COMPLETIONS, CompletionSnapshot
from actors.retrieval.snapshot_format import SEARCH, SearchSnapshot
from actors.vectors.types import Codes, Floats, Mask, Rows, Scores, ensure_capacity

# Live counts with half of the learned votes hold the snapshot's past already (equation 5).
_ENOUGH_LIVE = 0.5
_MOST_HALVINGS = 100.0
"Half-lives between the compared time and the newest live vote; twice to five times as many would overflow."
_CONTENT = 0.7
"Weight of content scores relative to scores from interactions."
_FEW = 100
"Up to this number, names are looked up one by one."


SparseScorer = Callable[[UserHistory], tuple[npt.NDArray[np.integer], Scores]]
ScoreAdder = Callable[[Scores, UserHistory], int]


@dataclass(frozen=True, slots=True)
class ModelScorer:
    """One part of the blend that scores items for a single user."""

    name: str
    model: Model
    weight: float
    score_sparse: SparseScorer | None
    "The method `quick` of the model, if it has one."
    add_scores: ScoreAdder | None
    "The method `add_to` of the model, if it has one."
    is_builtin: bool
    """Whether the model is built in. Its arrays were validated; scores of custom models are checked at
    each call."""
    has_distinct_items: bool
    "Whether `score_sparse` names no item twice."


class ServingModel:
    """A loaded snapshot of an engine with the rows of its items."""

    def __init__(self, learned: LoadedSnapshot, product_ids: Sequence[str]) -> None:
        facts = learned.snapshot.manifest.facts
        self.version = learned.snapshot.version
        self.learned = learned
        self.recipe = str(facts["recipe"].get("name", ""))
        kept = learned.snapshot.parts.get(COMPLETIONS)
        self.completions = None if kept is None else CompletionSnapshot.load(self.version, kept, product_ids)
        "Autocomplete index of titles and other fields, built by the training run; None in older snapshots."
        searched = learned.snapshot.parts.get(SEARCH)
        self.search = None if searched is None else SearchSnapshot.load(self.version, searched)
        "Index of all product texts, built by the training run; None in older snapshots."
        self.newest_ms = int(float(facts["data"]["newest_s"]) * 1000)
        offset = facts.get("offsets", {}).get("interaction", "")
        self.learned_until_ms = offset_time_ms(offset) if offset else self.newest_ms
        "The snapshot has no events after this time."
        self.allows_repeats = _allows_repeats(facts)
        "Whether the engine may recommend products again that the user has interacted with."
        self.consumed_kinds = _consumed_kinds(facts)
        "Event types after which a product is not shown again, although products with other events are."
        self.fresh: Scores = np.zeros(0, np.float32)
        self.disabled_parts: dict[str, str] = {}
        "Name of a custom part that failed -> its error."
        self._factors: Mapping[str, float] = facts["recipe"].get("events", {}).get("weights", {})
        self._item_count = len(learned.snapshot.items)
        self._items: Codes = np.full(0, -1, np.int32)
        self._slot_of: Rows = np.zeros(0, np.int64)
        self._row_of: Rows = np.full(self._item_count, -1, np.int64)
        self.slot_map = SlotMap(self._item_count, self._slot_of, self._row_of)
        "Maps rows to positions in scores: first the items, then all other products."
        self._basket_scorer = (
            None if learned.baskets is None else _build_scorer("learned:baskets", learned.baskets, 1.0)
        )
        self._covered = 0
        self._before: Floats = np.zeros(0)
        self.has_unseen_weights = any(part.weight_unseen is not None for part in learned.blend.parts)
        "Whether lists without products of the user's history have weights of their own."
        self._scorers = _build_scorers(learned.blend)
        self._scorers_unseen = (
            _build_scorers(learned.blend.for_unseen()) if self.has_unseen_weights else self._scorers
        )
        self.history_depth = _find_history_depth(learned)
        "Number of newest distinct items of a history that the parts use."
        self._weights = {scorer.name: scorer.weight for scorer in self._scorers}
        self._weights_unseen = {scorer.name: scorer.weight for scorer in self._scorers_unseen}
        self._weight = sum(scorer.weight for scorer in self._scorers)
        self._weight_unseen = sum(scorer.weight for scorer in self._scorers_unseen)
        self.bind_rows(product_ids)

    def bind_rows(self, product_ids: Sequence[str]) -> None:
        """Find the items of rows that were added since the last call.

        Cost:
            30 ms for 100,000 rows, nothing when there are none
        """
        count = len(product_ids)
        if count <= self._covered:
            return
        names = self.learned.snapshot.items
        added = product_ids[self._covered : count]
        few = len(added) <= _FEW
        codes = np.array([names.code(name) for name in added] if few else names.codes(added), np.int64)
        # Grows by more than needed, so that single new products cost no copy of the whole array.
        self._items = ensure_capacity(self._items, count, -1)
        self._items[self._covered : count] = codes
        unknown = np.flatnonzero(codes < 0)
        slots = self.slot_map.count + len(unknown)
        # Products without an item get slots behind the items, so one array holds the scores of both.
        codes[unknown] = np.arange(self.slot_map.count, slots)
        self._slot_of = ensure_capacity(self._slot_of, count)
        self._row_of = ensure_capacity(self._row_of, slots, -1)
        self._slot_of[self._covered : count] = codes
        self._row_of[codes] = np.arange(self._covered, count)
        self.slot_map = SlotMap(slots, self._slot_of[:count], self._row_of[:slots])
        self._covered = count

    def get_items(self, count: int) -> Codes:
        """Return the items of the first `count` rows.

        Shapes:
            returns: int32 [count], -1 where the snapshot has none
        """
        return self._items[:count]

    def record_learned_votes(self, votes: Floats, since: Floats) -> None:
        """Store how many votes of each row the snapshot was trained with.

        Shapes:
            votes, since: float64 [n], all votes and those after `learned_until_ms`
        """
        # Rounding may put the difference of the two counts below 0.
        self._before = np.where(self._snapshot_mask(len(votes)), np.maximum(votes - since, 0.0), 0.0)

    def get_learned_votes(self, count: int) -> Floats:
        """Return how many votes of each row the snapshot was trained with.

        Shapes:
            returns: float64 [count]
        """
        self._before = ensure_capacity(self._before, count)
        return self._before[:count]

    def refresh(self, votes: Floats) -> None:
        """Recompute `fresh`, the share of each row's votes that is newer than the snapshot.

        Shapes:
            votes: float64 [n]
        """
        count = len(votes)
        before = self.get_learned_votes(count)
        # The bound avoids a division by zero; `np.where` then replaces the value.
        fresh = 1.0 - before / np.maximum(votes, 1e-9)
        self.fresh = np.where(before > 0, np.clip(fresh, 0.0, 1.0), 1.0).astype(np.float32)

    def get_part_weights(self, *, unseen: bool) -> Mapping[str, float]:
        """Return the weight of each component of the personal score in the lists of users with a history."""
        return self._weights_unseen if unseen else self._weights

    def clear_caches(self) -> None:
        """Drop all scores that were kept for users."""
        for part in self.learned.blend.parts:
            if isinstance(part.model, TransformerModel):
                part.model.cache.clear()

    def build_history(self, steps: WeightedInteractions, now_ms: int) -> UserHistory:
        """Convert a user's events to the user history of the snapshot; no event is later than now."""
        items = self._items
        rows = np.array(steps.rows, np.int64)
        at_s = np.array(steps.at_ms, np.float64) / 1000.0
        # Clocks of machines differ, so an event may be later than the clock of this one.
        now_s = max(now_ms / 1000.0, float(at_s.max(initial=0.0)))
        codes = np.full(len(rows), -1, np.int64)
        inside = rows < len(items)
        codes[inside] = items[rows[inside]]
        weights = steps.weights
        # Most recipes keep the weights of events: no second list for each request.
        if self._factors:
            # Bound as in a training.
            weights = [
                min(max(weight * self._kind_factor(kind), -1.0), 1.0)
                for weight, kind in zip(steps.weights, steps.kinds, strict=True)
            ]
        return UserHistory.of(codes, at_s, weights, now_s)

    def contributions(self, past: UserHistory, *, unseen: bool = False) -> list[SparseScores | DenseScores]:
        """Return the contribution of each component to the scores of products for a user.

        `unseen` means a list without products of the user's history.
        """
        return self._score_safely(self._scorers_unseen if unseen else self._scorers, past)

    def cold_start_contributions(
        self, past: UserHistory, features: Any, *, unseen: bool = False
    ) -> Scores | None:
        """Score cold-start products for a user by their features; None if this is impossible.

        Shapes:
            features: CSR float32 [k, features]
            returns: float32 [k], fresh
        """
        content = self.learned.content
        if content is None or features is None or not len(past):
            return None
        weight = self._weight_unseen if unseen else self._weight
        return content.score_past(past, features) * np.float32(_CONTENT * weight)

    def similar_contributions(self, past: UserHistory) -> list[SparseScores | DenseScores]:
        """Return the scores of products that fit a history, from the parts with a `quick` method.

        The products of the history are no answers, so these are the weights of lists without them.
        """
        quick = [scorer for scorer in self._scorers_unseen if scorer.score_sparse is not None]
        return self._score_safely(quick, past)

    def basket_contributions(self, past: UserHistory) -> SparseScores | DenseScores | None:
        """Return the scores of products bought together with a history; None without such a model or any score."""
        if self._basket_scorer is None or not len(past):
            return None
        scores = self._score(self._basket_scorer, past)
        return scores if scores.count else None

    def prior_contributions(self, counts: DecayedCounts, offered: Mask) -> Iterator[tuple[BlendPart, Floats]]:
        """Yield the user-independent parts of the blend with their values by row.

        Popularity with a half-life comes from live counts as soon as these have enough votes.

        Shapes:
            offered: bool [n]
            yields: values float64 [n]
        """
        count = len(offered)
        for part in self.learned.blend.parts:
            weights = (part.weight, part.weight_new, part.unseen_list_weight)
            if isinstance(part.model, SharedScoresModel) and any(weights):
                scores = self._read_shared_scores(f"learned:{part.name}", part.model)
                if scores is None:
                    continue
                values = self.expand_to_rows(scores, count)
                if (
                    isinstance(part.model, PopularityModel)
                    and part.model.half_life_days in counts.half_lives_days
                ):
                    values = self._add_live_counts(part.model, values, counts)
                yield part, values

    def expand_to_rows(self, values: npt.NDArray[np.floating], count: int) -> Floats:
        """Return the values of items by row; 0 where the snapshot has no item.

        Shapes:
            values: float [items]
            returns: float64 [count]
        """
        items = self._items[:count]
        expanded: Floats = np.zeros(count)
        if len(values):
            # a plain array: with a memmap, every step creates another memmap object
            expanded[: len(items)] = np.where(
                items >= 0, np.take(np.asarray(values), items, mode="clip"), 0.0
            )
        return expanded

    def _score_safely(
        self, scorers: Sequence[ModelScorer], past: UserHistory
    ) -> list[SparseScores | DenseScores]:
        """Return the scores of some parts; disable a part that fails, so that the other parts still score."""
        parts: list[SparseScores | DenseScores] = []
        if not len(past):
            return parts
        for scorer in scorers:
            if scorer.name in self.disabled_parts:
                continue
            try:
                parts.append(self._score(scorer, past))
            except Exception as error:  # noqa: BLE001
                # Until the next snapshot: a part that fails once would fail in every request and slow it.
                self.disabled_parts[scorer.name] = repr(error)
        return parts

    def _read_shared_scores(self, name: str, model: SharedScoresModel) -> Scores | None:
        """Return the scores of a user-independent part; None and disable it if it is custom and fails."""
        if is_builtin(model):
            return model.common()
        if name in self.disabled_parts:
            return None
        try:
            values = model.common()
            _validate_scores(values, (self._item_count,))
        except Exception as error:  # noqa: BLE001
            self.disabled_parts[name] = repr(error)
            return None
        return values

    def _score(self, scorer: ModelScorer, past: UserHistory) -> SparseScores | DenseScores:
        count = self._item_count
        if scorer.score_sparse is not None and scorer.add_scores is None:
            items, values = scorer.score_sparse(past)
            if not scorer.is_builtin:
                _validate_scores(values, (len(items),))
                _validate_items(items, count)
            # b_k s(y_k) (equation 8): absent items count as 0 in the deviation
            scale = compute_sparse_scale(items, values, count, distinct=scorer.has_distinct_items)
            factor = scorer.weight * scale
            return SparseScores(scorer.name, items, values * np.float32(factor))
        # As long as the slots, not the items: other components add to the same array.
        total = np.zeros(self.slot_map.count, np.float32)
        many = count
        if scorer.add_scores is not None:
            many = scorer.add_scores(total, past)
        else:
            total[:count] = _score_all(scorer, past, count)
        if not scorer.is_builtin:
            _validate_scores(total, total.shape)
        # The deviation is that of items alone: slots behind them are no part of what was trained.
        total *= np.float32(scorer.weight * compute_dense_scale(total, count))
        return DenseScores(scorer.name, total, many)

    def _add_live_counts(self, model: PopularityModel, learned: Floats, counts: DecayedCounts) -> Floats:
        days = model.half_life_days or 1.0
        # As they were at the time of the snapshot: counts of now have the same order, but other rounding errors in each
        # replica, because no two replicas compute them in the same millisecond. Later where the snapshot is very old.
        at_ms = max(self.newest_ms, counts.newest_ms - _MOST_HALVINGS * days * DAY_MS)
        # The snapshot has counts raised to a power; the inverse makes them comparable with live counts.
        past = learned ** (1.0 / model.power) * np.exp2((self.newest_ms - at_ms) / (days * DAY_MS))
        live = counts.get_counts_at(days, len(learned), at_ms)
        # live counts usually include the past; if they do not (trained on other data), add both
        votes = live if live.sum() >= _ENOUGH_LIVE * past.sum() else live + past
        raised: Floats = votes**model.power
        return raised

    def _snapshot_mask(self, count: int) -> Mask:
        mask: Mask = np.zeros(count, np.bool_)
        items = self._items[:count]
        mask[: len(items)] = items >= 0
        return mask

    def _kind_factor(self, kind: str) -> float:
        return self._factors[kind] / EVENT_WEIGHTS[kind] if kind in self._factors else 1.0


def _build_scorers(blend: Blend) -> list[ModelScorer]:
    """Return a scorer of each part with a weight that scores items for single users."""
    return [
        _build_scorer(f"learned:{part.name}", part.model, part.weight)
        for part in blend.parts
        if part.weight and not isinstance(part.model, SharedScoresModel)
    ]


def _find_history_depth(learned: LoadedSnapshot) -> int:
    """Return how many newest distinct items count in a part; a custom one may use as many as a recent list has."""
    # A chained `is`: both re-rankers are missing.
    depths = [0 if learned.reranker is learned.search_reranker is None else NEWEST_EVENTS]
    for model in (*(part.model for part in learned.blend.parts), learned.content):
        fading = getattr(model, "fading", None)
        if isinstance(fading, TimeDecay):
            depths.append(fading.depth)
        elif isinstance(model, TransformerModel):
            depths.append(model.config.events)
        elif isinstance(model, Model) and not (is_builtin(model) or isinstance(model, SharedScoresModel)):
            depths.append(TimeDecay().newest)
    return max(depths)


def _build_scorer(name: str, model: Model, weight: float) -> ModelScorer:
    # checked once: a protocol check costs more than the scores
    quick = model.quick if isinstance(model, SingleUserModel) else None
    add = model.add_to if isinstance(model, AccumulatingModel) else None
    return ModelScorer(
        name, model, weight, quick, add, is_builtin(model), isinstance(model, TransformerModel)
    )


def _score_all(scorer: ModelScorer, past: UserHistory, count: int) -> Scores:
    values: Scores = scorer.model.score(past.to_histories(count))[0]
    if not scorer.is_builtin:
        _validate_scores(values, (count,))
    return values


def _validate_scores(values: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """Check that the scores of a custom model are finite and of one shape: a single NaN would spoil every list.

    Errors:
        ValueError: the shape is another, or a score is not finite
    """
    if np.shape(values) != shape or not np.isfinite(values).all():
        raise ValueError(f"its answer is no finite numbers of the shape {shape}")


def _validate_items(items: npt.NDArray[np.integer], count: int) -> None:
    """Check that the items of a custom model exist in the snapshot.

    Errors:
        ValueError: an item is out of range
    """
    if len(items) and not 0 <= items.min() <= items.max() < count:
        raise ValueError(f"it speaks of items that are not among its {count}")


def _allows_repeats(facts: Mapping[str, Any]) -> bool:
    """Return whether validation chose to recommend seen products again."""
    seen = facts["recipe"].get("validation", {}).get("seen")
    if seen == "paused":  # products return by the pauses of the engine alone, whatever repeats weigh
        return False
    # Validation gave repeats a weight only where users of this shop take products again (decision 8).
    weighty = any(part["learner"] == "repeats" and part["weight"] for part in facts["parts"])
    return weighty or seen in ("allowed", "other_kinds")


def _consumed_kinds(facts: Mapping[str, Any]) -> frozenset[str]:
    """Return the event types after which a product is not recommended again."""
    validation = facts["recipe"].get("validation", {})
    return frozenset(validation.get("kinds", ()) if validation.get("seen") == "other_kinds" else ())
