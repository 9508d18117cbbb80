"""Products without events, ranked among themselves for users with a history, as a recommender serves them.

A tenth of the items is taken out of training; the recommender has all products. Users who took some of the tenth are
asked, with a filter on it. Beside it stand references: what the history is like, a ridge regression to learned vectors,
and the same snapshot without its content.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import scipy.sparse as sp

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.features import build_feature_matrix, features_from_product
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from actors.vectors.vocabulary import Vocabulary
from cluster.query.language.parser import parse as parse_filter
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import build_content_weights, train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit, Targets
from jobs.refresh.evaluation import metrics
from jobs.refresh.learners.als import AlsLearner, AlsRecipe
from jobs.refresh.learners.content_regression import ContentRecipe, select_frequent_features
from jobs.refresh.recipe import parse_recipe
from tests.benchmarks import quality_sets as sets

RECIPE = {
    "parts": {
        "ease": {"learner": "ease"},
        "rules": {"learner": "rules"},
        "trend": {"learner": "popularity"},
    },
    "blend": {"weights": {"ease": 1.0, "rules": 0.5, "trend": 0.1}, "weights_new": {"trend": 1.0}},
}
USERS = 600
NOW_MS = 1_900_000_000_000
_ONLY_COLD = parse_filter("margin:[1 TO *]")
_NO_FADING = TimeDecay(half_life_items=None)


def films() -> tuple[Interactions, list[dict[str, Any]]]:
    """Give films with genres as tags."""
    data, genres = sets.movielens_small(), sets.genres()
    rows = sets.film_titles()
    names = data.items.names.to_pylist()
    return data, [{"product_id": name, "title": rows[name], "tags": genres[name]} for name in names]


def toys() -> tuple[Interactions, list[dict[str, Any]]]:
    """Give toys with numbers of categories and brands as tags."""
    data = sets.amazon_toys()
    with gzip.open(sets.data_folder() / "amazon-toys" / "item2attributes.json.gz") as stream:
        named = json.load(stream)
    names = data.items.names.to_pylist()
    return data, [
        {"product_id": name, "title": "", "tags": [f"a{number}" for number in named.get(name, ())]}
        for name in names
    ]


def gifts() -> tuple[Interactions, list[dict[str, Any]]]:
    """Give the gift shop's products with titles and usual prices; they have no category and no brand."""
    data, rows, prices = sets.online_retail(), sets.titles(), sets.prices()
    names = data.items.names.to_pylist()
    return data, [
        {"product_id": name, "title": rows.get(name, ""), "price": prices.get(name)} for name in names
    ]


SETS: Mapping[str, Callable[[], tuple[Interactions, list[dict[str, Any]]]]] = {
    "ml-latest-small": films,
    "amazon-toys": toys,
    "online-retail-y1": gifts,
}


def measure(name: str) -> list[tuple[str, float]]:
    """Give NDCG@10 of every way to rank new items."""
    trial, products, cold = _hide_new_items(name)
    return [
        *_references(trial, products, cold),
        ("kiosk, kin of the embedding", _served(trial, products, cold, None)),
        ("kiosk, content learned", _served(trial, products, cold, ContentRecipe())),
    ]


def measure_learned_content(name: str) -> float:
    """Give NDCG@10 of new items as Kiosk ranks them with what it learned of their content."""
    trial, products, cold = _hide_new_items(name)
    return _served(trial, products, cold, ContentRecipe())


def _hide_new_items(name: str) -> tuple[EvaluationSplit, list[dict[str, Any]], Any]:
    """Give a trial on a tenth of the items, all products, and which of them are new; these have the margin 1."""
    data, products = SETS[name]()
    cold = np.random.default_rng(3).random(data.n_items) < 0.1
    products = [{**product, "margin": float(new)} for product, new in zip(products, cold, strict=True)]
    return _trial(data, cold), products, cold


def _trial(data: Interactions, cold: Any) -> EvaluationSplit:
    rng = np.random.default_rng(3)
    train, targeted = data.pick(~cold[data.item]), data.pick(cold[data.item])
    users = np.unique(targeted.reader)
    targets = Targets.from_pairs(np.searchsorted(users, targeted.reader), targeted.item, len(users))
    trial = EvaluationSplit("new items", train, UserHistories.of(train, users), targets, "allowed")
    return trial.pick(np.flatnonzero(trial.histories.lengths > 0)).sample(USERS, rng)


