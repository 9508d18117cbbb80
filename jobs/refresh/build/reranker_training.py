"""Learning of the re-ranker: from logged lists to trees that are certainly better than the blend on later days.

    events ───── before the lists ─────┬──── lists to learn from ────┬──── held-out days ────
                 train the blend       │  score the lists with it    │  compare both orders

The blend that scores the lists knows no event of their days, so a click can't leak into the scores. Histories end at
the moment of the list. The trees that serve learn from all days. Searches have the score of the log, from before the
click: it holds what the words contribute, which nothing else knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import floor
from typing import Any

import numpy as np

from actors.models.blend import Blend
from actors.models.model import Batch, SharedScoresModel
from actors.models.reranker import ProductFacts, Reranker, build_rows
from actors.models.standardized_scores import StandardizedScores
from actors.models.tree_ensemble import TreeEnsemble
from actors.models.user_histories import DAY_S, UserHistories
from actors.models.user_history import UserHistory
from actors.vectors.row_selection import best_few, expand_runs
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats, Mask, Rows
from cluster.errors import KioskError
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.served_lists import ServedLists
from jobs.refresh.data.split import split_at
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.evaluation.gate import check_reranker
from jobs.refresh.evaluation.position_bias import compare_rankings, estimate_examination
from jobs.refresh.evaluation.reports import report_comparison
from jobs.refresh.learners.registry import build_rng
from jobs.refresh.learners.reranker import RankingRows, RerankerRecipe, export_trees, train_trees
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step

_LEARN_SHARE = 0.7
"Share of the lists to learn from; the others are on held-out days."
_EVENTS_BEFORE = 0.5
"Least share of the events that the blend of the lists is trained on."
# Lists scored at once: each needs the scores of every part for its whole catalog.
_BLOCK = 250
_USERS = 1_000
"Users whose later interactions check the re-ranker."


@dataclass(frozen=True, slots=True)
class LearnedReranker:
    """The outcome of the learning."""

    facts: dict[str, Any]
    "For reports: `kept`, `sentence`, the numbers of lists, and the comparisons."
    reranker: Reranker | None = None
    "Learned from all days; None: it is left out."

    def save(self) -> ModelState:
        """Return the state of the re-ranker, without arrays if it is left out."""
        return ModelState({}, {}) if self.reranker is None else self.reranker.save()


@dataclass(frozen=True, slots=True)
class RerankedEngine:
    """An engine whose best items the trees may move, for evaluations."""

    engine: TrainedEngine
    reranker: Reranker

    def score(self, histories: UserHistories) -> Batch:
        """Return the blended scores with what the trees add to the best items.

        Shapes:
            returns: float32 [q, n]
        """
        total = self.engine.score(histories)
        best = [best_few(scores, self.reranker.candidates) for scores in total]
        lengths = np.array([len(items) for items in best], np.int64)
        owners = np.repeat(np.arange(len(best)), lengths)
        # The empty array, because `np.concatenate` refuses an empty list.
        items = np.concatenate([*best, np.zeros(0, np.int64)])
        parts, _ = score_parts(self.engine.blend, histories, owners, items)
        bounds = np.append(0, np.cumsum(lengths))
        for row, past in enumerate(_list_histories(histories)):
            place = slice(bounds[row], bounds[row + 1])
            total[row, items[place]] += self.reranker.score(
                past, items[place], total[row, items[place]], parts[place]
            )
        return total


def learn_reranker(
    recipe: Recipe,
    part: RerankerRecipe,
    data: Interactions,
    lists: ServedLists,
    on_step: StepCallback = ignore_step,
) -> LearnedReranker:
    """Learn a re-ranker for a settled recipe; too little data, or no certain gain, leaves it out with the reason."""
    begin_s = (
        # Not before half of the events: a blend of few events would score the lists unlike the one that
        # serves.
        max(lists.at_s[0], np.quantile(data.at_s, _EVENTS_BEFORE)) if len(lists) and len(data) else np.inf
    )
    usable = int(np.count_nonzero(lists.at_s >= begin_s))
    counts = {"lists": usable, "left_out": {**lists.left_out, "too early": len(lists) - usable}}
    if not data.clock or usable < part.least_lists:
        return _leave_out(
            f"the log has {usable:,} usable lists with a click, and {part.least_lists:,} are necessary",
            counts,
        )
    times = lists.at_s[lists.at_s >= begin_s]
    middle_s = _find_middle(times)
    try:
        on_step("train the blend before the lists")
        # Strictly before the lists: a click of theirs in the data would leak into the scores.
        engine = train_engine(recipe, data.pick(data.at_s < begin_s))
        on_step("learn from lists")
        rows, people = _collect_rows(engine, data, lists, begin_s)
        is_search = len(lists.scores) > 0
        return _learn(part, engine, data, rows, people, times, middle_s, counts, is_search=is_search)
    except KioskError as error:
        return _leave_out(f"it can't be learned: {error.message}", counts)


def _learn(
    part: RerankerRecipe,
    engine: TrainedEngine,
    data: Interactions,
    rows: RankingRows,
    people: Rows,
    times: Floats,
    middle_s: float,
    counts: dict[str, Any],
    *,
    is_search: bool,
) -> LearnedReranker:
    """Learn from the first days, compare on the held-out days, and learn from all days if that is better."""
    seed = engine.recipe.seed
    is_later = times[rows.lists] >= middle_s
    # From the earlier lists only; the later ones judge these trees, and learn only for those that serve.
    trees = TreeEnsemble(export_trees(train_trees(part, rows.pick(~is_later), seed)))
    later = rows.pick(is_later)
    looks = estimate_examination(rows.lists, rows.places, rows.scores, rows.clicks)
    numbers, lists = np.unique(later.lists, return_inverse=True)
    after = later.scores + trees.predict(later.rows)
    compared = compare_rankings(
        lists, later.places, later.clicks, people[numbers], looks, later.scores, after
    )
    names = tuple(entry.name for entry in engine.blend.parts)
    before = Reranker(trees, names, _describe_products(data.pick(data.at_s < middle_s)), part.candidates)
    facts = {
        **counts,
        "later_days": asdict(compared),
        "looks": [round(look, 3) for look in looks.tolist()],
        # What people took says nothing of searches: it has no words.
        "interactions": None if is_search else _compare_interactions(engine, before, data, middle_s),
    }
    decision = check_reranker(facts)
    if not decision.allowed:
        return _leave_out(decision.sentence, facts)
    # From all days now: the comparison decided about the way, not about these trees.
    whole = TreeEnsemble(export_trees(train_trees(part, rows, seed)))
    learned = Reranker(whole, names, _describe_products(data), part.candidates)
    return LearnedReranker({**facts, "kept": True, "sentence": decision.sentence}, learned)


def _leave_out(reason: str, facts: dict[str, Any]) -> LearnedReranker:
    return LearnedReranker({**facts, "kept": False, "sentence": f"left out: {reason}"})


def _find_middle(times: Floats) -> float:
    """Return the begin of the held-out days, or a moment if all lists to learn from are of one day."""
    moment = float(np.quantile(times, _LEARN_SHARE))
    day = floor(moment / DAY_S) * DAY_S
    return day if np.count_nonzero(times < day) >= len(times) / 2 else moment


def _describe_products(data: Interactions) -> ProductFacts:
    liked = data.weight > 0
    return ProductFacts.count(data.item[liked], data.at_s[liked], data.n_items)


def _compare_interactions(
    engine: TrainedEngine, reranker: Reranker, data: Interactions, middle_s: float
) -> dict[str, Any] | None:
    """Compare with the blend alone by what users took on the held-out days, wherever they got it; None: nothing."""
    validation = engine.recipe.validation
    seen = "allowed" if validation.seen == "auto" else validation.seen
    pauses = validation.repeat_after_days
    trial = split_at(data, middle_s, np.inf, seen=seen, kinds=validation.kinds, pauses=pauses)
    trial = trial.sample(_USERS, build_rng(engine.recipe.seed, "reranker"))
    if not len(trial):
        return None
    k = engine.recipe.blend.k
    before, after = (evaluate(scorer, trial, k=k) for scorer in (engine, RerankedEngine(engine, reranker)))
    rng = build_rng(engine.recipe.seed, "intervals")
    return report_comparison(before, after, f"ndcg@{k}", rng).to_dict()


def _collect_rows(
    engine: TrainedEngine, data: Interactions, lists: ServedLists, begin_s: float
) -> tuple[RankingRows, Rows]:
    """Return the rows of the lists since a time, numbered from 0, and the person of each list.

    Each list of an unknown person has a person of its own.
    """
    products = _describe_products(data.pick(data.at_s < begin_s))
    which = np.flatnonzero(lists.at_s >= begin_s)
    lengths = np.diff(lists.starts)[which]
    entries = expand_runs(lists.starts[which], lengths)
    rows = []
    scores = []
    for first in range(0, len(which), _BLOCK):
        block = which[first : first + _BLOCK]
        histories = cut_histories(data, lists.users[block], lists.at_s[block])
        lengths_block = np.diff(lists.starts)[block]
        items = lists.items[expand_runs(lists.starts[block], lengths_block)]
        parts, total = score_parts(
            engine.blend, histories, np.repeat(np.arange(len(block)), lengths_block), items
        )
        if len(lists.scores):
            total = lists.scores[expand_runs(lists.starts[block], lengths_block)]
        bounds = np.append(0, np.cumsum(lengths_block))
        for row, past in enumerate(_list_histories(histories)):
            place = slice(bounds[row], bounds[row + 1])
            rows.append(build_rows(products, past, items[place], total[place], parts[place]))
        scores.append(total)
    table = RankingRows(
        np.concatenate(rows),
        np.concatenate(scores),
        np.repeat(np.arange(len(which)), lengths),
        lists.places[entries],
        lists.clicks[entries],
    )
    users = lists.users[which]
    # Negative numbers name unknown people, each another one, so intervals do not join them.
    return table, np.where(users < 0, -1 - which, users)


def score_parts(blend: Blend, histories: UserHistories, owners: Rows, items: Rows) -> tuple[Floats, Floats]:
    """Return the scaled scores of each part, 0 where it has no weight, and the score of the blend.

    User-independent parts have mean 0, as in a service.

    Shapes:
        owners: int64 [m], history of each item, ascending; items: int64 [m], -1 for unknown ones
        returns: float64 [m, p] and float64 [m]
    """
    has_history = (histories.lengths > 0)[owners]
    has_item = items >= 0
    scores = np.zeros((len(items), len(blend.parts)))
    total = np.zeros(len(items))
    for column, part in enumerate(blend.parts):
        weights = np.where(has_history, part.weight, part.weight_new)
        counted: Mask = has_item & (weights != 0)
        scaled = StandardizedScores.of(part.model, histories)
        scores[counted, column] = scaled.get_scores(owners[counted], items[counted])
        if isinstance(part.model, SharedScoresModel):
            # Serving centres the prior (`zscores`), so the trees must see it with mean 0 here too.
            scores[counted, column] -= float(part.model.common().mean()) * float(scaled.scale[0])
        total += weights * scores[:, column]
    return scores, total


def cut_histories(data: Interactions, users: Rows, at_s: Floats) -> UserHistories:
    """Return the events of users before a time of each.

    Shapes:
        users: int64 [q], -1 for unknown ones, who have no events; at_s: float64 [q]
    """
    bounds = data.starts()
    first = bounds[np.maximum(users, 0)]
    # -1 + 1 is a valid index, and its value is replaced.
    ends = np.where(users >= 0, bounds[users + 1], first)
    counts = [
        # The left side: an event at the moment of the list may be its click, so it is left out.
        np.searchsorted(data.at_s[start:end], moment)
        for start, end, moment in zip(first, ends, at_s, strict=True)
    ]
    lengths = np.array(counts, np.int64)
    rows = expand_runs(first, lengths)
    starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return UserHistories(starts, data.item[rows], data.at_s[rows], data.weight[rows], at_s, data.n_items)


def _list_histories(histories: UserHistories) -> Iterator[UserHistory]:
    """Yield each history as a service builds it for one request."""
    for row in range(len(histories)):
        place = slice(histories.starts[row], histories.starts[row + 1])
        yield UserHistory.of(
            histories.items[place][::-1],
            histories.at_s[place][::-1],
            histories.weights[place][::-1].tolist(),
            float(histories.now_s[row]),
        )