def _references(
    trial: EvaluationSplit, products: Sequence[Mapping[str, Any]], cold: Any
) -> list[tuple[str, float]]:
    lists = [features_from_product(product) for product in products]
    names = select_frequent_features(lists, 3_000)
    plain = build_feature_matrix(lists, names)
    seen_by = np.asarray(plain.sum(axis=0)).ravel()
    weighed = plain @ sp.diags_array(np.log(len(lists) / seen_by))
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel())
    unit = (sp.diags_array(1 / np.maximum(lengths, 1e-9)) @ weighed).tocsr()
    history = apply_time_decay(trial.histories, _NO_FADING)
    new, old = np.flatnonzero(cold), np.flatnonzero(~cold)
    references = []
    for power in (1, 2):
        alike = (unit @ unit[new].T).toarray() ** power
        references.append((f"history mean of attributes, power {power}", _ndcg(trial, new, history @ alike)))
    model = AlsLearner(AlsRecipe(fading=_NO_FADING)).train(trial.train, np.random.default_rng(3))
    for regularisation in (10.0, 50.0):
        gram = (plain[old].T @ plain[old]).toarray() + regularisation * np.eye(len(names))
        vectors = plain[new] @ np.linalg.solve(gram, plain[old].T @ model.items[old])
        scores = model.compute_user_vectors(trial.histories) @ vectors.T
        references.append((f"ridge to ALS vectors, lambda {regularisation:g}", _ndcg(trial, new, scores)))
    return references


def _ndcg(trial: EvaluationSplit, new: Any, scores: Any) -> float:
    lists = new[metrics.rank_top_items(np.asarray(scores, np.float32), 10)]
    return _ndcg_of(trial, lists)


def _ndcg_of(trial: EvaluationSplit, lists: Any) -> float:
    hits = metrics.mark_hits(lists, trial.targets, trial.histories.n_items)
    return float(metrics.ndcg(hits, trial.targets.lengths, 10).mean())


def _served(
    trial: EvaluationSplit, products: list[dict[str, Any]], cold: Any, recipe: ContentRecipe | None
) -> float:
    """Ask a recommender that has all products and a snapshot of the past."""
    train = _select_items_with_events(trial.train)
    engine = train_engine(parse_recipe(RECIPE), train)
    learners = {name: part.learner for name, part in engine.recipe.parts.items()}
    records = [orjson.dumps(product) for product in products]
    extras = build_content_weights(recipe, records, train, learners, engine.blend) if recipe else {}
    with TemporaryDirectory() as folder:
        manifest = write_model_snapshot(engine, Path(folder) / "one", written_at_ms=1, extras=extras)
        learned = validate_snapshot(Snapshot.open(Path(folder) / "one"), str(manifest.facts["version"]))
        recommender = Recommender(HashingEmbedder())
        recommender.overlay.put_products(products, None)
        recommender.set_serving_model(
            "default", ServingModel(learned, recommender.overlay.catalog.product_ids), NOW_MS
        )
        for turn in range(1, 40):  # products are met some with every refresh
            recommender.overlay.catalog.version += 1
            recommender.default_engine_state.get_item_priors(NOW_MS + turn * 1_000)
        return _ndcg_of(trial, _answers(recommender, trial, [str(row["product_id"]) for row in products]))


def _select_items_with_events(data: Interactions) -> Interactions:
    """Number the items anew: those without events are in no segment, so no training knows their names."""
    items = Vocabulary.from_names(data.items.names.take(pa.array(np.unique(data.item))))
    codes = items.codes(data.items.names)
    return replace(data, items=items, item=codes[data.item], content=None)


def _answers(recommender: Recommender, trial: EvaluationSplit, names: list[str]) -> Any:
    query = UserQuery(
        "user_to_products", "a", "default", user_id="somebody", rows=10, filter=_ONLY_COLD, dedupe=False
    )
    rows = {name: row for row, name in enumerate(names)}
    lists = np.full((len(trial), 10), -1, np.int64)
    for user in range(len(trial)):
        history = trial.histories.select_block(user, user + 1)
        recent = [
            RecentEvent("checkout", (names[item],), NOW_MS - place * 1_000).pack()
            for place, item in enumerate(history.items[::-1][:200].tolist())
        ]
        result = dispatch.answer(recommender, query, recent, (), NOW_MS + 100_000)
        for place, product in enumerate(result.products):
            lists[user, place] = rows[product["product_id"]]
    return lists


if __name__ == "__main__":
    for folder in SETS:
        if sets.has(folder):
            for label, value in measure(folder):
                print(f"{folder:16} {label:36} {value:.4f}", flush=True)
